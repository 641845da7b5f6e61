//! Operations in progress: polled once by the session thread, parked if they are not ready, resumed by
//! whoever brings what they wait for, cancelled when the application gets a signal.
//!
//! Invariant: an operation and its duty to reply move together; whoever takes them out of a task's state, under
//! its lock, is the only one to reply. A parked operation is in the table until it has been answered.
//! Threads: any. A task's lock is held for a few instructions, never while an operation is polled or dropped.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use nix::errno::Errno;
use tokio::runtime::Handle;

use super::reply::{Reply, ReplyTo};
use super::signals;
use crate::executor::{self, Resume};
use crate::operation::Stop;
use crate::sync::Mutex;

/// What will answer a request.
pub(super) type PendingReply = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Starts operations, for one session thread.
#[derive(Debug)]
pub(super) struct Starter {
    parked: Arc<Parked>,
    runtime: Handle,
    /// Used again and again as long as operations are answered at once and keep no waker.
    spare: Arc<Task>,
}

impl Starter {
    /// A starter whose operations are parked in `parked`, and wait for timers and the like on `runtime`.
    pub(super) fn new(parked: &Arc<Parked>, runtime: &Handle) -> Self {
        let spare = Arc::new(Task::new(parked, runtime));
        Self {
            parked: Arc::clone(parked),
            runtime: runtime.clone(),
            spare,
        }
    }

    /// Runs `operation` as far as it goes without waiting. It is answered now, or parked and answered later.
    pub(super) fn start(&mut self, unique: u64, operation: PendingReply, reply: ReplyTo) {
        self.begin(unique, OnSignal::End, operation, reply);
    }

    /// The same for one that no signal ends: it is asked to `stop`.
    pub(super) fn start_whole(
        &mut self,
        unique: u64,
        operation: PendingReply,
        stop: Stop,
        reply: ReplyTo,
    ) {
        self.begin(unique, OnSignal::Ask(stop), operation, reply);
    }

    /// The same for one that only a signal ends that ends the process of `thread`, too.
    pub(super) fn start_stored(
        &mut self,
        unique: u64,
        operation: PendingReply,
        thread: u32,
        reply: ReplyTo,
    ) {
        self.begin(unique, OnSignal::EndWith(thread), operation, reply);
    }

    fn begin(&mut self, unique: u64, on_signal: OnSignal, operation: PendingReply, reply: ReplyTo) {
        let task = match Arc::get_mut(&mut self.spare) {
            Some(task) => task,
            None => {
                self.spare = Arc::new(Task::new(&self.parked, &self.runtime));
                Arc::get_mut(&mut self.spare).expect("it has just been made")
            }
        };
        task.unique = unique;
        task.on_signal = on_signal;
        *task.state.get_mut() = State::Polling {
            is_woken: false,
            cancelled: None,
        };
        self.spare
            .poll(Work { operation, reply }, Place::SessionThread);
    }
}

/// The table of parked operations.
#[derive(Debug, Default)]
pub(super) struct Parked(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    tasks: HashMap<u64, Arc<Task>>,
    /// Interrupts for requests that are not in the table: answered already, or still being polled for the first
    /// time by another session thread.
    early_interrupts: VecDeque<u64>,
}

impl Parked {
    /// How many operations are parked.
    pub(super) fn count(&self) -> usize {
        self.0.lock().tasks.len()
    }

    /// The application that waits for `unique` got a signal.
    pub(super) fn interrupt(&self, unique: u64) {
        let task = {
            let mut table = self.0.lock();
            let task = table.tasks.get(&unique).map(Arc::clone);
            if task.is_none() {
                if table.early_interrupts.len() == EARLY_INTERRUPTS_MAX {
                    table.early_interrupts.pop_front();
                }
                table.early_interrupts.push_back(unique);
            }
            task
        };
        if let Some(task) = task {
            task.interrupt();
        }
    }

    /// Answers every parked operation with `errno`.
    pub(super) fn cancel_all(&self, errno: Errno) {
        let tasks: Vec<_> = self.0.lock().tasks.values().map(Arc::clone).collect();
        for task in tasks {
            task.cancel(errno);
        }
    }

    /// Adds a task. Returns whether it has been interrupted before.
    fn park(&self, task: &Arc<Task>) -> bool {
        let mut table = self.0.lock();
        let replaced = table.tasks.insert(task.unique, Arc::clone(task));
        debug_assert!(replaced.is_none(), "request numbers are unique");
        let early = table
            .early_interrupts
            .iter()
            .position(|unique| *unique == task.unique);
        early
            .and_then(|index| table.early_interrupts.remove(index))
            .is_some()
    }

    fn remove(&self, unique: u64) {
        let removed = self.0.lock().tasks.remove(&unique);
        // Outside the lock: it may be the last reference.
        drop(removed);
    }
}

/// One operation.
struct Task {
    unique: u64,
    on_signal: OnSignal,
    parked: Arc<Parked>,
    runtime: Handle,
    /// Guards who owns the operation. Innermost lock.
    state: Mutex<State>,
}

/// What a signal to the application does to an operation.
enum OnSignal {
    /// Ends it.
    End,
    /// Asks it to stop.
    Ask(Stop),
    /// Ends it if it ends the process of this thread.
    EndWith(u32),
}

enum State {
    /// Nobody polls it.
    Idle { work: Work, is_scheduled: bool },
    /// Somebody polls it, and has the work.
    Polling {
        is_woken: bool,
        cancelled: Option<Errno>,
    },
    /// It has been answered, or nothing was started yet.
    Done,
}

struct Work {
    operation: PendingReply,
    reply: ReplyTo,
}

/// Where an operation is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// For the first time: it is not in the table yet.
    SessionThread,
    /// After it was parked.
    Resumed,
}

impl Task {
    fn new(parked: &Arc<Parked>, runtime: &Handle) -> Self {
        let (parked, runtime) = (Arc::clone(parked), runtime.clone());
        Self {
            unique: 0,
            on_signal: OnSignal::End,
            parked,
            runtime,
            state: Mutex::new(State::Done),
        }
    }

    /// The application that waits for it got a signal.
    fn interrupt(&self) {
        match &self.on_signal {
            OnSignal::Ask(stop) => stop.ask(),
            OnSignal::EndWith(thread) if !signals::is_ending(*thread) => {}
            OnSignal::End | OnSignal::EndWith(_) => self.cancel(Errno::EINTR),
        }
    }

    /// Polls `work`. The state is `Polling`, set by the caller.
    fn poll(self: &Arc<Self>, mut work: Work, place: Place) {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            work.operation.as_mut().poll(&mut context)
        }));
        let reply = match outcome {
            Ok(Poll::Ready(reply)) => reply,
            Ok(Poll::Pending) => {
                if place == Place::SessionThread && self.parked.park(self) {
                    self.interrupt();
                }
                return self.suspend(work);
            }
            Err(panic) => {
                let message = panic_message(panic.as_ref());
                tracing::error!(
                    self.unique,
                    message,
                    "an operation panicked, the application gets EIO"
                );
                Reply::Failed(Errno::EIO)
            }
        };
        *self.state.lock() = State::Done;
        if place == Place::Resumed {
            self.parked.remove(self.unique);
        }
        work.finish(reply);
    }

    /// Puts `work` back, unless it was cancelled meanwhile.
    fn suspend(self: &Arc<Self>, work: Work) {
        let mut state = self.state.lock();
        let State::Polling {
            is_woken,
            cancelled,
        } = *state
        else {
            unreachable!("only who polls ends the polling");
        };
        if let Some(errno) = cancelled {
            *state = State::Done;
            drop(state);
            self.parked.remove(self.unique);
            return work.finish(Reply::Failed(errno));
        }
        *state = State::Idle {
            work,
            is_scheduled: is_woken,
        };
        drop(state);
        if is_woken {
            executor::resume_soon(Arc::clone(self) as Arc<dyn Resume>);
        }
    }

    /// Answers with `errno`, now or as soon as the current poll has ended without an answer.
    fn cancel(&self, errno: Errno) {
        let mut state = self.state.lock();
        match &mut *state {
            State::Done => {}
            State::Polling { cancelled, .. } => {
                cancelled.get_or_insert(errno);
            }
            State::Idle { .. } => {
                let State::Idle { work, .. } = std::mem::replace(&mut *state, State::Done) else {
                    unreachable!("it was idle, and is locked");
                };
                drop(state);
                self.parked.remove(self.unique);
                work.finish(Reply::Failed(errno));
            }
        }
    }
}

impl Work {
    /// Drops what the operation held, then answers: the application may act at once.
    fn finish(self, reply: Reply) {
        let operation = AssertUnwindSafe(self.operation);
        if catch_unwind(|| drop(operation)).is_err() {
            tracing::error!("an operation panicked while it was dropped");
        }
        self.reply.send(reply);
    }
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        let is_idle = match &mut *self.state.lock() {
            State::Done => false,
            State::Polling { is_woken, .. } => {
                *is_woken = true;
                false
            }
            State::Idle { is_scheduled, .. } => !std::mem::replace(is_scheduled, true),
        };
        if is_idle {
            executor::resume_soon(self);
        }
    }
}

impl Resume for Task {
    fn resume(self: Arc<Self>) {
        let mut state = self.state.lock();
        let polling = State::Polling {
            is_woken: false,
            cancelled: None,
        };
        match std::mem::replace(&mut *state, polling) {
            State::Idle { work, .. } => {
                drop(state);
                self.poll(work, Place::Resumed);
            }
            // Cancelled between the wake-up and now.
            other => *state = other,
        }
    }

    fn runtime(&self) -> &Handle {
        &self.runtime
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("unique", &self.unique)
            .finish_non_exhaustive()
    }
}

/// What a panic said, where it said something.
pub(super) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no message")
}

/// Interrupts remembered for requests that nobody has parked yet. There are at most as many of those as session
/// threads; the others are of requests that were answered meanwhile.
const EARLY_INTERRUPTS_MAX: usize = 256;
