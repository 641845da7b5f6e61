//! Counting all entries, shard by shard.
//!
//! Pure. Entries come and go meanwhile, in all shards alike: what the estimate gained since a shard
//! was counted belongs to that shard by one part in 256. Before all shards are counted, those that
//! are stand for all: names are hashes.

use std::time::SystemTime;

use crate::cache::storage::{ListedEntry, Usage};

/// A count in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct Count {
    /// Shards so far.
    shards: u64,
    found: Totals,
    /// Sum of the estimates at the time of each shard.
    estimates: Totals,
}

#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: u64,
    entries: u64,
}

impl Count {
    /// The shard to list next.
    pub(super) fn next(&self) -> u8 {
        u8::try_from(self.shards).expect("a count ends with the last shard")
    }

    /// Adds the entries of that shard, and corrects `usage` as far as that can be done. Returns
    /// whether all are counted.
    pub(super) fn add(
        &mut self,
        entries: &[ListedEntry],
        usage: &mut Usage,
        now: SystemTime,
    ) -> bool {
        self.shards += 1;
        self.found.bytes += entries.iter().map(|entry| entry.bytes).sum::<u64>();
        self.found.entries += entries.len() as u64;
        self.estimates.bytes += usage.bytes;
        self.estimates.entries += usage.entries;
        let is_whole = self.shards == SHARDS;
        let is_estimate = !usage.is_counted() && ESTIMATES.contains(&self.shards);
        if !is_whole && !is_estimate {
            return false;
        }
        let bytes = self.total(self.found.bytes, usage.bytes, self.estimates.bytes);
        let entries = self.total(self.found.entries, usage.entries, self.estimates.entries);
        if is_whole {
            usage.count(bytes, entries, now);
        } else {
            // The shards so far were counted at estimates that were wrong by as much.
            let correct = |sum: u64, new: u64, old: u64| {
                let sum = sum.saturating_add(self.shards.saturating_mul(new));
                sum.saturating_sub(self.shards.saturating_mul(old))
            };
            self.estimates = Totals {
                bytes: correct(self.estimates.bytes, bytes, usage.bytes),
                entries: correct(self.estimates.entries, entries, usage.entries),
            };
            (usage.bytes, usage.entries) = (bytes, entries);
        }
        is_whole
    }

    fn total(&self, found: u64, estimate: u64, estimates: u64) -> u64 {
        let found = u128::from(found) * u128::from(SHARDS) / u128::from(self.shards);
        let found = u64::try_from(found).unwrap_or(u64::MAX);
        let before = estimates / self.shards;
        found.saturating_add(estimate).saturating_sub(before)
    }
}

/// Folders of a cache.
pub(super) const SHARDS: u64 = 256;

/// Counted shards that stand for all, if nothing else is known.
const ESTIMATES: [u64; 5] = [8, 16, 32, 64, 128];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::storage::EntryName;

    fn entry(bytes: u64) -> ListedEntry {
        ListedEntry {
            name: EntryName([0; 16]),
            bytes,
            stored_at: SystemTime::UNIX_EPOCH,
            used_at: SystemTime::UNIX_EPOCH,
            is_complete: true,
        }
    }

    #[test]
    fn some_shards_stand_for_all_and_all_are_exact() {
        let (mut count, mut usage) = (Count::default(), Usage::default());
        for shard in 0..=u8::MAX {
            assert_eq!(count.next(), shard);
            let is_whole = count.add(&[entry(10), entry(30)], &mut usage, SystemTime::UNIX_EPOCH);
            assert_eq!(is_whole, shard == u8::MAX);
            let expected = if shard < 7 { (0, 0) } else { (256 * 40, 512) };
            assert_eq!((usage.bytes, usage.entries), expected, "{shard}");
        }
        assert!(usage.is_counted());
    }

    #[test]
    fn what_comes_meanwhile_is_counted_once() {
        let now = SystemTime::UNIX_EPOCH;
        for was_known in [false, true] {
            let (mut count, mut usage) = (Count::default(), Usage::default());
            if was_known {
                usage.count(77, 1, now);
            }
            // Each step every shard gains 4 bytes; those that are counted later have more.
            let mut bytes = 1000;
            for _ in 0..SHARDS {
                count.add(&[entry(bytes)], &mut usage, now);
                bytes += 4;
                usage.store(4 * SHARDS, 0, now);
            }
            let expected = SHARDS * bytes;
            let error = usage.bytes.abs_diff(expected);
            // The last shard was counted before its last step.
            assert!(error <= 8 * SHARDS, "{} for {expected}", usage.bytes);
            assert_eq!(usage.entries, SHARDS);
        }
    }
}
