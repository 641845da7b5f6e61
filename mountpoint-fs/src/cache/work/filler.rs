//! The thread that stores what was fetched, behind the reader.
//!
//! Readers never wait for it: what comes while [`Filler`] has enough to do is not stored. Its queue
//! holds the blocks themselves, whose memory counts in the mount's budget.

use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use crate::cache::entry::Entry;
use crate::executor::shielded;
use crate::operation::Slices;
use crate::sync::{Condvar, Mutex};

/// Stores fetched ranges.
#[derive(Debug)]
pub(in crate::cache) struct Filler {
    jobs: Sender<FillJob>,
    queue: Arc<FillQueue>,
}

#[derive(Debug)]
struct FillQueue {
    bytes_max: u64,
    /// Bytes of jobs that are not done. A leaf.
    bytes: Mutex<u64>,
    /// Told when there are none left.
    is_empty: Condvar,
}

#[derive(Debug)]
struct FillJob {
    entry: Arc<Entry>,
    range: Range<u64>,
    slices: Slices,
}

impl Filler {
    /// Starts the thread; its queue holds at most `bytes_max`.
    pub(in crate::cache) fn start(bytes_max: u64) -> std::io::Result<Self> {
        let (jobs, received) = channel();
        let queue = Arc::new(FillQueue {
            bytes_max,
            bytes: Mutex::new(0),
            is_empty: Condvar::new(),
        });
        let done = Arc::clone(&queue);
        thread::Builder::new()
            .name("cache-fill".to_owned())
            .spawn(move || run(&received, &done))?;
        Ok(Self { jobs, queue })
    }

    /// Stores the bytes of `range`, which are `slices`, soon; `false` if there is too much to do.
    pub(in crate::cache) fn store(
        &self,
        entry: &Arc<Entry>,
        range: &Range<u64>,
        slices: Slices,
    ) -> bool {
        let len = range.end - range.start;
        {
            let mut bytes = self.queue.bytes.lock();
            if *bytes > 0 && *bytes + len > self.queue.bytes_max {
                return false;
            }
            *bytes += len;
        }
        let job = FillJob {
            entry: Arc::clone(entry),
            range: range.clone(),
            slices,
        };
        self.jobs.send(job).is_ok()
    }

    /// Waits until all is stored, for `time_max` at most. Returns whether all is.
    pub(in crate::cache) fn drain(&self, time_max: Duration) -> bool {
        let mut bytes = self.queue.bytes.lock();
        let waited = self
            .queue
            .is_empty
            .wait_while_for(&mut bytes, |bytes| *bytes > 0, time_max);
        !waited.timed_out()
    }
}

fn run(jobs: &Receiver<FillJob>, queue: &FillQueue) {
    while let Ok(FillJob {
        entry,
        range,
        slices,
    }) = jobs.recv()
    {
        shielded("storing in the cache", || {
            entry.store(&range, &slices);
            drop((entry, slices));
        });
        let mut bytes = queue.bytes.lock();
        *bytes -= range.end - range.start;
        if *bytes == 0 {
            queue.is_empty.notify_all();
        }
    }
}
