//! A client, with what it needs to be asked for something.

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use futures::executor::block_on;
use mountpoint_crt_sys::block::{Block, BlockPool};
use tokio::runtime::Runtime;

use crate::credentials::CredentialsMode;
use crate::crt_client::fuzz::assert_shown;
use crate::instance::MetadataUse;
use crate::types::{ETag, GetOutput, GetRequest, Key, Priority};
use crate::{ClientError, CrtClient, CrtClientOptions, GetObserver, ObjectClient, Pending};

/// A client of one server, which asks once.
pub(super) struct Scene {
    runtime: Runtime,
    options: CrtClientOptions,
    pub(super) client: CrtClient,
    pool: BlockPool,
}

impl Scene {
    /// A client of the server at `address`; over TLS if it is given an authority.
    pub(super) fn new(address: SocketAddr, ca_bundle: Option<&[u8]>) -> Self {
        let scheme = ca_bundle.map_or("http", |_| "https");
        let options = CrtClientOptions {
            region: Some("us-east-1".to_owned()),
            endpoint_url: Some(format!("{scheme}://{address}")),
            force_path_style: true,
            credentials: CredentialsMode::Unsigned,
            instance_metadata: MetadataUse::Never,
            ca_bundle: ca_bundle.map(<[u8]>::to_vec),
            max_attempts: 1,
            event_loop_threads: Some(1),
            ..CrtClientOptions::new("b")
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .expect("a runtime can be started");
        Self {
            client: connect(&options, &runtime),
            options,
            runtime,
            pool: BlockPool::new(1 << 20),
        }
    }

    /// Takes another client if this one has been told to slow down.
    pub(super) fn forget_throttling(&mut self) {
        if self.client.is_throttled() {
            self.client = connect(&self.options, &self.runtime);
        }
    }

    /// The outcome, which comes soon, and whose error can be shown.
    #[track_caller]
    pub(super) fn wait<T: Debug>(&self, pending: Pending<T>) -> Result<T, ClientError> {
        let outcome = self
            .runtime
            .block_on(async { tokio::time::timeout(SOON, pending).await });
        let outcome = outcome.expect("the operation ends");
        outcome.inspect_err(assert_shown)
    }

    /// A GET into a block: what the block shows, and the outcome.
    #[track_caller]
    pub(super) fn get(&self, request: GetRequest) -> (Block, Result<GetOutput, ClientError>) {
        let len = usize::try_from(request.range.end - request.range.start);
        let fill = self.pool.allocate(len.expect("a short range"));
        let block = fill.block();
        let (sender, outcome) = channel();
        let observer = Arc::new(Observer(sender));
        let _handle = self.client.get(request, fill, observer);
        let outcome = outcome.recv_timeout(SOON).expect("the GET ends");
        (block, outcome.inspect_err(assert_shown))
    }
}

fn connect(options: &CrtClientOptions, runtime: &Runtime) -> CrtClient {
    let client = CrtClient::connect(options.clone(), runtime.handle().clone());
    block_on(client).expect("the client starts")
}

struct Observer(Sender<Result<GetOutput, ClientError>>);

impl GetObserver for Observer {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.0.send(outcome).ok();
    }
}

/// The object that is asked for.
pub(super) fn key() -> Key {
    Key::parse("k").expect("a possible key")
}

/// The GET of ten bytes of a version of 100.
pub(super) fn part() -> GetRequest {
    GetRequest {
        key: key(),
        range: 10..20,
        if_match: Some(ETag::from_header("\"a\"")),
        object_size: Some(100),
        priority: Priority::Foreground,
    }
}

/// Each answer ends at once. A starved machine takes longer.
const SOON: Duration = Duration::from_secs(20);
