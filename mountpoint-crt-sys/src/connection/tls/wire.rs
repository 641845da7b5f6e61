//! A [`Session`] on a socket of the C library, whose place between socket and HTTP it takes.
//!
//! C believes that the connection is a plain one. Bytes from C wait here until the handshake is
//! done, and then goes out encrypted; what it reads has been decrypted. Nothing that C writes
//! reaches the socket in clear: [`TlsWire::write`] is the only way.
//!
//! Everything here runs on the connection's event loop. C's own functions are called with the lock
//! held, because they call nobody back at once; C's callbacks are called without.

use std::collections::VecDeque;
use std::ptr;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use mountpoint_s3_crt_sys as sys;
use parking_lot::Mutex;
use sys::aws_io_errors as io;

use super::buffer::Buffer;
use super::client::TlsClient;
use super::deadline;
use super::failure::TlsFailure;
use super::session::{Progress, Session};
use crate::connection::message;
use crate::connection::socket_table::{Functions, Socket, Written, fail};
use crate::ffi::{bytes_at, cursor, guard};

/// Messages that wait for the handshake. HTTP writes the next one when the one before is written.
const QUEUED_MAX: usize = 4;

/// TLS on one connection.
pub(crate) struct TlsWire {
    client: Arc<TlsClient>,
    state: Mutex<State>,
    failure: OnceLock<TlsFailure>,
}

#[derive(Default)]
struct State {
    /// None before the first write, and after the end.
    session: Option<Session>,
    is_over: bool,
    queued: VecDeque<PlainWrite>,
}

/// Bytes of C's to be sent, and whom to tell of it.
pub(crate) struct PlainWrite {
    /// The bytes before the body; alive until `written` is called.
    pub(crate) head: sys::aws_byte_cursor,
    pub(crate) body: Bytes,
    pub(crate) written: Option<Written>,
    pub(crate) user_data: *mut libc::c_void,
}

// SAFETY: used on the connection's event loop only; what changes is behind a lock.
unsafe impl Send for PlainWrite {}

impl TlsWire {
    pub(crate) fn new(client: Arc<TlsClient>) -> Self {
        Self {
            client,
            state: Mutex::default(),
            failure: OnceLock::new(),
        }
    }

    /// Why TLS has ended the connection, if it has.
    pub(crate) fn failure(&self) -> Option<&TlsFailure> {
        self.failure.get()
    }

    /// Whether it speaks with this client's trust, to this client's server.
    pub(crate) fn is_of(&self, client: &Arc<TlsClient>) -> bool {
        Arc::ptr_eq(&self.client, client)
    }

    /// Reads what has been decrypted into the rest of `into`, as C's own function reads; with one
    /// record at most if `is_one_enough`.
    ///
    /// # Safety
    ///
    /// `functions` are the socket's, `into` has memory that is the caller's, and this is the
    /// connection's event loop.
    pub(crate) unsafe fn read(
        &self,
        functions: &Functions,
        socket: *mut Socket,
        into: &mut sys::aws_byte_buf,
        is_one_enough: bool,
    ) -> Result<usize, libc::c_int> {
        let mut state = self.state.lock();
        loop {
            // SAFETY: the caller's contract; the lock is not C's.
            let progress =
                unsafe { self.go_on(&mut state, functions, socket, into, is_one_enough) }?;
            match progress {
                Progress::Data(len) => {
                    into.len += len;
                    return Ok(len);
                }
                Progress::Opened => {
                    // SAFETY: as above.
                    unsafe { self.send_queued(&mut state, functions, socket) }?;
                }
                Progress::Closed => return Err(fail(io::AWS_IO_SOCKET_CLOSED as i32)),
                Progress::Blocked => {
                    // SAFETY: as above.
                    unsafe { self.receive(&mut state, functions, socket) }?;
                }
            }
        }
    }

    /// Understands what has come, and sends what that asks for.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`].
    unsafe fn go_on(
        &self,
        state: &mut State,
        functions: &Functions,
        socket: *mut Socket,
        into: &sys::aws_byte_buf,
        is_one_enough: bool,
    ) -> Result<Progress, libc::c_int> {
        let Some(session) = &mut state.session else {
            // The client speaks first. Bytes that have come stay in the socket.
            return Err(fail(match state.is_over {
                true => io::AWS_IO_SOCKET_CLOSED as i32,
                false => io::AWS_IO_READ_WOULD_BLOCK as i32,
            }));
        };
        // SAFETY: within the buffer.
        let start = unsafe { into.buffer.add(into.len) };
        // SAFETY: the caller's contract.
        let room = unsafe { std::slice::from_raw_parts_mut(start, into.capacity - into.len) };
        let progress = guard(|| session.go_on(room, is_one_enough))
            .unwrap_or_else(|| Err(TlsFailure::internal("TLS panicked")));
        let outgoing = session.take_outgoing();
        // SAFETY: the caller's contract. An alert may be lost.
        let sent = unsafe { send(functions, socket, outgoing) };
        match progress {
            Ok(progress) => sent.map(|()| progress),
            Err(failure) => Err(self.fail(failure)),
        }
    }

    /// Receives what the socket has.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`].
    unsafe fn receive(
        &self,
        state: &mut State,
        functions: &Functions,
        socket: *mut Socket,
    ) -> Result<(), libc::c_int> {
        let Some(session) = &mut state.session else {
            return Err(fail(io::AWS_IO_SOCKET_CLOSED as i32));
        };
        let room = session.room();
        if room.is_empty() {
            return Err(self.fail(TlsFailure::protocol("a message that is too long")));
        }
        let mut into = sys::aws_byte_buf {
            len: 0,
            buffer: room.as_mut_ptr(),
            capacity: room.len(),
            allocator: ptr::null_mut(),
        };
        let mut amount = 0;
        // SAFETY: C's call, into memory of the session.
        let result = unsafe { (functions.read)(socket, &raw mut into, &raw mut amount) };
        if result == sys::AWS_OP_SUCCESS {
            session.came(into.len);
            return Ok(());
        }
        session.rest();
        // SAFETY: reads a thread-local number.
        let code = unsafe { sys::aws_last_error() };
        if session.is_in_handshake() && code == io::AWS_IO_SOCKET_CLOSED as i32 {
            let text = "the server closed the connection during the TLS handshake";
            return Err(self.fail(TlsFailure::handshake(text)));
        }
        Err(result)
    }

    /// Writes, as C's own function does: at once, or when the handshake is done, which the first
    /// write begins.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`]; the head lives until it is written or this fails.
    pub(crate) unsafe fn write(
        self: &Arc<Self>,
        functions: &Functions,
        socket: *mut Socket,
        channel: *mut sys::aws_channel,
        outgoing: PlainWrite,
    ) -> Result<(), libc::c_int> {
        let mut state = self.state.lock();
        if state.is_over || self.failure.get().is_some() {
            return Err(fail(io::AWS_IO_SOCKET_CLOSED as i32));
        }
        if state.session.as_ref().is_some_and(Session::is_open) {
            // SAFETY: the caller's contract.
            return unsafe { self.send_sealed(&mut state, functions, socket, outgoing) }
                .map_err(|(_, result)| result);
        }
        if state.queued.len() >= QUEUED_MAX {
            return Err(fail(sys::aws_common_error::AWS_ERROR_INVALID_STATE as i32));
        }
        if state.session.is_some() {
            state.queued.push_back(outgoing);
            return Ok(());
        }
        let session = guard(|| Session::new(&self.client.config, &self.client.server))
            .unwrap_or_else(|| Err(TlsFailure::internal("TLS panicked")));
        state.session = Some(session.map_err(|failure| self.fail(failure))?);
        let nothing = sys::aws_byte_buf {
            buffer: ptr::NonNull::dangling().as_ptr(),
            ..Default::default()
        };
        // SAFETY: the caller's contract. The first step makes the first message.
        unsafe { self.go_on(&mut state, functions, socket, &nothing, true) }?;
        state.queued.push_back(outgoing);
        drop(state);
        let this = Arc::clone(self);
        let check = Box::new(move || this.is_late());
        // SAFETY: on the channel's event loop.
        unsafe { deadline::begin(channel, self.client.handshake_max, check) };
        Ok(())
    }

    /// Sends what has waited for the handshake.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`].
    unsafe fn send_queued(
        &self,
        state: &mut State,
        functions: &Functions,
        socket: *mut Socket,
    ) -> Result<(), libc::c_int> {
        while let Some(outgoing) = state.queued.pop_front() {
            // SAFETY: the caller's contract.
            let sent = unsafe { self.send_sealed(state, functions, socket, outgoing) };
            if let Err((outgoing, result)) = sent {
                // Its writer hears of it when the socket is closed.
                state.queued.push_front(outgoing);
                return Err(result);
            }
        }
        Ok(())
    }

    /// Encrypts and sends. The last piece tells the writer. Gives the bytes back if it fails.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`].
    unsafe fn send_sealed(
        &self,
        state: &mut State,
        functions: &Functions,
        socket: *mut Socket,
        outgoing: PlainWrite,
    ) -> Result<(), (PlainWrite, libc::c_int)> {
        let Some(session) = &mut state.session else {
            return Err((outgoing, fail(io::AWS_IO_SOCKET_CLOSED as i32)));
        };
        // SAFETY: alive until it is written.
        let mut head = unsafe { bytes_at(outgoing.head.ptr, outgoing.head.len) };
        let whole_body = outgoing.body.clone();
        let mut body: &[u8] = &whole_body;
        loop {
            let mut buffer = Buffer::new();
            let mut len = 0;
            for plaintext in [&mut head, &mut body] {
                match session.seal(plaintext, &mut buffer[len..]) {
                    Ok((taken, made)) => {
                        *plaintext = &plaintext[taken..];
                        len += made;
                        if !plaintext.is_empty() {
                            break;
                        }
                    }
                    Err(failure) => return Err((outgoing, self.fail(failure))),
                }
            }
            let is_last = head.is_empty() && body.is_empty();
            let piece = Piece {
                bytes: SentBytes::Sealed(buffer),
                len,
                written: outgoing.written.filter(|_| is_last),
                user_data: outgoing.user_data,
                told_len: outgoing.head.len + whole_body.len(),
            };
            // SAFETY: the caller's contract.
            match unsafe { piece.send(functions, socket) } {
                Ok(()) if is_last => return Ok(()),
                Ok(()) => {}
                Err(result) => return Err((outgoing, result)),
            }
        }
    }

    /// Says goodbye, and tells all waiting writers that nothing more is written. The last call.
    ///
    /// # Safety
    ///
    /// As for [`Self::read`]; the socket is about to be closed.
    pub(crate) unsafe fn close(&self, functions: &Functions, socket: *mut Socket) {
        let mut state = self.state.lock();
        state.is_over = true;
        if let Some(mut session) = state.session.take().filter(Session::is_open) {
            let goodbye = guard(|| session.goodbye()).unwrap_or_default();
            // SAFETY: the caller's contract. The server may be gone.
            let _sent = unsafe { send(functions, socket, goodbye) };
        }
        let queued = std::mem::take(&mut state.queued);
        drop(state);
        for outgoing in queued {
            if let Some(written) = outgoing.written {
                let code = io::AWS_IO_SOCKET_CLOSED as i32;
                // SAFETY: the writer's own function, called once for each write that is not done.
                unsafe { written(socket, code, 0, outgoing.user_data) };
            }
        }
    }

    /// The handshake has taken all of its time: returns C's number for that, unless it is done.
    fn is_late(&self) -> Option<i32> {
        let state = self.state.lock();
        let is_late = state.session.as_ref().is_some_and(Session::is_in_handshake);
        is_late.then(|| {
            let limit = self.client.handshake_max;
            let text = format!("the TLS handshake took longer than {limit:?}");
            let failure = TlsFailure::timeout(text);
            let code = failure.code;
            self.fail(failure);
            code
        })
    }

    /// Notes why the connection ends, and makes that the calling thread's last error.
    fn fail(&self, failure: TlsFailure) -> libc::c_int {
        let code = failure.code;
        tracing::debug!("TLS with {:?} failed: {}", self.client.server, failure.text);
        // The first reason counts.
        drop(self.failure.set(failure));
        fail(code)
    }
}

/// Sends bytes of TLS itself, of which nobody is told.
///
/// # Safety
///
/// As for [`TlsWire::read`].
unsafe fn send(
    functions: &Functions,
    socket: *mut Socket,
    bytes: Vec<u8>,
) -> Result<(), libc::c_int> {
    if bytes.is_empty() {
        return Ok(());
    }
    let piece = Piece {
        len: bytes.len(),
        bytes: SentBytes::Own(bytes),
        written: None,
        user_data: ptr::null_mut(),
        told_len: 0,
    };
    // SAFETY: the caller's contract.
    unsafe { piece.send(functions, socket) }
}

/// Bytes on their way to the socket.
struct Piece {
    bytes: SentBytes,
    len: usize,
    written: Option<Written>,
    user_data: *mut libc::c_void,
    /// Bytes that the writer has asked to be written.
    told_len: usize,
}

enum SentBytes {
    Own(Vec<u8>),
    Sealed(Buffer),
}

impl Piece {
    /// # Safety
    ///
    /// As for [`TlsWire::read`].
    unsafe fn send(self, functions: &Functions, socket: *mut Socket) -> Result<(), libc::c_int> {
        let piece = Box::into_raw(Box::new(self));
        // SAFETY: just leaked.
        let bytes = match unsafe { &(*piece).bytes } {
            SentBytes::Own(bytes) => bytes.as_slice(),
            SentBytes::Sealed(buffer) => buffer,
        };
        // SAFETY: as above.
        let data = cursor(&bytes[..unsafe { (*piece).len }]);
        // SAFETY: C's call; the bytes live until `sent`.
        let result =
            unsafe { (functions.write)(socket, &raw const data, Some(sent), piece.cast()) };
        if result == sys::AWS_OP_SUCCESS {
            return Ok(());
        }
        // SAFETY: a write that fails at once is not told of.
        drop(unsafe { Box::from_raw(piece) });
        Err(result)
    }
}

unsafe extern "C" fn sent(
    socket: *mut Socket,
    error_code: libc::c_int,
    _: usize,
    piece: *mut libc::c_void,
) {
    // SAFETY: leaked by `send`; C calls this once.
    let piece = unsafe { Box::from_raw(piece.cast::<Piece>()) };
    let (written, user_data, len) = (piece.written, piece.user_data, piece.told_len);
    drop(piece);
    if let Some(written) = written {
        let len = if error_code == 0 { len } else { 0 };
        // SAFETY: the socket's handler writes messages, and is told of each by it.
        unsafe { message::clear_nothing(user_data) };
        // SAFETY: the writer's own function.
        unsafe { written(socket, error_code, len, user_data) };
    }
}
