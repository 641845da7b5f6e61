//! One GET from request to last byte, over several attempts if need be.
//!
//! Between attempts the operation owns the right to fill the block; during an attempt the CRT has
//! it. So bytes are only ever appended, and the next attempt asks for the missing bytes of the same
//! version. Runs on CRT threads and, for retries, on the tokio runtime; never blocks. Its lock is
//! not held while the observer, the CRT or the admission gate is called.
//!
//! Invariant: the observer's `finished` is called exactly once, by the code that set
//! [`Phase::Done`].

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_crt_sys::block::BlockFill;
use mountpoint_crt_sys::{
    Client, ErrorKind as CrtErrorKind, Failure, GetHandler, RangedGet, Refused, ResponseHead,
};
use parking_lot::{Mutex, MutexGuard};

use super::answer_head;
use super::read_checksum;
use super::state::{GetState, Phase, SentAttempt, missing};
use crate::billing::{self, BilledAttempt, Caller};
use crate::crt_client::core::{Attempts, Core, Queued, Ticket};
use crate::crt_client::fault::{self, Fault, Operation};
use crate::crt_client::lanes::Lane;
use crate::crt_client::options::{PATIENT_STALL, READ_STALL};
use crate::crt_client::request_log::SentRequest;
use crate::object_client::{GetHandle, GetObserver};
use crate::pauses::PauseReason;
use crate::types::{GetOutput, GetRequest, Priority};
use crate::{ClientError, ErrorKind};

/// One GET.
pub(in crate::crt_client) struct GetOperation {
    core: Arc<Core>,
    request: GetRequest,
    observer: Arc<dyn GetObserver>,
    /// The program that causes it.
    caller: Option<Caller>,
    state: Mutex<GetState>,
}

impl GetOperation {
    /// Sends the GET, or queues it if it is read-ahead and too much of that is in flight.
    pub(in crate::crt_client) fn start(
        core: &Arc<Core>,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle {
        let get = Arc::new(Self::new(core, request, into, observer));
        let asked = get.request.range.end - get.request.range.start;
        if asked > core.part_size_max as u64 {
            let operation = core.on_key("GetObject", &get.request.key);
            let what = format!("{asked} bytes, {} at most", core.part_size_max);
            get.end_soon(operation.error(ErrorKind::InvalidRequest, &what));
            return GetHandle::new(|| {});
        }
        match get.request.priority {
            Priority::Foreground | Priority::Hedge { .. } => get.send(),
            Priority::ReadAhead => {
                let queued: Arc<dyn Queued> = Arc::<Self>::clone(&get);
                if let Some(ticket) = core.admission.enter(queued) {
                    get.state.lock().ticket = Some(ticket);
                    get.send();
                }
            }
        }
        GetHandle::new(move || get.cancel())
    }

    fn new(
        core: &Arc<Core>,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> Self {
        let Range { start, end } = request.range;
        assert!(start < end, "a GET asks for at least one byte");
        assert_eq!(
            missing(&into),
            end - start,
            "the block is as long as the range"
        );
        let avoided = match request.priority {
            Priority::Hedge { avoid } => avoid,
            Priority::Foreground | Priority::ReadAhead => None,
        };
        let attempts = Attempts::new(core.policy);
        let state = GetState::new(into, attempts, request.if_match.clone(), avoided);
        Self {
            core: Arc::clone(core),
            request,
            observer,
            caller: billing::current(),
            state: Mutex::new(state),
        }
    }

    /// Ends a GET that is not with the CRT, on a thread of the client: the caller may hold a lock
    /// that its observer takes.
    fn end_soon(self: &Arc<Self>, error: ClientError) {
        let get = Arc::clone(self);
        drop(self.core.runtime.spawn(async move {
            let mut state = get.state.lock();
            if let Phase::Waiting(_) = &state.phase {
                let waiting = std::mem::replace(&mut state.phase, Phase::Done);
                drop(state);
                drop(waiting);
                get.finish(Err(error));
            }
        }));
    }

    /// Sends the next attempt as soon as the pacing allows, if S3 answers at all.
    fn send(self: &Arc<Self>) {
        if let Some(refusal) = self.refusal() {
            self.end_soon(refusal);
            return;
        }
        match self.core.pacing() {
            Duration::ZERO => self.launch(),
            wait => {
                self.observer.paused(PauseReason::Throttled);
                self.launch_after(wait);
            }
        }
    }

    fn launch_after(self: &Arc<Self>, wait: Duration) {
        let get = Arc::clone(self);
        drop(self.core.runtime.spawn(async move {
            tokio::time::sleep(wait).await;
            match get.refusal() {
                Some(refusal) => get.end_soon(refusal),
                None => get.launch(),
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

    /// Hands the GET to the CRT, unless it was cancelled meanwhile.
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
            Phase::Sent(_) => {
                unreachable!("an attempt is launched only while none is under way")
            }
        };
        let asked = self.request.range.end - missing(&fill)..self.request.range.end;
        let get = self.next_request(&mut state, &asked);
        let began = state.attempts.starts(&self.core);
        let attempt = state.attempts.made();
        let interface = lane.interface();
        let target = || self.core.on_key("GetObject", &self.request.key).target;
        let billed = BilledAttempt::new(self.caller, "GetObject", 0);
        state.phase = Phase::Sent(SentAttempt {
            logged: SentRequest::at(began, "GetObject", 0, billed, target)
                .of_range(&asked)
                .of_attempt(attempt),
            asked,
            lane,
            cancel: None,
        });
        drop(state);

        self.observer.sent_over(interface);
        let cancel = client.get(get, fill, Box::new(Attempt(Arc::clone(self))));

        let mut state = self.state.lock();
        let (is_cancelled, made) = (state.is_cancelled, state.attempts.made());
        if let Phase::Sent(sent) = &mut state.phase
            && made == attempt
        {
            if is_cancelled {
                drop(state);
                cancel.cancel();
            } else {
                sent.cancel = Some(cancel);
            }
        }
    }

    /// The request of the next attempt.
    fn next_request(&self, state: &mut GetState, asked: &Range<u64>) -> RangedGet {
        let mut headers = self.core.headers_of("GetObject");
        if let Some(version) = &state.version {
            headers.push(("If-Match".to_owned(), version.as_str().to_owned()));
        }
        let mode = &self.core.checksum_mode;
        let asking = (mode.checks_reads && self.is_checked(asked))
            .then(|| state.checksum_mode.header(mode))
            .flatten();
        // Of no other version: it might be large.
        let is_known = self.request.object_size.is_some() && state.version.is_some();
        state.is_whole = asking.is_some() && is_known && mode.asks_without_range();
        headers.extend(asking);
        RangedGet {
            path: self.core.endpoint.path(&self.request.key),
            headers,
            range: asked.clone(),
            is_whole: state.is_whole,
        }
    }

    /// Whether an answer with these bytes may be compared with a checksum: the range may be all of
    /// a small object.
    fn is_checked(&self, asked: &Range<u64>) -> bool {
        let size = self.request.object_size.unwrap_or(asked.end);
        asked.start == 0 && asked.end == size && read_checksum::is_checked(asked.end)
    }

    /// The lane and the client of the next attempt, unless there is none. Chosen without the lock:
    /// a client may have to be made first.
    fn way(&self) -> Option<(Lane, Client)> {
        let (missing, avoided, is_patient) = {
            let state = self.state.lock();
            (state.missing()?, state.avoided, state.is_patient)
        };
        let lane = self.core.data.lane(missing, avoided);
        let client = if is_patient {
            lane.patient()
        } else {
            lane.quick().clone()
        };
        Some((lane, client))
    }

    /// Ends the GET early.
    fn cancel(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.is_cancelled = true;
        match &mut state.phase {
            Phase::Waiting(_) => {
                drop(state);
                self.end_soon(self.cancelled());
            }
            Phase::Sent(sent) => {
                let cancel = sent.cancel.take();
                drop(state);
                if let Some(cancel) = cancel {
                    cancel.cancel();
                }
            }
            Phase::Done => {}
        }
    }

    fn check_head(&self, head: &ResponseHead) -> Result<(), Refused> {
        let mut state = self.state.lock();
        let Phase::Sent(SentAttempt { asked, logged, .. }) = &mut state.phase else {
            return Err(Refused);
        };
        logged.answer_begins();
        let asked = &asked.clone();
        let (version, size) = (state.version.as_ref(), self.request.object_size);
        match answer_head::check(head, asked, version, size) {
            Ok(output) => {
                if *asked == (0..output.object_size) && self.is_checked(asked) {
                    state.expected = read_checksum::expected(head);
                    let mode = &self.core.checksum_mode;
                    mode.came(read_checksum::has_any(head), !state.is_whole);
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

    /// Bytes have come: a server whose answer still moves after a while does not hang in it.
    fn note_life(&self) {
        let state = self.state.lock();
        let Phase::Sent(SentAttempt { logged, .. }) = &state.phase else {
            return;
        };
        let is_alive = logged
            .answer_lasts()
            .is_some_and(|lasts| lasts >= LIFE_AFTER);
        drop(state);
        if is_alive {
            self.core.breaker.answered();
        }
    }

    /// An attempt ended: the GET is done, or the next attempt follows.
    fn attempt_finished(
        self: &Arc<Self>,
        mut fill: BlockFill,
        outcome: Result<ResponseHead, Failure>,
    ) {
        let is_wanted = self.observer.is_wanted();
        let mut state = self.state.lock();
        let sent = state.take_sent();
        let (head, failure) = match &outcome {
            Ok(head) => (Some(head), None),
            Err(failure) => (failure.head.as_ref(), Some(failure)),
        };
        let received = (sent.asked.end - sent.asked.start).saturating_sub(missing(&fill));
        sent.logged.ended(received, head, failure);
        state.avoided = sent.lane.ended(failure);
        drop(sent.lane);
        let fault = match (outcome, state.output.clone()) {
            (Ok(_), Some(output)) if missing(&fill) == 0 => {
                match self.check(&mut state, &mut fill) {
                    Ok(()) => {
                        drop(fill);
                        return self.succeeded(state, output);
                    }
                    Err(fault) => fault,
                }
            }
            (outcome, _) => self.fault(&mut state, outcome.err(), &fill),
        };
        let goes_on = is_wanted && !state.is_cancelled;
        if goes_on && missing(&fill) != sent.asked.end - sent.asked.start {
            state.attempts.progressed();
        }
        match goes_on.then(|| self.wait(&mut state, &fault)).flatten() {
            Some(wait) => {
                state.phase = Phase::Waiting(fill);
                drop(state);
                self.observer.paused(PauseReason::of(&fault.error.kind));
                self.launch_after(wait);
            }
            None => self.failed(state, fill, fault),
        }
    }

    /// The wait before the next attempt, if there is one.
    fn wait(&self, state: &mut GetState, fault: &Fault) -> Option<Duration> {
        let wait = state.attempts.failed(&self.core, fault);
        let is_refused = state.checksum_mode.may_be_refused(&fault.error);
        let is_unusable =
            state.is_whole && state.corrupt == 0 && fault.error.kind == ErrorKind::InvalidResponse;
        if is_unusable {
            self.core.checksum_mode.needs_ranges();
        }
        wait.or_else(|| (is_refused || is_unusable).then_some(Duration::ZERO))
    }

    /// Shows the bytes if they match the checksum. Otherwise discards them, to be asked for once
    /// more.
    fn check(&self, state: &mut GetState, fill: &mut BlockFill) -> Result<(), Fault> {
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

    fn succeeded(&self, mut state: MutexGuard<'_, GetState>, output: GetOutput) {
        let operation = || self.core.on_key("GetObject", &self.request.key);
        state.attempts.succeeded(&self.core, true, operation);
        state.checksum_mode.succeeded(&self.core.checksum_mode);
        drop(state);
        self.finish(Ok(output));
    }

    fn failed(&self, mut state: MutexGuard<'_, GetState>, fill: BlockFill, fault: Fault) {
        if let Some(version) = state.version.as_ref().filter(|_| state.corrupt > 0) {
            self.core.corrupt.add(&self.request.key, version);
        }
        let mut error = state.attempts.last_word(&self.core, fault);
        if state.is_cancelled {
            error = self.cancelled();
        }
        drop(state);
        drop(fill);
        self.finish(Err(error));
    }

    /// The meaning of an attempt's end. `failure` is `None` if the CRT found nothing wrong.
    fn fault(&self, state: &mut GetState, failure: Option<Failure>, fill: &BlockFill) -> Fault {
        let operation = self.core.on_key("GetObject", &self.request.key);
        if let Some(refusal) = state.refusal.take() {
            return operation.error(refusal.kind, &refusal.what).into();
        }
        let Some(failure) = failure else {
            let (filled, capacity) = (fill.filled(), fill.capacity());
            let what = format!("the body ended after {filled} of {capacity} bytes");
            return operation.error(ErrorKind::Transient, &what).into();
        };
        if failure.error.kind() == CrtErrorKind::Timeout {
            let silence = match state.is_patient {
                true => PATIENT_STALL,
                false => READ_STALL,
            };
            state.attempts.stalled(silence);
            state.is_patient = true;
        }
        let mut fault = self.core.explain(fault::of_crt(&operation, &failure));
        let is_too_short = fault.error.status == Some(RANGE_NOT_SATISFIABLE) && !fault.is_foreign;
        if is_too_short && state.version.is_some() {
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
    fn finish(&self, outcome: Result<GetOutput, ClientError>) {
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

/// A GET that will not be sent again, because the runtime has ended, still tells its observer.
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
        self.0.note_life();
    }

    fn finished(self: Box<Self>, fill: BlockFill, outcome: Result<ResponseHead, Failure>) {
        self.0.attempt_finished(fill, outcome);
    }
}

/// The fault of the `nth` answer whose bytes do not match the checksum: after the first, the bytes
/// are asked for once more.
pub(super) fn corrupt(operation: &Operation, what: &str, nth: u32) -> Fault {
    let kind = match nth {
        0 | 1 => ErrorKind::Transient,
        _ => ErrorKind::InvalidResponse,
    };
    let error = operation.error(kind, what);
    tracing::warn!("{error}");
    error.into()
}

/// Time from the head of an answer until its bytes show that the server goes on with it. Bytes that
/// came with the head, or just behind it, do not show that.
const LIFE_AFTER: Duration = Duration::from_secs(1);
const RANGE_NOT_SATISFIABLE: u16 = 416;
