//! Admission of write buffers: which writer may take how much, and when.
//!
//! Pure. A file that is open for writing holds nothing, a small buffer (the beginning of a part),
//! or room for a whole part. Small buffers alone could fill all memory, and none of them could be
//! sent, so some memory is kept for whole parts: a writer that gets it fills its part, sends it and
//! gives it back. Bytes of waiting WRITEs are in memory as well and cannot be refused, so small
//! buffers leave room for those of writing threads: doc/internals/write-memory.md has the rules.
//!
//! Invariants: `small + parts + waiting <= all`, unless the only part needs a little more or is
//! larger than that; a whole part fits as soon as the held parts have been sent, beside all small
//! buffers and waiting WRITEs.

#[cfg(test)]
mod tests;

use crate::config::limits::READ_SIZE_MAX;

/// The use of a writer's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BufferKind {
    /// A small buffer, which holds the beginning of a part until the file is closed or has grown.
    Small,
    /// A part that can be filled and sent.
    Part,
}

/// The buffer that a writer asks for, in bytes: one of the lengths, in place of its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferRequest {
    /// The small buffer that grows; 0 if there is none.
    pub held: u64,
    /// Length that lasts for a while.
    pub len: u64,
    /// Length that takes the next write.
    pub least: u64,
    /// A whole part.
    pub whole: u64,
    /// The shortest part that can be sent before the file ends.
    pub shortest: u64,
    /// Parts were sent: the file is not small.
    pub is_large: bool,
}

/// The wait of a request so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitState {
    /// The request is new, and no other writer waits.
    First,
    /// The request has waited.
    Waited,
    /// The request has waited, and nothing in flight would give memory back.
    Stuck,
}

/// The memory that writers hold, and its limits.
#[derive(Debug)]
pub(super) struct Admission {
    limits: Limits,
    small: u64,
    parts: u64,
    /// Counted bytes of WRITEs that wait.
    waiting: u64,
    /// Bytes that WRITEs may have waiting at once.
    expected: u64,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    /// All that writers may hold.
    all: u64,
    /// Limit when one part is outstanding. May borrow half of the read reserve, so that overflow
    /// behind a fixed-size part cannot block it.
    alone: u64,
    /// Memory that parts may fill, as far as small buffers leave it.
    usual: u64,
    /// Memory that small buffers leave to parts.
    kept: u64,
    /// Memory that small buffers may take in any case, so that small files progress side by side.
    begun: u64,
    /// Bytes up to which small buffers get the length that lasts for a while.
    plenty: u64,
    /// Bytes up to which a file gets room for its first part at once.
    eager: u64,
}

impl Admission {
    /// The admission of a mount with `memory` bytes, whose first parts need `part`.
    pub(super) fn new(memory: u64, part: u64) -> Self {
        let begun = begun(memory);
        let all = all(memory);
        Self {
            limits: Limits {
                all,
                alone: all + (memory - all) / 2,
                usual: memory / WRITE_MEMORY_SHARE,
                kept: part.min(part_max(memory)).max(begun),
                begun,
                plenty: memory / WRITE_PLENTY_SHARE,
                eager: memory / WRITE_EAGER_SHARE,
            },
            small: 0,
            parts: 0,
            waiting: 0,
            expected: 0,
        }
    }

    /// Bytes of all buffers.
    pub(super) fn used(&self) -> u64 {
        self.small + self.parts
    }

    /// Sets the bytes of WRITEs that may wait at once.
    pub(super) fn expect(&mut self, bytes: u64) {
        self.expected = bytes;
    }

    /// Counts a WRITE of `bytes` that waits. Returns the counted bytes: not those beyond all
    /// memory, so that parts and some small buffers still find room.
    pub(super) fn wait(&mut self, bytes: u64) -> u64 {
        let others = self.small.max(self.limits.begun) + self.parts.max(self.limits.kept);
        let free = self.limits.all.saturating_sub(others + self.waiting);
        let counted = bytes.min(free);
        self.waiting += counted;
        counted
    }

    /// Takes back the counted bytes of a WRITE that waits no longer.
    pub(super) fn waited(&mut self, counted: u64) {
        self.waiting -= counted;
    }

    /// The buffer that `request` gets now; `None` if it has to wait.
    pub(super) fn choose(
        &self,
        request: BufferRequest,
        wait: WaitState,
    ) -> Option<(BufferKind, u64)> {
        let small = |bytes: u64| {
            let fits = bytes < request.whole && self.small_fits(request.held, bytes);
            fits.then_some((BufferKind::Small, bytes))
        };
        let part = |bytes: u64| {
            self.part_fits(request.held, bytes)
                .then_some((BufferKind::Part, bytes))
        };
        let has_plenty = self.small - request.held + request.len <= self.limits.plenty;
        let is_eager = self.used() - request.held + request.len <= self.limits.eager;
        let is_for_part = request.is_large || request.len == request.whole && is_eager;
        // A large file's small buffer becomes a part, which leaves as much to reads as any.
        let leaves_half = self.used() - request.held + request.least <= self.limits.usual;
        let least = || small(request.least).filter(|_| !request.is_large || leaves_half);
        match wait {
            WaitState::First if is_for_part => part(request.whole).or_else(least),
            WaitState::First => {
                let len = small(request.len).filter(|_| has_plenty);
                len.or_else(|| small(request.least))
                    .or_else(|| part(request.whole))
            }
            WaitState::Waited => part(request.whole).or_else(least),
            WaitState::Stuck => {
                let usual = part(request.whole).or_else(|| small(request.least));
                let shorter = request.whole.min(self.limits.kept);
                let is_enough = shorter >= request.shortest.max(request.least);
                usual.or_else(|| part(shorter).filter(|_| is_enough))
            }
        }
    }

    /// Whether a further small buffer of `bytes` finds room.
    pub(super) fn has_room(&self, bytes: u64) -> bool {
        self.small_fits(0, bytes)
    }

    /// Takes `bytes` more for `kind`.
    pub(super) fn take(&mut self, kind: BufferKind, bytes: u64) {
        *self.of(kind) += bytes;
    }

    /// Gives `bytes` of a buffer back.
    pub(super) fn give_back(&mut self, kind: BufferKind, bytes: u64) {
        *self.of(kind) -= bytes;
    }

    /// Moves `bytes` of a buffer to another kind.
    pub(super) fn convert(&mut self, bytes: u64, from: BufferKind, to: BufferKind) {
        self.give_back(from, bytes);
        self.take(to, bytes);
    }

    /// Makes the buffer of a part a small buffer of `kept` bytes, if small buffers leave enough to
    /// one part all the same. That part may borrow from reads: others wait for the rest, and small
    /// buffers may be full. Returns whether it did.
    pub(super) fn cut(&mut self, bytes: u64, kept: u64) -> bool {
        let parts = self.parts - bytes;
        let others = parts.max(self.limits.kept) + self.waiting;
        if self.small + kept + others > self.limits.alone {
            return false;
        }
        self.parts = parts;
        self.small += kept;
        true
    }

    fn of(&mut self, kind: BufferKind) -> &mut u64 {
        match kind {
            BufferKind::Small => &mut self.small,
            BufferKind::Part => &mut self.parts,
        }
    }

    fn small_fits(&self, held: u64, bytes: u64) -> bool {
        let small = self.small - held + bytes;
        let others = small + self.parts.max(self.limits.kept);
        let leaves_room = others + self.expected <= self.limits.all;
        let is_free = leaves_room || small <= self.limits.begun;
        is_free && others + self.waiting <= self.limits.all
    }

    fn part_fits(&self, held: u64, bytes: u64) -> bool {
        let small = self.small - held;
        let parts = self.parts + bytes;
        if bytes > self.limits.all {
            // One that is larger than all memory is served alone rather than never.
            return small == 0 && self.parts == 0;
        }
        let usual = self.limits.usual.saturating_sub(small);
        let all = if self.parts == 0 {
            self.limits.alone
        } else {
            self.limits.all
        };
        parts <= usual.max(self.limits.kept) && small + parts + self.waiting <= all
    }
}

/// Most memory of `memory` that a part may take, if its size is fixed.
#[must_use]
pub fn part_max(memory: u64) -> u64 {
    all(memory) - begun(memory)
}

/// Memory that small buffers have in any case: the least that they leave to parts.
fn begun(memory: u64) -> u64 {
    memory / WRITE_PART_KEPT_SHARE
}

fn all(memory: u64) -> u64 {
    let reads = (memory / READ_KEPT_SHARE).max(READ_KEPT_MIN);
    memory
        .saturating_sub(reads)
        .max(memory / WRITE_MEMORY_SHARE)
}

/// Share of the mount's memory that parts of written files may hold. One in so many bytes.
const WRITE_MEMORY_SHARE: u64 = 2;

/// Memory that is always left to reads: one in so many bytes.
///
/// Incomplete first parts may exceed the write share, because an application with hundreds of open
/// files cannot be made to wait.
const READ_KEPT_SHARE: u64 = 8;

/// Least memory that is left to reads, in bytes: several reads of the largest size.
const READ_KEPT_MIN: u64 = 8 * READ_SIZE_MAX as u64;

/// Memory that incomplete first parts leave to whole parts. One in so many bytes, and one part at
/// least.
const WRITE_PART_KEPT_SHARE: u64 = 8;

/// Share of the mount's memory above which buffers take no more than they need. One in so many
/// bytes.
const WRITE_PLENTY_SHARE: u64 = 16;

/// Share of writers' memory above which a file gets no whole first part at once. One in so many
/// bytes.
///
/// A file that has outgrown the small buffers may end soon, and others may be many.
const WRITE_EAGER_SHARE: u64 = 8;
