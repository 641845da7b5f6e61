//! The part of a [`Writer`] that goes on behind an object of a part or more: what the file begins
//! with.
//!
//! The server copies it into the upload. One that was never seen to is asked with the first part,
//! and the write waits for the answer: a server that does not copy has the object read and sent
//! again, as if the application had written it. A write that is given up meanwhile leaves the file
//! as it was: what was sent of its beginning alone is no file.

use super::copied_range::{Copied, copy_failed};
use super::is_refusal;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::mutate::fetch::fetch;
use crate::operation::FsError;
use crate::write::background::{self, Settled};
use crate::write::file::state::{Front, Stage};
use crate::write::file::writer::Writer;

impl Writer {
    /// Whether what the file begins with has to be looked after before bytes can be taken behind
    /// it.
    pub(in crate::write) fn is_base_unsettled(&self, front: &Front) -> bool {
        front.base.is_some() && self.context.abilities.copies_parts() != Some(true)
    }

    /// Looks after what the file begins with, before `len` bytes are taken at `offset`.
    pub(in crate::write) async fn settle_base(
        &self,
        front: &mut Front,
        offset: u64,
        len: usize,
    ) -> Result<(), FsError> {
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            self.look(front);
            let Stage::Storing(settled) = &front.stage else {
                break;
            };
            let settled: Settled<_> = settled.clone();
            drop(settled.wait().await);
        }
        if len == 0 || offset != front.end || !self.is_base_unsettled(front) {
            return Ok(());
        }
        self.resume(front)?;
        let Some(base) = front.base.take() else {
            return Ok(());
        };
        let mut settling = Settling {
            writer: self,
            front,
            base: Some(base.clone()),
        };
        let outcome = self.send_base(settling.front, base).await;
        settling.base = None;
        outcome
    }

    /// Has the server copy `base` into the upload, or reads and sends it.
    async fn send_base(&self, front: &mut Front, base: Copied) -> Result<(), FsError> {
        if self.context.abilities.copies_parts() == Some(false) {
            front.end = 0;
            return self.read_base(front, base).await;
        }
        let mut parts = base.parts(self.context.config.copy_limits.part_max);
        let Some(first) = parts.next() else {
            return Ok(());
        };
        let upload = self.upload(front, true);
        let copied = upload.copy_awaited(first).wait().await;
        front.parts += 1;
        match copied {
            Ok(_) => {
                self.context.abilities.learn_copies(true);
                for part in parts {
                    upload.copy(part);
                    front.parts += 1;
                }
                Ok(())
            }
            Err(error) if self.failure.get().is_none() && is_refusal(&error) => {
                tracing::info!(
                    key = %self.key,
                    "the server does not copy parts of objects: what is appended to is read and sent again: {error}"
                );
                self.context.abilities.learn_copies(false);
                self.begin_anew(front, upload);
                self.read_base(front, base).await
            }
            Err(error) => {
                self.fail(front, &error);
                Err(error)
            }
        }
    }

    /// Takes the bytes of `base` as if they were written.
    async fn read_base(&self, front: &mut Front, base: Copied) -> Result<(), FsError> {
        let mut at = base.range.start;
        while at < base.range.end {
            let end = base.range.end.min(at + WRITE_SIZE_MAX as u64);
            let (client, pool) = (&*self.context.client, self.context.memory.pool());
            let version = (&base.key, &base.etag);
            let piece = fetch(client, pool, version, at..end).await;
            let taken = match piece {
                Ok(piece) => {
                    let room = self.make_room(front, front.end, piece.len()).await;
                    room.map(|()| self.take_bytes(front, &piece))
                }
                Err(error) => Err(copy_failed(error, &base)),
            };
            if let Err(error) = taken {
                self.fail(front, &error);
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
    front: &'a mut Front,
    /// What it begins with; `None` when that is done, or has failed.
    base: Option<Copied>,
}

impl Drop for Settling<'_> {
    fn drop(&mut self) {
        let Some(base) = self.base.take() else {
            return;
        };
        let front = &mut *self.front;
        front.let_go();
        if let Some(upload) = front.upload.take() {
            let pending = self.writer.context.begin();
            background::run(async move {
                upload.abort().await;
                drop(pending);
            });
        }
        front.has_copies = false;
        front.parts = 0;
        front.end = base.len();
        front.written = front.end;
        front.base = Some(base);
    }
}
