//! Records of how files were read and how programs read.
//!
//! Bounded: the most recent files and programs. A forgotten record only leads to a worse choice.

use std::collections::HashMap;
use std::hash::Hash;

use super::policy::ReadSize;

/// Identifies a version of a file: a hash of key and ETag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId(pub(super) u64);

/// Identifies a program: a hash of the path of its executable file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ProgramId(pub(super) u64);

/// Record of one file's reads and opens.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct FilePast {
    pub(super) read_size: Option<ReadSize>,
    pub(super) opens: u32,
    /// Bytes that the mount had read when the file was closed last.
    pub(super) read_at: Option<u64>,
}

/// A map of the most recently touched entries.
#[derive(Debug)]
pub(super) struct Recent<K, V> {
    entries: HashMap<K, (u64, V)>,
    max: usize,
    touches: u64,
}

impl<K: Copy + Eq + Hash, V: Default> Recent<K, V> {
    pub(super) fn new(max: usize) -> Self {
        Self {
            entries: HashMap::new(),
            max,
            touches: 0,
        }
    }

    pub(super) fn get(&self, key: K) -> Option<&V> {
        self.entries.get(&key).map(|(_, value)| value)
    }

    /// The entry of `key`, created if missing. The entries that were touched longest ago give way.
    pub(super) fn touch(&mut self, key: K) -> &mut V {
        if self.entries.len() >= self.max && !self.entries.contains_key(&key) {
            self.forget_oldest();
        }
        self.touches += 1;
        let entry = self.entries.entry(key).or_default();
        entry.0 = self.touches;
        &mut entry.1
    }

    /// Forgets the older half, so that the cost of the search is shared by as many additions.
    fn forget_oldest(&mut self) {
        let mut ages: Vec<u64> = self.entries.values().map(|(age, _)| *age).collect();
        let middle = ages.len() / 2;
        let (_, median, _) = ages.select_nth_unstable(middle);
        let median = *median;
        self.entries.retain(|_, (age, _)| *age > median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_was_touched_last() {
        let mut recent = Recent::<u32, u32>::new(4);
        for key in 0..4 {
            *recent.touch(key) = key;
        }
        let _again = recent.touch(0);
        *recent.touch(9) = 9;
        assert_eq!(recent.get(9), Some(&9));
        assert_eq!(recent.get(0), Some(&0));
        assert_eq!(recent.get(1), None);
        for key in 0..10_000 {
            let _new = recent.touch(key);
            assert!(recent.entries.len() <= 4);
        }
    }
}
