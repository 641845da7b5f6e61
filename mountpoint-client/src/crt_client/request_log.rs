//! One line of the log for each request to S3, over the CRT and over the SDK, when it has ended.
//!
//! While the log has no use for these lines, nothing is prepared and no clock is read. A line never
//! has a header of the request.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

use aws_sdk_s3::config::interceptors::{
    BeforeTransmitInterceptorContextRef, FinalizerInterceptorContextRef,
};
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use mountpoint_crt_sys::{Failure, ResponseHead};
use tokio::time::Instant;

use super::text::decode_form;
use crate::endpoint::Endpoint;

/// A request that has been sent. Writes its line when the answer is there, or when it is given up.
#[derive(Debug)]
pub(super) struct SentRequest(Option<Sent>);

#[derive(Debug)]
struct Sent {
    operation: &'static str,
    target: String,
    range: Option<String>,
    began: Instant,
}

impl SentRequest {
    /// A request that is sent now; `target` is asked for only if a line is wanted.
    pub(super) fn now(operation: &'static str, target: impl FnOnce() -> String) -> Self {
        let sent = is_wanted().then(|| Sent {
            operation,
            target: target(),
            range: None,
            began: Instant::now(),
        });
        Self(sent)
    }

    /// The request asks for bytes of an object.
    pub(super) fn of_range(mut self, range: &Range<u64>) -> Self {
        if let Some(sent) = &mut self.0 {
            sent.range = Some(format!("{}-{}", range.start, range.end.saturating_sub(1)));
        }
        self
    }

    /// The request asks with these headers.
    pub(super) fn with_headers(mut self, headers: &[(String, String)]) -> Self {
        if let Some(sent) = &mut self.0 {
            let range = headers
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case("range"));
            sent.range = range.map(|(_, value)| value.trim_start_matches("bytes=").to_owned());
        }
        self
    }

    /// The request has its answer, or there is none.
    pub(super) fn ended(mut self, head: Option<&ResponseHead>, failure: Option<&Failure>) {
        let Some(sent) = self.0.take() else { return };
        let line = Line {
            operation: sent.operation,
            target: &sent.target,
            range: sent.range.as_deref(),
            status: head.map(|head| head.status),
            took: sent.began.elapsed(),
            id: head.and_then(|head| head.header(REQUEST_ID)),
        };
        // A refusal of S3 is in the status.
        let failure = failure.filter(|_| head.is_none_or(ResponseHead::is_success));
        line.write(failure.map(|failure| failure.error.to_string()).as_deref());
    }
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if let Some(sent) = &self.0 {
            let line = Line {
                operation: sent.operation,
                target: &sent.target,
                range: sent.range.as_deref(),
                status: None,
                took: sent.began.elapsed(),
                id: None,
            };
            line.write(Some("given up"));
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
    /// For requests to `bucket` at `endpoint`.
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

/// An attempt of the SDK that has begun.
#[derive(Debug)]
struct Began {
    at: Instant,
    target: String,
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
        if is_wanted() {
            config.interceptor_state().store_put(Began {
                at: Instant::now(),
                target: self.target(context.request().uri()),
            });
        }
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(Began { at, target }) = config.load::<Began>() else {
            return Ok(());
        };
        let response = context.response();
        let line = Line {
            operation: config.load::<Metadata>().map_or("", Metadata::name),
            target,
            range: None,
            status: response.map(|response| response.status().as_u16()),
            took: at.elapsed(),
            id: response.and_then(|response| response.headers().get(REQUEST_ID)),
        };
        line.write(response.is_none().then_some("no answer"));
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
    tracing::enabled!(tracing::Level::DEBUG)
}

const REQUEST_ID: &str = "x-amz-request-id";
