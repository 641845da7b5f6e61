//! A bound for the bytes of an answer that the C library keeps before its first callback: a line of
//! the head.
//!
//! C collects a line until its end, however long it is. So the table of functions of a connection's
//! HTTP handler is replaced by a copy whose `process_read_message` counts the bytes that have come
//! since C last told of something, and ends the connection when they are too many. The copy goes
//! when the handler is destroyed.
//!
//! Everything here runs on the connection's event loop, but for [`install`], which comes while no
//! request is on it. The structures are public ones of the C library, whose layout the bindings
//! assert.

use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use mountpoint_s3_crt_sys as sys;

use crate::ffi::guard;

/// Bytes that may come without a line's end. S3's lines are below 8 KiB; what comes at once may be
/// a long piece of a body.
const LINE_MAX: usize = 256 << 10;

type Handler = sys::aws_channel_handler;
type Table = sys::aws_channel_handler_vtable;
type Read = unsafe extern "C" fn(
    *mut Handler,
    *mut sys::aws_channel_slot,
    *mut sys::aws_io_message,
) -> libc::c_int;
type Destroy = unsafe extern "C" fn(*mut Handler);

/// The data behind an HTTP handler.
#[repr(C)]
struct Limit {
    /// The target of the handler's pointer. First, so that it leads to the whole.
    table: Table,
    original: *mut Table,
    read: Read,
    destroy: Destroy,
    /// Bytes that have come since C's last callback.
    untold: AtomicUsize,
}

/// Bounds the heads of answers on this connection.
///
/// # Safety
///
/// `connection` is alive and no request is under way on it.
pub(crate) unsafe fn install(connection: *mut sys::aws_http_connection) {
    // SAFETY: the caller's contract.
    let Some(handler) = (unsafe { handler_of(connection) }) else {
        return;
    };
    // SAFETY: alive as long as its connection.
    let original = unsafe { (*handler).vtable };
    // SAFETY: a table that C made, or a limit's.
    if unsafe { limit_behind(original) }.is_some() {
        return;
    }
    // SAFETY: as above.
    let Some(current) = (unsafe { original.as_ref() }) else {
        return;
    };
    let (Some(read_of_c), Some(destroy_of_c)) = (current.process_read_message, current.destroy)
    else {
        return;
    };
    let limit = Box::into_raw(Box::new(Limit {
        table: Table {
            process_read_message: Some(read),
            destroy: Some(destroy),
            ..*current
        },
        original,
        read: read_of_c,
        destroy: destroy_of_c,
        untold: AtomicUsize::new(0),
    }));
    // SAFETY: alive.
    let place = unsafe { &raw mut (*handler).vtable };
    // SAFETY: as above; its event loop may look at the pointer, so it is changed at once.
    let place = unsafe { AtomicPtr::from_ptr(place) };
    place.store(limit.cast::<Table>(), Ordering::Release);
}

/// C has made a callback for bytes of this connection.
///
/// # Safety
///
/// `connection` is alive, and this is its event loop's thread.
pub(crate) unsafe fn told(connection: *mut sys::aws_http_connection) {
    // SAFETY: the caller's contract.
    let Some(handler) = (unsafe { handler_of(connection) }) else {
        return;
    };
    // SAFETY: alive as long as its connection.
    let table = unsafe { (*handler).vtable };
    // SAFETY: as above, and so is its table.
    if let Some(limit) = unsafe { limit_behind(table) } {
        limit.untold.store(0, Ordering::Relaxed);
    }
}

/// The last handler of a connection's channel, which is HTTP's.
///
/// # Safety
///
/// `connection` is null or alive.
unsafe fn handler_of(connection: *mut sys::aws_http_connection) -> Option<*mut Handler> {
    if connection.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    let channel = unsafe { sys::aws_http_connection_get_channel(connection) };
    // SAFETY: a connection's channel is alive.
    let first = unsafe { sys::aws_channel_get_first_slot(channel) };
    // SAFETY: as above; null if there is none.
    let mut slot = unsafe { first.as_ref() }?;
    // SAFETY: slots live as long as their channel.
    while let Some(next) = unsafe { slot.adj_right.as_ref() } {
        slot = next;
    }
    (!slot.handler.is_null()).then_some(slot.handler)
}

/// # Safety
///
/// `table` is a handler's, or null, and lives for `'a`.
unsafe fn limit_behind<'a>(table: *const Table) -> Option<&'a Limit> {
    let ours: Read = read;
    // SAFETY: the caller's contract.
    let reads = unsafe { table.as_ref() }?.process_read_message?;
    // SAFETY: only a limit's table has this function, and it is the limit's first field.
    ptr::fn_addr_eq(reads, ours).then(|| unsafe { &*table.cast::<Limit>() })
}

unsafe extern "C" fn read(
    handler: *mut Handler,
    slot: *mut sys::aws_channel_slot,
    message: *mut sys::aws_io_message,
) -> libc::c_int {
    // SAFETY: alive during this call.
    let table = unsafe { (*handler).vtable };
    // SAFETY: called through the limit's table, which is its first field.
    let limit = unsafe { &*table.cast::<Limit>() };
    // SAFETY: C's own argument.
    let len = unsafe { (*message).message_data.len };
    if limit.untold.fetch_add(len, Ordering::Relaxed) > LINE_MAX {
        let code = sys::aws_http_errors::AWS_ERROR_HTTP_PROTOCOL_ERROR as i32;
        // SAFETY: sets a thread-local number.
        return unsafe { sys::aws_raise_error(code) };
    }
    // SAFETY: C's call.
    unsafe { (limit.read)(handler, slot, message) }
}

unsafe extern "C" fn destroy(handler: *mut Handler) {
    // SAFETY: called through the limit's table.
    let limit = unsafe { (*handler).vtable.cast::<Limit>() };
    // SAFETY: leaked by `install`; C destroys a handler once.
    let limit = unsafe { Box::from_raw(limit) };
    // SAFETY: alive until C's own call.
    unsafe { (*handler).vtable = limit.original };
    let destroy = limit.destroy;
    guard(|| drop(limit));
    // SAFETY: C's call.
    unsafe { destroy(handler) };
}
