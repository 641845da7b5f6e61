//! Names that this mount has changed, and when: an answer that S3 was asked for before that is not believed.
//!
//! A look-up or a page of a listing may be in the air while a file is removed, made or renamed. What it says was true
//! when it was asked for and is not any more.
//!
//! Knows nothing of inodes' contents. Bounded by age and by [`CHANGED_NAMES_MAX`]: where a change is dropped,
//! everything that was asked for before it is not believed, whatever name it is about.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::inode::Moment;
use crate::config::limits::{CHANGED_NAMES_AGE_MIN, CHANGED_NAMES_MAX};
use crate::operation::InodeNo;
use crate::sync::Mutex;

/// The changes. The lock guards them alone and no other is taken under it.
#[derive(Debug)]
pub(super) struct Changes {
    /// The latest change, on the mount's clock in nanoseconds: most answers are newer and need no lock.
    latest: AtomicU64,
    age_max: Duration,
    changes: Mutex<Table>,
}

type Name = (InodeNo, Arc<str>);

#[derive(Debug, Default)]
struct Table {
    by_name: HashMap<Name, Duration>,
    /// Oldest first. A name that was changed again is here more than once.
    in_order: VecDeque<(Duration, Name)>,
    /// The latest change that was dropped.
    dropped: Option<Duration>,
}

impl Changes {
    /// For names that are answered for `ttl` at most.
    pub(super) fn new(ttl: Duration) -> Self {
        Self {
            latest: AtomicU64::new(0),
            age_max: CHANGED_NAMES_AGE_MIN.max(ttl),
            changes: Mutex::default(),
        }
    }

    /// `name` in `directory` was changed, at `now` at the latest.
    pub(super) fn record(&self, directory: InodeNo, name: &Arc<str>, now: Duration) {
        let mut table = self.changes.lock();
        while let Some((at, _)) = table.in_order.front() {
            let is_old = at.saturating_add(self.age_max) < now;
            if !is_old && table.in_order.len() < CHANGED_NAMES_MAX {
                break;
            }
            table.drop_oldest();
        }
        let name = (directory, Arc::clone(name));
        table.by_name.insert(name.clone(), now);
        table.in_order.push_back((now, name));
        drop(table);
        self.latest.fetch_max(nanos(now), Ordering::AcqRel);
    }

    /// Whether anything may have been changed since `asked`.
    pub(super) fn outdate_all(&self, asked: Duration) -> bool {
        nanos(asked) < self.latest.load(Ordering::Acquire)
    }

    /// Whether what S3 said of `name`, when it was asked at `asked`, may have been changed since.
    pub(super) fn outdate(&self, directory: InodeNo, name: &str, asked: Duration) -> bool {
        if nanos(asked) >= self.latest.load(Ordering::Acquire) {
            return false;
        }
        let table = self.changes.lock();
        if table.dropped.is_some_and(|dropped| asked < dropped) {
            return true;
        }
        let changed = table.by_name.get(&(directory, Arc::from(name)));
        changed.is_some_and(|changed| asked < *changed)
    }

    /// The same for an answer whose age is kept as a moment.
    pub(super) fn outdate_moment(&self, directory: InodeNo, name: &str, asked: Moment) -> bool {
        self.outdate(directory, name, asked.since_start())
    }
}

impl Table {
    fn drop_oldest(&mut self) {
        let Some((at, name)) = self.in_order.pop_front() else {
            return;
        };
        self.dropped = self.dropped.max(Some(at));
        if self.by_name.get(&name) == Some(&at) {
            self.by_name.remove(&name);
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const D: InodeNo = InodeNo(7);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn what_was_asked_before_a_change_is_outdated() {
        let changes = Changes::new(Duration::ZERO);
        changes.record(D, &Arc::from("a"), at(5));
        assert!(changes.outdate(D, "a", at(4)));
        assert!(changes.outdate_moment(D, "a", at(4).into()));
        assert!(!changes.outdate(D, "a", at(5)));
        assert!(!changes.outdate_moment(D, "a", at(5).into()));
        assert!(!changes.outdate(D, "b", at(4)));
        assert!(changes.outdate_all(at(4)));
        assert!(!changes.outdate_all(at(5)));
        assert!(!changes.outdate(InodeNo(8), "a", at(4)));
        changes.record(D, &Arc::from("a"), at(6));
        assert!(changes.outdate(D, "a", at(5)));
    }

    #[test]
    fn is_bounded_and_forgets_on_the_safe_side() {
        let changes = Changes::new(Duration::ZERO);
        changes.record(D, &Arc::from("old"), at(1));
        let later = at(2) + CHANGED_NAMES_AGE_MIN;
        for number in 0..2 * CHANGED_NAMES_MAX {
            changes.record(D, &Arc::from(format!("{number}")), later);
        }
        assert_eq!(changes.changes.lock().in_order.len(), CHANGED_NAMES_MAX);
        assert_eq!(changes.changes.lock().by_name.len(), CHANGED_NAMES_MAX);
        assert!(changes.outdate(D, "old", at(0)));
        assert!(changes.outdate(D, "0", at(1)));
        assert!(!changes.outdate(D, "0", later));
    }
}
