//! Properties of a server that the file system does not need: its clock, the order of its listings,
//! its stored checksums. For `mount-s3 doctor`.
//!
//! Each probe is one request that changes nothing, sent once: a wrong answer is the finding. The
//! caller judges and bounds the time. Runs on the tokio runtime
//! that polls it.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use aws_sdk_s3::config::interceptors::BeforeDeserializationInterceptorContextRef;
use aws_sdk_s3::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_s3::error::BoxError;
use aws_sdk_s3::types::{ChecksumMode, EncodingType};
use aws_smithy_types::date_time::{DateTime, Format};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::client::CrtClient;
use super::text::{decode_form, printable};
use crate::ClientError;
use crate::crt_client::fault::of_sdk;
use crate::types::{BucketInfo, Key};

/// One answer: what the client makes of it, and what else it shows.
#[derive(Clone, Debug)]
pub struct Probe<T> {
    /// The operation's result.
    pub outcome: Result<T, ClientError>,
    /// The head of the answer, also of one that says no; `None` if none came.
    pub head: Option<AnswerHead>,
}

/// The head of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AnswerHead {
    /// HTTP status.
    pub status: u16,
    /// From the request to the answer's head, the connection's start included.
    pub round_trip: Duration,
    /// How far the server's clock is ahead of this machine's, in seconds; `None` without a `Date`
    /// header.
    pub clock_ahead_s: Option<i64>,
    /// The `Server` header.
    pub server: Option<String>,
    /// Names of the checksums in the answer, such as `crc64nvme`.
    pub checksums: Vec<String>,
}

/// A page of a listing, in the order the server sent it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingShape {
    /// Keys, decoded, in the server's order; those that cannot be decoded are left out.
    pub keys: Vec<String>,
    /// Whether the server encoded the keys, as it was asked to.
    pub is_encoded: bool,
}

impl CrtClient {
    /// Where requests go: `https://host[:port]`.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.core().endpoint.origin
    }

    /// HeadBucket.
    pub async fn probe_bucket(&self) -> Probe<BucketInfo> {
        let core = self.core();
        let operation = core.on_bucket("HeadBucket");
        let watch = HeadWatch::new();
        let call = core.sdk.head_bucket().bucket(&core.bucket);
        let sent = call.customize().interceptor(watch.clone()).send().await;
        let outcome = sent
            .map(|output| BucketInfo {
                region: output.bucket_region().map(str::to_owned),
            })
            .map_err(|error| of_sdk(&operation, &error).error);
        watch.probe(outcome)
    }

    /// ListObjectsV2, without a delimiter.
    pub async fn probe_listing(&self, prefix: &str, max_keys: u16) -> Probe<ListingShape> {
        let core = self.core();
        let operation = core.on_bucket("ListObjectsV2");
        let watch = HeadWatch::new();
        let call = core
            .sdk
            .list_objects_v2()
            .bucket(&core.bucket)
            .encoding_type(EncodingType::Url)
            .set_prefix((!prefix.is_empty()).then(|| prefix.to_owned()))
            .max_keys(i32::from(max_keys));
        let sent = call.customize().interceptor(watch.clone()).send().await;
        let outcome = sent
            .map(|output| {
                let is_encoded = output.encoding_type() == Some(&EncodingType::Url);
                let keys = output.contents().iter().filter_map(|object| object.key());
                let keys = keys.filter_map(|key| match is_encoded {
                    true => decode_form(key),
                    false => Some(key.to_owned()),
                });
                ListingShape {
                    keys: keys.collect(),
                    is_encoded,
                }
            })
            .map_err(|error| of_sdk(&operation, &error).error);
        watch.probe(outcome)
    }

    /// HeadObject that asks for the object's checksums; they are in the answer's head.
    pub async fn probe_object(&self, key: &Key) -> Probe<()> {
        let core = self.core();
        let operation = core.on_key("HeadObject", key);
        let watch = HeadWatch::new();
        let call = core
            .sdk
            .head_object()
            .bucket(&core.bucket)
            .key(key.as_str())
            .checksum_mode(ChecksumMode::Enabled);
        let sent = call.customize().interceptor(watch.clone()).send().await;
        watch.probe(
            sent.map(drop)
                .map_err(|error| of_sdk(&operation, &error).error),
        )
    }
}

/// Remembers the head of the answer that passes by.
#[derive(Clone, Debug)]
struct HeadWatch {
    started: Instant,
    /// Held for a few instructions; no other lock is taken under it.
    seen: Arc<Mutex<Option<AnswerHead>>>,
}

impl HeadWatch {
    fn new() -> Self {
        Self {
            started: Instant::now(),
            seen: Arc::default(),
        }
    }

    fn probe<T>(&self, outcome: Result<T, ClientError>) -> Probe<T> {
        let head = self.seen.lock().take();
        Probe { outcome, head }
    }
}

impl Intercept for HeadWatch {
    fn name(&self) -> &'static str {
        "HeadWatch"
    }

    fn read_before_deserialization(
        &self,
        context: &BeforeDeserializationInterceptorContextRef<'_>,
        _components: &RuntimeComponents,
        _config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let response = context.response();
        let headers = response.headers();
        let mut head = AnswerHead {
            status: response.status().as_u16(),
            round_trip: self.started.elapsed(),
            clock_ahead_s: headers.get("date").and_then(clock_ahead_s),
            server: headers.get("server").map(printable),
            checksums: headers
                .iter()
                .filter_map(|(name, _)| name.strip_prefix("x-amz-checksum-"))
                .filter(|name| *name != "type")
                .take(CHECKSUMS_MAX)
                .map(printable)
                .collect(),
        };
        head.checksums.sort();
        *self.seen.lock() = Some(head);
        Ok(())
    }
}

/// The `Date` of an answer that has just come, against this machine's clock.
fn clock_ahead_s(date: &str) -> Option<i64> {
    #[expect(
        clippy::disallowed_methods,
        reason = "this machine's wall clock is what is compared"
    )]
    let here = SystemTime::now();
    let here = here.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let there = DateTime::from_str(date, Format::HttpDate).ok()?;
    there
        .secs()
        .checked_sub(i64::try_from(here.as_secs()).ok()?)
}

/// S3 knows a handful; a server that sends more is not believed.
const CHECKSUMS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_answers() {
        #[expect(clippy::disallowed_methods, reason = "compared with the clock")]
        let now = DateTime::from(SystemTime::now());
        let now_text = now.fmt(Format::HttpDate).unwrap();
        assert!(clock_ahead_s(&now_text).unwrap().abs() <= 2);
        let later = DateTime::from_secs(now.secs() + 3600);
        let ahead = clock_ahead_s(&later.fmt(Format::HttpDate).unwrap()).unwrap();
        assert!((3598..=3602).contains(&ahead), "{ahead}");
        for nonsense in ["", "now", "Tue, 99 Foo 2026 00:00:00 GMT"] {
            assert_eq!(clock_ahead_s(nonsense), None, "{nonsense}");
        }
    }
}
