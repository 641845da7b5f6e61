//! The options of a [`CrtClient`](super::CrtClient), and the bounds of its requests.

use std::time::Duration;

use super::encryption::{ServerSideEncryption, SseCustomerKey};
use crate::credentials::CredentialsMode;
use crate::crt_client::fault::SILENCE_MAX;
use crate::endpoint::{BucketType, EndpointQuestion};
use crate::instance::MetadataUse;
use crate::network::ProxySettings;
use crate::retry::{ATTEMPTS_MAX, REQUEST_DEADLINE};

/// Settings of a [`CrtClient`](super::CrtClient). Resolved by the caller; no environment variable
/// is read for them.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a switch of its own that the user gives"
)]
pub struct CrtClientOptions {
    /// Bucket name, access point alias, or ARN of an access point of any kind.
    pub bucket: String,
    /// Kind of the bucket; `None` tells it by the name.
    pub bucket_type: Option<BucketType>,
    /// Region of the bucket; `None` looks into the AWS configuration, then takes `us-east-1`. An
    /// ARN that names a region overrides it.
    pub region: Option<String>,
    /// Endpoint instead of AWS's, with its scheme.
    pub endpoint_url: Option<String>,
    /// Whether the bucket goes into the path instead of the host name.
    pub force_path_style: bool,
    /// Whether requests go through the nearest edge location.
    pub transfer_acceleration: bool,
    /// Whether the endpoint has IPv6 addresses too.
    pub dual_stack: bool,
    /// Whether the endpoint's cryptography is FIPS 140 validated.
    pub fips: bool,
    /// Whether this account pays for its requests instead of the bucket's owner.
    pub requester_pays: bool,
    /// Account that must own the bucket, or S3 refuses.
    pub expected_bucket_owner: Option<String>,
    /// How S3 encrypts what is written; `None` leaves it to the bucket.
    pub sse: Option<ServerSideEncryption>,
    /// Key that the user keeps, for reading and writing (SSE-C).
    pub sse_customer_key: Option<SseCustomerKey>,
    /// Keys that sign the requests.
    pub credentials: CredentialsMode,
    /// Throughput of the network in gigabits per second; decides the number of connections. `None`:
    /// that of this EC2 instance's type, else 10.
    pub throughput_target_gbps: Option<f64>,
    /// Longest range of one GET, in bytes; longer ones are refused.
    pub part_size_max: usize,
    /// PEM certificates that replace the trust store of the operating system.
    pub ca_bundle: Option<Vec<u8>>,
    /// Whether a small object that is read as a whole is compared with the checksum that S3 keeps.
    pub checks_reads: bool,
    /// Interfaces to spread the requests over; empty lets the kernel choose.
    pub network_interfaces: Vec<String>,
    /// Whether the metadata service of an EC2 instance is asked for region and type. For
    /// credentials, the AWS variables decide.
    pub instance_metadata: MetadataUse,
    /// Proxies between here and S3, and the services that give credentials.
    pub proxy: ProxySettings,
    /// Attempts of one request, the first included.
    pub max_attempts: u32,
    /// No retry begins later than this after a request began or bytes last arrived.
    pub request_deadline: Duration,
    /// When S3 has answered nothing at all for this long, although requests waited, further ones
    /// fail at once.
    pub silence_max: Duration,
    /// A copy or the end of an upload is sent again when nothing was heard of its answer for this
    /// long; then for twice as long, and so on.
    pub answer_silence_max: Duration,
    /// Connections of each interface; `None` derives it from the throughput target.
    pub connections: Option<u32>,
    /// Threads that move bytes from the network, of each client; `None` for as many as
    /// [`RuntimeOptions`](mountpoint_crt_sys::RuntimeOptions) says.
    pub event_loop_threads: Option<u16>,
    /// `User-Agent` of the requests.
    pub user_agent: String,
}

impl CrtClientOptions {
    /// The defaults, for a bucket.
    #[must_use]
    pub fn new(bucket: impl Into<String>) -> Self {
        Self {
            bucket: bucket.into(),
            bucket_type: None,
            region: None,
            endpoint_url: None,
            force_path_style: false,
            transfer_acceleration: false,
            dual_stack: false,
            fips: false,
            requester_pays: false,
            expected_bucket_owner: None,
            sse: None,
            sse_customer_key: None,
            credentials: CredentialsMode::Default { profile: None },
            throughput_target_gbps: None,
            part_size_max: PART_SIZE_MAX,
            ca_bundle: None,
            checks_reads: true,
            network_interfaces: Vec::new(),
            instance_metadata: MetadataUse::Auto,
            proxy: ProxySettings::default(),
            max_attempts: ATTEMPTS_MAX,
            request_deadline: REQUEST_DEADLINE,
            silence_max: SILENCE_MAX,
            answer_silence_max: ANSWER_SILENCE_MAX,
            connections: None,
            event_loop_threads: None,
            user_agent: format!("mountpoint/{}", env!("CARGO_PKG_VERSION")),
        }
    }

    /// Whether the bucket is a directory bucket, as far as the user's word or its name tell.
    #[must_use]
    pub fn is_directory_bucket(&self) -> bool {
        let told = self.bucket_type;
        told.unwrap_or_else(|| BucketType::of_name(&self.bucket)) == BucketType::Directory
    }

    /// The question about the endpoint.
    pub(super) fn endpoint_question<'a>(&'a self, region: &'a str) -> EndpointQuestion<'a> {
        // Another vendor's server may have a bucket that is only called like a directory bucket;
        // AWS has none.
        let is_foreign = self.endpoint_url.is_some() && !self.is_directory_bucket();
        let is_signed = !matches!(self.credentials, CredentialsMode::Unsigned);
        EndpointQuestion {
            bucket: &self.bucket,
            region,
            endpoint_url: self.endpoint_url.as_deref(),
            force_path_style: self.force_path_style,
            dual_stack: self.dual_stack,
            fips: self.fips,
            transfer_acceleration: self.transfer_acceleration,
            sessions: is_signed && !is_foreign,
        }
    }

    /// Connections of one interface for requests with long bodies: those that fill the network, of
    /// which `network_gbps` is known to be carried, and some for readers that are blocked.
    #[must_use]
    pub fn connections(&self, network_gbps: Option<f64>) -> u32 {
        let wanted = self.connections.unwrap_or_else(|| {
            let to_fill = self.connections_to_fill(network_gbps);
            to_fill + (to_fill / 4).max(CONNECTIONS_BLOCKED)
        });
        wanted.clamp(CONNECTIONS_MIN, CONNECTIONS_MAX)
    }

    /// Connections that read-ahead may use.
    #[must_use]
    pub fn connections_ahead(&self, network_gbps: Option<f64>) -> u32 {
        let all = self.connections(network_gbps);
        let to_fill = self.connections_to_fill(network_gbps);
        to_fill.clamp(all / 2, all - all / 8)
    }

    /// Most connections of one interface: for reads, as many for uploads and GETs that stalled, for
    /// control requests, and for the SDK.
    #[must_use]
    pub fn connections_max(&self, network_gbps: Option<f64>) -> usize {
        2 * self.connections(network_gbps) as usize + CONTROL_IN_FLIGHT_MAX + WORK_IN_FLIGHT_MAX
    }

    /// Requests with long bodies that fill the network of one interface together. The
    /// throughput of a machine is that of all its interfaces.
    #[must_use]
    pub fn connections_to_fill(&self, network_gbps: Option<f64>) -> u32 {
        let gbps = self
            .throughput_target_gbps
            .or(network_gbps)
            .unwrap_or(THROUGHPUT_DEFAULT_GBPS);
        let interfaces = self.network_interfaces.len().max(1) as f64;
        let wanted = (gbps / interfaces / GBPS_PER_CONNECTION).ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped just before"
        )]
        let wanted = wanted.clamp(UPLOADS_MIN, f64::from(CONNECTIONS_MAX)) as u32;
        wanted
    }
}

/// Throughput of a network that neither EC2's table nor the kernel knows.
pub(super) const THROUGHPUT_DEFAULT_GBPS: f64 = 10.0;
/// Longest GET by default. A larger bound costs nothing by itself: the blocks are the memory.
const PART_SIZE_MAX: usize = 64 * 1024 * 1024;

/// The CRT's rule: one connection carries this much, so it opens target / 0.4 of them.
pub(super) const GBPS_PER_CONNECTION: f64 = 0.4;
/// 64 readers that are blocked must be 64 requests in flight.
const CONNECTIONS_BLOCKED: u32 = 64;
/// Least number of connections: half of them for readers that are blocked, half for read-ahead.
const CONNECTIONS_MIN: u32 = 2 * CONNECTIONS_BLOCKED;
/// Fewer parts on their way would leave a store waiting that takes 100 ms for each.
const UPLOADS_MIN: f64 = 8.0;
/// Beyond this a process runs out of file descriptors before the network is full.
const CONNECTIONS_MAX: u32 = 2048;
/// Read-ahead that waits for its share. The reader's memory budget is reached long before; past it,
/// requests go straight to the CRT, which queues them too.
pub(super) const READ_AHEAD_QUEUE_MAX: usize = 16 * 1024;

/// Connecting takes a round trip or two; a lost SYN is repeated by the retry sooner than by the
/// kernel.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// A GET whose connection moves nothing for this long is sent again on another.
pub(super) const READ_STALL: Duration = Duration::from_secs(3);
/// Uploads, and GETs that stalled once: the server may be thinking.
pub(super) const PATIENT_STALL: Duration = Duration::from_secs(30);
/// Connections are closed this long after the last request, and up to 5 s later: the next connects
/// anew, in one round trip, or about three with TLS. Not for ever: firewalls and NAT gateways
/// forget idle connections without a word, some after 60 s, AWS's after 350 s, and what is sent
/// over such a one hangs until the stall is noticed.
pub(super) const CONNECTION_IDLE_MAX: Duration = Duration::from_secs(20);
/// Control requests in flight. Each may need a connection of its own.
pub(super) const CONTROL_IN_FLIGHT_MAX: usize = 128;
/// Copies and ends of uploads in flight: they may take minutes, so they have permits of their own.
/// Each has a connection of the SDK's.
pub(super) const WORK_IN_FLIGHT_MAX: usize = 128;
/// S3 has begun to answer a copy or the end of an upload by then, as far as is seen from outside.
pub(super) const WORK_LATE: Duration = Duration::from_secs(30);
/// One attempt of a request that has little to do.
pub(super) const CONTROL_ATTEMPT_MAX: Duration = Duration::from_secs(30);
/// Longest silence of a first attempt at a copy or at completing an upload: the `read_timeout` that
/// botocore has by default. S3 begins its answer early and sends spaces while it works (its
/// reference, CompleteMultipartUpload).
pub(super) const ANSWER_SILENCE_MAX: Duration = Duration::from_secs(60);
/// One attempt of a copy or of completing an upload: S3 may work for minutes before it answers.
pub(super) const SLOW_ATTEMPT_MAX: Duration = Duration::from_secs(15 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_follow_the_target_within_bounds() {
        for (gbps, explicit, network_gbps, interfaces, connections, ahead) in [
            (None, None, None, 0, 128, 64),
            (Some(10.0), None, None, 1, 128, 64),
            (Some(100.0), None, None, 1, 314, 250),
            (Some(100.0), None, None, 2, 189, 125),
            (Some(1e9), None, None, 1, 2048, 1792),
            (Some(f64::NAN), None, None, 1, 128, 64),
            (Some(-1.0), None, None, 1, 128, 64),
            (Some(10.0), Some(300), None, 1, 300, 150),
            (Some(10.0), Some(1), None, 1, 128, 64),
            (None, None, Some(200.0), 1, 625, 500),
            (None, None, Some(3200.0), 1, 2048, 1792),
            (None, None, Some(5.0), 1, 128, 64),
            (Some(100.0), None, Some(200.0), 1, 314, 250),
        ] {
            let mut options = CrtClientOptions::new("b");
            options.throughput_target_gbps = gbps;
            options.connections = explicit;
            options.network_interfaces = vec!["eth0".to_owned(); interfaces];
            let planned = (
                options.connections(network_gbps),
                options.connections_ahead(network_gbps),
            );
            let case = format!("{gbps:?} {explicit:?} {network_gbps:?} {interfaces}");
            assert_eq!(planned, (connections, ahead), "{case}");
            let all = options.connections_max(network_gbps);
            assert_eq!(all, 2 * connections as usize + 256, "{case}");
        }
    }
}
