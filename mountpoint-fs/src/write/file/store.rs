//! How a [`Writer`] sends: full parts, and at last the object.

use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::Checksum;

use super::buffer::{BlockBytes, Buffer, Filling, Overflow};
use super::sink::{Multipart, Sink};
use super::state::{FileState, Stage};
use super::writer::Writer;
use crate::config::limits::UPLOAD_PARTS_MAX;
use crate::operation::FsError;
use crate::write::background::{self, SharedOutcome};
use crate::write::checksum::RunningChecksum;
use crate::write::send::append::{AppendUpload, AppendedPart};
use crate::write::send::copied_range::CopiedRange;
use crate::write::send::multipart::Upload;
use crate::write::send::put::Adopts;
use crate::write::send::whole_object::WholeObject;
use crate::write::types::{Outcome, Stored};

impl Writer {
    /// Stores all taken bytes. Returns when the bucket holds the object.
    pub async fn store(&self) -> Result<Stored, FsError> {
        let outcome = {
            let mut state = self.state.lock().await;
            match self.begin_storing(&mut state)? {
                Stage::Stored(stored) => return Ok(stored),
                Stage::Storing(outcome) => outcome,
                Stage::Open => unreachable!("it was begun"),
            }
        };
        outcome.wait().await
    }

    /// Sends the buffer as a part, if it is long enough for one. Returns whether it did.
    pub(in crate::write) fn send_held(&self, state: &mut FileState) -> bool {
        if !self.can_send(state) {
            return false;
        }
        if let Some(filling) = state.buffer.filling_mut() {
            filling.part_size = filling.fill.filled();
        }
        self.send_part(state, &[]);
        true
    }

    /// Whether the buffer can be sent before its part is full. Appended parts may have any size;
    /// parts of an upload have the chosen size.
    pub(in crate::write) fn can_send(&self, state: &FileState) -> bool {
        state.has_part() && (state.sink.appends(self.mode) || !self.context.plan.is_fixed())
    }

    /// Sends the full part. `tail` is the overflow in its buffer.
    pub(in crate::write) fn send_part(&self, state: &mut FileState, tail: &[u8]) {
        let Buffer::Filling(filling) = std::mem::take(&mut state.buffer) else {
            unreachable!("a part is full");
        };
        let Filling {
            fill,
            lease,
            checksum,
            part_size,
            ..
        } = filling;
        let block = fill.block();
        if !tail.is_empty() {
            let mut rest = self.running_checksum(state);
            rest.update(tail);
            state.buffer = Buffer::Overflow(Overflow {
                bytes: BlockBytes {
                    block: block.clone(),
                    start: part_size,
                    end: fill.filled(),
                },
                lease,
                checksum: rest,
            });
        }
        let body = Bytes::from_owner(BlockBytes {
            block,
            start: 0,
            end: part_size,
        });
        if state.sink.appends(self.mode) {
            self.append(state, body, checksum.value());
            if let Sink::Append { parts, .. } = &mut state.sink {
                *parts = parts.saturating_add(1).min(UPLOAD_PARTS_MAX);
            }
            return;
        }
        let multipart = self.multipart(state, false);
        multipart.upload.put(body, checksum.value());
        multipart.parts += 1;
    }

    /// Appends `body` to the object, or makes it.
    fn append(&self, state: &mut FileState, body: Bytes, checksum: Option<Checksum>) {
        let part = AppendedPart {
            context: Arc::clone(&self.context.send),
            key: self.key.clone(),
            failure: Arc::clone(&self.failure),
            observer: Arc::clone(&self.observer),
            condition: state.replaces.condition(),
            headers: self.headers(),
        };
        if let Sink::Undecided = state.sink {
            let upload = AppendUpload::new(self.context.send.config.checksum);
            state.sink = Sink::Append { upload, parts: 0 };
        }
        let upload = state.sink.append().expect("parts are appended");
        upload.add(part, body, checksum);
    }

    /// The upload, begun if there is none. `copies` tells that copies follow.
    pub(in crate::write) fn multipart<'a>(
        &self,
        state: &'a mut FileState,
        copies: bool,
    ) -> &'a mut Multipart {
        match &state.sink {
            Sink::Undecided => state.sink = Sink::Multipart(self.begin_upload(None, copies)),
            Sink::Copied(base) => {
                let multipart = self.begin_upload(Some(base), copies);
                state.sink = Sink::Multipart(multipart);
            }
            Sink::Multipart(_) | Sink::Append { .. } => {}
        }
        match &mut state.sink {
            Sink::Multipart(multipart) => multipart,
            _ => unreachable!("parts of the file are appended"),
        }
    }

    /// Begins an upload with a copy of `base`.
    fn begin_upload(&self, base: Option<&CopiedRange>, copies: bool) -> Multipart {
        let has_copies = copies || base.is_some();
        let (context, key, failure) = (&self.context.send, &self.key, &self.failure);
        let upload = Upload::begin(context, key, failure, (has_copies, self.headers()), None);
        self.context.register(&upload);
        let mut parts = 0;
        let part_max = self.context.send.config.copy_limits.part_max;
        for part in base.into_iter().flat_map(|base| base.parts(part_max)) {
            upload.copy(part);
            parts += 1;
        }
        Multipart {
            upload,
            parts,
            has_copies,
            is_metadata_late: false,
        }
    }

    /// Begins to make the object, unless that was begun or done.
    fn begin_storing(&self, state: &mut FileState) -> Result<Stage, FsError> {
        self.look(state);
        if let Stage::Storing(outcome) = &state.stage {
            return Ok(Stage::Storing(outcome.clone()));
        }
        if let Some(error) = self.failure.get() {
            return Err(error);
        }
        if let Stage::Stored(stored) = &state.stage {
            return Ok(Stage::Stored(stored.clone()));
        }
        self.check_whole(state)?;
        let adopts = state.adopts_now();
        state.adopts = None;
        let outcome = SharedOutcome::new();
        match &state.sink {
            Sink::Undecided => self.begin_whole(state, adopts, outcome.clone()),
            Sink::Copied(_) | Sink::Multipart(_) => {
                self.multipart(state, false);
                self.send_last_part(state);
                self.complete(state, outcome.clone());
            }
            Sink::Append { .. } => self.append_last(state, outcome.clone()),
        }
        state.stage = Stage::Storing(outcome.clone());
        Ok(Stage::Storing(outcome))
    }

    /// Stores the file, all of which is in the buffer, as a whole object.
    fn begin_whole(
        &self,
        state: &FileState,
        adopts: Adopts,
        outcome: SharedOutcome<Result<Stored, FsError>>,
    ) {
        let (body, checksum) = match state.buffer.filling() {
            // The buffer stays, in case the file continues.
            Some(filling) => (Bytes::from_owner(filling.bytes()), filling.checksum),
            None => {
                let checksum = RunningChecksum::new(self.context.send.config.checksum);
                (Bytes::new(), checksum)
            }
        };
        let object = WholeObject {
            key: self.key.clone(),
            body,
            checksum: checksum.value(),
            condition: state.replaces.condition(),
            is_unasked: self.is_unasked,
            adopts,
            headers: self.headers(),
        };
        let context = Arc::clone(&self.context.send);
        self.run(outcome, async move { object.put(&context).await });
    }

    /// Sends the buffer, if there is one, as the last part so far of the upload.
    pub(in crate::write) fn send_last_part(&self, state: &mut FileState) {
        if let Some((bytes, checksum)) = state.buffer.take() {
            let multipart = self.multipart(state, false);
            let body = Bytes::from_owner(bytes);
            multipart.upload.put(body, checksum.value());
            multipart.parts += 1;
        }
    }

    /// Completes the upload. A copy applies metadata that changed after its begin.
    fn complete(&self, state: &mut FileState, outcome: SharedOutcome<Result<Stored, FsError>>) {
        let multipart = self.multipart(state, false);
        let upload = Arc::clone(&multipart.upload);
        let is_late = std::mem::take(&mut multipart.is_metadata_late);
        let late = is_late.then(|| self.headers());
        let condition = state.replaces.condition();
        let (context, key) = (Arc::clone(&self.context.send), self.key.clone());
        let observer = Arc::clone(&self.observer);
        self.run(outcome, async move {
            let stored = upload.complete(condition).await?;
            let Some(headers) = late else {
                return Ok(Outcome::Stored(stored));
            };
            let seen = (&stored.etag, stored.size);
            let replaced = context.mutator.replace_headers(&key, seen, headers).await;
            match replaced {
                Ok(etag) => Ok(Outcome::Stored(Stored { etag, ..stored })),
                Err(error) => {
                    // All bytes are stored, but the failure of the copy must be reported.
                    observer.stored(&stored);
                    Err(error)
                }
            }
        });
    }

    /// Appends the rest, and waits for all parts.
    fn append_last(&self, state: &mut FileState, outcome: SharedOutcome<Result<Stored, FsError>>) {
        if let Some((bytes, checksum)) = state.buffer.take()
            && !bytes.as_ref().is_empty()
        {
            self.append(state, Bytes::from_owner(bytes), checksum.value());
        }
        let all = state.sink.append().expect("parts are appended").all();
        self.run(outcome, async { all.await.map(Outcome::Stored) });
    }

    /// Runs the requests that make the object, reports the end, and settles the outcome.
    fn run(
        &self,
        outcome: SharedOutcome<Result<Stored, FsError>>,
        work: impl Future<Output = Result<Outcome, FsError>> + Send + 'static,
    ) {
        let pending = self.context.send.begin();
        let (observer, failure) = (Arc::clone(&self.observer), Arc::clone(&self.failure));
        let (context, key) = (Arc::clone(&self.context.send), self.key.clone());
        background::run(async move {
            let result = match work.await {
                Ok(Outcome::Stored(stored)) => {
                    context.permission.stored(&key);
                    observer.stored(&stored);
                    Ok(stored)
                }
                Ok(Outcome::Adopted(there)) => {
                    observer.adopted();
                    Ok(there)
                }
                Err(error) => {
                    context.permission.failed(&key, &error);
                    failure.set(&error);
                    Err(error)
                }
            };
            outcome.settle(result);
            drop(pending);
        });
    }
}
