//! Bytes of an object that the server does not copy: they go through this machine.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{ETag, GetOutput, GetRequest, Key, Priority};
use mountpoint_client::{ClientError, ErrorKind, GetObserver, ObjectClient};
use mountpoint_crt_sys::block::{Block, BlockPool};
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
    let (sender, finished) = oneshot::channel();
    let request = GetRequest {
        key: key.clone(),
        range,
        if_match: Some(etag.clone()),
        object_size: None,
        priority: Priority::Foreground,
    };
    let get = client.get(request, fill, Arc::new(Finish(Mutex::new(Some(sender)))));
    let outcome = finished.await;
    drop(get);
    outcome.unwrap_or_else(|_| {
        let what = "the client is shutting down";
        Err(ClientError::new(ErrorKind::Cancelled, what))
    })?;
    Ok(Bytes::from_owner(Fetched { block, len }))
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
