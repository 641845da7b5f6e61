//! One GET from request to last byte, over as many attempts as it takes.
//!
//! The flight owns the right to fill the block between attempts; during one the CRT has it. So bytes are only
//! ever appended, and the next attempt asks for what is missing, of the same version.
//! Runs on CRT threads and, for retries, on the tokio runtime; never blocks. Its lock is not held while the
//! observer, the CRT or the admission gate is called.
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
use parking_lot::Mutex;

use super::admission::Ticket;
use super::core::{Attempts, Core};
use super::data::Lane;
use super::fault::{self, Fault};
use super::head::{self, Refusal};
use crate::object_client::{GetHandle, GetObserver};
use crate::types::{ETag, GetOutput, GetRequest, Priority};
use crate::{ClientError, ErrorKind};

/// One GET.
pub(super) struct Flight {
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
    /// The right of a read-ahead to be in flight.
    ticket: Option<Ticket>,
    is_cancelled: bool,
    /// An attempt stalled: the next gives the server more time.
    is_patient: bool,
    /// The network interface that failed the last attempt, or that a late GET for the same bytes is on.
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
        cancel: Option<Cancel>,
    },
    /// The observer knows the outcome, or is about to.
    Done,
}

impl Flight {
    /// Sends the GET, or queues it if it is read-ahead and too much of that is in flight.
    pub(super) fn start(
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
                if let Some(ticket) = core.admission.enter(&flight) {
                    flight.state.lock().ticket = Some(ticket);
                    flight.send();
                }
            }
        }
        GetHandle::new(move || flight.cancel())
    }

    /// Ends a flight that is not with the CRT, on a thread of the client: the caller may hold a lock that its
    /// observer takes.
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

    /// Sends the next attempt as soon as the pace allows.
    fn send(self: &Arc<Self>) {
        match self.core.pace() {
            Duration::ZERO => self.launch(),
            wait => self.launch_after(wait),
        }
    }

    fn launch_after(self: &Arc<Self>, wait: Duration) {
        let flight = Arc::clone(self);
        drop(self.core.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            flight.launch();
        }));
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
        let get = RangedGet {
            path: self.core.endpoint.path(&self.request.key),
            headers,
            range: asked.clone(),
        };
        state.attempts.starts(&self.core);
        let attempt = state.attempts.made();
        let interface = lane.interface();
        state.phase = Phase::Flying {
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

    /// The way that the next attempt takes, unless there is none. Without the lock: a client may have to be made first.
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
        match head::check(
            head,
            asked,
            state.version.as_ref(),
            self.request.object_size,
        ) {
            Ok(output) => {
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
    fn attempt_finished(self: &Arc<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>) {
        let is_full = fill.filled() == fill.capacity();
        let is_wanted = self.observer.is_wanted();
        let mut state = self.state.lock();
        let (asked, lane) = match std::mem::replace(&mut state.phase, Phase::Done) {
            Phase::Flying { asked, lane, .. } => (asked, lane),
            Phase::Waiting(_) | Phase::Done => {
                unreachable!("an attempt finishes once, and nothing else ends it")
            }
        };
        state.avoided = lane.ended(outcome.as_ref().err());
        drop(lane);
        let output = state.output.clone();
        let fault = match (outcome, output) {
            (Ok(_), Some(output)) if is_full => {
                let operation = || self.core.on_key("GetObject", &self.request.key);
                state.attempts.succeeded(&self.core, operation);
                drop(state);
                drop(fill);
                self.land(Ok(output));
                return;
            }
            (outcome, _) => self.fault(&mut state, outcome.err(), &fill),
        };
        let wait = if state.is_cancelled || !is_wanted {
            None
        } else {
            if (fill.capacity() - fill.filled()) as u64 != asked.end - asked.start {
                state.attempts.progressed();
            }
            state.attempts.failed(&self.core, &fault)
        };
        match wait {
            Some(wait) => {
                state.phase = Phase::Waiting(fill);
                drop(state);
                self.launch_after(wait);
            }
            None => {
                let error = state.attempts.last_word(fault.error);
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

    /// Tells the observer, then lets the next read-ahead fly in this one's place.
    fn land(&self, outcome: Result<GetOutput, ClientError>) {
        self.observer.finished(outcome);
        let mut ticket = self.state.lock().ticket.take();
        while let Some(free) = ticket.take() {
            let Some((next, granted)) = self.core.admission.leave(free) else {
                return;
            };
            let mut state = next.state.lock();
            if matches!(state.phase, Phase::Done) {
                drop(state);
                ticket = Some(granted);
            } else {
                state.ticket = Some(granted);
                drop(state);
                next.send();
            }
        }
    }
}

/// A flight that nobody will send again, because the runtime that waits for it has ended, still tells its observer.
impl Drop for Flight {
    fn drop(&mut self) {
        let phase = std::mem::replace(&mut self.state.get_mut().phase, Phase::Done);
        if !matches!(phase, Phase::Done) {
            drop(phase);
            self.observer.finished(Err(self.cancelled()));
        }
    }
}

/// The CRT's side of one attempt.
struct Attempt(Arc<Flight>);

impl GetHandler for Attempt {
    fn head(&self, head: &ResponseHead) -> Result<(), Refused> {
        self.0.check_head(head)
    }

    fn progressed(&self) {
        self.0.observer.progressed();
    }

    fn finished(self: Box<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>) {
        self.0.attempt_finished(fill, outcome);
    }
}

const RANGE_NOT_SATISFIABLE: u16 = 416;
