//! Times of this mount's changes: an answer that was requested before a change is outdated.
//!
//! A lookup or a page of a listing may be in flight while a file is removed, created or renamed.
//! Its answer was true at the time of the request.
//!
//! Stored by key, as pages of listings are: a page may outlive the inode of its directory, which
//! the kernel forgets and looks up again with another number. The rename of a directory is a change
//! of all keys below it.
//!
//! Knows nothing of inodes. Bounded by age and by [`CHANGED_NAMES_MAX`]: dropping a change makes
//! every answer outdated that was requested before it, whatever its name.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::Mutex;

/// The changes of a mount. The lock guards only them; no other lock is taken under it.
#[derive(Debug)]
pub(crate) struct LocalChanges {
    /// Time of the latest change, on the mount's clock in nanoseconds. Most answers are newer, so
    /// that their check takes no lock.
    latest: AtomicU64,
    age_max: Duration,
    changes: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// Time of the last change by key; a directory's key, with its slash, covers all keys below it.
    by_key: HashMap<Arc<str>, Duration>,
    /// Changes in order, the oldest first. A key that was changed again occurs more than once.
    in_order: VecDeque<(Duration, Arc<str>)>,
    /// Time of the latest dropped change.
    dropped: Option<Duration>,
}

impl LocalChanges {
    /// An empty record for names that are valid for at most `ttl`.
    pub(crate) fn new(ttl: Duration) -> Self {
        Self {
            latest: AtomicU64::new(0),
            age_max: CHANGED_NAMES_AGE_MIN.max(ttl),
            changes: Mutex::default(),
        }
    }

    /// Records a change of `key` that was complete at `now`. With a slash at its end, `key` covers
    /// all keys below it.
    pub(crate) fn record(&self, key: &str, now: Duration) {
        let mut table = self.changes.lock();
        table.expire(self.age_max, now);
        if table.in_order.len() >= CHANGED_NAMES_MAX {
            table.drop_oldest();
        }
        let key: Arc<str> = Arc::from(key);
        table.by_key.insert(Arc::clone(&key), now);
        table.in_order.push_back((now, key));
        drop(table);
        self.latest.fetch_max(nanos(now), Ordering::AcqRel);
    }

    /// Drops changes that are too old at `now`, with their memory.
    pub(crate) fn give_back(&self, now: Duration) {
        let mut table = self.changes.lock();
        table.expire(self.age_max, now);
        if table.in_order.capacity() > 2 * table.in_order.len() {
            table.in_order.shrink_to_fit();
            table.by_key.shrink_to_fit();
        }
    }

    /// Whether a change of `key` is recorded.
    pub(crate) fn has(&self, key: &str) -> bool {
        self.changes.lock().by_key.contains_key(key)
    }

    /// Whether any key may have changed since `asked`.
    pub(crate) fn invalidates_all(&self, asked: Duration) -> bool {
        nanos(asked) < self.latest.load(Ordering::Acquire)
    }

    /// Whether `name` in the directory `prefix` may have changed since a request at `asked`.
    pub(crate) fn invalidates(&self, prefix: &str, name: &str, asked: Duration) -> bool {
        let is_newer = |changed: Duration| asked < changed;
        self.invalidates_all(asked) && self.last(prefix, name).is_some_and(is_newer)
    }

    /// Time of the last change of `name` in the directory `prefix`, or of a directory above it, as
    /// far as it is remembered: no older one counts either.
    pub(crate) fn last(&self, prefix: &str, name: &str) -> Option<Duration> {
        if !self.invalidates_all(Duration::ZERO) {
            return None;
        }
        let key = [prefix, name].concat();
        let table = self.changes.lock();
        let above = prefix.match_indices('/').map(|(at, _)| &prefix[..=at]);
        let changes = above.chain([&*key]).filter_map(|key| table.by_key.get(key));
        changes.copied().max().max(table.dropped)
    }

    /// Whether a key in the directory `prefix`, or a directory above it, may have changed since
    /// `asked`. Returns `true` for any directory if there are too many changes to check.
    pub(crate) fn invalidates_below(&self, prefix: &str, asked: Duration) -> bool {
        if nanos(asked) > self.latest.load(Ordering::Acquire) {
            return false;
        }
        let table = self.changes.lock();
        if table.dropped.is_some_and(|dropped| asked <= dropped) {
            return true;
        }
        let newest = table.in_order.iter().rev();
        let mut since = newest.take_while(|(at, _)| asked <= *at);
        let looked_at = since.by_ref().take(SINCE_MAX);
        let concerns =
            |key: &str| key.starts_with(prefix) || key.ends_with('/') && prefix.starts_with(key);
        let mut concerning = looked_at.filter(|(_, key)| concerns(key));
        concerning.next().is_some() || since.next().is_some()
    }

    /// Whether a change of this name itself is recorded since `asked`; changes of the directories
    /// above do not count.
    pub(crate) fn is_changed(&self, prefix: &str, name: &str, asked: Duration) -> bool {
        let key = [prefix, name].concat();
        self.changes.lock().is_since(&key, asked)
    }
}

impl Table {
    fn is_since(&self, key: &str, asked: Duration) -> bool {
        self.by_key.get(key).is_some_and(|changed| asked < *changed)
    }

    /// Drops changes that are older than `age_max` at `now`.
    fn expire(&mut self, age_max: Duration, now: Duration) {
        while let Some((at, _)) = self.in_order.front()
            && at.saturating_add(age_max) < now
        {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let Some((at, key)) = self.in_order.pop_front() else {
            return;
        };
        self.dropped = self.dropped.max(Some(at));
        if self.by_key.get(&key) == Some(&at) {
            self.by_key.remove(&key);
        }
    }
}

/// Changes to examine in one check of a directory.
const SINCE_MAX: usize = 256;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Names changed by this mount about which answers in flight may be wrong. 100 bytes each.
///
/// With write-back, `tar` makes three changes for each of 3,000 files a second: a quarter of a
/// minute of that.
const CHANGED_NAMES_MAX: usize = 128 << 10;

/// How long a changed name is remembered at least. Longer where names are valid for longer.
const CHANGED_NAMES_AGE_MIN: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_asked_before_a_change_is_outdated() {
        let changes = LocalChanges::new(Duration::ZERO);
        changes.record("d/a", at(5));
        assert!(changes.invalidates("d/", "a", at(4)));
        assert!(!changes.invalidates("d/", "a", at(5)));
        assert!(!changes.invalidates("d/", "b", at(4)));
        assert!(!changes.invalidates("d/a/", "b", at(4)));
        assert!(changes.invalidates_all(at(4)));
        assert!(!changes.invalidates_all(at(5)));
        assert!(!changes.invalidates("e/", "a", at(4)));
        assert!(!changes.invalidates("", "a", at(4)));
        changes.record("d/a", at(6));
        assert!(changes.invalidates("d/", "a", at(5)));
    }

    #[test]
    fn a_changed_directory_outdates_what_is_below_it() {
        let changes = LocalChanges::new(Duration::ZERO);
        changes.record("p/d/", at(5));
        for (prefix, name, expected) in [
            ("p/d/", "a", true),
            ("p/d/e/f/", "a", true),
            ("p/", "d", false),
            ("p/", "d2", false),
            ("p/d2/", "a", false),
            ("", "p", false),
            ("d/", "a", false),
        ] {
            assert_eq!(
                changes.invalidates(prefix, name, at(4)),
                expected,
                "{prefix}{name}"
            );
            assert!(!changes.invalidates(prefix, name, at(5)), "{prefix}{name}");
            assert!(!changes.is_changed(prefix, name, at(4)), "{prefix}{name}");
        }
        changes.record("p/d/a", at(5));
        assert!(changes.is_changed("p/d/", "a", at(4)));
        assert!(!changes.is_changed("p/d/", "a", at(5)));
    }

    #[test]
    fn is_bounded_and_forgets_on_the_safe_side() {
        let changes = LocalChanges::new(Duration::ZERO);
        changes.record("old", at(1));
        let later = at(2) + CHANGED_NAMES_AGE_MIN;
        for number in 0..2 * CHANGED_NAMES_MAX {
            changes.record(&format!("{number}"), later);
        }
        assert_eq!(changes.changes.lock().in_order.len(), CHANGED_NAMES_MAX);
        assert_eq!(changes.changes.lock().by_key.len(), CHANGED_NAMES_MAX);
        assert!(changes.invalidates("", "old", at(0)));
        assert!(changes.invalidates("", "0", at(1)));
        assert!(!changes.is_changed("", "0", at(1)), "it is not known");
        assert!(!changes.invalidates("", "0", later));
    }
}
