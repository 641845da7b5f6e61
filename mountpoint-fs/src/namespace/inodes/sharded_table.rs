//! A hash table that grows in small steps: each of its shards grows and shrinks on its own.
//!
//! A table that grows moves all its entries, which takes up to seconds for millions; here only
//! those of one shard move. Like `hashbrown::HashTable`, it knows neither keys nor the hash
//! function: the caller passes the hash.
//!
//! Invariant: an entry is in the shard that its hash selects.

use hashbrown::HashTable;

/// A sharded table. It takes 32 KiB more than a table in one piece.
#[derive(Debug)]
pub(crate) struct Shards<T> {
    shards: Box<[HashTable<T>]>,
    len: usize,
}

/// Position of an iteration over all entries. The iteration may miss entries that move meanwhile,
/// or visit them twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    shard: usize,
    bucket: usize,
}

impl Place {
    pub(crate) const START: Self = Self {
        shard: 0,
        bucket: 0,
    };
}

impl<T> Shards<T> {
    pub(crate) fn new() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| HashTable::new()).collect(),
            len: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn find(&self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&T> {
        self.shards[shard_of(hash)].find(hash, is_it)
    }

    pub(super) fn find_mut(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<&mut T> {
        self.shards[shard_of(hash)].find_mut(hash, is_it)
    }

    /// Adds `entry`, which must not be in the table. `hash_of` returns the hash of an entry that
    /// moves.
    pub(super) fn insert_unique(&mut self, hash: u64, entry: T, hash_of: impl Fn(&T) -> u64) {
        self.shards[shard_of(hash)].insert_unique(hash, entry, hash_of);
        self.len += 1;
    }

    /// Removes an entry. [`Shards::shrink`] releases its memory.
    pub(crate) fn remove(&mut self, hash: u64, is_it: impl FnMut(&T) -> bool) -> Option<T> {
        let entry = self.shards[shard_of(hash)].find_entry(hash, is_it).ok()?;
        self.len -= 1;
        Some(entry.remove().0)
    }

    /// Releases memory if the shard of `hash` once had many more entries.
    pub(crate) fn shrink(&mut self, hash: u64, hash_of: impl Fn(&T) -> u64) {
        let shard = &mut self.shards[shard_of(hash)];
        if shard.len() < shard.capacity() / SHRINK_BELOW && shard.capacity() > SHRINK_ABOVE {
            shard.shrink_to(shard.len() * 2, hash_of);
        }
    }

    /// Visits the next `places` places from `from` on. Returns the next position: [`Place::START`]
    /// after the last place.
    pub(crate) fn look<'a>(
        &'a self,
        from: Place,
        places: usize,
        mut look: impl FnMut(&'a T),
    ) -> Place {
        let Place {
            mut shard,
            mut bucket,
        } = from;
        for _ in 0..places {
            let Some(entries) = self.shards.get(shard) else {
                return Place::START;
            };
            if let Some(entry) = entries.get_bucket(bucket) {
                look(entry);
            }
            bucket += 1;
            if bucket >= entries.num_buckets() {
                (shard, bucket) = (shard + 1, 0);
            }
        }
        if shard < self.shards.len() {
            Place { shard, bucket }
        } else {
            Place::START
        }
    }

    /// Memory of the tables, in bytes.
    #[cfg(test)]
    pub(super) fn allocation_size(&self) -> usize {
        let own = self.shards.len() * size_of::<HashTable<T>>();
        own + self
            .shards
            .iter()
            .map(HashTable::allocation_size)
            .sum::<usize>()
    }
}

/// Selects a shard by bits that `hashbrown` ignores until a shard has 2^32 entries.
fn shard_of(hash: u64) -> usize {
    usize::try_from(hash >> 32).map_or(0, |bits| bits % SHARDS)
}

/// With 10 million entries each shard has 10,000: they move within a few milliseconds.
const SHARDS: usize = 1024;

/// A shard shrinks when it is filled to less than this fraction of its capacity…
const SHRINK_BELOW: usize = 8;

/// …and has a capacity of more than this many entries.
const SHRINK_ABOVE: usize = 7;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

    use super::*;

    const COUNT: u64 = 1 << 17;

    fn hash_of(entry: &u64) -> u64 {
        BuildHasherDefault::<DefaultHasher>::default().hash_one(entry)
    }

    fn filled() -> Shards<u64> {
        let mut table = Shards::new();
        for entry in 0..COUNT {
            table.insert_unique(hash_of(&entry), entry, hash_of);
        }
        table
    }

    #[test]
    fn no_insertion_and_no_removal_moves_many_entries() {
        // A table in one piece would move half of its entries at once.
        let moved_max = COUNT / 256;
        let moved = Cell::new(0);
        let counted = |entry: &u64| {
            moved.set(moved.get() + 1);
            hash_of(entry)
        };
        let mut all_moved = 0;
        let mut check = |entry: u64| {
            let one = moved.take();
            assert!(one <= moved_max, "{one} entries moved for {entry}");
            all_moved += one;
        };
        let mut table = Shards::new();
        for entry in 0..COUNT {
            table.insert_unique(hash_of(&entry), entry, counted);
            check(entry);
        }
        for entry in 0..COUNT {
            let hash = hash_of(&entry);
            assert_eq!(table.remove(hash, |other| *other == entry), Some(entry));
            table.shrink(hash, counted);
            check(entry);
        }
        assert!(all_moved > COUNT / 2, "they were counted");
        assert_eq!(table.len(), 0);
        let left: usize = table.shards.iter().map(HashTable::capacity).sum();
        assert!(left <= SHARDS * SHRINK_ABOVE, "{left} places are left");
    }

    #[test]
    fn entries_are_found_until_they_are_removed() {
        let mut table = filled();
        let hash = hash_of(&7);
        assert_eq!(table.len() as u64, COUNT);
        assert_eq!(table.find(hash, |entry| *entry == 7), Some(&7));
        assert_eq!(table.find_mut(hash, |entry| *entry == 7), Some(&mut 7));
        assert_eq!(table.remove(hash, |entry| *entry == 7), Some(7));
        assert_eq!(table.remove(hash, |entry| *entry == 7), None);
        assert_eq!(table.find(hash, |entry| *entry == 7), None);
        assert_eq!(table.len() as u64, COUNT - 1);
    }

    #[test]
    fn who_goes_on_looking_sees_every_entry_once_and_few_at_a_time() {
        for (table, places) in [(filled(), 1000), (filled(), 1), (Shards::new(), 100)] {
            let (mut seen, mut place) = (Vec::new(), Place::START);
            loop {
                let before = seen.len();
                place = table.look(place, places, |entry| seen.push(*entry));
                assert!(seen.len() - before <= places);
                if place == Place::START {
                    break;
                }
            }
            seen.sort_unstable();
            assert!(
                seen.iter().copied().eq(0..table.len() as u64),
                "{places} at once"
            );
        }
        // A position beyond the end is valid.
        let beyond = Place {
            shard: SHARDS - 1,
            bucket: 1 << 20,
        };
        assert_eq!(
            Shards::<u64>::new().look(beyond, 1, |_| unreachable!()),
            Place::START
        );
    }
}
