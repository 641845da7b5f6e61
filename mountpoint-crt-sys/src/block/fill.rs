//! One block: the writer's side and the readers' side.

use std::any::Any;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::memory::SMALL_MAX;
use super::recycler::Pooled;

/// The right to fill a block; there is one for each block. Dropping it ends the filling.
pub struct BlockFill {
    block: Block,
    /// Bytes that are filled, while they are hidden from readers.
    withheld: Option<usize>,
}

/// A reader's handle of a block. The memory returns to the pool with the last handle.
#[derive(Clone)]
pub struct Block(Arc<Inner>);

struct Inner {
    memory: Pooled,
    /// Dropped with the memory.
    _guard: Option<Guard>,
    capacity: usize,
    /// Stored with Release after the bytes before it were written, loaded with Acquire before they
    /// are read.
    valid: AtomicUsize,
}

/// A value that lives exactly as long as a block's memory.
pub(super) type Guard = Box<dyn Any + Send + Sync>;

/// The unfilled rest of a block, for the C library to write. Keeps the memory alive, publishes
/// nothing.
pub(crate) struct Unfilled {
    pub(crate) start: NonNull<u8>,
    pub(crate) len: usize,
    _block: Block,
}

impl BlockFill {
    pub(super) fn new(memory: Pooled, capacity: usize, guard: Option<Guard>) -> Self {
        assert!(capacity <= memory.memory().size());
        let block = Block(Arc::new(Inner {
            memory,
            _guard: guard,
            capacity,
            valid: AtomicUsize::new(0),
        }));
        Self {
            block,
            withheld: None,
        }
    }

    /// Another reader's handle of the block.
    #[must_use]
    pub fn block(&self) -> Block {
        self.block.clone()
    }

    /// Size of the block in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.block.capacity()
    }

    /// Bytes filled so far: those that [`Block::valid`] tells, and those that are withheld.
    #[must_use]
    pub fn filled(&self) -> usize {
        self.withheld.unwrap_or_else(|| self.block.valid())
    }

    /// Whether bytes that are filled now are hidden from readers.
    #[must_use]
    pub fn is_withheld(&self) -> bool {
        self.withheld.is_some()
    }

    /// Hides bytes that are filled from now on from readers, until they are
    /// [released](Self::release).
    pub fn withhold(&mut self) {
        self.withheld = Some(self.filled());
    }

    /// Shows readers the withheld bytes.
    pub fn release(&mut self) {
        if let Some(filled) = self.withheld.take() {
            self.block.0.valid.store(filled, Ordering::Release);
        }
    }

    /// Forgets the withheld bytes: they are to be filled again.
    pub fn discard(&mut self) {
        if self.withheld.is_some() {
            self.withheld = Some(self.block.valid());
        }
    }

    /// All bytes filled so far, whether readers see them or not.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: they are written, and nobody writes there while `self` is borrowed: further
        // filling writes behind them.
        unsafe { slice::from_raw_parts(self.block.at(0).as_ptr(), self.filled()) }
    }

    /// Appends and publishes `bytes`. Panics if they do not fit.
    pub fn append(&mut self, bytes: &[u8]) {
        let filled = self.filled();
        assert!(bytes.len() <= self.capacity() - filled);
        // SAFETY: the bytes fit behind `filled`, where nobody reads and only the holder of `&mut
        // self` writes.
        unsafe {
            self.block
                .at(filled)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        };
        self.fill_to(filled + bytes.len());
    }

    /// Appends and publishes `len` bytes without writing them: zeros, or those of an earlier block.
    /// Panics if they do not fit.
    ///
    /// For models of a store, in which bytes count and are not looked at, so that gigabytes in
    /// flight take no memory. Small blocks may be uninitialised and are written all the same.
    pub fn append_unwritten(&mut self, len: usize) {
        let filled = self.filled();
        assert!(len <= self.capacity() - filled);
        if self.capacity() <= SMALL_MAX {
            // SAFETY: the bytes fit behind `filled`, where nobody reads and only the holder of
            // `&mut self` writes.
            unsafe { self.block.at(filled).write_bytes(0, len) };
        }
        self.fill_to(filled + len);
    }

    /// Appends and publishes `len` bytes of `file` from `offset` on, or fewer where the file ends.
    /// Returns how many. Panics if they do not fit.
    ///
    /// # Errors
    /// Some bytes may have been appended.
    pub fn read_from(&mut self, file: &File, offset: u64, len: usize) -> io::Result<usize> {
        assert!(len <= self.capacity() - self.filled());
        let mut read = 0;
        while read < len {
            let at = libc::off_t::try_from(offset.saturating_add(read as u64));
            let at = at.map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
            let rest = self.block.at(self.filled()).as_ptr().cast();
            // SAFETY: `len - read` bytes fit behind the filled ones, where nobody reads and only
            // the holder of `&mut self` writes.
            let now = unsafe { libc::pread(file.as_raw_fd(), rest, len - read, at) };
            match usize::try_from(now) {
                Ok(0) => break,
                Ok(now) => {
                    self.fill_to(self.filled() + now);
                    read += now;
                }
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
        Ok(read)
    }

    /// So many bytes are filled.
    fn fill_to(&mut self, filled: usize) {
        match &mut self.withheld {
            Some(withheld) => *withheld = filled,
            None => self.block.0.valid.store(filled, Ordering::Release),
        }
    }

    /// Whether there are other handles of the block: then it cannot grow.
    #[must_use]
    pub fn is_shared(&self) -> bool {
        Arc::strong_count(&self.block.0) > 1
    }

    /// Makes it a block of `len` bytes, no fewer than it has, with what was filled. Returns whether
    /// that could be done: not while there are other handles of it.
    pub fn grow(&mut self, len: usize) -> bool {
        assert!(len >= self.capacity());
        let filled = self.filled();
        let Some(inner) = Arc::get_mut(&mut self.block.0) else {
            return false;
        };
        inner.memory.grow(len, filled);
        inner.capacity = len;
        true
    }

    /// Makes it a block of `len` bytes, no fewer than are filled, and gives the memory behind them
    /// back. Returns whether that could be done: not while there are other handles of it.
    pub fn shrink(&mut self, len: usize) -> bool {
        assert!(len <= self.capacity());
        assert!(len >= self.filled());
        let Some(inner) = Arc::get_mut(&mut self.block.0) else {
            return false;
        };
        inner.memory.shrink(len);
        inner.capacity = len;
        true
    }

    /// Writes `bytes` over filled ones, from `offset` on. Returns whether that could be done: not
    /// while there are other handles of the block. Panics if they were not filled before.
    pub fn overwrite(&mut self, offset: usize, bytes: &[u8]) -> bool {
        let filled = self.filled();
        assert!(offset <= filled);
        assert!(bytes.len() <= filled - offset);
        if Arc::get_mut(&mut self.block.0).is_none() {
            return false;
        }
        // SAFETY: the bytes are inside the filled ones, and nobody else has a handle to read them.
        unsafe {
            self.block
                .at(offset)
                .copy_from_nonoverlapping(NonNull::from(bytes).cast(), bytes.len());
        };
        true
    }

    /// The rest behind the filled bytes, to be written by C.
    pub(crate) fn unfilled(&mut self) -> Unfilled {
        let filled = self.filled();
        Unfilled {
            start: self.block.at(filled),
            len: self.capacity() - filled,
            _block: self.block(),
        }
    }

    /// Where the rest began when `filled` bytes were filled.
    pub(crate) fn unfilled_from(&self, filled: usize) -> NonNull<u8> {
        self.block.at(filled)
    }

    /// Publishes the bytes before `filled`, unless they are withheld. Never takes published bytes
    /// back.
    ///
    /// # Safety
    ///
    /// Bytes `..filled` are written, and nobody writes them again.
    pub(crate) unsafe fn publish(&mut self, filled: usize) {
        assert!(filled <= self.capacity());
        if filled > self.filled() {
            self.fill_to(filled);
        }
    }
}

impl fmt::Debug for BlockFill {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BlockFill({} of {})", self.filled(), self.capacity())
    }
}

impl Block {
    /// Size in bytes.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.0.capacity
    }

    /// How many bytes from the front are valid. Grows only.
    #[must_use]
    pub fn valid(&self) -> usize {
        self.0.valid.load(Ordering::Acquire)
    }

    /// The bytes of `range`. Panics unless `range.start <= range.end <= valid()`.
    #[must_use]
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        assert!(range.start <= range.end);
        assert!(range.end <= self.valid());
        // SAFETY: the range is inside the valid bytes: written, never written again, and owned by
        // self's memory.
        unsafe { slice::from_raw_parts(self.at(range.start).as_ptr(), range.end - range.start) }
    }

    fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset <= self.capacity());
        // SAFETY: at most one past the end of the memory, which is at least as long as the
        // capacity.
        unsafe { self.0.memory.memory().start().add(offset) }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({} of {})", self.valid(), self.capacity())
    }
}

// SAFETY: an address inside a block's memory; what may be written through it is the caller's
// contract.
unsafe impl Send for Unfilled {}
// SAFETY: as above; shared access only reads the address.
unsafe impl Sync for Unfilled {}
