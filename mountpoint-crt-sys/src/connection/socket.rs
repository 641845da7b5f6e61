//! Sockets that read to where the bytes belong and write from where they lie.
//!
//! C moves all bytes through messages of a pool: it reads into a message and copies from there into
//! the request's buffer, copies a body into a message and writes that, and clears each message
//! afterwards. On a connection without TLS none of it is needed. A socket's table of functions is
//! replaced by a copy whose `read` puts the body of an answer into the request's buffer, whose
//! `write` takes what a [`BodyStream`](crate::connection::body_stream) has left out of a message
//! from the caller's memory, and whose `cleanup` takes the copy away again.
//!
//! Everything here runs on the connection's event loop, but for the clean-up, which comes last.
//!
//! Invariants: a message with another's memory gets its own back before C's pool sees it again, and
//! there is one such message at a time; the memory is a target only between two pieces of one
//! answer's body; C's request keeps it alive and lets go of it after `on_complete`, which ends that
//! ([`Link::expect_nothing`]). Bytes that are being written are kept alive by their completion.
//!
//! `Table` is written down from the header of the version that `hook::CRATE_VERSION` names; where
//! something is not what it should be there, bytes are copied as C does it.

use std::mem::offset_of;
use std::ptr::{self, NonNull};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_s3_crt_sys as sys;
use parking_lot::Mutex;

use crate::ffi::guard;

/// Bytes that are read at once while the head of an answer is awaited that is likely long: what
/// comes with the head is copied.
const HEAD_READ: usize = 16 << 10;

/// Answers from this length on are long, in bytes. One more system call costs about as much as
/// copying so many.
const LONG_ANSWER: u64 = 128 << 10;

/// `aws_socket_vtable`: functions of which only three are called from here.
#[repr(C)]
#[derive(Clone, Copy)]
struct Table {
    cleanup: Option<Cleanup>,
    /// From `socket_connect_fn` to `socket_subscribe_to_readable_events_fn`.
    _until_read: [*const libc::c_void; 10],
    read: Option<Read>,
    write: Option<Write>,
    /// From `socket_get_error_fn` to `socket_get_server_name_fn`.
    _after_write: [*const libc::c_void; 6],
}

/// `aws_socket`, as far as it is looked at.
#[repr(C)]
struct Socket {
    table: *const Table,
}

type Cleanup = unsafe extern "C" fn(*mut Socket);
type Read = unsafe extern "C" fn(*mut Socket, *mut sys::aws_byte_buf, *mut usize) -> libc::c_int;
type Write = unsafe extern "C" fn(
    *mut Socket,
    *const sys::aws_byte_cursor,
    Option<Written>,
    *mut libc::c_void,
) -> libc::c_int;
type Written = unsafe extern "C" fn(*mut Socket, libc::c_int, usize, *mut libc::c_void);
type Release = unsafe extern "C" fn(*mut sys::aws_allocator, *mut libc::c_void);

unsafe extern "C" {
    /// The socket of a socket handler, which is the first handler of every channel.
    fn aws_socket_handler_get_socket(handler: *const sys::aws_channel_handler) -> *const Socket;
}

/// The data behind a socket: its table, and the destination of its bytes.
#[repr(C)]
pub(crate) struct Link {
    /// The target of the socket's pointer. First, so that it leads to the whole.
    table: Table,
    original: *const Table,
    channel: *const sys::aws_channel,
    read: Read,
    write: Write,
    cleanup: Cleanup,
    state: Mutex<TransferState>,
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
    /// The buffer of the message that has the request's memory.
    lent: Option<NonNull<u8>>,
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
    // SAFETY: alive as long as its connection.
    let table = unsafe { (*socket).table };
    // SAFETY: a table that C made, or a link's.
    if let Some(link) = unsafe { link_behind(table) } {
        return Some(link);
    }
    // SAFETY: as above.
    let current = unsafe { table.as_ref() }?;
    let (read_of_c, write_of_c) = (current.read?, current.write?);
    let cleanup_of_c = current.cleanup?;
    let link = Arc::into_raw(Arc::new(Link {
        table: Table {
            cleanup: Some(cleanup),
            read: Some(read),
            write: Some(write),
            ..*current
        },
        original: table,
        channel,
        read: read_of_c,
        write: write_of_c,
        cleanup: cleanup_of_c,
        state: Mutex::default(),
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
) -> Option<(*mut Socket, *const sys::aws_channel)> {
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
    let ours: Read = read;
    // SAFETY: the caller's contract.
    let reads = unsafe { table.as_ref() }?.read?;
    // SAFETY: only a link's table has this function, and it is the link's first field.
    ptr::fn_addr_eq(reads, ours).then(|| unsafe { &*table.cast::<Link>() })
}

/// # Safety
///
/// The socket's table is a link's.
unsafe fn link_of(socket: *mut Socket) -> *const Link {
    // SAFETY: the caller's contract: the table is the link's first field.
    unsafe { (*socket).table.cast::<Link>() }
}

impl Link {
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
    let message = unsafe { adopt(this, buffer) };
    // SAFETY: as above.
    let buffer = unsafe { &mut *buffer };
    let (target, is_long) = {
        let state = this.state.lock();
        let target = state
            .target
            .filter(|_| state.lent.is_none() && buffer.len == 0);
        (target, state.is_long && state.body_left.is_none())
    };
    let Some((target, message)) = target.zip(message) else {
        let capacity = if is_long {
            buffer.capacity.min(buffer.len + HEAD_READ)
        } else {
            buffer.capacity
        };
        let whole = std::mem::replace(&mut buffer.capacity, capacity);
        // SAFETY: C's call, into a part of the buffer.
        let result = unsafe { (this.read)(socket, buffer, amount) };
        buffer.capacity = whole;
        return result;
    };
    let mut into = sys::aws_byte_buf {
        len: 0,
        buffer: target.start.as_ptr(),
        capacity: target.len.min(buffer.capacity),
        allocator: ptr::null_mut(),
    };
    // SAFETY: C's call; the target is the request's own memory.
    let result = unsafe { (this.read)(socket, &raw mut into, amount) };
    if result == sys::AWS_OP_SUCCESS && into.len > 0 {
        #[cfg(test)]
        moved::note(into.buffer, into.len);
        this.state.lock().lent = NonNull::new(buffer.buffer);
        buffer.buffer = into.buffer;
        buffer.len = into.len;
        // SAFETY: the socket has a reference.
        unsafe { Arc::increment_strong_count(link) };
        // SAFETY: C uses the user data of no message that it reads.
        unsafe { (*message).user_data = link.cast_mut().cast() };
    }
    result
}

/// The message that `buffer` is the data of, with its end in our hands: it is cleared no more.
///
/// # Safety
///
/// `buffer` is the data of a message.
unsafe fn adopt(link: &Link, buffer: *mut sys::aws_byte_buf) -> Option<*mut sys::aws_io_message> {
    let offset = offset_of!(sys::aws_io_message, message_data);
    // SAFETY: the caller's contract.
    let message = unsafe { buffer.byte_sub(offset) }.cast::<sys::aws_io_message>();
    // SAFETY: as above.
    let owner = unsafe { (*message).owning_channel };
    // SAFETY: as above.
    let allocator = unsafe { (*message).allocator };
    if !ptr::eq(owner, link.channel) || allocator.is_null() {
        return None;
    }
    // SAFETY: the message's own record of its pool; C writes it anew for each message.
    let release = unsafe { &mut (*allocator).mem_release };
    let current = (*release)?;
    let known = *RELEASE_OF_C.get_or_init(|| current);
    if !ptr::fn_addr_eq(known, current) {
        return None;
    }
    *release = Some(release_message);
    Some(message)
}

/// How messages go back to C's pool.
static RELEASE_OF_C: OnceLock<Release> = OnceLock::new();

unsafe extern "C" fn release_message(
    allocator: *mut sys::aws_allocator,
    message: *mut libc::c_void,
) {
    // SAFETY: C releases a message with its own record of its pool.
    let this = unsafe { &mut *message.cast::<sys::aws_io_message>() };
    let link = std::mem::replace(&mut this.user_data, ptr::null_mut());
    if !link.is_null() {
        // SAFETY: the reference that `read` has put there.
        let link = unsafe { Arc::from_raw(link.cast_const().cast::<Link>()) };
        if let Some(own) = link.state.lock().lent.take() {
            this.message_data.buffer = own.as_ptr();
        }
    }
    // So C has nothing to clear.
    this.message_data.len = 0;
    if let Some(release) = RELEASE_OF_C.get() {
        // SAFETY: C's call.
        unsafe { release(allocator, message) };
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
    let Some(outgoing) = this.state.lock().outgoing.take() else {
        // SAFETY: C's call.
        return unsafe { (this.write)(socket, data, written, user_data) };
    };
    // SAFETY: C's own argument.
    let data = unsafe { *data };
    let Some(head_len) = head_len(&data, &outgoing) else {
        // Never seen: the message that was left incomplete is another one.
        let code = sys::aws_common_error::AWS_ERROR_INVALID_STATE as i32;
        // SAFETY: sets a thread-local number.
        return unsafe { sys::aws_raise_error(code) };
    };
    if head_len > 0 {
        let head = sys::aws_byte_cursor {
            len: head_len,
            ptr: data.ptr,
        };
        // SAFETY: C's call; the message lives until its second half is written. Without user data
        // nobody is told.
        let result = unsafe { (this.write)(socket, &raw const head, written, ptr::null_mut()) };
        if result != sys::AWS_OP_SUCCESS {
            return result;
        }
    }
    let body = sys::aws_byte_cursor {
        len: outgoing.bytes.len(),
        ptr: outgoing.bytes.as_ptr().cast_mut(),
    };
    #[cfg(test)]
    moved::note(body.ptr, body.len);
    let writing = Box::into_raw(Box::new(Writing {
        written,
        user_data,
        _bytes: outgoing.bytes,
    }));
    // SAFETY: C's call; the bytes live until `body_written`.
    let result =
        unsafe { (this.write)(socket, &raw const body, Some(body_written), writing.cast()) };
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
    if let Some(message) = NonNull::new(user_data.cast::<sys::aws_io_message>()) {
        // So C has nothing to clear.
        // SAFETY: the socket's handler writes messages, and is told of each by it.
        unsafe { (*message.as_ptr()).message_data.len = 0 };
    }
    if let Some(written) = told {
        // SAFETY: the handler's own call.
        unsafe { written(socket, error_code, len, user_data) };
    }
}

/// Counters of bytes that were read to their destination and written from their place.
#[cfg(test)]
pub(crate) mod moved {
    use parking_lot::Mutex;

    static PIECES: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

    pub(crate) fn note(start: *const u8, len: usize) {
        PIECES.lock().push((start.addr(), len));
    }

    /// Bytes of this memory that were, and forgets them.
    pub(crate) fn take(start: *const u8, len: usize) -> usize {
        let memory = start.addr()..start.addr() + len;
        let pieces = &mut *PIECES.lock();
        let ours = pieces.extract_if(.., |(start, _)| memory.contains(start));
        ours.map(|(_, len)| len).sum()
    }
}
