//! What a writer needs before it can take bytes, and how it goes on when it has that.
//!
//! Decides how much memory is asked for and what becomes of the buffer that is there;
//! [`WriteMemory`] gives it. Invariant: nothing that was taken is lost or sent twice when a buffer
//! grows, is replaced, or lets go of a part that was sent.
//!
//! [`WriteMemory`]: crate::write::memory::buffers::WriteMemory

use std::time::Duration;

use super::state::{Filling, Need, Sink, Stage};
use super::writer::Writer;
use crate::config::limits::{
    SHORTAGE_FILL, SHORTAGE_IDLE, UPLOAD_PART_MIN, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX,
};
use crate::operation::FsError;
use crate::write::memory::admission::BufferRequest;
use crate::write::memory::buffers::{Grant, least, stage};
use crate::write::send::append::AppendUpload;

impl Writer {
    /// What is needed to take `len` bytes at `offset`.
    pub(in crate::write) fn need(
        &self,
        sink: &mut Sink,
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
            sink.let_go();
            return Err(error);
        }
        self.look(sink);
        if let Stage::Storing(settled) = &sink.stage {
            return Ok(Need::End(settled.clone()));
        }
        if let Some(append) = &mut sink.append
            && let Err(error) = append.check(&self.key)
        {
            self.fail(sink, &error);
            return Err(error);
        }
        // Behind the end, this is a gap: what was on its way was waited for ([`Writer::in_order`]).
        if let Some(ahead) = sink.ahead(offset, len) {
            return Ok(ahead);
        }
        if offset != sink.end {
            let error = FsError::NotSequential(format!(
                "{}: files are written from their beginning to their end, this write is at {offset} instead of {}; \
                 {}",
                self.key,
                sink.end,
                sink.what_stays()
            ));
            self.fail(sink, &error);
            return Err(error);
        }
        if len == 0 {
            return Ok(Need::Nothing);
        }
        let held = sink.held();
        if sink.has_room(len) {
            return Ok(Need::Nothing);
        }
        if let Some(turn) = sink.append.as_mut().and_then(AppendUpload::turn) {
            return Ok(Need::End(turn));
        }
        let part_size = self.part_size(sink);
        let part_size = part_size.inspect_err(|error| self.fail(sink, error))?;
        let whole = part_size + WRITE_SIZE_MAX;
        let (len, least) = (stage(held + len, whole), least(held + len, whole));
        Ok(Need::Memory(self.buffer_request(sink, len, least, whole)))
    }

    /// What is asked for where `least` bytes do for now, `len` for a while, and `whole` for a part
    /// and one write.
    pub(in crate::write) fn buffer_request(
        &self,
        sink: &Sink,
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
        let growing = sink.filling.as_ref().filter(|it| !it.fill.is_shared());
        BufferRequest {
            held: growing.map_or(0, |filling| filling.lease.bytes()),
            len: len as u64,
            least: least as u64,
            whole,
            shortest,
            is_large: sink.upload.is_some() || sink.parts > 0,
        }
    }

    /// Bytes of the part that is filled next.
    pub(in crate::write) fn part_size(&self, sink: &Sink) -> Result<usize, FsError> {
        let mut number = sink.parts + self.copies(sink) + 1;
        if sink.append.is_some() {
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

    /// Goes on in the memory that was given, with what the smaller buffer had, or the last part's
    /// too much.
    pub(in crate::write) fn install(&self, sink: &mut Sink, grant: Grant) {
        let mut part_size = self.part_size(sink).expect("asked before");
        if grant.is_part() {
            // It may be shorter than planned, but not than what it has.
            part_size = sink.held().max(grant.len() - WRITE_SIZE_MAX);
            sink.part_since = self.context.clock.now();
        }
        let mut checksum = self.running_checksum(sink);
        if let Some(filling) = &mut sink.filling
            && grant.is_growth()
        {
            grant.grow(&mut filling.fill, &filling.lease);
            filling.part_size = part_size;
            return;
        }
        let (mut fill, lease) = grant.block();
        if let Some(filling) = sink.filling.take() {
            // A copy of file data: what was stored, where the file goes on before its request has
            // let go of the buffer.
            let filled = filling.fill.filled();
            fill.append(filling.fill.block().bytes(0..filled));
            checksum = filling.checksum;
        }
        if let Some(overflow) = sink.overflow.take() {
            // A copy of file data: less than one write, where parts and writes do not end together.
            fill.append(overflow.bytes.as_ref());
            checksum = overflow.checksum;
        }
        sink.filling = Some(Filling {
            fill,
            lease,
            checksum,
            part_size,
        });
    }

    /// Has bytes behind the part that was sent last, if there are any, in a buffer of their own, so
    /// that the part's memory comes back although the file waits for more. Returns whether there
    /// were any.
    pub(in crate::write) fn settle_overflow(&self, sink: &mut Sink) -> bool {
        let Ok(part_size) = self.part_size(sink) else {
            return false;
        };
        let Some(overflow) = sink.overflow.take() else {
            return false;
        };
        let (fill, lease) = overflow.lease.split(overflow.bytes.as_ref());
        sink.filling = Some(Filling {
            fill,
            lease,
            checksum: overflow.checksum,
            part_size,
        });
        true
    }

    /// Gives back what the file holds and does not need, because others wait for memory: all of it
    /// if it has failed; the sent part that some bytes are behind, and the rest of a part that is
    /// not filled, if `now` it was not written to for a while. Where nothing else would give memory
    /// back, what is behind a part is not waited for, and no part that is filled slowly: it is
    /// another's turn then. Who writes to it right now keeps it.
    pub(in crate::write) fn give_back_idle(&self, now: Duration, is_stuck: bool) {
        let Ok(mut sink) = self.sink.try_lock() else {
            return;
        };
        let sink = &mut *sink;
        if self.failure.get().is_some() {
            sink.let_go();
            return;
        }
        let is_idle = now >= sink.written_when + SHORTAGE_IDLE;
        if is_idle || is_stuck {
            self.settle_overflow(sink);
        }
        let is_slow = is_stuck && now >= sink.part_since + SHORTAGE_FILL;
        if !(is_idle || is_slow) || self.can_send(sink) {
            return;
        }
        let Ok(planned) = self.part_size(sink) else {
            return;
        };
        let Some(filling) = &mut sink.filling else {
            return;
        };
        let is_worth_it = filling.fill.capacity() - filling.fill.filled() >= WRITE_SIZE_MAX;
        if is_worth_it && filling.lease.is_part() && filling.lease.cut(&mut filling.fill) {
            filling.part_size = planned;
        }
    }
}
