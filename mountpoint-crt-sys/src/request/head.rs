//! HTTP messages in C's form: requests out, response heads in.

use mountpoint_s3_crt_sys as sys;

use super::header_text::{bytes_of_text, text_of_bytes};
use super::types::ResponseHead;
use crate::CrtError;
use crate::allocator::Allocator;
use crate::ffi::{Handle, bytes_at, check, cursor};

/// A request's head.
pub(crate) struct RequestHead(Handle<sys::aws_http_message>);

impl RequestHead {
    pub(crate) fn new(allocator: Allocator, method: &str, path: &str) -> Result<Self, CrtError> {
        // SAFETY: makes a new message.
        let raw = unsafe { sys::aws_http_message_new_request(allocator.as_ptr()) };
        // SAFETY: a new reference, or null.
        let message = unsafe { Handle::own(raw) }?;
        // SAFETY: the message is ours alone; the text is copied.
        check(unsafe {
            sys::aws_http_message_set_request_method(message.as_ptr(), cursor(method.as_bytes()))
        })?;
        // SAFETY: as above.
        check(unsafe {
            sys::aws_http_message_set_request_path(message.as_ptr(), cursor(path.as_bytes()))
        })?;
        Ok(Self(message))
    }

    /// Adds a header. A value that was received is sent with the bytes that came.
    pub(crate) fn add(&self, name: &str, value: &str) -> Result<(), CrtError> {
        let value = bytes_of_text(value);
        let header = sys::aws_http_header {
            name: cursor(name.as_bytes()),
            value: cursor(&value),
            compression: sys::aws_http_header_compression::AWS_HTTP_HEADER_COMPRESSION_USE_CACHE,
        };
        // SAFETY: the message is not in use yet; the texts are copied.
        check(unsafe { sys::aws_http_message_add_header(self.0.as_ptr(), header) })
    }

    pub(crate) fn add_all(&self, headers: &[(String, String)]) -> Result<(), CrtError> {
        headers
            .iter()
            .try_for_each(|(name, value)| self.add(name, value))
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::aws_http_message {
        self.0.as_ptr()
    }
}

/// Copies a response head. Bytes that are not UTF-8 are written as [`text_of_bytes`] does.
///
/// # Safety
///
/// `headers` is null or alive, and does not change during the call.
pub(crate) unsafe fn read_head(headers: *const sys::aws_http_headers, status: i32) -> ResponseHead {
    let status = u16::try_from(status).unwrap_or(0);
    if headers.is_null() {
        return ResponseHead {
            status,
            headers: Vec::new(),
        };
    }
    // SAFETY: alive.
    let count = unsafe { sys::aws_http_headers_count(headers) };
    // SAFETY: alive, and each index is in range.
    let headers = (0..count)
        .map(|index| unsafe { read_header(headers, index) })
        .collect();
    ResponseHead { status, headers }
}

/// # Safety
///
/// `headers` is alive and has more than `index` headers.
unsafe fn read_header(headers: *const sys::aws_http_headers, index: usize) -> (String, String) {
    let mut header = sys::aws_http_header {
        name: cursor(b""),
        value: cursor(b""),
        compression: sys::aws_http_header_compression::AWS_HTTP_HEADER_COMPRESSION_USE_CACHE,
    };
    // SAFETY: the caller's contract. On failure the header stays empty.
    unsafe { sys::aws_http_headers_get_index(headers, index, &raw mut header) };
    // SAFETY: the texts live as long as the headers do not change.
    let text = |text: sys::aws_byte_cursor| unsafe { bytes_at(text.ptr, text.len) };
    (
        text_of_bytes(text(header.name)),
        text_of_bytes(text(header.value)),
    )
}
