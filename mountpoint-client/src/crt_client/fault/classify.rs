//! What an answer or a broken connection means: the one table from HTTP status, S3 error code and
//! CRT error to [`ErrorKind`], and the message a person reads.
//!
//! Pure. Messages never hold a header that was sent.

use std::time::{Duration, SystemTime};

use mountpoint_crt_sys::{ErrorKind as CrtErrorKind, Failure, ResponseHead};

use crate::crt_client::text;
use crate::types::Key;
use crate::{ClientError, ErrorKind};

/// What is asked of S3, for messages.
#[derive(Clone, Debug)]
pub(in crate::crt_client) struct Operation {
    /// S3's name of it: `GetObject`, …
    pub(in crate::crt_client) name: &'static str,
    /// `s3://bucket/key`.
    pub(in crate::crt_client) target: String,
    /// Where the request goes.
    origin: String,
    /// Region that the request is signed for.
    region: String,
}

impl Operation {
    pub(in crate::crt_client) fn on_key(name: &'static str, bucket: &str, key: &Key) -> Self {
        Self::on(name, format!("s3://{bucket}/{key}"))
    }

    pub(in crate::crt_client) fn on_bucket(name: &'static str, bucket: &str) -> Self {
        Self::on(name, format!("s3://{bucket}"))
    }

    fn on(name: &'static str, target: String) -> Self {
        Self {
            name,
            target,
            origin: String::new(),
            region: String::new(),
        }
    }

    pub(in crate::crt_client) fn at(mut self, origin: &str, region: &str) -> Self {
        origin.clone_into(&mut self.origin);
        region.clone_into(&mut self.region);
        self
    }

    /// No connection can be made.
    pub(in crate::crt_client) fn unreachable(&self, why: &str) -> ClientError {
        let hint = if why.contains("CaUsedAsEndEntity") {
            "the server shows a CA certificate where its own is expected"
        } else if why.contains("InvalidContentType") {
            "the server speaks no TLS there; if it is an HTTP port, use http://"
        } else if why.contains("expired") {
            "the server's certificate has expired, or this machine's clock is wrong"
        } else if why.contains("certificate") || why.contains("TLS") {
            "the server's certificate must be for this name and from an authority that is trusted here (--ca-bundle)"
        } else {
            "check --endpoint-url, the network and the proxy in between (https_proxy, http_proxy, no_proxy)"
        };
        let what = format!("cannot reach {}: {why}; {hint}", self.origin);
        self.error(ErrorKind::Unreachable, &what)
    }

    /// An error of this operation with no HTTP answer behind it.
    pub(in crate::crt_client) fn error(&self, kind: ErrorKind, what: &str) -> ClientError {
        ClientError::new(kind, format!("{} {}: {what}", self.name, self.target))
    }
}

/// One failed attempt: the error, and what the retry policy needs besides its kind.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent facts of one attempt"
)]
pub(in crate::crt_client) struct Fault {
    pub(in crate::crt_client) error: ClientError,
    /// The server's `Retry-After`.
    pub(in crate::crt_client) retry_after: Option<Duration>,
    /// The server said that the credentials have expired.
    pub(in crate::crt_client) expired: bool,
    /// The server refused without a reason: answers to HEAD have no body.
    pub(in crate::crt_client) is_mute: bool,
    /// Nothing came for so long that the attempt was given up.
    pub(in crate::crt_client) is_silence: bool,
    /// Nothing says that the server has not done what was asked, and it is asked again.
    pub(in crate::crt_client) may_be_done: bool,
    /// When the server gave the answer, by its clock.
    pub(in crate::crt_client) answered_at: Option<SystemTime>,
}

impl From<ClientError> for Fault {
    fn from(error: ClientError) -> Self {
        Self {
            may_be_done: matches!(error.kind, ErrorKind::Transient | ErrorKind::Conflict),
            answered_at: None,
            error,
            retry_after: None,
            expired: false,
            is_mute: false,
            is_silence: false,
        }
    }
}

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
    /// `Date`.
    pub(in crate::crt_client) date: Option<&'a str>,
}

impl ErrorAnswer<'_> {
    /// The fault of an operation that was answered so.
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
        let mut what = match (self.code, self.message) {
            (Some(code), Some(message)) => format!("{code}: {}", text::printable(message)),
            (Some(code), None) => code.to_owned(),
            (None, Some(message)) => text::printable(message),
            (None, None) => "the server answered without a reason".to_owned(),
        };
        // More is said behind it.
        what.truncate(what.trim_end_matches('.').len());
        let hint = match session_hint(operation, &kind) {
            Some(hint) => Some(hint.to_owned()),
            None => self.hint(&kind),
        };
        if let Some(hint) = hint {
            what.push_str("; ");
            what.push_str(&hint);
        }
        Fault {
            may_be_done: kind.is_retryable() && !self.proves_refusal(&kind),
            answered_at: self.date.and_then(text::http_time),
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

    /// Whether nothing was done for certain of a request that may be sent again. A 4xx refuses
    /// before the work, but for a conflict, and for a time-out of which nobody knows the moment. Of
    /// 5xx only Amazon S3's own `SlowDown` does: gateways answer so when they have lost the server,
    /// other servers (MinIO) when a write has reached too few disks. An error in a `200` came after
    /// the work had begun.
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

    /// What to do about it, where a person can do something.
    fn hint(&self, kind: &ErrorKind) -> Option<String> {
        Some(match kind {
            ErrorKind::Denied if self.code.is_none() => {
                "access denied: check the credentials and the bucket's policy".to_owned()
            }
            ErrorKind::Denied => "check the credentials' permissions and the bucket's policy".to_owned(),
            ErrorKind::Credentials if self.code == Some("RequestTimeTooSkewed") => {
                "set this machine's clock: it differs from the server's by more than 15 minutes".to_owned()
            }
            ErrorKind::Credentials => "check the credentials".to_owned(),
            ErrorKind::WrongRegion(Some(region)) => {
                format!("the bucket is in region {region}: use --region {region}")
            }
            ErrorKind::WrongRegion(None) => "the bucket is elsewhere: check --region and --endpoint-url".to_owned(),
            ErrorKind::Conflict => "another request for the same object is in flight".to_owned(),
            ErrorKind::NoSuchBucket if self.code.is_none() => "the bucket does not exist".to_owned(),
            ErrorKind::NotFound if self.code.is_none() => "the object does not exist".to_owned(),
            ErrorKind::InvalidRequest if self.status == 400 && self.code.is_none() => {
                "bad request: expired credentials, a wrong --region, or http:// for https:// are the usual reasons".to_owned()
            }
            ErrorKind::InvalidRequest if self.status == 413 => {
                "the server, or a proxy before it, takes no requests as large as this: raise its limit \
                 (nginx: client_max_body_size; below 5 MiB no parts can be sent), or send smaller parts \
                 (--write-part-size)"
                    .to_owned()
            }
            ErrorKind::InvalidResponse if self.code.is_none() => "is the endpoint an S3 server?".to_owned(),
            ErrorKind::Archived => "restore the object first".to_owned(),
            _ => return None,
        })
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

/// What to do where no session can be opened.
fn session_hint(operation: &Operation, kind: &ErrorKind) -> Option<&'static str> {
    match kind {
        _ if operation.name != "CreateSession" => None,
        ErrorKind::Denied => Some("the credentials need s3express:CreateSession on the bucket"),
        ErrorKind::Unsupported => Some(
            "the server knows no directory buckets: if this is not one, say --bucket-type general-purpose",
        ),
        _ => None,
    }
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
        date: head.header("date"),
    }
    .fault(operation)
}

/// Whether it makes, replaces or removes an object, or does so on a condition.
fn is_change_of_object(name: &str) -> bool {
    matches!(
        name,
        "PutObject" | "CopyObject" | "DeleteObject" | "CompleteMultipartUpload" | "RenameObject"
    )
}

/// What Amazon S3 calls itself in `Server`.
const AMAZON_S3: &str = "AmazonS3";

/// The set of regions of a multi-region access point: no region is a wrong one.
const ANY_REGION: &str = "*";

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(status: u16, code: &str, region: Option<&str>, expected: &ErrorKind) {
        let code = (!code.is_empty()).then_some(code);
        let answer = ErrorAnswer {
            status,
            code,
            region,
            ..ErrorAnswer::default()
        };
        assert_eq!(answer.kind(), *expected, "{answer:?}");
    }

    #[test]
    fn codes_decide() {
        for (status, code, kind) in [
            (404, "NoSuchKey", ErrorKind::NotFound),
            (404, "NoSuchBucket", ErrorKind::NoSuchBucket),
            (404, "NoSuchUpload", ErrorKind::NoSuchUpload),
            (412, "PreconditionFailed", ErrorKind::PreconditionFailed),
            (409, "ConditionalRequestConflict", ErrorKind::Conflict),
            (200, "ConditionalRequestConflict", ErrorKind::Conflict),
            (400, "InvalidWriteOffset", ErrorKind::PreconditionFailed),
            (400, "TooManyParts", ErrorKind::TooManyParts),
            (403, "InvalidObjectState", ErrorKind::Archived),
            (403, "AccessDenied", ErrorKind::Denied),
            (403, "InvalidAccessKeyId", ErrorKind::Credentials),
            (403, "SignatureDoesNotMatch", ErrorKind::Credentials),
            (400, "ExpiredToken", ErrorKind::Credentials),
            (400, "InvalidToken", ErrorKind::Credentials),
            (400, "TokenRefreshRequired", ErrorKind::Credentials),
            (403, "RequestTimeTooSkewed", ErrorKind::Credentials),
            (301, "PermanentRedirect", ErrorKind::WrongRegion(None)),
            (501, "NotImplemented", ErrorKind::Unsupported),
            (405, "MethodNotAllowed", ErrorKind::Unsupported),
            (503, "SlowDown", ErrorKind::Throttled),
            (400, "RequestLimitExceeded", ErrorKind::Throttled),
            (400, "RequestTimeout", ErrorKind::Transient),
            (503, "XMinioServerNotInitialized", ErrorKind::Unreachable),
            (409, "OperationAborted", ErrorKind::Transient),
            (200, "InternalError", ErrorKind::Transient),
            (200, "SlowDown", ErrorKind::Throttled),
            (400, "InvalidArgument", ErrorKind::InvalidRequest),
            (200, "InvalidArgument", ErrorKind::InvalidRequest),
            (200, "MalformedXML", ErrorKind::InvalidRequest),
            (200, "InvalidPart", ErrorKind::InvalidRequest),
            (200, "AccessDenied", ErrorKind::Denied),
            (200, "SomethingNew", ErrorKind::InvalidResponse),
            (500, "InvalidArgument", ErrorKind::Transient),
            (503, "SomethingNew", ErrorKind::Throttled),
        ] {
            check(status, code, None, &kind);
        }
    }

    #[test]
    fn only_a_proof_says_that_nothing_was_done() {
        let amazon = Some(AMAZON_S3);
        for (status, code, server, may_be_done) in [
            (503, Some("SlowDown"), amazon, false),
            (503, Some("SlowDown"), Some("MinIO"), true),
            (503, Some("SlowDown"), None, true),
            (503, Some("SlowDownWrite"), None, true),
            (503, Some("ServiceUnavailable"), amazon, true),
            (503, Some("XMinioServerNotInitialized"), None, true),
            (503, None, Some("nginx"), true),
            (500, Some("InternalError"), amazon, true),
            (502, None, None, true),
            (504, None, None, true),
            (200, Some("SlowDown"), amazon, true),
            (200, Some("InternalError"), amazon, true),
            (429, Some("TooManyRequests"), None, false),
            (429, None, None, false),
            (400, Some("RequestLimitExceeded"), None, false),
            (400, Some("RequestTimeout"), amazon, true),
            (409, Some("ConditionalRequestConflict"), amazon, true),
            (409, Some("OperationAborted"), amazon, true),
            (409, None, None, true),
            // These are final.
            (412, Some("PreconditionFailed"), None, false),
            (403, Some("AccessDenied"), None, false),
            (501, Some("NotImplemented"), None, false),
        ] {
            let answer = ErrorAnswer {
                status,
                code,
                server,
                ..ErrorAnswer::default()
            };
            let fault = answer.fault(&Operation::on_bucket("PutObject", "b"));
            assert_eq!(fault.may_be_done, may_be_done, "{answer:?}");
        }
    }

    #[test]
    fn a_conflict_without_a_code_is_one_where_an_object_is_changed() {
        let answer = ErrorAnswer {
            status: 409,
            ..ErrorAnswer::default()
        };
        for (name, kind) in [
            ("PutObject", ErrorKind::Conflict),
            ("CompleteMultipartUpload", ErrorKind::Conflict),
            ("ListObjectsV2", ErrorKind::InvalidRequest),
        ] {
            let fault = answer.fault(&Operation::on_bucket(name, "b"));
            assert_eq!(fault.error.kind, kind, "{name}");
        }
    }

    #[test]
    fn a_region_is_passed_on() {
        let there = ErrorKind::WrongRegion(Some("eu-west-1".to_owned()));
        check(301, "PermanentRedirect", Some("eu-west-1"), &there);
        check(301, "", Some("eu-west-1"), &there);
        check(
            400,
            "AuthorizationHeaderMalformed",
            Some("eu-west-1"),
            &there,
        );
        check(
            400,
            "AuthorizationHeaderMalformed",
            None,
            &ErrorKind::Credentials,
        );
        check(301, "", Some(""), &ErrorKind::WrongRegion(None));
        for (message, kind) in [
            (
                "The authorization header is malformed; the region 'us-east-1' is wrong; expecting 'eu-west-1'",
                there,
            ),
            ("expecting 'a b'", ErrorKind::Credentials),
            ("expecting 'eu-west-1", ErrorKind::Credentials),
        ] {
            let answer = ErrorAnswer {
                status: 400,
                code: Some("AuthorizationHeaderMalformed"),
                message: Some(message),
                ..ErrorAnswer::default()
            };
            assert_eq!(answer.kind(), kind, "{message}");
        }
    }

    #[test]
    fn statuses_decide_without_a_code() {
        for (status, kind) in [
            (101, ErrorKind::InvalidResponse),
            (304, ErrorKind::InvalidResponse),
            (307, ErrorKind::WrongRegion(None)),
            (400, ErrorKind::InvalidRequest),
            (401, ErrorKind::Denied),
            (403, ErrorKind::Denied),
            (404, ErrorKind::NotFound),
            (405, ErrorKind::Unsupported),
            (408, ErrorKind::Transient),
            (409, ErrorKind::InvalidRequest),
            (412, ErrorKind::PreconditionFailed),
            (416, ErrorKind::InvalidRequest),
            (429, ErrorKind::Throttled),
            (500, ErrorKind::Transient),
            (501, ErrorKind::Unsupported),
            (502, ErrorKind::Transient),
            (503, ErrorKind::Throttled),
            (504, ErrorKind::Transient),
            (599, ErrorKind::Transient),
        ] {
            check(status, "", None, &kind);
        }
    }

    #[track_caller]
    fn check_message(name: &'static str, answer: ErrorAnswer<'_>, kind: &ErrorKind, message: &str) {
        let operation = Operation::on(name, "s3://b/k".to_owned()).at("http://h", "here-1");
        let fault = answer.fault(&operation);
        assert_eq!(
            (&fault.error.kind, &*fault.error.to_string()),
            (kind, message)
        );
    }

    #[test]
    fn messages_name_the_operation_and_what_to_do() {
        let answer = |status, code, message| ErrorAnswer {
            status,
            code,
            message,
            ..ErrorAnswer::default()
        };
        check_message(
            "GetObject",
            answer(404, Some("NoSuchKey"), Some("The key does not\nexist.")),
            &ErrorKind::NotFound,
            "GetObject s3://b/k: NoSuchKey: The key does not exist (HTTP 404)",
        );
        check_message(
            "HeadBucket",
            answer(404, None, None),
            &ErrorKind::NoSuchBucket,
            "HeadBucket s3://b/k: the server answered without a reason; the bucket does not exist (HTTP 404)",
        );
        check_message(
            "ListObjectsV2",
            ErrorAnswer {
                status: 301,
                code: Some("PermanentRedirect"),
                region: Some("r-1"),
                ..answer(0, None, None)
            },
            &ErrorKind::WrongRegion(Some("r-1".to_owned())),
            "ListObjectsV2 s3://b/k: PermanentRedirect; the bucket is in region r-1: use --region r-1 (HTTP 301)",
        );
        let from = |region| ErrorAnswer {
            region,
            ..answer(400, None, None)
        };
        check_message(
            "HeadBucket",
            from(Some("r-1")),
            &ErrorKind::WrongRegion(Some("r-1".to_owned())),
            "HeadBucket s3://b/k: the server answered without a reason; the bucket is in region r-1: use --region r-1 \
             (HTTP 400)",
        );
        check_message(
            "HeadObject",
            from(Some("here-1")),
            &ErrorKind::InvalidRequest,
            "HeadObject s3://b/k: the server answered without a reason; bad request: expired credentials, \
             a wrong --region, or http:// for https:// are the usual reasons (HTTP 400)",
        );
    }

    #[test]
    fn expired_credentials_and_retry_after_are_noticed() {
        let operation = Operation::on_bucket("GetObject", "b");
        let answer = ErrorAnswer {
            status: 400,
            code: Some("ExpiredToken"),
            ..ErrorAnswer::default()
        };
        assert!(answer.fault(&operation).expired);
        let answer = ErrorAnswer {
            status: 503,
            retry_after: Some("7"),
            ..ErrorAnswer::default()
        };
        assert_eq!(
            answer.fault(&operation).retry_after,
            Some(Duration::from_secs(7))
        );
        let answer = ErrorAnswer {
            status: 503,
            retry_after: Some("Mon, 1 Jan"),
            ..ErrorAnswer::default()
        };
        assert_eq!(answer.fault(&operation).retry_after, None);
    }
}
