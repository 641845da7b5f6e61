//! The memory that a writer needs before it takes bytes, and the buffer that it makes of it.
//!
//! Decides how much memory is asked for and what becomes of the buffer that is there;
//! [`WriteMemory`] gives it. Invariant: nothing that was taken is lost or sent twice when a buffer
//! grows, is replaced, or lets go of a part that was sent.
//!
//! [`WriteMemory`]: crate::write::memory::buffers::WriteMemory

use std::time::Duration;

use super::buffer::{Buffer, Filling};
use super::sink::Sink;
use super::state::{FileState, Stage};
use super::writer::Writer;
use crate::config::limits::{
    BUFFER_FILL_MAX, BUFFER_IDLE, UPLOAD_PART_MIN, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX,
};
use crate::memory::BufferRequest;
use crate::operation::FsError;
use crate::write::background::SharedOutcome;
use crate::write::memory::buffers::{Grant, least, stage};
use crate::write::memory::pressure::Reclaim;
use crate::write::send::append::AppendUpload;
use crate::write::types::Stored;

/// What must be there before bytes can be taken.
pub(in crate::write) enum Need {
    Nothing,
    Memory(BufferRequest),
    /// Zeros up to where the write begins.
    Gap,
    /// The object that is being made.
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
            // It may have failed in the background, which ends its upload, and holds memory for
            // nothing.
            state.buffer = Buffer::Empty;
            return Err(error);
        }
        self.look(state);
        if let Stage::Storing(outcome) = &state.stage {
            return Ok(Need::End(outcome.clone()));
        }
        if let Some(Err(error)) = state.sink.append().map(|append| append.check(&self.key)) {
            self.fail(state, &error);
            return Err(error);
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

    /// The request for memory where `least` bytes do for now, `len` for a while, and `whole` for a
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

    /// Bytes of the part that is filled next.
    pub(in crate::write) fn part_size(&self, state: &FileState) -> Result<usize, FsError> {
        let mut number = state.sink.parts() + self.copies(state) + 1;
        if let Sink::Append { .. } = state.sink {
            // How many parts the object has is not known here.
            number = number.min(UPLOAD_PARTS_MAX);
        }
        match self.context.plan.size(number) {
            Some(size) => Ok(usize::try_from(size).expect("a part fits into memory")),
            None => Err(FsError::TooLarge(format!(
                "{}: an upload has 10,000 parts at most, which is {} GiB here; a larger --write-part-size or \
                 --memory-target allows more",
                self.key,
                self.context.plan.total() >> 30
            ))),
        }
    }

    /// Goes on in the memory that was given, with the bytes of the smaller buffer, or the last
    /// part's too much.
    pub(in crate::write) fn install(&self, state: &mut FileState, grant: Grant) {
        let mut part_size = self.part_size(state).expect("asked before");
        let mut part_since = state.buffer.filling().map(|it| it.part_since);
        if grant.is_part() {
            // It may be shorter than planned, but not than what it has.
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
            // A copy of file data: the beginning of the part, less than one write, where parts and
            // writes do not end together; or what was stored, where the file goes on before its
            // request has let go of the buffer.
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

    /// Has bytes behind the part that was sent last, if there are any, in a buffer of their own, so
    /// that the part's memory comes back although the file waits for more. Returns whether there
    /// were any.
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
    /// Gives back memory, because others wait for it: all of it if the file has failed; the part
    /// that was sent and has overflow, and the rest of a part that is not filled, if `now` the file
    /// was not written to for a while. Where nothing else would give memory back, overflow and
    /// parts that are filled slowly give theirs as well. A file that is written to right now keeps
    /// it.
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
