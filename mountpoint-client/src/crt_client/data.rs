//! The CRT's clients: for each network interface one that is quick to give a connection up, and one that is patient.
//!
//! Which interface a request takes is [`Interfaces`]' choice; what became of the request is its news.

use std::sync::Arc;
use std::sync::OnceLock;

use mountpoint_crt_sys::{
    Client, ClientOptions, CrtError, ErrorKind as CrtErrorKind, Failure, Runtime,
};
use parking_lot::Mutex;

use super::options::PATIENT_STALL;
use crate::network::{Interfaces, Lane as Place};
use crate::{ClientError, ErrorKind};

/// All data clients. At least one.
#[derive(Debug)]
pub(super) struct DataClients {
    interfaces: Arc<Interfaces>,
    /// In the order of [`Place::index`].
    each: Vec<Arc<Clients>>,
}

/// The clients of one interface.
#[derive(Debug)]
struct Clients {
    /// Kept so that the patient client can be made later. The CRT's clients hold it too.
    runtime: Runtime,
    options: ClientOptions,
    reads: Client,
    /// For uploads and for what stalled; made when first needed, since many mounts never do.
    patient: OnceLock<Client>,
    /// Held while that is made, so that many GETs that stall at once make one. No other lock is held then.
    making: Mutex<()>,
}

impl DataClients {
    /// Clients with these options, but for the interface.
    pub(super) fn new(
        runtime: &Runtime,
        options: &ClientOptions,
        interfaces: Arc<Interfaces>,
    ) -> Result<Self, ClientError> {
        let clients = |name: Option<&str>| -> Result<_, ClientError> {
            let options = ClientOptions {
                network_interface: name.map(str::to_owned),
                ..options.clone()
            };
            let reads =
                Client::new(runtime, &options).map_err(|error| start_failed(&options, &error))?;
            Ok(Arc::new(Clients {
                runtime: runtime.clone(),
                options,
                reads,
                patient: OnceLock::new(),
                making: Mutex::new(()),
            }))
        };
        let each = interfaces.names().map(clients).collect::<Result<_, _>>()?;
        Ok(Self { interfaces, each })
    }

    /// How many interfaces there are.
    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    /// A place for a request of `bytes`, on another interface than `avoided` if there is a good one.
    pub(super) fn lane(&self, bytes: u64, avoided: Option<usize>) -> Lane {
        let place = self.interfaces.lane(bytes, avoided);
        let clients = Arc::clone(&self.each[place.index()]);
        Lane { place, clients }
    }
}

/// A request's place on an interface, given back on drop.
#[derive(Debug)]
pub(super) struct Lane {
    place: Place,
    clients: Arc<Clients>,
}

impl Lane {
    /// The client that notices a stalled connection soon.
    pub(super) fn quick(&self) -> &Client {
        &self.clients.reads
    }

    /// The client that gives the server time. Made at the first call, which takes some milliseconds: to be called with
    /// no lock held.
    pub(super) fn patient(&self) -> Client {
        let clients = &self.clients;
        if let Some(client) = clients.patient.get() {
            return client.clone();
        }
        let _making = clients.making.lock();
        if let Some(client) = clients.patient.get() {
            return client.clone();
        }
        let options = ClientOptions {
            stall_timeout: PATIENT_STALL,
            ..clients.options.clone()
        };
        match Client::new(&clients.runtime, &options) {
            Ok(client) => clients.patient.get_or_init(|| client).clone(),
            Err(error) => {
                tracing::warn!("cannot start another client, using the impatient one: {error}");
                clients.reads.clone()
            }
        }
    }

    /// The answer to a request; `None` if the interface dies before it comes.
    pub(super) async fn unless_dead<T>(
        &self,
        answer: &mut (impl Future<Output = T> + Unpin),
    ) -> Option<T> {
        self.place.unless_dead(answer).await
    }

    /// The interface that the request is on.
    pub(super) fn interface(&self) -> usize {
        self.place.index()
    }

    /// The request ended, with this failure or well. Returns the interface that the next attempt is to avoid.
    pub(super) fn ended(&self, failure: Option<&Failure>) -> Option<usize> {
        let Some(failure) = failure else {
            self.place.succeeded();
            return None;
        };
        match failure.error.kind() {
            CrtErrorKind::Response | CrtErrorKind::Refused => self.place.succeeded(),
            CrtErrorKind::Connect
            | CrtErrorKind::Tls
            | CrtErrorKind::Timeout
            | CrtErrorKind::Connection => {
                self.place.failed();
                return Some(self.place.index());
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
