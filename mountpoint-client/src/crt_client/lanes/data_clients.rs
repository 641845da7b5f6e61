//! The CRT's clients, three for each network interface: a quick one for data, which soon gives up a
//! stalled connection, a patient one for data, and one for control requests.
//!
//! So a control request never waits for a connection with data. [`Interfaces`] chooses the
//! interface of a request, and gets its outcome.

use std::sync::Arc;
use std::sync::OnceLock;

use mountpoint_crt_sys::{
    Client, ClientOptions, CrtError, ErrorKind as CrtErrorKind, Failure, Runtime,
};
use parking_lot::Mutex;

use super::idle::Keeper;
use crate::crt_client::options::{CONTROL_IN_FLIGHT_MAX, GBPS_PER_CONNECTION, PATIENT_STALL};
use crate::network::{Interfaces, Lane as InterfaceLane};
use crate::{ClientError, ErrorKind};

/// All data clients. At least one.
#[derive(Debug)]
pub(in crate::crt_client) struct DataClients {
    interfaces: Arc<Interfaces>,
    /// In the order of [`InterfaceLane::index`].
    each: Vec<Arc<Clients>>,
}

/// The clients of one interface.
#[derive(Debug)]
struct Clients {
    /// Kept so that the others can be made later. The CRT's clients hold it too.
    runtime: Runtime,
    reads: Client,
    /// For uploads and for what stalled.
    patient: LazyClient,
    /// For requests without data, a connection for each that may be in flight.
    control: LazyClient,
    keeper: Arc<Keeper>,
}

/// A client that is made when it is first needed, since some mounts never do.
#[derive(Debug)]
struct LazyClient {
    options: ClientOptions,
    client: OnceLock<Client>,
    /// Held while it is made, so that many requests at once make one. No other lock is held then.
    creation: Mutex<()>,
}

impl DataClients {
    /// Clients with these options, but for the interface.
    pub(in crate::crt_client) fn new(
        runtime: &Runtime,
        options: &ClientOptions,
        interfaces: Arc<Interfaces>,
        keeper: Arc<Keeper>,
    ) -> Result<Self, ClientError> {
        let clients = |name: Option<&str>| -> Result<_, ClientError> {
            let options = ClientOptions {
                network_interface: name.map(str::to_owned),
                ..options.clone()
            };
            let reads =
                Client::new(runtime, &options).map_err(|error| start_failed(&options, &error))?;
            let patient = ClientOptions {
                stall_timeout: PATIENT_STALL,
                ..options
            };
            let control = ClientOptions {
                throughput_target_gbps: CONTROL_IN_FLIGHT_MAX as f64 * GBPS_PER_CONNECTION,
                ..patient.clone()
            };
            Ok(Arc::new(Clients {
                runtime: runtime.clone(),
                reads,
                patient: LazyClient::new(patient),
                control: LazyClient::new(control),
                keeper: Arc::clone(&keeper),
            }))
        };
        let each = interfaces.names().map(clients).collect::<Result<_, _>>()?;
        Ok(Self { interfaces, each })
    }

    /// How many interfaces there are.
    pub(in crate::crt_client) fn count(&self) -> usize {
        self.each.len()
    }

    /// A place for a request of `bytes`, on another interface than `avoided` if there is a good
    /// one.
    pub(in crate::crt_client) fn lane(&self, bytes: u64, avoided: Option<usize>) -> Lane {
        let on_interface = self.interfaces.lane(bytes, avoided);
        let clients = Arc::clone(&self.each[on_interface.index()]);
        Lane {
            on_interface,
            clients,
        }
    }
}

impl Clients {
    fn lazy(&self, lazy: &LazyClient) -> Client {
        let client = lazy.get(&self.runtime).unwrap_or_else(|error| {
            tracing::warn!("cannot start another client, using the impatient one: {error}");
            self.reads.clone()
        });
        self.keeper.used(&client);
        client
    }
}

impl LazyClient {
    fn new(options: ClientOptions) -> Self {
        Self {
            options,
            client: OnceLock::new(),
            creation: Mutex::new(()),
        }
    }

    /// The client, made at the first call, which takes some milliseconds.
    fn get(&self, runtime: &Runtime) -> Result<Client, CrtError> {
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let _creation = self.creation.lock();
        if let Some(client) = self.client.get() {
            return Ok(client.clone());
        }
        let client = Client::new(runtime, &self.options)?;
        Ok(self.client.get_or_init(|| client).clone())
    }
}

/// A request's place on an interface, given back on drop.
#[derive(Debug)]
pub(in crate::crt_client) struct Lane {
    on_interface: InterfaceLane,
    clients: Arc<Clients>,
}

impl Lane {
    /// The client that notices a stalled connection soon.
    pub(in crate::crt_client) fn quick(&self) -> &Client {
        self.clients.keeper.used(&self.clients.reads);
        &self.clients.reads
    }

    /// The client that gives the server time, for data. To be called with no lock held.
    pub(in crate::crt_client) fn patient(&self) -> Client {
        self.clients.lazy(&self.clients.patient)
    }

    /// The client of control requests. To be called with no lock held.
    pub(in crate::crt_client) fn control(&self) -> Client {
        self.clients.lazy(&self.clients.control)
    }

    /// The answer to a request; `None` if the interface dies before it comes.
    pub(in crate::crt_client) async fn unless_dead<T>(
        &self,
        answer: &mut (impl Future<Output = T> + Unpin),
    ) -> Option<T> {
        self.on_interface.unless_dead(answer).await
    }

    /// The interface that the request is on.
    pub(in crate::crt_client) fn interface(&self) -> usize {
        self.on_interface.index()
    }

    /// The request ended, with this failure or well. Returns the interface that the next attempt is
    /// to avoid.
    pub(in crate::crt_client) fn ended(&self, failure: Option<&Failure>) -> Option<usize> {
        let Some(failure) = failure else {
            self.on_interface.succeeded();
            return None;
        };
        match failure.error.kind() {
            CrtErrorKind::Response | CrtErrorKind::Refused => self.on_interface.succeeded(),
            CrtErrorKind::Connect
            | CrtErrorKind::Tls
            | CrtErrorKind::Timeout
            | CrtErrorKind::Connection => {
                self.on_interface.failed();
                return Some(self.on_interface.index());
            }
            CrtErrorKind::Cancelled
            | CrtErrorKind::Dns
            | CrtErrorKind::Credentials
            | CrtErrorKind::Other => {}
        }
        None
    }
}

fn start_failed(options: &ClientOptions, error: &CrtError) -> ClientError {
    let interface = options
        .network_interface
        .as_deref()
        .map(|name| format!(" on network interface {name}"))
        .unwrap_or_default();
    let what = format!(
        "cannot start the S3 client for {}{interface}: {error}",
        options.endpoint
    );
    ClientError::new(ErrorKind::InvalidRequest, what)
}
