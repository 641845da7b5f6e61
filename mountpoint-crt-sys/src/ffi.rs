//! Small safe covers over the basics of every C call: byte cursors, owned handles, panics kept out
//! of C.
//!
//! Knows no particular C type's meaning. Invariant: a [`Handle`] owns one reference and gives it
//! back once.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::slice;

use mountpoint_s3_crt_sys::{
    aws_byte_cursor, aws_client_bootstrap, aws_client_bootstrap_release, aws_credentials_provider,
    aws_credentials_provider_release, aws_event_loop_group, aws_event_loop_group_release,
    aws_host_resolver, aws_host_resolver_release, aws_http_message, aws_http_message_release,
    aws_retry_strategy, aws_retry_strategy_release, aws_s3_client, aws_s3_client_release,
    aws_s3_endpoint, aws_s3_endpoint_release, aws_s3_meta_request, aws_s3_meta_request_release,
    aws_tls_ctx, aws_tls_ctx_release,
};

use crate::CrtError;

/// A C object that counts its references, from any thread.
pub(crate) trait Release {
    /// Gives one reference back.
    ///
    /// # Safety
    ///
    /// The caller owns a reference of `this` and uses it no more.
    unsafe fn release(this: *mut Self);
}

/// One owned reference of a C object.
pub(crate) struct Handle<T: Release>(NonNull<T>);

// SAFETY: the types that implement `Release` are used by the C library from many threads; it locks
// what it must.
unsafe impl<T: Release> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T: Release> Sync for Handle<T> {}

impl<T: Release> Handle<T> {
    /// Takes over the reference that a C constructor returned; null means that it failed.
    ///
    /// # Safety
    ///
    /// `raw` is null or a reference that nobody else gives back.
    pub(crate) unsafe fn own(raw: *mut T) -> Result<Self, CrtError> {
        NonNull::new(raw).map(Self).ok_or_else(CrtError::last)
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Release> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: the handle owns this reference and ends here.
        unsafe { T::release(self.as_ptr()) }
    }
}

macro_rules! release {
    ($($type:ty => $function:ident),* $(,)?) => {$(
        impl Release for $type {
            unsafe fn release(this: *mut Self) {
                // SAFETY: the caller owns a reference.
                unsafe { $function(this) };
            }
        }
    )*};
}

release! {
    aws_client_bootstrap => aws_client_bootstrap_release,
    aws_credentials_provider => aws_credentials_provider_release,
    aws_event_loop_group => aws_event_loop_group_release,
    aws_host_resolver => aws_host_resolver_release,
    aws_http_message => aws_http_message_release,
    aws_retry_strategy => aws_retry_strategy_release,
    aws_s3_client => aws_s3_client_release,
    aws_s3_endpoint => aws_s3_endpoint_release,
    aws_s3_meta_request => aws_s3_meta_request_release,
    aws_tls_ctx => aws_tls_ctx_release,
}

/// A cursor over `bytes`, valid as long as they are. C does not write through cursors it takes.
pub(crate) fn cursor(bytes: &[u8]) -> aws_byte_cursor {
    aws_byte_cursor {
        len: bytes.len(),
        ptr: bytes.as_ptr().cast_mut(),
    }
}

/// The bytes behind a pointer and a length from C, which may be null and 0.
///
/// # Safety
///
/// `len` bytes at `start` are initialised and do not change for `'a`.
pub(crate) unsafe fn bytes_at<'a>(start: *const u8, len: usize) -> &'a [u8] {
    if len == 0 {
        return &[];
    }
    // SAFETY: the caller's contract; a cursor with a length has an address.
    unsafe { slice::from_raw_parts(start, len) }
}

/// Turns a C result into a Rust one.
pub(crate) fn check(result: i32) -> Result<(), CrtError> {
    if result == 0 {
        Ok(())
    } else {
        Err(CrtError::last())
    }
}

/// Runs the body of a C callback: a panic ends here, as `None`, instead of unwinding into C.
pub(crate) fn guard<T>(body: impl FnOnce() -> T) -> Option<T> {
    let depth = CALLBACKS.get();
    CALLBACKS.set(depth + 1);
    let result = catch_unwind(AssertUnwindSafe(body));
    CALLBACKS.set(depth);
    result.ok()
}

/// Whether this thread is inside a callback from C, so that it must not wait for the C library.
pub(crate) fn in_callback() -> bool {
    CALLBACKS.get() > 0
}

thread_local! {
    static CALLBACKS: Cell<u32> = const { Cell::new(0) };
}
