//! The outcome of a write with a lost answer.
//!
//! After a lost answer a conditional request is sent again, and the effect of the first request may
//! refuse it. Then the bucket is asked: the bytes of a small object, or the appended bytes, are
//! compared; a missing upload was completed, because no other client knows its id. A request that a
//! proxy may have sent twice is examined in the same way.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{
    Checksum, ChecksumAlgorithm, ETag, GetOutput, GetRequest, Key, ObjectInfo, Priority,
    Upload as OpenUpload,
};
use mountpoint_client::{ClientError, ErrorKind, GetObserver, ObjectClient};
use mountpoint_crt_sys::block::BlockPool;

use crate::config::limits::WRITE_SIZE_MAX;
use crate::mutate::fault::{Doubt, may_be_own, tell_own, unknown};
use crate::mutate::lost_upload::{self, Abandoned, IntendedObject};
use crate::write::background::SharedOutcome;
use crate::write::checksum::{RunningChecksum, algorithm_of, joined};
use crate::write::types::Stored;

/// The object at `key`, if it has exactly the bytes of a request that failed with `error`.
pub(in crate::write) async fn of_object(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    body: &Bytes,
    error: &ClientError,
) -> Result<Option<Stored>, ClientError> {
    let Some(doubt) = Doubt::of(error) else {
        return Ok(None);
    };
    let is_own = |there: &ObjectInfo| there.size == body.len() as u64 && may_be_own(there, error);
    let asked = of_bytes(client, pool, key, body, is_own).await;
    settled(asked.map(|there| (there, key)), doubt, error)
}

/// The outcome of a request that failed with `error`, after the bucket was `asked`.
fn settled(
    asked: Result<(Option<Stored>, &Key), ClientError>,
    doubt: Doubt,
    error: &ClientError,
) -> Result<Option<Stored>, ClientError> {
    match asked {
        Ok((Some(stored), key)) => {
            tell_own(key, error);
            Ok(Some(stored))
        }
        Ok((None, _)) => Ok(None),
        // The first error is true, or tells as much.
        Err(_) if doubt == Doubt::Twice || error.kind.is_retryable() => Ok(None),
        Err(why) => Err(unknown(error, why)),
    }
}

/// The object at `key`, if it has these bytes at the offset, and the old bytes before them. Other
/// clients may have appended since: then it is larger.
///
/// Equal bytes at the same offset may be another client's, in an object with another beginning:
/// `whole` is the checksum of the bytes before them. Without it their writer is unknown.
pub(in crate::write) async fn of_append(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    ((offset, whole), body): ((u64, Option<Checksum>), &Bytes),
    error: &ClientError,
) -> Result<Option<Stored>, ClientError> {
    let Some(doubt) = Doubt::of(error) else {
        return Ok(None);
    };
    let end = offset + body.len() as u64;
    let asked = async {
        let there = match client.head_details(key).await {
            Ok(there) if there.info.size >= end => there,
            Ok(_) => return Ok(None),
            Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let object = Version {
            client,
            pool,
            key,
            etag: &there.info.etag,
        };
        if !object.holds(offset, body).await? {
            return Ok(None);
        }
        let Some(before) = whole else {
            return Err(incomparable("their checksum is not known"));
        };
        // A checksum of the whole object decides without a read.
        let told = there
            .whole
            .filter(|told| there.info.size == end && algorithm_of(*told) == algorithm_of(before));
        let is_ours = match told {
            Some(told) => told == joined(before, body, None),
            None if offset > APPEND_PROOF_LEN_MAX => {
                return Err(incomparable("they are too many to be read for that"));
            }
            None => object.checksum(offset, algorithm_of(before)).await? == Some(before),
        };
        Ok(is_ours.then(|| Stored {
            etag: there.info.etag.clone(),
            size: there.info.size,
        }))
    };
    settled(asked.await.map(|there| (there, key)), doubt, error)
}

/// The reason why the bytes before the appended ones decide nothing.
fn incomparable(why: &str) -> ClientError {
    let what = format!("the bytes before it cannot be compared: {why}");
    ClientError::new(ErrorKind::Transient, what)
}

async fn of_bytes(
    client: &dyn ObjectClient,
    pool: &BlockPool,
    key: &Key,
    body: &Bytes,
    is_own: impl Fn(&ObjectInfo) -> bool + Send,
) -> Result<Option<Stored>, ClientError> {
    let (etag, size) = match client.head(key).await {
        Ok(info) if is_own(&info) => (info.etag, info.size),
        Ok(_) => return Ok(None),
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let object = Version {
        client,
        pool,
        key,
        etag: &etag,
    };
    let is_there = object.holds(0, body).await?;
    Ok(is_there.then_some(Stored { etag, size }))
}

/// A version of an object that is compared with the sent bytes.
struct Version<'a> {
    client: &'a dyn ObjectClient,
    pool: &'a BlockPool,
    key: &'a Key,
    etag: &'a ETag,
}

impl Version<'_> {
    /// Whether it holds `bytes` at the offset. `false` if it was replaced.
    async fn holds(&self, offset: u64, bytes: &Bytes) -> Result<bool, ClientError> {
        let range = offset..offset + bytes.len() as u64;
        let mut rest = &bytes[..];
        self.read(range, |piece| {
            let (expected, behind) = rest.split_at(piece.len());
            rest = behind;
            expected == piece
        })
        .await
    }

    /// The checksum of its first `len` bytes. `None` if it was replaced.
    async fn checksum(
        &self,
        len: u64,
        algorithm: ChecksumAlgorithm,
    ) -> Result<Option<Checksum>, ClientError> {
        let mut sum = RunningChecksum::new(Some(algorithm));
        let is_read = self.read(0..len, |piece| {
            sum.update(piece);
            true
        });
        Ok(is_read.await?.then(|| sum.value()).flatten())
    }

    /// Shows the range piece by piece while `see` returns `true`. Returns whether it saw all.
    async fn read(
        &self,
        range: Range<u64>,
        mut see: impl FnMut(&[u8]) -> bool + Send,
    ) -> Result<bool, ClientError> {
        let mut start = range.start;
        while start < range.end {
            let end = range.end.min(start + WRITE_SIZE_MAX as u64);
            let request = GetRequest {
                key: self.key.clone(),
                range: start..end,
                if_match: Some(self.etag.clone()),
                object_size: None,
                priority: Priority::Foreground,
            };
            let len = usize::try_from(end - start).expect("it is a piece");
            let fill = self.pool.allocate(len);
            let block = fill.block();
            let finished = Finished(SharedOutcome::new());
            let settled = finished.0.clone();
            let get = self.client.get(request, fill, Arc::new(finished));
            let outcome = settled.wait().await;
            drop(get);
            match outcome {
                Ok(()) if see(block.bytes(0..len)) => {}
                Ok(()) => return Ok(false),
                Err(error) if is_replaced(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
            start = end;
        }
        Ok(true)
    }
}

fn is_replaced(error: &ClientError) -> bool {
    matches!(
        error.kind,
        ErrorKind::NotFound | ErrorKind::PreconditionFailed
    )
}

/// The object of an upload, as [`lost_upload::became`] says, whose completion failed with `error`.
pub(in crate::write) async fn of_complete(
    client: &dyn ObjectClient,
    upload: (&OpenUpload, Option<&Abandoned>),
    wanted: IntendedObject<'_>,
    error: &ClientError,
) -> Result<Option<Stored>, ClientError> {
    let became = lost_upload::became(client, upload, wanted, error).await?;
    let size = wanted.size;
    Ok(became.map(|etag| Stored { etag, size }))
}

/// Most bytes read for a comparison: a second or a few, and only after other clients have appended
/// behind a lost answer.
const APPEND_PROOF_LEN_MAX: u64 = 1 << 30;

struct Finished(SharedOutcome<Result<(), ClientError>>);

impl GetObserver for Finished {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.0.settle(outcome.map(|_| ()));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use futures::FutureExt as _;
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::{Operation, SimOptions};
    use mountpoint_client::types::{ObjectHeaders, Part, PartNumber, PutCondition, PutRequest};

    use super::*;

    /// The error of a request that was done before, and whose answer was lost.
    fn lost() -> ClientError {
        let mut error = ClientError::new(ErrorKind::PreconditionFailed, "412");
        error.answer_was_lost = true;
        error
    }

    /// Whether the upload, which is given up, was completed before.
    fn is_completed(client: &SimClient, upload: &OpenUpload, wanted: IntendedObject<'_>) -> bool {
        let asked = async {
            let state = lost_upload::abandon(client, upload, true).await;
            of_complete(client, (upload, Some(&state)), wanted, &lost()).await
        };
        asked.now_or_never().unwrap().unwrap().is_some()
    }

    /// Without a lost answer, an older object is another's, and so is an empty one.
    #[test]
    fn what_a_proxy_may_have_sent_twice_is_ours_if_it_is_new() {
        let client = SimClient::new(SimOptions::default());
        let (pool, key) = (BlockPool::new(0), Key::parse("key").unwrap());
        let refused = |error: &ClientError, body: &'static [u8]| {
            let body = Bytes::from_static(body);
            let asked = of_object(&client, &pool, &key, &body, error).now_or_never();
            asked.unwrap().unwrap().is_none()
        };
        let made = client.put_object("key", "hello").last_modified;
        let second = Duration::from_secs(1);
        let mut error = ClientError::new(ErrorKind::PreconditionFailed, "412");
        assert!(refused(&error, b"hello"), "nothing could send it twice");
        for (since, is_refused) in [
            (made - second, false),
            (made, false),
            (made + second / 2, false),
            (made + second, true),
        ] {
            error.maybe_twice_since = Some(since);
            assert_eq!(refused(&error, b"hello"), is_refused, "{since:?}");
            assert!(refused(&error, b"hallo"));
        }
        error.maybe_twice_since = Some(made);
        client.put_object("key", "");
        assert!(refused(&error, b""), "an empty one may be a lock");
        // The refusal is believed if the bucket cannot be asked.
        client.fail_next(Operation::HeadObject, 1, ErrorKind::Transient);
        assert!(refused(&error, b"hello"));
    }

    #[test]
    fn an_object_of_the_same_bytes_is_ours() {
        let client = SimClient::new(SimOptions::default());
        let pool = BlockPool::new(0);
        let key = Key::parse("key").unwrap();
        let ask = |body: &[u8]| {
            let body = Bytes::copy_from_slice(body);
            let asked = of_object(&client, &pool, &key, &body, &lost()).now_or_never();
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
    fn appended_bytes_are_ours_behind_what_was_there() {
        let client = SimClient::new(SimOptions::default());
        let (pool, key) = (BlockPool::new(0), Key::parse("key").unwrap());
        let body = Bytes::from_static(b"mine");
        let mut old = RunningChecksum::new(Some(ChecksumAlgorithm::Crc64Nvme));
        old.update(b"old ");
        // The object, and whether it is ours: with a known beginning, and without.
        for (object, is_ours, without) in [
            ("old mine", Some(true), None),
            ("old mine, theirs", Some(true), None),
            ("new mine", Some(false), None),
            ("new mine, theirs", Some(false), None),
            ("old ", Some(false), Some(false)),
            ("old min", Some(false), Some(false)),
            ("old theirs", Some(false), Some(false)),
            ("mine", Some(false), Some(false)),
        ] {
            let there = client.put_object("key", object);
            for (whole, expected) in [(old.value(), is_ours), (None, without)] {
                let behind = ((4, whole), &body);
                let asked = of_append(&client, &pool, &key, behind, &lost()).now_or_never();
                let asked = asked.unwrap();
                let found = asked.as_ref().ok().map(Option::is_some);
                assert_eq!(found, expected, "{object} {whole:?}");
                if let Ok(Some(stored)) = asked {
                    let size = object.len() as u64;
                    let expected = (there.etag.clone(), size);
                    assert_eq!((stored.etag, stored.size), expected, "{object}");
                }
            }
        }
        // Nothing to read where the server tells the checksum of all bytes.
        let request = PutRequest {
            key: key.clone(),
            body: Bytes::from_static(b"old mine"),
            condition: PutCondition::None,
            checksum: old.value().map(|old| joined(old, b"mine", None)),
            headers: ObjectHeaders::default(),
        };
        client.put(request).now_or_never().unwrap().unwrap();
        drop(client.take_log());
        let behind = ((4, old.value()), &body);
        let asked = of_append(&client, &pool, &key, behind, &lost()).now_or_never();
        assert!(asked.unwrap().unwrap().is_some());
        assert_eq!(client.take_log().count(Operation::GetObject), 1);
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
            (Operation::HeadObject, ErrorKind::Denied, false),
        ] {
            client.fail_next(operation, 1, kind.clone());
            let body = Bytes::from_static(b"hello");
            let asked = of_object(&client, &pool, &key, &body, &lost()).now_or_never();
            let asked = asked.unwrap();
            assert_eq!(asked.is_ok(), known, "{operation:?} {kind:?}");
            if let Err(error) = &asked {
                assert_eq!(error.kind, ErrorKind::Transient, "{error}");
            }
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
            let wanted = IntendedObject {
                size,
                parts,
                old,
                doubt: Doubt::Lost,
            };
            is_completed(&client, upload, wanted)
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
        // A user that may not list the parts is told by the abort.
        client.fail_next(Operation::ListParts, 1, ErrorKind::Denied);
        assert!(ask(&completed));
        // The object is another client's: the upload was aborted.
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
        // Without the permission to list parts, and with a server that confirms every abort, the
        // tags of the parts decide, unless the object before had the same tags: new headers alone
        // are not seen.
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
