//! Bringing a snapshot to a writer: changed bytes as bytes, long unchanged ranges of the base as
//! copies on the server.

use std::ops::Range;
use std::sync::Arc;

use crate::config::limits::{COPY_PARTS_MANY, UPLOAD_PART_MIN, WRITE_SIZE_MAX};
use crate::operation::FsError;
use crate::staging::contents::Snapshot;
use crate::staging::context::StagingContext;
use crate::staging::sources::{ByteSources, read};
use crate::write::{CopiedRange, Writer};

/// The contents to bring.
#[derive(Clone, Debug)]
pub(in crate::staging) struct Feed {
    pub(in crate::staging) snapshot: Arc<Snapshot>,
    pub(in crate::staging) sources: ByteSources,
    /// Whether the server copies ranges of the base.
    pub(in crate::staging) copies: bool,
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

impl Feed {
    /// Brings the bytes of `range`, which begins where the writer's bytes end.
    pub(super) async fn bring(
        &self,
        context: &Arc<StagingContext>,
        writer: &Writer,
        range: Range<u64>,
    ) -> Result<(), FsError> {
        let mut at = range.start;
        while at < range.end {
            let copied = match self.copied_from(at) {
                Some(source) => writer.copy_base(at, source).await,
                None => NO_COPY,
            };
            match copied {
                Ok(copied) => at += copied,
                Err(FsError::Unsupported(_)) => {
                    let lacks = writer.lacks_for_part().await;
                    let bytes = self.bytes_from(at, lacks);
                    let bytes = bytes.start..bytes.end.min(range.end);
                    at = bytes.end;
                    self.bring_bytes(context, writer, bytes).await?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// The range from `at` on to copy.
    fn copied_from(&self, at: u64) -> Option<CopiedRange> {
        let reader = self.sources.base.as_ref().filter(|_| self.copies)?;
        let until = self.snapshot.in_base_until(at);
        if until - at < copied_min(&self.snapshot) {
            return None;
        }
        let (key, etag, object_size) = reader.version();
        Some(CopiedRange {
            key: key.clone(),
            etag: etag.clone(),
            object_size,
            range: at..until,
        })
    }

    /// The next bytes to bring: a piece that ends where a copy may begin. Held bytes lack `lacks`
    /// bytes for a part, and without a part no copy can follow them.
    fn bytes_from(&self, at: u64, lacks: u64) -> Range<u64> {
        let end = self.snapshot.size().min(at + WRITE_SIZE_MAX as u64);
        if !self.copies {
            return at..end;
        }
        let least = copied_min(&self.snapshot);
        let copied = self.snapshot.next_in_base(at, end, least);
        let end = match copied {
            // A copy of what follows was refused: as many bytes of its range as it lacks.
            Some(start) if start == at && lacks > 0 => end.min(at + lacks),
            Some(start) if start > at => start,
            _ => end,
        };
        at..end
    }

    async fn bring_bytes(
        &self,
        context: &Arc<StagingContext>,
        writer: &Writer,
        range: Range<u64>,
    ) -> Result<(), FsError> {
        let mut at = range.start;
        let data = read(context, &self.sources, self.snapshot.pieces(range), false).await?;
        // The copy and its checksum take time that no thread of the network or the kernel has.
        context.on_disk(|| Ok(())).await?;
        for (block, range) in data.slices {
            let bytes = block.bytes(range);
            writer.write(at, bytes).await?;
            at += bytes.len() as u64;
        }
        Ok(())
    }
}

/// There is nothing to copy.
const NO_COPY: Result<u64, FsError> = Err(FsError::Unsupported("this range is brought as bytes"));
