//! Waiting with an end: a client that never answers fails a case and does not hang the suite.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use mountpoint_crt_sys::block::Block;
use parking_lot::{Condvar, Mutex};

use crate::object_client::Pending;
use crate::types::GetOutput;
use crate::{ClientError, ErrorKind, GetObserver};

/// Longest a request of the suite may take: far beyond what a client needs with all its retries.
const ANSWER_MAX: Duration = Duration::from_secs(60);

/// The answer of a request; an error if there is none within [`ANSWER_MAX`].
pub(super) fn wait<T>(mut pending: Pending<T>) -> Result<T, ClientError> {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let deadline = now() + ANSWER_MAX;
    loop {
        if let Poll::Ready(answer) = Pin::new(&mut pending).poll(&mut context) {
            return answer;
        }
        let left = deadline.saturating_duration_since(now());
        if left.is_zero() {
            return Err(no_answer());
        }
        std::thread::park_timeout(left);
    }
}

/// The progress and outcome of one GET, as its observer sees them.
pub(super) struct Watch {
    block: Block,
    seen: Mutex<Seen>,
    changed: Condvar,
}

#[derive(Default)]
struct Seen {
    valid: usize,
    outcomes: Vec<Result<GetOutput, ClientError>>,
    /// The first thing that an observer must not see.
    wrong: Option<String>,
}

impl Watch {
    pub(super) fn new(block: Block) -> Self {
        Self {
            block,
            seen: Mutex::new(Seen::default()),
            changed: Condvar::new(),
        }
    }

    pub(super) fn block(&self) -> &Block {
        &self.block
    }

    /// How the GET ended; an error if it did not within [`ANSWER_MAX`].
    pub(super) fn outcome(&self) -> Result<GetOutput, ClientError> {
        let deadline = now() + ANSWER_MAX;
        let mut seen = self.seen.lock();
        while seen.outcomes.is_empty() {
            if self.changed.wait_until(&mut seen, deadline).timed_out() {
                return Err(no_answer());
            }
        }
        seen.outcomes[0].clone()
    }

    /// The client's first mistake in calling the observer.
    pub(super) fn wrong(&self) -> Option<String> {
        let seen = self.seen.lock();
        match seen.outcomes.len() {
            0 => Some("finished was not called".to_owned()),
            1 => seen.wrong.clone(),
            calls => Some(format!("finished was called {calls} times")),
        }
    }
}

impl Seen {
    fn look(&mut self, block: &Block, call: &str) {
        let valid = block.valid();
        if valid < self.valid {
            self.wrong = Some(format!("{call}: {valid} bytes valid after {}", self.valid));
        }
        if !self.outcomes.is_empty() {
            self.wrong = Some(format!("{call} after finished"));
        }
        self.valid = valid;
    }
}

impl GetObserver for Watch {
    fn progressed(&self) {
        self.seen.lock().look(&self.block, "progressed");
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        let mut seen = self.seen.lock();
        seen.look(&self.block, "finished");
        if outcome.is_ok() && self.block.valid() != self.block.capacity() {
            seen.wrong = Some(format!("finished with {} bytes valid", self.block.valid()));
        }
        seen.outcomes.push(outcome);
        drop(seen);
        self.changed.notify_all();
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn no_answer() -> ClientError {
    ClientError::new(
        ErrorKind::Transient,
        format!("no answer within {ANSWER_MAX:?}"),
    )
}

#[expect(clippy::disallowed_methods, reason = "real servers take real time")]
fn now() -> Instant {
    Instant::now()
}
