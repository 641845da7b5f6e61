//! WRITEs that wait: how much they may come to, and what is held of them.
//!
//! The kernel hands over a WRITE with its bytes, and there is no way to refuse them: what waits for
//! memory is in memory. A thread has one WRITE at a time, so what may wait at once is what the
//! threads that are writing wrote last.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mountpoint_crt_sys::block::Block;

use super::buffers::{Counted, WriteMemory};
use crate::config::limits::{WRITER_RECENT, WRITERS_SEEN};

/// The threads that wrote of late. Lock-free.
pub(in crate::write) struct Threads {
    /// The bytes of a thread's last WRITE, and the second of it. Threads that share a place count
    /// once.
    last: Box<[AtomicU64]>,
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl Threads {
    pub(in crate::write) fn new() -> Self {
        let last = std::iter::repeat_with(AtomicU64::default).take(WRITERS_SEEN);
        Self {
            last: last.collect(),
        }
    }

    /// `thread` writes `len` bytes.
    pub(in crate::write) fn wrote(&self, thread: u64, len: usize, now: Duration) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let place = thread % self.last.len() as u64;
        let place = usize::try_from(place).expect("it is below a length");
        self.last[place].store(second(now) << 32 | u64::from(len), Ordering::Relaxed);
    }

    /// Bytes that all of them may have waiting at once.
    pub(in crate::write) fn bytes(&self, now: Duration) -> u64 {
        let since = second(now.saturating_sub(WRITER_RECENT));
        let last = self.last.iter().map(|last| last.load(Ordering::Relaxed));
        let recent = last.filter(|last| last >> 32 >= since);
        recent.map(|last| last & u64::from(u32::MAX)).sum()
    }
}

/// Seconds, from 1 on: 0 is never.
fn second(now: Duration) -> u64 {
    now.as_secs() + 1
}

/// Bytes of a WRITE that waits, in memory that is counted.
pub struct HeldWrite {
    block: Block,
    len: usize,
    /// Given back behind the memory itself.
    _counted: Counted,
}

impl HeldWrite {
    pub(in crate::write) fn new(memory: &Arc<WriteMemory>, data: &[u8]) -> Self {
        let counted = memory.wait(data.len() as u64);
        let mut fill = memory.pool().allocate(data.len());
        // A second copy of file data: the request's buffer is needed for the next one.
        fill.append(data);
        Self {
            block: fill.block(),
            len: data.len(),
            _counted: counted,
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.block.bytes(0..self.len)
    }
}

impl fmt::Debug for HeldWrite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeldWrite")
            .field("len", &self.len)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_wait_is_what_each_thread_that_is_writing_wrote_last() {
        let threads = Threads::new();
        let at = Duration::from_secs;
        assert_eq!(threads.bytes(at(0)), 0);
        for thread in 0..500 {
            threads.wrote(4_000_000 + thread, 1 << 20, at(0));
            threads.wrote(4_000_000 + thread, 1000, at(0));
        }
        assert_eq!(threads.bytes(at(0)), 500_000);
        threads.wrote(7, 5, at(3));
        assert_eq!(threads.bytes(at(0) + WRITER_RECENT), 500_005);
        assert_eq!(threads.bytes(at(1) + WRITER_RECENT), 5);
        assert_eq!(threads.bytes(at(100)), 0);
    }
}
