//! Real time for [`Time::Threaded`](super::Time::Threaded): jobs that run when they are due.
//!
//! One thread, at most [`JOBS_MAX`] jobs. Once closed it runs its jobs at once and ends; so every
//! request of a dropped client is still answered.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Jobs that may wait: each request in flight has one.
const JOBS_MAX: usize = 1 << 16;

pub(super) type Job = Box<dyn FnOnce() + Send>;

/// The thread's side and the client's.
pub(super) struct Timer(Arc<Shared>);

struct Shared {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    /// By due time, then in the order of their making.
    waiting: BTreeMap<(Instant, u64), Job>,
    made: u64,
    is_closing: bool,
}

impl Timer {
    pub(super) fn start() -> Self {
        let shared = Arc::new(Shared {
            jobs: Mutex::new(Jobs::default()),
            changed: Condvar::new(),
        });
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("sim-timer".to_owned())
            .spawn(move || of_thread.run())
            .expect("a test that cannot start one thread cannot go on");
        Self(shared)
    }

    /// Runs `job` after `delay`, on the timer's thread; gives it back if too many wait.
    pub(super) fn schedule(&self, delay: Duration, job: Job) -> Result<(), Job> {
        let mut jobs = self.0.jobs.lock();
        if jobs.waiting.len() >= JOBS_MAX {
            return Err(job);
        }
        jobs.made += 1;
        let place = (now() + delay, jobs.made);
        jobs.waiting.insert(place, job);
        drop(jobs);
        self.0.changed.notify_one();
        Ok(())
    }

    /// Nothing waits any longer; the thread ends when it has nothing left to do.
    pub(super) fn close(&self) {
        self.0.jobs.lock().is_closing = true;
        self.0.changed.notify_one();
    }
}

impl Shared {
    fn run(&self) {
        while let Some(job) = self.next() {
            job();
        }
    }

    /// Waits for the next job; `None` once closed and empty.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            let due = jobs.waiting.first_key_value().map(|((due, _), _)| *due);
            match due {
                Some(due) if jobs.is_closing || due <= now() => {
                    return jobs.waiting.pop_first().map(|(_, job)| job);
                }
                Some(due) => {
                    self.changed.wait_until(&mut jobs, due);
                }
                None if jobs.is_closing => return None,
                None => self.changed.wait(&mut jobs),
            }
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "this file is the clock of the simulated server"
)]
fn now() -> Instant {
    Instant::now()
}
