//! A request's body that is written from the caller's memory, if the connection's socket can
//! ([`crate::connection::socket`]).

use bytes::Bytes;
use mountpoint_s3_crt_sys as sys;

use super::socket;
use crate::ffi::guard;

/// Pieces from this length on are left out of messages, in bytes.
const LEAVE_OUT_MIN: usize = 32 << 10;

/// C sees the first field.
#[repr(C)]
struct BodyStream {
    base: sys::aws_input_stream,
    connection: *mut sys::aws_http_connection,
    bytes: Bytes,
    position: usize,
}

static TABLE: sys::aws_input_stream_vtable = sys::aws_input_stream_vtable {
    seek: Some(seek),
    read: Some(read),
    get_status: Some(get_status),
    get_length: Some(get_length),
    acquire: None,
    release: None,
};

/// Gives a request that is about to be sent on `connection` the body `bytes`, which it has already.
///
/// # Safety
///
/// Both are alive and the caller's; the connection lives as long as it reads the body.
pub(crate) unsafe fn replace_body(
    request: *mut sys::aws_http_message,
    connection: *mut sys::aws_http_connection,
    bytes: Bytes,
) {
    let stream = Box::into_raw(Box::new(BodyStream {
        base: sys::aws_input_stream {
            impl_: std::ptr::null_mut(),
            vtable: &raw const TABLE,
            ref_count: sys::aws_ref_count::default(),
        },
        connection,
        bytes,
        position: 0,
    }));
    // SAFETY: just leaked, and not yet C's.
    let count = unsafe { &raw mut (*stream).base.ref_count };
    // SAFETY: the count lies in the stream, which lives until the count is zero.
    unsafe { sys::aws_ref_count_init(count, stream.cast(), Some(drop_stream)) };
    // SAFETY: the caller's contract; the message takes a reference of its own.
    unsafe { sys::aws_http_message_set_body_stream(request, stream.cast()) };
    // SAFETY: the first reference.
    unsafe { sys::aws_input_stream_release(stream.cast()) };
}

unsafe extern "C" fn drop_stream(stream: *mut libc::c_void) {
    // SAFETY: leaked by `replace_body`; called once, when nobody has a reference.
    let stream = unsafe { Box::from_raw(stream.cast::<BodyStream>()) };
    guard(|| drop(stream));
}

/// # Safety
///
/// `stream` is one of ours, and C's one thread that uses it is here.
unsafe fn this<'a>(stream: *mut sys::aws_input_stream) -> &'a mut BodyStream {
    // SAFETY: the caller's contract; C's part is the first field.
    unsafe { &mut *stream.cast::<BodyStream>() }
}

unsafe extern "C" fn read(
    stream: *mut sys::aws_input_stream,
    into: *mut sys::aws_byte_buf,
) -> libc::c_int {
    // SAFETY: C's own argument.
    let this = unsafe { this(stream) };
    // SAFETY: as above; the unused rest of a message's buffer.
    let into = unsafe { &mut *into };
    let room = into.capacity - into.len;
    let end = this.bytes.len().min(this.position + room);
    let piece = this.bytes.slice(this.position..end);
    let len = piece.len();
    // SAFETY: within the buffer.
    let at = unsafe { into.buffer.add(into.len) };
    // SAFETY: the connection reads its request's body on its own thread.
    let link = unsafe { socket::link(this.connection) }.filter(|_| len >= LEAVE_OUT_MIN);
    if link.is_none_or(|link| !link.leave_out(at, piece.clone())) {
        // SAFETY: there is room for them, in memory of C's own.
        unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), at, len) };
    }
    into.len += len;
    this.position = end;
    sys::AWS_OP_SUCCESS
}

unsafe extern "C" fn seek(
    stream: *mut sys::aws_input_stream,
    offset: i64,
    basis: sys::aws_stream_seek_basis,
) -> libc::c_int {
    // SAFETY: C's own argument.
    let this = unsafe { this(stream) };
    let len = this.bytes.len();
    let position = match basis {
        sys::aws_stream_seek_basis::AWS_SSB_BEGIN => usize::try_from(offset).ok(),
        sys::aws_stream_seek_basis::AWS_SSB_END => usize::try_from(offset.unsigned_abs())
            .ok()
            .filter(|_| offset <= 0)
            .and_then(|back| len.checked_sub(back)),
        _ => None,
    };
    match position.filter(|position| *position <= len) {
        Some(position) => {
            this.position = position;
            sys::AWS_OP_SUCCESS
        }
        None => {
            let code = sys::aws_io_errors::AWS_IO_STREAM_INVALID_SEEK_POSITION as i32;
            // SAFETY: sets a thread-local number.
            unsafe { sys::aws_raise_error(code) }
        }
    }
}

unsafe extern "C" fn get_status(
    stream: *mut sys::aws_input_stream,
    status: *mut sys::aws_stream_status,
) -> libc::c_int {
    // SAFETY: C's own argument.
    let this = unsafe { this(stream) };
    // SAFETY: as above.
    let status = unsafe { &mut *status };
    status.is_end_of_stream = this.position == this.bytes.len();
    status.is_valid = true;
    sys::AWS_OP_SUCCESS
}

unsafe extern "C" fn get_length(
    stream: *mut sys::aws_input_stream,
    length: *mut i64,
) -> libc::c_int {
    // SAFETY: C's own argument.
    let len = unsafe { this(stream) }.bytes.len();
    // SAFETY: as above.
    unsafe { *length = i64::try_from(len).unwrap_or(i64::MAX) };
    sys::AWS_OP_SUCCESS
}
