//! The part of a [`Writer`] that has the server copy.
//!
//! A copy is answered when the server has made it: the application may remove the source then. It
//! is a part of the file's upload, so what S3 takes as no part is refused, and read and written.

mod base;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use super::multipart::Upload;
use crate::config::limits::{UPLOAD_PART_MIN, UPLOAD_PARTS_MAX};
use crate::mutate::copy::copies_nothing;
use crate::operation::FsError;
use crate::write::background::{self, SharedOutcome};
use crate::write::file::state::{Sink, Stage};
use crate::write::file::writer::Writer;
use crate::write::send::copied_range::CopiedRange;
use crate::write::types::{Outcome, Stored};

impl Writer {
    /// Has the server copy `source` behind what was taken so far, which ends at `offset`. How many
    /// bytes of it were copied, at least one; they are part of the upload then.
    ///
    /// [`FsError::Unsupported`] if its bytes had better be read and written, and then nothing has
    /// changed. One that is given up while it waits goes on: its bytes are taken.
    pub async fn copy(&self, offset: u64, source: CopiedRange) -> Result<u64, FsError> {
        let mut sink = self.sink.lock().await;
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            self.look(&mut sink);
            match &sink.stage {
                Stage::Storing(settled) => {
                    let settled = settled.clone();
                    drop(settled.wait().await);
                }
                Stage::Stored(_) => return Err(AS_BYTES),
                Stage::Open => break,
            }
        }
        let source = source.for_one_call();
        if !self.can_copy(&sink, offset, &source) {
            return Err(AS_BYTES);
        }
        let is_first = sink.end == 0;
        let len = source.len();
        self.untime(&mut sink);
        let upload = self.upload(&mut sink, true);
        self.send_last_part(&mut sink);
        let parts = source.parts(self.context.config.copy_limits.part_max);
        let parts: Vec<_> = parts.map(|part| upload.copy_awaited(part)).collect();
        sink.parts += u16::try_from(parts.len()).expect("there is room");
        sink.end += len;
        sink.written = sink.end;
        sink.refused_len = None;
        let mut outcome = Ok(len);
        for part in parts {
            if let Err(error) = part.wait().await {
                outcome = outcome.and(Err(error));
            }
        }
        match outcome {
            Ok(_) => {
                self.context.features.learn_copies(true);
                sink.written_at = self.context.pressure.moved();
                sink.written_when = self.context.clock.now();
                self.progress.advance(sink.len(), self.context.clock.wall());
            }
            Err(error) if is_first && self.failure.get().is_none() && is_refusal(&error) => {
                tracing::debug!(key = %self.key, "the server does not copy, the bytes are read: {error}");
                self.context.features.learn_copies(false);
                self.begin_anew(&mut sink, upload);
                return Err(AS_BYTES);
            }
            Err(ref error) => self.fail(&mut sink, error),
        }
        outcome
    }

    /// Whether the server can copy `source` to `offset`.
    fn can_copy(&self, sink: &Sink, offset: u64, source: &CopiedRange) -> bool {
        let held = sink.held() as u64;
        let follows_a_part = held == 0 || held >= UPLOAD_PART_MIN;
        let has_checksums = sink.upload.is_some() && !sink.has_copies;
        let parts = u64::from(sink.parts) + u64::from(self.copies(sink)) + 2;
        let has_room = parts + self.parts_of(source) <= u64::from(UPLOAD_PARTS_MAX);
        let is_upload = sink.append.is_none();
        let copies = self.context.features.copies_parts() != Some(false);
        is_upload
            && copies
            && offset == sink.end
            && source.is_a_part()
            && follows_a_part
            && !has_checksums
            && has_room
    }

    /// Gives up `upload`, which holds nothing of the file, and goes on as if it had never been
    /// begun.
    pub(in crate::write) fn begin_anew(&self, sink: &mut Sink, upload: Arc<Upload>) {
        sink.upload = None;
        sink.has_copies = false;
        (sink.end, sink.written, sink.parts) = (0, 0, 0);
        let pending = self.context.begin();
        background::run(async move {
            upload.abort().await;
            drop(pending);
        });
    }

    /// Completes the upload. What it was to carry from its beginning on and was told later is put
    /// to it by a copy.
    pub(in crate::write) fn complete(
        &self,
        sink: &mut Sink,
        settled: SharedOutcome<Result<Stored, FsError>>,
    ) {
        let upload = self.upload(sink, false);
        let condition = sink.condition.clone();
        let old = sink.old().cloned();
        let late = std::mem::take(&mut sink.is_metadata_late).then(|| self.headers());
        let (context, key) = (Arc::clone(&self.context), self.key.clone());
        let observer = Arc::clone(&self.observer);
        self.run(settled, async move {
            let stored = upload.complete(condition, old).await?;
            let Some(headers) = late else {
                return Ok(Outcome::Stored(stored));
            };
            let seen = (&stored.etag, stored.size);
            let replaced = context.mutator.replace_headers(&key, seen, headers).await;
            match replaced {
                Ok(etag) => Ok(Outcome::Stored(Stored { etag, ..stored })),
                Err(error) => {
                    // All bytes are there; what failed is to say so all the same.
                    observer.stored(&stored);
                    Err(error)
                }
            }
        });
    }

    /// Parts that copying what is to be copied will take.
    pub(in crate::write) fn copies(&self, sink: &Sink) -> u16 {
        let parts = sink.base.as_ref().map_or(0, |base| self.parts_of(base));
        u16::try_from(parts).unwrap_or(u16::MAX / 2)
    }

    fn parts_of(&self, copied: &CopiedRange) -> u64 {
        copied
            .parts(self.context.config.copy_limits.part_max)
            .count() as u64
    }
}

/// Whether a server said that it does not copy.
pub(in crate::write) fn is_refusal(error: &FsError) -> bool {
    matches!(error, FsError::Client(error) if copies_nothing(error))
}

/// What is told of a copy that the application, or the kernel for it, makes by reading and writing.
const AS_BYTES: FsError = FsError::Unsupported("this range is not copied on the server");
