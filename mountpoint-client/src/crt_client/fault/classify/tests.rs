use super::*;
use crate::types::Key;

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
            is_foreign: code.is_none(),
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
        is_foreign: true,
        ..ErrorAnswer::default()
    };
    for (name, kind) in [
        ("PutObject", ErrorKind::Conflict),
        ("CompleteMultipartUpload", ErrorKind::Conflict),
        ("ListObjectsV2", ErrorKind::Transient),
    ] {
        let fault = answer.fault(&Operation::on_bucket(name, "b"));
        assert_eq!(fault.error.kind, kind, "{name}");
    }
}

/// Whatever its status says, S3 has said nothing, and may have done what was asked.
#[test]
fn an_answer_that_is_not_s3s_is_repeated() {
    for status in [
        200, 302, 304, 400, 401, 403, 404, 405, 412, 416, 500, 501, 502, 504,
    ] {
        let answer = ErrorAnswer {
            status,
            message: Some("<html>no\nserver</html>"),
            is_foreign: true,
            ..ErrorAnswer::default()
        };
        let fault = answer.fault(&Operation::on_bucket("PutObject", "b"));
        assert_eq!(fault.error.kind, ErrorKind::Transient, "{status}");
        assert!(fault.may_be_done, "{status}");
        assert_eq!(fault.is_foreign, status < 500, "{status}");
        let page = "<html>no server</html>";
        assert!(fault.error.message.contains(page), "{}", fault.error);
    }
    for (status, kind) in [
        (413, ErrorKind::InvalidRequest),
        (503, ErrorKind::Throttled),
    ] {
        let answer = ErrorAnswer {
            status,
            is_foreign: true,
            ..ErrorAnswer::default()
        };
        let fault = answer.fault(&Operation::on_bucket("PutObject", "b"));
        assert_eq!((fault.error.kind, fault.is_foreign), (kind, false));
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
    let operation =
        Operation::on_key(name, "b", &Key::parse("k").unwrap()).at("http://h", "here-1");
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
