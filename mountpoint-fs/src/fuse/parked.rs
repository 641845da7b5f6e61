//! Operations in progress.
//!
//! A session thread polls an operation once. If it is not ready it is parked; the thread that
//! brings its bytes resumes it, a signal to the application may cancel it.
//!
//! Invariant: an operation and its duty to reply move together; the thread that takes them out of a
//! task's state, under its lock, is the only one to reply. A parked operation is in the table until
//! it has been answered. Threads: any. A task's lock is held for a few instructions, never while an
//! operation is polled or dropped.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use nix::errno::Errno;
use tokio::runtime::Handle;

use super::reply::{MeasuredTrace, Reply, ReplyTo};
use crate::executor::{self, Resume, panic_message};
use crate::fuse::proc::Effect;
use crate::metrics::trace::{self, WaitsInProgress, now};
use crate::operation::Stop;
use crate::sync::Mutex;

/// The future of a reply.
pub(super) type PendingReply = Pin<Box<dyn Future<Output = Reply> + Send>>;

/// Starts operations, for one session thread.
#[derive(Debug)]
pub(super) struct Starter {
    parked: Arc<Parked>,
    runtime: Handle,
    /// Reused as long as operations are answered at once and keep no waker.
    spare: Arc<Task>,
}

impl Starter {
    /// A starter that parks operations in `parked`; their timers run on `runtime`.
    pub(super) fn new(parked: &Arc<Parked>, runtime: &Handle) -> Self {
        let spare = Arc::new(Task::new(parked, runtime));
        Self {
            parked: Arc::clone(parked),
            runtime: runtime.clone(),
            spare,
        }
    }

    /// Runs `operation` up to its first wait. The request is answered now, or parked and answered
    /// later.
    pub(super) fn start(
        &mut self,
        requester: Requester,
        on_signal: OnSignal,
        operation: PendingReply,
        reply: ReplyTo,
    ) {
        let task = match Arc::get_mut(&mut self.spare) {
            Some(task) => task,
            None => {
                self.spare = Arc::new(Task::new(&self.parked, &self.runtime));
                Arc::get_mut(&mut self.spare).expect("it has just been made")
            }
        };
        task.trace = reply.trace(task.trace.take(), requester.thread);
        task.requester = requester;
        task.on_signal = on_signal;
        *task.state.get_mut() = State::Polling {
            is_woken: false,
            cancelled: None,
        };
        self.spare.poll(Work { operation, reply }, PollPhase::First);
    }
}

/// The request, and the thread that waits for its answer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Requester {
    /// The number of the request.
    pub(super) unique: u64,
    /// The thread, by its number in our PID namespace; 0 if it has none there.
    pub(super) thread: u32,
}

/// The effect of a program's fatal signal on the operation that the program waits for.
///
/// Other signals do nothing: programs expect no `EINTR` from most calls on files, and take the
/// `EINTR` of a close for success.
#[derive(Debug)]
pub(super) enum OnSignal {
    /// Cancels the operation.
    End,
    /// Asks the operation to stop at its next safe point. It cannot be cancelled: requests already
    /// sent would still take effect, after the application's next step.
    Ask(Stop),
    /// Cancels the operation if the program ends, or is out of sight.
    Store,
}

/// The table of parked operations.
#[derive(Debug)]
pub(super) struct Parked {
    table: Mutex<Table>,
    /// The effect of a thread's signals on its program.
    effect_on: fn(u32) -> Effect,
}

#[derive(Debug, Default)]
struct Table {
    tasks: HashMap<u64, Arc<Task>>,
    /// Interrupts for requests that are not in the table: answered already, or still being polled
    /// for the first time by another session thread.
    early_interrupts: VecDeque<u64>,
}

impl Parked {
    /// An empty table. `effect_on` is [`Effect::on`].
    pub(super) fn new(effect_on: fn(u32) -> Effect) -> Self {
        Self {
            table: Mutex::default(),
            effect_on,
        }
    }

    /// The number of parked operations.
    pub(super) fn count(&self) -> usize {
        self.table.lock().tasks.len()
    }

    /// Counts the waits of parked operations up to now, as if they ended and began again. Returns
    /// those that wait.
    pub(super) fn count_waits(&self) -> WaitsInProgress {
        let tasks: Vec<_> = self.table.lock().tasks.values().map(Arc::clone).collect();
        let (mut waits, now) = (WaitsInProgress::default(), now());
        for trace in tasks.iter().filter_map(|task| task.trace.as_ref()) {
            trace.count_waits(now);
            let (cause, age) = trace.trace().in_progress(now);
            waits.add(cause, age);
        }
        waits
    }

    /// Notes a signal to the application that waits for `unique`.
    pub(super) fn interrupt(&self, unique: u64) {
        let task = {
            let mut table = self.table.lock();
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
        let tasks: Vec<_> = self.table.lock().tasks.values().map(Arc::clone).collect();
        for task in tasks {
            task.cancel(errno);
        }
    }

    /// Adds a task. Returns whether it has been interrupted before.
    fn park(&self, task: &Arc<Task>) -> bool {
        let mut table = self.table.lock();
        let replaced = table.tasks.insert(task.requester.unique, Arc::clone(task));
        debug_assert!(replaced.is_none(), "request numbers are unique");
        let early = table
            .early_interrupts
            .iter()
            .position(|unique| *unique == task.requester.unique);
        early
            .and_then(|index| table.early_interrupts.remove(index))
            .is_some()
    }

    fn remove(&self, unique: u64) {
        let removed = self.table.lock().tasks.remove(&unique);
        // Outside the lock: it may be the last reference.
        drop(removed);
    }
}

/// One operation.
struct Task {
    requester: Requester,
    on_signal: OnSignal,
    parked: Arc<Parked>,
    runtime: Handle,
    /// Its waits, if operations are measured.
    trace: Option<MeasuredTrace>,
    /// Guards the ownership of the operation. Innermost lock.
    state: Mutex<State>,
}

enum State {
    /// No thread polls the operation.
    Idle { work: Work, is_scheduled: bool },
    /// A thread polls the operation, and has the work.
    Polling {
        is_woken: bool,
        cancelled: Option<Errno>,
    },
    /// The operation has been answered, or none was started yet.
    Done,
}

struct Work {
    operation: PendingReply,
    reply: ReplyTo,
}

/// The first poll of an operation, or a later one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PollPhase {
    /// The first poll, before the operation is in the table.
    First,
    /// A poll of a parked operation.
    Resumed,
}

impl Task {
    fn new(parked: &Arc<Parked>, runtime: &Handle) -> Self {
        let (parked, runtime) = (Arc::clone(parked), runtime.clone());
        Self {
            requester: Requester {
                unique: 0,
                thread: 0,
            },
            on_signal: OnSignal::End,
            parked,
            runtime,
            trace: None,
            state: Mutex::new(State::Done),
        }
    }

    /// Notes a signal to the application that waits for the operation.
    fn interrupt(self: &Arc<Self>) {
        if self.is_to_stop(Duration::ZERO) {
            self.stop();
        } else {
            self.watch();
        }
    }

    /// Whether the requester's signals, the first of which came `waited` ago, are heeded.
    fn is_to_stop(&self, waited: Duration) -> bool {
        let effect = (self.parked.effect_on)(self.requester.thread);
        match (effect, &self.on_signal) {
            (Effect::End, _)
            | (Effect::Ask, OnSignal::End | OnSignal::Ask(_))
            | (Effect::Unknown, OnSignal::Store) => true,
            (Effect::Unknown, OnSignal::End | OnSignal::Ask(_)) => waited >= UNKNOWN_GRACE,
            (Effect::Ask, OnSignal::Store) | (Effect::None, _) => false,
        }
    }

    fn stop(&self) {
        match &self.on_signal {
            OnSignal::Ask(stop) => stop.ask(),
            OnSignal::End | OnSignal::Store => self.cancel(Errno::EINTR),
        }
    }

    /// Checks from time to time for a signal that is heeded.
    ///
    /// The kernel reports only the first signal of a request, and the application cannot be killed
    /// before the answer.
    fn watch(self: &Arc<Self>) {
        let task = Arc::downgrade(self);
        self.runtime.spawn(async move {
            let mut waited = Duration::ZERO;
            loop {
                tokio::time::sleep(SIGNAL_LOOK).await;
                waited += SIGNAL_LOOK;
                let Some(task) = task.upgrade() else { return };
                if matches!(*task.state.lock(), State::Done) {
                    return;
                }
                if task.is_to_stop(waited) {
                    return task.stop();
                }
            }
        });
    }

    /// Polls `work`. The state is `Polling`, set by the caller.
    fn poll(self: &Arc<Self>, mut work: Work, phase: PollPhase) {
        let waker = Waker::from(Arc::clone(self));
        let mut context = Context::from_waker(&waker);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            let trace = self.trace.as_ref().map(MeasuredTrace::trace);
            let _entered = trace::enter(trace);
            work.operation.as_mut().poll(&mut context)
        }));
        let reply = match outcome {
            Ok(Poll::Ready(reply)) => reply,
            Ok(Poll::Pending) => {
                if phase == PollPhase::First {
                    work.reply.parks(self.trace.as_ref());
                    if self.parked.park(self) {
                        self.interrupt();
                    }
                }
                return self.suspend(work);
            }
            Err(panic) => {
                let message = panic_message(panic.as_ref());
                tracing::error!(
                    unique = self.requester.unique,
                    message,
                    "an operation panicked, the application gets EIO"
                );
                Reply::Failed(Errno::EIO)
            }
        };
        *self.state.lock() = State::Done;
        if phase == PollPhase::Resumed {
            self.parked.remove(self.requester.unique);
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
            self.parked.remove(self.requester.unique);
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
                self.parked.remove(self.requester.unique);
                work.finish(Reply::Failed(errno));
            }
        }
    }
}

impl Work {
    /// Drops the operation, then answers: the application may act at once.
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
                self.poll(work, PollPhase::Resumed);
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
            .field("requester", &self.requester)
            .finish_non_exhaustive()
    }
}

/// Time between two checks for a heeded signal, after an unheeded one.
const SIGNAL_LOOK: Duration = Duration::from_millis(250);

/// How long an operation continues after a signal to an invisible thread.
///
/// The signal may be a timer's, which must fail no operation, or have killed the program, which
/// must end soon. Nearly all operations end sooner; an operation that hangs ends then.
const UNKNOWN_GRACE: Duration = Duration::from_secs(2);

/// Interrupts remembered for requests that are not parked yet.
///
/// At most one request of each session thread is not parked yet; the other interrupts belong to
/// answered requests.
const EARLY_INTERRUPTS_MAX: usize = 256;
