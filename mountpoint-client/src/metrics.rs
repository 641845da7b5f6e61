//! Measurements of the client's requests, through the `metrics` facade.
//!
//! The handles are taken once for the whole process, as its recorder is: at the first request, so
//! a recorder is installed before. Without one they do nothing.

use std::collections::HashMap;
use std::fmt;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Histogram};
use parking_lot::Mutex;

/// Requests by operation, each attempt counted when it ends.
pub const S3_REQUESTS: &str = "s3.request_count";
/// Requests that failed, by operation and status.
pub const S3_ERRORS: &str = "s3.request_errors";
/// Requests that were given up before their end.
pub const S3_CANCELED: &str = "s3.request_canceled";
/// Time to the first byte of an answer.
pub const S3_FIRST_BYTE_LATENCY: &str = "s3.request_first_byte_latency";
/// Time to the end of an answer.
pub const S3_LATENCY: &str = "s3.request_total_latency";
/// Requests in flight: [`requests_in_flight`].
pub const S3_IN_FLIGHT: &str = "s3.requests_in_flight";
/// Bytes of the answers.
pub const S3_RECEIVED: &str = "s3.received_bytes";
/// Bytes of the bodies.
pub const S3_SENT: &str = "s3.sent_bytes";
/// Attempts after a failed one.
pub const S3_RETRIES: &str = "s3.retries";
/// Answers by which S3 said to slow down.
pub const S3_THROTTLES: &str = "s3.throttles";
/// Whether requests fail at once because S3 answers nothing.
pub const S3_BREAKER_OPEN: &str = "s3.breaker.open";
/// Requests that failed so.
pub const S3_BREAKER_REFUSED: &str = "s3.breaker.refused";

/// The handles of all clients.
pub(crate) static REQUESTS: LazyLock<RequestMetrics> = LazyLock::new(RequestMetrics::new);

/// Attempts of all clients that have neither ended nor been given up. A number, rather than a gauge
/// of the facade, which each attempt would change twice by a loop.
static IN_FLIGHT: AtomicU64 = AtomicU64::new(0);

/// Requests in flight, of all clients.
#[must_use]
pub fn requests_in_flight() -> u64 {
    IN_FLIGHT.load(Ordering::Acquire)
}

/// Has the numbers of requests that each mount sends kept from now on, so that they are 0 before
/// the first of them.
pub fn declare() {
    for operation in OPERATIONS {
        let _kept = REQUESTS.of(operation);
        for status in ["none", "503"] {
            metrics::counter!(S3_ERRORS, "s3_request" => operation, "http_status" => status)
                .increment(0);
        }
    }
    metrics::counter!(S3_BREAKER_REFUSED).increment(0);
    metrics::gauge!(S3_BREAKER_OPEN).set(0.0);
}

/// Operations of S3 that a mount uses, without rare ones.
const OPERATIONS: [&str; 11] = [
    "AbortMultipartUpload",
    "CompleteMultipartUpload",
    "CopyObject",
    "CreateMultipartUpload",
    "DeleteObject",
    "GetObject",
    "HeadObject",
    "ListObjectsV2",
    "PutObject",
    "UploadPart",
    "UploadPartCopy",
];

/// The handles of requests.
pub(crate) struct RequestMetrics {
    /// Most requests are of this operation.
    get_object: OperationMetrics,
    /// Guards the map alone. A leaf. S3 has a hundred operations; what is known of them stays.
    others: Mutex<HashMap<String, &'static OperationMetrics>>,
    retries: Counter,
    throttled_retries: Counter,
    throttles: Counter,
}

/// The handles of one operation of S3.
pub(crate) struct OperationMetrics {
    operation: String,
    /// Counted at the end, by the thread that counts all else: a number that senders change as well
    /// costs each of them a wait for the other's.
    requests: Counter,
    canceled: Counter,
    latency: Histogram,
    first_byte: Histogram,
    received: Counter,
    sent: Counter,
}

impl RequestMetrics {
    fn new() -> Self {
        Self {
            get_object: OperationMetrics::new("GetObject"),
            others: Mutex::default(),
            retries: metrics::counter!(S3_RETRIES, "reason" => "failed"),
            throttled_retries: metrics::counter!(S3_RETRIES, "reason" => "throttled"),
            throttles: metrics::counter!(S3_THROTTLES),
        }
    }

    /// The handles of `operation`, such as `ListObjectsV2`.
    pub(crate) fn of(&'static self, operation: &str) -> &'static OperationMetrics {
        if operation == "GetObject" {
            return &self.get_object;
        }
        let mut others = self.others.lock();
        if let Some(known) = others.get(operation) {
            return known;
        }
        let new = Box::leak(Box::new(OperationMetrics::new(operation)));
        others.insert(operation.to_owned(), new);
        new
    }

    /// S3 said to slow down.
    pub(crate) fn throttled(&self) {
        self.throttles.increment(1);
    }

    /// A failed request is sent again.
    pub(crate) fn retried(&self, was_throttled: bool) {
        match was_throttled {
            true => self.throttled_retries.increment(1),
            false => self.retries.increment(1),
        }
    }
}

impl OperationMetrics {
    fn new(operation: &str) -> Self {
        let name = || operation.to_owned();
        Self {
            operation: name(),
            requests: metrics::counter!(S3_REQUESTS, "s3_request" => name()),
            canceled: metrics::counter!(S3_CANCELED, "s3_request" => name()),
            latency: metrics::histogram!(S3_LATENCY, "s3_request" => name()),
            first_byte: match operation {
                "GetObject" => metrics::histogram!(S3_FIRST_BYTE_LATENCY, "s3_request" => name()),
                _ => Histogram::noop(),
            },
            received: metrics::counter!(S3_RECEIVED, "s3_request" => name()),
            sent: metrics::counter!(S3_SENT, "s3_request" => name()),
        }
    }

    /// An attempt is sent, with a body of `len` bytes.
    pub(crate) fn begins(&self, len: u64) {
        IN_FLIGHT.fetch_add(1, Ordering::Relaxed);
        if len > 0 {
            self.sent.increment(len);
        }
    }

    /// The first byte of the answer is there.
    pub(crate) fn first_byte(&self, after: Duration) {
        self.first_byte.record(micros(after));
    }

    /// The attempt has ended: with `len` bytes of an object, and with an error if there is a
    /// `failure`: its status, or 0 if there was no answer.
    pub(crate) fn ended(&self, took: Duration, len: u64, failure: Option<u16>) {
        self.requests.increment(1);
        self.latency.record(micros(took));
        if len > 0 {
            self.received.increment(len);
        }
        if let Some(status) = failure {
            let status = match status {
                0 => "none".to_owned(),
                status => status.to_string(),
            };
            let operation = self.operation.clone();
            metrics::counter!(S3_ERRORS, "s3_request" => operation, "http_status" => status)
                .increment(1);
        }
        // Last: a request that is not in flight is in every number.
        IN_FLIGHT.fetch_sub(1, Ordering::Release);
    }

    /// The attempt was given up.
    pub(crate) fn given_up(&self) {
        self.requests.increment(1);
        self.canceled.increment(1);
        IN_FLIGHT.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for OperationMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OperationMetrics({})", self.operation)
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
