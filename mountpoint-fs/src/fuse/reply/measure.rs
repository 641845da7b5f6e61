//! The numbers of each request of the kernel, from its arrival to its reply.
//!
//! Handles are taken once for the whole process, at the first request. Nothing is measured, and no
//! clock is read, without a recorder.

use std::sync::{Arc, LazyLock, OnceLock};
use std::time::Duration;

use metrics::{Counter, Histogram, counter, histogram};
use nix::errno::Errno;
use strum::{EnumCount, IntoStaticStr, VariantArray};

use super::reply::Reply;
use crate::clock::Clock;
use crate::fuse::log::LogLimit;
use crate::fuse::wire::{Mutation, Operation};
use crate::metrics::capture::{CallRecord, CapturedCall, call_begins};
use crate::metrics::names::{FUSE_BYTES, FUSE_ERRORS, FUSE_IO_SIZE, FUSE_LATENCY, FUSE_WAIT_TIME};
use crate::metrics::trace::{OperationTrace, WaitCause, WaitTimes, micros, nanos, now};

/// Has requests logged that take longer than this. Only the first call has an effect.
pub(crate) fn log_slow(longest: Duration) {
    SLOW.get_or_init(|| Slow {
        longest,
        limit: LogLimit::new(Clock::monotonic()),
    });
}

/// Has the numbers of all kinds of requests kept from now on, so that they are 0 before the first
/// request.
pub(crate) fn declare_metrics() {
    for request in HANDLES.iter() {
        counter!(FUSE_ERRORS, "fuse_request" => request.name, "errno" => "EIO").increment(0);
    }
}

static SLOW: OnceLock<Slow> = OnceLock::new();

/// The handles of all kinds of requests.
static HANDLES: LazyLock<[RequestHandles; FuseRequest::COUNT]> =
    LazyLock::new(|| std::array::from_fn(|at| RequestHandles::new(FuseRequest::VARIANTS[at])));

/// The bound of requests that are logged.
struct Slow {
    longest: Duration,
    limit: LogLimit<&'static str>,
}

/// A request that is being served.
#[derive(Debug)]
pub(in crate::fuse) struct Measure {
    request: &'static RequestHandles,
    began: Duration,
    /// Set if the request has waited.
    trace: Option<MeasuredTrace>,
    /// Set if the request is recorded.
    captured: Option<Arc<CapturedCall>>,
}

/// The waits of a request, and the numbers that they are added to.
#[derive(Clone, Debug)]
pub(in crate::fuse) struct MeasuredTrace {
    request: &'static RequestHandles,
    trace: Arc<OperationTrace>,
}

impl MeasuredTrace {
    /// The waits.
    pub(in crate::fuse) fn trace(&self) -> &Arc<OperationTrace> {
        &self.trace
    }

    /// Counts the waits until `end`, also the one in progress, those that were not counted yet.
    /// Returns all of them.
    pub(in crate::fuse) fn count_waits(&self, end: Duration) -> WaitTimes {
        let times = self.trace.times(end);
        let news = self.trace.take_micros(&times);
        for (counter, micros) in self.request.waits.iter().zip(news) {
            if micros > 0 {
                counter.increment(micros);
            }
        }
        times
    }
}

impl Measure {
    /// A request that has just arrived; `None` if nothing is measured. Its subject is asked for if
    /// the request is to be recorded.
    pub(in crate::fuse) fn begin(
        operation: &Operation<'_>,
        subject: impl FnOnce() -> CallRecord,
    ) -> Option<Self> {
        if !crate::metrics::is_measured() {
            return None;
        }
        let (request, began) = (&HANDLES[FuseRequest::of(operation) as usize], now());
        Some(Self {
            request,
            began,
            trace: None,
            captured: call_begins(request.name, began, subject),
        })
    }

    /// The trace of the request, which `thread` waits for. It takes the place of `spare`, the trace
    /// of an earlier request, unless that one is still in use.
    pub(super) fn trace(&self, spare: Option<MeasuredTrace>, thread: u32) -> MeasuredTrace {
        let captured = self.captured.as_ref().map(Arc::clone);
        let request = self.request;
        let trace = OperationTrace::of(request.rest, thread, self.began, captured);
        if let Some(mut spare) = spare
            && let Some(place) = Arc::get_mut(&mut spare.trace)
        {
            *place = trace;
            return MeasuredTrace { request, ..spare };
        }
        let trace = Arc::new(trace);
        MeasuredTrace { request, trace }
    }

    /// The request waits, and has its waits added to `trace`.
    pub(super) fn parks(&mut self, trace: &MeasuredTrace) {
        trace.trace.parks();
        self.trace = Some(trace.clone());
    }

    /// The reply begins to be sent.
    pub(super) fn replies(self, reply: &Reply) -> Replying {
        let data = match reply {
            Reply::Data(data) => Some(data.len() as u64),
            Reply::Written(len) => Some(u64::from(*len)),
            _ => None,
        };
        let errno = match reply {
            Reply::Failed(errno) => Some(*errno),
            Reply::Absence(_) => Some(Errno::ENOENT),
            _ => None,
        };
        if let Some(captured) = &self.captured {
            captured.answered(|record| {
                record.done = data;
                record.errno = errno.map(|errno| format!("{errno:?}"));
                note_found(reply, record);
            });
        }
        Replying {
            measure: self,
            data,
            errno,
            began: now(),
        }
    }
}

/// A reply that is being sent.
pub(super) struct Replying {
    measure: Measure,
    data: Option<u64>,
    errno: Option<Errno>,
    began: Duration,
}

/// Adds the handle that a reply opens and the inode that it finds.
fn note_found(reply: &Reply, record: &mut CallRecord) {
    let (handle, found) = match reply {
        Reply::Opened(opened) => (Some(opened.handle), None),
        Reply::Created(entry, opened) => (Some(opened.handle), Some(entry.attributes.ino)),
        Reply::Entry(entry) | Reply::Linked(entry, _) => (None, Some(entry.attributes.ino)),
        Reply::PassedThrough(handle, _) | Reply::OpenedDirectory(handle) => (Some(*handle), None),
        _ => (None, None),
    };
    record.handle = handle.map(|handle| handle.0).or(record.handle);
    record.found = found.map(|ino| ino.0);
}

impl Replying {
    /// The kernel has the reply.
    pub(super) fn ended(self) {
        let Measure {
            request,
            began,
            trace,
            captured,
        } = self.measure;
        let end = now();
        let reply = end.saturating_sub(self.began);
        request.latency.record(micros(end.saturating_sub(began)));
        request.waits[WaitCause::Reply as usize].increment(nanos(reply) / 1000);
        if let Some(len) = self.data {
            request.io_size.record(len as f64);
            request.bytes.increment(len);
        }
        match self.errno {
            None => {}
            Some(Errno::ENOENT) => request.absent.increment(1),
            Some(errno) => {
                let (name, errno) = (request.name, format!("{errno:?}"));
                counter!(FUSE_ERRORS, "fuse_request" => name, "errno" => errno).increment(1);
            }
        }
        let times = trace.map(|trace| trace.count_waits(end));
        if let Some(captured) = captured {
            let mut times = times.unwrap_or_default();
            times[WaitCause::Reply as usize] += nanos(reply);
            captured.waited(WaitCause::Reply, self.began, reply);
            captured.ended(&times, end);
        }
        if let Some(slow) = SLOW.get() {
            let took = end.saturating_sub(began);
            slow.check(request.name, took, &times.unwrap_or_default());
        }
    }
}

impl Slow {
    /// Logs a request that took long, with what it waited for.
    fn check(&self, request: &'static str, took: Duration, times: &WaitTimes) {
        if took < self.longest {
            return;
        }
        let Some(suppressed) = self.limit.admit(request) else {
            return;
        };
        let causes = WaitCause::ALL.into_iter().zip(times);
        let mut causes: Vec<_> = causes.filter(|(_, time)| **time > 0).collect();
        causes.sort_by_key(|(_, time)| std::cmp::Reverse(**time));
        let causes = causes.iter().map(|(cause, time)| {
            let millis = **time as f64 / 1e6;
            format!("{} {millis:.0} ms", cause.name())
        });
        let causes = match causes.collect::<Vec<_>>().join(", ").as_str() {
            "" => "did not wait".to_owned(),
            causes => format!("waited for: {causes}"),
        };
        tracing::warn!(
            request,
            suppressed,
            "slow: took {:.0} ms; {causes}",
            took.as_secs_f64() * 1000.0
        );
    }
}

/// The handles of one kind of request.
struct RequestHandles {
    name: &'static str,
    /// The cause of waits that no other cause claims.
    rest: WaitCause,
    latency: Histogram,
    io_size: Histogram,
    bytes: Counter,
    /// `ENOENT`, the answer of many look-ups.
    absent: Counter,
    waits: [Counter; WaitCause::ALL.len()],
}

impl std::fmt::Debug for RequestHandles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "RequestHandles({})", self.name)
    }
}

impl RequestHandles {
    fn new(request: FuseRequest) -> Self {
        let name = request.into();
        let direction = match request {
            FuseRequest::Write => "write",
            _ => "read",
        };
        let wait = |cause: WaitCause| {
            let cause = cause.name();
            counter!(FUSE_WAIT_TIME, "fuse_request" => name, "cause" => cause)
        };
        Self {
            name,
            rest: request.rest(),
            latency: histogram!(FUSE_LATENCY, "fuse_request" => name),
            io_size: match request {
                FuseRequest::Read | FuseRequest::Write => {
                    histogram!(FUSE_IO_SIZE, "fuse_request" => name)
                }
                _ => Histogram::noop(),
            },
            bytes: counter!(FUSE_BYTES, "type" => direction),
            absent: counter!(FUSE_ERRORS, "fuse_request" => name, "errno" => "ENOENT"),
            waits: WaitCause::ALL.map(wait),
        }
    }
}

/// A kind of request, by the name that it has in FUSE.
#[derive(Clone, Copy, EnumCount, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "lowercase")]
enum FuseRequest {
    Lookup,
    GetAttr,
    SetAttr,
    ReadLink,
    SymLink,
    MkNod,
    MkDir,
    Unlink,
    RmDir,
    Rename,
    Link,
    Open,
    Read,
    Write,
    StatFs,
    Release,
    FSync,
    SetXAttr,
    GetXAttr,
    ListXAttr,
    RemoveXAttr,
    Flush,
    OpenDir,
    ReadDir,
    ReadDirPlus,
    ReleaseDir,
    Create,
    FAllocate,
    #[strum(serialize = "copy_file_range")]
    CopyFileRange,
    Other,
}

impl FuseRequest {
    fn of(operation: &Operation<'_>) -> Self {
        match operation {
            Operation::Lookup { .. } => Self::Lookup,
            Operation::GetAttributes => Self::GetAttr,
            Operation::Open { .. } => Self::Open,
            Operation::Read { .. } => Self::Read,
            Operation::Create { .. } => Self::Create,
            Operation::MakeNode { .. } => Self::MkNod,
            Operation::Write { .. } => Self::Write,
            Operation::Flush { .. } => Self::Flush,
            Operation::Sync { .. } => Self::FSync,
            Operation::Release { .. } => Self::Release,
            Operation::OpenDirectory => Self::OpenDir,
            Operation::ReadDirectory { plus: true, .. } => Self::ReadDirPlus,
            Operation::ReadDirectory { .. } => Self::ReadDir,
            Operation::ReleaseDirectory { .. } => Self::ReleaseDir,
            Operation::StatFs => Self::StatFs,
            Operation::ExtendedAttribute { .. } => Self::GetXAttr,
            Operation::ExtendedAttributes { .. } => Self::ListXAttr,
            Operation::ReadLink => Self::ReadLink,
            Operation::Mutate(mutation) => Self::of_mutation(mutation),
            Operation::Init(_)
            | Operation::Destroy
            | Operation::Interrupt { .. }
            | Operation::Forget { .. }
            | Operation::BatchForget(_)
            | Operation::SyncDirectory
            | Operation::Unsupported(_) => Self::Other,
        }
    }

    fn of_mutation(mutation: &Mutation<'_>) -> Self {
        match mutation {
            Mutation::Unlink { .. } => Self::Unlink,
            Mutation::RemoveDirectory { .. } => Self::RmDir,
            Mutation::MakeDirectory { .. } => Self::MkDir,
            Mutation::Rename { .. } => Self::Rename,
            Mutation::SetAttributes(_) => Self::SetAttr,
            Mutation::SymbolicLink { .. } => Self::SymLink,
            Mutation::HardLink { .. } => Self::Link,
            Mutation::Allocate(_) => Self::FAllocate,
            Mutation::CopyRange(_) => Self::CopyFileRange,
            Mutation::SetExtendedAttribute { .. } => Self::SetXAttr,
            Mutation::RemoveExtendedAttribute { .. } => Self::RemoveXAttr,
        }
    }

    /// The cause of such a request's time that no other cause claims.
    fn rest(self) -> WaitCause {
        match self {
            Self::Lookup
            | Self::GetAttr
            | Self::ReadLink
            | Self::Open
            | Self::GetXAttr
            | Self::ListXAttr
            | Self::OpenDir
            | Self::ReadDir
            | Self::ReadDirPlus => WaitCause::Names,
            Self::SetAttr
            | Self::SymLink
            | Self::MkNod
            | Self::MkDir
            | Self::Unlink
            | Self::RmDir
            | Self::Rename
            | Self::Link
            | Self::Write
            | Self::FSync
            | Self::SetXAttr
            | Self::RemoveXAttr
            | Self::Flush
            | Self::Create
            | Self::FAllocate
            | Self::CopyFileRange => WaitCause::Change,
            Self::Read | Self::StatFs | Self::Release | Self::ReleaseDir | Self::Other => {
                WaitCause::Other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_stand_at_their_number() {
        for (number, request) in FuseRequest::VARIANTS.iter().copied().enumerate() {
            assert_eq!(request as usize, number, "{}", <&str>::from(request));
        }
        for (number, cause) in WaitCause::ALL.into_iter().enumerate() {
            assert_eq!(cause as usize, number, "{}", cause.name());
        }
    }
}
