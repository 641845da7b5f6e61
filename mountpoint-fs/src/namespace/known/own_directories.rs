//! Directories that this mount has made where S3 had nothing.
//!
//! With write-back, programs make whole trees: `git` looks each file up before it makes it, and
//! each directory. S3 would be asked about every one of those names, in directories that nobody
//! else knows of yet. What S3 said when the outermost of them was made counts for all that is below
//! it, for a while.
//!
//! Knows nothing of inodes, nor of later changes of this mount. Bounded by [`OWN_DIRECTORIES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;

/// The directories, by prefix. The lock guards only them; no other lock is taken under it.
#[derive(Debug, Default)]
pub(crate) struct OwnDirectories(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_prefix: HashMap<Arc<str>, Own>,
    /// Prefixes in the order in which they were made. One that was made again occurs twice.
    in_order: VecDeque<(Duration, Arc<str>)>,
}

#[derive(Clone, Copy, Debug)]
struct Own {
    /// When S3 was asked that knew nothing below the prefix.
    asked: Duration,
    /// When the directory was made.
    made: Duration,
    /// Whether this mount has made no object that marks it.
    lacks_marker: bool,
}

impl OwnDirectories {
    /// The directory `prefix` was made at `now`, and has a marker unless it `lacks_marker`. S3,
    /// which was asked at `asked`, had nothing below it.
    pub(crate) fn made(
        &self,
        prefix: &str,
        lacks_marker: bool,
        (asked, now): (Duration, Duration),
    ) {
        let mut table = self.0.lock();
        while let Some((at, _)) = table.in_order.front() {
            let is_old = at.saturating_add(OWN_AGE_MAX) < now;
            if !is_old && table.in_order.len() < OWN_DIRECTORIES_MAX {
                break;
            }
            table.drop_oldest();
        }
        let prefix: Arc<str> = Arc::from(prefix);
        let own = Own {
            asked,
            made: now,
            lacks_marker,
        };
        table.by_prefix.insert(Arc::clone(&prefix), own);
        table.in_order.push_back((now, prefix));
    }

    /// When S3 was asked that knew nothing below the directory `prefix`; `None` if the directory is
    /// not this mount's, or that is too long ago.
    pub(crate) fn asked(&self, prefix: &str, now: Duration) -> Option<Duration> {
        let Own { asked, .. } = *self.0.lock().by_prefix.get(prefix)?;
        (now.saturating_sub(asked) < OWN_AGE_MAX).then_some(asked)
    }

    /// Whether the directory `prefix` is this mount's, and lacks a marker so far: the caller makes
    /// it now, and the answer is another one from then on.
    pub(crate) fn takes_marker(&self, prefix: &str) -> bool {
        let mut table = self.0.lock();
        let own = table.by_prefix.get_mut(prefix);
        own.is_some_and(|own| std::mem::replace(&mut own.lacks_marker, false))
    }

    /// The directory `prefix` was removed or renamed, or is another one.
    pub(crate) fn forget(&self, prefix: &str) {
        self.0.lock().by_prefix.remove(prefix);
    }
}

impl Table {
    fn drop_oldest(&mut self) {
        if let Some((at, prefix)) = self.in_order.pop_front()
            && self
                .by_prefix
                .get(&prefix)
                .is_some_and(|own| own.made == at)
        {
            self.by_prefix.remove(&prefix);
        }
    }
}

/// How long S3 is not asked about names in a directory of this mount. What another client puts
/// there is seen so late by its name: as late as NFS shows it, whose `acdirmax` is a minute. Less
/// than what changes of this mount are remembered for.
///
/// `git clone` of 10,000 loose objects takes longer than 10 s.
pub(crate) const OWN_AGE_MAX: Duration = Duration::from_secs(60);

/// Directories that are remembered. 100 bytes each.
const OWN_DIRECTORIES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    #[test]
    fn a_directory_is_ours_for_a_while() {
        let own = OwnDirectories::default();
        own.made("d/", true, (ZERO, Duration::from_secs(1)));
        let (soon, later) = (OWN_AGE_MAX - Duration::from_secs(1), OWN_AGE_MAX);
        assert_eq!(own.asked("d/", soon), Some(ZERO));
        assert_eq!(own.asked("d/", later), None);
        assert_eq!(own.asked("d/e/", ZERO), None);
        own.forget("d/");
        assert_eq!(own.asked("d/", soon), None);
    }

    #[test]
    fn a_marker_is_made_once() {
        let own = OwnDirectories::default();
        own.made("d/", true, (ZERO, ZERO));
        own.made("e/", false, (ZERO, ZERO));
        let taken = ["d/", "d/", "e/", "f/"].map(|prefix| own.takes_marker(prefix));
        assert_eq!(taken, [true, false, false, false]);
        own.made("d/", true, (ZERO, ZERO));
        assert!(own.takes_marker("d/"));
    }

    #[test]
    fn is_bounded_and_forgets_the_oldest() {
        let own = OwnDirectories::default();
        for number in 0..2 * OWN_DIRECTORIES_MAX {
            own.made(&format!("{number}/"), true, (ZERO, ZERO));
        }
        let last = 2 * OWN_DIRECTORIES_MAX - 1;
        assert_eq!(own.asked(&format!("{last}/"), ZERO), Some(ZERO));
        assert_eq!(own.asked("0/", ZERO), None);
        assert_eq!(own.0.lock().in_order.len(), OWN_DIRECTORIES_MAX);
        own.made("new/", true, (ZERO, OWN_AGE_MAX * 2));
        assert_eq!(own.0.lock().in_order.len(), 1);
        assert_eq!(own.0.lock().by_prefix.len(), 1);
    }
}
