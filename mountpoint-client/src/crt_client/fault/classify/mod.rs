//! The meaning of an answer or a broken connection: the one table from HTTP status, S3 error code
//! and CRT error to [`ErrorKind`], and the message for the user.
//!
//! Pure. Messages never hold a header that was sent.

use std::time::Duration;

use mountpoint_crt_sys::{ErrorKind as CrtErrorKind, Failure, ResponseHead};

use super::fault::Fault;
use super::hint;
use super::operation::Operation;
use crate::ErrorKind;
use crate::crt_client::text;

/// The parts of an error answer that decide.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::crt_client) struct ErrorAnswer<'a> {
    pub(in crate::crt_client) status: u16,
    /// S3's error code; absent for HEAD, whose answers have no body.
    pub(in crate::crt_client) code: Option<&'a str>,
    /// S3's error message.
    pub(in crate::crt_client) message: Option<&'a str>,
    /// Where the server says the bucket lives.
    pub(in crate::crt_client) region: Option<&'a str>,
    /// `Retry-After`, in seconds.
    pub(in crate::crt_client) retry_after: Option<&'a str>,
    /// `Server`: what software answers.
    pub(in crate::crt_client) server: Option<&'a str>,
}

impl ErrorAnswer<'_> {
    /// The fault of an operation that got this answer.
    pub(in crate::crt_client) fn fault(&self, operation: &Operation) -> Fault {
        let kind = match (operation.name, self.kind()) {
            ("HeadBucket" | "ListObjectsV2" | "ListMultipartUploads", ErrorKind::NotFound) => {
                ErrorKind::NoSuchBucket
            }
            // HEAD answers have no body that would tell a wrong region from a wrong token.
            (_, ErrorKind::InvalidRequest)
                if self.status == 400
                    && self.code.is_none()
                    && operation.region != ANY_REGION
                    && self.region.is_some_and(|region| region != operation.region) =>
            {
                ErrorKind::WrongRegion(self.region())
            }
            // Some servers say so in words of their own, or in none.
            (name, ErrorKind::InvalidRequest)
                if self.status == 409 && self.code.is_none() && is_change_of_object(name) =>
            {
                ErrorKind::Conflict
            }
            (_, kind) => kind,
        };
        let what = self.reason(operation, &kind);
        Fault {
            may_be_done: kind.is_retryable() && !self.proves_refusal(&kind),
            error: operation.error(kind, &what).with_status(self.status),
            retry_after: self
                .retry_after
                .and_then(|s| s.parse().ok())
                .map(Duration::from_secs),
            is_mute: self.code.is_none() && self.message.is_none(),
            expired: matches!(
                self.code,
                Some("ExpiredToken" | "TokenRefreshRequired" | "ExpiredTokenException")
            ),
            is_silence: false,
        }
    }

    /// The server's message, and how to go on after it.
    fn reason(&self, operation: &Operation, kind: &ErrorKind) -> String {
        let mut reason = match (self.code, self.message) {
            (Some(code), Some(message)) => format!("{code}: {}", text::printable(message)),
            (Some(code), None) => code.to_owned(),
            (None, Some(message)) => text::printable(message),
            (None, None) => "the server answered without a reason".to_owned(),
        };
        // The status follows, and maybe a hint.
        reason.truncate(reason.trim_end_matches('.').len());
        if let Some(hint) = hint::for_answer(operation.name, self.status, self.code, kind) {
            reason.push_str("; ");
            reason.push_str(&hint);
        }
        reason
    }

    /// Whether the answer proves that the server has changed nothing.
    ///
    /// A 4xx refuses before the work, except for a conflict and for a time-out. Of 5xx only Amazon
    /// S3's own `SlowDown` is a proof: gateways send it when they have lost the server, other
    /// servers (MinIO) when a write has reached too few disks. An error in a `200` comes after the
    /// work has begun.
    fn proves_refusal(&self, kind: &ErrorKind) -> bool {
        match self.status {
            400..=499 => !matches!(kind, ErrorKind::Transient | ErrorKind::Conflict),
            503 => self.code == Some("SlowDown") && self.server == Some(AMAZON_S3),
            _ => false,
        }
    }

    pub(in crate::crt_client) fn kind(&self) -> ErrorKind {
        self.code
            .and_then(|code| self.kind_of_code(code))
            .unwrap_or_else(|| self.kind_of_status())
    }

    fn kind_of_code(&self, code: &str) -> Option<ErrorKind> {
        Some(match code {
            "NoSuchKey" => ErrorKind::NotFound,
            "NoSuchBucket" => ErrorKind::NoSuchBucket,
            "NoSuchUpload" => ErrorKind::NoSuchUpload,
            // The last is a condition as well: the object has another size than the one that was
            // seen.
            "PreconditionFailed" | "InvalidWriteOffset" => ErrorKind::PreconditionFailed,
            // The second is Ceph's.
            "ConditionalRequestConflict" | "ConcurrentModification" => ErrorKind::Conflict,
            "TooManyParts" => ErrorKind::TooManyParts,
            "InvalidObjectState" => ErrorKind::Archived,
            "AccessDenied" | "AllAccessDisabled" | "AccountProblem" => ErrorKind::Denied,
            "InvalidAccessKeyId"
            | "SignatureDoesNotMatch"
            | "ExpiredToken"
            | "ExpiredTokenException"
            | "TokenRefreshRequired"
            | "InvalidToken"
            | "RequestTimeTooSkewed"
            | "InvalidSecurity"
            | "CredentialsNotSupported" => ErrorKind::Credentials,
            "PermanentRedirect" | "TemporaryRedirect" | "IllegalLocationConstraintException" => {
                ErrorKind::WrongRegion(self.region())
            }
            "AuthorizationHeaderMalformed" if self.region().is_some() => {
                ErrorKind::WrongRegion(self.region())
            }
            "AuthorizationHeaderMalformed" => ErrorKind::Credentials,
            "NotImplemented" | "MethodNotAllowed" => ErrorKind::Unsupported,
            "SlowDown"
            | "SlowDownRead"
            | "SlowDownWrite"
            | "TooManyRequests"
            | "RequestLimitExceeded"
            | "Throttling"
            | "ThrottlingException"
            | "ServiceUnavailable"
            | "BandwidthLimitExceeded"
            | "ServerBusy" => ErrorKind::Throttled,
            // MinIO, for some seconds after its start: it is there, but not yet of use.
            "XMinioServerNotInitialized" => ErrorKind::Unreachable,
            "InternalError" | "RequestTimeout" | "OperationAborted" | "IncompleteBody" => {
                ErrorKind::Transient
            }
            _ => return None,
        })
    }

    fn kind_of_status(&self) -> ErrorKind {
        match self.status {
            301 | 302 | 307 | 308 => ErrorKind::WrongRegion(self.region()),
            401 | 403 => ErrorKind::Denied,
            404 => ErrorKind::NotFound,
            405 | 501 => ErrorKind::Unsupported,
            408 => ErrorKind::Transient,
            412 => ErrorKind::PreconditionFailed,
            429 | 503 => ErrorKind::Throttled,
            // An error in the body of an answer that began well: only its code tells what it is.
            200..=299 if self.code.is_some_and(is_refusal) => ErrorKind::InvalidRequest,
            400..=499 => ErrorKind::InvalidRequest,
            500..=599 => ErrorKind::Transient,
            _ => ErrorKind::InvalidResponse,
        }
    }

    fn region(&self) -> Option<String> {
        let told = self.region.filter(|region| !region.is_empty());
        told.or_else(|| self.region_in_message()).map(str::to_owned)
    }

    /// The region that only the message names: "the region 'us-east-1' is wrong; expecting
    /// 'eu-west-1'".
    fn region_in_message(&self) -> Option<&str> {
        let (_, rest) = self.message?.split_once("expecting '")?;
        let (region, _) = rest.split_once('\'')?;
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        (!region.is_empty() && region.bytes().all(is_name)).then_some(region)
    }
}

/// Whether S3 says with `code` that the request itself is wrong; everywhere else with status 400 as
/// well.
fn is_refusal(code: &str) -> bool {
    matches!(
        code,
        "BadDigest"
            | "BadRequest"
            | "EntityTooLarge"
            | "EntityTooSmall"
            | "InvalidArgument"
            | "InvalidDigest"
            | "InvalidPart"
            | "InvalidPartOrder"
            | "InvalidRequest"
            | "InvalidStorageClass"
            | "KeyTooLongError"
            | "MalformedXML"
            | "MetadataTooLarge"
    )
}

/// The fault behind a failed request of the CRT.
pub(in crate::crt_client) fn of_crt(operation: &Operation, failure: &Failure) -> Fault {
    let crt = &failure.error;
    // An error document may come with status 200: the CRT looks for one.
    let has_document = crt.kind() == CrtErrorKind::Response
        && text::xml_element(&String::from_utf8_lossy(&failure.body), "Code").is_some();
    // Where no status line came, or one that makes no sense, the status is 0.
    let is_error = |head: &&ResponseHead| {
        head.status >= 100 && (!(200..300).contains(&head.status) || has_document)
    };
    if let Some(head) = failure.head.as_ref().filter(is_error) {
        return of_crt_answer(operation, head, &failure.body);
    }
    let (kind, what) = match crt.kind() {
        CrtErrorKind::Connect | CrtErrorKind::Dns | CrtErrorKind::Tls => {
            return operation.unreachable(&crt.to_string()).into();
        }
        CrtErrorKind::Cancelled => (ErrorKind::Cancelled, "cancelled"),
        CrtErrorKind::Timeout => (ErrorKind::Transient, "the connection stalled"),
        CrtErrorKind::Connection => (ErrorKind::Transient, "the connection broke"),
        CrtErrorKind::Credentials => (ErrorKind::Credentials, "cannot sign"),
        CrtErrorKind::Response => (ErrorKind::InvalidResponse, "unusable answer"),
        CrtErrorKind::Refused => (ErrorKind::InvalidResponse, "the answer was refused"),
        CrtErrorKind::Other => (ErrorKind::Transient, "the request failed"),
    };
    Fault {
        is_silence: crt.kind() == CrtErrorKind::Timeout,
        ..operation.error(kind, &format!("{what}: {crt}")).into()
    }
}

fn of_crt_answer(operation: &Operation, head: &ResponseHead, body: &[u8]) -> Fault {
    let body = String::from_utf8_lossy(body);
    let region = text::xml_element(&body, "Region");
    let (code, message) = (
        text::xml_element(&body, "Code"),
        text::xml_element(&body, "Message"),
    );
    ErrorAnswer {
        status: head.status,
        code: code.as_deref(),
        message: message.as_deref(),
        region: head.header("x-amz-bucket-region").or(region.as_deref()),
        retry_after: head.header("retry-after"),
        server: head.header("server"),
    }
    .fault(operation)
}

/// Whether the operation makes, replaces or removes an object.
fn is_change_of_object(name: &str) -> bool {
    matches!(
        name,
        "PutObject" | "CopyObject" | "DeleteObject" | "CompleteMultipartUpload" | "RenameObject"
    )
}

/// Amazon S3's name for itself in `Server`.
const AMAZON_S3: &str = "AmazonS3";

/// The set of regions of a multi-region access point, where no region is wrong.
const ANY_REGION: &str = "*";

#[cfg(test)]
mod tests;
