//! How a [`SimClient`](super::SimClient) behaves.

use std::ops::Range;
use std::time::Duration;

use super::faults::FaultRule;

/// The driver of requests: the call itself, the test, or real time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Time {
    /// Every request is answered before the call that makes it returns; latency and throughput mean
    /// nothing.
    #[default]
    Immediate,
    /// Every request waits until the test delivers, finishes, answers or fails it.
    Manual,
    /// GETs wait for the test; everything else is answered at once.
    ManualGets,
    /// Requests take the time that latency and throughput say, on a thread of the client.
    Threaded,
}

/// Everything that can be set.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// Seed of all that looks random: latencies, faults by chance, listing order of a directory
    /// bucket.
    pub seed: u64,
    /// The driver of requests: the call itself, the test, or real time.
    pub time: Time,
    /// How long S3 takes to answer; uniformly distributed.
    pub latency: Range<Duration>,
    /// Bytes per second of each GET; `None` delivers all bytes at once.
    pub throughput: Option<u64>,
    /// Fault rules from the start; more with [`SimClient::add_fault`](super::SimClient::add_fault).
    pub faults: Vec<FaultRule>,
    /// A directory bucket: rename and sessions work, a listing comes in no particular order.
    pub directory_bucket: bool,
    /// A key that ends with a slash takes no bytes and has the server's own content type, as in
    /// versitygw.
    pub has_bare_markers: bool,
    /// The region that HeadBucket names.
    pub region: Option<String>,
}

impl Default for SimOptions {
    /// A general purpose bucket that answers at once.
    fn default() -> Self {
        Self {
            seed: 0,
            time: Time::Immediate,
            latency: Duration::ZERO..Duration::ZERO,
            throughput: None,
            faults: Vec::new(),
            directory_bucket: false,
            has_bare_markers: false,
            region: Some("us-east-1".to_owned()),
        }
    }
}
