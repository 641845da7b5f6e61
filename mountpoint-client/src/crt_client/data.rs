//! The CRT's clients: one for each network interface, and where the next request goes.
//!
//! Invariant: an interface's outstanding bytes are the sum of its live [`Lane`]s.

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use mountpoint_crt_sys::{Client, ClientOptions, CrtError, Runtime};

use super::options::PATIENT_STALL;
use crate::{ClientError, ErrorKind};

/// All data clients. At least one.
#[derive(Debug)]
pub(super) struct DataClients {
    interfaces: Vec<Arc<Interface>>,
}

/// One network interface, or the kernel's choice of one.
#[derive(Debug)]
struct Interface {
    /// Kept so that the patient client can be made later. The CRT's clients hold it too.
    runtime: Runtime,
    options: ClientOptions,
    reads: Client,
    /// For uploads and for what stalled; made when first needed, since many mounts never do.
    patient: OnceLock<Client>,
    outstanding: AtomicU64,
}

impl DataClients {
    /// One client for each set of options.
    pub(super) fn new(runtime: &Runtime, each: Vec<ClientOptions>) -> Result<Self, ClientError> {
        let interface = |options: ClientOptions| -> Result<_, ClientError> {
            let reads =
                Client::new(runtime, &options).map_err(|error| start_failed(&options, &error))?;
            Ok(Arc::new(Interface {
                runtime: runtime.clone(),
                options,
                reads,
                patient: OnceLock::new(),
                outstanding: AtomicU64::new(0),
            }))
        };
        let interfaces = each
            .into_iter()
            .map(interface)
            .collect::<Result<Vec<_>, _>>()?;
        assert!(!interfaces.is_empty(), "the caller asks for at least one");
        Ok(Self { interfaces })
    }

    /// How many interfaces there are.
    pub(super) fn count(&self) -> usize {
        self.interfaces.len()
    }

    /// The interface with the least to do, for a request of `bytes`.
    pub(super) fn lane(&self, bytes: u64) -> Lane {
        let least = self
            .interfaces
            .iter()
            .min_by_key(|interface| interface.outstanding.load(Ordering::Relaxed));
        let interface = Arc::clone(least.expect("there is at least one interface"));
        interface.outstanding.fetch_add(bytes, Ordering::Relaxed);
        Lane { interface, bytes }
    }
}

/// A request's place on an interface, given back on drop.
#[derive(Debug)]
pub(super) struct Lane {
    interface: Arc<Interface>,
    bytes: u64,
}

impl Lane {
    /// The client that notices a stalled connection soon.
    pub(super) fn quick(&self) -> &Client {
        &self.interface.reads
    }

    /// The client that gives the server time.
    pub(super) fn patient(&self) -> &Client {
        if let Some(client) = self.interface.patient.get() {
            return client;
        }
        let options = ClientOptions {
            stall_timeout: PATIENT_STALL,
            ..self.interface.options.clone()
        };
        match Client::new(&self.interface.runtime, &options) {
            Ok(client) => self.interface.patient.get_or_init(|| client),
            Err(error) => {
                tracing::warn!("cannot start another client, using the impatient one: {error}");
                &self.interface.reads
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.interface
            .outstanding
            .fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

fn start_failed(options: &ClientOptions, error: &CrtError) -> ClientError {
    let interface = options
        .network_interface
        .as_deref()
        .map(|name| format!(" on network interface {name} (is there such a one?)"))
        .unwrap_or_default();
    let what = format!(
        "cannot start the S3 client for {}{interface}: {error}",
        options.endpoint
    );
    ClientError::new(ErrorKind::InvalidRequest, what)
}
