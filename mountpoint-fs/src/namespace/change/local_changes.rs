//! Keys that this mount has changed, and when: an answer that S3 was asked for before that is not
//! believed.
//!
//! A look-up or a page of a listing may be in flight while a file is removed, made or renamed. What
//! it says was true when it was asked for and is not any more.
//!
//! By key, as pages of listings are: a page may be younger than the inode of its directory, which
//! the kernel forgets and looks up again under another number. A directory that was renamed is a
//! change of all keys below it.
//!
//! Knows nothing of inodes. Bounded by age and by [`CHANGED_NAMES_MAX`]: where a change is dropped,
//! everything that was asked for before it is not believed, whatever name it is about.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::config::limits::{CHANGED_NAMES_AGE_MIN, CHANGED_NAMES_MAX};
use crate::namespace::inodes::Moment;
use crate::sync::Mutex;

/// The changes. The lock guards them alone and no other is taken under it.
#[derive(Debug)]
pub(in crate::namespace) struct LocalChanges {
    /// The latest change, on the mount's clock in nanoseconds: most answers are newer and need no
    /// lock.
    latest: AtomicU64,
    age_max: Duration,
    changes: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    /// By key; that of a directory, with its slash, stands for all keys below it.
    by_key: HashMap<Arc<str>, Duration>,
    /// Oldest first. A key that was changed again is here more than once.
    in_order: VecDeque<(Duration, Arc<str>)>,
    /// The latest change that was dropped.
    dropped: Option<Duration>,
}

impl LocalChanges {
    /// For names that are answered for `ttl` at most.
    pub(in crate::namespace) fn new(ttl: Duration) -> Self {
        Self {
            latest: AtomicU64::new(0),
            age_max: CHANGED_NAMES_AGE_MIN.max(ttl),
            changes: Mutex::default(),
        }
    }

    /// `key` was changed, at `now` at the latest; with a slash at its end, all keys that begin with
    /// it.
    pub(in crate::namespace) fn record(&self, key: &str, now: Duration) {
        let mut table = self.changes.lock();
        while let Some((at, _)) = table.in_order.front() {
            let is_old = at.saturating_add(self.age_max) < now;
            if !is_old && table.in_order.len() < CHANGED_NAMES_MAX {
                break;
            }
            table.drop_oldest();
        }
        let key: Arc<str> = Arc::from(key);
        table.by_key.insert(Arc::clone(&key), now);
        table.in_order.push_back((now, key));
        drop(table);
        self.latest.fetch_max(nanos(now), Ordering::AcqRel);
    }

    /// Whether `key` was changed lately.
    pub(in crate::namespace) fn has(&self, key: &str) -> bool {
        self.changes.lock().by_key.contains_key(key)
    }

    /// Whether anything may have been changed since `asked`.
    pub(in crate::namespace) fn invalidates_all(&self, asked: Duration) -> bool {
        nanos(asked) < self.latest.load(Ordering::Acquire)
    }

    /// Whether what S3 said of `name` in the directory `prefix`, when it was asked at `asked`, may
    /// have been changed since.
    pub(in crate::namespace) fn invalidates(
        &self,
        prefix: &str,
        name: &str,
        asked: Duration,
    ) -> bool {
        if !self.invalidates_all(asked) {
            return false;
        }
        let key = [prefix, name].concat();
        let table = self.changes.lock();
        if table.dropped.is_some_and(|dropped| asked < dropped) {
            return true;
        }
        let mut above = prefix.match_indices('/').map(|(at, _)| &prefix[..=at]);
        table.is_since(&key, asked) || above.any(|above| table.is_since(above, asked))
    }

    /// Whether this mount may have changed anything in the directory `prefix`, or above it, since
    /// `asked`. Said of every directory where much was changed.
    pub(in crate::namespace) fn invalidates_below(&self, prefix: &str, asked: Duration) -> bool {
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

    /// Whether this very name is known to have been changed since `asked`, whatever became of the
    /// directories above it.
    pub(in crate::namespace) fn is_changed(
        &self,
        prefix: &str,
        name: &str,
        asked: Duration,
    ) -> bool {
        let key = [prefix, name].concat();
        self.changes.lock().is_since(&key, asked)
    }

    /// The same for an answer whose age is kept as a moment.
    pub(in crate::namespace) fn invalidates_moment(
        &self,
        prefix: &str,
        name: &str,
        asked: Moment,
    ) -> bool {
        self.invalidates(prefix, name, asked.since_start())
    }
}

impl Table {
    fn is_since(&self, key: &str, asked: Duration) -> bool {
        self.by_key.get(key).is_some_and(|changed| asked < *changed)
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

/// Changes that are looked at for one directory.
const SINCE_MAX: usize = 256;

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

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
        assert!(changes.invalidates_moment("d/", "a", at(4).into()));
        assert!(!changes.invalidates("d/", "a", at(5)));
        assert!(!changes.invalidates_moment("d/", "a", at(5).into()));
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
