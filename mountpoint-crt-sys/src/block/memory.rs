//! Raw memory for blocks: the allocator's for small ones, own mappings for the rest.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

/// Up to here the allocator serves, with exactly the length asked for.
pub(super) const SMALL_MAX: usize = 64 << 10;

/// Alignment of small memory: no two blocks share a cache line.
const SMALL_ALIGN: usize = 64;

const PAGE: usize = 4 << 10;

/// From this size on, memory is aligned for huge pages and asks for them.
const HUGE: usize = 2 << 20;

/// Owned memory. Its bytes start uninitialised or with the content of an earlier block.
#[derive(Debug)]
pub(super) struct Memory {
    start: NonNull<u8>,
    size: usize,
}

// SAFETY: the memory is owned by this value alone; the pointer is only an address.
unsafe impl Send for Memory {}
// SAFETY: shared access gives out nothing but the address.
unsafe impl Sync for Memory {}

impl Memory {
    /// Memory of `size` bytes: at most [`SMALL_MAX`], or a multiple of the page size.
    pub(super) fn new(size: usize) -> Self {
        if is_allocated(size) {
            Self::small(size)
        } else {
            Self::mapped(size)
        }
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// Makes it `size` bytes long without a copy: its pages stay, and may move to other addresses.
    /// Returns whether it could. Not for small memory, nor to make it smaller.
    pub(super) fn grow(&mut self, size: usize) -> bool {
        assert!(self.size > SMALL_MAX);
        assert!(size > self.size);
        assert!(size.is_multiple_of(PAGE));
        if is_allocated(self.size) {
            return false;
        }
        let start = self.start.as_ptr();
        let is_huge = size >= HUGE;
        let grown = if is_huge && start.align_offset(HUGE) > 0 {
            // If this fails, the room may be another thread's by now: it is left, and nothing of it
            // was touched.
            let room = aligned(size, HUGE);
            remap(start, self.size, size, Some(room))
        } else {
            remap(start, self.size, size, None)
        };
        let Some(start) = grown else {
            return false;
        };
        if is_huge {
            advise_huge(start.as_ptr(), size);
        }
        self.start = start;
        self.size = size;
        true
    }

    /// Gives back to the system all behind the first `size` bytes. Not for small memory, nor to
    /// make it small.
    pub(super) fn cut(&mut self, size: usize) {
        assert!(size > SMALL_MAX);
        assert!(size <= self.size);
        assert!(size.is_multiple_of(PAGE));
        if is_allocated(self.size) {
            let mut shorter = Self::small(size);
            shorter.copy_from(self, size);
            *self = shorter;
            return;
        }
        unmap(self.start.as_ptr().wrapping_add(size), self.size - size);
        self.size = size;
    }

    /// Takes over the first `len` bytes of `other`.
    pub(super) fn copy_from(&mut self, other: &Self, len: usize) {
        assert!(len <= self.size);
        assert!(len <= other.size);
        // SAFETY: both are at least as long, and two memories never overlap.
        unsafe { self.start.copy_from_nonoverlapping(other.start, len) };
    }

    fn small(size: usize) -> Self {
        let layout = small_layout(size);
        // SAFETY: the layout is never empty.
        let start = unsafe { alloc(layout) };
        let start = NonNull::new(start).unwrap_or_else(|| handle_alloc_error(layout));
        Self { start, size }
    }

    fn mapped(size: usize) -> Self {
        assert!(size.is_multiple_of(PAGE));
        let align = if size >= HUGE { HUGE } else { PAGE };
        let start = aligned(size, align);
        if size >= HUGE {
            advise_huge(start, size);
        }
        let start = NonNull::new(start).expect("the kernel maps nothing at address zero");
        Self { start, size }
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if !is_allocated(self.size) {
            unmap(self.start.as_ptr(), self.size);
            return;
        }
        // SAFETY: it was allocated with this layout.
        unsafe { dealloc(self.start.as_ptr(), small_layout(self.size)) }
    }
}

/// Has the allocator return unused memory to the system. Takes about a millisecond for each 100 MB
/// that it holds.
pub fn trim_allocator() {
    #[cfg(all(target_env = "gnu", not(miri)))]
    // SAFETY: needs nothing and may be called at any time, on any thread.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Whether memory of `size` bytes is the allocator's. Miri knows no mapping that goes in parts.
fn is_allocated(size: usize) -> bool {
    size <= SMALL_MAX || cfg!(miri)
}

fn small_layout(size: usize) -> Layout {
    Layout::from_size_align(size.max(1), SMALL_ALIGN).expect("small sizes fit")
}

fn map(size: usize) -> *mut u8 {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping at an address that the kernel chooses touches no memory of
    // ours.
    let mapping = unsafe { libc::mmap(ptr::null_mut(), size, protection, flags, -1, 0) };
    if mapping == libc::MAP_FAILED {
        handle_alloc_error(Layout::from_size_align(size, PAGE).expect("block sizes fit"));
    }
    mapping.cast()
}

/// A new mapping of `size` bytes at a multiple of `align`.
fn aligned(size: usize, align: usize) -> *mut u8 {
    let slack = align - PAGE;
    let mapping = map(size + slack);
    let head = mapping.align_offset(align);
    let start = mapping.wrapping_add(head);
    unmap(mapping, head);
    unmap(start.wrapping_add(size), slack - head);
    start
}

/// Asks for huge pages in a mapping of ours.
fn advise_huge(start: *mut u8, size: usize) {
    // SAFETY: callers own start..start + size. Advice that is not taken does no harm.
    unsafe { libc::madvise(start.cast(), size, libc::MADV_HUGEPAGE) };
}

/// Makes the mapping of `size` bytes at `start` `longer`: in the place of the mapping `into`, which
/// is as long, or wherever the kernel finds room.
fn remap(start: *mut u8, size: usize, longer: usize, into: Option<*mut u8>) -> Option<NonNull<u8>> {
    let fixed = into.map_or(0, |_| libc::MREMAP_FIXED);
    let (flags, into) = (libc::MREMAP_MAYMOVE | fixed, into.unwrap_or(start));
    // SAFETY: callers own both mappings, and use the old addresses no more if this succeeds.
    let moved = unsafe { libc::mremap(start.cast(), size, longer, flags, into) };
    if moved == libc::MAP_FAILED {
        return None;
    }
    NonNull::new(moved.cast())
}

fn unmap(start: *mut u8, size: usize) {
    if size == 0 {
        return;
    }
    // SAFETY: callers own start..start + size, which is whole pages of one mapping, and use it no
    // more.
    let result = unsafe { libc::munmap(start.cast(), size) };
    debug_assert_eq!(result, 0);
}
