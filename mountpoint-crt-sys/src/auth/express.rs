//! S3 Express signing with sessions that are kept elsewhere.
//!
//! The C client signs for S3 Express only if it has a provider that turns the user's keys into a
//! session's, and its own would open sessions itself. This one hands on what it is given: our
//! [`crate::CredentialsSource`] answers with session keys already. It is the C library's public
//! interface for it, which the raw bindings leave out.
//!
//! `Vtable` and `Provider` are written down from the header of the version that
//! `hook::CRATE_VERSION` names. Nothing compares them when they are compiled, so a test there fails
//! when the version changes: read the header again then.

use std::ptr;

use mountpoint_s3_crt_sys as sys;

/// `aws_s3express_credentials_provider_vtable`.
#[repr(C)]
struct Vtable {
    get_credentials: unsafe extern "C" fn(
        *mut Provider,
        *const sys::aws_credentials,
        *const libc::c_void,
        sys::aws_on_get_credentials_callback_fn,
        *mut libc::c_void,
    ) -> libc::c_int,
    destroy: unsafe extern "C" fn(*mut Provider),
}

/// `aws_s3express_credentials_provider`.
#[repr(C)]
struct Provider {
    vtable: *const Vtable,
    allocator: *mut sys::aws_allocator,
    shutdown_callback: sys::aws_simple_completion_callback,
    shutdown_user_data: *mut libc::c_void,
    implementation: *mut libc::c_void,
    references: sys::aws_ref_count,
}

static VTABLE: Vtable = Vtable {
    get_credentials,
    destroy,
};

/// The factory that a client's config wants. The client owns the providers that it makes.
pub(crate) unsafe extern "C" fn new_provider(
    allocator: *mut sys::aws_allocator,
    _: *mut sys::aws_s3_client,
    shutdown_callback: sys::aws_simple_completion_callback,
    shutdown_user_data: *mut libc::c_void,
    _: *mut libc::c_void,
) -> *mut sys::aws_s3express_credentials_provider {
    let provider = Box::into_raw(Box::new(Provider {
        vtable: &raw const VTABLE,
        allocator,
        shutdown_callback,
        shutdown_user_data,
        implementation: ptr::null_mut(),
        references: sys::aws_ref_count::default(),
    }));
    // SAFETY: just allocated.
    let references = unsafe { &raw mut (*provider).references };
    // SAFETY: counts the references of this provider and calls `released` with it after the last.
    unsafe { sys::aws_ref_count_init(references, provider.cast(), Some(released)) };
    provider.cast()
}

unsafe extern "C" fn get_credentials(
    _: *mut Provider,
    given: *const sys::aws_credentials,
    _: *const libc::c_void,
    callback: sys::aws_on_get_credentials_callback_fn,
    user_data: *mut libc::c_void,
) -> libc::c_int {
    if let Some(callback) = callback {
        // SAFETY: C waits for this one call with its user data; the credentials live during it,
        // unchanged.
        unsafe { callback(given.cast_mut(), 0, user_data) };
    }
    sys::AWS_OP_SUCCESS
}

unsafe extern "C" fn released(provider: *mut libc::c_void) {
    // SAFETY: the count was made with this provider.
    unsafe { destroy(provider.cast()) };
}

unsafe extern "C" fn destroy(provider: *mut Provider) {
    // SAFETY: leaked by `new_provider`; C calls this once, after the last use.
    let provider = unsafe { Box::from_raw(provider) };
    if let Some(callback) = provider.shutdown_callback {
        // SAFETY: the client waits for this one call.
        unsafe { callback(provider.shutdown_user_data) };
    }
}
