//! Data files that are small enough to stay in memory, and their share of the mount's memory.
//!
//! A small file goes into the journal's record, or to the bucket, from where it is: a file of the
//! disk beside that would cost more than the bytes. Knows no disk.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::memory::{Budget, Purpose, Reservation};
use crate::sync::Mutex;

/// The share of the mount's memory that data files may have.
pub(in crate::file) struct FileMemory {
    budget: Arc<Budget>,
    bytes_max: u64,
    used: AtomicU64,
    /// Of all files. A leaf.
    reserved: Mutex<Option<Reservation>>,
}

/// A data file in memory.
#[derive(Debug, Default)]
pub(super) struct MemoryFile {
    bytes: Vec<u8>,
    share: Option<Share>,
}

/// Bytes of the memory, given back on drop: without a lock, as that wakes who waits for memory.
#[derive(Debug)]
pub(in crate::file) struct Share {
    memory: Arc<FileMemory>,
    bytes: u64,
}

impl FileMemory {
    /// A share of `budget` for small data files.
    pub(in crate::file) fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self {
            budget: Arc::clone(budget),
            bytes_max: MEMORY_BYTES_MAX.min(budget.limit() / MEMORY_SHARE),
            used: AtomicU64::new(0),
            reserved: Mutex::default(),
        })
    }

    /// Has all further data files made on the disk.
    #[cfg(test)]
    pub(in crate::file) fn forbid(&self) {
        self.used.fetch_add(self.bytes_max, Ordering::Relaxed);
    }

    /// Bytes of all files.
    #[cfg(test)]
    pub(in crate::file) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) fn take(self: &Arc<Self>, bytes: u64) -> Option<Share> {
        let taken = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
                Some(used + bytes).filter(|used| *used <= self.bytes_max)
            });
        taken.ok()?;
        let Some(more) = self.budget.try_reserve(bytes, Purpose::Demand) else {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        };
        let mut reserved = self.reserved.lock();
        match &mut *reserved {
            Some(reserved) => reserved.merge(more),
            None => *reserved = Some(more),
        }
        let memory = Arc::clone(self);
        Some(Share { memory, bytes })
    }
}

impl Share {
    /// Moves `bytes` of it into a share of their own.
    fn split(&mut self, bytes: u64) -> Self {
        self.bytes -= bytes;
        let memory = Arc::clone(&self.memory);
        Self { memory, bytes }
    }

    /// Takes the bytes of `other` as well.
    pub(super) fn merge(&mut self, mut other: Self) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl MemoryFile {
    /// Writes `data` at `offset`, behind zeros if the file ends before. `false`, and no change, if
    /// the file becomes too long, or there is no memory for it.
    pub(super) fn write(&mut self, memory: &Arc<FileMemory>, offset: u64, data: &[u8]) -> bool {
        let Some((start, end)) = small_range(offset, data.len()) else {
            return false;
        };
        if end > self.bytes.capacity() {
            let doubled = self.bytes.capacity().saturating_mul(2);
            let capacity = end
                .next_multiple_of(PAGE_LEN)
                .max(doubled)
                .min(FILE_LEN_MAX);
            let more = capacity - self.bytes.capacity();
            let Some(share) = memory.take(more as u64) else {
                return false;
            };
            match &mut self.share {
                Some(own) => own.merge(share),
                None => self.share = Some(share),
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        if end > self.bytes.len() {
            self.bytes.resize(end, 0);
        }
        // A copy of file data: from the kernel's request to where the file keeps it.
        self.bytes[start..end].copy_from_slice(data);
        true
    }

    /// Gives back the memory behind its bytes. Returns the share of it, to be dropped without a
    /// lock.
    pub(super) fn shrink(&mut self) -> Option<Share> {
        self.bytes.shrink_to_fit();
        let share = self.share.as_mut()?;
        let surplus = share.bytes.saturating_sub(self.bytes.capacity() as u64);
        (surplus > 0).then(|| share.split(surplus))
    }

    /// A file of these bytes, which have that share.
    pub(super) fn restored(bytes: Vec<u8>, share: Option<Share>) -> Self {
        Self { bytes, share }
    }

    /// Its bytes, and their share.
    pub(super) fn into_parts(self) -> (Vec<u8>, Option<Share>) {
        (self.bytes, self.share)
    }

    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The places of bytes in a file that stays in memory; `None` if none of such a length does.
fn small_range(offset: u64, len: usize) -> Option<(usize, usize)> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(len)?;
    (end <= FILE_LEN_MAX).then_some((start, end))
}

impl Drop for Share {
    fn drop(&mut self) {
        let reserved = self
            .memory
            .reserved
            .lock()
            .as_mut()
            .map(|it| it.split(self.bytes));
        self.memory.used.fetch_sub(self.bytes, Ordering::Relaxed);
        drop(reserved);
    }
}

impl fmt::Debug for FileMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileMemory({})", self.bytes_max)
    }
}

/// Longest data file in memory: that of a file whose bytes go into its record.
pub(super) const FILE_LEN_MAX: usize = 128 << 10;

/// Memory of all those files: 30,000 files of 8 KiB may wait for their upload. Others are made on
/// the disk.
const MEMORY_BYTES_MAX: u64 = 256 << 20;

/// The share of the mount's memory is one of so many: uploads and reads need the rest.
const MEMORY_SHARE: u64 = 8;

/// Memory grows by pages first, then by doubling.
pub(super) const PAGE_LEN: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_stay_where_they_are_written() {
        let memory = FileMemory::new(&Budget::new(64 << 20));
        let mut file = MemoryFile::default();
        assert!(file.write(&memory, 3, b"abc"));
        assert_eq!(file.bytes(), b"\0\0\0abc");
        assert!(file.write(&memory, 5, b"de"));
        assert_eq!(file.bytes(), b"\0\0\0abde");
        assert_eq!(memory.used(), 4096);
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let budget = Budget::new(1 << 20);
        let memory = FileMemory::new(&budget);
        let (mut first, mut second) = (MemoryFile::default(), MemoryFile::default());
        assert!(first.write(&memory, FILE_LEN_MAX as u64 - 1, b"a"));
        assert!(!first.write(&memory, FILE_LEN_MAX as u64, b"a"), "too long");
        assert!(!second.write(&memory, 0, b"a"), "an eighth of the memory");
        assert_eq!((memory.used(), budget.used()), (128 << 10, 128 << 10));
        drop(first);
        assert_eq!((memory.used(), budget.used()), (0, 0));
        assert!(second.write(&memory, 0, b"a"));
    }

    #[test]
    fn a_file_that_waits_has_the_memory_of_its_bytes_alone() {
        let budget = Budget::new(64 << 20);
        let memory = FileMemory::new(&budget);
        let mut file = MemoryFile::default();
        let check = |file: &mut MemoryFile, len: usize| {
            drop(file.shrink());
            let capacity = file.bytes.capacity();
            assert_eq!((file.bytes().len(), capacity), (len, len));
            assert_eq!((memory.used(), budget.used()), (len as u64, len as u64));
        };
        assert!(file.write(&memory, 0, &[1; 110]));
        check(&mut file, 110);
        check(&mut file, 110);
        assert!(file.write(&memory, 110, &[2; 5000]));
        check(&mut file, 5110);
        assert_eq!(file.bytes(), [&[1; 110][..], &[2; 5000]].concat());
        drop(file);
        assert_eq!((memory.used(), budget.used()), (0, 0));
    }

    #[test]
    fn other_memory_comes_first() {
        let budget = Budget::new(64 << 20);
        let memory = FileMemory::new(&budget);
        let other = budget.try_reserve(64 << 20, Purpose::Demand);
        let mut file = MemoryFile::default();
        assert!(!file.write(&memory, 0, b"a"));
        assert_eq!(memory.used(), 0);
        drop(other);
        assert!(file.write(&memory, 0, b"a"));
    }
}
