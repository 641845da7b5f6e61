//! A client of the bucket, after one request that lists the bucket.
//!
//! Every wait here is bounded by the time that a start may take, so that the user learns which wait
//! failed.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::crt_client::{CrtClient, CrtClientOptions};
use mountpoint_client::types::{ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};
use tokio::runtime::Runtime;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use crate::index::{IndexFile, IndexedClient};

use super::start_error::{StartError, explain, place};

/// A client of a bucket that answered.
#[derive(Debug)]
pub struct Connected {
    /// The client.
    pub client: Arc<dyn ObjectClient>,
    /// The bucket's region, where it was given or found.
    pub region: Option<String>,
}

/// A client of the bucket, whose names come from `index` if there is one and whose keys under
/// `prefix` can be listed. A default region is corrected once.
///
/// # Errors
/// With a text for the user: the failure and its remedy.
pub fn connect(
    runtime: &Runtime,
    options: &CrtClientOptions,
    prefix: &str,
    index: Option<&Arc<IndexFile>>,
    time_max: Duration,
) -> Result<Connected, StartError> {
    let mut attempt = Attempt {
        runtime,
        options: options.clone(),
        prefix,
        deadline: runtime.block_on(async { Instant::now() }) + time_max,
        time_max,
    };
    for _ in 0..REGIONS_MAX {
        let client = attempt.client()?;
        let client: Arc<dyn ObjectClient> = Arc::new(client);
        let client = match index {
            None => client,
            Some(index) => {
                let runtime = runtime.handle().clone();
                Arc::new(IndexedClient::new(client, Arc::clone(index), runtime))
            }
        };
        match attempt.list(&client)? {
            Ok(_) => {
                return Ok(Connected {
                    client,
                    region: attempt.options.region,
                });
            }
            Err(ClientError {
                kind: ErrorKind::WrongRegion(Some(region)),
                ..
            }) if attempt.options.region.is_none() => {
                tracing::warn!(
                    "the bucket is in {region}; give --region {region} to save a request at start"
                );
                attempt.options.region = Some(region);
            }
            Err(error) => return Err(explain(&attempt.options, prefix, &error)),
        }
    }
    Err(StartError::new(
        "the servers send us from region to region; name the bucket's with --region".to_owned(),
    ))
}

struct Attempt<'a> {
    runtime: &'a Runtime,
    options: CrtClientOptions,
    prefix: &'a str,
    deadline: Instant,
    time_max: Duration,
}

impl Attempt<'_> {
    /// The output of `future`, if it is ready in time.
    fn bounded<T>(&self, future: impl Future<Output = T>) -> Result<T, Elapsed> {
        // A timer needs the runtime's context.
        self.runtime
            .block_on(async { timeout_at(self.deadline, future).await })
    }

    fn client(&self) -> Result<CrtClient, StartError> {
        let connecting = CrtClient::connect(self.options.clone(), self.runtime.handle().clone());
        match self.bounded(connecting) {
            Ok(Ok(client)) => Ok(client),
            Ok(Err(error)) => Err(explain(&self.options, self.prefix, &error)),
            Err(_) => Err(StartError::new(format!(
                "no AWS credentials or region within {:?}: their provider (a profile's credential_process, a role, \
                 instance metadata) does not answer; check it, or set {} to wait longer",
                self.time_max,
                super::Environment::START_TIMEOUT,
            ))),
        }
    }

    fn list(
        &self,
        client: &Arc<dyn ObjectClient>,
    ) -> Result<Result<ListOutput, ClientError>, StartError> {
        let list = client.list(ListRequest {
            prefix: self.prefix.to_owned(),
            max_keys: Some(1),
            ..ListRequest::default()
        });
        match self.bounded(list) {
            Ok(answer) => Ok(answer),
            Err(_) => Err(StartError::new(format!(
                "the S3 server{} did not answer within {:?}; check --endpoint-url, the network and the proxy in \
                 between, or set {} to wait longer",
                place(&self.options),
                self.time_max,
                super::Environment::START_TIMEOUT,
            ))),
        }
    }
}

/// Regions to try: the default, and the one that its answer names.
const REGIONS_MAX: usize = 2;
