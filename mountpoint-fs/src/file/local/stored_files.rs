//! Bytes of small files that were stored a moment ago, for the read that may follow.
//!
//! A program often reads next what it has written: `git` its objects, a linker its inputs. The
//! kernel has the whole pages of that, and not the last one, which was written in part.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mountpoint_client::types::{ETag, Key};

use super::memory_file::{FILE_LEN_MAX, PAGE_LEN};
use crate::clock::Clock;
use crate::memory::{Budget, Purpose, Reservation};
use crate::read::MemoryHolder;
use crate::sync::Mutex;

/// The bytes, with their memory.
pub(in crate::file) struct StoredFiles {
    budget: Arc<Budget>,
    bytes_max: u64,
    clock: Clock,
    /// A leaf. No memory is given back under it: that wakes who waits for memory.
    table: Mutex<Table>,
}

impl StoredFiles {
    /// A share of `budget`.
    pub(in crate::file) fn new(budget: &Arc<Budget>, clock: Clock) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            bytes_max: STORED_BYTES_MAX.min(budget.limit() / STORED_MEMORY_SHARE),
            clock,
            table: Mutex::default(),
        })
    }

    /// Whether a file of `size` bytes is one that may be kept. The kernel has all of one that ends
    /// with a whole page.
    pub(in crate::file) fn may_keep(&self, size: u64) -> bool {
        let has_part_of_page = !size.is_multiple_of(PAGE_LEN as u64);
        has_part_of_page && size <= (FILE_LEN_MAX as u64).min(self.bytes_max)
    }

    /// Keeps the bytes of the version `etag` of `key`, if there is memory. Wakes who waits for
    /// memory: the caller holds no lock.
    pub(in crate::file) fn keep(&self, (key, etag): (Key, ETag), bytes: Vec<u8>) {
        let named = key.as_str().len() + etag.as_str().len();
        let needed = (bytes.len() + named) as u64 + STORED_FILE_BYTES;
        if needed > self.bytes_max {
            return;
        }
        self.drop_until(self.bytes_max - needed);
        // Readers and writers that wait for memory come first.
        let memory = self.budget.try_reserve(needed, Purpose::Demand);
        let now = self.clock.now();
        let replaced = memory.and_then(|memory| {
            let bytes = Bytes::from(bytes);
            self.table.lock().keep(key, (etag, bytes), memory, now)
        });
        drop(replaced);
    }

    /// Drops the oldest files until the rest has at most `bytes_max`.
    fn drop_until(&self, bytes_max: u64) {
        loop {
            let dropped = {
                let mut table = self.table.lock();
                match table.bytes <= bytes_max {
                    true => None,
                    false => table.drop_oldest(),
                }
            };
            if dropped.is_none() {
                return;
            }
        }
    }

    /// The bytes of the version `etag` of `key`, if they were kept and are `size`, to one caller.
    pub(in crate::file) fn take(&self, key: &Key, etag: &ETag, size: u64) -> Option<Bytes> {
        let now = self.clock.now();
        let file = self.table.lock().take(key, now)?;
        // Broken servers have one tag for several contents.
        let is_same = file.etag == *etag && file.bytes.len() as u64 == size;
        is_same.then_some(file.bytes)
    }

    /// Forgets what was kept of `key`. Wakes who waits for memory.
    pub(in crate::file) fn forget(&self, key: &Key) {
        let file = self.table.lock().remove(key);
        drop(file);
    }
}

impl MemoryHolder for StoredFiles {
    fn used_at(&self) -> Duration {
        self.table.lock().used_at
    }

    fn give_back(&self, _: bool) -> u64 {
        let bytes = self.table.lock().bytes;
        self.drop_until(0);
        bytes
    }

    /// No two readers share them.
    fn give_back_shared(&self, _: u64) -> u64 {
        0
    }
}

impl fmt::Debug for StoredFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.table.lock().bytes;
        write!(f, "StoredFiles({bytes} bytes)")
    }
}

/// The files.
#[derive(Debug, Default)]
struct Table {
    by_key: HashMap<Key, StoredFile>,
    /// Keys and numbers in the order in which the files were kept. One that was taken, or kept
    /// again, is there all the same, with another number.
    in_order: VecDeque<(u64, Key)>,
    next_number: u64,
    /// Memory of all files.
    bytes: u64,
    /// When one was kept or taken last.
    used_at: Duration,
}

#[derive(Debug)]
struct StoredFile {
    etag: ETag,
    bytes: Bytes,
    number: u64,
    memory: Reservation,
}

impl Table {
    /// Keeps a file. Returns the one that it replaces.
    #[must_use]
    fn keep(
        &mut self,
        key: Key,
        (etag, bytes): (ETag, Bytes),
        memory: Reservation,
        now: Duration,
    ) -> Option<StoredFile> {
        self.used_at = now;
        if self.in_order.len() > 2 * self.by_key.len() + PLACES_MIN {
            let by_key = &self.by_key;
            self.in_order
                .retain(|(number, key)| is_there(by_key, *number, key));
        }
        let number = self.next_number;
        self.next_number += 1;
        self.in_order.push_back((number, key.clone()));
        self.bytes += memory.bytes();
        let file = StoredFile {
            etag,
            bytes,
            number,
            memory,
        };
        let replaced = self.by_key.insert(key, file)?;
        self.bytes -= replaced.memory.bytes();
        Some(replaced)
    }

    fn take(&mut self, key: &Key, now: Duration) -> Option<StoredFile> {
        let file = self.remove(key)?;
        self.used_at = now;
        Some(file)
    }

    fn remove(&mut self, key: &Key) -> Option<StoredFile> {
        let file = self.by_key.remove(key)?;
        self.bytes -= file.memory.bytes();
        if self.by_key.is_empty() {
            self.in_order.clear();
        }
        Some(file)
    }

    /// Removes the file that was kept first.
    fn drop_oldest(&mut self) -> Option<StoredFile> {
        loop {
            let (number, key) = self.in_order.pop_front()?;
            if is_there(&self.by_key, number, &key) {
                return self.remove(&key);
            }
        }
    }
}

/// Whether `key` still has the file of this number.
fn is_there(by_key: &HashMap<Key, StoredFile>, number: u64, key: &Key) -> bool {
    by_key.get(key).is_some_and(|file| file.number == number)
}

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

    const LEN: u64 = 1000 + 4 + STORED_FILE_BYTES;

    fn files(budget: &Arc<Budget>) -> (Arc<StoredFiles>, Clock) {
        let clock = Clock::manual();
        (StoredFiles::new(budget, clock.clone()), clock)
    }

    fn named(key: &str) -> (Key, ETag) {
        (Key::parse(key).unwrap(), ETag::from_header("1"))
    }

    fn keep(files: &StoredFiles, key: &str) {
        files.keep(named(key), vec![1; 1000]);
    }

    fn is_taken(files: &StoredFiles, key: &str) -> bool {
        let (key, etag) = named(key);
        let bytes = files.take(&key, &etag, 1000);
        bytes.is_some_and(|bytes| bytes[..] == [1; 1000])
    }

    #[test]
    fn bytes_of_the_version_can_be_taken_once() {
        let budget = Budget::new(1 << 20);
        let (files, _) = files(&budget);
        keep(&files, "a");
        assert_eq!(budget.used(), LEN);
        assert!(is_taken(&files, "a") && !is_taken(&files, "a"));
        assert_eq!(budget.used(), 0);
        let (key, etag) = named("a");
        for (etag, size) in [(ETag::from_header("2"), 1000), (etag, 1001)] {
            keep(&files, "a");
            assert_eq!(files.take(&key, &etag, size), None);
            assert_eq!(budget.used(), 0);
        }
        keep(&files, "a");
        keep(&files, "a");
        assert_eq!(budget.used(), LEN, "one replaces the other");
        files.forget(&key);
        assert_eq!(budget.used(), 0);
        assert!(!is_taken(&files, "a"));
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let budget = Budget::new(32 * LEN);
        let (files, clock) = files(&budget);
        for key in ["a", "b", "a", "c"] {
            keep(&files, key);
        }
        assert_eq!(budget.used(), 2 * LEN, "a sixteenth");
        assert!(!is_taken(&files, "b"), "the oldest goes");
        assert!(is_taken(&files, "a") && is_taken(&files, "c"));
        assert!(files.may_keep(1) && !files.may_keep(0));
        assert!(!files.may_keep(2 * LEN + 1), "more than all memory");
        let large = StoredFiles::new(&Budget::new(1 << 30), clock.clone());
        assert!(large.may_keep(4095) && !large.may_keep(4096) && large.may_keep(4097));
        files.keep(named("large"), vec![1; 4000]);
        assert_eq!(budget.used(), 0);
        keep(&files, "a");
        keep(&files, "b");
        assert_eq!(files.give_back(true), 2 * LEN);
        assert_eq!((budget.used(), files.give_back(false)), (0, 0));
        let all = budget.reserve(32 * LEN);
        keep(&files, "a");
        assert!(!is_taken(&files, "a"), "there is no memory");
        drop(all);
        for second in 1..=2 {
            clock.advance(Duration::from_secs(1));
            match second {
                1 => keep(&files, "a"),
                _ => assert!(is_taken(&files, "a")),
            }
            assert_eq!(files.used_at(), clock.now());
        }
        clock.advance(Duration::from_secs(1));
        assert!(!is_taken(&files, "a"));
        assert!(files.used_at() < clock.now());
    }

    #[test]
    fn places_of_files_that_are_gone_are_bounded() {
        let budget = Budget::new(1 << 20);
        let (files, _) = files(&budget);
        for _ in 0..4 * PLACES_MIN {
            keep(&files, "a");
        }
        assert!(files.table.lock().in_order.len() <= PLACES_MIN + 4);
        assert!(is_taken(&files, "a"));
        assert!(files.table.lock().in_order.is_empty());
    }
}
