//! Requests and their answers.

use std::fmt;
use std::ops::Range;

use crate::CrtError;
use crate::block::BlockFill;
use crate::error::OwnError;

/// The most bytes of an error's body that are read. S3's are below 1 KiB.
pub(crate) const ERROR_BODY_MAX: usize = 64 << 10;

/// The most bytes of an answer's head, names and values. S3's are below 16 KiB, with 2 KiB of
/// metadata.
pub(crate) const HEAD_MAX: usize = 256 << 10;

/// The most bytes of an answer to [`crate::Client::send`]. A list page of 1,000 keys of 1,024
/// bytes, each byte percent-encoded, has 4 MiB.
pub(crate) const RESPONSE_BODY_MAX: usize = 8 << 20;

/// Ends a request whose error body goes on and on. Its first bytes name the error.
pub(crate) fn within_error_body(body: &[u8]) -> Result<(), OwnError> {
    if body.len() > ERROR_BODY_MAX {
        return Err(OwnError::LargeBody);
    }
    Ok(())
}

/// A request with a body. Host and Content-Length are added.
#[derive(Clone)]
pub struct Message {
    /// Exact S3 operation: "PutObject", "UploadPart", …
    pub operation: &'static str,
    pub method: &'static str,
    /// Percent-encoded, with the query.
    pub path: String,
    pub headers: Vec<(String, String)>,
}

/// A GET of one range of an object. Host and Range are added.
///
/// Some servers send an object's checksum only with an answer to a GET without a Range.
#[derive(Clone)]
pub struct RangedGet {
    /// Percent-encoded, with the query.
    pub path: String,
    pub headers: Vec<(String, String)>,
    /// Bytes of the object that belong in the unfilled rest of the block.
    pub range: Range<u64>,
    /// Whether the range is the whole object, and is asked for without a Range.
    pub is_whole: bool,
}

/// Without the headers' values: one may be a key.
impl fmt::Debug for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("operation", &self.operation)
            .field("method", &self.method)
            .field("path", &self.path)
            .field("headers", &Names(&self.headers))
            .finish()
    }
}

/// Printed without values of headers, as [`Message`] is.
impl fmt::Debug for RangedGet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RangedGet")
            .field("path", &self.path)
            .field("headers", &Names(&self.headers))
            .field("range", &self.range)
            .finish()
    }
}

/// Headers of which only the names are shown.
struct Names<'a>(&'a [(String, String)]);

impl fmt::Debug for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.0.iter().map(|(name, _)| name))
            .finish()
    }
}

/// The handler does not want the body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused;

/// Callbacks of a GET. Called on CRT threads: must not block. Panics are caught.
pub trait GetHandler: Send + Sync {
    /// Status and headers of a 2xx answer, before any byte is published. The place to check that
    /// the answer is for the range that was asked for: a server may ignore ranges and answer 200
    /// with the beginning of the object. Refusing ends the request with
    /// [`crate::ErrorKind::Refused`], nothing is published.
    fn head(&self, head: &ResponseHead) -> Result<(), Refused>;

    /// Asked after `head`: whether readers are to see no byte before the handler has all and
    /// [releases](BlockFill::release) them.
    fn withholds(&self) -> bool {
        false
    }

    /// More bytes are valid in the block.
    fn progressed(&self);

    /// Exactly once, last. The right to fill comes back, so that a retry can fill the rest.
    ///
    /// Success comes with the last byte, failure when the C library has let go of the block's
    /// memory.
    fn finished(self: Box<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>);
}

/// Called once with the answer of [`crate::Client::send`], on a CRT thread.
pub type SendHandler = Box<dyn FnOnce(Result<Response, Failure>) + Send>;

/// Status and headers of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    pub status: u16,
    pub headers: Vec<(String, String)>,
}

impl ResponseHead {
    /// Whether the status is 2xx.
    #[must_use]
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The first header of this name, whatever its case.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.as_str())
    }
}

/// An answer with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub head: ResponseHead,
    pub body: Vec<u8>,
}

/// Why a request failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{error}")]
pub struct Failure {
    pub error: CrtError,
    /// When the server answered.
    pub head: Option<ResponseHead>,
    /// The error's body, cut at 64 KiB.
    pub body: Vec<u8>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_headers_are_not_shown() {
        let headers = vec![("x-key".to_owned(), "hush".to_owned())];
        let message = Message {
            operation: "PutObject",
            method: "PUT",
            path: "/b/k".to_owned(),
            headers: headers.clone(),
        };
        let get = RangedGet {
            path: "/b/k".to_owned(),
            headers,
            range: 1..2,
            is_whole: false,
        };
        let shown = format!("{message:?} {get:?}");
        assert_eq!(
            shown,
            "Message { operation: \"PutObject\", method: \"PUT\", path: \"/b/k\", headers: [\"x-key\"] } \
             RangedGet { path: \"/b/k\", headers: [\"x-key\"], range: 1..2 }"
        );
    }
}
