//! Our own client to the server of a run: for the limit that it sets, and for objects that are
//! stored and checked.

use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use futures::channel::oneshot;
use mountpoint_client::types::{
    GetOutput, GetRequest, Key, ObjectHeaders, Priority, PutCondition, PutRequest,
};
use mountpoint_client::{ClientError, CrtClient, GetObserver, ObjectClient};
use mountpoint_crt_sys::block::{Block, BlockPool};
use mountpoint_fs::cli::Invocation;
use mountpoint_fs::mount::{Environment, MountConfig};
use parking_lot::Mutex;
use tokio::runtime::Runtime;

/// The client with its runtime. Dropped in the order of its fields: callbacks need the runtime to
/// the last.
#[derive(Debug)]
pub(crate) struct StoreClient {
    pub(crate) client: Arc<dyn ObjectClient>,
    pub(crate) pool: BlockPool,
    runtime: Runtime,
}

impl StoreClient {
    /// Connects as `mount-s3` would with its defaults.
    pub(crate) fn connect(url: &str, bucket: &str) -> Result<Self> {
        let arguments = [bucket, "/", "--endpoint-url", url, "--force-path-style"];
        let config = settings(&arguments)?;
        let runtime = runtime()?;
        let client = CrtClient::connect(config.client, runtime.handle().clone());
        Ok(Self {
            client: Arc::new(runtime.block_on(client)?),
            pool: BlockPool::new(usize::try_from(config.fs.read.memory_max)?),
            runtime,
        })
    }

    /// Over a store in memory.
    #[cfg(test)]
    pub(crate) fn over(client: Arc<dyn ObjectClient>) -> Self {
        Self {
            client,
            pool: BlockPool::new(0),
            runtime: runtime().unwrap(),
        }
    }

    pub(crate) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }
}

/// The settings of a mount with this command line, as `mount-s3` understands it.
pub(crate) fn settings(arguments: &[&str]) -> Result<MountConfig> {
    let words = ["mount-s3"].iter().chain(arguments).map(Into::into);
    let Invocation::Mount(args) = Invocation::parse(words, &[])? else {
        bail!("{arguments:?} does not mount");
    };
    let environment = Environment::read().map_err(|error| anyhow!(error))?;
    MountConfig::resolve(&args, &environment).map_err(|error| anyhow!(error))
}

pub(crate) fn runtime() -> Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    Ok(builder.worker_threads(2).enable_all().build()?)
}

struct Waiter(Mutex<Option<oneshot::Sender<Result<GetOutput, ClientError>>>>);

impl GetObserver for Waiter {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        if let Some(sender) = self.0.lock().take() {
            let _not_awaited = sender.send(outcome);
        }
    }
}

/// One GET; every byte of the block is valid.
pub(crate) async fn get(
    client: &Arc<dyn ObjectClient>,
    pool: &BlockPool,
    key: &str,
    range: Range<u64>,
) -> Result<Block> {
    let len = usize::try_from(range.end - range.start)?;
    let (sender, finished) = oneshot::channel();
    let request = GetRequest {
        key: parse_key(key)?,
        range,
        if_match: None,
        object_size: None,
        priority: Priority::Foreground,
    };
    let observer = Arc::new(Waiter(Mutex::new(Some(sender))));
    let fill = pool.allocate(len);
    let block = fill.block();
    let _in_flight = client.get(request, fill, observer);
    match finished.await {
        Ok(Ok(_)) => Ok(block),
        Ok(Err(error)) => Err(anyhow!(error)),
        Err(_) => bail!("a GET was forgotten"),
    }
}

/// One PUT, of up to 5 GiB.
pub(crate) async fn put(client: &Arc<dyn ObjectClient>, key: &str, body: Bytes) -> Result<()> {
    let request = PutRequest {
        key: parse_key(key)?,
        body,
        condition: PutCondition::None,
        checksum: None,
        headers: ObjectHeaders::default(),
    };
    let _version = client.put(request).await?;
    Ok(())
}

pub(crate) fn parse_key(key: &str) -> Result<Key> {
    Key::parse(key).context("a key that S3 can store")
}
