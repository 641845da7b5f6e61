//! Memory of the indexes of open entries: their share of the mount's memory.
//!
//! An index that finds no room is read and kept as far as there was room: what it lacks is a miss.
//! Knows no entries.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::memory::{Budget, Reservation};

/// The share of the mount's memory that indexes may have.
#[derive(Debug, Default)]
pub(super) struct IndexMemory {
    /// The mount's memory; a command that looks after a cache has none.
    budget: OnceLock<Arc<Budget>>,
    used: AtomicU64,
}

/// Memory of one index, given back on drop. That wakes who waits for memory: the caller holds no
/// lock.
#[derive(Debug)]
pub(super) struct IndexShare {
    memory: Arc<IndexMemory>,
    bytes: u64,
    reservation: Option<Reservation>,
}

impl IndexMemory {
    /// Has the indexes counted in `budget`. Only the first call has an effect.
    pub(super) fn count_in(&self, budget: &Arc<Budget>) {
        self.budget.get_or_init(|| Arc::clone(budget));
    }

    /// Bytes of all indexes.
    pub(super) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Memory of `bytes`, if there is room.
    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<IndexShare> {
        let budget = self.budget.get();
        let share = budget.map_or(u64::MAX, |budget| budget.limit() / INDEX_MEMORY_SHARE);
        let bytes_max = INDEX_BYTES_MAX.min(share);
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                Some(used + bytes).filter(|used| *used <= bytes_max)
            });
        taken.ok()?;
        let mut taken = IndexShare {
            memory: Arc::clone(self),
            bytes,
            reservation: None,
        };
        // Without its index a file would be fetched again: blocks for that are more memory.
        taken.reservation = budget.map(|budget| budget.hold(bytes));
        Some(taken)
    }
}

impl IndexShare {
    /// None yet.
    pub(super) fn new(memory: &Arc<IndexMemory>) -> Self {
        Self {
            memory: Arc::clone(memory),
            bytes: 0,
            reservation: None,
        }
    }

    /// Merges `other` into it and keeps `bytes`. Returns the rest, to be dropped without a lock.
    pub(super) fn resize(&mut self, mut other: Self, bytes: u64) -> Self {
        self.bytes += std::mem::take(&mut other.bytes);
        match (&mut self.reservation, other.reservation.take()) {
            (Some(reservation), Some(more)) => reservation.merge(more),
            (None, more) => self.reservation = more,
            (Some(_), None) => (),
        }
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        other.bytes = surplus;
        other.reservation = self.reservation.as_mut().map(|reservation| {
            let surplus = surplus.min(reservation.bytes());
            reservation.split(surplus)
        });
        other
    }
}

impl Drop for IndexShare {
    fn drop(&mut self) {
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Most memory of all indexes together: an object of 2.7 TiB, which has the longest index file.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// Their share of the mount's memory, one in so many bytes: of 256 MiB enough for 170 GiB in open
/// files. It is half of what stays with reads in any case, so that no writer waits for an index.
const INDEX_MEMORY_SHARE: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Purpose;

    #[test]
    fn indexes_have_a_share_of_the_memory_and_give_it_back() {
        let budget = Budget::new(INDEX_MEMORY_SHARE << 10);
        let memory = Arc::new(IndexMemory::default());
        let before = memory.take(100).unwrap();
        memory.count_in(&budget);
        let mut share = IndexShare::new(&memory);
        drop(share.resize(memory.take(900).unwrap(), 900));
        assert_eq!((memory.used(), budget.used()), (1000, 900));
        assert!(memory.take(25).is_none(), "1 KiB is the share");
        drop(share.resize(memory.take(24).unwrap(), 500));
        assert_eq!((memory.used(), budget.used()), (600, 500));
        drop((before, share));
        assert_eq!((memory.used(), budget.used()), (0, 0));
    }

    #[test]
    fn a_mount_whose_memory_is_full_opens_an_index_and_serves_nobody_else_before_it_fits() {
        let budget = Budget::new(INDEX_MEMORY_SHARE << 10);
        let memory = Arc::new(IndexMemory::default());
        memory.count_in(&budget);
        let others = budget.try_reserve(budget.limit(), Purpose::Demand).unwrap();
        let share = memory.take(1000).unwrap();
        assert_eq!(budget.deficit().map(|deficit| deficit.bytes), Some(1000));
        drop(others);
        let small = budget.try_reserve(1, Purpose::Demand).unwrap();
        let rest = budget.limit() - 500;
        assert!(budget.try_reserve(rest, Purpose::Demand).is_none());
        drop(small);
        drop(share);
        assert_eq!((memory.used(), budget.used()), (0, 0));
    }
}
