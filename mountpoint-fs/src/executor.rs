//! Where parked operations are resumed.
//!
//! A kernel operation is a future. The FUSE session polls it once; if it is not ready it is parked
//! and resumed by the thread that brings the bytes or memory it waits for. Inside [`deliver`] that
//! happens on the delivering thread, with no hop; a wake-up anywhere else (a timer, a dropped
//! reservation) goes to a worker of the tokio runtime.
//!
//! Knows neither FUSE nor what a task does. Invariant: a task is never resumed inside another one:
//! what is woken meanwhile waits in the thread's queue, so the stack does not grow with the length
//! of a chain.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::task::Waker;

use tokio::runtime::Handle;

use crate::sync::run_on;

/// Runs `job` of a background thread. A panic is logged, and the thread goes on; `None` then.
pub(crate) fn shielded<T>(what: &str, job: impl FnOnce() -> T) -> Option<T> {
    let outcome = catch_unwind(AssertUnwindSafe(job));
    let report = |panic: &Box<dyn Any + Send>| {
        let message = panic_message(panic.as_ref());
        tracing::error!(message, "{what} panicked; the next ones go on");
    };
    outcome.inspect_err(report).ok()
}

/// The message of a panic, if it has one.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// A parked operation.
pub trait Resume: Send + Sync + 'static {
    /// Goes on, as far as it can without waiting. Must not panic.
    fn resume(self: Arc<Self>);

    /// Where to go on if no delivering thread does it.
    fn runtime(&self) -> &Handle;
}

/// Wakes `wakers`, resuming parked operations on this thread. The caller holds no lock.
pub fn deliver(wakers: Vec<Waker>) {
    delivering(|| {
        for waker in wakers {
            waker.wake();
        }
    });
}

/// Runs `work`, then resumes on this thread what was woken meanwhile. The caller holds no lock.
pub fn delivering<T>(work: impl FnOnce() -> T) -> T {
    match Delivery::begin() {
        // The outer delivery of this thread resumes what `work` wakes.
        None => work(),
        Some(delivery) => {
            let output = work();
            delivery.finish();
            output
        }
    }
}

/// Has `task` resumed soon: by this thread if it delivers, else by the task's runtime.
pub fn resume_soon(task: Arc<dyn Resume>) {
    let elsewhere = QUEUE.with_borrow_mut(|queue| match queue {
        Some(queue) => {
            queue.push_back(task);
            None
        }
        None => Some(task),
    });
    if let Some(task) = elsewhere {
        resume_elsewhere(task);
    }
}

fn resume_elsewhere(task: Arc<dyn Resume>) {
    let runtime = task.runtime().clone();
    run_on(&runtime, move || delivering(|| task.resume()));
}

/// This thread's right to resume tasks. Dropping it leaves what is still queued to the runtime.
struct Delivery;

impl Delivery {
    /// `None` if this thread delivers already.
    fn begin() -> Option<Self> {
        QUEUE.with_borrow_mut(|queue| match queue {
            Some(_) => None,
            None => {
                *queue = Some(VecDeque::new());
                Some(Self)
            }
        })
    }

    fn finish(self) {
        for _ in 0..RESUMED_PER_DELIVERY_MAX {
            let next = QUEUE.with_borrow_mut(|queue| queue.as_mut().and_then(VecDeque::pop_front));
            match next {
                Some(task) => task.resume(),
                None => return,
            }
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        let rest = QUEUE.take().unwrap_or_default();
        for task in rest {
            resume_elsewhere(task);
        }
    }
}

impl fmt::Debug for dyn Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Resume")
    }
}

/// A delivering thread belongs to somebody else (a network event loop): after this many tasks it
/// goes back to its work and the runtime takes the rest. An 8 MiB block may complete 2,048 parked
/// reads of 4 KiB.
const RESUMED_PER_DELIVERY_MAX: usize = 4096;

thread_local! {
    /// Tasks to resume on this thread; `None` while it does not deliver.
    static QUEUE: RefCell<Option<VecDeque<Arc<dyn Resume>>>> = const { RefCell::new(None) };
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::Wake;
    use std::thread::{self, ThreadId};

    use super::*;
    use crate::sync::Mutex;

    /// Resumes once for each wake; resuming number `n` wakes the task again until `n` is `chain`.
    struct Counter {
        runtime: Handle,
        chain: usize,
        resumed: AtomicUsize,
        depth: AtomicUsize,
        threads: Mutex<Vec<ThreadId>>,
    }

    impl Counter {
        fn new(runtime: &Handle, chain: usize) -> Arc<Self> {
            let threads = Mutex::new(Vec::new());
            let (resumed, depth) = (AtomicUsize::new(0), AtomicUsize::new(0));
            Arc::new(Self {
                runtime: runtime.clone(),
                chain,
                resumed,
                depth,
                threads,
            })
        }
    }

    impl Wake for Counter {
        fn wake(self: Arc<Self>) {
            resume_soon(self);
        }
    }

    impl Resume for Counter {
        fn resume(self: Arc<Self>) {
            assert_eq!(
                self.depth.fetch_add(1, Ordering::SeqCst),
                0,
                "resumed inside itself"
            );
            self.threads.lock().push(thread::current().id());
            if self.resumed.fetch_add(1, Ordering::SeqCst) + 1 < self.chain {
                // As a resumed operation may deliver in turn.
                deliver(vec![Waker::from(Arc::clone(&self))]);
            }
            self.depth.fetch_sub(1, Ordering::SeqCst);
        }

        fn runtime(&self) -> &Handle {
            &self.runtime
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap()
    }

    /// Lets a worker finish what was spawned before.
    fn settle(counter: &Counter) {
        while counter.resumed.load(Ordering::SeqCst) < counter.chain {
            thread::yield_now();
        }
    }

    #[test]
    fn delivered_tasks_resume_on_this_thread() {
        let runtime = runtime();
        let counter = Counter::new(runtime.handle(), 1000);
        deliver(vec![Waker::from(Arc::clone(&counter))]);
        assert_eq!(counter.resumed.load(Ordering::SeqCst), 1000);
        assert!(
            counter
                .threads
                .lock()
                .iter()
                .all(|id| *id == thread::current().id())
        );
    }

    #[test]
    fn other_wakes_go_to_the_runtime() {
        let runtime = runtime();
        let counter = Counter::new(runtime.handle(), 10);
        Waker::from(Arc::clone(&counter)).wake();
        settle(&counter);
        assert!(
            counter
                .threads
                .lock()
                .iter()
                .all(|id| *id != thread::current().id())
        );
    }

    #[test]
    fn a_long_chain_is_handed_over() {
        let runtime = runtime();
        let counter = Counter::new(runtime.handle(), RESUMED_PER_DELIVERY_MAX + 10);
        deliver(vec![Waker::from(Arc::clone(&counter))]);
        settle(&counter);
        let threads = counter.threads.lock();
        let here = threads
            .iter()
            .filter(|id| **id == thread::current().id())
            .count();
        assert_eq!(here, RESUMED_PER_DELIVERY_MAX);
    }

    #[test]
    fn a_panic_while_delivering_loses_no_task() {
        let runtime = runtime();
        let counter = Counter::new(runtime.handle(), 1);
        let task = Arc::clone(&counter);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            delivering(|| {
                resume_soon(task);
                panic!("expected by this test");
            })
        }));
        assert!(outcome.is_err());
        settle(&counter);
        // And the thread can deliver again.
        let counter = Counter::new(runtime.handle(), 2);
        deliver(vec![Waker::from(Arc::clone(&counter))]);
        assert_eq!(counter.resumed.load(Ordering::SeqCst), 2);
    }
}
