//! The capture that runs, if one does: its records, until they are fetched.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use mountpoint_client::attempt_report::{self, AttemptObserver, AttemptReport};

use super::record::{AttemptRecord, CallRecord, CaptureRecord, WaitRecord};
use crate::metrics::process::{ProgramProcess, process_of};
use crate::metrics::wait::{WaitCause, WaitTimes, nanos, now};
use crate::sync::Mutex;

/// Has the client tell of its requests while a capture runs.
pub fn install_observer() {
    attempt_report::install(AttemptObserver {
        is_on: || IS_ON.load(Ordering::Relaxed),
        ended: attempt_ended,
    });
}

/// A request of the kernel has arrived at `began`, and asks for `subject`. `None` if no capture
/// runs.
#[must_use]
pub fn call_begins(
    operation: &'static str,
    began: Duration,
    subject: impl FnOnce() -> CallRecord,
) -> Option<Arc<CapturedCall>> {
    if !IS_ON.load(Ordering::Relaxed) {
        return None;
    }
    let session = SESSION.lock().clone()?;
    let record = CallRecord {
        operation: operation.into(),
        ..subject()
    };
    session.begins(began, record)
}

/// A request of the kernel that is being served and recorded.
pub struct CapturedCall {
    /// A call does not keep its capture: the capture has it.
    session: Weak<CaptureSession>,
    number: u64,
    zero: Duration,
    began: Duration,
    causes: AtomicBool,
    /// A leaf.
    state: Mutex<CallState>,
}

#[derive(Debug)]
struct CallState {
    record: CallRecord,
    is_answered: bool,
}

impl CapturedCall {
    /// The number of the request, for a request to S3 that it is about to cause.
    pub fn causes(&self) -> u64 {
        self.causes.store(true, Ordering::Relaxed);
        self.number
    }

    /// The request waited from `began` on.
    pub fn waited(&self, cause: WaitCause, began: Duration, time: Duration) {
        if time.is_zero() {
            return;
        }
        let waits = &mut self.state.lock().record.waits;
        if waits.len() < WAITS_MAX {
            waits.push(WaitRecord {
                cause: cause.name().into(),
                began: nanos(began.saturating_sub(self.zero)),
                took: nanos(time),
            });
        }
    }

    /// The request is about to get its reply, which `note` adds to the record.
    pub fn answered(&self, note: impl FnOnce(&mut CallRecord)) {
        let mut state = self.state.lock();
        state.is_answered = true;
        note(&mut state.record);
    }

    /// The kernel has the reply at `end`. The request waited so long by cause.
    pub fn ended(&self, times: &WaitTimes, end: Duration) {
        // Without a session, or an entry there, it is recorded already.
        let Some(session) = self.session.upgrade() else {
            return;
        };
        let mut in_flight = session.in_flight.lock();
        if in_flight.remove(&self.number).is_none() {
            return;
        }
        let waited = WaitCause::ALL.into_iter().zip(times);
        let waited = waited.filter(|(_, time)| **time > 0);
        let waited = waited.map(|(cause, time)| WaitRecord {
            cause: cause.name().into(),
            began: 0,
            took: *time,
        });
        let record = CallRecord {
            waited: waited.collect(),
            ..self.record(end)
        };
        // Still locked: a capture that ends finds the call either there or in the queue.
        session.add(CaptureRecord::Call(Box::new(record)));
    }

    fn record(&self, end: Duration) -> CallRecord {
        let mut state = self.state.lock();
        let is_unfinished = !state.is_answered;
        CallRecord {
            began: nanos(self.began.saturating_sub(self.zero)),
            took: nanos(end.saturating_sub(self.began)),
            causes: self.causes.load(Ordering::Relaxed),
            is_unfinished,
            ..std::mem::take(&mut state.record)
        }
    }
}

impl fmt::Debug for CapturedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CapturedCall({})", self.number)
    }
}

/// Another capture runs.
#[derive(Debug, PartialEq, Eq)]
pub struct CaptureBusy;

/// A capture, until it is dropped.
#[derive(Debug)]
pub struct RunningCapture(Arc<CaptureSession>);

/// Whether a capture runs.
static IS_ON: AtomicBool = AtomicBool::new(false);
/// A leaf.
static SESSION: Mutex<Option<Arc<CaptureSession>>> = Mutex::new(None);

#[derive(Debug)]
struct CaptureSession {
    zero: Duration,
    /// Records that are not fetched yet. A leaf.
    queue: Mutex<Vec<CaptureRecord>>,
    dropped: AtomicU64,
    /// Requests of the kernel that are being served. Before the queue and the states of calls.
    in_flight: Mutex<HashMap<u64, Arc<CapturedCall>>>,
    /// The processes of threads. A leaf.
    processes: Mutex<HashMap<u32, ProgramProcess>>,
}

impl RunningCapture {
    /// Begins to record requests of the kernel and those to S3.
    ///
    /// # Errors
    /// Another capture runs.
    pub fn begin() -> Result<Self, CaptureBusy> {
        let mut running = SESSION.lock();
        if running.is_some() {
            return Err(CaptureBusy);
        }
        let session = Arc::new(CaptureSession {
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

    /// The records since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<CaptureRecord> {
        std::mem::take(&mut *self.0.queue.lock())
    }

    /// Ends it. Returns the records since the last [`Self::take`], with the requests of the kernel
    /// that are still being served; and the number of records that found no room in all.
    #[must_use]
    pub fn finish(self) -> (Vec<CaptureRecord>, u64) {
        self.stop();
        let end = now();
        let in_flight = std::mem::take(&mut *self.0.in_flight.lock());
        let mut rest = self.take();
        let mut in_flight: Vec<_> = in_flight.into_values().collect();
        in_flight.sort_by_key(|call| call.number);
        let in_flight = in_flight.iter().map(|call| call.record(end));
        rest.extend(in_flight.map(|call| CaptureRecord::Call(Box::new(call))));
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
    fn begins(self: &Arc<Self>, began: Duration, record: CallRecord) -> Option<Arc<CapturedCall>> {
        let ProgramProcess { number, name } = self.process(record.thread);
        let call = Arc::new(CapturedCall {
            session: Arc::downgrade(self),
            number: record.call,
            zero: self.zero,
            began,
            causes: AtomicBool::new(false),
            state: Mutex::new(CallState {
                record: CallRecord {
                    process: number,
                    program: name,
                    ..record
                },
                is_answered: false,
            }),
        });
        let mut in_flight = self.in_flight.lock();
        if in_flight.len() >= IN_FLIGHT_MAX {
            drop(in_flight);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        in_flight.insert(call.number, Arc::clone(&call));
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
        took: nanos(end.saturating_sub(began)),
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

/// Records that wait to be fetched, which happens many times a second. One takes half a KiB, and at
/// most 3 KiB.
const QUEUE_MAX: usize = 16_384;
/// Requests of the kernel that are recorded at once: more than threads of applications wait.
const IN_FLIGHT_MAX: usize = 16_384;
/// Waits of one request that are recorded one by one: a read of 1 MiB has a handful.
const WAITS_MAX: usize = 16;
/// Threads whose processes are remembered.
const THREADS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    fn begins(call: u64) -> Option<Arc<CapturedCall>> {
        call_begins("read", now(), || CallRecord {
            call,
            thread: std::process::id(),
            ..CallRecord::default()
        })
    }

    fn ends(call: &CapturedCall) {
        call.answered(|record| record.done = Some(1));
        call.ended(&WaitTimes::default(), now());
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
        let is_on = || IS_ON.load(Ordering::Relaxed);
        let nothing = || -> CallRecord { unreachable!("nobody records") };
        assert!(!is_on() && call_begins("read", now(), nothing).is_none());
        let capture = RunningCapture::begin().unwrap();
        assert_eq!(RunningCapture::begin().unwrap_err(), CaptureBusy);
        let (first, second, third) = (begins(1).unwrap(), begins(2).unwrap(), begins(3).unwrap());
        for _ in 0..2 * WAITS_MAX {
            first.waited(WaitCause::Memory, now(), Duration::from_millis(1));
        }
        ends(&first);
        let taken = capture.take();
        assert_eq!(calls(&taken), [(1, false)]);
        let CaptureRecord::Call(call) = &taken[0] else {
            panic!("{taken:?}")
        };
        assert_eq!((call.done, call.process), (Some(1), std::process::id()));
        assert_eq!(call.waits.len(), WAITS_MAX);
        let room = u64::try_from(QUEUE_MAX).unwrap();
        for number in 10..10 + room + 5 {
            ends(&begins(number).unwrap());
        }
        third.answered(|_| ());
        let (rest, dropped) = capture.finish();
        assert_eq!((rest.len(), dropped), (QUEUE_MAX + 2, 5));
        // One has no reply; the kernel is about to take the reply to the other.
        assert_eq!(calls(&rest)[QUEUE_MAX..], [(2, true), (3, false)]);
        // The capture is over: its calls go nowhere.
        ends(&second);
        let next = RunningCapture::begin().unwrap();
        assert!(is_on());
        assert!(next.take().is_empty());
        drop(next);
        assert!(!is_on());
    }
}
