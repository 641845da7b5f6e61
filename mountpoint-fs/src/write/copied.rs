//! A range of an object that is to become bytes of a file: the server copies it, and nothing passes through here.
//!
//! Nothing is sent until the file goes on or is closed: ranges that follow each other become one, and a whole object one
//! request. A range that S3 would not take as a part, because bytes follow it, is read after all.

use std::ops::Range;
use std::sync::Arc;

use mountpoint_client::types::{
    CopyHeaders, CopySource, ETag, GetOutput, GetRequest, Key, ObjectHeaders, Priority,
    PutCondition,
};
use mountpoint_client::{ClientError, ErrorKind, GetObserver};
use mountpoint_crt_sys::block::Block;

use super::abilities::Uses;
use super::background::Settled;
use super::context::{WriteContext, failed};
use super::writer::Stored;
use crate::config::limits::{COPY_PARTS_MANY, UPLOAD_PART_MAX, UPLOAD_PART_MIN, WRITE_SIZE_MAX};
use crate::operation::FsError;

/// Bytes of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Copied {
    /// The object.
    pub key: Key,
    /// Its version: of another one nothing is copied.
    pub etag: ETag,
    /// The size of the whole object.
    pub object_size: u64,
    /// Which bytes.
    pub range: Range<u64>,
}

impl Copied {
    /// All of an object.
    pub(super) fn whole(key: &Key, stored: Stored) -> Self {
        Self {
            key: key.clone(),
            etag: stored.etag,
            object_size: stored.size,
            range: 0..stored.size,
        }
    }

    pub(super) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    pub(super) fn is_whole(&self) -> bool {
        self.range == (0..self.object_size)
    }

    /// Whether S3 takes it as a part that others follow.
    pub(super) fn is_a_part(&self) -> bool {
        self.len() >= UPLOAD_PART_MIN
    }

    /// Goes on with `next`, if that is what follows.
    pub(super) fn extend(&mut self, next: &Self) -> bool {
        let follows =
            self.key == next.key && self.etag == next.etag && self.range.end == next.range.start;
        if follows {
            self.range.end = next.range.end;
        }
        follows
    }

    /// Parts to copy it in that are at most `part_max` bytes unless they would be too many: equally large, none larger
    /// than S3 copies at once.
    pub(super) fn parts(&self, part_max: u64) -> impl Iterator<Item = Range<u64>> + use<> {
        let size = self.len();
        let largest = size
            .div_ceil(COPY_PARTS_MANY)
            .max(part_max)
            .min(UPLOAD_PART_MAX);
        let count = size.div_ceil(largest).max(1);
        let len = size.div_ceil(count).max(1);
        let start = self.range.start;
        (0..count)
            .map(move |index| index * len..((index + 1) * len).min(size))
            .filter(|part| !part.is_empty())
            .map(move |part| start + part.start..start + part.end)
    }

    pub(super) fn source(&self) -> CopySource {
        CopySource {
            key: self.key.clone(),
            if_match: Some(self.etag.quoted()),
        }
    }

    /// Some of its bytes, read.
    pub(super) async fn read(
        &self,
        context: &WriteContext,
        range: Range<u64>,
    ) -> Result<Block, FsError> {
        let len = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
        assert!(len <= WRITE_SIZE_MAX, "it is read piece by piece");
        let request = GetRequest {
            key: self.key.clone(),
            range,
            if_match: Some(self.etag.clone()),
            priority: Priority::Foreground,
        };
        let fill = context.memory.pool().allocate(len);
        let block = fill.block();
        let finished = Finished(Settled::new());
        let settled = finished.0.clone();
        let get = context.client.get(request, fill, Arc::new(finished));
        let outcome = settled.wait().await;
        drop(get);
        outcome.map(|()| block).map_err(FsError::from)
    }
}

struct Finished(Settled<Result<(), ClientError>>);

impl GetObserver for Finished {
    fn progressed(&self) {}

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.0.settle(outcome.map(drop));
    }
}

impl WriteContext {
    /// Makes the whole object `copied` the object `key`, in one request.
    pub(super) async fn copy(
        &self,
        copied: &Copied,
        key: &Key,
        headers: ObjectHeaders,
        condition: PutCondition,
    ) -> Result<Stored, FsError> {
        assert!(
            copied.is_whole(),
            "a part of an object is copied into an upload"
        );
        let size = copied.len();
        if condition == PutCondition::Absent {
            // Some servers ignore the condition of a copy: it is asked for as well.
            match self.client.head(key).await {
                Ok(_) => return Err(FsError::Exists),
                Err(error) if error.kind == ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        let wanted = self.abilities.reduce(Uses::condition(condition));
        let mut uses = wanted.clone();
        loop {
            let headers = CopyHeaders::New(headers.clone());
            let condition = uses.condition.clone();
            let copy = self.client.copy(copied.source(), key, condition, headers);
            match copy.await {
                Ok(output) => {
                    self.abilities.learn(&wanted, &uses);
                    let etag = output.etag;
                    return Ok(Stored { etag, size });
                }
                Err(error) => match self.abilities.without(&uses, &error) {
                    Some(reduced) => uses = reduced,
                    None => return self.look_at_failed_copy(copied, key, error).await,
                },
            }
        }
    }

    /// S3 does not say which of two conditions did not hold, and a copy whose answer was lost may be what is in its own
    /// way.
    async fn look_at_failed_copy(
        &self,
        copied: &Copied,
        key: &Key,
        error: ClientError,
    ) -> Result<Stored, FsError> {
        if error.kind == ErrorKind::PreconditionFailed
            && let Ok(there) = self.client.head(key).await
        {
            let is_ours = error.answer_was_lost
                && there.size == copied.len()
                && there.etag.matches(&copied.etag);
            if is_ours {
                let (etag, size) = (there.etag, there.size);
                return Ok(Stored { etag, size });
            }
            if *key != copied.key && self.is_still(copied).await {
                return Err(FsError::Exists);
            }
        }
        Err(copy_failed(error, copied))
    }

    async fn is_still(&self, copied: &Copied) -> bool {
        let now = self.client.head(&copied.key).await;
        now.is_ok_and(|now| now.etag.matches(&copied.etag))
    }
}

/// What the application is told of a copy that failed.
pub(super) fn copy_failed(error: ClientError, source: &Copied) -> FsError {
    match error.kind {
        ErrorKind::PreconditionFailed | ErrorKind::NotFound => FsError::Stale(format!(
            "{} was replaced or deleted while it was copied: {error}",
            source.key
        )),
        ErrorKind::Denied => FsError::Denied(format!(
            "{error}; copying on the server needs s3:GetObject of {} and s3:PutObject",
            source.key
        )),
        _ => failed(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(range: Range<u64>, object_size: u64) -> Copied {
        Copied {
            key: Key::parse("k").unwrap(),
            etag: ETag::from_header("\"e\""),
            object_size,
            range,
        }
    }

    #[test]
    fn parts_are_equally_large_and_neither_too_small_nor_too_many() {
        const MIB: u64 = 1 << 20;
        const GIB: u64 = 1 << 30;
        const TIB: u64 = 1 << 40;
        for (range, count) in [
            (0..5 * MIB, 1),
            (7..7 + 512 * MIB, 1),
            (0..512 * MIB + 1, 2),
            (3..5 * GIB, 10),
            (0..TIB, 1000),
            (0..48 * TIB, 9831),
        ] {
            let whole = copied(range.clone(), 48 * TIB);
            let parts: Vec<_> = whole.parts(512 * MIB).collect();
            assert_eq!(parts.len(), count, "{range:?}");
            assert_eq!(parts.first().map(|part| part.start), Some(range.start));
            assert_eq!(parts.last().map(|part| part.end), Some(range.end));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            for part in parts {
                assert!((5 * MIB..=5 * GIB).contains(&(part.end - part.start)));
            }
        }
        assert_eq!(copied(4..4, 10).parts(MIB).count(), 0);
    }

    #[test]
    fn what_follows_becomes_one() {
        let mut first = copied(0..10, 30);
        assert!(first.extend(&copied(10..20, 30)) && !first.is_whole());
        assert!(!first.extend(&copied(19..30, 30)));
        let other = Copied {
            etag: ETag::from_header("\"f\""),
            ..copied(20..30, 30)
        };
        assert!(!first.extend(&other));
        assert!(first.extend(&copied(20..30, 30)) && first.is_whole());
    }
}
