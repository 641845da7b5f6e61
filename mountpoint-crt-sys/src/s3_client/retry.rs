//! A retry strategy for the CRT that answers at once and never retries.
//!
//! Retries belong to the caller, who knows deadlines and other interfaces. The CRT's own strategies
//! also cost every request a detour over another event loop for its token. Refusing the retry makes
//! the CRT end the request with the error that it had.

use std::ptr;

use mountpoint_s3_crt_sys as sys;

use crate::CrtError;
use crate::allocator::Allocator;
use crate::ffi::Handle;

static VTABLE: sys::aws_retry_strategy_vtable = sys::aws_retry_strategy_vtable {
    destroy: Some(destroy),
    acquire_token: Some(acquire_token),
    schedule_retry: Some(refuse_retry),
    record_success: Some(record_success),
    release_token: Some(release_token),
};

/// The strategy and its one token, which all requests share. C sees the first field.
#[repr(C)]
struct NoRetry {
    base: sys::aws_retry_strategy,
    token: sys::aws_retry_token,
}

/// A new strategy with one reference.
pub(crate) fn no_retry(allocator: Allocator) -> Result<Handle<sys::aws_retry_strategy>, CrtError> {
    let one = || sys::aws_atomic_var {
        value: ptr::without_provenance_mut(1),
    };
    let strategy = Box::into_raw(Box::new(NoRetry {
        base: sys::aws_retry_strategy {
            allocator: allocator.as_ptr(),
            vtable: (&raw const VTABLE).cast_mut(),
            ref_count: one(),
            impl_: ptr::null_mut(),
        },
        token: sys::aws_retry_token {
            allocator: allocator.as_ptr(),
            retry_strategy: ptr::null_mut(),
            // The strategy's own reference, never given back: a token lives as long as its
            // strategy.
            ref_count: one(),
            impl_: ptr::null_mut(),
        },
    }));
    // SAFETY: just leaked, and not yet C's.
    unsafe { (*strategy).token.retry_strategy = strategy.cast() };
    // SAFETY: the one reference; the last one to go destroys the box.
    unsafe { Handle::own(strategy.cast()) }
}

unsafe extern "C" fn destroy(strategy: *mut sys::aws_retry_strategy) {
    // SAFETY: leaked by `no_retry`. The S3 client gives it back when all its requests and their
    // tokens are gone.
    drop(unsafe { Box::from_raw(strategy.cast::<NoRetry>()) });
}

unsafe extern "C" fn acquire_token(
    strategy: *mut sys::aws_retry_strategy,
    _: *const sys::aws_byte_cursor,
    acquired: sys::aws_retry_strategy_on_retry_token_acquired_fn,
    user_data: *mut libc::c_void,
    _: u64,
) -> libc::c_int {
    let this = strategy.cast::<NoRetry>();
    // SAFETY: the strategy is alive while it is asked.
    let token = unsafe { &raw mut (*this).token };
    // SAFETY: the token is alive.
    unsafe { sys::aws_retry_token_acquire(token) };
    if let Some(acquired) = acquired {
        // SAFETY: hands the reference over, with the user data meant for it.
        unsafe { acquired(strategy, sys::AWS_OP_SUCCESS, token, user_data) };
    }
    sys::AWS_OP_SUCCESS
}

unsafe extern "C" fn refuse_retry(
    _: *mut sys::aws_retry_token,
    _: sys::aws_retry_error_type,
    _: sys::aws_retry_strategy_on_retry_ready_fn,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: sets a thread-local number.
    unsafe { sys::aws_raise_error(sys::aws_io_errors::AWS_IO_RETRY_PERMISSION_DENIED as i32) }
}

unsafe extern "C" fn record_success(_: *mut sys::aws_retry_token) -> libc::c_int {
    sys::AWS_OP_SUCCESS
}

unsafe extern "C" fn release_token(_: *mut sys::aws_retry_token) {}
