//! Sockets that read to where the bytes belong and write from where they lie.
//!
//! C moves all bytes through messages of a pool. On a connection without TLS, a socket's table of
//! functions is replaced by a copy whose `read` puts an answer's body into the request's buffer,
//! whose `write` takes the bytes that a [`BodyStream`](crate::connection::body_stream) has left out
//! of a message from the caller's memory, and whose `cleanup` takes the copy away again. All runs
//! on the connection's event loop; the clean-up comes last.
//!
//! Invariants: a message with another's memory gets its own back before C's pool sees it again, and
//! there is one such message at a time; the memory is a target only between two pieces of one
//! answer's body; C's request keeps it alive until `on_complete` ([`Link::expect_nothing`]). Bytes
//! that are being written are kept alive by their completion.

use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_s3_crt_sys as sys;
use parking_lot::Mutex;

use super::message::{self, Loan};
#[cfg(test)]
use super::moved;
use super::socket_table::{
    Cleanup, Functions, Socket, Table, Written, aws_socket_handler_get_socket, fail,
};
use super::tls::wire::{PlainWrite, TlsWire};
use crate::ffi::guard;

/// Bytes that are read at once while the head of an answer is awaited that is likely long: what
/// comes with the head is copied.
const HEAD_READ: usize = 16 << 10;

/// Answers from this length on are long, in bytes. One more system call costs about as much as
/// copying so many.
const LONG_ANSWER: u64 = 128 << 10;

/// The data behind a socket: its table, and the destination of its bytes.
#[repr(C)]
pub(crate) struct Link {
    /// The target of the socket's pointer. First, so that it leads to the whole.
    table: Table,
    original: *const Table,
    channel: *mut sys::aws_channel,
    functions: Functions,
    cleanup: Cleanup,
    state: Mutex<TransferState>,
    /// The message that has the request's memory.
    loan: Arc<Loan>,
    /// TLS, if the connection's client speaks it.
    wire: OnceLock<Arc<TlsWire>>,
}

// SAFETY: used on one thread until the clean-up; what changes is behind a lock.
unsafe impl Send for Link {}
// SAFETY: as above.
unsafe impl Sync for Link {}

#[derive(Default)]
struct TransferState {
    /// Where the next bytes of the answer's body belong.
    target: Option<Target>,
    /// Bytes of the answer's body that are to come, if its head says so.
    body_left: Option<u64>,
    /// Whether the last answer was long.
    is_long: bool,
    /// Bytes that the message to be written next lacks.
    outgoing: Option<Outgoing>,
}

#[derive(Clone, Copy)]
struct Target {
    start: NonNull<u8>,
    len: usize,
}

struct Outgoing {
    /// Where they would be in the message.
    at: *mut u8,
    bytes: Bytes,
}

/// The link of a connection's socket, which is made if there is none. None if something between the
/// socket and HTTP must see the bytes (TLS, a proxy's tunnel).
///
/// # Safety
///
/// `connection` is alive, and this is its event loop's thread. The link lives as long as the
/// connection.
pub(crate) unsafe fn link<'a>(connection: *mut sys::aws_http_connection) -> Option<&'a Link> {
    // SAFETY: the caller's contract.
    let (socket, channel) = unsafe { socket_of(connection) }?;
    // SAFETY: as above.
    unsafe { link_of_socket(socket, channel) }
}

/// The link of the socket of a handler, which is made if there is none.
///
/// # Safety
///
/// `handler` is the first of `channel`, both are alive, and this is their event loop's thread. The
/// link lives as long as the socket.
pub(super) unsafe fn link_behind_handler<'a>(
    handler: *mut sys::aws_channel_handler,
    channel: *mut sys::aws_channel,
) -> Option<&'a Link> {
    // SAFETY: a client's channel begins with the handler of its socket.
    let socket = unsafe { aws_socket_handler_get_socket(handler) }.cast_mut();
    if socket.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    unsafe { link_of_socket(socket, channel) }
}

/// # Safety
///
/// The socket and its channel are alive, and this is their event loop's thread.
unsafe fn link_of_socket<'a>(
    socket: *mut Socket,
    channel: *mut sys::aws_channel,
) -> Option<&'a Link> {
    // SAFETY: the caller's contract.
    let table = unsafe { (*socket).table };
    // SAFETY: a table that C made, or a link's.
    if let Some(link) = unsafe { link_behind(table) } {
        return Some(link);
    }
    // SAFETY: as above.
    let current = unsafe { table.as_ref() }?;
    let functions = Functions {
        close: current.close?,
        read: current.read?,
        write: current.write?,
    };
    let cleanup_of_c = current.cleanup?;
    let link = Arc::into_raw(Arc::new(Link {
        table: Table {
            cleanup: Some(cleanup),
            close: Some(close),
            read: Some(read),
            write: Some(write),
            ..*current
        },
        original: table,
        channel,
        functions,
        cleanup: cleanup_of_c,
        state: Mutex::default(),
        loan: Arc::default(),
        wire: OnceLock::new(),
    }));
    // SAFETY: nobody else uses the socket at this time; its `cleanup` takes the link back.
    unsafe { (*socket).table = link.cast::<Table>() };
    // SAFETY: just made.
    Some(unsafe { &*link })
}

/// The link of a connection's socket if it has one already.
///
/// # Safety
///
/// As for [`link`].
pub(crate) unsafe fn existing_link<'a>(
    connection: *mut sys::aws_http_connection,
) -> Option<&'a Link> {
    // SAFETY: the caller's contract.
    let (socket, _) = unsafe { socket_of(connection) }?;
    // SAFETY: alive as long as its connection.
    let table = unsafe { (*socket).table };
    // SAFETY: a table that C made, or a link's.
    unsafe { link_behind(table) }
}

/// The socket right behind a connection, and the channel of both.
///
/// # Safety
///
/// As for [`link`].
unsafe fn socket_of(
    connection: *mut sys::aws_http_connection,
) -> Option<(*mut Socket, *mut sys::aws_channel)> {
    if connection.is_null() {
        return None;
    }
    // SAFETY: the caller's contract.
    let channel = unsafe { sys::aws_http_connection_get_channel(connection) };
    // SAFETY: a connection's channel is alive.
    let first = unsafe { sys::aws_channel_get_first_slot(channel) };
    // SAFETY: as above; null if there is none.
    let first = unsafe { first.as_ref() }?;
    // SAFETY: slots live as long as their channel.
    let second = unsafe { first.adj_right.as_ref() }?;
    if !second.adj_right.is_null() || first.handler.is_null() {
        return None;
    }
    // SAFETY: a client's channel begins with the handler of its socket.
    let socket = unsafe { aws_socket_handler_get_socket(first.handler) }.cast_mut();
    (!socket.is_null()).then_some((socket, channel))
}

/// # Safety
///
/// `table` is a socket's, or null.
unsafe fn link_behind<'a>(table: *const Table) -> Option<&'a Link> {
    let ours: Cleanup = cleanup;
    // SAFETY: the caller's contract.
    let cleans_up = unsafe { table.as_ref() }?.cleanup?;
    // SAFETY: only a link's table has this function, and it is the link's first field.
    ptr::fn_addr_eq(cleans_up, ours).then(|| unsafe { &*table.cast::<Link>() })
}

/// # Safety
///
/// The socket's table is a link's.
unsafe fn link_of(socket: *mut Socket) -> *const Link {
    // SAFETY: the caller's contract: the table is the link's first field.
    unsafe { (*socket).table.cast::<Link>() }
}

impl Link {
    /// Makes everything that is read and written from now on TLS. False if it is another's already.
    pub(super) fn secure(&self, wire: &Arc<TlsWire>) -> bool {
        Arc::ptr_eq(self.wire.get_or_init(|| Arc::clone(wire)), wire)
    }

    /// The head of an answer has come, with a body of so many bytes, if it says so.
    pub(crate) fn answer_begins(&self, body_len: Option<u64>) {
        let mut state = self.state.lock();
        state.body_left = body_len;
        state.is_long = body_len.is_some_and(|len| len >= LONG_ANSWER);
    }

    /// A piece of an answer's body has come; what is left of it belongs into the `room` bytes at
    /// `start`.
    ///
    /// # Safety
    ///
    /// `room` bytes at `start` are the caller's, and stay so until the next call of this or of
    /// [`Self::expect_nothing`].
    pub(crate) unsafe fn expect(&self, arrived: usize, start: *mut u8, room: usize) {
        let mut state = self.state.lock();
        let left = state
            .body_left
            .map(|left| left - (arrived as u64).min(left));
        state.body_left = left;
        let len = usize::try_from(left.unwrap_or(0))
            .unwrap_or(usize::MAX)
            .min(room);
        state.target = NonNull::new(start)
            .filter(|_| len > 0)
            .map(|start| Target { start, len });
    }

    /// The answer is over.
    pub(crate) fn expect_nothing(&self) {
        let mut state = self.state.lock();
        state.target = None;
        state.body_left = None;
    }

    /// Lets the message whose buffer has `at` be written with `bytes` there. False if they must be
    /// copied.
    pub(crate) fn leave_out(&self, at: *mut u8, bytes: Bytes) -> bool {
        let mut state = self.state.lock();
        if state.outgoing.is_some() {
            return false;
        }
        state.outgoing = Some(Outgoing { at, bytes });
        true
    }
}

unsafe extern "C" fn cleanup(socket: *mut Socket) {
    // SAFETY: called through the link's table.
    let link = unsafe { link_of(socket) };
    // SAFETY: the link lives until the end of this function.
    let this = unsafe { &*link };
    let (original, cleanup) = (this.original, this.cleanup);
    // SAFETY: nobody uses the socket while it is cleaned up.
    unsafe { (*socket).table = original };
    // SAFETY: C's call.
    unsafe { cleanup(socket) };
    // SAFETY: the socket's reference, which the socket has given up.
    let link = unsafe { Arc::from_raw(link) };
    guard(|| drop(link));
}

unsafe extern "C" fn close(socket: *mut Socket) -> libc::c_int {
    // SAFETY: called through the link's table.
    let link = unsafe { link_of(socket) };
    // SAFETY: alive as long as the socket.
    let this = unsafe { &*link };
    if let Some(wire) = this.wire.get() {
        // SAFETY: C closes a connection's socket on its event loop.
        unsafe { wire.close(&this.functions, socket) };
    }
    // SAFETY: C's call.
    unsafe { (this.functions.close)(socket) }
}

unsafe extern "C" fn read(
    socket: *mut Socket,
    buffer: *mut sys::aws_byte_buf,
    amount: *mut usize,
) -> libc::c_int {
    // SAFETY: called through the link's table.
    let link = unsafe { link_of(socket) };
    // SAFETY: alive as long as the socket.
    let this = unsafe { &*link };
    // SAFETY: C's own arguments: the socket's handler is the only one that reads, into a message.
    let message = unsafe { message::adopt(this.channel, buffer) };
    // SAFETY: as above.
    let buffer = unsafe { &mut *buffer };
    let (target, is_head, is_long) = {
        let state = this.state.lock();
        let target = state
            .target
            .filter(|_| !this.loan.is_open() && buffer.len == 0);
        (target, state.body_left.is_none(), state.is_long)
    };
    let Some((target, message)) = target.zip(message) else {
        let capacity = if is_head && is_long && this.wire.get().is_none() {
            buffer.capacity.min(buffer.len + HEAD_READ)
        } else {
            buffer.capacity
        };
        let whole = std::mem::replace(&mut buffer.capacity, capacity);
        // SAFETY: into a part of the buffer.
        let result = unsafe { fill(this, socket, buffer, is_head) };
        buffer.capacity = whole;
        // SAFETY: C's own argument.
        return unsafe { read_result(result, amount) };
    };
    let mut into = sys::aws_byte_buf {
        len: 0,
        buffer: target.start.as_ptr(),
        capacity: target.len.min(buffer.capacity),
        allocator: ptr::null_mut(),
    };
    // SAFETY: the target is the request's own memory.
    let result = unsafe { fill(this, socket, &mut into, false) };
    if result.is_ok() && into.len > 0 {
        #[cfg(test)]
        moved::note(into.buffer, into.len);
        // SAFETY: the message that was adopted above; its target stays until it is released.
        unsafe { this.loan.open(message, &into) };
    }
    // SAFETY: C's own argument.
    unsafe { read_result(result, amount) }
}

/// Reads into the rest of `into`: what the socket has, or what TLS makes of it; with TLS one record
/// at most if `is_head`, since what comes with a head is copied.
///
/// # Safety
///
/// On the event loop of the link's socket; `into` has memory that is the caller's.
unsafe fn fill(
    link: &Link,
    socket: *mut Socket,
    into: &mut sys::aws_byte_buf,
    is_head: bool,
) -> Result<usize, libc::c_int> {
    if let Some(wire) = link.wire.get() {
        // SAFETY: the caller's contract.
        return unsafe { wire.read(&link.functions, socket, into, is_head) };
    }
    let mut len = 0;
    // SAFETY: C's call.
    match unsafe { (link.functions.read)(socket, into, &raw mut len) } {
        sys::AWS_OP_SUCCESS => Ok(len),
        failed => Err(failed),
    }
}

/// C's result, and its out parameter.
///
/// # Safety
///
/// `amount` is C's own argument.
unsafe fn read_result(result: Result<usize, libc::c_int>, amount: *mut usize) -> libc::c_int {
    match result {
        Ok(len) => {
            // SAFETY: the caller's contract.
            unsafe { *amount = len };
            sys::AWS_OP_SUCCESS
        }
        Err(failed) => failed,
    }
}

/// The end of a message whose bytes are elsewhere.
struct Writing {
    written: Option<Written>,
    user_data: *mut libc::c_void,
    _bytes: Bytes,
}

unsafe extern "C" fn write(
    socket: *mut Socket,
    data: *const sys::aws_byte_cursor,
    written: Option<Written>,
    user_data: *mut libc::c_void,
) -> libc::c_int {
    // SAFETY: called through the link's table.
    let link = unsafe { link_of(socket) };
    // SAFETY: alive as long as the socket.
    let this = unsafe { &*link };
    let outgoing = this.state.lock().outgoing.take();
    let is_whole = outgoing.is_none();
    if is_whole && this.wire.get().is_none() {
        // SAFETY: C's call.
        return unsafe { (this.functions.write)(socket, data, written, user_data) };
    }
    // SAFETY: C's own argument.
    let data = unsafe { *data };
    let head_len = match &outgoing {
        None => Some(data.len),
        Some(outgoing) => head_len(&data, outgoing),
    };
    let Some(head_len) = head_len else {
        // Never seen: the message that was left incomplete is another one.
        return fail(sys::aws_common_error::AWS_ERROR_INVALID_STATE as i32);
    };
    let head = sys::aws_byte_cursor {
        len: head_len,
        ptr: data.ptr,
    };
    let body = outgoing.map_or_else(Bytes::new, |outgoing| outgoing.bytes);
    #[cfg(test)]
    moved::note(body.as_ptr(), body.len());
    let Some(wire) = this.wire.get() else {
        // SAFETY: C's own arguments.
        return unsafe { write_parts(this, socket, head, body, (written, user_data)) };
    };
    let write = PlainWrite {
        head,
        body,
        written,
        user_data,
    };
    // SAFETY: C's own arguments: the message lives until it is told that it is written.
    match unsafe { wire.write(&this.functions, socket, this.channel, write) } {
        Ok(()) => sys::AWS_OP_SUCCESS,
        Err(failed) => failed,
    }
}

/// Writes the beginning of a message, and then its end, which lies elsewhere.
///
/// # Safety
///
/// As C calls the function of a socket's table; `head` lives until the writer is told.
unsafe fn write_parts(
    this: &Link,
    socket: *mut Socket,
    head: sys::aws_byte_cursor,
    bytes: Bytes,
    (written, user_data): (Option<Written>, *mut libc::c_void),
) -> libc::c_int {
    if head.len > 0 {
        // SAFETY: C's call; the message lives until its second half is written. Without user data
        // nobody is told.
        let result =
            unsafe { (this.functions.write)(socket, &raw const head, written, ptr::null_mut()) };
        if result != sys::AWS_OP_SUCCESS {
            return result;
        }
    }
    let body = sys::aws_byte_cursor {
        len: bytes.len(),
        ptr: bytes.as_ptr().cast_mut(),
    };
    let writing = Box::into_raw(Box::new(Writing {
        written,
        user_data,
        _bytes: bytes,
    }));
    // SAFETY: C's call; the bytes live until `body_written`.
    let result = unsafe {
        (this.functions.write)(socket, &raw const body, Some(body_written), writing.cast())
    };
    if result != sys::AWS_OP_SUCCESS {
        // SAFETY: a write that fails at once is not told of.
        let writing = unsafe { Box::from_raw(writing) };
        guard(|| drop(writing));
    }
    result
}

/// How much of a message is in it; None if the part left out is not its end.
fn head_len(data: &sys::aws_byte_cursor, outgoing: &Outgoing) -> Option<usize> {
    let head_len = outgoing.at.addr().checked_sub(data.ptr.addr())?;
    (head_len.checked_add(outgoing.bytes.len()) == Some(data.len)).then_some(head_len)
}

unsafe extern "C" fn body_written(
    socket: *mut Socket,
    error_code: libc::c_int,
    len: usize,
    writing: *mut libc::c_void,
) {
    // SAFETY: leaked by `write`; C calls this once.
    let writing = unsafe { Box::from_raw(writing.cast::<Writing>()) };
    let (told, user_data) = (writing.written, writing.user_data);
    // The last owner of the bytes gives memory back.
    guard(|| drop(writing));
    // SAFETY: the socket's handler writes messages, and is told of each by it.
    unsafe { message::clear_nothing(user_data) };
    if let Some(written) = told {
        // SAFETY: the handler's own call.
        unsafe { written(socket, error_code, len, user_data) };
    }
}
