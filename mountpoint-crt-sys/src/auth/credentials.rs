//! Credentials that the CRT signs with, asked from Rust whenever it signs.
//!
//! Knows no chain of sources and caches nothing. Invariant: each question of the CRT is answered
//! exactly once, with an error at the latest when the [`CredentialsReply`] is dropped.

use std::fmt;
use std::ptr;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mountpoint_s3_crt_sys as sys;

use crate::CrtError;
use crate::allocator::Allocator;
use crate::ffi::{Handle, cursor, guard};

const FAILED: i32 = sys::aws_auth_errors::AWS_AUTH_CREDENTIALS_PROVIDER_DELEGATE_FAILURE as i32;

/// One set of keys.
#[derive(Clone)]
pub struct Credentials {
    pub access_key_id: String,
    pub secret_access_key: String,
    pub session_token: Option<String>,
    pub expires: Option<SystemTime>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("access_key_id", &self.access_key_id)
            .finish_non_exhaustive()
    }
}

/// Asked by the CRT whenever it signs. May answer at once or later, on any thread; must not block.
/// The CRT caches nothing: the source does.
pub trait CredentialsSource: Send + Sync {
    /// Answers through `reply`.
    fn fetch(&self, reply: CredentialsReply);
}

/// The way to answer. Dropped unanswered it answers with an error.
pub struct CredentialsReply {
    allocator: Allocator,
    callback: sys::aws_on_get_credentials_callback_fn,
    user_data: *mut libc::c_void,
    answered: bool,
}

// SAFETY: the CRT takes the answer on any thread.
unsafe impl Send for CredentialsReply {}
// SAFETY: a shared reference can do nothing.
unsafe impl Sync for CredentialsReply {}

impl CredentialsReply {
    /// Answers. The text of an error is logged; the request fails with
    /// [`crate::ErrorKind::Credentials`].
    pub fn send(mut self, answer: Result<Credentials, String>) {
        match answer {
            Ok(credentials) => self.answer_with(&credentials),
            Err(reason) => {
                tracing::warn!(target: "crt::auth", "no credentials: {reason}");
                self.answer(ptr::null_mut(), FAILED);
            }
        }
    }

    fn answer_with(&mut self, credentials: &Credentials) {
        let expires = credentials.expires.map_or(u64::MAX, |time| {
            time.duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs())
        });
        let token = credentials.session_token.as_deref().unwrap_or("");
        // SAFETY: the cursors are copied during the call.
        let raw = unsafe {
            sys::aws_credentials_new(
                self.allocator.as_ptr(),
                cursor(credentials.access_key_id.as_bytes()),
                cursor(credentials.secret_access_key.as_bytes()),
                cursor(token.as_bytes()),
                expires,
            )
        };
        let error = if raw.is_null() {
            CrtError::last().code()
        } else {
            0
        };
        self.answer(raw, error);
        // SAFETY: our own reference, or null; the CRT took one of its own.
        unsafe { sys::aws_credentials_release(raw) };
    }

    fn answer(&mut self, credentials: *mut sys::aws_credentials, error: i32) {
        self.answered = true;
        if let Some(callback) = self.callback {
            // SAFETY: the CRT waits for this one call with its user data; the credentials live
            // during it.
            unsafe { callback(credentials, error, self.user_data) };
        }
    }
}

impl Drop for CredentialsReply {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(ptr::null_mut(), FAILED);
        }
    }
}

impl fmt::Debug for CredentialsReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CredentialsReply").finish_non_exhaustive()
    }
}

/// A provider of no keys: requests are not signed.
pub(crate) fn anonymous(
    allocator: Allocator,
) -> Result<Handle<sys::aws_credentials_provider>, CrtError> {
    // SAFETY: no options are given.
    let raw =
        unsafe { sys::aws_credentials_provider_new_anonymous(allocator.as_ptr(), ptr::null()) };
    // SAFETY: a new reference, or null.
    unsafe { Handle::own(raw) }
}

/// The target of the C provider's user data.
struct Delegate {
    allocator: Allocator,
    source: Arc<dyn CredentialsSource>,
}

/// A provider that asks `source`.
pub(crate) fn delegate(
    allocator: Allocator,
    source: Arc<dyn CredentialsSource>,
) -> Result<Handle<sys::aws_credentials_provider>, CrtError> {
    let delegate = Box::into_raw(Box::new(Delegate { allocator, source }));
    let options = sys::aws_credentials_provider_delegate_options {
        shutdown_options: sys::aws_credentials_provider_shutdown_options {
            shutdown_callback: Some(provider_ended),
            shutdown_user_data: delegate.cast(),
        },
        get_credentials: Some(get_credentials),
        delegate_user_data: delegate.cast(),
    };
    // SAFETY: the options live during the call, the delegate until the provider's end.
    let raw = unsafe {
        sys::aws_credentials_provider_new_delegate(allocator.as_ptr(), &raw const options)
    };
    // SAFETY: a new reference; the constructor fails only when the process is out of memory, which
    // aborts.
    unsafe { Handle::own(raw) }
}

unsafe extern "C" fn get_credentials(
    delegate: *mut libc::c_void,
    callback: sys::aws_on_get_credentials_callback_fn,
    user_data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: the provider is alive while it is asked, so its delegate is.
    let delegate = unsafe { &*delegate.cast::<Delegate>() };
    let reply = CredentialsReply {
        allocator: delegate.allocator,
        callback,
        user_data,
        answered: false,
    };
    // A source that panics drops the reply, which answers with an error.
    guard(|| delegate.source.fetch(reply));
    sys::AWS_OP_SUCCESS
}

unsafe extern "C" fn provider_ended(delegate: *mut libc::c_void) {
    // SAFETY: leaked by `delegate`; C calls this once, last.
    let delegate = unsafe { Box::from_raw(delegate.cast::<Delegate>()) };
    guard(|| drop(delegate));
}
