//! Why a request failed, sorted by what the caller does next.

use std::fmt;

/// One variant for each thing a caller can do about a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The key does not exist.
    NotFound,
    /// The bucket does not exist.
    NoSuchBucket,
    /// The multipart upload does not exist, or has ended.
    NoSuchUpload,
    /// A condition did not hold: the object is another version than the one asked for, or exists
    /// already.
    PreconditionFailed,
    /// Bytes were appended to the object as often as S3 allows: a copy of it can be appended to
    /// again.
    TooManyParts,
    /// The object is archived and has no restored copy.
    Archived,
    /// The caller may not do this: 403, or 401.
    Denied,
    /// There are no usable credentials: none configured, expired, or unknown to the server.
    Credentials,
    /// The bucket lives in this region, where the server says so.
    WrongRegion(Option<String>),
    /// The server does not do this operation: 501, 405 or `NotImplemented`.
    Unsupported,
    /// The request was wrong: other 4xx.
    InvalidRequest,
    /// The server's answer was wrong: wrong length, missing ETag, a range that was not asked for,
    /// broken XML.
    InvalidResponse,
    /// Another request for the object was in flight, and still was after every retry: 409
    /// `ConditionalRequestConflict`. The error does not tell which request was first.
    Conflict,
    /// The server said to slow down, and still did after every retry.
    Throttled,
    /// The server could not be reached: DNS, connect, TLS.
    Unreachable,
    /// The connection or the server failed, and still did after every retry: reset, time-out, 5xx.
    Transient,
    /// The caller cancelled the request.
    Cancelled,
}

impl ErrorKind {
    /// Whether the same request may succeed if it is sent again.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Self::Conflict | Self::Throttled | Self::Transient | Self::Unreachable
        )
    }
}

/// A failed request: the kind for the program, the message for a person.
#[derive(Clone)]
pub struct ClientError {
    /// The kind, which tells the caller what to do.
    pub kind: ErrorKind,
    /// The operation, the key and the server's words. Never a secret.
    pub message: String,
    /// HTTP status of the answer, if there was one.
    pub status: Option<u16>,
    /// An earlier attempt was not answered, or by an error that does not prove the contrary: the
    /// server may have done what was asked, and that may be why it refuses now.
    pub answer_was_lost: bool,
    /// An earlier attempt was answered with 409 `ConditionalRequestConflict`: S3 may have dropped
    /// the upload that the request was to complete.
    pub met_conflict: bool,
    /// A proxy or a gateway may have sent the request twice: the refusal may be that of the second
    /// one, and the first one the reason.
    pub maybe_twice: bool,
}

impl ClientError {
    /// An error with no HTTP answer behind it.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: one_line(message.into()),
            status: None,
            answer_was_lost: false,
            met_conflict: false,
            maybe_twice: false,
        }
    }

    /// This error with the HTTP status of the answer.
    #[must_use]
    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }
}

/// A text that a terminal or a log can show, although parts of it are a server's or a key's.
fn one_line(text: String) -> String {
    if text.len() <= MESSAGE_CHARS_MAX && !text.contains(char::is_control) {
        return text;
    }
    let shown = text.chars().take(MESSAGE_CHARS_MAX);
    let mut line: String = shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MESSAGE_CHARS_MAX).is_some() {
        line.push('…');
    }
    line
}

/// Room for a whole key, a server's own message and the advice behind it.
const MESSAGE_CHARS_MAX: usize = 4096;

impl fmt::Debug for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}({self})", self.kind)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match self.status {
            Some(status) => write!(f, " (HTTP {status})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ClientError {}
