//! The writing threads, and the likely size of their next WRITEs.
//!
//! The kernel hands over a WRITE with its bytes, and they cannot be refused: a WRITE that waits for
//! memory is in memory. A thread has one WRITE at a time, so the last WRITEs of the writing threads
//! bound the bytes that may wait at once.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The threads that wrote recently. Lock-free.
pub(in crate::write) struct RecentWriters {
    /// The bytes of a thread's last WRITE, and the second of it. Threads that share a place count
    /// once.
    last: Box<[AtomicU64]>,
}

impl fmt::Debug for RecentWriters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads").finish_non_exhaustive()
    }
}

impl RecentWriters {
    pub(in crate::write) fn new() -> Self {
        let last = std::iter::repeat_with(AtomicU64::default).take(WRITERS_SEEN);
        Self {
            last: last.collect(),
        }
    }

    /// Notes that `thread` writes `len` bytes.
    pub(in crate::write) fn wrote(&self, thread: u64, len: usize, now: Duration) {
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        let place = thread % self.last.len() as u64;
        let place = usize::try_from(place).expect("it is below a length");
        self.last[place].store(second(now) << 32 | u64::from(len), Ordering::Relaxed);
    }

    /// Bytes of all threads that may wait at once.
    pub(in crate::write) fn bytes(&self, now: Duration) -> u64 {
        let since = second(now.saturating_sub(WRITER_RECENT));
        let last = self.last.iter().map(|last| last.load(Ordering::Relaxed));
        let recent = last.filter(|last| last >> 32 >= since);
        recent.map(|last| last & u64::from(u32::MAX)).sum()
    }
}

/// Seconds, from 1 on: 0 means never.
fn second(now: Duration) -> u64 {
    now.as_secs() + 1
}

/// Threads whose last WRITE is remembered. The count includes only these.
const WRITERS_SEEN: usize = 1024;

/// Time without a WRITE after which a thread is expected to have none waiting.
const WRITER_RECENT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_wait_is_what_each_thread_that_is_writing_wrote_last() {
        let threads = RecentWriters::new();
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
