//! When a directory is listed although only some of its names were asked for.
//!
//! A program that knows its files' names (a loader with a manifest, `git status`, many processes at once) looks at one
//! after the other; each name that the kernel has not heard of is a request. After a few of them the directory is
//! listed instead: one request for the name in question and up to 999 others. Where that turns out to answer few of
//! the lookups that follow (random names of a huge directory), it is done ever less often.
//!
//! [`Crowd`] is pure. [`Crowds`] keeps one for each directory, and is bounded by [`CROWDS_MAX`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::config::limits::{CROWD_LOOKUPS, CROWD_LOOKUPS_MAX, CROWDS_MAX, FILE_TTL};
use crate::sync::Mutex;

/// How a name is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// The name alone.
    Name,
    /// The directory, from its first name on.
    Directory,
    /// The directory from about this name on: it has more names than one page of a listing.
    DirectoryFromName,
}

/// All crowds. The lock guards the map and the crowds in it; no other is taken under it.
#[derive(Debug, Default)]
pub(super) struct Crowds(Mutex<HashMap<Arc<str>, Crowd>>);

impl Crowds {
    /// A lookup in the directory `prefix` was answered without a request.
    pub(super) fn hit(&self, prefix: &str, now: Duration) {
        if let Some(crowd) = self.0.lock().get_mut(prefix) {
            crowd.hit(now);
        }
    }

    /// A lookup in the directory `prefix` needs a request: which one? `is_walked` tells that its other names will be
    /// looked up next.
    pub(super) fn miss(&self, prefix: &Arc<str>, is_walked: bool, now: Duration) -> Ask {
        let mut crowds = self.0.lock();
        if crowds.len() >= CROWDS_MAX && !crowds.contains_key(prefix) {
            crowds.retain(|_, crowd| !crowd.is_over(now));
            if crowds.len() >= CROWDS_MAX {
                crowds.clear();
            }
        }
        let crowd = crowds
            .entry(Arc::clone(prefix))
            .or_insert_with(|| Crowd::new(now));
        crowd.miss(is_walked, now)
    }

    /// A name of the directory `prefix` was taken for a directory: it was one, or not.
    pub(super) fn guessed(&self, prefix: &str, was_right: bool) {
        if let Some(crowd) = self.0.lock().get_mut(prefix) {
            crowd.was_wrong = !was_right;
        }
    }

    /// Whether the last name of the directory `prefix` that was taken for a directory was none.
    pub(super) fn was_wrong(&self, prefix: &str) -> bool {
        self.0
            .lock()
            .get(prefix)
            .is_some_and(|crowd| crowd.was_wrong)
    }

    /// The directory `prefix` turned out to have more names than a page of a listing.
    pub(super) fn is_large(&self, prefix: &str) {
        if let Some(crowd) = self.0.lock().get_mut(prefix) {
            crowd.is_large = true;
        }
    }
}

/// Lookups of one directory's names.
#[derive(Debug)]
struct Crowd {
    /// Lookups that needed a request, since the directory was last listed for them.
    misses: u32,
    /// Lookups that were answered by what was known, since then.
    hits: u32,
    /// Misses after which the directory is listed.
    patience: u32,
    was_listed: bool,
    is_large: bool,
    /// The last name that was taken for a directory was none.
    was_wrong: bool,
    /// When the last lookup came.
    last: Duration,
}

impl Crowd {
    fn new(now: Duration) -> Self {
        Self {
            misses: 0,
            hits: 0,
            patience: CROWD_LOOKUPS,
            was_listed: false,
            is_large: false,
            was_wrong: false,
            last: now,
        }
    }

    fn hit(&mut self, now: Duration) {
        self.begin_if_over(now);
        self.hits = self.hits.saturating_add(1);
    }

    /// Whether the lookups have become so slow that no listing would answer two of them.
    fn is_over(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) > FILE_TTL
    }

    fn begin_if_over(&mut self, now: Duration) {
        if self.is_over(now) {
            *self = Self {
                is_large: self.is_large,
                was_wrong: self.was_wrong,
                ..Self::new(now)
            };
        }
        self.last = self.last.max(now);
    }

    fn miss(&mut self, is_walked: bool, now: Duration) -> Ask {
        self.begin_if_over(now);
        self.misses = self.misses.saturating_add(1);
        if is_walked && (!self.was_listed || self.hits > 0) {
            self.was_listed = true;
            (self.misses, self.hits) = (0, 0);
            return self.directory();
        }
        let was_of_use = self.was_listed && self.hits >= CROWD_LOOKUPS;
        if !was_of_use && self.misses <= self.patience {
            return Ask::Name;
        }
        if was_of_use {
            self.patience = CROWD_LOOKUPS;
        } else if self.was_listed {
            self.patience = (self.patience * 4).min(CROWD_LOOKUPS_MAX);
        }
        self.was_listed = true;
        (self.misses, self.hits) = (0, 0);
        self.directory()
    }

    fn directory(&self) -> Ask {
        if self.is_large {
            Ask::DirectoryFromName
        } else {
            Ask::Directory
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each step is a miss `n`, which asks for the name, `D` for the directory or `F` from the name on, or of a walk `W` for
    /// the directory and `w` for the name; `h` hits; `L` learns that the directory is large; `.` waits, `,` half as long as
    /// makes it over.
    #[track_caller]
    fn check(steps: &str) {
        let mut now = Duration::ZERO;
        let mut crowd = Crowd::new(now);
        for (index, step) in steps.chars().enumerate() {
            match step {
                'h' => crowd.hit(now),
                'L' => crowd.is_large = true,
                '.' => now += FILE_TTL * 2,
                ',' => now += FILE_TTL / 2,
                miss => {
                    let expected = match miss {
                        'n' => Ask::Name,
                        'D' | 'W' => Ask::Directory,
                        'w' => Ask::Name,
                        _ => Ask::DirectoryFromName,
                    };
                    assert_eq!(
                        crowd.miss(matches!(step, 'w' | 'W'), now),
                        expected,
                        "{steps} at {index}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_few_names_are_asked_for_alone() {
        check("nnnnnnnn");
        check("nnnnnnnn.nnnnnnnn");
    }

    #[test]
    fn the_next_one_asks_for_the_directory() {
        check("nnnnnnnnD");
        check("nnnnnnnnLF");
    }

    #[test]
    fn a_walk_asks_for_the_directory() {
        check("WhWhhhWn");
        // Until that turns out to be of no use.
        check("WwwwwhW");
    }

    #[test]
    fn a_listing_that_was_of_use_is_followed_by_the_next() {
        check("nnnnnnnnDLhhhhhhhhFhhhhhhhhF");
        check("nnnnnnnnDLhhhhhhhhFhhhhhhhnnnnnnn");
        // Also when it answers for as long as it is valid.
        check("nnnnnnnnDLhhhh,hhhh,h,Fhhhhhhhh,,,n");
        // What was of no use is no reason for those who come later, whatever they begin with.
        check("nnnnnnnnDnnnnnnnnDnnnnnnnnn.hhnnnnnnnnD");
    }

    #[test]
    fn one_that_was_not_is_rarer_than_the_last() {
        let eight = "n".repeat(8);
        let many = "n".repeat(32);
        check(&format!(
            "{eight}D{eight}D{many}Dhhh{many}{many}{many}{many}D"
        ));
    }

    #[test]
    fn a_wrong_guess_is_remembered_until_a_right_one() {
        let crowds = Crowds::default();
        crowds.miss(&Arc::from("d/"), false, Duration::ZERO);
        assert!(!crowds.was_wrong("d/"));
        crowds.guessed("d/", false);
        crowds.miss(&Arc::from("d/"), false, FILE_TTL * 9);
        assert!(crowds.was_wrong("d/"));
        crowds.guessed("d/", true);
        assert!(!crowds.was_wrong("d/"));
    }

    #[test]
    fn directories_are_bounded() {
        let crowds = Crowds::default();
        for number in 0..3 * CROWDS_MAX {
            crowds.miss(&Arc::from(number.to_string()), false, Duration::ZERO);
        }
        assert!(crowds.0.lock().len() <= CROWDS_MAX);
        crowds.hit("nobody", Duration::ZERO);
        crowds.guessed("nobody", false);
        assert!(!crowds.was_wrong("nobody"));
    }
}
