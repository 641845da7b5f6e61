//! Threads that wait for the local disk, so that no thread that serves requests has to.
//!
//! Jobs run in the order in which they came. A disk may take long or hang:
//! [`DiskThreads::is_stuck`] says so, and then nothing more is asked of it. Threads that hang are
//! left behind at the end.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::executor;
use crate::sync::{Condvar, Mutex, spawn};

/// Is given the beginning that its thread has noted.
type Job = Box<dyn FnOnce(&AtomicU64) + Send>;

/// A few threads with one queue. The queue is bounded by the memory that its jobs have reserved.
pub(crate) struct DiskThreads {
    queue: Arc<Queue>,
    clock: Clock,
    /// For each thread when its job began, in milliseconds of the clock and at least 1; 0 while it
    /// has none.
    began_ms: Arc<[AtomicU64]>,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// No more will come.
    are_all: bool,
}

impl DiskThreads {
    /// Starts `count` threads, which are called `name` and a number.
    pub(crate) fn start(name: &str, count: usize, clock: &Clock) -> std::io::Result<Self> {
        let queue = Arc::<Queue>::default();
        let began_ms: Arc<[AtomicU64]> = (0..count).map(|_| AtomicU64::new(0)).collect();
        for number in 0..count {
            let (its, began_ms) = (Arc::clone(&queue), Arc::clone(&began_ms));
            let clock = clock.clone();
            let run = move || run(&its, &began_ms[number], &clock);
            if let Err(error) = spawn(format!("{name}-{number}"), run) {
                queue.end();
                return Err(error);
            }
        }
        Ok(Self {
            queue,
            clock: clock.clone(),
            began_ms,
        })
    }

    /// Runs `job` soon.
    pub(crate) fn run(&self, job: impl FnOnce() + Send + 'static) {
        self.send(Box::new(|_| job()));
    }

    fn send(&self, job: Job) {
        self.queue.jobs.lock().waiting.push_back(job);
        self.queue.changed.notify_one();
    }

    /// Runs `job` soon, and returns its result. A job whose caller stops waiting runs all the same.
    /// `None` if the job has panicked.
    pub(crate) async fn answer<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, answer) = oneshot::channel();
        self.send(Box::new(move |began_ms| {
            let result = job();
            // What its caller does next may run on this thread, and is not the disk's time.
            began_ms.store(0, Ordering::Relaxed);
            // The caller may be gone.
            executor::delivering(|| done.send(result).ok());
        }));
        answer.await.ok()
    }

    /// Waits until the jobs that were queued before have ended, if there is one thread. Returns
    /// whether they have ended within `time_max`. Blocks.
    pub(crate) fn drain(&self, time_max: Duration) -> bool {
        let (done, end) = sync_channel(1);
        self.send(Box::new(move |began_ms| {
            // What its caller does next is not the disk's time.
            began_ms.store(0, Ordering::Relaxed);
            // The caller may have waited long enough.
            done.send(()).ok();
        }));
        end.recv_timeout(time_max).is_ok()
    }

    /// Whether the disk has not answered for a while.
    pub(crate) fn is_stuck(&self) -> bool {
        let began = self
            .began_ms
            .iter()
            .map(|began| began.load(Ordering::Relaxed));
        let Some(first) = began.filter(|began| *began > 0).min() else {
            return false;
        };
        self.clock.now() > Duration::from_millis(first) + STUCK_AFTER
    }
}

impl Queue {
    /// The next job; `None` if there will be none.
    fn next(&self) -> Option<Job> {
        let mut jobs = self.jobs.lock();
        loop {
            match jobs.waiting.pop_front() {
                Some(job) => return Some(job),
                None if jobs.are_all => return None,
                None => self.changed.wait(&mut jobs),
            }
        }
    }

    fn end(&self) {
        self.jobs.lock().are_all = true;
        self.changed.notify_all();
    }
}

impl Drop for DiskThreads {
    fn drop(&mut self) {
        self.queue.end();
    }
}

fn run(queue: &Queue, began_ms: &AtomicU64, clock: &Clock) {
    while let Some(job) = queue.next() {
        let now = u64::try_from(clock.now().as_millis()).unwrap_or(u64::MAX);
        began_ms.store(now.max(1), Ordering::Relaxed);
        executor::shielded("a job for the local disk", || job(began_ms));
        began_ms.store(0, Ordering::Relaxed);
    }
}

impl fmt::Debug for DiskThreads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskThreads({})", self.began_ms.len())
    }
}

/// A job that takes longer holds up others: S3 has any range in less.
const STUCK_AFTER: Duration = Duration::from_secs(1);
