//! The C library's table of a socket's functions, written down from the header of the version that
//! `hook::CRATE_VERSION` names.

use mountpoint_s3_crt_sys as sys;

/// `aws_socket_vtable`: functions of which only four are called from here.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Table {
    pub(crate) cleanup: Option<Cleanup>,
    /// From `socket_connect_fn` to `socket_stop_accept_fn`.
    pub(crate) _until_close: [*const libc::c_void; 5],
    pub(crate) close: Option<Close>,
    /// From `socket_shutdown_dir_fn` to `socket_subscribe_to_readable_events_fn`.
    pub(crate) _until_read: [*const libc::c_void; 4],
    pub(crate) read: Option<Read>,
    pub(crate) write: Option<Write>,
    /// From `socket_get_error_fn` to `socket_get_server_name_fn`.
    pub(crate) _after_write: [*const libc::c_void; 6],
}

/// `aws_socket`, as far as it is looked at.
#[repr(C)]
pub(crate) struct Socket {
    pub(crate) table: *const Table,
}

pub(crate) type Cleanup = unsafe extern "C" fn(*mut Socket);
pub(crate) type Close = unsafe extern "C" fn(*mut Socket) -> libc::c_int;
pub(crate) type Read =
    unsafe extern "C" fn(*mut Socket, *mut sys::aws_byte_buf, *mut usize) -> libc::c_int;
pub(crate) type Write = unsafe extern "C" fn(
    *mut Socket,
    *const sys::aws_byte_cursor,
    Option<Written>,
    *mut libc::c_void,
) -> libc::c_int;
pub(crate) type Written = unsafe extern "C" fn(*mut Socket, libc::c_int, usize, *mut libc::c_void);

/// C's own functions of a socket.
#[derive(Clone, Copy)]
pub(crate) struct Functions {
    pub(crate) close: Close,
    pub(crate) read: Read,
    pub(crate) write: Write,
}

unsafe extern "C" {
    /// The socket of a socket handler, which is the first handler of every channel.
    pub(crate) fn aws_socket_handler_get_socket(
        handler: *const sys::aws_channel_handler,
    ) -> *const Socket;
}

/// Sets the calling thread's last error; returns C's result for a failure.
pub(crate) fn fail(code: i32) -> libc::c_int {
    // SAFETY: sets a thread-local number.
    unsafe { sys::aws_raise_error(code) }
}
