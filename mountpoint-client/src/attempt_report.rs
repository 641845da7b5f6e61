//! Reports of attempts at requests to S3, for a recording of a mount.
//!
//! An [`AttemptObserver`] is installed once for the whole process. While it wants no reports, none
//! is prepared. A report has no header of the request, so no key and no signature. Any thread.

use std::borrow::Cow;
use std::sync::OnceLock;
use std::time::Duration;

use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    /// Number of the attempt that this task makes.
    static NUMBER: u32;
}

/// An attempt that has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AttemptReport {
    /// The operation, such as `GetObject`.
    pub operation: Cow<'static, str>,
    /// `s3://bucket/key`.
    pub target: String,
    /// The first and the last byte, if bytes of an object were asked for.
    pub range: Option<String>,
    /// Number among the attempts at the same request, from 1.
    pub number: u32,
    /// The status of the answer, if there was one.
    pub status: Option<u16>,
    /// S3's name of the request.
    pub request_id: Option<String>,
    /// The reason why there was no whole answer.
    pub failure: Option<String>,
    /// Time to the first byte of the answer, where it is known.
    pub first_byte: Option<Duration>,
    /// Time to the end of the answer.
    pub took: Duration,
    /// Bytes of the body that was sent.
    pub sent: u64,
    /// Bytes of the object that were received.
    pub received: u64,
    /// The call that caused it, see [`Caller`](crate::billing::Caller).
    pub call: u64,
}

/// Takes reports.
#[derive(Clone, Copy, Debug)]
pub struct AttemptObserver {
    /// Whether reports are wanted now. Called at the begin of each attempt.
    pub is_on: fn() -> bool,
    /// Takes the report of an attempt that has just ended. Must not block.
    pub ended: fn(AttemptReport),
}

static OBSERVER: OnceLock<AttemptObserver> = OnceLock::new();

/// Has `observer` told of attempts. Only the first call has an effect.
pub fn install(observer: AttemptObserver) {
    OBSERVER.get_or_init(|| observer);
}

/// Whether reports are wanted.
pub(crate) fn is_wanted() -> bool {
    OBSERVER.get().is_some_and(|observer| (observer.is_on)())
}

/// Hands a report over.
pub(crate) fn tell(report: AttemptReport) {
    if let Some(observer) = OBSERVER.get() {
        (observer.ended)(report);
    }
}

/// `attempt`, whose requests have this number. It is reported, and decides how long the SDK's
/// requests wait in silence.
pub(crate) fn numbered<F: Future>(number: u32, attempt: F) -> TaskLocalFuture<u32, F> {
    NUMBER.scope(number, attempt)
}

/// The number of the attempt that this task makes: 1 unless it is [`numbered`].
pub(crate) fn number() -> u32 {
    NUMBER.try_with(|number| *number).unwrap_or(1)
}
