//! Absent names that lookups have just reported, with the source of each answer.
//!
//! A creation follows the lookup of its name. A directory that is created then is known to have no
//! keys below it. A file must be looked up once more if S3 was not asked about its name. Listings
//! of many names are in [`ListingCache`](crate::namespace::listing::cache).
//!
//! Knows nothing of inodes, callers or changes of this mount. Bounded by [`ABSENT_NAMES_MAX`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use crate::sync::Mutex;

/// The absent names, by key. The lock guards only them; no other lock is taken under it.
#[derive(Debug, Default)]
pub(crate) struct NegativeCache(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<Arc<str>, Absence>,
    /// Keys in the order of their first report, the oldest first.
    in_order: VecDeque<Arc<str>>,
    /// Whether an entry with a remembered answer was dropped.
    has_dropped_remembered: bool,
}

/// An answer that neither the object of a key nor any key below it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Absence {
    /// Time of the request to S3, on the mount's clock.
    pub(crate) asked: Duration,
    /// Whether the answer was cached before the lookup began.
    pub(crate) is_remembered: bool,
}

impl Absence {
    /// An answer from a cache, requested at `asked`.
    pub(crate) fn remembered(asked: Duration) -> Self {
        Self {
            asked,
            is_remembered: true,
        }
    }

    /// An answer to a request of the lookup itself, sent at `asked`.
    pub(crate) fn asked(asked: Duration) -> Self {
        Self {
            asked,
            is_remembered: false,
        }
    }
}

impl NegativeCache {
    /// Records that a lookup has reported `key` as absent.
    pub(crate) fn told(&self, key: &str, absence: Absence) {
        let mut table = self.0.lock();
        if let Some(known) = table.by_key.get_mut(key) {
            *known = absence;
            return;
        }
        if table.in_order.len() >= ABSENT_NAMES_MAX
            && let Some(oldest) = table.in_order.pop_front()
        {
            let dropped = table.by_key.remove(&oldest);
            table.has_dropped_remembered |= dropped.is_some_and(|it| it.is_remembered);
        }
        let key: Arc<str> = Arc::from(key);
        table.by_key.insert(Arc::clone(&key), absence);
        table.in_order.push_back(key);
    }

    /// The last answer about `key`, if it is still recorded.
    pub(crate) fn of(&self, key: &str) -> Option<Absence> {
        self.0.lock().by_key.get(key).copied()
    }

    /// Whether the last answer about `key` may have come from a cache.
    pub(crate) fn may_be_remembered(&self, key: &str) -> bool {
        let table = self.0.lock();
        let known = table.by_key.get(key);
        known.map_or(table.has_dropped_remembered, |known| known.is_remembered)
    }
}

/// Absent names that are remembered singly. As many as threads may look up at once; 200 bytes each.
const ABSENT_NAMES_MAX: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(seconds: u64) -> Absence {
        Absence {
            asked: Duration::from_secs(seconds),
            is_remembered: seconds > 5,
        }
    }

    #[test]
    fn the_last_word_counts() {
        let negative = NegativeCache::default();
        assert_eq!(negative.of("d/a"), None);
        negative.told("d/a", asked(1));
        negative.told("d/b", asked(2));
        negative.told("d/a", asked(9));
        assert_eq!(negative.of("d/a"), Some(asked(9)));
        assert_eq!(negative.of("d/b"), Some(asked(2)));
        assert_eq!(negative.of("d/"), None);
    }

    #[test]
    fn is_bounded_and_forgets_the_oldest() {
        let negative = NegativeCache::default();
        for number in 0..2 * ABSENT_NAMES_MAX {
            negative.told(&number.to_string(), asked(1));
            negative.told(&number.to_string(), asked(2));
        }
        let table = negative.0.lock();
        assert_eq!(table.in_order.len(), ABSENT_NAMES_MAX);
        assert_eq!(table.by_key.len(), ABSENT_NAMES_MAX);
        drop(table);
        assert_eq!(negative.of("0"), None);
        assert!(!negative.may_be_remembered("0"), "none was");
        assert_eq!(negative.of(&ABSENT_NAMES_MAX.to_string()), Some(asked(2)));
    }

    #[test]
    fn what_was_remembered_and_dropped_may_be_any() {
        let negative = NegativeCache::default();
        negative.told("remembered", asked(9));
        assert!(negative.may_be_remembered("remembered"));
        for number in 0..ABSENT_NAMES_MAX {
            assert!(!negative.may_be_remembered("nobody asked"));
            negative.told(&number.to_string(), asked(1));
        }
        assert!(negative.may_be_remembered("remembered"));
        assert!(!negative.may_be_remembered("1"), "S3 was asked");
    }
}
