//! A range of an object that becomes a part of a file: the server copies it, and no byte passes
//! through this machine.

use std::ops::Range;

use mountpoint_client::types::{CopySource, ETag, Key};
use mountpoint_client::{ClientError, ErrorKind};

use crate::config::limits::{COPY_PARTS_MANY, UPLOAD_PART_MAX, UPLOAD_PART_MIN};
use crate::operation::FsError;
use crate::write::failure::failed;

/// Bytes of one version of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopiedRange {
    /// The object.
    pub key: Key,
    /// Its version: no other one is copied.
    pub etag: ETag,
    /// The size of the whole object.
    pub object_size: u64,
    /// The bytes.
    pub range: Range<u64>,
}

impl CopiedRange {
    pub(in crate::write) fn len(&self) -> u64 {
        self.range.end - self.range.start
    }

    /// Whether S3 takes the range as a part in front of others.
    #[must_use]
    pub fn is_a_part(&self) -> bool {
        self.len() >= UPLOAD_PART_MIN
    }

    /// The beginning of the range that one call copies. The rest of the object then suffices for
    /// another part.
    #[must_use]
    pub fn for_one_call(mut self) -> Self {
        let mut len = self.len().min(COPY_CALL_MAX);
        let left = self.object_size - (self.range.start + len);
        if (1..UPLOAD_PART_MIN).contains(&left) && len >= 2 * UPLOAD_PART_MIN {
            len -= UPLOAD_PART_MIN;
        }
        self.range.end = self.range.start + len;
        self
    }

    /// The range in parts of equal size: none smaller than S3 takes, and none above `part_max`
    /// unless the whole object had too many parts.
    pub(in crate::write) fn parts(&self, part_max: u64) -> impl Iterator<Item = Self> + use<> {
        let size = self.len();
        let largest = self
            .object_size
            .div_ceil(COPY_PARTS_MANY)
            .max(part_max)
            .min(UPLOAD_PART_MAX);
        let count = size.div_ceil(largest).min(size / UPLOAD_PART_MIN).max(1);
        let whole = self.clone();
        let at = move |index| whole.range.start + size * index / count;
        let whole = self.clone();
        (0..count).map(move |index| Self {
            range: at(index)..at(index + 1),
            ..whole.clone()
        })
    }

    pub(in crate::write) fn source(&self) -> CopySource {
        CopySource {
            key: self.key.clone(),
            if_match: Some(self.etag.clone()),
        }
    }
}

/// The application's error for a copy that failed.
pub(in crate::write) fn copy_failed(error: ClientError, source: &CopiedRange) -> FsError {
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

/// Bytes that one `copy_file_range` copies at most, so that it takes seconds.
///
/// Between two calls the program receives signals and may show its progress.
const COPY_CALL_MAX: u64 = 5 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn copied(range: Range<u64>, object_size: u64) -> CopiedRange {
        CopiedRange {
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
        for (range, size, count) in [
            (0..5 * MIB, 5 * MIB, 1),
            (7..7 + 512 * MIB, TIB / 4, 1),
            (0..512 * MIB + 1, GIB, 2),
            (3..5 * GIB, 5 * GIB, 10),
            (0..TIB, TIB, 1000),
            (0..5 * GIB, TIB, 5),
            (0..48 * TIB, 48 * TIB, 9831),
        ] {
            let all = copied(range.clone(), size);
            let parts: Vec<_> = all.parts(512 * MIB).map(|part| part.range).collect();
            assert_eq!(parts.len(), count, "{range:?}");
            assert_eq!(parts.first().map(|part| part.start), Some(range.start));
            assert_eq!(parts.last().map(|part| part.end), Some(range.end));
            assert!(parts.windows(2).all(|pair| pair[0].end == pair[1].start));
            for part in parts {
                assert!((5 * MIB..=5 * GIB).contains(&(part.end - part.start)));
            }
        }
        // Near the smallest part.
        for size in 15 * MIB - 2..15 * MIB + 3 {
            let parts = copied(0..size, size).parts(5 * MIB);
            assert!(parts.into_iter().all(|part| part.is_a_part()), "{size}");
        }
    }

    #[test]
    fn one_call_copies_some_gigabytes_and_leaves_enough_for_the_next() {
        const MIB: u64 = 1 << 20;
        const MAX: u64 = COPY_CALL_MAX;
        for (range, size, end) in [
            (0..10, 10, 10),
            (0..MAX, MAX, MAX),
            (0..MAX + 6 * MIB, MAX + 6 * MIB, MAX),
            (0..MAX + 4 * MIB, MAX + 4 * MIB, MAX - 5 * MIB),
            (7..12 * MIB, 13 * MIB, 7 * MIB),
            (0..9 * MIB, 10 * MIB, 9 * MIB),
        ] {
            assert_eq!(
                copied(range.clone(), size).for_one_call().range.end,
                end,
                "{range:?}"
            );
        }
    }
}
