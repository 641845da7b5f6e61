//! Operations that wait: resumed, interrupted, aborted, and answered once whatever happens.

use std::future::{self, Future};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;

use nix::errno::Errno;
use tokio::runtime::{Handle, Runtime};

use crate::executor;
use crate::fuse::parked::{OnSignal, Parked, PendingReply, Requester, Starter};
use crate::fuse::proc::Effect;
use crate::fuse::reply::{Channel, Reply, ReplyTo};
use crate::fuse::tests::kernel::Kernel;
use crate::operation::Stop;
use crate::sync::Mutex;

/// Threads whose signals end their program, ask it to end, and do nothing.
const ENDING: u32 = 1;
const ASKED: u32 = 2;
const GOING_ON: u32 = 3;
/// One that is out of sight.
const UNKNOWN: u32 = 0;

fn effect_on(thread: u32) -> Effect {
    match thread {
        ENDING => Effect::End,
        ASKED => Effect::Ask,
        GOING_ON => Effect::None,
        _ => Effect::Unknown,
    }
}

/// A session thread's half of a session, and its kernel.
pub(super) struct Harness {
    channel: Arc<Channel>,
    pub(super) kernel: Kernel,
    pub(super) parked: Arc<Parked>,
    starter: Starter,
    _runtime: Option<Runtime>,
}

impl Harness {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_time()
            .build()
            .unwrap();
        let harness = Self::on(runtime.handle());
        Self {
            _runtime: Some(runtime),
            ..harness
        }
    }

    /// One whose operations are resumed on `runtime`.
    pub(super) fn on(runtime: &Handle) -> Self {
        let (kernel, device) = Kernel::pair();
        let parked = Arc::new(Parked::new(effect_on));
        let starter = Starter::new(&parked, runtime);
        let channel = Arc::new(Channel::new(device).unwrap());
        Self {
            channel,
            kernel,
            parked,
            starter,
            _runtime: None,
        }
    }

    pub(super) fn start(&mut self, unique: u64, operation: PendingReply) {
        self.start_for(unique, ENDING, OnSignal::End, operation);
    }

    fn start_for(
        &mut self,
        unique: u64,
        thread: u32,
        on_signal: OnSignal,
        operation: PendingReply,
    ) {
        let reply = ReplyTo::device(&self.channel, unique);
        let requester = Requester { unique, thread };
        self.starter.start(requester, on_signal, operation, reply);
    }

    /// The next reply, as (unique, errno).
    pub(super) fn reply(&self) -> (u64, i32) {
        let answered = self.kernel.answered();
        assert!(
            answered.body.is_empty(),
            "operations of these tests have no results"
        );
        (answered.unique, answered.errno)
    }

    #[track_caller]
    pub(super) fn check_silent(&self) {
        self.kernel.check_silent();
    }

    #[track_caller]
    fn check(&self, unique: u64, errno: i32) {
        assert_eq!(self.reply(), (unique, errno));
        self.check_silent();
        assert_eq!(self.parked.count(), 0);
    }
}

/// Something to wait for.
#[derive(Default)]
pub(super) struct Gate {
    is_open: AtomicBool,
    wakers: Mutex<Vec<Waker>>,
    pub(super) dropped: AtomicUsize,
}

impl Gate {
    pub(super) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Answers when the gate is open.
    pub(super) fn operation(self: &Arc<Self>) -> PendingReply {
        Box::pin(Waiting(Arc::clone(self)))
    }

    /// Opens the gate; returns the waiters.
    pub(super) fn open(&self) -> Vec<Waker> {
        self.is_open.store(true, Ordering::SeqCst);
        std::mem::take(&mut *self.wakers.lock())
    }
}

struct Waiting(Arc<Gate>);

impl Future for Waiting {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        self.0.wakers.lock().push(context.waker().clone());
        if self.0.is_open.load(Ordering::SeqCst) {
            Poll::Ready(Reply::Done)
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.dropped.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn a_ready_operation_is_answered_at_once() {
    let mut harness = Harness::new();
    for unique in [2, 4, 6] {
        harness.start(
            unique,
            Box::pin(future::ready(Reply::Failed(Errno::ENOENT))),
        );
        harness.check(unique, libc::ENOENT);
    }
}

#[test]
fn a_parked_operation_is_answered_by_who_delivers() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    harness.start(2, gate.operation());
    harness.check_silent();
    assert_eq!(harness.parked.count(), 1);
    executor::deliver(gate.open());
    // Without a hop: it has been sent when `deliver` returns.
    harness.check(2, 0);
    assert_eq!(gate.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn any_other_wake_is_served_by_the_runtime() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    harness.start(2, gate.operation());
    gate.open().into_iter().for_each(Waker::wake);
    harness.check(2, 0);
}

#[test]
fn spurious_wakes_change_nothing() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    harness.start(2, gate.operation());
    for _ in 0..100 {
        let waker = gate.wakers.lock()[0].clone();
        executor::deliver(vec![waker.clone(), waker.clone()]);
        waker.wake();
    }
    harness.check_silent();
    let mut wakers = gate.open();
    wakers.extend(wakers.clone());
    executor::deliver(wakers);
    assert_eq!(harness.reply(), (2, 0));
    // A waker outlives its operation and does no harm.
    executor::deliver(gate.open());
    harness.check_silent();
}

#[test]
fn a_wake_during_the_first_poll_is_not_lost() {
    let mut harness = Harness::new();
    let mut is_first = true;
    let operation = future::poll_fn(move |context| {
        if std::mem::take(&mut is_first) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(Reply::Done)
    });
    harness.start(2, Box::pin(operation));
    harness.check(2, 0);
}

#[test]
fn an_interrupt_drops_the_operation_and_answers_eintr() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    harness.start(2, gate.operation());
    harness.parked.interrupt(2);
    assert_eq!(gate.dropped.load(Ordering::SeqCst), 1);
    harness.check(2, libc::EINTR);
    executor::deliver(gate.open());
    harness.check_silent();
}

#[test]
fn an_interrupt_before_the_operation_is_parked_is_remembered() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    harness.parked.interrupt(4);
    harness.start(2, gate.operation());
    harness.start(4, gate.operation());
    assert_eq!(harness.reply(), (4, libc::EINTR));
    assert_eq!(harness.parked.count(), 1);
    executor::deliver(gate.open());
    harness.check(2, 0);
}

#[test]
fn an_interrupt_after_the_answer_is_forgotten_in_the_end() {
    let mut harness = Harness::new();
    for unique in 0..2000 {
        harness.start(unique, Box::pin(future::ready(Reply::Done)));
        harness.parked.interrupt(unique);
        harness.check(unique, 0);
    }
}

#[test]
fn an_interrupt_during_a_poll_that_is_ready_comes_too_late() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    let waiting = gate.operation();
    let parked = Arc::clone(&harness.parked);
    let operation = async move {
        let reply = waiting.await;
        parked.interrupt(2);
        reply
    };
    harness.start(2, Box::pin(operation));
    executor::deliver(gate.open());
    harness.check(2, 0);
}

#[test]
fn an_interrupt_during_a_poll_that_waits_again_counts() {
    let mut harness = Harness::new();
    let (gate, second) = (Gate::new(), Gate::new());
    let (waiting, waiting_again) = (gate.operation(), second.operation());
    let parked = Arc::clone(&harness.parked);
    let operation = async move {
        waiting.await;
        parked.interrupt(2);
        waiting_again.await
    };
    harness.start(2, Box::pin(operation));
    executor::deliver(gate.open());
    harness.check(2, libc::EINTR);
    assert_eq!(second.dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn abort_answers_everything() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    for unique in [2, 4, 6] {
        harness.start(unique, gate.operation());
    }
    harness.parked.cancel_all(Errno::EIO);
    let mut replies: Vec<_> = (0..3).map(|_| harness.reply()).collect();
    replies.sort_unstable();
    assert_eq!(replies, [(2, libc::EIO), (4, libc::EIO), (6, libc::EIO)]);
    assert_eq!(harness.parked.count(), 0);
    assert_eq!(gate.dropped.load(Ordering::SeqCst), 3);
}

#[test]
fn a_panic_is_answered_and_survived() {
    let mut harness = Harness::new();
    harness.start(2, Box::pin(async { panic!("expected by this test") }));
    harness.check(2, libc::EIO);
    let gate = Gate::new();
    let waiting = gate.operation();
    harness.start(
        4,
        Box::pin(async move {
            waiting.await;
            panic!("expected by this test")
        }),
    );
    executor::deliver(gate.open());
    harness.check(4, libc::EIO);
    harness.start(6, Box::pin(future::ready(Reply::Done)));
    harness.check(6, 0);
}

/// Wakes and interrupts from two threads race with the first poll: one reply for each request, of
/// either kind.
#[test]
fn races_answer_exactly_once() {
    const ROUNDS: u64 = 5000;
    let mut harness = Harness::new();
    let parked = Arc::clone(&harness.parked);
    let gates: Vec<_> = (0..ROUNDS).map(|_| Gate::new()).collect();
    let started = Arc::new(AtomicUsize::new(0));
    let delivering = {
        let (gates, started) = (gates.clone(), Arc::clone(&started));
        thread::Builder::new().spawn(move || {
            for (index, gate) in gates.iter().enumerate() {
                while started.load(Ordering::SeqCst) < index {
                    thread::yield_now();
                }
                executor::deliver(gate.open());
            }
        })
    };
    let interrupting = {
        let started = Arc::clone(&started);
        thread::Builder::new().spawn(move || {
            for unique in 0..ROUNDS {
                while (started.load(Ordering::SeqCst) as u64) < unique {
                    thread::yield_now();
                }
                parked.interrupt(unique);
            }
        })
    };
    for (unique, gate) in (0..ROUNDS).zip(&gates) {
        harness.start(unique, gate.operation());
        started.fetch_add(1, Ordering::SeqCst);
        let (answered, errno) = harness.reply();
        assert_eq!(answered, unique);
        assert!(matches!(errno, 0 | libc::EINTR), "{errno}");
    }
    delivering.unwrap().join().unwrap();
    interrupting.unwrap().join().unwrap();
    harness.check_silent();
    assert_eq!(harness.parked.count(), 0);
    for gate in gates {
        assert_eq!(gate.dropped.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn a_signal_does_not_end_what_is_to_be_done_as_a_whole() {
    let mut harness = Harness::new();
    for unique in [2, 4] {
        let gate = Gate::new();
        if unique == 4 {
            harness.parked.interrupt(unique);
        }
        let stop = Stop::default();
        let on_signal = OnSignal::Ask(stop.clone());
        harness.start_for(unique, ENDING, on_signal, gate.operation());
        assert_eq!(stop.is_asked(), unique == 4);
        harness.parked.interrupt(unique);
        assert!(stop.is_asked());
        harness.check_silent();
        executor::deliver(gate.open());
        harness.check(unique, 0);
    }
}

#[test]
fn only_signals_that_matter_to_an_operation_end_it() {
    let mut harness = Harness::new();
    let cases = [
        (ASKED, OnSignal::End, true),
        (GOING_ON, OnSignal::End, false),
        (UNKNOWN, OnSignal::End, false),
        (ENDING, OnSignal::Store, true),
        (ASKED, OnSignal::Store, false),
        (GOING_ON, OnSignal::Store, false),
        (UNKNOWN, OnSignal::Store, true),
    ];
    for (unique, (thread, on_signal, is_ended)) in (2..).step_by(2).zip(cases) {
        let gate = Gate::new();
        harness.start_for(unique, thread, on_signal, gate.operation());
        harness.parked.interrupt(unique);
        if is_ended {
            harness.check(unique, libc::EINTR);
        } else {
            harness.check_silent();
            executor::deliver(gate.open());
            harness.check(unique, 0);
        }
    }
}

#[test]
fn who_has_a_timer_is_not_asked_to_stop() {
    let mut harness = Harness::new();
    for (unique, thread, is_asked) in [(2, GOING_ON, false), (4, UNKNOWN, false), (6, ASKED, true)]
    {
        let (gate, stop) = (Gate::new(), Stop::default());
        let on_signal = OnSignal::Ask(stop.clone());
        harness.start_for(unique, thread, on_signal, gate.operation());
        harness.parked.interrupt(unique);
        assert_eq!(stop.is_asked(), is_asked, "{thread}");
        executor::deliver(gate.open());
        harness.check(unique, 0);
    }
}

/// Nobody is to wait for ever where nobody can say whether the program was killed.
#[test]
fn who_is_out_of_sight_waits_a_little_longer() {
    let mut harness = Harness::new();
    let gate = Gate::new();
    harness.start_for(2, UNKNOWN, OnSignal::End, gate.operation());
    harness.parked.interrupt(2);
    assert_eq!(harness.reply(), (2, libc::EINTR));
}
