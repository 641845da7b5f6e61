//! One request as the C library sees it: a meta request, its callbacks, and its cancellation.
//!
//! An [`Exchange`] is what happens in Rust; `get` and `send` implement it without `unsafe`. This
//! module owns the memory contract with C: the user data of a meta request is one [`Running`],
//! leaked when it starts and taken back in its shutdown callback, which C calls exactly once, after
//! everything else.
//!
//! The callbacks of one request come one after the other, on several threads of C. A panic in them
//! ends the request, never unwinds into C.
//!
//! Lock: [`Slot`]'s, held while C makes the request and while it cancels it. C holds none of its
//! locks when it calls `finish`, which waits for that lock.

use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_s3_crt_sys as sys;
use parking_lot::Mutex;

use super::head::read_head;
use super::types::{HEAD_MAX, ResponseHead};
use crate::CrtError;
use crate::block::Unfilled;
use crate::connection::tls::client::TlsClient;
use crate::error::OwnError;
use crate::ffi::{Handle, bytes_at, guard};

const CANCELLED: i32 = sys::aws_s3_errors::AWS_ERROR_S3_CANCELED as i32;

/// The consumer of an answer. Errors returned from `head` and `body` end the request.
pub(crate) trait Exchange: Send + Sync {
    /// The memory that the body of a successful answer goes to, if it is known.
    fn reserve(&self) -> Option<Unfilled> {
        None
    }

    /// The request's body, where C has borrowed one.
    fn outgoing(&self) -> Option<Bytes> {
        None
    }

    /// The head of an answer with any status. May come twice.
    fn head(&self, head: ResponseHead) -> Result<(), OwnError>;

    /// The body as far as it has arrived, from its beginning. Only after `head`; the same bytes may
    /// come again.
    fn body(&self, body: &[u8]) -> Result<(), OwnError>;

    /// The outcome. C may still hold memory of the request.
    fn finished(&self, error: Option<CrtError>);

    /// C has let go of everything.
    fn shutdown(self: Box<Self>);
}

/// An exchange in C's hands.
pub(crate) struct Running {
    exchange: Box<dyn Exchange>,
    slot: Arc<Slot>,
    /// TLS, if all that is sent for it must be encrypted.
    tls: Option<Arc<TlsClient>>,
    /// Why this side ended it.
    aborted: OnceLock<CrtError>,
    /// Bytes of headers that have come.
    head_len: AtomicUsize,
}

/// Where the one reference of the meta request is while it runs.
#[derive(Default)]
struct Slot(Mutex<Option<Handle<sys::aws_s3_meta_request>>>);

/// Cancels a request. Dropping it does nothing.
pub struct Cancel {
    slot: Arc<Slot>,
}

impl Cancel {
    /// Cancels unless the request has finished. Costs the connection. Any thread, any number of
    /// times; returns at once. The request ends soon on a CRT thread, but while it waits for a
    /// connection only when that attempt ends, within the connect timeout.
    pub fn cancel(&self) {
        let slot = self.slot.0.lock();
        if let Some(meta_request) = &*slot {
            // SAFETY: alive, since the slot has a reference and its lock is held.
            unsafe { sys::aws_s3_meta_request_cancel(meta_request.as_ptr()) };
        }
    }

    /// For a request that never started.
    pub(crate) fn nothing() -> Self {
        Self {
            slot: Arc::default(),
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancel").finish_non_exhaustive()
    }
}

/// Whether C shows answers only when they are complete, so that the callbacks for that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// The hook shows them as they arrive.
    Hooked,
    AtTheEnd,
}

/// Starts the request that `options` describe, and shows it while it cannot finish. On failure C
/// has called nothing.
///
/// # Safety
///
/// `client` and everything in `options` is alive; a request body stays where it is until `exchange`
/// is dropped.
pub(crate) unsafe fn start(
    client: *mut sys::aws_s3_client,
    mut options: sys::aws_s3_meta_request_options,
    delivery: Delivery,
    tls: Option<Arc<TlsClient>>,
    exchange: Box<dyn Exchange>,
    show: impl FnOnce(*mut sys::aws_s3_meta_request),
) -> Result<Cancel, (CrtError, Box<dyn Exchange>)> {
    let slot = Arc::<Slot>::default();
    let running = Running {
        exchange,
        slot: Arc::clone(&slot),
        tls,
        aborted: OnceLock::new(),
        head_len: AtomicUsize::new(0),
    };
    let running = Box::into_raw(Box::new(running));
    options.user_data = running.cast();
    options.finish_callback = Some(finish);
    options.shutdown_callback = Some(shutdown);
    if delivery == Delivery::AtTheEnd {
        options.headers_callback = Some(headers);
        options.body_callback = Some(body);
    }
    let mut place = slot.0.lock();
    // SAFETY: the caller's contract; the user data lives until the shutdown callback.
    let raw = unsafe { sys::aws_s3_client_make_meta_request(client, &raw const options) };
    // SAFETY: a new reference, or null.
    match unsafe { Handle::own(raw) } {
        Ok(meta_request) => {
            // `finish` waits for the slot's lock, and C takes nothing of the request apart before
            // it.
            show(meta_request.as_ptr());
            *place = Some(meta_request);
        }
        Err(error) => {
            // SAFETY: leaked above; C made no meta request, so it knows it no more.
            let running = unsafe { Box::from_raw(running) };
            return Err((error, running.exchange));
        }
    }
    drop(place);
    Ok(Cancel { slot })
}

/// The exchange behind a meta request; None if it is not one of ours.
///
/// # Safety
///
/// The meta request is alive, and stays so for `'a`.
pub(crate) unsafe fn running<'a>(
    meta_request: *mut sys::aws_s3_meta_request,
) -> Option<&'a Running> {
    // SAFETY: alive; set once, before the meta request was started.
    let callback = unsafe { (*meta_request).finish_callback }?;
    let ours: unsafe extern "C" fn(_, _, _) = finish;
    if !ptr::fn_addr_eq(callback, ours) {
        return None;
    }
    // SAFETY: as above.
    let user_data = unsafe { (*meta_request).user_data };
    // SAFETY: `start` stored a `Running`, which lives until the shutdown of the meta request.
    Some(unsafe { &*user_data.cast::<Running>() })
}

impl Running {
    /// Memory for the body; None fails the request.
    pub(crate) fn reserve(&self) -> Option<Unfilled> {
        guard(|| self.exchange.reserve()).flatten()
    }

    /// The request's body, where C has borrowed one.
    pub(crate) fn outgoing(&self) -> Option<Bytes> {
        guard(|| self.exchange.outgoing()).flatten()
    }

    /// TLS, if all that is sent for it must be encrypted.
    pub(crate) fn tls(&self) -> Option<&Arc<TlsClient>> {
        self.tls.as_ref()
    }

    /// Names the reason why the request is about to fail.
    pub(crate) fn fails_because(&self, reason: CrtError) {
        // The first reason counts.
        drop(self.aborted.set(reason));
    }

    /// So many bytes of headers have come. The result is C's: not zero ends the request.
    pub(crate) fn headers(&self, len: usize) -> libc::c_int {
        let before = self.head_len.fetch_add(len, Ordering::Relaxed);
        if before + len <= HEAD_MAX {
            return sys::AWS_OP_SUCCESS;
        }
        self.call(|| Err(OwnError::LargeHead))
    }

    /// Shows the head. The result is C's: not zero ends the request.
    pub(crate) fn head(&self, head: impl FnOnce() -> ResponseHead) -> libc::c_int {
        self.call(|| self.exchange.head(head()))
    }

    /// Shows the body so far. The result is C's: not zero ends the request.
    pub(crate) fn body(&self, body: &[u8]) -> libc::c_int {
        self.call(|| self.exchange.body(body))
    }

    fn call(&self, call: impl FnOnce() -> Result<(), OwnError>) -> libc::c_int {
        match guard(call).unwrap_or(Err(OwnError::Panicked)) {
            Ok(()) => sys::AWS_OP_SUCCESS,
            Err(reason) => {
                self.fails_because(reason.into());
                // SAFETY: sets a thread-local number.
                unsafe { sys::aws_raise_error(CANCELLED) }
            }
        }
    }

    fn finish(&self, error_code: i32) {
        let aborted = self.aborted.get().cloned();
        let error = aborted.or_else(|| (error_code != 0).then(|| CrtError::from_code(error_code)));
        self.exchange.finished(error);
    }
}

unsafe extern "C" fn headers(
    meta_request: *mut sys::aws_s3_meta_request,
    headers: *const sys::aws_http_headers,
    status: libc::c_int,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: alive during its callbacks.
    let Some(running) = (unsafe { running(meta_request) }) else {
        return sys::AWS_OP_SUCCESS;
    };
    // SAFETY: alive during this call.
    running.head(|| unsafe { read_head(headers, status) })
}

unsafe extern "C" fn body(
    meta_request: *mut sys::aws_s3_meta_request,
    body: *const sys::aws_byte_cursor,
    _: u64,
    _: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: alive during its callbacks.
    let Some(running) = (unsafe { running(meta_request) }) else {
        return sys::AWS_OP_SUCCESS;
    };
    // SAFETY: a cursor that lives during this call.
    let body = unsafe { *body };
    // SAFETY: the bytes live during this call; a request of one part delivers all of its body at
    // once.
    running.body(unsafe { bytes_at(body.ptr, body.len) })
}

unsafe extern "C" fn finish(
    meta_request: *mut sys::aws_s3_meta_request,
    result: *const sys::aws_s3_meta_request_result,
    _: *mut libc::c_void,
) {
    // SAFETY: alive during its callbacks: the client holds a reference beside ours.
    let Some(running) = (unsafe { running(meta_request) }) else {
        return;
    };
    // SAFETY: alive during this call, and nobody writes to it.
    let result = unsafe { &*result };
    if !result.error_response_body.is_null() {
        // SAFETY: alive as long as the result.
        let error_body = unsafe { &*result.error_response_body };
        // SAFETY: a filled buffer. What comes of it matters no more.
        running.body(unsafe { bytes_at(error_body.buffer, error_body.len) });
    }
    let meta_request = running.slot.0.lock().take();
    guard(|| running.finish(result.error_code));
    drop(meta_request);
}

unsafe extern "C" fn shutdown(running: *mut libc::c_void) {
    // SAFETY: leaked by `start`; C calls this once, last.
    let running = unsafe { Box::from_raw(running.cast::<Running>()) };
    guard(|| running.exchange.shutdown());
}
