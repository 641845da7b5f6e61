//! The part of a [`Writer`] that goes on behind an object of a part or more: what the file begins
//! with.
//!
//! The server copies it into the upload. One that was never seen to is asked with the first part,
//! and the write waits for the answer: a server that does not copy has the object read and sent
//! again, as if the application had written it. A write that is given up meanwhile leaves the file
//! as it was: what was sent of its beginning alone is no file.

use super::is_refusal;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::mutate::fetch::fetch;
use crate::operation::FsError;
use crate::write::background::{self, SharedOutcome};
use crate::write::file::state::{Sink, Stage};
use crate::write::file::writer::Writer;
use crate::write::send::copied_range::{CopiedRange, copy_failed};

impl Writer {
    /// Whether what the file begins with has to be looked after before bytes can be taken behind
    /// it.
    pub(in crate::write) fn is_base_unsettled(&self, sink: &Sink) -> bool {
        sink.base.is_some() && self.context.features.copies_parts() != Some(true)
    }

    /// Looks after what the file begins with, before `len` bytes are taken at `offset`.
    pub(in crate::write) async fn settle_base(
        &self,
        sink: &mut Sink,
        offset: u64,
        len: usize,
    ) -> Result<(), FsError> {
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            self.look(sink);
            let Stage::Storing(settled) = &sink.stage else {
                break;
            };
            let settled: SharedOutcome<_> = settled.clone();
            drop(settled.wait().await);
        }
        if len == 0 || offset != sink.end || !self.is_base_unsettled(sink) {
            return Ok(());
        }
        self.resume(sink)?;
        let Some(base) = sink.base.take() else {
            return Ok(());
        };
        let mut settling = Settling {
            writer: self,
            sink,
            base: Some(base.clone()),
        };
        let outcome = self.send_base(settling.sink, base).await;
        settling.base = None;
        outcome
    }

    /// Has the server copy `base` into the upload, or reads and sends it.
    async fn send_base(&self, sink: &mut Sink, base: CopiedRange) -> Result<(), FsError> {
        if self.context.features.copies_parts() == Some(false) {
            sink.end = 0;
            return self.read_base(sink, base).await;
        }
        let mut parts = base.parts(self.context.config.copy_limits.part_max);
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let upload = self.upload(sink, true);
        let copied = upload.copy_awaited(first).wait().await;
        sink.parts += 1;
        match copied {
            Ok(_) => {
                self.context.features.learn_copies(true);
                for part in parts {
                    upload.copy(part);
                    sink.parts += 1;
                }
                Ok(())
            }
            Err(error) if self.failure.get().is_none() && is_refusal(&error) => {
                tracing::info!(
                    key = %self.key,
                    "the server does not copy parts of objects: what is appended to is read and sent again: {error}"
                );
                self.context.features.learn_copies(false);
                self.begin_anew(sink, upload);
                self.read_base(sink, base).await
            }
            Err(error) => {
                self.fail(sink, &error);
                Err(error)
            }
        }
    }

    /// Takes the bytes of `base` as if they were written.
    async fn read_base(&self, sink: &mut Sink, base: CopiedRange) -> Result<(), FsError> {
        let mut at = base.range.start;
        while at < base.range.end {
            let end = base.range.end.min(at + WRITE_SIZE_MAX as u64);
            let (client, pool) = (&*self.context.client, self.context.memory.pool());
            let version = (&base.key, &base.etag);
            let piece = fetch(client, pool, version, at..end).await;
            let taken = match piece {
                Ok(piece) => {
                    let room = self.make_room(sink, sink.end, piece.len()).await;
                    room.map(|()| self.take_bytes(sink, &piece))
                }
                Err(error) => Err(copy_failed(error, &base)),
            };
            if let Err(error) = taken {
                self.fail(sink, &error);
                return Err(error);
            }
            at = end;
        }
        Ok(())
    }
}

/// A file while what it begins with is looked after. Given up before that is done, it begins with
/// all of that as before.
struct Settling<'a> {
    writer: &'a Writer,
    sink: &'a mut Sink,
    /// What it begins with; `None` when that is done, or has failed.
    base: Option<CopiedRange>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let Some(base) = self.base.take() else {
            return;
        };
        let sink = &mut *self.sink;
        sink.let_go();
        if let Some(upload) = sink.upload.take() {
            let pending = self.writer.context.begin();
            background::run(async move {
                upload.abort().await;
                drop(pending);
            });
        }
        sink.has_copies = false;
        sink.parts = 0;
        sink.end = base.len();
        sink.written = sink.end;
        sink.base = Some(base);
    }
}
