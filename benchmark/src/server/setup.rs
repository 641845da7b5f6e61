//! The settings of a run's server, and the answers that a run gets from it.

use std::env;
use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::dataset::BUCKET;
use crate::workload::{Conditions, Workload};

/// Requests to the server since the counters were cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Requests {
    pub(crate) gets: u64,
    pub(crate) heads: u64,
    pub(crate) lists: u64,
    pub(crate) all: u64,
    /// Requests that are being answered.
    pub(crate) in_flight: u64,
    /// Bytes of the bodies of answers to GET requests for objects; counted when an answer has
    /// ended.
    pub(crate) bytes: u64,
}

/// The content and the behaviour of a server.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub(crate) struct Setup {
    /// Half the files, half their size
    #[arg(long)]
    pub(crate) quick: bool,
    /// A file of `mount-s3 trace`, whose reads are the workload `replay`; no other is measured
    /// unless it is named
    #[arg(long, value_name = "FILE", conflicts_with = "endpoint_url")]
    pub(crate) replay: Option<PathBuf>,
    /// Time that the server waits before it answers a request, in milliseconds
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) latency_ms: u64,
    /// Bandwidth of each answer in megabits per second; 0 for no limit
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) bandwidth_mbps: u64,
    /// A server to measure on, instead of the embedded one; credentials from AWS_ACCESS_KEY_ID and
    /// AWS_SECRET_ACCESS_KEY
    #[arg(long, value_name = "URL", conflicts_with_all = ["latency_ms", "bandwidth_mbps"])]
    pub(crate) endpoint_url: Option<String>,
    /// The bucket there, which must exist; objects that are not there yet are put into it
    #[arg(long, value_name = "NAME", default_value = BUCKET, requires = "endpoint_url")]
    pub(crate) bucket: String,
    /// Where the server listens
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", hide = true)]
    pub(crate) address: IpAddr,
}

impl Setup {
    pub(crate) fn conditions(&self) -> Conditions {
        Conditions {
            latency_ms: self.latency_ms,
            bandwidth_mbps: self.bandwidth_mbps,
            late: None,
        }
    }

    /// For the report.
    pub(crate) fn described(&self) -> String {
        match &self.endpoint_url {
            Some(url) => {
                format!("the server at {url}, whose requests and CPU time are not counted")
            }
            None => {
                let bandwidth = match self.bandwidth_mbps {
                    0 => String::new(),
                    limit => format!(" and {limit} Mbit/s for each answer"),
                };
                format!(
                    "server, mount and reader share the machine; {} ms added to each request{bandwidth} where a workload \
                     does not say",
                    self.latency_ms
                )
            }
        }
    }

    /// Whether a workload can be measured on this server: a given one can be neither slowed nor
    /// moved behind a link, has no second bucket for a shared cache, and its address says whether
    /// it is reached over TLS.
    pub(crate) fn takes(&self, workload: &Workload) -> bool {
        let as_it_is = workload.link.is_none()
            && !workload.is_over_tls
            && !workload.is_cache_shared
            && workload.conditions.unwrap_or_default() == Conditions::default();
        self.endpoint_url.is_none() || as_it_is
    }
}

/// Credentials for the server, and the region that it names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) key_id: String,
    pub(crate) secret: String,
    pub(crate) region: String,
    /// Whether it is the person's own, which may need more of the environment than this.
    pub(crate) is_given: bool,
}

impl Access {
    /// The credentials that the embedded server expects.
    pub(crate) fn embedded() -> Self {
        Self {
            key_id: "benchmark-key-id".to_owned(),
            secret: "benchmark-secret".to_owned(),
            region: REGION.to_owned(),
            is_given: false,
        }
    }

    /// The environment's credentials, for a server whose address is given.
    pub(crate) fn of_environment() -> Result<Self> {
        Ok(Self {
            key_id: variable("AWS_ACCESS_KEY_ID")?,
            secret: variable("AWS_SECRET_ACCESS_KEY")?,
            region: variable("AWS_REGION").unwrap_or_else(|_| REGION.to_owned()),
            is_given: true,
        })
    }
}

const REGION: &str = "us-east-1";

#[expect(
    clippy::disallowed_methods,
    reason = "the benchmark has no mount::environment; this is its one place"
)]
fn variable(name: &str) -> Result<String> {
    env::var(name).with_context(|| format!("{name}, which --endpoint-url needs"))
}
