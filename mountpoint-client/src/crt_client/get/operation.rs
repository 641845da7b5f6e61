//! One GET from request to last byte, over as many attempts as it takes.
//!
//! The flight owns the right to fill the block between attempts; during one the CRT has it. So
//! bytes are only ever appended, and the next attempt asks for what is missing, of the same
//! version. Runs on CRT threads and, for retries, on the tokio runtime; never blocks. Its lock is
//! not held while the observer, the CRT or the admission gate is called.
//!
//! Invariant: the observer's `finished` is called exactly once, by whoever set [`Phase::Done`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_crt_sys::block::BlockFill;
use mountpoint_crt_sys::{
    Cancel, Client, ErrorKind as CrtErrorKind, Failure, GetHandler, RangedGet, Refused,
    ResponseHead,
};
use parking_lot::{Mutex, MutexGuard};

use super::answer_head::{self, Refusal};
use super::read_checksum::{self, Expected};
use crate::crt_client::core::{Asking, Attempts, Core, Queued, Ticket};
use crate::crt_client::fault::{self, Fault, Operation};
use crate::crt_client::lanes::Lane;
use crate::crt_client::request_log::SentRequest;
use crate::object_client::{GetHandle, GetObserver};
use crate::types::{ETag, GetOutput, GetRequest, Priority};
use crate::{ClientError, ErrorKind};

/// One GET.
pub(in crate::crt_client) struct GetOperation {
    core: Arc<Core>,
    request: GetRequest,
    observer: Arc<dyn GetObserver>,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    attempts: Attempts,
    /// The version that all bytes come from: the caller's, or that of the first answer.
    version: Option<ETag>,
    output: Option<GetOutput>,
    /// Why the head of the current answer was refused.
    refusal: Option<Refusal>,
    /// The checksum of the whole block, if S3 has told one: then no byte is shown before it was
    /// compared.
    expected: Option<Expected>,
    /// Answers that had other bytes than those.
    corrupt: u32,
    checksum_mode: Asking,
    /// The right of a read-ahead to be in flight.
    ticket: Option<Ticket>,
    is_cancelled: bool,
    /// An attempt stalled: the next gives the server more time.
    is_patient: bool,
    /// The network interface that failed the last attempt, or that a late GET for the same bytes is
    /// on.
    avoided: Option<usize>,
}

enum Phase {
    /// Not with the CRT: queued, paced, or between two attempts.
    Waiting(BlockFill),
    /// With the CRT, which has the right to fill.
    Flying {
        asked: Range<u64>,
        /// Counts as outstanding on its interface until it is dropped.
        lane: Lane,
        logged: SentRequest,
        cancel: Option<Cancel>,
    },
    /// The observer knows the outcome, or is about to.
    Done,
}

impl GetOperation {
    /// Sends the GET, or queues it if it is read-ahead and too much of that is in flight.
    pub(in crate::crt_client) fn start(
        core: &Arc<Core>,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle {
        assert!(
            request.range.start < request.range.end,
            "a GET asks for at least one byte"
        );
        let wanted = (into.capacity() - into.filled()) as u64;
        assert_eq!(
            wanted,
            request.range.end - request.range.start,
            "the block is as long as the range"
        );
        let avoided = match request.priority {
            Priority::Hedge { avoid } => avoid,
            Priority::Foreground | Priority::ReadAhead => None,
        };
        let flight = Arc::new(Self {
            core: Arc::clone(core),
            state: Mutex::new(State {
                phase: Phase::Waiting(into),
                attempts: Attempts::new(core.policy),
                version: request.if_match.clone(),
                output: None,
                refusal: None,
                expected: None,
                corrupt: 0,
                checksum_mode: Asking::default(),
                ticket: None,
                is_cancelled: false,
                is_patient: false,
                avoided,
            }),
            request,
            observer,
        });
        if wanted > core.part_size_max as u64 {
            let operation = core.on_key("GetObject", &flight.request.key);
            let what = format!("{wanted} bytes, {} at most", core.part_size_max);
            flight.end_soon(operation.error(ErrorKind::InvalidRequest, &what));
            return GetHandle::new(|| {});
        }
        match flight.request.priority {
            Priority::Foreground | Priority::Hedge { .. } => flight.send(),
            Priority::ReadAhead => {
                if let Some(ticket) = core.admission.enter(Arc::clone(&flight) as Arc<dyn Queued>) {
                    flight.state.lock().ticket = Some(ticket);
                    flight.send();
                }
            }
        }
        GetHandle::new(move || flight.cancel())
    }

    /// Ends a flight that is not with the CRT, on a thread of the client: the caller may hold a
    /// lock that its observer takes.
    fn end_soon(self: &Arc<Self>, error: ClientError) {
        let flight = Arc::clone(self);
        drop(self.core.runtime.spawn(async move {
            let mut state = flight.state.lock();
            if let Phase::Waiting(_) = &state.phase {
                let waiting = std::mem::replace(&mut state.phase, Phase::Done);
                drop(state);
                drop(waiting);
                flight.land(Err(error));
            }
        }));
    }

    /// Sends the next attempt as soon as the pace allows, if S3 answers at all.
    fn send(self: &Arc<Self>) {
        if let Some(refusal) = self.refusal() {
            self.end_soon(refusal);
            return;
        }
        match self.core.pace() {
            Duration::ZERO => self.launch(),
            wait => self.launch_after(wait),
        }
    }

    fn launch_after(self: &Arc<Self>, wait: Duration) {
        let flight = Arc::clone(self);
        drop(self.core.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            match flight.refusal() {
                Some(refusal) => flight.end_soon(refusal),
                None => flight.launch(),
            }
        }));
    }

    fn refusal(&self) -> Option<ClientError> {
        let operation = || self.core.on_key("GetObject", &self.request.key);
        let version = self.request.if_match.as_ref();
        let is_corrupt = version
            .is_some_and(|version| self.core.corrupt.holds(&self.request.key, version))
            && !self.is_checked(&self.request.range);
        if is_corrupt {
            let what = "a piece of a version whose bytes came otherwise than S3 stored them";
            return Some(operation().error(ErrorKind::InvalidResponse, what));
        }
        self.core.refusal(operation)
    }

    /// Hands the flight to the CRT, unless it was cancelled meanwhile.
    fn launch(self: &Arc<Self>) {
        let Some((lane, client)) = self.way() else {
            return;
        };
        let mut state = self.state.lock();
        if state.is_cancelled {
            return;
        }
        let fill = match std::mem::replace(&mut state.phase, Phase::Done) {
            Phase::Waiting(fill) => fill,
            Phase::Done => return,
            Phase::Flying { .. } => {
                unreachable!("an attempt is launched only while none is under way")
            }
        };
        let missing = (fill.capacity() - fill.filled()) as u64;
        let asked = self.request.range.end - missing..self.request.range.end;
        let mut headers = self.core.headers_of("GetObject");
        if let Some(version) = &state.version {
            headers.push(("If-Match".to_owned(), version.as_str().to_owned()));
        }
        if self.is_checked(&asked) {
            headers.extend(state.checksum_mode.header(&self.core.checksum_mode));
        }
        let get = RangedGet {
            path: self.core.endpoint.path(&self.request.key),
            headers,
            range: asked.clone(),
        };
        state.attempts.starts(&self.core);
        let attempt = state.attempts.made();
        let interface = lane.interface();
        let target = || self.core.on_key("GetObject", &self.request.key).target;
        state.phase = Phase::Flying {
            logged: SentRequest::now("GetObject", target).of_range(&asked),
            asked,
            lane,
            cancel: None,
        };
        drop(state);

        self.observer.sent_over(interface);
        let handle = client.get(get, fill, Box::new(Attempt(Arc::clone(self))));

        let mut state = self.state.lock();
        let (is_cancelled, made) = (state.is_cancelled, state.attempts.made());
        if let Phase::Flying { cancel, .. } = &mut state.phase
            && made == attempt
        {
            if is_cancelled {
                drop(state);
                handle.cancel();
            } else {
                *cancel = Some(handle);
            }
        }
    }

    /// Whether an answer with these bytes may be compared with a checksum: it may be all of a small
    /// object.
    fn is_checked(&self, asked: &Range<u64>) -> bool {
        let size = self.request.object_size.unwrap_or(asked.end);
        asked.start == 0 && asked.end == size && read_checksum::is_checked(asked.end)
    }

    /// The way that the next attempt takes, unless there is none. Without the lock: a client may
    /// have to be made first.
    fn way(&self) -> Option<(Lane, Client)> {
        let (missing, avoided, is_patient) = {
            let state = self.state.lock();
            let Phase::Waiting(fill) = &state.phase else {
                return None;
            };
            let missing = (fill.capacity() - fill.filled()) as u64;
            (missing, state.avoided, state.is_patient)
        };
        let lane = self.core.data.lane(missing, avoided);
        let client = if is_patient {
            lane.patient()
        } else {
            lane.quick().clone()
        };
        Some((lane, client))
    }

    /// Ends the flight early.
    fn cancel(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_cancelled = true;
        match &mut state.phase {
            Phase::Waiting(_) => {
                drop(state);
                self.end_soon(self.cancelled());
            }
            Phase::Flying { cancel, .. } => {
                let handle = cancel.take();
                drop(state);
                if let Some(handle) = handle {
                    handle.cancel();
                }
            }
            Phase::Done => {}
        }
    }

    fn check_head(&self, head: &ResponseHead) -> Result<(), Refused> {
        let mut state = self.state.lock();
        let Phase::Flying { asked, .. } = &state.phase else {
            return Err(Refused);
        };
        match answer_head::check(
            head,
            asked,
            state.version.as_ref(),
            self.request.object_size,
        ) {
            Ok(output) => {
                self.core.breaker.answered();
                if *asked == (0..output.object_size) && self.is_checked(asked) {
                    state.expected = read_checksum::expected(head);
                }
                state.version.get_or_insert_with(|| output.etag.clone());
                state.output = Some(output);
                Ok(())
            }
            Err(refusal) => {
                state.refusal = Some(refusal);
                Err(Refused)
            }
        }
    }

    /// An attempt ended: the flight is done, or the next attempt follows.
    fn attempt_finished(
        self: &Arc<Self>,
        mut fill: BlockFill,
        outcome: Result<ResponseHead, Failure>,
    ) {
        let is_full = fill.filled() == fill.capacity();
        let is_wanted = self.observer.is_wanted();
        let mut state = self.state.lock();
        let (asked, lane, logged) = match std::mem::replace(&mut state.phase, Phase::Done) {
            Phase::Flying {
                asked,
                lane,
                logged,
                ..
            } => (asked, lane, logged),
            Phase::Waiting(_) | Phase::Done => {
                unreachable!("an attempt finishes once, and nothing else ends it")
            }
        };
        let (head, failure) = match &outcome {
            Ok(head) => (Some(head), None),
            Err(failure) => (failure.head.as_ref(), Some(failure)),
        };
        logged.ended(head, failure);
        state.avoided = lane.ended(failure);
        drop(lane);
        let output = state.output.clone();
        let fault = match (outcome, output) {
            (Ok(_), Some(output)) if is_full => match self.check(&mut state, &mut fill) {
                Ok(()) => {
                    drop(fill);
                    return self.succeeded(state, output);
                }
                Err(fault) => fault,
            },
            (outcome, _) => self.fault(&mut state, outcome.err(), &fill),
        };
        let wait = if state.is_cancelled || !is_wanted {
            None
        } else {
            if (fill.capacity() - fill.filled()) as u64 != asked.end - asked.start {
                state.attempts.progressed();
            }
            let wait = state.attempts.failed(&self.core, &fault);
            let is_refused = state.checksum_mode.may_be_refused(&fault.error);
            wait.or_else(|| is_refused.then_some(Duration::ZERO))
        };
        match wait {
            Some(wait) => {
                state.phase = Phase::Waiting(fill);
                drop(state);
                self.launch_after(wait);
            }
            None => {
                if let Some(version) = state.version.as_ref().filter(|_| state.corrupt > 0) {
                    self.core.corrupt.add(&self.request.key, version);
                }
                let error = state.attempts.last_word(&self.core, fault);
                let error = if state.is_cancelled {
                    self.cancelled()
                } else {
                    error
                };
                drop(state);
                drop(fill);
                self.land(Err(error));
            }
        }
    }

    /// Shows what has come, if it is what was stored; forgets it otherwise. It is asked for once
    /// more then.
    fn check(&self, state: &mut State, fill: &mut BlockFill) -> Result<(), Fault> {
        let checked = match &state.expected {
            Some(expected) => expected.check(fill.bytes()),
            None => Ok(()),
        };
        let Err(what) = checked else {
            if state.expected.is_some() {
                self.core.corrupt.remove(&self.request.key);
            }
            fill.release();
            return Ok(());
        };
        fill.discard();
        state.corrupt += 1;
        let operation = self.core.on_key("GetObject", &self.request.key);
        Err(corrupt(&operation, &what, state.corrupt))
    }

    fn succeeded(&self, mut state: MutexGuard<'_, State>, output: GetOutput) {
        let operation = || self.core.on_key("GetObject", &self.request.key);
        state.attempts.succeeded(&self.core, operation);
        state.checksum_mode.succeeded(&self.core.checksum_mode);
        drop(state);
        self.land(Ok(output));
    }

    /// What the end of an attempt means. `failure` is `None` if the CRT found nothing wrong.
    fn fault(&self, state: &mut State, failure: Option<Failure>, fill: &BlockFill) -> Fault {
        let operation = self.core.on_key("GetObject", &self.request.key);
        if let Some(refusal) = state.refusal.take() {
            return operation.error(refusal.kind, &refusal.what).into();
        }
        let Some(failure) = failure else {
            let what = format!(
                "the body ended after {} of {} bytes",
                fill.filled(),
                fill.capacity()
            );
            return operation.error(ErrorKind::Transient, &what).into();
        };
        if failure.error.kind() == CrtErrorKind::Timeout {
            state.is_patient = true;
        }
        let mut fault = self.core.explain(fault::of_crt(&operation, &failure));
        if fault.error.status == Some(RANGE_NOT_SATISFIABLE) && state.version.is_some() {
            let what = "the object has become shorter than the range asked for";
            fault.error = operation
                .error(ErrorKind::PreconditionFailed, what)
                .with_status(RANGE_NOT_SATISFIABLE);
        }
        fault
    }

    fn cancelled(&self) -> ClientError {
        self.core
            .on_key("GetObject", &self.request.key)
            .error(ErrorKind::Cancelled, "cancelled by the caller")
    }

    /// Tells the observer, then lets the next read-ahead begin in this one's place.
    fn land(&self, outcome: Result<GetOutput, ClientError>) {
        self.observer.finished(outcome);
        let ticket = self.state.lock().ticket.take();
        if let Some(ticket) = ticket {
            self.core.admission.leave(ticket);
        }
    }
}

impl Queued for GetOperation {
    fn begin(self: Arc<Self>, ticket: Ticket) -> Option<Ticket> {
        let mut state = self.state.lock();
        if matches!(state.phase, Phase::Done) {
            return Some(ticket);
        }
        state.ticket = Some(ticket);
        drop(state);
        self.send();
        None
    }
}

/// A flight that nobody will send again, because the runtime that waits for it has ended, still
/// tells its observer.
impl Drop for GetOperation {
    fn drop(&mut self) {
        let phase = std::mem::replace(&mut self.state.get_mut().phase, Phase::Done);
        if !matches!(phase, Phase::Done) {
            drop(phase);
            self.observer.finished(Err(self.cancelled()));
        }
    }
}

/// The CRT's side of one attempt.
struct Attempt(Arc<GetOperation>);

impl GetHandler for Attempt {
    fn head(&self, head: &ResponseHead) -> Result<(), Refused> {
        self.0.check_head(head)
    }

    fn withholds(&self) -> bool {
        self.0.state.lock().expected.is_some()
    }

    fn progressed(&self) {
        self.0.observer.progressed();
    }

    fn finished(self: Box<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>) {
        self.0.attempt_finished(fill, outcome);
    }
}

/// The fault of the `nth` answer whose bytes are not those that were stored: the first is asked for
/// once more.
pub(in crate::crt_client) fn corrupt(operation: &Operation, what: &str, nth: u32) -> Fault {
    let kind = match nth {
        0 | 1 => ErrorKind::Transient,
        _ => ErrorKind::InvalidResponse,
    };
    let error = operation.error(kind, what);
    tracing::warn!("{error}");
    error.into()
}

const RANGE_NOT_SATISFIABLE: u16 = 416;
