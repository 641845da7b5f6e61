//! Directories that programs listed to their end a short time ago.
//!
//! A program that opens a subdirectory of one of them may be walking. Pure. Bounded by
//! [`WALK_DIRECTORIES_MAX`] directories and [`WALK_NAMES_MAX`] subdirectories in total; further
//! subdirectories are not recorded.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::namespace::listing::page::{Page, Place};
use crate::namespace::version::Found;

/// The recorded directories, by prefix.
#[derive(Debug, Default)]
pub(super) struct SeenDirectories {
    by_prefix: HashMap<Arc<str>, Seen>,
    /// Number of subdirectories of all recorded directories.
    names: usize,
}

#[derive(Debug)]
struct Seen {
    /// Place of the last page that was read.
    page: Place,
    /// Time of the request for the entries that were shown; `None` until the directory's end was
    /// read.
    asked: Option<Duration>,
    /// Time when a page was read or a directory below was opened, whichever is later.
    touched: Duration,
    /// Number of subdirectories that were opened since the listing.
    opened: u32,
    /// Names of the subdirectories, in the order of the listing.
    subdirectories: Vec<Arc<str>>,
}

/// An `opendir` of a program that may be walking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step<'a> {
    /// The directory that contains the opened one.
    pub(super) parent: &'a str,
    /// The topmost directory that the program has listed on its way.
    pub(super) root: &'a str,
    /// Whether the step may be chance: no other subdirectory of the parent was opened, and the walk
    /// has not descended before.
    pub(super) is_first: bool,
    /// Whether this is the first opened subdirectory of its parent.
    pub(super) is_first_below: bool,
}

impl SeenDirectories {
    /// Records that a program has read all entries of a `page` of the directory `prefix`. Returns
    /// whether the page was the directory's last.
    pub(super) fn page(&mut self, prefix: &str, page: &Page, now: Duration) -> bool {
        let Some(place) = page.place() else {
            return false;
        };
        if let Some(seen) = self.by_prefix.get_mut(prefix)
            && seen.page == place
        {
            seen.touched = now;
            return false;
        }
        if !self.by_prefix.contains_key(prefix) && self.by_prefix.len() >= WALK_DIRECTORIES_MAX {
            self.expire(now);
            if self.by_prefix.len() >= WALK_DIRECTORIES_MAX {
                *self = Self::default();
            }
        }
        let seen = self.by_prefix.entry(Arc::from(prefix));
        let seen = seen.or_insert_with(|| Seen::at(place, now));
        if place.number == 0 || place.listing != seen.page.listing {
            self.names -= seen.subdirectories.len();
            let asked = seen.asked;
            *seen = Seen::at(place, now);
            seen.asked = asked;
        }
        let is_directory = |found: &Found| matches!(found, Found::Directory);
        let entries = page.entries.iter();
        let names = entries.filter(|entry| is_directory(&entry.found));
        let before = seen.subdirectories.len();
        let room = WALK_NAMES_MAX - self.names;
        let names = names.map(|entry| Arc::clone(&entry.name));
        seen.subdirectories.extend(names.take(room));
        self.names += seen.subdirectories.len() - before;
        seen.page = place;
        seen.touched = now;
        if place.is_last {
            seen.asked = seen.asked.max(Some(page.asked));
        }
        place.is_last
    }

    /// Records an `opendir` of `prefix`; returns a step if a walk is likely.
    pub(super) fn open<'a>(&mut self, prefix: &'a str, now: Duration) -> Option<Step<'a>> {
        let parent = parent_of(prefix)?;
        let step = self.by_prefix.get_mut(parent).and_then(|seen| {
            let age_max = match seen.opened {
                0 => WALK_BEGIN_MAX,
                _ => WALK_AGE_MAX,
            };
            let is_step = seen.asked.is_some() && seen.touched + age_max > now;
            seen.opened = if is_step {
                seen.opened.saturating_add(1)
            } else {
                1
            };
            is_step.then_some(seen.opened == 1)
        });
        let mut root = parent;
        let mut above = Some(parent);
        while let Some(prefix) = above {
            let Some(seen) = self.by_prefix.get_mut(prefix) else {
                break;
            };
            if !seen.is_young(now) {
                break;
            }
            seen.touched = now;
            root = prefix;
            above = parent_of(prefix);
        }
        // A program that has already descended is walking, even at its first step in this
        // directory.
        let is_first_below = step?;
        Some(Step {
            parent,
            root,
            is_first: is_first_below && root == parent,
            is_first_below,
        })
    }

    /// Prefixes of at most `count` subdirectories of `parent` that a walk may open after `prefix`.
    ///
    /// The first step returns the subdirectories from `prefix` on and then those in front. A later
    /// step returns those from `prefix` on, and only if `count` was too small for all.
    pub(super) fn to_open(&self, parent: &str, prefix: &str, count: usize) -> Vec<Arc<str>> {
        let Some(seen) = self.by_prefix.get(parent) else {
            return Vec::new();
        };
        let names = &seen.subdirectories;
        let is_first = seen.opened == 1;
        if !is_first && names.len() <= count {
            return Vec::new();
        }
        let name = &prefix[parent.len()..prefix.len() - 1];
        let at = names.iter().position(|other| **other == *name);
        let (before, behind) = names.split_at(at.unwrap_or_default());
        let before = before.iter().rev().take(if is_first { count } else { 0 });
        let names = behind.iter().chain(before).take(count);
        names.map(|name| prefix_of(parent, name)).collect()
    }

    /// Time of the request for the entries of `prefix` that were shown last.
    pub(super) fn asked(&self, prefix: &str) -> Option<Duration> {
        self.by_prefix.get(prefix)?.asked
    }

    /// Whether a program listed the directory `prefix` to its end a short time ago.
    pub(super) fn was_listed(&self, prefix: &str, now: Duration) -> bool {
        let seen = self.by_prefix.get(prefix);
        seen.is_some_and(|seen| seen.is_young(now) && seen.asked.is_some())
    }

    /// Forgets directories that were read too long ago.
    pub(super) fn expire(&mut self, now: Duration) {
        self.by_prefix.retain(|_, seen| seen.is_young(now));
        let seen = self.by_prefix.values();
        self.names = seen.map(|seen| seen.subdirectories.len()).sum();
    }
}

impl Seen {
    fn at(page: Place, now: Duration) -> Self {
        Self {
            page,
            asked: None,
            touched: now,
            opened: 0,
            subdirectories: Vec::new(),
        }
    }

    fn is_young(&self, now: Duration) -> bool {
        self.touched + WALK_AGE_MAX > now
    }
}

/// The prefix of the parent directory.
pub(super) fn parent_of(prefix: &str) -> Option<&str> {
    let path = prefix.strip_suffix('/')?;
    Some(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

/// The prefix of the directory `name` in the directory `parent`.
pub(super) fn prefix_of(parent: &str, name: &str) -> Arc<str> {
    Arc::from([parent, name, "/"].concat())
}

/// How soon after the end of a directory its first subdirectory is opened by a program that walks.
///
/// People who look around take longer.
const WALK_BEGIN_MAX: Duration = Duration::from_secs(1);

/// Names in directories that are listed before they are opened, and subdirectories that walks
/// remember. About 6 MB.
pub(super) const WALK_NAMES_MAX: usize = 32_000;

/// Largest age of a listing made before its directory was opened; less where names may be old for
/// less time. How long a walk is remembered.
pub(crate) const WALK_AGE_MAX: Duration = Duration::from_secs(10);

/// Directories of walks that are remembered, whether listed to their end or to be opened.
pub(super) const WALK_DIRECTORIES_MAX: usize = 4_096;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::listing::page::Listed;

    fn at(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    fn page(names: &[&str]) -> Page {
        let listed = |name: &&str| Listed {
            name: Arc::from(*name),
            found: Found::Directory,
            is_certain: true,
        };
        Page::whole(names.iter().map(listed).collect(), Duration::ZERO)
    }

    #[test]
    fn parents() {
        for (prefix, parent) in [
            ("", None),
            ("a/", Some("")),
            ("a/b/", Some("a/")),
            ("a/b/c/", Some("a/b/")),
        ] {
            assert_eq!(parent_of(prefix), parent);
        }
    }

    #[test]
    fn a_subdirectory_of_what_was_just_listed_is_a_step() {
        let mut seen = SeenDirectories::default();
        assert_eq!(seen.open("t/a/", at(0)), None);
        seen.page("t/", &page(&["a", "b", "c"]), at(0));
        assert!(seen.was_listed("t/", at(1)) && !seen.was_listed("u/", at(1)));
        let step = |is_first| Step {
            parent: "t/",
            root: "t/",
            is_first,
            is_first_below: is_first,
        };
        assert_eq!(seen.open("t/a/", at(1)), Some(step(true)));
        assert_eq!(seen.open("u/a/", at(1)), None);
        assert_eq!(seen.open("t/", at(1)), None);
        // A step below keeps the directory.
        let age = u64::try_from(WALK_AGE_MAX.as_millis()).unwrap();
        assert_eq!(seen.open("t/b/", at(age)), Some(step(false)));
        assert_eq!(seen.open("t/c/", at(2 * age)), None);
        seen.expire(at(5 * age));
        assert!(seen.by_prefix.is_empty());
    }

    /// A person at a terminal is slower than a program.
    #[test]
    fn what_was_listed_long_ago_begins_no_walk() {
        let mut seen = SeenDirectories::default();
        seen.page("t/", &page(&["a", "b"]), at(0));
        let begin = at(0) + WALK_BEGIN_MAX;
        assert_eq!(seen.open("t/a/", begin), None);
        assert!(seen.open("t/b/", begin).is_some(), "the second one does");
    }

    #[test]
    fn the_root_of_a_walk_is_the_topmost_that_it_has_listed() {
        let mut seen = SeenDirectories::default();
        for prefix in ["t/", "t/a/", "t/a/b/", "x/y/z/"] {
            seen.page(prefix, &page(&["a", "b", "c"]), at(0));
        }
        for (prefix, parent, root, is_first, is_first_below) in [
            ("t/a/b/c/", "t/a/b/", "t/", false, true),
            ("t/b/", "t/", "t/", true, true),
            ("x/y/z/a/", "x/y/z/", "x/y/z/", true, true),
            ("x/y/z/b/", "x/y/z/", "x/y/z/", false, false),
        ] {
            let step = Step {
                parent,
                root,
                is_first,
                is_first_below,
            };
            assert_eq!(seen.open(prefix, at(1)), Some(step));
        }
    }

    #[test]
    fn subdirectories_are_told_of_once() {
        let mut seen = SeenDirectories::default();
        seen.page("t/", &page(&["a", "b", "c"]), at(0));
        let told = |seen: &SeenDirectories, prefix, count| {
            let told = seen.to_open("t/", prefix, count);
            told.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        seen.open("t/b/", at(1));
        assert_eq!(told(&seen, "t/b/", 9), ["t/b/", "t/c/", "t/a/"]);
        assert_eq!(told(&seen, "t/b/", 1), ["t/b/"]);
        seen.open("t/c/", at(1));
        assert_eq!(told(&seen, "t/c/", 9), Vec::<String>::new());
        assert_eq!(told(&seen, "t/b/", 2), ["t/b/", "t/c/"]);
    }

    #[test]
    fn they_are_bounded() {
        let mut seen = SeenDirectories::default();
        for number in 0..2 * WALK_DIRECTORIES_MAX {
            let names = ["a"; 100];
            seen.page(&format!("{number}/"), &page(&names), at(0));
            assert!(seen.by_prefix.len() <= WALK_DIRECTORIES_MAX);
            let names = seen.by_prefix.values();
            let names: usize = names.map(|seen| seen.subdirectories.len()).sum();
            assert_eq!(seen.names, names);
            assert!(seen.names <= WALK_NAMES_MAX);
        }
    }
}
