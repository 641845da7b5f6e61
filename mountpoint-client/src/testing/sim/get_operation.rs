//! A GET in flight.
//!
//! The version is chosen at the first step, as a server does when a request arrives, and kept to the end.
//!
//! Invariant: `finished` is called exactly once and last, also when a cancel meets a step on another thread:
//! the step that runs then reports the cancel. Runs on the thread of whoever steps or ends it.

use std::sync::Arc;

use mountpoint_crt_sys::block::BlockFill;
use parking_lot::Mutex;

use crate::types::{GetOutput, GetRequest};
use crate::{ClientError, ErrorKind, GetObserver};

use super::client::Shared;
use super::manual::RequestId;
use super::store::check::{injected, refuse};
use super::store::content::Content;

type Outcome = Result<GetOutput, ClientError>;

/// What to do next.
#[derive(Clone, Copy)]
pub(super) enum Step {
    /// Publish at most this many bytes, and tell of them.
    Publish(u64),
    /// Publish the rest and finish.
    Finish,
}

pub(super) struct Flight {
    pub(super) id: RequestId,
    pub(super) request: GetRequest,
    /// Its number in the request log.
    pub(super) record: u64,
    shared: Arc<Shared>,
    pub(super) observer: Arc<dyn GetObserver>,
    state: Mutex<State>,
}

enum State {
    Open(Progress),
    /// A thread is in a step; what was decided meanwhile is said by that thread.
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

impl Flight {
    pub(super) fn new(
        shared: Arc<Shared>,
        (id, record): (RequestId, u64),
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
        stop_after: Option<u64>,
    ) -> Self {
        let progress = Progress {
            into,
            source: None,
            sent: 0,
            stop_after,
        };
        Self {
            id,
            request,
            record,
            shared,
            observer,
            state: Mutex::new(State::Open(progress)),
        }
    }

    /// Bytes that are not published yet; 0 once it has ended.
    pub(super) fn bytes_left(&self) -> u64 {
        match &*self.state.lock() {
            State::Open(progress) => progress.bytes_left(),
            State::Stepping(_) | State::Ended => 0,
        }
    }

    /// One step. `false` if it had ended before, or another thread is in a step.
    pub(super) fn step(&self, step: Step) -> bool {
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
        let decided = match std::mem::replace(&mut *state, State::Ended) {
            State::Stepping(decided) => decided,
            State::Open(_) | State::Ended => None,
        };
        let outcome = match outcome {
            Ok(None) => decided,
            Ok(Some(output)) => Some(Ok(output)),
            Err(error) => Some(Err(error)),
        };
        match outcome {
            None => *state = State::Open(progress),
            Some(outcome) => {
                drop(state);
                drop(progress);
                self.report(outcome);
            }
        }
        true
    }

    /// Ends it with an error, unless it has ended. `false` if it had.
    pub(super) fn fail(&self, error: ClientError) -> bool {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Ended) {
            State::Ended => false,
            State::Stepping(decided) => {
                let is_first = decided.is_none();
                *state = State::Stepping(Some(decided.unwrap_or(Err(error))));
                is_first
            }
            State::Open(progress) => {
                drop(state);
                drop(progress);
                self.report(Err(error));
                true
            }
        }
    }

    /// Takes the progress out, so that no lock is held while bytes are copied and the observer is told.
    fn begin_step(&self) -> Option<Progress> {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, State::Stepping(None)) {
            State::Open(progress) => Some(progress),
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

    /// Publishes what the step asks for; some output when it is finished.
    fn publish(
        &self,
        progress: &mut Progress,
        step: Step,
    ) -> Result<Option<GetOutput>, ClientError> {
        let Some((content, output)) = &progress.source else {
            return Ok(None);
        };
        let wanted = match step {
            Step::Publish(bytes) => bytes.min(progress.bytes_left()),
            Step::Finish => progress.bytes_left(),
        };
        let stop = progress
            .stop_after
            .map(|after| after.saturating_sub(progress.sent));
        let is_stopped = stop.is_some_and(|stop| stop <= wanted && stop < progress.bytes_left());
        let bytes = stop.map_or(wanted, |stop| stop.min(wanted));
        content.read(progress.sent..progress.sent + bytes, |piece| {
            progress.into.append(piece);
        });
        progress.sent += bytes;
        self.shared.desk.lock().log.add_bytes(self.record, bytes);
        if is_stopped {
            let what = format!("{} stopped after {} bytes", self.request.key, progress.sent);
            return Err(injected(ErrorKind::Transient, &what));
        }
        Ok(matches!(step, Step::Finish).then(|| output.clone()))
    }

    fn report(&self, outcome: Outcome) {
        self.shared.desk.lock().end_get(self.id);
        self.observer.finished(outcome);
    }
}

impl Progress {
    fn bytes_left(&self) -> u64 {
        (self.into.capacity() as u64).saturating_sub(self.sent)
    }
}
