//! The capture that runs, if one does: what is recorded, until it is fetched.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::attempt_report::{self, AttemptObserver, AttemptReport};

use super::call::{CallSink, CallSubject, CapturedCall};
use super::record::{AttemptRecord, CallRecord, CaptureRecord};
use crate::metrics::process::{ProgramProcess, process_of};
use crate::metrics::wait::{nanos, now};
use crate::sync::Mutex;

/// Whether a capture runs.
#[must_use]
pub fn is_on() -> bool {
    IS_ON.load(Ordering::Relaxed)
}

/// Has the client tell of its requests while a capture wants them.
pub fn install_observer() {
    attempt_report::install(AttemptObserver {
        is_on: wants_attempts,
        ended: attempt_ended,
    });
}

/// A request of the kernel has arrived at `began`. `None` if no capture runs.
#[must_use]
pub fn call_begins(
    operation: &'static str,
    began: Duration,
    subject: impl FnOnce() -> CallSubject,
) -> Option<Arc<CapturedCall>> {
    if !is_on() {
        return None;
    }
    let session = SESSION.lock().clone()?;
    session.begins(operation, began, subject())
}

/// What is wanted of a capture.
#[derive(Clone, Copy, Debug)]
pub struct CaptureOptions {
    /// Whether requests to S3 are recorded too.
    pub attempts: bool,
}

/// Another capture runs.
#[derive(Debug, PartialEq, Eq)]
pub struct CaptureBusy;

/// A capture, until it is dropped.
#[derive(Debug)]
pub struct RunningCapture(Arc<CaptureSession>);

static IS_ON: AtomicBool = AtomicBool::new(false);

/// A leaf but for the locks of the session.
static SESSION: Mutex<Option<Arc<CaptureSession>>> = Mutex::new(None);

#[derive(Debug)]
struct CaptureSession {
    options: CaptureOptions,
    zero: Duration,
    /// What nobody has fetched yet. A leaf.
    queue: Mutex<Vec<CaptureRecord>>,
    dropped: AtomicU64,
    /// Requests of the kernel that are being served. A leaf.
    in_flight: Mutex<HashMap<u64, Arc<CapturedCall>>>,
    /// The processes of threads. A leaf.
    processes: Mutex<HashMap<u32, ProgramProcess>>,
}

impl RunningCapture {
    /// Begins to record.
    ///
    /// # Errors
    /// Another capture runs.
    pub fn begin(options: CaptureOptions) -> Result<Self, CaptureBusy> {
        let mut running = SESSION.lock();
        if running.is_some() {
            return Err(CaptureBusy);
        }
        let session = Arc::new(CaptureSession {
            options,
            zero: now(),
            queue: Mutex::default(),
            dropped: AtomicU64::new(0),
            in_flight: Mutex::default(),
            processes: Mutex::default(),
        });
        *running = Some(Arc::clone(&session));
        IS_ON.store(true, Ordering::Relaxed);
        Ok(Self(session))
    }

    /// Time since it began.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        now().saturating_sub(self.0.zero)
    }

    /// What was recorded since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<CaptureRecord> {
        std::mem::take(&mut *self.0.queue.lock())
    }

    /// Ends it: what was recorded since the last [`Self::take`], with the requests of the kernel
    /// that have no reply yet; and how much found no room in all.
    #[must_use]
    pub fn finish(self) -> (Vec<CaptureRecord>, u64) {
        self.stop();
        let end = now();
        let mut rest = self.take();
        let in_flight = std::mem::take(&mut *self.0.in_flight.lock());
        let mut unfinished: Vec<_> = in_flight.into_values().collect();
        unfinished.sort_by_key(|call| call.number());
        let unfinished = unfinished.iter().map(|call| call.is_unfinished(end));
        rest.extend(unfinished.map(|call| CaptureRecord::Call(Box::new(call))));
        (rest, self.0.dropped.load(Ordering::Relaxed))
    }

    fn stop(&self) {
        let mut running = SESSION.lock();
        if running.as_ref().is_some_and(|it| Arc::ptr_eq(it, &self.0)) {
            *running = None;
            IS_ON.store(false, Ordering::Relaxed);
        }
    }
}

impl Drop for RunningCapture {
    fn drop(&mut self) {
        self.stop();
    }
}

impl CaptureSession {
    fn begins(
        self: &Arc<Self>,
        operation: &'static str,
        began: Duration,
        subject: CallSubject,
    ) -> Option<Arc<CapturedCall>> {
        let (process, number) = (self.process(subject.thread), subject.call);
        let mut in_flight = self.in_flight.lock();
        if in_flight.len() >= IN_FLIGHT_MAX {
            drop(in_flight);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // A call must not keep its capture: the capture has it.
        let sink = Arc::new(WeakSink(Arc::downgrade(self)));
        let times = (self.zero, began);
        let call = CapturedCall::new(operation, subject, process, times, sink);
        in_flight.insert(number, Arc::clone(&call));
        Some(call)
    }

    fn add(&self, record: CaptureRecord) {
        let mut queue = self.queue.lock();
        if queue.len() < QUEUE_MAX {
            queue.push(record);
        } else {
            drop(queue);
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The process of `thread`, asked of the kernel once.
    fn process(&self, thread: u32) -> ProgramProcess {
        if thread == 0 {
            return ProgramProcess::default();
        }
        if let Some(known) = self.processes.lock().get(&thread) {
            return known.clone();
        }
        let process = process_of(thread).unwrap_or_default();
        let mut processes = self.processes.lock();
        if processes.len() >= THREADS_MAX {
            processes.clear();
        }
        processes.insert(thread, process.clone());
        process
    }
}

/// The capture of a call, if it still runs.
#[derive(Debug)]
struct WeakSink(Weak<CaptureSession>);

impl CallSink for WeakSink {
    fn ended(&self, record: CallRecord) {
        let Some(session) = self.0.upgrade() else {
            return;
        };
        // Without an entry it has been recorded as unfinished.
        if session.in_flight.lock().remove(&record.call).is_some() {
            session.add(CaptureRecord::Call(Box::new(record)));
        }
    }
}

fn wants_attempts() -> bool {
    is_on()
        && SESSION
            .lock()
            .as_ref()
            .is_some_and(|it| it.options.attempts)
}

fn attempt_ended(report: AttemptReport) {
    let Some(session) = SESSION.lock().clone() else {
        return;
    };
    let end = now().saturating_sub(session.zero);
    // An attempt may have begun before the capture.
    let began = end.saturating_sub(report.took);
    session.add(CaptureRecord::Attempt(Box::new(AttemptRecord {
        operation: report.operation,
        target: report.target,
        began: nanos(began),
        took: nanos(end - began),
        first_byte: report.first_byte.map(nanos),
        range: report.range,
        number: report.number,
        status: report.status,
        request_id: report.request_id,
        failure: report.failure,
        sent: report.sent,
        received: report.received,
        call: report.call,
    })));
}

/// Records that wait to be fetched, which happens many times a second: some megabytes.
const QUEUE_MAX: usize = 16_384;
/// Requests of the kernel that are recorded at once: more than threads of applications wait.
const IN_FLIGHT_MAX: usize = 16_384;
/// Threads whose processes are remembered.
const THREADS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::super::call::CallOutcome;
    use super::*;
    use crate::metrics::wait::{WaitCause, WaitTimes};

    fn subject(call: u64) -> CallSubject {
        CallSubject {
            call,
            thread: std::process::id(),
            ..CallSubject::default()
        }
    }

    fn begins(call: u64) -> Option<Arc<CapturedCall>> {
        call_begins("read", now(), || subject(call))
    }

    fn calls(records: &[CaptureRecord]) -> Vec<(u64, bool)> {
        let calls = records.iter().filter_map(|record| match record {
            CaptureRecord::Call(call) => Some((call.call, call.is_unfinished)),
            CaptureRecord::Attempt(_) | CaptureRecord::Level(_) => None,
        });
        calls.collect()
    }

    /// One test, because there is one capture in a process.
    #[test]
    fn a_capture_has_what_happens_while_it_runs_and_no_more_than_it_has_room_for() {
        let nothing = || -> CallSubject { unreachable!("nobody records") };
        assert!(!is_on() && call_begins("read", now(), nothing).is_none());
        let options = CaptureOptions { attempts: true };
        let capture = RunningCapture::begin(options).unwrap();
        assert_eq!(RunningCapture::begin(options).unwrap_err(), CaptureBusy);
        let (first, second) = (begins(1).unwrap(), begins(2).unwrap());
        first.waited(WaitCause::Memory, now(), Duration::from_millis(1));
        first.ended(CallOutcome::default(), &WaitTimes::default(), now());
        let taken = capture.take();
        assert_eq!(calls(&taken), [(1, false)]);
        let CaptureRecord::Call(call) = &taken[0] else {
            panic!("{taken:?}")
        };
        assert_eq!((call.process, call.waits.len()), (std::process::id(), 1));
        let room = u64::try_from(QUEUE_MAX).unwrap();
        for number in 10..10 + room + 5 {
            let call = begins(number).unwrap();
            call.ended(CallOutcome::default(), &WaitTimes::default(), now());
        }
        let (rest, dropped) = capture.finish();
        assert_eq!((rest.len(), dropped), (QUEUE_MAX + 1, 5));
        assert_eq!(calls(&rest).last(), Some(&(2, true)));
        // The capture is over: its calls go nowhere.
        second.ended(CallOutcome::default(), &WaitTimes::default(), now());
        let next = RunningCapture::begin(options).unwrap();
        assert!(is_on() && next.take().is_empty());
        // A call that had begun before is not in it.
        drop(next);
        assert!(!is_on());
    }
}
