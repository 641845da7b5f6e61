//! The memory of a ring's entries: address space for all, pages only where they were touched.

use std::io;
use std::ptr::{self, NonNull};

/// Room before each payload, for headers: the largest page there is, so that payloads begin with a
/// page. Only its end is used.
pub(super) const HEAD_SPACE: usize = 64 << 10;

/// One mapping with the entries one after the other, each a head and a payload.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    entries: usize,
    payload_len: usize,
    page_len: usize,
}

// SAFETY: the mapping is owned by this value; which thread may touch which entry is up to slots and
// the ring.
unsafe impl Send for Memory {}
// SAFETY: shared access gives out nothing but addresses.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `entries` entries with payloads of `payload_len` bytes, a multiple of
    /// [`HEAD_SPACE`].
    pub(super) fn new(entries: usize, payload_len: usize) -> io::Result<Self> {
        assert!(entries > 0 && payload_len > 0 && payload_len.is_multiple_of(HEAD_SPACE));
        let size = entries * (HEAD_SPACE + payload_len);
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping at an address that the kernel chooses touches no memory
        // of ours.
        let mapping = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
        if mapping == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        // A huge page would make entries resident that nobody uses.
        // SAFETY: the range was mapped above and is ours. Advice that is not taken does no harm.
        unsafe { libc::madvise(mapping, size, libc::MADV_NOHUGEPAGE) };
        let start = NonNull::new(mapping.cast()).expect("the kernel maps nothing at address zero");
        Ok(Self {
            start,
            entries,
            payload_len,
            page_len: page_len()?,
        })
    }

    pub(super) fn payload_len(&self) -> usize {
        self.payload_len
    }

    pub(super) fn page_len(&self) -> usize {
        self.page_len
    }

    /// Length of an entry: its head and its payload.
    pub(super) fn entry_len(&self) -> usize {
        HEAD_SPACE + self.payload_len
    }

    /// Where entry `index` begins.
    pub(super) fn entry(&self, index: usize) -> NonNull<u8> {
        assert!(index < self.entries);
        // SAFETY: the index was checked, so the address is within the mapping.
        unsafe { self.start.add(index * self.entry_len()) }
    }

    /// Gives the pages of an entry's payload back, but for the first `kept` bytes; they read as
    /// zeros from now on.
    ///
    /// # Safety
    /// No other thread may touch the payload meanwhile, nor need its content.
    pub(super) unsafe fn give_back(&self, index: usize, kept: usize) {
        let kept = kept.next_multiple_of(self.page_len);
        if kept >= self.payload_len {
            return;
        }
        let start = self.entry(index).as_ptr().wrapping_add(HEAD_SPACE + kept);
        let len = self.payload_len - kept;
        // SAFETY: whole pages within the entry, which the caller owns.
        unsafe { libc::madvise(start.cast(), len, libc::MADV_DONTNEED) };
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let size = self.entries * self.entry_len();
        // SAFETY: the mapping is ours, and nothing refers to it: slots and rings would hold it
        // alive.
        let result = unsafe { libc::munmap(self.start.as_ptr().cast(), size) };
        debug_assert_eq!(result, 0);
    }
}

/// Size of the kernel's pages, in bytes.
fn page_len() -> io::Result<usize> {
    // SAFETY: asks a number.
    let len = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    let len = usize::try_from(len).map_err(io::Error::other)?;
    assert!(
        len.is_power_of_two() && len <= HEAD_SPACE,
        "pages of {len} bytes"
    );
    Ok(len)
}
