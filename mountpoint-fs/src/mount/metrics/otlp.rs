//! Sends metrics to a collector of OpenTelemetry, over HTTP in binary form.
//!
//! As mountpoint-s3 does: exponential histograms, and differences since the last export unless sums
//! since the start are wanted. A difference that did not arrive is part of the next one.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http_body_util::{BodyExt as _, Collected, Full, Limited};
use hyper::body::Bytes;
use hyper::header::{CONTENT_TYPE, USER_AGENT};
use hyper::{Method, Request, Uri};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue, any_value};
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, ExponentialHistogram, ExponentialHistogramDataPoint, Gauge, Metric,
    NumberDataPoint, ResourceMetrics, ScopeMetrics, Sum, metric, number_data_point,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message as _;

use super::document::MountDescription;
use crate::cli::VERSION;
use crate::metrics::{HistogramCounts, MetricKind, Series, SeriesValue, Snapshot};

/// A collector, and how it is sent to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpEndpoint {
    uri: Uri,
    /// Time between two exports.
    pub interval: Duration,
    /// Whether sums since the start are sent, not differences.
    pub is_cumulative: bool,
}

impl OtlpEndpoint {
    /// The collector at a URL: that of its metrics, or that of the whole collector.
    ///
    /// # Errors
    /// A text for the user.
    pub fn new(url: &str, interval: Duration, is_cumulative: bool) -> Result<Self, String> {
        let wrong = || {
            format!(
                "--otlp-endpoint {url} is no URL of a collector: it begins with http:// or https://, as \
                 http://localhost:4318"
            )
        };
        let base = url.trim_end_matches('/');
        let url = match base.ends_with(PATH) {
            true => base.to_owned(),
            false => format!("{base}{PATH}"),
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let is_http = matches!(uri.scheme_str(), Some("http" | "https"));
        let has_host = uri.host().is_some_and(|host| !host.is_empty());
        if !is_http || !has_host {
            return Err(wrong());
        }
        Ok(Self {
            uri,
            interval,
            is_cumulative,
        })
    }
}

/// Sends snapshots to one collector.
pub(super) struct Exporter {
    endpoint: OtlpEndpoint,
    client: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    resource: Resource,
    /// The numbers that the collector has, and since when the next difference counts.
    sent: Snapshot,
    since: SystemTime,
    started: SystemTime,
    has_failed: bool,
}

impl Exporter {
    /// An exporter of a mount that begins at `now`.
    pub(super) fn new(
        endpoint: OtlpEndpoint,
        mount: &MountDescription,
        now: SystemTime,
    ) -> Result<Self, String> {
        let connector = HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(rustls::crypto::aws_lc_rs::default_provider())
            .map_err(|error| {
                format!("--otlp-endpoint: cannot read the system's certificates: {error}")
            })?
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            resource: resource(mount),
            endpoint,
            sent: Snapshot::default(),
            since: now,
            started: now,
            has_failed: false,
        })
    }

    /// Time between two exports.
    pub(super) fn interval(&self) -> Duration {
        self.endpoint.interval
    }

    /// Sends `snapshot`, taken at `now`. The first failure of a row is logged.
    pub(super) async fn export(&mut self, snapshot: Snapshot, now: SystemTime) {
        let (news, since, temporality) = match self.endpoint.is_cumulative {
            true => (
                snapshot.clone(),
                self.started,
                AggregationTemporality::Cumulative,
            ),
            false => (
                snapshot.since(&self.sent),
                self.since,
                AggregationTemporality::Delta,
            ),
        };
        let times = Times {
            since: unix_nanos(since),
            now: unix_nanos(now),
            temporality,
        };
        let message = message(self.resource.clone(), &news, &times).encode_to_vec();
        let sent = tokio::time::timeout(EXPORT_MAX, self.send(message)).await;
        let sent = sent.unwrap_or_else(|_| Err(format!("no answer within {EXPORT_MAX:?}")));
        match sent {
            Ok(()) => {
                (self.sent, self.since) = (snapshot, now);
                if std::mem::take(&mut self.has_failed) {
                    tracing::warn!("metrics arrive at the collector again");
                }
            }
            Err(error) if self.has_failed => tracing::debug!("no metrics were sent: {error}"),
            Err(error) => {
                self.has_failed = true;
                tracing::warn!(
                    "no metrics were sent to the collector at {}: {error}; the next export has them too, and further \
                     failures are logged with --debug",
                    self.endpoint.uri
                );
            }
        }
    }

    async fn send(&self, message: Vec<u8>) -> Result<(), String> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(&self.endpoint.uri)
            .header(CONTENT_TYPE, "application/x-protobuf")
            .header(USER_AGENT, format!("mount-s3/{VERSION}"))
            .body(Full::from(message))
            .map_err(|error| error.to_string())?;
        let response = self.client.request(request).await;
        let response = response.map_err(|error| with_cause(&error))?;
        let status = response.status();
        // Read to its end, so that the connection can be used again.
        let body = Limited::new(response.into_body(), ANSWER_MAX)
            .collect()
            .await;
        if status.is_success() {
            return Ok(());
        }
        let body = body.map(Collected::to_bytes).unwrap_or_default();
        let text = String::from_utf8_lossy(&body);
        let is_text = !text.is_empty() && text.chars().all(|it| !it.is_control());
        let text = if is_text {
            format!(": {text}")
        } else {
            String::new()
        };
        Err(format!("{status}{text}"))
    }
}

impl fmt::Debug for Exporter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exporter({})", self.endpoint.uri)
    }
}

/// An error and what is behind it.
fn with_cause(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The times of an export, in nanoseconds.
struct Times {
    since: u64,
    now: u64,
    temporality: AggregationTemporality,
}

fn message(resource: Resource, news: &Snapshot, times: &Times) -> ExportMetricsServiceRequest {
    let by_name = |one: &Series, other: &Series| one.definition.name == other.definition.name;
    let metrics = news.series.chunk_by(by_name);
    ExportMetricsServiceRequest {
        resource_metrics: vec![ResourceMetrics {
            resource: Some(resource),
            scope_metrics: vec![ScopeMetrics {
                scope: Some(InstrumentationScope {
                    name: "mountpoint-s3".to_owned(),
                    version: VERSION.to_owned(),
                    ..InstrumentationScope::default()
                }),
                metrics: metrics.filter_map(|series| metric(series, times)).collect(),
                schema_url: String::new(),
            }],
            schema_url: String::new(),
        }],
    }
}

/// A metric with all its series, of which there is at least one.
fn metric(series: &[Series], times: &Times) -> Option<Metric> {
    let definition = series.first()?.definition;
    let numbers = || {
        series
            .iter()
            .filter_map(|series| number(series, times))
            .collect()
    };
    let data = match definition.kind {
        MetricKind::Counter => metric::Data::Sum(Sum {
            data_points: numbers(),
            aggregation_temporality: times.temporality as i32,
            is_monotonic: true,
        }),
        MetricKind::Gauge => metric::Data::Gauge(Gauge {
            data_points: numbers(),
        }),
        MetricKind::Histogram => metric::Data::ExponentialHistogram(ExponentialHistogram {
            data_points: series
                .iter()
                .filter_map(|it| distribution(it, times))
                .collect(),
            aggregation_temporality: times.temporality as i32,
        }),
    };
    Some(Metric {
        name: definition.name.to_owned(),
        description: definition.meaning.to_owned(),
        unit: definition.unit.ucum().to_owned(),
        data: Some(data),
        ..Metric::default()
    })
}

fn number(series: &Series, times: &Times) -> Option<NumberDataPoint> {
    let value = match &series.value {
        SeriesValue::Counter(count) => {
            number_data_point::Value::AsInt(i64::try_from(*count).unwrap_or(i64::MAX))
        }
        SeriesValue::Gauge(value) => number_data_point::Value::AsDouble(*value),
        SeriesValue::Histogram(_) => return None,
    };
    Some(NumberDataPoint {
        attributes: attributes(&series.labels),
        start_time_unix_nano: times.since,
        time_unix_nano: times.now,
        value: Some(value),
        ..NumberDataPoint::default()
    })
}

fn distribution(series: &Series, times: &Times) -> Option<ExponentialHistogramDataPoint> {
    let SeriesValue::Histogram(counts) = &series.value else {
        return None;
    };
    Some(ExponentialHistogramDataPoint {
        attributes: attributes(&series.labels),
        start_time_unix_nano: times.since,
        time_unix_nano: times.now,
        count: counts.count(),
        sum: Some(counts.sum as f64),
        scale: SCALE,
        positive: Some(Buckets {
            offset: FIRST_BUCKET,
            bucket_counts: counts.buckets.clone(),
        }),
        min: Some(counts.quantile(0.0)),
        max: Some(counts.quantile(1.0)),
        ..ExponentialHistogramDataPoint::default()
    })
}

fn resource(mount: &MountDescription) -> Resource {
    let labels = [
        ("service.name", "mountpoint-s3".to_owned()),
        ("service.version", VERSION.to_owned()),
        (
            "service.instance.id",
            format!("{}:{}", mount.pid, mount.directory),
        ),
        ("process.pid", mount.pid.to_string()),
        ("s3.bucket", mount.bucket.clone()),
        ("s3.prefix", mount.prefix.clone()),
        ("mount.directory", mount.directory.clone()),
    ];
    let labels = labels.map(|(name, value)| (name.to_owned(), value));
    Resource {
        attributes: attributes(&labels),
        ..Resource::default()
    }
}

fn attributes(labels: &[(String, String)]) -> Vec<KeyValue> {
    let each = labels.iter().map(|(name, value)| KeyValue {
        key: name.clone(),
        value: Some(AnyValue {
            value: Some(any_value::Value::StringValue(value.clone())),
        }),
        ..KeyValue::default()
    });
    each.collect()
}

fn unix_nanos(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Buckets of [`HistogramCounts`]: four for each power of two.
const SCALE: i32 = 2;
/// The first of them ends at 1, and so is the bucket before number 0.
const FIRST_BUCKET: i32 = -1;
const _: fn(usize) -> f64 = HistogramCounts::bound;

/// Path of metrics at a collector.
const PATH: &str = "/v1/metrics";
/// Longest export. The next one has what this one had.
pub(super) const EXPORT_MAX: Duration = Duration::from_secs(10);
/// Most bytes of a collector's answer that are read.
const ANSWER_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_collector_or_its_path() {
        let second = Duration::from_secs(1);
        for (url, expected) in [
            (
                "http://localhost:4318",
                Some("http://localhost:4318/v1/metrics"),
            ),
            (
                "http://localhost:4318/",
                Some("http://localhost:4318/v1/metrics"),
            ),
            ("https://a.b/otlp", Some("https://a.b/otlp/v1/metrics")),
            ("http://a/v1/metrics", Some("http://a/v1/metrics")),
            ("localhost:4318", None),
            ("grpc://localhost", None),
            ("", None),
        ] {
            let found = OtlpEndpoint::new(url, second, false);
            let found = found.ok().map(|endpoint| endpoint.uri.to_string());
            assert_eq!(found.as_deref(), expected, "{url}");
        }
    }
}
