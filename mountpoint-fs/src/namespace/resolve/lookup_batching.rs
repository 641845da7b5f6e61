//! Counts of each directory's lookups, and the LISTs that answered them.
//!
//! A program that knows its file names (a loader with a manifest, `git status`, many processes at
//! once) looks up one after the other, and each name costs a request. After a few of them one LIST
//! of the directory answers a lookup and up to 999 further ones. [`strategy`](super::strategy)
//! decides when; this file counts, bounded by [`BATCH_DIRECTORIES_MAX`].

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::strategy::{BATCH_LOOKUPS, CREATE_RUN, Extent, Lookups, PageProbe, Probe};
use crate::config::limits::FILE_TTL;
use crate::namespace::listing::page::Page;
use crate::sync::Mutex;

/// A page of a directory that was listed for lookups.
#[derive(Clone, Debug)]
pub(crate) struct Gathering {
    pub(crate) page: Arc<Page>,
    /// Whether this lookup sent the LIST: only then may the page prove an absence.
    pub(crate) is_own: bool,
}

/// Counts of each directory, by prefix. The lock guards the map and its values; no other lock is
/// taken under it.
#[derive(Debug, Default)]
pub(crate) struct LookupBatching(Mutex<HashMap<Arc<str>, DirectoryLookups>>);

impl LookupBatching {
    /// Counts a lookup in the directory `prefix` that needed no request.
    pub(crate) fn hit(&self, prefix: &str, now: Duration) {
        if let Some(lookups) = self.0.lock().get_mut(prefix) {
            lookups.hit(now);
        }
    }

    /// Counts a lookup in the directory `prefix` that needs a request; `decide` chooses the
    /// request.
    pub(crate) fn miss(
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

    /// Counts a name that was made in the directory `prefix` after a lookup of it.
    pub(crate) fn made(&self, prefix: &str, now: Duration) {
        self.with(prefix, now, |lookups| lookups.made(now));
    }

    /// Whether files are being created in the directory `prefix`, one after the other.
    pub(crate) fn is_making(&self, prefix: &str, now: Duration) -> bool {
        let directories = self.0.lock();
        let is_making = |lookups: &DirectoryLookups| lookups.is_making() && !lookups.is_over(now);
        directories.get(prefix).is_some_and(is_making)
    }

    /// Calls `with` with the counts of the directory `prefix`, new ones if there are none.
    fn with<T>(
        &self,
        prefix: &str,
        now: Duration,
        with: impl FnOnce(&mut DirectoryLookups) -> T,
    ) -> T {
        let mut directories = self.0.lock();
        if let Some(lookups) = directories.get_mut(prefix) {
            return with(lookups);
        }
        if directories.len() >= BATCH_DIRECTORIES_MAX {
            directories.retain(|_, lookups| !lookups.is_over(now));
            if directories.len() >= BATCH_DIRECTORIES_MAX {
                directories.clear();
            }
        }
        let lookups = directories.entry(Arc::from(prefix));
        with(lookups.or_insert_with(|| DirectoryLookups::new(now)))
    }

    /// Records whether the prediction of a subdirectory in the directory `prefix` was right.
    pub(crate) fn guessed(&self, prefix: &str, was_right: bool) {
        if let Some(lookups) = self.0.lock().get_mut(prefix) {
            lookups.was_wrong = !was_right;
        }
    }

    /// Whether the last prediction of a subdirectory in the directory `prefix` was wrong.
    pub(crate) fn was_wrong(&self, prefix: &str) -> bool {
        self.0
            .lock()
            .get(prefix)
            .is_some_and(|lookups| lookups.was_wrong)
    }

    /// Records that the directory `prefix` has more names than one page.
    pub(crate) fn is_large(&self, prefix: &str) {
        if let Some(lookups) = self.0.lock().get_mut(prefix) {
            lookups.is_large = true;
        }
    }
}

/// Counts of one directory's lookups.
#[derive(Debug)]
struct DirectoryLookups {
    /// Lookups that needed a request, since the last LIST.
    misses: u32,
    /// Lookups that needed no request, since the last LIST.
    hits: u32,
    /// Misses before the next LIST.
    misses_max: u32,
    /// Extent of the last LIST; `None` before the first.
    listed: Option<Extent>,
    is_large: bool,
    /// Whether the last prediction of a subdirectory was wrong.
    was_wrong: bool,
    run: Run,
    /// Time of the last lookup.
    last: Duration,
}

/// Names that are made one after the other.
#[derive(Debug, Default)]
struct Run {
    /// Number of names made in a row, without a lookup of any other name between them.
    made: u32,
    /// Whether a name was looked up after the last creation.
    is_open: bool,
}

impl DirectoryLookups {
    fn new(now: Duration) -> Self {
        Self {
            misses: 0,
            hits: 0,
            misses_max: BATCH_LOOKUPS,
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

    /// Whether the last lookup is too old for a LIST to answer two lookups.
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
            misses_max: self.misses_max,
            listed: self.listed,
            is_large: self.is_large,
            created: self.run.made,
        }
    }

    /// Records a LIST for lookups.
    fn lists(&mut self, page: PageProbe) {
        self.listed = Some(page.extent);
        self.misses_max = page.misses_max;
        (self.misses, self.hits) = (0, 0);
    }
}

/// Directories whose lookups are counted.
const BATCH_DIRECTORIES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::resolve::strategy::due;

    /// Counts a lookup that requests its name alone.
    fn miss(lookups: &LookupBatching, prefix: &str, now: Duration) {
        lookups.miss(prefix, now, |_| Probe::Name);
    }

    /// Runs `steps`. Misses: `n` requests the name before a creation, `l` without one; `D` requests
    /// the directory, `F` a page from the name on, `A` a few names around it; in a walk `W`
    /// requests the directory and `w` the name. `m` creates a file; `h` is a hit; `L` marks the
    /// directory as large; `.` waits twice `FILE_TTL`, `,` half of it.
    #[track_caller]
    fn check(steps: &str) {
        let mut now = Duration::ZERO;
        let mut lookups = DirectoryLookups::new(now);
        for (index, step) in steps.chars().enumerate() {
            match step {
                'h' => lookups.hit(now),
                'm' => lookups.made(now),
                'L' => lookups.is_large = true,
                '.' => now += FILE_TTL * 2,
                ',' => now += FILE_TTL / 2,
                miss => {
                    let expected = match miss {
                        'n' | 'l' => None,
                        'D' => Some((Extent::Page, false)),
                        'A' => Some((Extent::Around, true)),
                        _ => Some((Extent::Page, true)),
                    };
                    let page = due(&lookups.count(now), step != 'l');
                    if let Some(page) = page {
                        lookups.lists(page);
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
    fn a_listing_that_was_of_use_is_followed_by_the_next() {
        check("nnnnnnnnDLhhhhhhhhFhhhhhhhhF");
        check("nnnnnnnnDLhhhhhhhhFhhhhhhhnnnnnnn");
        // A LIST counts hits as long as it is valid.
        check("nnnnnnnnDLhhhh,hhhh,h,Fhhhhhhhh,,,n");
        // A LIST without hits does not count for lookups after a pause.
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
        // The third creation lists around its name; with hits, so does the next miss.
        check("nmnmAmhmhmAmhmhmhmA");
        check("nmnmllnmnmA");
        check("nmnmlnmnmA");
        // Lookups without creations, or slow creations, do not.
        check("nnnmnmAm");
        check("nmnnmnmAm");
        check("nm.nm.nm.nm.nm.nm");
        // In a directory without hits, LISTs become rarer.
        check("nmnmAmnmnmnmnmnmnmnmnmDmnmnmnmnmnmnmnmnmn");
        check("nmnmAmLnmnmnmnmnmnmnmnmFm");
        // A LIST of the directory with hits is followed by another one.
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
