//! How a [`Writer`] takes bytes: in order, when there is memory for them.

use std::pin::pin;
use std::sync::atomic::Ordering;

use futures::future::{Either, select};
use tokio::sync::MutexGuard;

use super::buffering::Need;
use super::reordering::REORDER_DISTANCE_MAX;
use super::reordering::REORDER_WAIT;
use super::state::FileState;
use super::writer::Writer;
use crate::config::limits::{UPLOAD_PART_MAX, WRITE_SIZE_MAX};
use crate::memory::BufferRequest;
use crate::operation::FsError;
use crate::write::memory::buffers::least;

impl Writer {
    /// Takes the next bytes of the object that the file begins with.
    pub async fn preload(&self, data: &[u8]) -> Result<(), FsError> {
        let mut state = self.state.lock().await;
        let filled = state.buffer.len();
        let part_size = self.part_size(&state).expect("it is the first part");
        let whole = part_size + WRITE_SIZE_MAX;
        if !state.buffer.has_room(data.len()) {
            let least = least(filled + data.len(), whole);
            let request = self.buffer_request(&state, least, least, whole);
            let memory = self
                .context
                .pressure
                .memory_for(&self.key, request, state.extent.end);
            let grant = memory.await?;
            self.install(&mut state, grant);
        }
        let filling = state.buffer.filling_mut().expect("it was installed");
        filling.fill.append(data);
        filling.checksum.update(data);
        state.extent.advance(data.len() as u64);
        Ok(())
    }

    /// Takes `data` if that needs no waiting; `None` otherwise, and then nothing has changed.
    pub fn write_now(&self, offset: u64, data: &[u8]) -> Option<Result<(), FsError>> {
        let mut state = self.state.try_lock().ok()?;
        let waits = self.is_ahead(&state, offset) || !self.is_permitted();
        if waits && self.failure.get().is_none() {
            return None;
        }
        let need = match self.need(&mut state, offset, data.len()) {
            Ok(need) => need,
            Err(error) => return Some(Err(error)),
        };
        if self.is_base_unsettled(&state) {
            return None;
        }
        match need {
            Need::Nothing => {}
            Need::Memory(_) if self.waits_for_parts(&state) => return None,
            Need::Memory(request) => {
                let grant = self.context.memory.try_take(request)?;
                self.install(&mut state, grant);
            }
            Need::Gap | Need::End(_) => return None,
        }
        Some(self.take(&mut state, data))
    }

    /// Takes `data`, when there is memory for it, from an application without earlier writes in
    /// flight. A gap in front of it is filled with zeros.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), FsError> {
        self.write_in_order(offset, data, &|| false).await
    }

    /// As [`Self::write`], after earlier writes in flight. If bytes are missing, `goes_on` tells
    /// whether there may be such writes.
    pub async fn write_in_order(
        &self,
        offset: u64,
        data: &[u8],
        goes_on: &(dyn Fn() -> bool + Send + Sync),
    ) -> Result<(), FsError> {
        let mut state = self.in_order(offset, goes_on).await;
        self.prove(&mut state).await?;
        loop {
            match self.need(&mut state, offset, data.len())? {
                Need::Gap => self.fill_to(&mut state, offset).await?,
                Need::End(outcome) => drop(outcome.wait().await),
                Need::Nothing | Need::Memory(_) => break,
            }
        }
        self.take_in_turn(&mut state, offset, data).await
    }

    /// Takes `data` at the end, when there is memory for it.
    pub(in crate::write) async fn take_in_turn(
        &self,
        state: &mut FileState,
        offset: u64,
        data: &[u8],
    ) -> Result<(), FsError> {
        self.settle_base(state, offset, data.len()).await?;
        self.make_room(state, offset, data.len()).await?;
        self.take(state, data)
    }

    /// Returns when there is room for `len` bytes at `offset`.
    pub(in crate::write) async fn make_room(
        &self,
        state: &mut FileState,
        offset: u64,
        len: usize,
    ) -> Result<(), FsError> {
        loop {
            match self.need(state, offset, len)? {
                Need::Nothing => return Ok(()),
                Need::Gap => unreachable!("nobody else moves the end"),
                Need::Memory(request) => self.get_memory(state, request).await?,
                Need::End(outcome) => drop(outcome.wait().await),
            }
        }
    }

    /// Waits for memory, once; afterwards there may be room.
    async fn get_memory(
        &self,
        state: &mut FileState,
        request: BufferRequest,
    ) -> Result<(), FsError> {
        if state.sink.is_multipart() {
            self.context.send.parts.room().await;
        }
        if let Some(grant) = self.context.memory.try_take(request) {
            self.install(state, grant);
            return Ok(());
        }
        if self.settle_overflow(state) {
            return Ok(());
        }
        // The place in the queue is given up before the buffer is sent: a sent buffer cannot grow.
        let granted = {
            let memory = self
                .context
                .pressure
                .memory_for(&self.key, request, state.extent.end);
            // The file's lock is held: no other task can send its part.
            let told = self.context.pressure.told_to_send(self.can_send(state));
            match select(pin!(memory), pin!(told)).await {
                Either::Left((granted, _)) => Some(granted),
                Either::Right(_) => None,
            }
        };
        match granted {
            Some(Ok(grant)) => self.install(state, grant),
            Some(Err(error)) => {
                self.fail(state, &error);
                return Err(error);
            }
            None => {
                self.send_held(state);
            }
        }
        Ok(())
    }

    /// Whether the next part of an upload waits for parts in flight.
    fn waits_for_parts(&self, state: &FileState) -> bool {
        state.sink.is_multipart() && !self.context.send.parts.has_room()
    }

    /// Takes `data`, for which there is room.
    fn take(&self, state: &mut FileState, data: &[u8]) -> Result<(), FsError> {
        if data.is_empty() {
            return Ok(());
        }
        self.resume(state)?;
        state.extent.refused_len = None;
        self.take_bytes(state, data);
        self.reordering.reached(state.extent.end);
        let len = state.extent.len();
        self.progress.advance(len, self.context.clock.wall());
        Ok(())
    }

    /// Takes `data`, for which there is room, without publishing the new size.
    pub(in crate::write) fn take_bytes(&self, state: &mut FileState, data: &[u8]) {
        let may_be_longer = state.sink.appends(self.mode) || !self.context.plan.is_fixed();
        let filling = state.buffer.filling_mut().expect("there is room");
        let end = filling.fill.filled() + data.len();
        if end > filling.part_size
            && may_be_longer
            && end as u64 <= UPLOAD_PART_MAX
            && self.context.memory.is_short(end - filling.part_size)
        {
            // The part takes the whole write, so that all of its memory comes back.
            filling.part_size = end;
        }
        let room = filling.part_size - filling.fill.filled();
        let (head, tail) = data.split_at(room.min(data.len()));
        filling.fill.append(head);
        filling.checksum.update(head);
        filling.fill.append(tail);
        let is_full = filling.fill.filled() >= filling.part_size;
        state.extent.advance(data.len() as u64);
        state.written_at = self.context.pressure.written(data.len() as u64);
        state.written_when = self.context.clock.now();
        if is_full {
            self.send_part(state, tail);
        }
    }

    /// The state of the file, as soon as the bytes in front of `offset` were taken or are not
    /// expected. `goes_on` tells whether the writing thread may have earlier WRITEs in flight.
    pub(in crate::write) async fn in_order(
        &self,
        offset: u64,
        goes_on: &(dyn Fn() -> bool + Send + Sync),
    ) -> MutexGuard<'_, FileState> {
        let mut seen = None;
        loop {
            let state = self.state.lock().await;
            let end = state.extent.end;
            let is_ahead = self.is_ahead(&state, offset) && offset - end <= REORDER_DISTANCE_MAX;
            if !is_ahead || self.reordering.has_gaps() {
                return state;
            }
            // The time of the wait is over: no bytes will come, for this write and for those behind
            // it.
            if seen == Some(end) {
                self.reordering.waited_in_vain();
                return state;
            }
            if seen.is_none() && !goes_on() {
                return state;
            }
            seen = Some(end);
            let until = self.context.clock.now() + REORDER_WAIT;
            let told = self.reordering.wait(offset, until);
            drop(state);
            let _counted = self.context.pressure.wait_ahead();
            // The notice comes in any case: the file outlives its WRITEs.
            told.await.ok();
        }
    }

    /// Whether bytes are missing in front of `offset`.
    fn is_ahead(&self, state: &FileState, offset: u64) -> bool {
        offset > state.extent.end && self.failure.get().is_none()
    }

    /// Whether a write can be answered without a permission probe.
    fn is_permitted(&self) -> bool {
        let is_new = !self.is_permitted.load(Ordering::Relaxed);
        if is_new && self.context.send.permission.is_doubted(&self.key) {
            return false;
        }
        // After this file's first write, refusals of other files do not count.
        self.is_permitted.store(true, Ordering::Relaxed);
        true
    }

    /// Probes the permission to store the file, if it is in doubt: once, before the first write. A
    /// refusal fails the file.
    async fn prove(&self, state: &mut FileState) -> Result<(), FsError> {
        if self.is_permitted() || self.failure.get().is_some() {
            return Ok(());
        }
        let proven = self.context.prove(&self.key, &self.headers()).await;
        proven.inspect_err(|error| self.fail(state, error))?;
        self.is_permitted.store(true, Ordering::Relaxed);
        Ok(())
    }
}
