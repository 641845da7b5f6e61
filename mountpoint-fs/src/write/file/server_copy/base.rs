//! The beginning of a file that continues an object of a part or more.
//!
//! The server copies the object into the upload. A server that has not copied before is asked with
//! the first part, and the write waits for the answer. If the server does not copy, the object is
//! read and sent again, as if the application had written it. A write that is given up meanwhile
//! leaves the file unchanged: the copied beginning alone is no file.

use super::is_refusal;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::mutate::fetch::fetch;
use crate::operation::FsError;
use crate::write::file::buffer::Buffer;
use crate::write::file::sink::Sink;
use crate::write::file::state::FileState;
use crate::write::file::writer::Writer;
use crate::write::send::copied_range::{CopiedRange, copy_failed};

impl Writer {
    /// Whether the object that the file begins with has to be copied before bytes are taken.
    pub(in crate::write) fn is_base_unsettled(&self, state: &FileState) -> bool {
        matches!(state.sink, Sink::Copied(_))
            && self.context.send.features.copies_parts() != Some(true)
    }

    /// Copies the object that the file begins with, before `len` bytes are taken at `offset`.
    pub(in crate::write) async fn settle_base(
        &self,
        state: &mut FileState,
        offset: u64,
        len: usize,
    ) -> Result<(), FsError> {
        self.settled(state).await?;
        if len == 0 || offset != state.extent.end || !self.is_base_unsettled(state) {
            return Ok(());
        }
        self.resume(state)?;
        let Sink::Copied(base) = std::mem::take(&mut state.sink) else {
            unreachable!("a file that is resumed goes on as it was");
        };
        let mut settling = Settling {
            writer: self,
            state,
            base: Some(base.clone()),
        };
        let outcome = self.send_base(settling.state, base).await;
        settling.base = None;
        outcome
    }

    /// Makes the server copy `base` into the upload, or reads and sends it.
    async fn send_base(&self, state: &mut FileState, base: CopiedRange) -> Result<(), FsError> {
        if self.context.send.features.copies_parts() == Some(false) {
            state.extent.restart(0);
            return self.read_base(state, base).await;
        }
        let mut parts = base.parts(self.context.send.config.copy_limits.part_max);
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let multipart = self.multipart(state, true);
        let copied = multipart.upload.copy_awaited(first).wait().await;
        multipart.parts += 1;
        match copied {
            Ok(_) => {
                self.context.send.features.learn_copies(true);
                for part in parts {
                    multipart.upload.copy(part);
                    multipart.parts += 1;
                }
                Ok(())
            }
            Err(error) if self.failure.get().is_none() && is_refusal(&error) => {
                tracing::info!(
                    key = %self.key,
                    "the server does not copy parts of objects: the object is read and sent again: {error}"
                );
                self.context.send.features.learn_copies(false);
                self.begin_anew(state);
                self.read_base(state, base).await
            }
            Err(error) => {
                self.fail(state, &error);
                Err(error)
            }
        }
    }

    /// Takes the bytes of `base` as if the application had written them.
    async fn read_base(&self, state: &mut FileState, base: CopiedRange) -> Result<(), FsError> {
        let mut at = base.range.start;
        while at < base.range.end {
            let end = base.range.end.min(at + WRITE_SIZE_MAX as u64);
            let (client, pool) = (&*self.context.send.client, self.context.memory.pool());
            let version = (&base.key, &base.etag);
            let piece = fetch(client, pool, version, at..end).await;
            let taken = match piece {
                Ok(piece) => {
                    let room = self.make_room(state, state.extent.end, piece.len()).await;
                    room.map(|()| self.take_bytes(state, &piece))
                }
                Err(error) => Err(copy_failed(error, &base)),
            };
            if let Err(error) = taken {
                self.fail(state, &error);
                return Err(error);
            }
            at = end;
        }
        Ok(())
    }
}

/// A file while its first bytes are copied. If that is given up, the file begins with its object as
/// before.
struct Settling<'a> {
    writer: &'a Writer,
    state: &'a mut FileState,
    /// The object that the file begins with; `None` when the copy is done, or has failed.
    base: Option<CopiedRange>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let Some(base) = self.base.take() else {
            return;
        };
        let state = &mut *self.state;
        state.buffer = Buffer::Empty;
        if let Some(upload) = state.sink.take_upload() {
            self.writer.abort(upload);
        }
        state.extent.restart(base.len());
        state.sink = Sink::Copied(base);
    }
}
