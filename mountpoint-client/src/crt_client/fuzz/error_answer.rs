//! Refusals, as the fuzzer makes them.

use std::time::Duration;

use super::answer::{Answer, assert_shown};
use crate::ErrorKind;
use crate::crt_client::fault::{ErrorAnswer, ErrorDocument, Operation};
use crate::retry::{FailedAttempt, RetryPolicy, WAIT_MAX};

/// An answer that refuses: the first line of the input names the operation.
pub(crate) fn error_answer(data: &[u8]) {
    let Answer { asked, head, body } = Answer::read(data);
    let name = OPERATIONS.into_iter().find(|name| *name == asked);
    let operation = Operation::on_bucket(name.unwrap_or("GetObject"), "bucket");
    let operation = operation.at("https://s3.example", "here");
    let document = ErrorDocument::read(body);
    let text = String::from_utf8_lossy(body);
    let answer = ErrorAnswer::of_body(
        &operation,
        (head.status, |name: &str| head.header(name)),
        (&text, document.as_ref()),
    );
    let fault = answer.fault(&operation);
    assert_shown(&fault.error);
    // Whatever a gateway says, it is not known whether there is such an object.
    let says_of_object = matches!(
        fault.error.kind,
        ErrorKind::NotFound | ErrorKind::PreconditionFailed | ErrorKind::Denied
    );
    assert!(!answer.is_foreign || !says_of_object, "{answer:?}");
    let failed = FailedAttempt {
        kind: &fault.error.kind,
        attempts: 1,
        unanswered: 0,
        is_unanswered: false,
        elapsed: Duration::ZERO,
        silent: None,
        retry_after: fault.retry_after,
        was_reached: true,
        is_foreign: fault.is_foreign,
    };
    let policy = RetryPolicy {
        attempts_max: 10,
        deadline: Duration::from_secs(60),
        silence_max: Duration::from_secs(60),
    };
    let wait = policy.wait(&failed, 1.0);
    assert_eq!(wait.is_some(), fault.error.kind.is_retryable());
    assert!(wait.is_none_or(|wait| wait <= WAIT_MAX), "{wait:?}");
}

const OPERATIONS: [&str; 8] = [
    "GetObject",
    "HeadObject",
    "HeadBucket",
    "ListObjectsV2",
    "PutObject",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateSession",
];
