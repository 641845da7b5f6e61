//! Each request to S3, over the CRT and over the SDK: its numbers, and when it has ended its line
//! of the log and its report.
//!
//! While lines and reports have no reader, nothing is prepared for them. Neither has a header of
//! the request.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aws_sdk_s3::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_runtime_api::http::{Response, StatusCode};
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use mountpoint_crt_sys::{Failure, ResponseHead};
use tokio::time::Instant;

use super::text::decode_form;
use crate::attempt_report::{self, AttemptReport};
use crate::billing::{self, BilledAttempt};
use crate::endpoint::Endpoint;
use crate::metrics::{OperationMetrics, REQUESTS};

/// A request that has been sent. Counts and writes its line when the answer is there, or when it is
/// given up.
#[derive(Debug)]
pub(super) struct SentRequest {
    metrics: &'static OperationMetrics,
    billed: BilledAttempt,
    began: Instant,
    first_byte: Option<Duration>,
    has_ended: bool,
    /// Boxed, because it is seldom there and the rest moves with each request.
    line: Option<Box<Sent>>,
}

/// The fields of a line and of a report that are known when a request is sent.
#[derive(Debug)]
struct Sent {
    operation: &'static str,
    target: String,
    range: Option<String>,
    number: u32,
    len: u64,
}

impl SentRequest {
    /// A request that is sent at `began`, which is now, with a body of `len` bytes, and billed as
    /// `billed`; `target` is asked for only if a line is wanted.
    pub(super) fn at(
        began: Instant,
        operation: &'static str,
        len: u64,
        billed: BilledAttempt,
        target: impl FnOnce() -> String,
    ) -> Self {
        let line = || Sent {
            operation,
            target: target(),
            range: None,
            number: attempt_report::number(),
            len,
        };
        let line = is_wanted().then(|| Box::new(line()));
        let metrics = REQUESTS.of(operation);
        metrics.begins(len);
        Self {
            metrics,
            billed,
            began,
            first_byte: None,
            has_ended: false,
            line,
        }
    }

    /// The request asks for bytes of an object.
    pub(super) fn of_range(mut self, range: &Range<u64>) -> Self {
        if let Some(sent) = &mut self.line {
            sent.range = Some(format!("{}-{}", range.start, range.end.saturating_sub(1)));
        }
        self
    }

    /// The request is sent for the `number`th time.
    pub(super) fn of_attempt(mut self, number: u32) -> Self {
        if let Some(sent) = &mut self.line {
            sent.number = number;
        }
        self
    }

    /// The request asks with these headers.
    pub(super) fn with_headers(mut self, headers: &[(String, String)]) -> Self {
        if let Some(sent) = &mut self.line {
            let range = headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case("range"));
            sent.range = range.map(|(_, value)| value.trim_start_matches("bytes=").to_owned());
        }
        self
    }

    /// The answer begins.
    pub(super) fn answer_begins(&mut self) {
        if self.first_byte.is_none() {
            let after = self.began.elapsed();
            self.first_byte = Some(after);
            self.metrics.first_byte(after);
        }
    }

    /// How long ago the answer began; `None` if it has not.
    pub(super) fn answer_lasts(&self) -> Option<Duration> {
        let first_byte = self.first_byte?;
        Some(self.began.elapsed().saturating_sub(first_byte))
    }

    /// The request has its answer, with `len` bytes of an object, or there is none.
    pub(super) fn ended(
        mut self,
        len: u64,
        head: Option<&ResponseHead>,
        failure: Option<&Failure>,
    ) {
        self.has_ended = true;
        let took = self.began.elapsed();
        let status = head.map(|head| head.status);
        // A refusal of S3 is in the status, and a success need not be one that the CRT knows.
        let failure = failure.filter(|_| head.is_none_or(ResponseHead::is_success));
        let is_refused = head.is_some_and(|head| !head.is_success());
        let failed = (is_refused || failure.is_some()).then(|| status.unwrap_or(0));
        // Reported and billed before it is counted: a request that is not in flight is in each.
        if let Some(sent) = self.line.take() {
            let failure = failure.map(|failure| failure.error.to_string());
            let id = head.and_then(|head| head.header(REQUEST_ID));
            self.report(
                *sent,
                took,
                Answered { status, id, len },
                failure.as_deref(),
            );
        }
        self.billed.ended(len, status);
        self.metrics.ended(took, len, failed);
    }

    /// Writes the line, and hands the report over.
    fn report(&self, sent: Sent, took: Duration, answered: Answered<'_>, failure: Option<&str>) {
        let Answered { status, id, len } = answered;
        let line = Line {
            operation: sent.operation,
            target: &sent.target,
            range: sent.range.as_deref(),
            status,
            took,
            id,
        };
        line.write(failure);
        if attempt_report::is_wanted() {
            attempt_report::tell(AttemptReport {
                operation: sent.operation.into(),
                target: sent.target,
                range: sent.range,
                number: sent.number,
                status,
                request_id: id.map(str::to_owned),
                failure: failure.map(str::to_owned),
                first_byte: self.first_byte,
                took,
                sent: sent.len,
                received: len,
                call: self.billed.call(),
            });
        }
    }
}

/// The answer to a request.
struct Answered<'a> {
    status: Option<u16>,
    /// S3's name of the request.
    id: Option<&'a str>,
    /// Bytes of an object.
    len: u64,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        self.billed.given_up();
        self.metrics.given_up();
        if let Some(sent) = self.line.take() {
            let nothing = Answered {
                status: None,
                id: None,
                len: 0,
            };
            self.report(*sent, self.began.elapsed(), nothing, Some("given up"));
        }
    }
}

/// For the SDK: around each attempt.
#[derive(Clone, Debug)]
pub(super) struct AttemptLog {
    bucket: String,
    /// The part of a URL's path before each key.
    prefix: String,
}

impl AttemptLog {
    /// For requests to `bucket` at `endpoint`, which are billed to `billed`.
    pub(super) fn new(bucket: &str, endpoint: &Endpoint) -> Self {
        Self {
            bucket: bucket.to_owned(),
            prefix: endpoint.bucket_path(),
        }
    }

    /// `s3://bucket/key` of a URL.
    fn target(&self, url: &str) -> String {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = &rest[rest.find('/').unwrap_or(rest.len())..];
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        let bucket = &self.bucket;
        let key = path.strip_prefix(self.prefix.as_str()).unwrap_or_default();
        match decode_form(&key.replace('+', "%2B")) {
            Some(key) if !key.is_empty() => format!("s3://{bucket}/{key}"),
            Some(_) | None => format!("s3://{bucket}"),
        }
    }
}

/// An attempt of the SDK that has begun. Counts as given up if it is dropped before its end.
#[derive(Debug)]
struct Began {
    at: Instant,
    /// Set if a line or a report is wanted.
    target: Option<String>,
    /// Number of the attempt.
    number: u32,
    /// Bytes of the body.
    len: u64,
    metrics: &'static OperationMetrics,
    billed: BilledAttempt,
    has_ended: AtomicBool,
}

impl Drop for Began {
    fn drop(&mut self) {
        if !*self.has_ended.get_mut() {
            self.billed.given_up();
            self.metrics.given_up();
        }
    }
}

impl Storable for Began {
    type Storer = StoreReplace<Self>;
}

impl Intercept for AttemptLog {
    fn name(&self) -> &'static str {
        "AttemptLog"
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let operation = config.load::<Metadata>().map_or("", Metadata::name);
        let metrics = REQUESTS.of(operation);
        let len = context.request().body().content_length().unwrap_or(0);
        metrics.begins(len);
        let billed = BilledAttempt::new(billing::current(), operation, len);
        config.interceptor_state().store_put(Began {
            at: Instant::now(),
            target: is_wanted().then(|| self.target(context.request().uri())),
            number: attempt_report::number(),
            len,
            metrics,
            billed,
            has_ended: AtomicBool::new(false),
        });
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(began) = config.load::<Began>() else {
            return Ok(());
        };
        let response = context.response();
        let (took, status) = (began.at.elapsed(), response.map(Response::status));
        if !began.has_ended.swap(true, Ordering::Relaxed) {
            let is_failed = status.is_none_or(|status| !status.is_success());
            let failed = is_failed.then(|| status.map_or(0, StatusCode::as_u16));
            began.billed.ended(0, status.map(StatusCode::as_u16));
            began.metrics.ended(took, 0, failed);
        }
        let Some(target) = &began.target else {
            return Ok(());
        };
        let line = Line {
            operation: config.load::<Metadata>().map_or("", Metadata::name),
            target,
            range: None,
            status: status.map(StatusCode::as_u16),
            took,
            id: response.and_then(|response| response.headers().get(REQUEST_ID)),
        };
        let failure = response.is_none().then_some("no answer");
        line.write(failure);
        if attempt_report::is_wanted() {
            attempt_report::tell(AttemptReport {
                operation: line.operation.to_owned().into(),
                target: target.clone(),
                number: began.number,
                status: line.status,
                request_id: line.id.map(str::to_owned),
                failure: failure.map(str::to_owned),
                took,
                sent: began.len,
                call: began.billed.call(),
                ..AttemptReport::default()
            });
        }
        Ok(())
    }
}

/// The fields of a line.
struct Line<'a> {
    operation: &'a str,
    target: &'a str,
    range: Option<&'a str>,
    status: Option<u16>,
    took: Duration,
    id: Option<&'a str>,
}

impl Line<'_> {
    fn write(&self, failure: Option<&str>) {
        tracing::debug!(
            operation = self.operation,
            key = self.target,
            range = self.range,
            status = self.status,
            time = %Millis(self.took),
            request_id = self.id,
            failure,
            "request"
        );
    }
}

/// `12.3ms`.
struct Millis(Duration);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.1}ms", self.0.as_secs_f64() * 1000.0)
    }
}

fn is_wanted() -> bool {
    tracing::enabled!(tracing::Level::DEBUG) || attempt_report::is_wanted()
}

const REQUEST_ID: &str = "x-amz-request-id";
