//! Requests in operation: the admission of each one, and the life of a GET.
//!
//! A GET's version is chosen at its first step, as a server does when a request arrives, and kept
//! to the end.
//!
//! Invariant: `finished` is called exactly once and last, also when a cancel meets a step on
//! another thread: the step that runs then reports the cancel. An operation runs on the thread that
//! steps or ends it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use mountpoint_crt_sys::block::BlockFill;
use parking_lot::Mutex;

use crate::types::{GetOutput, GetRequest};
use crate::{ClientError, ErrorKind, GetObserver};

use super::faults::{Fault, FaultPlan};
use super::options::SimOptions;
use super::request_log::{Operation, RequestLog, RequestRecord};
use super::seeded_numbers::SeededNumbers;
use super::store::bucket::Store;
use super::store::check::{injected, refuse};
use super::store::content::{Content, index};
use super::timer::Timer;

/// Names a request that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub(super) u64);

/// A request that waits, and how to answer it.
pub(super) struct Queued {
    pub(super) operation: Operation,
    pub(super) key: String,
    pub(super) answer: Answer,
}

/// Does the work and tells the waiter; or fails instead of working.
pub(super) type Answer = Box<dyn FnOnce(Option<ErrorKind>) + Send>;

pub(super) struct Shared {
    pub(super) options: SimOptions,
    pub(super) store: Mutex<Store>,
    pub(super) in_flight: Mutex<InFlight>,
    /// The answer of [`ObjectClient::is_throttled`](crate::ObjectClient::is_throttled).
    pub(super) is_throttled: AtomicBool,
    pub(super) timer: Option<Timer>,
}

/// The log, the faults and the requests in flight. Every request passes here.
pub(super) struct InFlight {
    pub(super) log: RequestLog,
    /// GETs that have not ended.
    pub(super) gets: BTreeMap<RequestId, Arc<GetOperation>>,
    /// Other requests that wait for the test.
    pub(super) queued: BTreeMap<RequestId, Queued>,
    pub(super) faults: FaultPlan,
    pub(super) latencies: SeededNumbers,
    pub(super) requests: u64,
    pub(super) gets_max: usize,
}

/// The number, delay and fault of a new request.
pub(super) struct Admission {
    pub(super) id: RequestId,
    pub(super) record: u64,
    pub(super) latency: Duration,
    pub(super) fault: Option<Fault>,
}

impl InFlight {
    pub(super) fn end_get(&mut self, id: RequestId) {
        self.gets.remove(&id);
    }

    pub(super) fn admit(&mut self, record: RequestRecord, options: &SimOptions) -> Admission {
        self.requests += 1;
        let spread = options.latency.end.saturating_sub(options.latency.start);
        let spread_ns = u64::try_from(spread.as_nanos()).unwrap_or(u64::MAX);
        let mut latency =
            options.latency.start + Duration::from_nanos(self.latencies.below(spread_ns));
        let fault = self.faults.decide(record.operation);
        if let Some(Fault::Delay(delay)) = fault {
            latency += delay;
        }
        Admission {
            id: RequestId(self.requests),
            record: self.log.push(record),
            latency,
            fault,
        }
    }
}

type Outcome = Result<GetOutput, ClientError>;

/// The next step of a GET.
#[derive(Clone, Copy)]
pub(super) enum GetStep {
    /// Publish at most this many bytes, and tell the observer.
    Publish(u64),
    /// Publish the rest and finish.
    Finish,
}

pub(super) struct GetOperation {
    pub(super) id: RequestId,
    pub(super) request: GetRequest,
    /// Its number in the request log.
    pub(super) record: u64,
    shared: Arc<Shared>,
    pub(super) observer: Arc<dyn GetObserver>,
    state: Mutex<GetState>,
}

enum GetState {
    Open(Progress),
    /// A thread is in a step; that thread reports an outcome that is decided meanwhile.
    Stepping(Option<Outcome>),
    Ended,
}

struct Progress {
    into: BlockFill,
    source: Option<(Content, GetOutput)>,
    sent: u64,
    /// A fault: fails when so many bytes are sent.
    stop_after: Option<u64>,
}

impl GetOperation {
    pub(super) fn new(
        shared: Arc<Shared>,
        (id, record): (RequestId, u64),
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
        stop_after: Option<u64>,
    ) -> Self {
        let progress = Progress {
            sent: into.filled() as u64,
            into,
            source: None,
            stop_after,
        };
        Self {
            id,
            request,
            record,
            shared,
            observer,
            state: Mutex::new(GetState::Open(progress)),
        }
    }

    /// Bytes that are not published yet; 0 once it has ended.
    pub(super) fn bytes_left(&self) -> u64 {
        match &*self.state.lock() {
            GetState::Open(progress) => progress.bytes_left(),
            GetState::Stepping(_) | GetState::Ended => 0,
        }
    }

    /// Makes one step. `false` if the GET had ended before, or another thread is in a step.
    pub(super) fn step(&self, step: GetStep) -> bool {
        let Some(mut progress) = self.begin_step() else {
            return false;
        };
        let sent_before = progress.sent;
        let outcome = self
            .resolve(&mut progress)
            .and_then(|()| self.publish(&mut progress, step));
        if matches!(outcome, Ok(None)) && progress.sent > sent_before {
            self.observer.progressed();
        }
        let mut state = self.state.lock();
        let decided = match std::mem::replace(&mut *state, GetState::Ended) {
            GetState::Stepping(decided) => decided,
            GetState::Open(_) | GetState::Ended => None,
        };
        let outcome = match outcome {
            Ok(None) => decided,
            Ok(Some(output)) => Some(Ok(output)),
            Err(error) => Some(Err(error)),
        };
        match outcome {
            None => *state = GetState::Open(progress),
            Some(outcome) => {
                drop(state);
                drop(progress);
                self.report(outcome);
            }
        }
        true
    }

    /// Ends the GET with an error, unless it has ended. `false` if it had.
    pub(super) fn fail(&self, error: ClientError) -> bool {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, GetState::Ended) {
            GetState::Ended => false,
            GetState::Stepping(decided) => {
                let is_first = decided.is_none();
                *state = GetState::Stepping(Some(decided.unwrap_or(Err(error))));
                is_first
            }
            GetState::Open(progress) => {
                drop(state);
                drop(progress);
                self.report(Err(error));
                true
            }
        }
    }

    /// Takes the progress out, so that no lock is held while bytes are copied and the observer is
    /// told.
    fn begin_step(&self) -> Option<Progress> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, GetState::Stepping(None)) {
            GetState::Open(progress) => Some(progress),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Chooses the version, the first time.
    fn resolve(&self, progress: &mut Progress) -> Result<(), ClientError> {
        if progress.source.is_some() {
            return Ok(());
        }
        let GetRequest {
            key,
            range,
            if_match,
            object_size,
            ..
        } = &self.request;
        let wanted = range.end.saturating_sub(range.start);
        if wanted == 0 || progress.into.capacity() as u64 != wanted {
            let what = format!("{range:?} of {key} into {} bytes", progress.into.capacity());
            return Err(refuse(ErrorKind::InvalidRequest, "InvalidRange", &what));
        }
        progress.source = Some(self.shared.store.lock().get(
            key,
            range,
            (if_match.as_ref(), *object_size),
        )?);
        Ok(())
    }

    /// Publishes the bytes that the step asks for; some output when the GET is finished.
    fn publish(
        &self,
        progress: &mut Progress,
        step: GetStep,
    ) -> Result<Option<GetOutput>, ClientError> {
        let Some((content, output)) = &progress.source else {
            return Ok(None);
        };
        let wanted = match step {
            GetStep::Publish(bytes) => bytes.min(progress.bytes_left()),
            GetStep::Finish => progress.bytes_left(),
        };
        let stop = progress
            .stop_after
            .map(|after| after.saturating_sub(progress.sent));
        let is_stopped = stop.is_some_and(|stop| stop <= wanted && stop < progress.bytes_left());
        let bytes = stop.map_or(wanted, |stop| stop.min(wanted));
        if content.is_unwritten() {
            progress.into.append_unwritten(index(bytes));
        } else {
            content.read(progress.sent..progress.sent + bytes, |piece| {
                progress.into.append(piece);
            });
        }
        progress.sent += bytes;
        self.shared
            .in_flight
            .lock()
            .log
            .add_bytes(self.record, bytes);
        if is_stopped {
            let what = format!("{} stopped after {} bytes", self.request.key, progress.sent);
            return Err(injected(ErrorKind::Transient, &what));
        }
        Ok(matches!(step, GetStep::Finish).then(|| output.clone()))
    }

    fn report(&self, outcome: Outcome) {
        self.shared.in_flight.lock().end_get(self.id);
        self.observer.finished(outcome);
    }
}

impl Progress {
    fn bytes_left(&self) -> u64 {
        (self.into.capacity() as u64).saturating_sub(self.sent)
    }
}
