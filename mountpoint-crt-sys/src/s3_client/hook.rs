//! All access to private structures of the C library.
//!
//! Works on a client that has just been made and has no requests: replaces its table of functions
//! by a copy whose `http_connection_make_request` puts our callbacks around C's, and its second
//! group of event loops by the bootstrap's. doc/internals/client.md has the list of what that gives
//! ("Private parts of the CRT").
//!
//! The bindings assert the layout of the structures when they are compiled, from the headers of the
//! very version that is pinned; [`install`] checks once more that they hold what they should, and
//! does nothing if not. Then requests are served by C's public callbacks: the same results, later.

use std::ptr;
use std::sync::OnceLock;

use mountpoint_s3_crt_sys as sys;

use crate::connection::body_stream::replace_body;
use crate::connection::head_limit;
use crate::connection::socket;
use crate::connection::socket::Link;
use crate::connection::socket_handler::{secure, tls_failure};
use crate::connection::socket_table::fail;
use crate::error::OwnError;
use crate::ffi::{Handle, bytes_at, check, cursor};
use crate::request::exchange::{Delivery, Running, running};
use crate::request::head::read_head;
use crate::runtime::Runtime;

/// The version whose private structures this file, and whose S3 Express interface `express.rs`, was
/// written against.
const CRATE_VERSION: &str = "0.17.1";

/// Bodies from this length on are not copied, in bytes. Copying a smaller one costs less than
/// lending it.
const LEND_MIN: usize = 64 << 10;

/// Installs the hook. The client must be new.
///
/// With `is_tls` a client that it cannot be installed for must send nothing.
///
/// # Safety
///
/// `client` is alive, made from `runtime`'s bootstrap, and nobody else knows it yet.
pub(crate) unsafe fn install(
    client: *mut sys::aws_s3_client,
    runtime: &Runtime,
    is_tls: bool,
) -> Delivery {
    // SAFETY: alive, and set when it was made.
    let table = unsafe { (*client).vtable };
    // SAFETY: as above.
    let bootstrap = unsafe { (*client).client_bootstrap };
    // SAFETY: as above.
    let delivery_loops = unsafe { (*client).body_streaming_elg };
    let is_known = bootstrap == runtime.bootstrap()
        && !delivery_loops.is_null()
        && delivery_loops != runtime.event_loops()
        // SAFETY: a client's table is a static of the C library; null is asked for first.
        && !table.is_null() && unsafe { is_complete(table) };
    if !is_known {
        tracing::warn!(
            "the CRT is not version {CRATE_VERSION}; bodies are delivered when they are complete"
        );
        return Delivery::AtTheEnd;
    }
    // SAFETY: a complete table, checked above.
    let Some(hooked) = (unsafe { hooked_table(table, is_tls) }) else {
        return Delivery::AtTheEnd;
    };
    // SAFETY: nobody else uses the client yet; the table lives for ever and C does not write to it.
    unsafe { (*client).vtable = ptr::from_ref(hooked).cast_mut() };
    // SAFETY: the runtime's group is alive; the reference belongs to the client from here on.
    let shared = unsafe { sys::aws_event_loop_group_acquire(runtime.event_loops()) };
    // SAFETY: nobody else uses the client yet.
    unsafe { (*client).body_streaming_elg = shared };
    // SAFETY: the client's reference, which the client no longer has. It lives at least until the
    // group has ended.
    unsafe { sys::aws_event_loop_group_release(delivery_loops) };
    Delivery::Hooked
}

/// # Safety
///
/// `table` is a client's table.
unsafe fn is_complete(table: *const sys::aws_s3_client_vtable) -> bool {
    // SAFETY: the caller's contract; a static that nobody writes.
    let table = unsafe { &*table };
    table.http_connection_make_request.is_some()
        && table.get_host_address_count.is_some()
        && table.meta_request_factory.is_some()
        && table.acquire_http_connection.is_some()
        && table.schedule_process_work_synced.is_some()
        && table.process_work.is_some()
        && table.endpoint_shutdown_callback.is_some()
        && table.finish_destroy.is_some()
}

/// Our copy of the one table that C has. None if there is another one after all.
///
/// # Safety
///
/// `table` is a client's table.
unsafe fn hooked_table(
    table: *const sys::aws_s3_client_vtable,
    is_tls: bool,
) -> Option<&'static sys::aws_s3_client_vtable> {
    static HOOKED: [OnceLock<(usize, sys::aws_s3_client_vtable)>; 2] =
        [const { OnceLock::new() }; 2];
    let (original, hooked) = HOOKED[usize::from(is_tls)].get_or_init(|| {
        // SAFETY: the caller's contract; a static that nobody writes.
        let mut hooked = unsafe { *table };
        hooked.http_connection_make_request = Some(match is_tls {
            true => make_secure_request,
            false => make_request,
        });
        hooked.get_host_address_count = Some(one_host);
        (table.addr(), hooked)
    });
    (*original == table.addr()).then_some(hooked)
}

unsafe extern "C" fn one_host(
    _: *mut sys::aws_host_resolver,
    _: *const sys::aws_string,
    _: u32,
) -> usize {
    1
}

/// C's own callbacks, which are the same for every request.
struct Originals {
    headers: Headers,
    header_block_done: HeaderBlockDone,
    body: Body,
    complete: Complete,
}

type Headers = unsafe extern "C" fn(
    *mut sys::aws_http_stream,
    sys::aws_http_header_block,
    *const sys::aws_http_header,
    usize,
    *mut libc::c_void,
) -> libc::c_int;

type HeaderBlockDone = unsafe extern "C" fn(
    *mut sys::aws_http_stream,
    sys::aws_http_header_block,
    *mut libc::c_void,
) -> libc::c_int;

type Body = unsafe extern "C" fn(
    *mut sys::aws_http_stream,
    *const sys::aws_byte_cursor,
    *mut libc::c_void,
) -> libc::c_int;

type Complete = unsafe extern "C" fn(*mut sys::aws_http_stream, libc::c_int, *mut libc::c_void);

static ORIGINALS: OnceLock<Originals> = OnceLock::new();

/// For clients that speak TLS: makes no request on a connection that would send it in clear.
unsafe extern "C" fn make_secure_request(
    connection: *mut sys::aws_http_connection,
    options: *const sys::aws_http_make_request_options,
) -> *mut sys::aws_http_stream {
    // SAFETY: C's options for this call.
    let user_data = unsafe { (*options).user_data };
    // SAFETY: the user data of C's requests is the connection, with the request that is about to be
    // sent.
    let running = unsafe { request_of(user_data) }.map(|(running, _)| running);
    let tls = running.and_then(Running::tls);
    // SAFETY: alive, and the request that is about to be made is the only one on it.
    if !tls.is_some_and(|tls| unsafe { secure(connection, tls) }) {
        if let Some(running) = running {
            running.fails_because(OwnError::NoPlaceForTls.into());
        }
        fail(sys::aws_io_errors::AWS_IO_TLS_ERROR_NOT_NEGOTIATED as i32);
        return ptr::null_mut();
    }
    // SAFETY: C's own arguments.
    unsafe { make_request(connection, options) }
}

unsafe extern "C" fn make_request(
    connection: *mut sys::aws_http_connection,
    options: *const sys::aws_http_make_request_options,
) -> *mut sys::aws_http_stream {
    // SAFETY: C's options for this call.
    let mut options = unsafe { *options };
    if let (Some(headers), Some(header_block_done), Some(body), Some(complete)) = (
        options.on_response_headers,
        options.on_response_header_block_done,
        options.on_response_body,
        options.on_complete,
    ) {
        let originals = ORIGINALS.get_or_init(|| Originals {
            headers,
            header_block_done,
            body,
            complete,
        });
        let are_known = ptr::fn_addr_eq(originals.headers, headers)
            && ptr::fn_addr_eq(originals.header_block_done, header_block_done)
            && ptr::fn_addr_eq(originals.body, body)
            && ptr::fn_addr_eq(originals.complete, complete);
        if are_known {
            options.on_response_headers = Some(hooked_headers);
            options.on_response_header_block_done = Some(hooked_header_block_done);
            options.on_response_body = Some(hooked_body);
            options.on_complete = Some(hooked_complete);
            // SAFETY: alive, and the request that is about to be made is the only one on it.
            unsafe { head_limit::install(connection) };
            // SAFETY: the user data of C's requests is the connection, with the request that is
            // about to be sent.
            unsafe { lend_body(connection, &options) };
        }
    }
    // SAFETY: C's call, with callbacks of the same contract.
    unsafe { sys::aws_http_connection_make_request(connection, &raw const options) }
}

/// Lets a request's body be written from where it lies.
///
/// # Safety
///
/// `options` describe a request of the S3 client on this connection.
unsafe fn lend_body(
    connection: *mut sys::aws_http_connection,
    options: &sys::aws_http_make_request_options,
) {
    // SAFETY: the caller's contract.
    let Some((running, request)) = (unsafe { request_of(options.user_data) }) else {
        return;
    };
    let Some(bytes) = running.outgoing() else {
        return;
    };
    // SAFETY: alive, and not yet sent.
    let body = unsafe { &(*request).request_body };
    if bytes.len() >= LEND_MIN && body.len == bytes.len() && ptr::eq(body.buffer, bytes.as_ptr()) {
        // SAFETY: C made the message for this attempt; its connection reads the body.
        unsafe { replace_body(options.request, connection, bytes) };
    }
}

/// C keeps all headers that come, however many.
unsafe extern "C" fn hooked_headers(
    stream: *mut sys::aws_http_stream,
    block: sys::aws_http_header_block,
    headers: *const sys::aws_http_header,
    count: usize,
    connection: *mut libc::c_void,
) -> libc::c_int {
    let Some(originals) = ORIGINALS.get() else {
        return sys::AWS_OP_ERR;
    };
    // SAFETY: in a callback of this stream.
    unsafe { told(stream) };
    // SAFETY: the user data of C's requests is the connection, alive during its callbacks.
    if let Some((running, _)) = unsafe { request_of(connection) } {
        let came = if count == 0 {
            &[]
        } else {
            // SAFETY: C's own arguments: so many headers.
            unsafe { std::slice::from_raw_parts(headers, count) }
        };
        let len = came.iter().map(|header| header.name.len + header.value.len);
        let result = running.headers(len.sum());
        if result != sys::AWS_OP_SUCCESS {
            return result;
        }
    }
    // SAFETY: C's own arguments.
    unsafe { (originals.headers)(stream, block, headers, count, connection) }
}

unsafe extern "C" fn hooked_header_block_done(
    stream: *mut sys::aws_http_stream,
    block: sys::aws_http_header_block,
    connection: *mut libc::c_void,
) -> libc::c_int {
    let Some(originals) = ORIGINALS.get() else {
        return sys::AWS_OP_ERR;
    };
    // SAFETY: C's own arguments.
    let result = unsafe { (originals.header_block_done)(stream, block, connection) };
    if result != sys::AWS_OP_SUCCESS
        || block != sys::aws_http_header_block::AWS_HTTP_HEADER_BLOCK_MAIN
    {
        return result;
    }
    // SAFETY: the user data of C's requests is the connection, alive during its callbacks.
    let Some((running, request)) = (unsafe { request_of(connection) }) else {
        return result;
    };
    // SAFETY: alive during this callback; only this thread touches what an answer brings.
    let headers = unsafe { (*request).send_data.response_headers };
    // SAFETY: as above.
    let status = unsafe { (*request).send_data.response_status };
    // SAFETY: on the connection's own thread.
    if let Some(link) = unsafe { link_of(stream) } {
        // SAFETY: alive during this callback.
        link.answer_begins(unsafe { content_length(headers) });
    }
    // SAFETY: alive as long as the request.
    running.head(|| unsafe { read_head(headers, status) })
}

unsafe extern "C" fn hooked_body(
    stream: *mut sys::aws_http_stream,
    data: *const sys::aws_byte_cursor,
    connection: *mut libc::c_void,
) -> libc::c_int {
    let Some(originals) = ORIGINALS.get() else {
        return sys::AWS_OP_ERR;
    };
    // SAFETY: in a callback of this stream.
    unsafe { told(stream) };
    // SAFETY: C's own argument.
    let mut data = unsafe { *data };
    let arrived = data.len;
    // SAFETY: the user data of C's requests is the connection, alive during its callbacks.
    let known = unsafe { request_of(connection) };
    if let Some((_, request)) = known {
        // SAFETY: alive during this callback; only this thread touches what an answer brings.
        let body = unsafe { &mut (*request).send_data.response_body };
        let end = body.buffer.wrapping_add(body.len);
        if ptr::eq(end, data.ptr) && arrived <= body.capacity - body.len {
            // The socket has put it where it belongs, so C has nothing to append. It takes no
            // checksum of answers either: no request asks it to.
            body.len += arrived;
            data.len = 0;
        }
    }
    // SAFETY: C's own arguments.
    let result = unsafe { (originals.body)(stream, &raw const data, connection) };
    let Some((running, request)) = known.filter(|_| result == sys::AWS_OP_SUCCESS) else {
        return result;
    };
    // SAFETY: as above.
    let body = unsafe { (*request).send_data.response_body };
    // SAFETY: the bytes that C has put there so far; it writes behind them, later.
    let result = running.body(unsafe { bytes_at(body.buffer, body.len) });
    // SAFETY: on the connection's own thread.
    if let Some(link) = unsafe { link_of(stream) } {
        // Only a request's own memory stays where it is.
        let is_fixed = body.allocator.is_null() && result == sys::AWS_OP_SUCCESS;
        let room = if is_fixed {
            body.capacity - body.len
        } else {
            0
        };
        let end = body.buffer.wrapping_add(body.len);
        // SAFETY: C keeps the buffer until the answer is complete, and nobody but this connection
        // writes to it.
        unsafe { link.expect(arrived, end, room) };
    }
    result
}

unsafe extern "C" fn hooked_complete(
    stream: *mut sys::aws_http_stream,
    error_code: libc::c_int,
    connection: *mut libc::c_void,
) {
    // SAFETY: alive during its callbacks.
    let stream_connection = unsafe { sys::aws_http_stream_get_connection(stream) };
    // SAFETY: as below.
    unsafe { head_limit::told(stream_connection) };
    // SAFETY: a stream's callbacks come on its connection's thread.
    if let Some(link) = unsafe { socket::existing_link(stream_connection) } {
        link.expect_nothing();
    }
    if error_code != 0 {
        // SAFETY: as above.
        let failure = unsafe { tls_failure(stream_connection) };
        // SAFETY: the user data of C's requests is the connection, alive during its callbacks.
        let known = unsafe { request_of(connection) };
        if let Some((failure, (running, _))) = failure.zip(known) {
            running.fails_because(failure.into());
        }
    }
    if let Some(originals) = ORIGINALS.get() {
        // SAFETY: C's own arguments.
        unsafe { (originals.complete)(stream, error_code, connection) };
    }
}

/// # Safety
///
/// In a callback of this stream.
unsafe fn told(stream: *mut sys::aws_http_stream) {
    // SAFETY: alive during its callbacks.
    let connection = unsafe { sys::aws_http_stream_get_connection(stream) };
    // SAFETY: a stream's callbacks come on its connection's thread.
    unsafe { head_limit::told(connection) };
}

/// # Safety
///
/// In a callback of this stream.
unsafe fn link_of<'a>(stream: *mut sys::aws_http_stream) -> Option<&'a Link> {
    // SAFETY: alive during its callbacks.
    let connection = unsafe { sys::aws_http_stream_get_connection(stream) };
    // SAFETY: a stream's callbacks come on its connection's thread.
    unsafe { socket::link(connection) }
}

/// # Safety
///
/// `headers` is null or alive.
unsafe fn content_length(headers: *const sys::aws_http_headers) -> Option<u64> {
    if headers.is_null() {
        return None;
    }
    let mut value = cursor(b"");
    let name = cursor(b"Content-Length");
    // SAFETY: alive.
    check(unsafe { sys::aws_http_headers_get(headers, name, &raw mut value) }).ok()?;
    // SAFETY: lives as long as the headers do not change.
    let value = unsafe { bytes_at(value.ptr, value.len) };
    std::str::from_utf8(value).ok()?.trim().parse().ok()
}

/// The answer that a connection receives.
///
/// # Safety
///
/// `connection` is the S3 client's record of a connection with a request, alive for `'a`.
unsafe fn request_of<'a>(
    connection: *mut libc::c_void,
) -> Option<(&'a Running, *mut sys::aws_s3_request)> {
    let connection = connection.cast::<sys::aws_s3_connection>();
    // SAFETY: the caller's contract.
    let request = unsafe { (*connection).request };
    // SAFETY: a connection keeps its request alive.
    let meta_request = unsafe { (*request).meta_request };
    // SAFETY: a request keeps its meta request alive.
    let running = unsafe { running(meta_request) }?;
    Some((running, request))
}

/// A reference of the endpoint that a request goes to.
///
/// # Safety
///
/// `meta_request` is of a client that was hooked, and has not finished.
pub(crate) unsafe fn endpoint_of(
    meta_request: *mut sys::aws_s3_meta_request,
) -> Option<Handle<sys::aws_s3_endpoint>> {
    // SAFETY: set when the request was made, cleared after it has finished.
    let endpoint = unsafe { (*meta_request).endpoint };
    // SAFETY: null or alive, since the request has a reference. C takes its lock, which none of our
    // callers holds.
    let endpoint = unsafe { sys::aws_s3_endpoint_acquire(endpoint, false) };
    // SAFETY: a new reference, or null.
    unsafe { Handle::own(endpoint) }.ok()
}

#[cfg(test)]
mod tests {
    use super::CRATE_VERSION;

    #[test]
    fn the_version_that_is_built_is_the_one_this_was_written_against() {
        let lock = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.lock"));
        let expected = format!("name = \"mountpoint-s3-crt-sys\"\nversion = \"{CRATE_VERSION}\"\n");
        assert!(
            lock.contains(&expected),
            "read the C headers of the new version: the hooks in this file, in socket.rs `Table` and \
             how messages are used, and in express.rs `Vtable` and `Provider`"
        );
    }
}
