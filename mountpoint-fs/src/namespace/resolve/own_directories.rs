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
pub(in crate::namespace) struct OwnDirectories(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// When S3 was asked that knew nothing below the prefix, and when the directory was made.
    by_prefix: HashMap<Arc<str>, (Duration, Duration)>,
    /// Prefixes in the order in which they were made. One that was made again occurs twice.
    in_order: VecDeque<(Duration, Arc<str>)>,
}

impl OwnDirectories {
    /// The directory `prefix` was made at `now`. S3, which was asked at `asked`, had nothing below
    /// it.
    pub(in crate::namespace) fn made(&self, prefix: &str, asked: Duration, now: Duration) {
        let mut table = self.0.lock();
        while let Some((at, _)) = table.in_order.front() {
            let is_old = at.saturating_add(OWN_AGE_MAX) < now;
            if !is_old && table.in_order.len() < OWN_DIRECTORIES_MAX {
                break;
            }
            table.drop_oldest();
        }
        let prefix: Arc<str> = Arc::from(prefix);
        table.by_prefix.insert(Arc::clone(&prefix), (asked, now));
        table.in_order.push_back((now, prefix));
    }

    /// When S3 was asked that knew nothing below the directory `prefix`; `None` if the directory is
    /// not this mount's, or that is too long ago.
    pub(in crate::namespace) fn asked(&self, prefix: &str, now: Duration) -> Option<Duration> {
        let (asked, _) = *self.0.lock().by_prefix.get(prefix)?;
        (now.saturating_sub(asked) < OWN_AGE_MAX).then_some(asked)
    }

    /// The directory `prefix` was removed or renamed, or is another one.
    pub(in crate::namespace) fn forget(&self, prefix: &str) {
        self.0.lock().by_prefix.remove(prefix);
    }
}

impl Table {
    fn drop_oldest(&mut self) {
        if let Some((at, prefix)) = self.in_order.pop_front()
            && self
                .by_prefix
                .get(&prefix)
                .is_some_and(|(_, made)| *made == at)
        {
            self.by_prefix.remove(&prefix);
        }
    }
}

/// How long S3 is not asked about names in a directory of this mount. What another client puts
/// there is seen so late by its name. Less than what changes of this mount are remembered for.
const OWN_AGE_MAX: Duration = Duration::from_secs(10);

/// Directories that are remembered. 100 bytes each.
const OWN_DIRECTORIES_MAX: usize = 16 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const ZERO: Duration = Duration::ZERO;

    #[test]
    fn a_directory_is_ours_for_a_while() {
        let own = OwnDirectories::default();
        own.made("d/", ZERO, Duration::from_secs(1));
        assert_eq!(own.asked("d/", Duration::from_secs(9)), Some(ZERO));
        assert_eq!(own.asked("d/", OWN_AGE_MAX), None);
        assert_eq!(own.asked("d/e/", ZERO), None);
        own.forget("d/");
        assert_eq!(own.asked("d/", Duration::from_secs(9)), None);
    }

    #[test]
    fn is_bounded_and_forgets_the_oldest() {
        let own = OwnDirectories::default();
        for number in 0..2 * OWN_DIRECTORIES_MAX {
            own.made(&format!("{number}/"), ZERO, ZERO);
        }
        let last = 2 * OWN_DIRECTORIES_MAX - 1;
        assert_eq!(own.asked(&format!("{last}/"), ZERO), Some(ZERO));
        assert_eq!(own.asked("0/", ZERO), None);
        assert_eq!(own.0.lock().in_order.len(), OWN_DIRECTORIES_MAX);
        own.made("new/", ZERO, OWN_AGE_MAX * 2);
        assert_eq!(own.0.lock().in_order.len(), 1);
        assert_eq!(own.0.lock().by_prefix.len(), 1);
    }
}
