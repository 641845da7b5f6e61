//! Why TLS ended a connection.

use mountpoint_s3_crt_sys as sys;
use sys::aws_io_errors as io;

use crate::CrtError;

/// The reason in words, and C's number for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsFailure {
    pub(crate) text: String,
    pub(crate) code: i32,
}

impl TlsFailure {
    /// The handshake failed.
    pub(super) fn handshake(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: io::AWS_IO_TLS_ERROR_NEGOTIATION_FAILURE as i32,
        }
    }

    /// The handshake took too long.
    pub(super) fn timeout(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            code: io::AWS_IO_TLS_NEGOTIATION_TIMEOUT as i32,
        }
    }

    /// The server sent what TLS does not allow.
    pub(super) fn protocol(what: &str) -> Self {
        Self {
            text: format!("the server sent {what}"),
            code: io::AWS_IO_TLS_ERROR_READ_FAILURE as i32,
        }
    }

    /// This side cannot go on.
    pub(super) fn internal(what: &str) -> Self {
        Self {
            text: what.to_owned(),
            code: io::AWS_IO_TLS_ERROR_WRITE_FAILURE as i32,
        }
    }
}

impl From<TlsFailure> for CrtError {
    fn from(failure: TlsFailure) -> Self {
        Self::tls(failure.code, &failure.text)
    }
}
