//! A bucket with one object, and one request of each way that requests take.

use std::ops::Range;
use std::sync::Arc;

use futures::executor::block_on;
use futures::{StreamExt as _, TryStreamExt as _};
use mountpoint_client::object_client::GetObserver;
use mountpoint_client::testing::server::{Server, ServerOptions, synthetic_bytes};
use mountpoint_client::types::{
    GetOutput, GetRequest, Key, ObjectHeaders, Priority, PutCondition, PutRequest,
};
use mountpoint_client::{ClientError, CrtClient, CrtClientOptions, ErrorKind, ObjectClient};
use mountpoint_crt_sys::block::{Block, BlockPool};
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

pub(crate) const BUCKET: &str = "bucket";
pub(crate) const KEY: &str = "object";
/// How the large object is read: in parts so small that each of several interfaces gets many.
const LARGE_PART: u64 = 32 << 10;
const LARGE_PARTS_IN_FLIGHT: usize = 32;
const CONTENT: &[u8] = b"one two three four";

/// The embedded server with the bucket.
pub(crate) fn server() -> Server {
    server_at("127.0.0.1:0")
}

pub(crate) fn server_at(address: &str) -> Server {
    let server = Server::start(ServerOptions {
        address: address.parse().unwrap(),
        ..ServerOptions::default()
    });
    let server = server.unwrap();
    server.store().create_bucket(BUCKET);
    server.store().put(BUCKET, KEY, CONTENT.to_vec());
    server
}

pub(crate) fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap()
}

/// Options for the bucket at an endpoint.
pub(crate) fn options(endpoint: &str) -> CrtClientOptions {
    let mut options = CrtClientOptions::new(BUCKET);
    options.region = Some("us-east-1".to_owned());
    options.endpoint_url = Some(endpoint.to_owned());
    options.force_path_style = true;
    options
}

/// A client and the runtime that it needs.
pub(crate) struct Connected {
    pub(crate) client: CrtClient,
    _runtime: Runtime,
}

pub(crate) fn connect(options: CrtClientOptions) -> Result<Connected, ClientError> {
    let runtime = runtime();
    let client = block_on(CrtClient::connect(options, runtime.handle().clone()))?;
    Ok(Connected {
        client,
        _runtime: runtime,
    })
}

impl Connected {
    /// HeadObject: a control request.
    pub(crate) fn head(&self) -> Result<(), ClientError> {
        block_on(self.client.head(&key())).map(drop)
    }

    /// GetObject: data from S3.
    pub(crate) fn get(&self) -> Result<(), ClientError> {
        let block = block_on(self.range(KEY, 0..CONTENT.len() as u64, Priority::Foreground))?;
        assert_eq!(block.bytes(0..CONTENT.len()), CONTENT);
        Ok(())
    }

    /// A GET that hedges one that is late over the first interface.
    pub(crate) fn get_elsewhere(&self) -> Result<(), ClientError> {
        let late = Priority::Hedge { avoid: Some(0) };
        block_on(self.range(KEY, 0..CONTENT.len() as u64, late)).map(drop)
    }

    /// The whole object `large`, as synthetic bytes of seed 1, by many GETs at once.
    pub(crate) fn get_large(&self) -> Result<(), ClientError> {
        let key = Key::parse("large").unwrap();
        let size = block_on(self.client.head(&key))?.size;
        let ranges = (0..size / LARGE_PART).map(|part| {
            let range = part * LARGE_PART..(part + 1) * LARGE_PART;
            let get = self.range("large", range.clone(), Priority::Foreground);
            async move {
                let block = get.await?;
                let expected = synthetic_bytes(1, range);
                assert!(block.bytes(0..expected.len()) == expected, "wrong bytes");
                Ok(())
            }
        });
        let gets = futures::stream::iter(ranges).buffer_unordered(LARGE_PARTS_IN_FLIGHT);
        block_on(gets.try_for_each(|()| std::future::ready(Ok(()))))
    }

    fn range(
        &self,
        key: &str,
        range: Range<u64>,
        priority: Priority,
    ) -> impl Future<Output = Result<Block, ClientError>> + use<> {
        let len = usize::try_from(range.end - range.start).unwrap();
        let into = BlockPool::new(0).allocate(len);
        let block = into.block();
        let (sender, receiver) = oneshot::channel();
        let request = GetRequest {
            key: Key::parse(key).unwrap(),
            range,
            if_match: None,
            object_size: None,
            priority,
        };
        let observer = Observer(parking_lot::Mutex::new(Some(sender)));
        drop(self.client.get(request, into, Arc::new(observer)));
        async move {
            let outcome = receiver.await.expect("an observer is told once");
            outcome.map(|_| block)
        }
    }

    /// PutObject: data to S3.
    pub(crate) fn put(&self) -> Result<(), ClientError> {
        let request = PutRequest {
            key: Key::parse("written").unwrap(),
            body: CONTENT.into(),
            condition: PutCondition::None,
            checksum: None,
            headers: ObjectHeaders::default(),
        };
        block_on(self.client.put(request)).map(drop)
    }

    /// HeadBucket: a request of the AWS SDK.
    pub(crate) fn head_bucket(&self) -> Result<(), ClientError> {
        block_on(self.client.head_bucket()).map(drop)
    }

    /// One of each.
    pub(crate) fn use_all(&self) -> Result<(), ClientError> {
        self.head()?;
        self.get()?;
        self.put()
    }
}

fn key() -> Key {
    Key::parse(KEY).unwrap()
}

/// The waiter of a GET.
type Waiter = oneshot::Sender<Result<GetOutput, ClientError>>;

struct Observer(parking_lot::Mutex<Option<Waiter>>);

impl GetObserver for Observer {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        if let Some(waiter) = self.0.lock().take() {
            drop(waiter.send(outcome));
        }
    }
}

/// The error of a client that must not start, or of a request that must fail, with what its message
/// must hold.
#[track_caller]
pub(crate) fn check_error(error: &ClientError, kind: &ErrorKind, texts: &[&str]) {
    assert_eq!(error.kind, *kind, "{error}");
    assert!(!error.message.contains('\n'), "{error:?}");
    for text in texts {
        assert!(error.message.contains(text), "{text:?} is not in: {error}");
    }
}
