//! Where the C library gets its memory, and how much of it is alive if someone wants to know.

use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use mountpoint_s3_crt_sys::{aws_allocator, aws_default_allocator};

/// An allocator of the C library. Lives as long as the process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocator {
    raw: *mut aws_allocator,
    live: Option<&'static AtomicUsize>,
}

// SAFETY: both kinds of allocator may be used from any thread and are never freed.
unsafe impl Send for Allocator {}
// SAFETY: as above.
unsafe impl Sync for Allocator {}

impl Allocator {
    /// The C library's own: malloc.
    pub(crate) fn plain() -> Self {
        // SAFETY: returns the address of a static.
        let raw = unsafe { aws_default_allocator() };
        Self { raw, live: None }
    }

    /// Malloc with a counter of its own. Leaks a few bytes, so make few.
    pub(crate) fn counting() -> Self {
        let live: &'static AtomicUsize = Box::leak(Box::new(AtomicUsize::new(0)));
        let raw = Box::leak(Box::new(aws_allocator {
            mem_acquire: Some(acquire),
            mem_release: Some(release),
            mem_realloc: None,
            mem_calloc: Some(calloc),
            impl_: ptr::from_ref(live).cast_mut().cast(),
        }));
        Self {
            raw,
            live: Some(live),
        }
    }

    pub(crate) fn as_ptr(self) -> *mut aws_allocator {
        self.raw
    }

    /// Bytes alive, when counted.
    pub(crate) fn live(self) -> Option<&'static AtomicUsize> {
        self.live
    }
}

/// # Safety
///
/// `allocator` comes from [`Allocator::counting`].
unsafe fn live<'a>(allocator: *mut aws_allocator) -> &'a AtomicUsize {
    // SAFETY: the caller's contract; the allocator is never freed.
    let allocator = unsafe { &*allocator };
    // SAFETY: `impl_` is the leaked counter.
    unsafe { &*allocator.impl_.cast::<AtomicUsize>() }
}

/// # Safety
///
/// `memory` is null or from malloc.
unsafe fn usable(memory: *mut libc::c_void) -> usize {
    // SAFETY: the caller's contract; null gives 0.
    unsafe { libc::malloc_usable_size(memory) }
}

unsafe extern "C" fn acquire(allocator: *mut aws_allocator, size: usize) -> *mut libc::c_void {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::malloc(size) };
    // SAFETY: only called for counting allocators.
    let live = unsafe { live(allocator) };
    // SAFETY: just allocated.
    live.fetch_add(unsafe { usable(memory) }, Ordering::Relaxed);
    memory
}

unsafe extern "C" fn calloc(
    allocator: *mut aws_allocator,
    count: usize,
    size: usize,
) -> *mut libc::c_void {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::calloc(count, size) };
    // SAFETY: only called for counting allocators.
    let live = unsafe { live(allocator) };
    // SAFETY: just allocated.
    live.fetch_add(unsafe { usable(memory) }, Ordering::Relaxed);
    memory
}

unsafe extern "C" fn release(allocator: *mut aws_allocator, memory: *mut libc::c_void) {
    // SAFETY: only called for counting allocators.
    let live = unsafe { live(allocator) };
    // SAFETY: C releases what it acquired.
    live.fetch_sub(unsafe { usable(memory) }, Ordering::Relaxed);
    // SAFETY: as above, and uses it no more.
    unsafe { libc::free(memory) };
}
