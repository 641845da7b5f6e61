//! Whether a write happened whose answer was lost.
//!
//! A conditional request that is sent again, because nobody answered the first time, may be refused by what the first one
//! did. Then the bucket is asked: the bytes of a small object, or those that were appended, are compared; an upload that is
//! gone was completed, because nobody else knows its id.

use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{ETag, GetOutput, GetRequest, Key, Priority, Upload as OpenUpload};
use mountpoint_client::{ClientError, ErrorKind, GetObserver, ObjectClient};
use mountpoint_crt_sys::block::BlockPool;

use super::background::Settled;
use super::writer::Stored;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::mutate::lost_upload::{self, Wanted};

/// The object at `key`, if it is exactly these bytes.
pub(super) async fn of_object(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    body: &Bytes,
) -> Result<Option<Stored>, ClientError> {
    let is_size = |size| size == body.len() as u64;
    of_bytes(client, pool, key, (0, body), is_size).await
}

/// The object at `key`, if it has these bytes at `offset`. Others may have appended to it since: then it is larger.
pub(super) async fn of_append(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    offset: u64,
    body: &Bytes,
) -> Result<Option<Stored>, ClientError> {
    let is_size = |size| size >= offset + body.len() as u64;
    of_bytes(client, pool, key, (offset, body), is_size).await
}

async fn of_bytes(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    (offset, body): (u64, &Bytes),
    is_size: impl Fn(u64) -> bool + Send,
) -> Result<Option<Stored>, ClientError> {
    let (etag, size) = match client.head(key).await {
        Ok(info) if is_size(info.size) => (info.etag, info.size),
        Ok(_) => return Ok(None),
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unknown(error)),
    };
    let is_there = holds(client, pool, key, (&etag, offset), body).await?;
    Ok(is_there.then_some(Stored { etag, size }))
}

/// Neither "it is ours" nor "it is somebody else's" can be said.
fn unknown(mut error: ClientError) -> ClientError {
    error.message.insert_str(
        0,
        "the answer of a write was lost, and whether it took place could not be found out: ",
    );
    error
}

/// Whether the version of the object holds `bytes` at the offset.
async fn holds(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    (version, mut offset): (&ETag, u64),
    bytes: &Bytes,
) -> Result<bool, ClientError> {
    for piece in bytes.chunks(WRITE_SIZE_MAX) {
        let end = offset + piece.len() as u64;
        let request = GetRequest {
            key: key.clone(),
            range: offset..end,
            if_match: Some(version.clone()),
            object_size: None,
            priority: Priority::Foreground,
        };
        let fill = pool.allocate(piece.len());
        let block = fill.block();
        let finished = Finished(Settled::new());
        let settled = finished.0.clone();
        let get = client.get(request, fill, Arc::new(finished));
        let outcome = settled.wait().await;
        drop(get);
        match outcome {
            Ok(()) if block.bytes(0..piece.len()) == piece => {}
            Ok(()) => return Ok(false),
            Err(error) if is_replaced(&error) => return Ok(false),
            Err(error) => return Err(unknown(error)),
        }
        offset = end;
    }
    Ok(true)
}

fn is_replaced(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotFound | ErrorKind::PreconditionFailed
    )
}

/// The object that `upload` became. An upload that did not become one is aborted.
pub(super) async fn of_complete(
    client: &dyn ObjectClient,
    upload: &OpenUpload,
    wanted: Wanted<'_>,
) -> Option<Stored> {
    let abandoned = lost_upload::abandon(client, upload, true).await;
    let etag = lost_upload::became(client, upload, &abandoned, wanted).await?;
    let size = wanted.size;
    Some(Stored { etag, size })
}

struct Finished(Settled<Result<(), ClientError>>);

impl GetObserver for Finished {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.0.settle(outcome.map(|_| ()));
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use mountpoint_client::SimClient;
    use mountpoint_client::sim::{Operation, SimOptions};
    use mountpoint_client::types::{ObjectHeaders, Part, PartNumber, PutCondition};

    use super::*;

    #[test]
    fn an_object_of_the_same_bytes_is_ours() {
        let client = SimClient::new(SimOptions::default());
        let pool = BlockPool::new(0);
        let key = Key::parse("key").unwrap();
        let ask = |body: &[u8]| {
            let body = Bytes::copy_from_slice(body);
            let asked = of_object(&client, &pool, &key, &body).now_or_never();
            asked.unwrap().unwrap().is_some()
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
    fn appended_bytes_are_ours_whatever_others_appended_behind_them() {
        let client = SimClient::new(SimOptions::default());
        let (pool, key) = (BlockPool::new(0), Key::parse("key").unwrap());
        let body = Bytes::from_static(b"mine");
        for (object, is_ours) in [
            ("old mine", true),
            ("old mine, theirs", true),
            ("old ", false),
            ("old min", false),
            ("old theirs", false),
            ("mine", false),
        ] {
            let there = client.put_object("key", object);
            let asked = of_append(&client, &pool, &key, 4, &body).now_or_never();
            let stored = asked.unwrap().unwrap();
            assert_eq!(stored.is_some(), is_ours, "{object}");
            if let Some(stored) = stored {
                let size = object.len() as u64;
                assert_eq!((stored.etag, stored.size), (there.etag, size), "{object}");
            }
        }
    }

    #[test]
    fn what_cannot_be_found_out_is_not_said() {
        let client = SimClient::new(SimOptions::default());
        let (pool, key) = (BlockPool::new(0), Key::parse("key").unwrap());
        client.put_object("key", "hello");
        for (operation, kind, known) in [
            (Operation::HeadObject, ErrorKind::NotFound, true),
            (Operation::GetObject, ErrorKind::PreconditionFailed, true),
            (Operation::HeadObject, ErrorKind::Transient, false),
            (Operation::GetObject, ErrorKind::Transient, false),
        ] {
            client.fail_next(operation, 1, kind.clone());
            let body = Bytes::from_static(b"hello");
            let asked = of_object(&client, &pool, &key, &body).now_or_never();
            let asked = asked.unwrap();
            assert_eq!(asked.is_ok(), known, "{operation:?} {kind:?}");
            assert!(!matches!(asked, Ok(Some(_))));
        }
    }

    #[test]
    fn an_upload_that_is_gone_was_completed() {
        let client = SimClient::new(SimOptions::default());
        let key = Key::parse("key").unwrap();
        let begin = || {
            let begun = client.create_upload(&key, ObjectHeaders::default(), None);
            begun.now_or_never().unwrap().unwrap()
        };
        let ask_for = |upload: &OpenUpload, (size, parts): (u64, &[Part]), old: Option<&ETag>| {
            let wanted = Wanted { size, parts, old };
            let asked = of_complete(&client, upload, wanted).now_or_never();
            asked.unwrap().is_some()
        };
        let unknown = |number| Part {
            number: PartNumber(number),
            etag: ETag::from_header("\"no digest\""),
            size: 5,
            checksum: None,
        };
        let ask = |upload: &OpenUpload| ask_for(upload, (5, &[unknown(1)]), None);
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
        let made_of = vec![part.clone()];
        let done = client.complete_upload(&completed, made_of, PutCondition::Absent);
        done.now_or_never().unwrap().unwrap();
        drop(client.take_log());
        assert!(ask(&completed));
        // No abort was needed to know it, which MinIO says of every upload that it was done.
        assert_eq!(client.take_log().count(Operation::AbortMultipartUpload), 0);
        // Who may not list the parts is told by the abort.
        client.fail_next(Operation::ListParts, 1, ErrorKind::Denied);
        assert!(ask(&completed));
        // What is there is not what the upload was to become, which somebody has aborted.
        let there = client.object("key").unwrap().etag;
        let other = ETag::from_header("\"another\"");
        let (one, two) = ([unknown(1)], [unknown(1), unknown(2)]);
        for (made_of, old, is_ours) in [
            ((6, &one[..]), None, false),
            ((5, &two[..]), None, false),
            ((5, &one[..]), Some(&there), false),
            ((5, &one[..]), Some(&other), true),
        ] {
            let asked = ask_for(&completed, made_of, old);
            assert_eq!(asked, is_ours, "{made_of:?} {old:?}");
        }
        // Who may not list the parts of a server that says of every abort that it was done sees it by the tags of the parts,
        // unless what was there before had the same: only what it carries would be new, and that is not seen.
        for (old, is_ours) in [(None, true), (Some(&other), true), (Some(&there), false)] {
            let asked = ask_for(&begin(), (5, std::slice::from_ref(&part)), old);
            assert_eq!(asked, is_ours, "{old:?}");
        }
        let asked = ask_for(&completed, (5, &[part]), Some(&there));
        assert!(asked, "the same bytes again, of an upload that is gone");
        assert!(!ask(&begin()));
        client.put_object("key", "hello");
        assert!(
            ask(&completed),
            "where nothing tells the parts, the size has to do"
        );
    }
}
