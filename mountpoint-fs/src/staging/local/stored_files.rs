//! Bytes of small files that were stored a moment ago, for the read that may follow.
//!
//! A program often reads next what it has written: `git` its objects, a linker its inputs. The
//! kernel has the whole pages of that, and not the last one, which was written in part.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_client::types::{ETag, Key};

use super::memory_file::FILE_LEN_MAX;
use crate::memory::{Budget, Purpose, Reservation};
use crate::sync::Mutex;

/// The bytes, with their memory.
pub(in crate::staging) struct StoredFiles {
    budget: Arc<Budget>,
    bytes_max: u64,
    /// A leaf. No memory is given back under it: that wakes who waits for memory.
    table: Mutex<Table>,
}

impl StoredFiles {
    /// A share of `budget`.
    pub(in crate::staging) fn new(budget: &Arc<Budget>) -> Self {
        Self {
            budget: Arc::clone(budget),
            bytes_max: STORED_BYTES_MAX.min(budget.limit() / STORED_MEMORY_SHARE),
            table: Mutex::default(),
        }
    }

    /// Whether a file of `size` bytes is one that may be kept.
    pub(in crate::staging) fn may_keep(&self, size: u64) -> bool {
        (1..=(FILE_LEN_MAX as u64).min(self.bytes_max)).contains(&size)
    }

    /// Keeps the bytes of the version `etag` of `key`, which was stored at `now`, if there is
    /// memory. Wakes who waits for memory: the caller holds no lock.
    pub(in crate::staging) fn keep(&self, (key, etag): (Key, ETag), bytes: Vec<u8>, now: Duration) {
        let named = key.as_str().len() + etag.as_str().len();
        let needed = (bytes.len() + named) as u64 + STORED_FILE_BYTES;
        if needed > self.bytes_max {
            return;
        }
        loop {
            let dropped = {
                let mut table = self.table.lock();
                match table.bytes + needed <= self.bytes_max {
                    true => None,
                    false => table.drop_oldest(),
                }
            };
            if dropped.is_none() {
                break;
            }
        }
        // Readers and writers that wait for memory come first.
        let memory = self.budget.try_reserve(needed, Purpose::Demand);
        let replaced = memory.and_then(|memory| {
            let file = StoredFile {
                etag,
                bytes: Bytes::from(bytes),
                at: now,
                memory,
            };
            self.table.lock().keep(key, file)
        });
        drop(replaced);
    }

    /// The bytes of the version `etag` of `key`, if they were kept and are `size`, to one caller.
    pub(in crate::staging) fn take(&self, key: &Key, etag: &ETag, size: u64) -> Option<Bytes> {
        let file = self.table.lock().remove(key)?;
        // Broken servers have one tag for several contents.
        let is_same = file.etag == *etag && file.bytes.len() as u64 == size;
        is_same.then_some(file.bytes)
    }

    /// Forgets what was kept of `key`. Wakes who waits for memory, as all below.
    pub(in crate::staging) fn forget(&self, key: &Key) {
        let file = self.table.lock().remove(key);
        drop(file);
    }

    /// Gives back the memory of files that were stored long before `now`, and of all of them if
    /// somebody waits for memory.
    pub(in crate::staging) fn give_back_idle(&self, now: Duration) {
        let oldest = now.saturating_sub(STORED_AGE_MAX);
        loop {
            let is_short = self.budget.deficit().is_some();
            let dropped = {
                let mut table = self.table.lock();
                match is_short || table.is_oldest_before(oldest) {
                    true => table.drop_oldest(),
                    false => None,
                }
            };
            if dropped.is_none() {
                return;
            }
        }
    }
}

/// The files.
#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<Key, StoredFile>,
    /// Keys in the order in which they were stored. One that was taken, or stored again, is there
    /// all the same, with another time.
    in_order: VecDeque<(Duration, Key)>,
    /// Memory of all files.
    bytes: u64,
}

#[derive(Debug)]
struct StoredFile {
    etag: ETag,
    bytes: Bytes,
    at: Duration,
    memory: Reservation,
}

impl Table {
    /// Keeps `file`. Returns the one that it replaces.
    #[must_use]
    fn keep(&mut self, key: Key, file: StoredFile) -> Option<StoredFile> {
        if self.in_order.len() > 2 * self.by_key.len() + PLACES_MIN {
            let by_key = &self.by_key;
            let is_there = |at, key: &Key| by_key.get(key).is_some_and(|file| file.at == at);
            self.in_order.retain(|(at, key)| is_there(*at, key));
        }
        self.in_order.push_back((file.at, key.clone()));
        self.bytes += file.memory.bytes();
        let replaced = self.by_key.insert(key, file)?;
        self.bytes -= replaced.memory.bytes();
        Some(replaced)
    }

    fn remove(&mut self, key: &Key) -> Option<StoredFile> {
        let file = self.by_key.remove(key)?;
        self.bytes -= file.memory.bytes();
        if self.by_key.is_empty() {
            self.in_order.clear();
        }
        Some(file)
    }

    /// Removes the file that was stored first.
    fn drop_oldest(&mut self) -> Option<StoredFile> {
        loop {
            let (at, key) = self.in_order.pop_front()?;
            if self.by_key.get(&key).is_some_and(|file| file.at == at) {
                return self.remove(&key);
            }
        }
    }

    /// Whether a file is there from before `time`.
    fn is_oldest_before(&mut self, time: Duration) -> bool {
        while let Some((at, key)) = self.in_order.front() {
            if self.by_key.get(key).is_some_and(|file| file.at == *at) {
                return *at < time;
            }
            self.in_order.pop_front();
        }
        false
    }
}

/// How long the bytes of a stored file are kept. A clone reads its objects within that.
const STORED_AGE_MAX: Duration = Duration::from_secs(60);

/// Memory of all of them: 8,000 files of 8 KiB.
const STORED_BYTES_MAX: u64 = 64 << 20;

/// The share of the mount's memory is one of so many.
const STORED_MEMORY_SHARE: u64 = 16;

/// Memory of a file besides its bytes, its key and its tag: places in two tables.
const STORED_FILE_BYTES: u64 = 256;

/// Places of files that are gone, beside as many as there are files.
const PLACES_MIN: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1000 + 2 + STORED_FILE_BYTES;

    fn named(key: &str) -> (Key, ETag) {
        (Key::parse(key).unwrap(), ETag::from_header("1"))
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn keep(files: &StoredFiles, key: &str, now: Duration) {
        files.keep(named(key), vec![1; 1000], now);
    }

    fn is_taken(files: &StoredFiles, key: &str) -> bool {
        let (key, etag) = named(key);
        let bytes = files.take(&key, &etag, 1000);
        bytes.is_some_and(|bytes| bytes[..] == [1; 1000])
    }

    #[test]
    fn bytes_of_the_version_can_be_taken_once() {
        let budget = Budget::new(1 << 20);
        let files = StoredFiles::new(&budget);
        keep(&files, "a", at(1));
        assert_eq!(budget.used(), LEN);
        assert!(is_taken(&files, "a") && !is_taken(&files, "a"));
        assert_eq!(budget.used(), 0);
        let (key, etag) = named("a");
        for (etag, size) in [(ETag::from_header("2"), 1000), (etag, 1001)] {
            keep(&files, "a", at(1));
            assert_eq!(files.take(&key, &etag, size), None);
            assert_eq!(budget.used(), 0);
        }
        keep(&files, "a", at(1));
        keep(&files, "a", at(2));
        assert_eq!(budget.used(), LEN, "one replaces the other");
        files.forget(&key);
        assert_eq!(budget.used(), 0);
        assert!(!is_taken(&files, "a"));
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let budget = Budget::new(32 * LEN);
        let files = StoredFiles::new(&budget);
        for (second, key) in (0..).zip(["a", "b", "a", "c"]) {
            keep(&files, key, at(second));
        }
        assert_eq!(budget.used(), 2 * LEN, "a sixteenth");
        assert!(!is_taken(&files, "b"), "the oldest goes");
        files.give_back_idle(at(2) + STORED_AGE_MAX);
        assert_eq!(budget.used(), 2 * LEN);
        files.give_back_idle(at(3) + STORED_AGE_MAX);
        assert!(!is_taken(&files, "a"));
        assert!(is_taken(&files, "c"));
        keep(&files, "a", at(3));
        keep(&files, "b", at(3));
        assert!(is_taken(&files, "a"));
        keep(&files, "a", at(4));
        assert!(is_taken(&files, "b"), "its place stays");
        files.give_back_idle(at(4) + STORED_AGE_MAX);
        assert!(is_taken(&files, "a"), "it is younger than that place");
        assert!(files.may_keep(1) && !files.may_keep(0));
        assert!(!files.may_keep(2 * LEN + 1), "more than all memory");
        files.keep(named("large"), vec![1; 4000], at(4));
        assert_eq!(budget.used(), 0);
        keep(&files, "a", at(4));
        let all = budget.reserve(32 * LEN);
        files.give_back_idle(at(4));
        assert_eq!(budget.used(), 32 * LEN, "somebody waits");
        keep(&files, "a", at(4));
        assert!(!is_taken(&files, "a"), "there is no memory");
        drop(all);
    }

    #[test]
    fn places_of_files_that_are_gone_are_bounded() {
        let budget = Budget::new(1 << 20);
        let files = StoredFiles::new(&budget);
        for second in 0..4 * PLACES_MIN as u64 {
            keep(&files, "a", at(second));
        }
        assert!(files.table.lock().in_order.len() <= PLACES_MIN + 4);
        assert!(is_taken(&files, "a"));
        assert!(files.table.lock().in_order.is_empty());
    }
}
