//! The meaning of an answer or a broken connection: the one table from HTTP status, S3 error code
//! and CRT error to [`ErrorKind`], and the message for the user.
//!
//! Pure. Messages never hold a header that was sent.

use std::time::Duration;

use mountpoint_crt_sys::{ErrorKind as CrtErrorKind, Failure, ResponseHead};

use super::fault::Fault;
use super::hint;
use super::operation::Operation;
use super::origin::{ErrorDocument, is_refusal_of_s3};
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
    /// Whether nothing proves that S3 gave the answer.
    pub(in crate::crt_client) is_foreign: bool,
}

impl<'a> ErrorAnswer<'a> {
    /// The answer with this status, headers and body, and the document that the body is.
    pub(in crate::crt_client) fn of_body(
        operation: &Operation,
        (status, header): (u16, impl Fn(&str) -> Option<&'a str>),
        (body, document): (&'a str, Option<&'a ErrorDocument>),
    ) -> Self {
        let region = header("x-amz-bucket-region").filter(|region| !region.is_empty());
        let has_body = !matches!(operation.name, "HeadObject" | "HeadBucket");
        let is_s3 = match (document, status) {
            (Some(_), _) => true,
            (None, 300..=399) => region.is_some(),
            (None, _) => !has_body && is_refusal_of_s3(&header),
        };
        let page = (!is_s3 && !body.trim().is_empty()).then(|| body.trim());
        Self {
            status,
            code: document.map(|document| &*document.code),
            message: document.map_or(page, |document| document.message.as_deref()),
            region: region.or_else(|| document?.region.as_deref()),
            retry_after: header("retry-after"),
            server: header("server"),
            is_foreign: !is_s3,
        }
    }

    /// The fault of an operation that got this answer.
    pub(in crate::crt_client) fn fault(&self, operation: &Operation) -> Fault {
        let kind = match (operation.name, self.kind()) {
            (name, _) if self.is_foreign => self.kind_of_foreign(name),
            // An empty listing, of some servers.
            ("ListObjectsV2", ErrorKind::NotFound) if self.code == Some("NoSuchKey") => {
                ErrorKind::NotFound
            }
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
            (_, kind) => kind,
        };
        let what = self.reason(operation, &kind);
        Fault {
            may_be_done: kind.is_retryable() && !self.proves_refusal(&kind),
            retry_after: self
                .retry_after
                .and_then(|s| s.parse().ok())
                .map(Duration::from_secs),
            is_mute: self.code.is_none() && self.message.is_none() && !self.is_foreign,
            is_foreign: self.is_foreign && kind == ErrorKind::Transient && self.status < 500,
            expired: matches!(
                self.code,
                Some("ExpiredToken" | "TokenRefreshRequired" | "ExpiredTokenException")
            ),
            is_unknown_key: matches!(
                self.code,
                Some("InvalidAccessKeyId" | "InvalidToken" | "SignatureDoesNotMatch")
            ),
            is_silence: false,
            error: operation.error(kind, &what).with_status(self.status),
        }
    }

    /// The kind of an answer that is not S3's: whatever its status says, S3 has said nothing.
    fn kind_of_foreign(&self, operation: &str) -> ErrorKind {
        match self.status {
            // Some servers say so in words of their own, or in none.
            409 if is_change_of_object(operation) => ErrorKind::Conflict,
            413 => ErrorKind::InvalidRequest,
            429 | 503 => ErrorKind::Throttled,
            _ => ErrorKind::Transient,
        }
    }

    /// The server's message, and how to go on after it.
    fn reason(&self, operation: &Operation, kind: &ErrorKind) -> String {
        let mut reason = match (self.code, self.message) {
            (_, message) if self.is_foreign => {
                let page = message.map(|page| format!(": {}", text::printable(page)));
                format!("{NOT_S3}{}", page.unwrap_or_default())
            }
            (Some(code), Some(message)) => format!("{code}: {}", text::printable(message)),
            (Some(code), None) => code.to_owned(),
            (None, Some(message)) => text::printable(message),
            (None, None) => "the server answered without a reason".to_owned(),
        };
        // The status follows, and maybe a hint.
        reason.truncate(reason.trim_end_matches('.').len());
        let is_strange = self.is_foreign && self.status < 500 && *kind == ErrorKind::Transient;
        let hint = match is_strange {
            true => Some(hint::for_page(self.status)),
            false => hint::for_answer(operation.name, self.status, self.code, kind),
        };
        if let Some(hint) = hint {
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
        let told = self.region.filter(|region| is_region(region));
        told.or_else(|| self.region_in_message()).map(str::to_owned)
    }

    /// The region that only the message names: "the region 'us-east-1' is wrong; expecting
    /// 'eu-west-1'".
    fn region_in_message(&self) -> Option<&str> {
        let (_, rest) = self.message?.split_once("expecting '")?;
        let (region, _) = rest.split_once('\'')?;
        is_region(region).then_some(region)
    }
}

/// Whether a server's text can be the name of a region, which the mount then asks and shows.
fn is_region(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    (1..=REGION_LEN_MAX).contains(&text.len()) && text.bytes().all(is_of_name)
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
    let document = ErrorDocument::read(&failure.body);
    // An error document may come with status 200. Where no status line came, or one that makes no
    // sense, the status is 0. Of an error that broke off, a part of its document is none.
    let is_answer = |head: &&ResponseHead| match head.status {
        200..=299 => document.is_some(),
        status => status >= 100 && (document.is_some() || crt.kind() == CrtErrorKind::Response),
    };
    if let Some(head) = failure.head.as_ref().filter(is_answer) {
        return of_head(operation, head, (&failure.body, document));
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

/// The fault of an operation that a page for people answered, with a success or an error.
pub(in crate::crt_client) fn of_page(
    operation: &Operation,
    head: &ResponseHead,
    page: &[u8],
) -> Fault {
    of_head(operation, head, (page, None))
}

/// The fault of an answer that came over the CRT, with its document if it is S3's.
fn of_head(
    operation: &Operation,
    head: &ResponseHead,
    (body, document): (&[u8], Option<ErrorDocument>),
) -> Fault {
    ErrorAnswer::of_body(
        operation,
        (head.status, |name: &str| head.header(name)),
        (&String::from_utf8_lossy(body), document.as_ref()),
    )
    .fault(operation)
}

/// Whether the operation makes, replaces or removes an object.
fn is_change_of_object(name: &str) -> bool {
    matches!(
        name,
        "PutObject" | "CopyObject" | "DeleteObject" | "CompleteMultipartUpload" | "RenameObject"
    )
}

/// A label of a host name; regions are a part of one.
const REGION_LEN_MAX: usize = 63;

/// What a message says of an answer that is not S3's.
const NOT_S3: &str = "the answer is not S3's, which sends errors as XML with a code";

/// Amazon S3's name for itself in `Server`.
const AMAZON_S3: &str = "AmazonS3";

/// The set of regions of a multi-region access point, where no region is wrong.
const ANY_REGION: &str = "*";

#[cfg(test)]
mod tests;
