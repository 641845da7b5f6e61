//! How many look-ups of each directory needed a request, and what was listed for them.
//!
//! A program that knows its files' names (a loader with a manifest, `git status`, many processes at
//! once) looks at one after the other; each name that the kernel has not heard of is a request.
//! After a few of them the directory is listed instead: one request for the name in question and up
//! to 999 others. [`strategy`](super::strategy) decides; this counts, bounded by
//! [`BATCH_DIRECTORIES_MAX`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::strategy::{Extent, Lookups, PageProbe, Probe};
use crate::config::limits::{BATCH_DIRECTORIES_MAX, BATCH_LOOKUPS, CREATE_RUN, FILE_TTL};
use crate::namespace::listing::page::Page;
use crate::sync::Mutex;

/// A page of a directory that was listed for lookups.
#[derive(Clone, Debug)]
pub(in crate::namespace) struct Gathering {
    pub(in crate::namespace) page: Arc<Page>,
    /// Whether it was listed for this very lookup: only that may say that a name is not there.
    pub(in crate::namespace) is_own: bool,
}

/// One entry for each directory. The lock guards the map and what is in it; no other is taken under
/// it.
#[derive(Debug, Default)]
pub(in crate::namespace) struct LookupBatching(Mutex<HashMap<Arc<str>, DirectoryLookups>>);

impl LookupBatching {
    /// A lookup in the directory `prefix` was answered without a request.
    pub(in crate::namespace) fn hit(&self, prefix: &str, now: Duration) {
        if let Some(crowd) = self.0.lock().get_mut(prefix) {
            crowd.hit(now);
        }
    }

    /// Counts a lookup in the directory `prefix` that needs a request, and lets `decide` say which.
    pub(in crate::namespace) fn miss(
        &self,
        prefix: &str,
        now: Duration,
        decide: impl FnOnce(Lookups) -> Probe,
    ) -> Probe {
        self.with(prefix, now, |lookups| {
            let probe = decide(lookups.count(now));
            if let Probe::Page(page) = probe {
                lookups.lists(page);
            }
            probe
        })
    }

    /// A file was made in the directory `prefix`, of the name that was looked up there last.
    pub(in crate::namespace) fn made(&self, prefix: &str, now: Duration) {
        self.with(prefix, now, |crowd| crowd.made(now));
    }

    /// Whether files are being made in the directory `prefix`, one after the other.
    pub(in crate::namespace) fn is_making(&self, prefix: &str, now: Duration) -> bool {
        let directories = self.0.lock();
        let is_making = |crowd: &DirectoryLookups| crowd.is_making() && !crowd.is_over(now);
        directories.get(prefix).is_some_and(is_making)
    }

    /// Does something with the crowd of the directory `prefix`, which is a new one if there is
    /// none.
    fn with<T>(
        &self,
        prefix: &str,
        now: Duration,
        with: impl FnOnce(&mut DirectoryLookups) -> T,
    ) -> T {
        let mut directories = self.0.lock();
        if let Some(crowd) = directories.get_mut(prefix) {
            return with(crowd);
        }
        if directories.len() >= BATCH_DIRECTORIES_MAX {
            directories.retain(|_, crowd| !crowd.is_over(now));
            if directories.len() >= BATCH_DIRECTORIES_MAX {
                directories.clear();
            }
        }
        let crowd = directories.entry(Arc::from(prefix));
        with(crowd.or_insert_with(|| DirectoryLookups::new(now)))
    }

    /// A name of the directory `prefix` was taken for a directory: it was one, or not.
    pub(in crate::namespace) fn guessed(&self, prefix: &str, was_right: bool) {
        if let Some(crowd) = self.0.lock().get_mut(prefix) {
            crowd.was_wrong = !was_right;
        }
    }

    /// Whether the last name of the directory `prefix` that was taken for a directory was none.
    pub(in crate::namespace) fn was_wrong(&self, prefix: &str) -> bool {
        self.0
            .lock()
            .get(prefix)
            .is_some_and(|crowd| crowd.was_wrong)
    }

    /// The directory `prefix` turned out to have more names than a page of a listing.
    pub(in crate::namespace) fn is_large(&self, prefix: &str) {
        if let Some(crowd) = self.0.lock().get_mut(prefix) {
            crowd.is_large = true;
        }
    }
}

/// Lookups of one directory's names.
#[derive(Debug)]
struct DirectoryLookups {
    /// Lookups that needed a request, since the directory was last listed for them.
    misses: u32,
    /// Lookups that were answered by what was known, since then.
    hits: u32,
    /// Misses after which the directory is listed.
    patience: u32,
    /// What was listed last, if anything was.
    listed: Option<Extent>,
    is_large: bool,
    /// The last name that was taken for a directory was none.
    was_wrong: bool,
    run: Run,
    /// When the last lookup came.
    last: Duration,
}

/// Files that are made one after the other.
#[derive(Debug, Default)]
struct Run {
    /// How many were, with nothing looked up between them but their names.
    made: u32,
    /// A name was looked up, and no file was made since.
    is_open: bool,
}

impl DirectoryLookups {
    fn new(now: Duration) -> Self {
        Self {
            misses: 0,
            hits: 0,
            patience: BATCH_LOOKUPS,
            listed: None,
            is_large: false,
            was_wrong: false,
            run: Run::default(),
            last: now,
        }
    }

    fn hit(&mut self, now: Duration) {
        self.begin_if_over(now);
        self.hits = self.hits.saturating_add(1);
    }

    fn made(&mut self, now: Duration) {
        self.begin_if_over(now);
        self.run.made = self.run.made.saturating_add(1);
        self.run.is_open = false;
    }

    fn is_making(&self) -> bool {
        self.run.made >= CREATE_RUN
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

    /// Counts a lookup that needs a request.
    fn count(&mut self, now: Duration) -> Lookups {
        self.begin_if_over(now);
        self.misses = self.misses.saturating_add(1);
        if std::mem::replace(&mut self.run.is_open, true) {
            self.run.made = 0;
        }
        Lookups {
            misses: self.misses,
            hits: self.hits,
            misses_max: self.patience,
            listed: self.listed,
            is_large: self.is_large,
            created: self.run.made,
        }
    }

    /// A page is listed for lookups.
    fn lists(&mut self, page: PageProbe) {
        self.listed = Some(page.extent);
        self.patience = page.misses_max;
        (self.misses, self.hits) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::resolve::strategy::{Expected, NameProbe, due};

    /// Asks for the name.
    fn miss(lookups: &LookupBatching, prefix: &str, now: Duration) {
        lookups.miss(prefix, now, |_| Probe::Name(NameProbe::ByName));
    }

    /// Each step is a miss `n`, which asks for the name, as one does that only looks, `l`; `D` for
    /// the directory, `F` from the name on or `A` around it, or of a walk `W` for the directory and
    /// `w` for the name; `m` makes a file; `h` hits; `L` learns that the directory is large; `.`
    /// waits, `,` half as long as makes it over.
    #[track_caller]
    fn check(steps: &str) {
        let mut now = Duration::ZERO;
        let mut crowd = DirectoryLookups::new(now);
        for (index, step) in steps.chars().enumerate() {
            match step {
                'h' => crowd.hit(now),
                'm' => crowd.made(now),
                'L' => crowd.is_large = true,
                '.' => now += FILE_TTL * 2,
                ',' => now += FILE_TTL / 2,
                miss => {
                    let expected = match miss {
                        'n' | 'w' | 'l' => None,
                        'D' | 'W' => Some((Extent::Page, false)),
                        'A' => Some((Extent::Around, true)),
                        _ => Some((Extent::Page, true)),
                    };
                    let behind = match step {
                        'w' | 'W' => Expected::Others,
                        'l' => Expected::Anything,
                        _ => Expected::New,
                    };
                    let page = due(&crowd.count(now), behind);
                    if let Some(page) = page {
                        crowd.lists(page);
                    }
                    let asked = page.map(|page| (page.extent, page.begins_at_name));
                    assert_eq!(asked, expected, "{steps} at {index}");
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
    fn who_makes_files_is_told_what_is_absent() {
        // The third one asks around, and so does the next that was not covered, if that was of use.
        check("nmnmAmhmhmAmhmhmhmA");
        check("nmnmllnmnmA");
        check("nmnmlnmnmA");
        // Not if the names are asked for only, or if they are made slowly.
        check("nnnmnmAm");
        check("nmnnmnmAm");
        check("nm.nm.nm.nm.nm.nm");
        // In a directory where it is of no use it is done ever less often.
        check("nmnmAmnmnmnmnmnmnmnmnmDmnmnmnmnmnmnmnmnmn");
        check("nmnmAmLnmnmnmnmnmnmnmnmFm");
        // A listing of the whole directory that was of use is followed by another one.
        check("nmnmAmnmnmnmnmnmnmnmnmDmhmhmhmDmhmhmLFm");
    }

    #[test]
    fn nobody_makes_files_any_more_when_it_is_over() {
        let lookup_batching = LookupBatching::default();
        for _ in 0..CREATE_RUN {
            assert!(!lookup_batching.is_making("d/", Duration::ZERO));
            miss(&lookup_batching, "d/", Duration::ZERO);
            lookup_batching.made("d/", Duration::ZERO);
        }
        assert!(lookup_batching.is_making("d/", FILE_TTL));
        assert!(!lookup_batching.is_making("d/", FILE_TTL + Duration::from_nanos(1)));
        assert!(!lookup_batching.is_making("e/", Duration::ZERO));
    }

    #[test]
    fn a_wrong_guess_is_remembered_until_a_right_one() {
        let lookup_batching = LookupBatching::default();
        miss(&lookup_batching, "d/", Duration::ZERO);
        assert!(!lookup_batching.was_wrong("d/"));
        lookup_batching.guessed("d/", false);
        miss(&lookup_batching, "d/", FILE_TTL * 9);
        assert!(lookup_batching.was_wrong("d/"));
        lookup_batching.guessed("d/", true);
        assert!(!lookup_batching.was_wrong("d/"));
    }

    #[test]
    fn directories_are_bounded() {
        let lookup_batching = LookupBatching::default();
        for number in 0..3 * BATCH_DIRECTORIES_MAX {
            miss(&lookup_batching, &number.to_string(), Duration::ZERO);
        }
        assert!(lookup_batching.0.lock().len() <= BATCH_DIRECTORIES_MAX);
        lookup_batching.hit("nobody", Duration::ZERO);
        lookup_batching.guessed("nobody", false);
        assert!(!lookup_batching.was_wrong("nobody"));
    }
}
