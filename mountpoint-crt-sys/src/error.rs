//! Errors of the C library, sorted by what a caller does next.

use std::fmt;

/// An error code of the CRT with its name ("AWS_IO_SOCKET_CONNECTION_REFUSED") and text.
#[derive(Clone, PartialEq, Eq)]
pub struct CrtError {
    code: i32,
}

/// What an error means for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller cancelled the request.
    Cancelled,
    /// The handler refused the response head.
    Refused,
    /// The server answered with a status that is not a success.
    Response,
    /// No connection: refused, unreachable, timed out while connecting.
    Connect,
    /// The host name has no address, or the resolver failed.
    Dns,
    /// The TLS negotiation failed, e.g. an unknown authority.
    Tls,
    /// The connection was too slow for too long.
    Timeout,
    /// The connection broke or the peer does not speak HTTP.
    Connection,
    /// No credentials, or signing failed.
    Credentials,
    /// Anything else.
    Other,
}

impl CrtError {
    /// The CRT's number.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.code
    }

    /// The CRT's name of the error.
    #[must_use]
    pub fn name(&self) -> &'static str {
        unimplemented!()
    }

    /// The CRT's description of the error.
    #[must_use]
    pub fn text(&self) -> &'static str {
        unimplemented!()
    }

    /// What the error means for the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        unimplemented!()
    }
}

impl std::error::Error for CrtError {}

impl fmt::Display for CrtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.text(), self.name())
    }
}

impl fmt::Debug for CrtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CrtError({})", self.name())
    }
}
