//! Copies on the server from another object into a [`Writer`]'s file.
//!
//! A copy is answered when the server has made it: then the application may remove the source. The
//! copy is a part of the file's upload, so a range that S3 does not take as a part is refused, and
//! read and written by the application.

mod base;
#[cfg(test)]
mod tests;

use super::sink::Sink;
use super::state::{FileState, Stage};
use super::writer::Writer;
use crate::config::limits::{UPLOAD_PART_MIN, UPLOAD_PARTS_MAX};
use crate::mutate::copy::copies_nothing;
use crate::operation::FsError;
use crate::write::send::copied_range::CopiedRange;

impl Writer {
    /// Makes the server copy `source` to the end of the file, which is at `offset`. Returns the
    /// number of copied bytes, at least one; they are part of the upload then.
    ///
    /// [`FsError::Unsupported`] if reads and writes are cheaper; then nothing has changed. A copy
    /// that is given up while it waits continues: its bytes are taken.
    pub async fn copy(&self, offset: u64, source: CopiedRange) -> Result<u64, FsError> {
        let mut state = self.state.lock().await;
        self.settled(&mut state).await?;
        if let Stage::Stored(_) = state.stage {
            return Err(AS_BYTES);
        }
        let source = source.for_one_call();
        if !self.can_copy(&state, offset, &source) {
            return Err(AS_BYTES);
        }
        let is_first = state.extent.end == 0;
        let len = source.len();
        self.untime(&mut state);
        self.multipart(&mut state, true);
        self.send_last_part(&mut state);
        let multipart = self.multipart(&mut state, true);
        let parts = source.parts(self.context.send.config.copy_limits.part_max);
        let parts: Vec<_> = parts
            .map(|part| multipart.upload.copy_awaited(part))
            .collect();
        multipart.parts += u16::try_from(parts.len()).expect("there is room");
        state.extent.advance(len);
        state.extent.refused_len = None;
        let mut outcome = Ok(len);
        for part in parts {
            if let Err(error) = part.wait().await {
                outcome = outcome.and(Err(error));
            }
        }
        match &outcome {
            Ok(_) => {
                self.context.send.features.learn_copies(true);
                state.written_at = self.context.pressure.moved();
                state.written_when = self.context.clock.now();
                let len = state.extent.len();
                self.progress.advance(len, self.context.clock.wall());
            }
            Err(error) if is_first && self.failure.get().is_none() && is_refusal(error) => {
                tracing::debug!(key = %self.key, "the server does not copy, the bytes are read: {error}");
                self.context.send.features.learn_copies(false);
                self.begin_anew(&mut state);
                return Err(AS_BYTES);
            }
            Err(error) => {
                if is_refusal(error) {
                    self.context.send.features.learn_copies(false);
                }
                self.fail(&mut state, error);
            }
        }
        outcome
    }

    /// Whether the server can copy `source` to `offset`.
    fn can_copy(&self, state: &FileState, offset: u64, source: &CopiedRange) -> bool {
        let held = state.buffer.len() as u64;
        let follows_a_part = held == 0 || held >= UPLOAD_PART_MIN;
        let may_have_copies = match &state.sink {
            Sink::Undecided | Sink::Copied(_) => true,
            Sink::Multipart(multipart) => multipart.has_copies,
            Sink::Append { .. } => false,
        };
        let parts = u64::from(state.sink.parts()) + u64::from(self.copies(state)) + 2;
        let has_room = parts + self.parts_of(source) <= u64::from(UPLOAD_PARTS_MAX);
        let copies = self.context.send.features.copies_parts() != Some(false);
        may_have_copies
            && copies
            && offset == state.extent.end
            && source.is_a_part()
            && follows_a_part
            && has_room
    }

    /// Gives up the upload, which holds no bytes of the file: as if it had never begun.
    pub(in crate::write) fn begin_anew(&self, state: &mut FileState) {
        state.extent.restart(0);
        if let Some(upload) = state.sink.take_upload() {
            self.abort(upload);
        }
    }

    /// Parts for copies that were not begun.
    pub(in crate::write) fn copies(&self, state: &FileState) -> u16 {
        let parts = match &state.sink {
            Sink::Copied(base) => self.parts_of(base),
            Sink::Undecided | Sink::Multipart(_) | Sink::Append { .. } => 0,
        };
        u16::try_from(parts).unwrap_or(u16::MAX / 2)
    }

    fn parts_of(&self, copied: &CopiedRange) -> u64 {
        copied
            .parts(self.context.send.config.copy_limits.part_max)
            .count() as u64
    }
}

/// Whether the error means that the server does not copy.
pub(in crate::write) fn is_refusal(error: &FsError) -> bool {
    matches!(error, FsError::Client(error) if copies_nothing(error))
}

/// The error that makes the application, or the kernel, read and write instead.
const AS_BYTES: FsError = FsError::Unsupported("this range is not copied on the server");
