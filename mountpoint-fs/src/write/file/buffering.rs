//! The memory that a writer needs before it takes bytes, and the buffer made of that memory.
//!
//! Decides how much memory to request and how to reuse the existing buffer; [`WriteMemory`] grants
//! memory. Invariant: no byte is lost or sent twice when a buffer grows, is replaced, or gives up
//! a part that was sent.
//!
//! [`WriteMemory`]: crate::write::memory::buffers::WriteMemory

use std::time::Duration;

use super::buffer::{Buffer, Filling};
use super::sink::Sink;
use super::state::{FileState, Stage};
use super::writer::Writer;
use crate::config::limits::{UPLOAD_PART_MIN, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX};
use crate::memory::BufferRequest;
use crate::operation::FsError;
use crate::write::background::SharedOutcome;
use crate::write::memory::buffers::{Grant, least, stage};
use crate::write::memory::pressure::Reclaim;
use crate::write::send::append::AppendUpload;
use crate::write::types::Stored;

/// The needs of a write before its bytes can be taken.
pub(in crate::write) enum Need {
    Nothing,
    Memory(BufferRequest),
    /// Zeros up to the beginning of the write.
    Gap,
    /// The end of a store in progress.
    End(SharedOutcome<Result<Stored, FsError>>),
}

impl Writer {
    /// The need of a write of `len` bytes at `offset`.
    pub(in crate::write) fn need(
        &self,
        state: &mut FileState,
        offset: u64,
        len: usize,
    ) -> Result<Need, FsError> {
        assert!(
            len <= WRITE_SIZE_MAX,
            "the kernel agreed to write less at once"
        );
        if let Some(error) = self.failure.get() {
            // The file may have failed in the background, which ends its upload: its memory is
            // useless.
            state.buffer = Buffer::Empty;
            return Err(error);
        }
        self.look(state);
        if let Stage::Storing(outcome) = &state.stage {
            return Ok(Need::End(outcome.clone()));
        }
        // Behind the end, this is a gap: WRITEs in flight were waited for ([`Writer::in_order`]).
        if state.extent.is_gap(offset, len) {
            return Ok(Need::Gap);
        }
        if offset != state.extent.end {
            let error = self.not_sequential(state, offset);
            self.fail(state, &error);
            return Err(error);
        }
        if len == 0 || state.buffer.has_room(len) {
            return Ok(Need::Nothing);
        }
        if let Some(turn) = state.sink.append().and_then(AppendUpload::turn) {
            return Ok(Need::End(turn));
        }
        let part_size = self.part_size(state);
        let part_size = part_size.inspect_err(|error| self.fail(state, error))?;
        let whole = part_size + WRITE_SIZE_MAX;
        let len = state.buffer.len() + len;
        let (len, least) = (stage(len, whole), least(len, whole));
        Ok(Need::Memory(self.buffer_request(state, len, least, whole)))
    }

    /// The error for a write at `offset`, which is not the end.
    fn not_sequential(&self, state: &FileState, offset: u64) -> FsError {
        FsError::NotSequential(format!(
            "{}: files are written from their beginning to their end, this write is at {offset} instead of {}; \
             {}",
            self.key,
            state.extent.end,
            state.what_stays()
        ))
    }

    /// A request for memory. `least` bytes suffice for now, `len` for a while, and `whole` for a
    /// part and one write.
    pub(in crate::write) fn buffer_request(
        &self,
        state: &FileState,
        len: usize,
        least: usize,
        whole: usize,
    ) -> BufferRequest {
        let whole = whole as u64;
        let shortest = if self.context.plan.is_fixed() {
            whole
        } else {
            whole.min(UPLOAD_PART_MIN + WRITE_SIZE_MAX as u64)
        };
        let growing = state.buffer.filling().filter(|it| !it.fill.is_shared());
        BufferRequest {
            held: growing.map_or(0, |filling| filling.lease.bytes()),
            len: len as u64,
            least: least as u64,
            whole,
            shortest,
            is_large: state.sink.is_begun(),
        }
    }

    /// Bytes of the next part.
    pub(in crate::write) fn part_size(&self, state: &FileState) -> Result<usize, FsError> {
        let mut number = state.sink.parts() + self.copies(state) + 1;
        if let Sink::Append { .. } = state.sink {
            // The number of the object's parts is unknown here.
            number = number.min(UPLOAD_PARTS_MAX);
        }
        let size = self.context.part_size(&self.key, number)?;
        Ok(usize::try_from(size).expect("a part fits into memory"))
    }

    /// Makes the granted memory the buffer, with the bytes of the smaller buffer or the overflow of
    /// the last part.
    pub(in crate::write) fn install(&self, state: &mut FileState, grant: Grant) {
        let mut part_size = self.part_size(state).expect("asked before");
        let mut part_since = state.buffer.filling().map(|it| it.part_since);
        if grant.is_part() {
            // The buffer may be shorter than planned, but not shorter than its content.
            part_size = state.buffer.len().max(grant.len() - WRITE_SIZE_MAX);
            part_since = None;
        }
        let part_since = part_since.unwrap_or_else(|| self.context.clock.now());
        if let Buffer::Filling(filling) = &mut state.buffer
            && grant.is_growth()
        {
            grant.grow(&mut filling.fill, &filling.lease);
            filling.part_size = part_size;
            filling.part_since = part_since;
            return;
        }
        let mut checksum = self.running_checksum(state);
        let (mut fill, lease) = grant.block();
        if let Some((bytes, its_checksum)) = state.buffer.take() {
            // A copy of file data: the beginning of the part, less than one write, if parts and
            // writes end at different offsets; or stored bytes, if the file continues before its
            // request has given up the buffer.
            fill.append(bytes.as_ref());
            checksum = its_checksum;
        }
        state.buffer = Buffer::Filling(Filling {
            fill,
            lease,
            checksum,
            part_size,
            part_since,
        });
    }

    /// Moves the overflow behind the last sent part to a buffer of its own, so that the part's
    /// memory comes back although the file waits for more. Returns whether there was overflow.
    pub(in crate::write) fn settle_overflow(&self, state: &mut FileState) -> bool {
        let Ok(part_size) = self.part_size(state) else {
            return false;
        };
        let Some(overflow) = state.buffer.take_overflow() else {
            return false;
        };
        let (fill, lease) = overflow.lease.split(overflow.bytes.as_ref());
        state.buffer = Buffer::Filling(Filling {
            fill,
            lease,
            checksum: overflow.checksum,
            part_size,
            part_since: self.context.clock.now(),
        });
        true
    }
}

impl Reclaim for Writer {
    /// Gives back memory that other writers wait for.
    ///
    /// A failed file gives back all. A file without a write for a while before `now` gives back a
    /// sent part with overflow, and the unfilled rest of a part. If nothing else would give memory
    /// back, files with overflow and slowly filled parts give theirs as well. A file with a write
    /// in progress keeps its memory.
    fn give_back_idle(&self, now: Duration, is_stuck: bool) {
        let Ok(mut state) = self.state.try_lock() else {
            return;
        };
        let state = &mut *state;
        if self.failure.get().is_some() {
            state.buffer = Buffer::Empty;
            return;
        }
        let is_idle = now >= state.written_when + BUFFER_IDLE;
        if is_idle || is_stuck {
            self.settle_overflow(state);
        }
        if self.can_send(state) {
            return;
        }
        let Ok(planned) = self.part_size(state) else {
            return;
        };
        let Some(filling) = state.buffer.filling_mut() else {
            return;
        };
        let is_slow = is_stuck && now >= filling.part_since + BUFFER_FILL_MAX;
        if !(is_idle || is_slow) {
            return;
        }
        let is_worth_it = filling.room() >= WRITE_SIZE_MAX;
        if is_worth_it && filling.lease.is_part() && filling.lease.cut(&mut filling.fill) {
            filling.part_size = planned;
        }
    }

    fn can_send_since(&self) -> Option<u64> {
        let state = self.state.try_lock().ok()?;
        (self.failure.get().is_none() && self.can_send(&state)).then_some(state.written_at)
    }

    fn send_early(&self) -> bool {
        let Ok(mut state) = self.state.try_lock() else {
            return false;
        };
        self.failure.get().is_none() && self.send_held(&mut state)
    }

    fn expire_waits(&self, now: Duration) {
        self.reordering.expire(now);
    }
}

/// Idle time after which a file gives back its unfilled memory to waiting writers.
///
/// A program that fills one file writes far more often, and a later write reserves memory again.
const BUFFER_IDLE: Duration = Duration::from_secs(1);

/// Time after which a file with an unfilled part gives way to waiting writers.
///
/// The rule applies while no upload is in flight: the file may be a log with an occasional line.
const BUFFER_FILL_MAX: Duration = Duration::from_secs(5);
