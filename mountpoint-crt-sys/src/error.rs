//! Errors of the C library, sorted by the caller's next action.

use std::fmt;
use std::sync::Arc;

use mountpoint_s3_crt_sys as sys;
use sys::{
    aws_auth_errors as auth, aws_http_errors as http, aws_io_errors as io, aws_s3_errors as s3,
};

use crate::c_string::static_text;

/// An error of the CRT with its name ("AWS_IO_SOCKET_CONNECTION_REFUSED") and text, or one of this
/// crate.
#[derive(Clone, PartialEq, Eq)]
pub struct CrtError(Cause);

#[derive(Clone, PartialEq, Eq)]
enum Cause {
    Crt(i32),
    Own(OwnError),
    /// TLS says why.
    Tls {
        code: i32,
        text: Arc<str>,
    },
}

/// Errors that this crate finds, not the CRT.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OwnError {
    /// The handler refused the response head.
    Refused,
    /// A handler panicked.
    Panicked,
    /// The answer ended before the range did.
    ShortBody,
    /// The body of an answer is larger than its bound.
    LargeBody,
    /// The head of an answer is larger than its bound.
    LargeHead,
    /// The endpoint cannot be understood.
    Endpoint,
    /// The CA bundle cannot be used.
    CaBundle,
    /// TLS cannot take its place between the socket and HTTP.
    NoPlaceForTls,
}

/// The meaning of an error for the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The caller cancelled the request.
    Cancelled,
    /// The handler refused the response head.
    Refused,
    /// The server answered with a status that is not a success, with an error in a successful
    /// answer, or with more than is read.
    Response,
    /// No connection: refused by the server or the proxy, unreachable, timed out while connecting.
    Connect,
    /// The host name has no address, or the resolver failed.
    Dns,
    /// The TLS negotiation failed, e.g. an unknown authority.
    Tls,
    /// The connection was too slow for too long.
    Timeout,
    /// The connection broke, the answer was cut or is not HTTP.
    Connection,
    /// No credentials, or signing failed.
    Credentials,
    /// Anything else.
    Other,
}

impl CrtError {
    /// The calling thread's last error in the C library.
    pub(crate) fn last() -> Self {
        // SAFETY: reads a thread-local number.
        Self::from_code(unsafe { sys::aws_last_error() })
    }

    pub(crate) fn from_code(code: i32) -> Self {
        Self(Cause::Crt(code))
    }

    /// TLS failed, with C's number for that, for this reason.
    pub(crate) fn tls(code: i32, reason: &str) -> Self {
        Self(Cause::Tls {
            code,
            text: Arc::from(reason),
        })
    }

    /// The CRT's number; 0 for an error that this crate found.
    #[must_use]
    pub fn code(&self) -> i32 {
        match self.0 {
            Cause::Crt(code) | Cause::Tls { code, .. } => code,
            Cause::Own(_) => 0,
        }
    }

    /// The name of the error.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self.0 {
            Cause::Crt(code) | Cause::Tls { code, .. } => {
                // SAFETY: asks about a number; any number may be asked about.
                let text = unsafe { sys::aws_error_name(code) };
                // SAFETY: the library keeps these texts for ever.
                unsafe { static_text(text) }
            }
            Cause::Own(own) => own.name_and_text().0,
        }
    }

    /// The error's text.
    #[must_use]
    pub fn text(&self) -> &str {
        match &self.0 {
            Cause::Tls { text, .. } => text,
            Cause::Crt(code) => {
                // SAFETY: asks about a number; any number may be asked about.
                let text = unsafe { sys::aws_error_str(*code) };
                // SAFETY: the library keeps these texts for ever.
                unsafe { static_text(text) }
            }
            Cause::Own(own) => own.name_and_text().1,
        }
    }

    /// The meaning of the error for the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self.0 {
            Cause::Crt(code) | Cause::Tls { code, .. } => kind_of(code),
            Cause::Own(OwnError::Refused) => ErrorKind::Refused,
            Cause::Own(OwnError::LargeBody | OwnError::LargeHead) => ErrorKind::Response,
            Cause::Own(OwnError::ShortBody) => ErrorKind::Connection,
            Cause::Own(OwnError::CaBundle | OwnError::NoPlaceForTls) => ErrorKind::Tls,
            Cause::Own(_) => ErrorKind::Other,
        }
    }
}

impl From<OwnError> for CrtError {
    fn from(own: OwnError) -> Self {
        Self(Cause::Own(own))
    }
}

impl OwnError {
    fn name_and_text(self) -> (&'static str, &'static str) {
        match self {
            Self::Refused => ("REFUSED", "The answer was refused."),
            Self::Panicked => ("PANICKED", "The handler of the answer panicked."),
            Self::ShortBody => (
                "SHORT_BODY",
                "The answer is shorter than the range that was asked for.",
            ),
            Self::LargeBody => ("LARGE_BODY", "The answer is larger than this client reads."),
            Self::LargeHead => (
                "LARGE_HEAD",
                "The answer's headers are longer than this client reads.",
            ),
            Self::CaBundle => (
                "CA_BUNDLE",
                "The CA bundle must be certificates in PEM form.",
            ),
            Self::NoPlaceForTls => (
                "NO_PLACE_FOR_TLS",
                "The CRT is not the version that this program was made for: it cannot speak TLS.",
            ),
            Self::Endpoint => (
                "ENDPOINT",
                "The endpoint must be http://host[:port] or https://host[:port].",
            ),
        }
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

const TIMEOUT: &[i32] = &[
    http::AWS_ERROR_HTTP_CHANNEL_THROUGHPUT_FAILURE as i32,
    http::AWS_ERROR_HTTP_RESPONSE_FIRST_BYTE_TIMEOUT as i32,
];

const CONNECT: &[i32] = &[
    io::AWS_IO_SOCKET_CONNECTION_REFUSED as i32,
    io::AWS_IO_SOCKET_TIMEOUT as i32,
    io::AWS_IO_SOCKET_NO_ROUTE_TO_HOST as i32,
    io::AWS_IO_SOCKET_NETWORK_DOWN as i32,
    io::AWS_IO_SOCKET_CONNECT_ABORTED as i32,
    io::AWS_IO_SOCKET_INVALID_ADDRESS as i32,
    io::AWS_IO_SOCKET_UNSUPPORTED_ADDRESS_FAMILY as i32,
    io::AWS_IO_SOCKET_INVALID_OPTIONS as i32,
    http::AWS_ERROR_HTTP_PROXY_CONNECT_FAILED as i32,
];

const DNS: &[i32] = &[
    io::AWS_IO_DNS_QUERY_FAILED as i32,
    io::AWS_IO_DNS_QUERY_AGAIN as i32,
    io::AWS_IO_DNS_INVALID_NAME as i32,
    io::AWS_IO_DNS_NO_ADDRESS_FOR_HOST as i32,
    io::AWS_IO_DNS_HOST_REMOVED_FROM_CACHE as i32,
];

const TLS: &[i32] = &[
    io::AWS_IO_TLS_ERROR_NEGOTIATION_FAILURE as i32,
    io::AWS_IO_TLS_ERROR_NOT_NEGOTIATED as i32,
    io::AWS_IO_TLS_ERROR_ALERT_RECEIVED as i32,
    io::AWS_IO_TLS_CTX_ERROR as i32,
    io::AWS_IO_TLS_VERSION_UNSUPPORTED as i32,
    io::AWS_IO_TLS_CIPHER_PREF_UNSUPPORTED as i32,
    io::AWS_IO_TLS_NEGOTIATION_TIMEOUT as i32,
    io::AWS_IO_TLS_ERROR_DEFAULT_TRUST_STORE_NOT_FOUND as i32,
    io::AWS_IO_TLS_UNKNOWN_ROOT_CERTIFICATE as i32,
    io::AWS_IO_TLS_NO_ROOT_CERTIFICATE_FOUND as i32,
    io::AWS_IO_TLS_BAD_CERTIFICATE as i32,
    io::AWS_IO_TLS_CERTIFICATE_EXPIRED as i32,
    io::AWS_IO_TLS_CERTIFICATE_NOT_YET_VALID as i32,
    io::AWS_IO_TLS_PEER_CERTIFICATE_EXPIRED as i32,
    io::AWS_IO_TLS_BAD_PEER_CERTIFICATE as i32,
    io::AWS_IO_TLS_PEER_CERTIFICATE_REVOKED as i32,
    io::AWS_IO_TLS_PEER_CERTIFICATE_UNKNOWN as i32,
    io::AWS_IO_TLS_INVALID_CERTIFICATE_CHAIN as i32,
    io::AWS_IO_TLS_HOST_NAME_MISMATCH as i32,
    io::AWS_ERROR_PEM_MALFORMED as i32,
];

const RESPONSE: &[i32] = &[
    s3::AWS_ERROR_S3_INTERNAL_ERROR as i32,
    s3::AWS_ERROR_S3_SLOW_DOWN as i32,
    s3::AWS_ERROR_S3_INVALID_RESPONSE_STATUS as i32,
    s3::AWS_ERROR_S3_OBJECT_MODIFIED as i32,
    s3::AWS_ERROR_S3_NON_RECOVERABLE_ASYNC_ERROR as i32,
    s3::AWS_ERROR_S3_REQUEST_TIME_TOO_SKEWED as i32,
    s3::AWS_ERROR_S3_REQUEST_TIMEOUT as i32,
    s3::AWS_ERROR_S3_MISSING_CONTENT_RANGE_HEADER as i32,
    s3::AWS_ERROR_S3_INVALID_CONTENT_RANGE_HEADER as i32,
    s3::AWS_ERROR_S3_MISSING_CONTENT_LENGTH_HEADER as i32,
    s3::AWS_ERROR_S3_INVALID_CONTENT_LENGTH_HEADER as i32,
    s3::AWS_ERROR_S3_MISSING_ETAG as i32,
];

const CANCELLED: i32 = s3::AWS_ERROR_S3_CANCELED as i32;

const AUTH_FIRST: i32 = auth::AWS_AUTH_SIGNING_UNSUPPORTED_ALGORITHM as i32;
const AUTH_LAST: i32 = auth::AWS_AUTH_ERROR_END_RANGE as i32;
const HTTP_FIRST: i32 = http::AWS_ERROR_HTTP_UNKNOWN as i32;
const HTTP_LAST: i32 = http::AWS_ERROR_HTTP_END_RANGE as i32;
const IO_FIRST: i32 = io::AWS_IO_CHANNEL_ERROR_ERROR_CANT_ACCEPT_INPUT as i32;
const IO_LAST: i32 = io::AWS_IO_ERROR_END_RANGE as i32;

fn kind_of(code: i32) -> ErrorKind {
    let lists = [
        (TIMEOUT, ErrorKind::Timeout),
        (CONNECT, ErrorKind::Connect),
        (DNS, ErrorKind::Dns),
        (TLS, ErrorKind::Tls),
        (RESPONSE, ErrorKind::Response),
    ];
    if let Some((_, kind)) = lists.iter().find(|(codes, _)| codes.contains(&code)) {
        return *kind;
    }
    match code {
        CANCELLED => ErrorKind::Cancelled,
        AUTH_FIRST..=AUTH_LAST => ErrorKind::Credentials,
        // The other errors of these two libraries are about connections that no longer work.
        HTTP_FIRST..=HTTP_LAST | IO_FIRST..=IO_LAST => ErrorKind::Connection,
        _ => ErrorKind::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let check = |code, kind| assert_eq!(CrtError::from_code(code).kind(), kind, "{code}");
        check(
            io::AWS_IO_SOCKET_CONNECTION_REFUSED as i32,
            ErrorKind::Connect,
        );
        check(io::AWS_IO_DNS_INVALID_NAME as i32, ErrorKind::Dns);
        check(io::AWS_IO_SOCKET_CLOSED as i32, ErrorKind::Connection);
        check(
            io::AWS_IO_TLS_ERROR_NEGOTIATION_FAILURE as i32,
            ErrorKind::Tls,
        );
        check(
            http::AWS_ERROR_HTTP_CONNECTION_CLOSED as i32,
            ErrorKind::Connection,
        );
        check(
            http::AWS_ERROR_HTTP_CHANNEL_THROUGHPUT_FAILURE as i32,
            ErrorKind::Timeout,
        );
        check(
            auth::AWS_AUTH_CREDENTIALS_PROVIDER_DELEGATE_FAILURE as i32,
            ErrorKind::Credentials,
        );
        check(s3::AWS_ERROR_S3_SLOW_DOWN as i32, ErrorKind::Response);
        check(s3::AWS_ERROR_S3_CANCELED as i32, ErrorKind::Cancelled);
        check(1, ErrorKind::Other);
        assert_eq!(
            CrtError::from(OwnError::ShortBody).kind(),
            ErrorKind::Connection
        );
    }
}
