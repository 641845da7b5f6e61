//! Inode numbers of names that were listed but not looked up yet.
//!
//! A listing returns the inode number of each name (`d_ino`), and `stat` must return the same. So a
//! listed name reserves a number, and its inode takes it later. Knows only hashes of names.
//!
//! Invariant: no number is reserved twice, and no inode has a reserved number.

use std::mem;

use hashbrown::HashTable;

use crate::operation::InodeNo;

/// Reserved numbers, by the hash of directory and name, in two generations. A full one replaces the
/// older.
#[derive(Debug, Default)]
pub(super) struct Reserved {
    young: HashTable<(u64, InodeNo)>,
    old: HashTable<(u64, InodeNo)>,
}

impl Reserved {
    pub(super) fn find(&self, hash: u64) -> Option<InodeNo> {
        let known = |generation: &HashTable<(u64, InodeNo)>| {
            let known = generation.find(hash, |known| known.0 == hash);
            known.map(|(_, ino)| *ino)
        };
        known(&self.young).or_else(|| known(&self.old))
    }

    pub(super) fn take(&mut self, hash: u64) -> Option<InodeNo> {
        let take = |generation: &mut HashTable<(u64, InodeNo)>| {
            let known = generation.find_entry(hash, |known| known.0 == hash).ok()?;
            Some(known.remove().0.1)
        };
        take(&mut self.young).or_else(|| take(&mut self.old))
    }

    pub(super) fn add(&mut self, hash: u64, ino: InodeNo) {
        if self.young.len() >= RESERVED_MAX {
            self.old = mem::take(&mut self.young);
        }
        self.young.insert_unique(hash, (hash, ino), |known| known.0);
    }
}

/// Numbers of one generation; two generations of 2.2 MB each.
///
/// A program may read a whole directory before it looks at the first name: at least the last 65,536
/// numbers are then still reserved.
const RESERVED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_are_found_until_they_are_taken() {
        let mut reserved = Reserved::default();
        let count = 3 * RESERVED_MAX as u64;
        // Hashes are spread evenly.
        let hash = |number: u64| number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for number in 0..count {
            reserved.add(hash(number), InodeNo(number));
            assert!(reserved.young.len() + reserved.old.len() <= 2 * RESERVED_MAX);
        }
        for number in 0..count {
            let is_kept = number >= count - 2 * RESERVED_MAX as u64;
            let expected = is_kept.then_some(InodeNo(number));
            assert_eq!(reserved.find(hash(number)), expected, "{number}");
            assert_eq!(reserved.take(hash(number)), expected, "{number}");
            assert_eq!(reserved.find(hash(number)), None, "{number}");
        }
    }
}
