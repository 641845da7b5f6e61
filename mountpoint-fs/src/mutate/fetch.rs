//! Bytes of an object that the server does not copy: they go through this machine.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{ETag, GetOutput, GetRequest, Key, Priority};
use mountpoint_client::{ClientError, ErrorKind, GetHandle, GetObserver, ObjectClient};
use mountpoint_crt_sys::block::{Block, BlockFill, BlockPool};
use tokio::sync::oneshot;

use crate::sync::Mutex;

/// `range` of the version `etag` of the object, entirely in memory.
pub(crate) async fn fetch(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    (key, etag): (&Key, &ETag),
    range: Range<u64>,
) -> Result<Bytes, ClientError> {
    let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let fill = pool.allocate(len);
    let block = fill.block();
    let request = GetRequest {
        key: key.clone(),
        range,
        if_match: Some(etag.clone()),
        object_size: None,
        priority: Priority::Foreground,
    };
    let (_get, outcome) = begin_get(client, request, fill);
    outcome.await?;
    Ok(Bytes::from_owner(Fetched { block, len }))
}

/// Sends a GET into `fill`. Returns its handle, and its outcome, which nobody need wait for.
pub(crate) fn begin_get(
    client: &dyn ObjectClient,
    request: GetRequest,
    fill: BlockFill,
) -> (
    GetHandle,
    impl Future<Output = Result<(), ClientError>> + use<>,
) {
    let (sender, finished) = oneshot::channel();
    let get = client.get(request, fill, Arc::new(Finish(Mutex::new(Some(sender)))));
    let outcome = async move {
        finished.await.unwrap_or_else(|_| {
            let what = "the client is shutting down";
            Err(ClientError::new(ErrorKind::Cancelled, what))
        })
    };
    (get, outcome)
}

/// A block that is valid to its end.
struct Fetched {
    block: Block,
    len: usize,
}

impl AsRef<[u8]> for Fetched {
    fn as_ref(&self) -> &[u8] {
        self.block.bytes(0..self.len)
    }
}

/// Delivers the outcome of the GET. The lock is held for an instant.
struct Finish(Mutex<Option<oneshot::Sender<Result<(), ClientError>>>>);

impl GetObserver for Finish {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        let sender = self.0.lock().take();
        if let Some(sender) = sender {
            // The receiver may have given up.
            sender.send(outcome.map(drop)).ok();
        }
    }
}
