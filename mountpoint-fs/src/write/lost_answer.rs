//! Whether a write happened whose answer was lost.
//!
//! A conditional request that is sent again, because nobody answered the first time, may be refused by what the first one
//! did. Then the bucket is asked: the bytes of a small object, or those that were appended, are compared; an upload that is gone was completed, because
//! nobody else knows its id.

use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{ETag, GetOutput, GetRequest, Key, Priority, Upload as OpenUpload};
use mountpoint_client::{ClientError, ErrorKind, GetObserver, ObjectClient};
use mountpoint_crt_sys::block::BlockPool;

use super::background::Settled;
use super::writer::Stored;
use crate::config::limits::WRITE_SIZE_MAX;

/// The object at `key`, if it has exactly these bytes.
pub(super) async fn of_put(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    body: &Bytes,
) -> Option<Stored> {
    let size = body.len() as u64;
    let info = client.head(key).await.ok()?;
    if info.size != size {
        return None;
    }
    let stored = Stored {
        etag: info.etag,
        size,
    };
    let is_there = holds(client, pool, key, (&stored.etag, 0), body).await;
    is_there.then_some(stored)
}

/// The object at `key`, if it ends with exactly these bytes behind `offset`.
pub(super) async fn of_append(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    offset: u64,
    body: &Bytes,
) -> Option<Stored> {
    let size = offset + body.len() as u64;
    let info = client.head(key).await.ok()?;
    if info.size != size {
        return None;
    }
    let stored = Stored {
        etag: info.etag,
        size,
    };
    let is_there = holds(client, pool, key, (&stored.etag, offset), body).await;
    is_there.then_some(stored)
}

/// Whether the version of the object holds `bytes` at the offset.
async fn holds(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    (version, mut offset): (&ETag, u64),
    bytes: &Bytes,
) -> bool {
    for piece in bytes.chunks(WRITE_SIZE_MAX) {
        let end = offset + piece.len() as u64;
        let request = GetRequest {
            key: key.clone(),
            range: offset..end,
            if_match: Some(version.clone()),
            priority: Priority::Foreground,
        };
        let fill = pool.allocate(piece.len());
        let block = fill.block();
        let finished = Finished(Settled::new());
        let settled = finished.0.clone();
        let get = client.get(request, fill, Arc::new(finished));
        let is_there = settled.wait().await;
        drop(get);
        if !is_there || block.bytes(0..piece.len()) != piece {
            return false;
        }
        offset = end;
    }
    true
}

/// The object that `upload` became, of `size` bytes. An upload that did not become one is aborted.
pub(super) async fn of_complete(
    client: &dyn ObjectClient,
    upload: &OpenUpload,
    size: u64,
) -> Option<Stored> {
    match client.abort_upload(upload).await {
        Err(error) if error.kind == ErrorKind::NoSuchUpload => {}
        Ok(()) | Err(_) => return None,
    }
    let info = client.head(&upload.key).await.ok()?;
    (info.size == size).then_some(Stored {
        etag: info.etag,
        size,
    })
}

struct Finished(Settled<bool>);

impl GetObserver for Finished {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.0.settle(outcome.is_ok());
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use mountpoint_client::SimClient;
    use mountpoint_client::sim::SimOptions;
    use mountpoint_client::types::{ObjectHeaders, PartNumber, PutCondition};

    use super::*;

    #[test]
    fn an_object_of_the_same_bytes_is_ours() {
        let client = SimClient::new(SimOptions::default());
        let pool = BlockPool::new(0);
        let key = Key::parse("key").unwrap();
        let ask = |body: &[u8]| {
            let body = Bytes::copy_from_slice(body);
            let asked = of_put(&client, &pool, &key, &body).now_or_never().unwrap();
            asked.is_some()
        };
        assert!(!ask(b"hello"));
        client.put_object("key", "hello");
        assert!(ask(b"hello"));
        assert!(!ask(b"hallo"));
        assert!(!ask(b"hello world"));
        let large = vec![3; 3 << 20];
        client.put_object("key", large.clone());
        assert!(ask(&large));
        client.put_object("key", "");
        assert!(ask(b""));
    }

    #[test]
    fn an_upload_that_is_gone_was_completed() {
        let client = SimClient::new(SimOptions::default());
        let key = Key::parse("key").unwrap();
        let begin = || {
            let begun = client.create_upload(&key, ObjectHeaders::default(), None);
            begun.now_or_never().unwrap().unwrap()
        };
        let ask = |upload: &OpenUpload| {
            let asked = of_complete(&client, upload, 5).now_or_never().unwrap();
            asked.is_some()
        };
        let open = begin();
        assert!(!ask(&open));
        assert!(
            client
                .list_uploads("")
                .now_or_never()
                .unwrap()
                .unwrap()
                .is_empty()
        );
        let completed = begin();
        let body = Bytes::from_static(b"hello");
        let part = client.put_part(&completed, PartNumber(1), body, None);
        let part = part.now_or_never().unwrap().unwrap();
        let done = client.complete_upload(&completed, vec![part], PutCondition::Absent);
        done.now_or_never().unwrap().unwrap();
        assert!(ask(&completed));
    }
}
