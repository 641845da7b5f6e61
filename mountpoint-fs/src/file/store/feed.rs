//! Bringing a snapshot to an upload, part by part: changed bytes as bytes, long unchanged ranges of
//! the base as copies on the server.

use std::ops::Range;
use std::sync::Arc;

use crate::config::limits::{COPY_PARTS_MANY, UPLOAD_PART_MIN};
use crate::file::contents::Snapshot;
use crate::file::context::StagingContext;
use crate::file::sources::{ByteSources, body_in_memory, read_part};
use crate::operation::FsError;
use crate::write::{CopiedRange, ObjectUpload, PartBody};

/// The contents to bring.
#[derive(Clone, Debug)]
pub(in crate::file) struct Feed {
    pub(in crate::file) snapshot: Arc<Snapshot>,
    pub(in crate::file) sources: ByteSources,
    /// Whether the server copies ranges of the base.
    pub(in crate::file) copies: bool,
}

/// Bytes of the base that are copied alone at the beginning of a file that is still written.
pub(super) const HEAD_LEN: u64 = 8 << 20;

/// What is brought next.
pub(super) enum Next {
    /// Parts that the server copies, and their range in the file.
    Copy(CopiedRange, Range<u64>),
    /// The bytes of one part.
    Bytes(Range<u64>),
}

/// Least bytes of a copy from the base: S3's smallest part. Where many ranges changed, more,
/// so that all copies of a file leave most parts for bytes.
pub(super) fn copied_min(snapshot: &Snapshot) -> u64 {
    if snapshot.range_count() as u64 <= COPY_PARTS_MANY {
        return UPLOAD_PART_MIN;
    }
    let for_all = snapshot.size().div_ceil(COPY_PARTS_MANY);
    for_all.max(UPLOAD_PART_MIN)
}

/// The end of the range from `at` on that is worth a copy; `at` if there is none.
fn copied_until(snapshot: &Snapshot, at: u64) -> u64 {
    let until = snapshot.copied_until(at);
    if until - at >= copied_min(snapshot) {
        until
    } else {
        at
    }
}

/// The beginning of `part` that comes as bytes in front of a copy; all of it if none follows. S3
/// takes no part below its least length in front of others, so a few bytes that the base has may be
/// among them.
fn bytes_before_copy(snapshot: &Snapshot, part: Range<u64>) -> Range<u64> {
    let least_end = part.start + UPLOAD_PART_MIN;
    let copied = snapshot.next_copied(least_end, part.end, copied_min(snapshot));
    part.start..copied.unwrap_or(part.end)
}

impl Feed {
    /// What comes next, at `at`.
    ///
    /// # Errors
    /// S3 takes no more parts.
    pub(super) fn next(
        &self,
        context: &StagingContext,
        upload: &ObjectUpload,
        at: u64,
    ) -> Result<Next, FsError> {
        let end = self.part_end(context, at, upload.next_part_len()?);
        let as_bytes = at..self.snapshot.size().min(end);
        if !self.copies {
            return Ok(Next::Bytes(as_bytes));
        }
        let range = at..copied_until(&self.snapshot, at);
        if range.is_empty() {
            return Ok(Next::Bytes(bytes_before_copy(&self.snapshot, as_bytes)));
        }
        Ok(match self.source(&range) {
            Some(source) if upload.takes_copy(&source) => Next::Copy(source, range),
            _ => Next::Bytes(as_bytes),
        })
    }

    /// The beginning of `range`, bytes of the base that begin a file which is still written:
    /// programs go back to a header, and a short copy can be sent as bytes instead. All of any
    /// other range.
    pub(super) fn head_of_copy(
        &self,
        source: CopiedRange,
        range: Range<u64>,
    ) -> (CopiedRange, Range<u64>) {
        let is_base = self.snapshot.copied_at(range.start).is_none();
        let has_rest = range.end >= HEAD_LEN + copied_min(&self.snapshot);
        if range.start > 0 || !is_base || !has_rest {
            return (source, range);
        }
        let head = CopiedRange {
            range: source.range.start..source.range.start + HEAD_LEN,
            ..source
        };
        (head, 0..HEAD_LEN)
    }

    /// The bytes that the server copies for `range`.
    fn source(&self, range: &Range<u64>) -> Option<CopiedRange> {
        if let Some((object, place)) = self.snapshot.copied_at(range.start) {
            let range = place.of(range);
            return Some(CopiedRange {
                range,
                ..object.clone()
            });
        }
        let (key, etag, object_size) = self.sources.base.as_ref()?.version();
        Some(CopiedRange {
            key: key.clone(),
            etag: etag.clone(),
            object_size,
            range: range.clone(),
        })
    }

    /// The end of a part of bytes at `at`, where `len` is usual: where a chunk in memory ends, so
    /// that the next parts are chunks.
    fn part_end(&self, context: &StagingContext, at: u64, len: u64) -> u64 {
        let usual = at + len;
        let files = &self.sources.files;
        match files.have_no_disk() && !context.writing.has_fixed_parts() {
            true => files.part_end(at).unwrap_or(usual),
            false => usual,
        }
    }

    /// Whether one request makes the object of all bytes. An object that grows begins with a part.
    pub(super) fn is_one_request(&self, context: &StagingContext) -> bool {
        let most = context.writing.part_at(0).map_or(0, |first| first.end);
        let size = self.snapshot.size();
        size < most || size == most && context.writing.begins_by_part()
    }

    /// All bytes of `range`: of an object that is shorter than a part, or of a part that S3 has.
    pub(super) async fn whole(
        &self,
        context: &Arc<StagingContext>,
        upload: &ObjectUpload,
        range: Range<u64>,
    ) -> Result<PartBody, FsError> {
        let pieces = self.snapshot.pieces(range.clone());
        if let Some(body) = body_in_memory(context, &self.sources, &pieces, range.clone()).await? {
            return Ok(body);
        }
        let whole = upload.whole_buffer(range.end - range.start).await?;
        let whole = read_part(context, &self.sources, pieces, whole).await?;
        Ok(whole.into_body())
    }

    /// The bytes of `range` as a part, or the first of them if memory is short.
    pub(super) async fn part(
        &self,
        context: &Arc<StagingContext>,
        upload: &ObjectUpload,
        range: Range<u64>,
    ) -> Result<PartBody, FsError> {
        upload.part_room().await?;
        let pieces = self.snapshot.pieces(range.clone());
        if let Some(body) = body_in_memory(context, &self.sources, &pieces, range.clone()).await? {
            return Ok(body);
        }
        let part = upload
            .part_buffer(range.end - range.start, range.start)
            .await?;
        let range = range.start..range.start + part.len();
        let pieces = self.snapshot.pieces(range);
        let part = read_part(context, &self.sources, pieces, part).await?;
        Ok(part.into_body())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::file::contents::{Contents, DataFileNo};

    const MIB: u64 = 1 << 20;
    const PART: u64 = 8 * MIB;

    /// The ranges that are brought of a file with a base of 100 MiB, where `changed` was written;
    /// with each, whether the server copies it.
    fn walk(changed: &[(u64, u64)]) -> (Arc<Snapshot>, Vec<(Range<u64>, bool)>) {
        let mut contents = Contents::over(100 * MIB);
        for (start, end) in changed {
            contents.wrote(*start..*end, DataFileNo::First);
        }
        let snapshot = contents.begin_store(false);
        let (mut at, mut ranges) = (0, Vec::new());
        while at < snapshot.size() {
            let copied = copied_until(&snapshot, at);
            let range = match copied > at {
                true => at..copied,
                false => bytes_before_copy(&snapshot, at..snapshot.size().min(at + PART)),
            };
            at = range.end;
            ranges.push((range, copied == at));
        }
        (snapshot, ranges)
    }

    #[test]
    fn bytes_in_front_of_a_copy_are_a_part() {
        for (changed, expected) in [
            (vec![], vec![(0..100 * MIB, true)]),
            (
                vec![(0, 1)],
                vec![(0..5 * MIB, false), (5 * MIB..100 * MIB, true)],
            ),
            (
                vec![(0, 6 * MIB)],
                vec![(0..6 * MIB, false), (6 * MIB..100 * MIB, true)],
            ),
            (
                vec![(7 * MIB, 7 * MIB + 1), (14 * MIB, 14 * MIB + 1)],
                vec![
                    (0..7 * MIB, true),
                    (7 * MIB..14 * MIB + 1, false),
                    (14 * MIB + 1..100 * MIB, true),
                ],
            ),
            (
                vec![(99 * MIB, 101 * MIB)],
                vec![(0..99 * MIB, true), (99 * MIB..101 * MIB, false)],
            ),
        ] {
            assert_eq!(walk(&changed).1, expected, "{changed:?}");
        }
    }

    proptest! {
        #[test]
        fn each_byte_is_brought_once_in_parts_that_s3_takes(
            changed in prop::collection::vec((0..110 * MIB, 1..12 * MIB), 0..12),
        ) {
            let changed: Vec<_> = changed.iter().map(|(start, len)| (*start, start + len)).collect();
            let (snapshot, ranges) = walk(&changed);
            let mut at = 0;
            for (range, is_copied) in &ranges {
                prop_assert_eq!(range.start, at);
                at = range.end;
                let is_last = at == snapshot.size();
                prop_assert!(is_last || range.end - range.start >= UPLOAD_PART_MIN);
                prop_assert!(*is_copied || range.end - range.start <= PART);
                prop_assert!(!is_copied || snapshot.in_base_until(range.start) >= range.end);
            }
            prop_assert_eq!(at, snapshot.size());
        }
    }
}
