//! The place where TLS begins on a connection: the handler of its socket, through which all goes
//! that HTTP writes.
//!
//! The socket itself belongs to its event loop, and may be gone where a request begins on another
//! thread; its handler lives as long as the connection. So the handler's table of functions is
//! replaced by a copy whose `process_write_message` puts TLS into the socket before it writes.
//! Nothing is written if that fails. The copy goes when the handler is destroyed.

use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

use mountpoint_s3_crt_sys as sys;

use super::socket;
use super::socket_table::fail;
use super::tls::client::TlsClient;
use super::tls::failure::TlsFailure;
use super::tls::wire::TlsWire;
use crate::ffi::guard;

type Handler = sys::aws_channel_handler;
type Table = sys::aws_channel_handler_vtable;
type Write = unsafe extern "C" fn(
    *mut Handler,
    *mut sys::aws_channel_slot,
    *mut sys::aws_io_message,
) -> libc::c_int;
type Destroy = unsafe extern "C" fn(*mut Handler);

/// The data behind a socket's handler.
#[repr(C)]
struct Secured {
    /// The target of the handler's pointer. First, so that it leads to the whole.
    table: Table,
    original: *mut Table,
    write: Write,
    destroy: Destroy,
    wire: Arc<TlsWire>,
}

/// Makes everything that is sent on this connection from now on TLS. False if that cannot be; then
/// nothing may be sent.
///
/// # Safety
///
/// `connection` is alive and no request is under way on it.
pub(crate) unsafe fn secure(
    connection: *mut sys::aws_http_connection,
    client: &Arc<TlsClient>,
) -> bool {
    // SAFETY: the caller's contract.
    let Some(handler) = (unsafe { handler_of(connection) }) else {
        return false;
    };
    // SAFETY: alive as long as its connection.
    let original = unsafe { (*handler).vtable };
    // SAFETY: a table that C made, or ours.
    if let Some(secured) = unsafe { secured_behind(original) } {
        return secured.wire.is_of(client);
    }
    // SAFETY: as above.
    let Some(current) = (unsafe { original.as_ref() }) else {
        return false;
    };
    let (Some(write_of_c), Some(destroy_of_c)) = (current.process_write_message, current.destroy)
    else {
        return false;
    };
    let secured = Box::into_raw(Box::new(Secured {
        table: Table {
            process_write_message: Some(write),
            destroy: Some(destroy),
            ..*current
        },
        original,
        write: write_of_c,
        destroy: destroy_of_c,
        wire: Arc::new(TlsWire::new(Arc::clone(client))),
    }));
    // SAFETY: alive.
    let place = unsafe { &raw mut (*handler).vtable };
    // SAFETY: as above; its event loop may look at the pointer, so it is changed at once.
    let place = unsafe { AtomicPtr::from_ptr(place) };
    place.store(secured.cast::<Table>(), Ordering::Release);
    true
}

/// Why TLS has ended this connection, if it has.
///
/// # Safety
///
/// `connection` is alive, or null.
pub(crate) unsafe fn tls_failure(connection: *mut sys::aws_http_connection) -> Option<TlsFailure> {
    // SAFETY: the caller's contract.
    let handler = unsafe { handler_of(connection) }?;
    // SAFETY: alive as long as its connection.
    let table = unsafe { (*handler).vtable };
    // SAFETY: as above, and so is its table.
    let secured = unsafe { secured_behind(table) }?;
    secured.wire.failure().cloned()
}

/// The first handler of a connection's channel, which is its socket's.
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
    let first = unsafe { first.as_ref() }?;
    (!first.handler.is_null()).then_some(first.handler)
}

/// # Safety
///
/// `table` is a handler's, or null, and lives for `'a`.
unsafe fn secured_behind<'a>(table: *const Table) -> Option<&'a Secured> {
    let ours: Write = write;
    // SAFETY: the caller's contract.
    let writes = unsafe { table.as_ref() }?.process_write_message?;
    // SAFETY: only our table has this function, and it is the first field.
    ptr::fn_addr_eq(writes, ours).then(|| unsafe { &*table.cast::<Secured>() })
}

unsafe extern "C" fn write(
    handler: *mut Handler,
    slot: *mut sys::aws_channel_slot,
    message: *mut sys::aws_io_message,
) -> libc::c_int {
    // SAFETY: alive during this call.
    let table = unsafe { (*handler).vtable };
    // SAFETY: called through our table, which is the first field.
    let secured = unsafe { &*table.cast::<Secured>() };
    // SAFETY: C's own argument; a message belongs to its channel.
    let channel = unsafe { (*message).owning_channel };
    // SAFETY: on the connection's event loop, where C itself uses the socket.
    let link = unsafe { socket::link_behind_handler(handler, channel) };
    if !link.is_some_and(|link| link.secure(&secured.wire)) {
        return fail(sys::aws_io_errors::AWS_IO_TLS_ERROR_NOT_NEGOTIATED as i32);
    }
    // SAFETY: C's call.
    unsafe { (secured.write)(handler, slot, message) }
}

unsafe extern "C" fn destroy(handler: *mut Handler) {
    // SAFETY: called through our table.
    let secured = unsafe { (*handler).vtable.cast::<Secured>() };
    // SAFETY: leaked by `secure`; C destroys a handler once.
    let secured = unsafe { Box::from_raw(secured) };
    // SAFETY: alive until C's own call.
    unsafe { (*handler).vtable = secured.original };
    let destroy = secured.destroy;
    guard(|| drop(secured));
    // SAFETY: C's call.
    unsafe { destroy(handler) };
}
