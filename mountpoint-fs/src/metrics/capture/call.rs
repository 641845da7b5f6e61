//! A request of the kernel that is being recorded.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::record::{CallRecord, WaitRecord};
use crate::metrics::process::ProgramProcess;
use crate::metrics::wait::{WaitCause, WaitTimes, nanos};
use crate::sync::Mutex;

/// What a request of the kernel is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallSubject {
    /// Its number, which is not 0.
    pub call: u64,
    /// The thread that waits; 0 if it is not known.
    pub thread: u32,
    /// The inode.
    pub inode: u64,
    /// The key of the file, or of the name in that directory.
    pub key: Option<String>,
    /// The open file.
    pub handle: Option<u64>,
    /// The first byte.
    pub offset: Option<u64>,
    /// Bytes that are asked for.
    pub len: Option<u64>,
    /// Size of the stored file.
    pub size: Option<u64>,
    /// Flags of the open.
    pub flags: Option<u32>,
}

/// A request of the kernel that is being served and recorded.
pub struct CapturedCall {
    operation: &'static str,
    subject: CallSubject,
    process: ProgramProcess,
    /// When the capture began, a time of [`now`](crate::metrics::trace::now).
    zero: Duration,
    began: Duration,
    /// The first ones. A leaf.
    waits: Mutex<Vec<WaitRecord>>,
    /// Whether it had requests to S3 sent.
    causes: AtomicBool,
    /// Takes the record.
    sink: Arc<dyn CallSink>,
}

/// Takes the records of requests that have ended.
pub(super) trait CallSink: Send + Sync {
    /// A request has ended, or the capture has.
    fn ended(&self, record: CallRecord);
}

/// What came of a request.
#[derive(Clone, Debug, Default)]
pub struct CallOutcome {
    /// The handle, if one was opened.
    pub handle: Option<u64>,
    /// The inode, if one was found or made.
    pub found: Option<u64>,
    /// Bytes that were read or written.
    pub done: Option<u64>,
    /// The error.
    pub errno: Option<String>,
}

impl CapturedCall {
    pub(super) fn new(
        operation: &'static str,
        subject: CallSubject,
        process: ProgramProcess,
        (zero, began): (Duration, Duration),
        sink: Arc<dyn CallSink>,
    ) -> Arc<Self> {
        Arc::new(Self {
            operation,
            subject,
            process,
            zero,
            began,
            waits: Mutex::default(),
            causes: AtomicBool::new(false),
            sink,
        })
    }

    /// The number of the request, for what it is about to cause.
    pub fn causes(&self) -> u64 {
        self.causes.store(true, Ordering::Relaxed);
        self.subject.call
    }

    /// The request waited from `began` on.
    pub fn waited(&self, cause: WaitCause, began: Duration, time: Duration) {
        if time.is_zero() {
            return;
        }
        let mut waits = self.waits.lock();
        if waits.len() < WAITS_MAX {
            waits.push(WaitRecord {
                cause: cause.name().to_owned(),
                began: nanos(began.saturating_sub(self.zero)),
                took: nanos(time),
            });
        }
    }

    /// The request has had its reply at `end`, with its times by cause.
    pub fn ended(&self, outcome: CallOutcome, times: &WaitTimes, end: Duration) {
        let causes = WaitCause::ALL.into_iter().zip(times);
        let waited = causes.filter(|(_, time)| !time.is_zero());
        let waited = waited.map(|(cause, time)| WaitRecord {
            cause: cause.name().to_owned(),
            began: 0,
            took: nanos(*time),
        });
        self.sink.ended(CallRecord {
            handle: outcome.handle.or(self.subject.handle),
            found: outcome.found,
            done: outcome.done,
            errno: outcome.errno,
            waited: waited.collect(),
            ..self.record(end)
        });
    }

    /// The request has no reply yet at `end`.
    pub(super) fn is_unfinished(&self, end: Duration) -> CallRecord {
        CallRecord {
            is_unfinished: true,
            ..self.record(end)
        }
    }

    pub(super) fn number(&self) -> u64 {
        self.subject.call
    }

    fn record(&self, end: Duration) -> CallRecord {
        let subject = self.subject.clone();
        CallRecord {
            call: subject.call,
            operation: self.operation.to_owned(),
            began: nanos(self.began.saturating_sub(self.zero)),
            took: nanos(end.saturating_sub(self.began)),
            inode: subject.inode,
            key: subject.key,
            handle: subject.handle,
            offset: subject.offset,
            len: subject.len,
            size: subject.size,
            flags: subject.flags,
            thread: subject.thread,
            process: self.process.number,
            program: self.process.name.clone(),
            waits: self.waits.lock().clone(),
            causes: self.causes.load(Ordering::Relaxed),
            ..CallRecord::default()
        }
    }
}

impl fmt::Debug for CapturedCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CapturedCall({} {})", self.operation, self.subject.call)
    }
}

/// Waits of one request that are recorded one by one: a read of 1 MiB has a handful.
const WAITS_MAX: usize = 64;
