//! The programs that cause requests to S3, counted by S3's classes of charges.
//!
//! A [`Caller`] names the account of the requests that its thread begins, by [`enter`] or by a
//! function that it [`install`]s. The client counts each attempt in the account of the caller that
//! began the request. Without an account nothing is counted. Any thread; no locks.

use std::cell::Cell;
use std::fmt;
use std::pin::Pin;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

/// S3's price class of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestClass {
    /// PUT, COPY, POST, LIST.
    Put,
    /// GET and others.
    Get,
    /// DELETE and CANCEL.
    Delete,
}

impl RequestClass {
    /// The class of an operation, such as `ListObjectsV2`.
    #[must_use]
    pub fn of(operation: &str) -> Self {
        match operation {
            "PutObject"
            | "CopyObject"
            | "RenameObject"
            | "CreateMultipartUpload"
            | "UploadPart"
            | "UploadPartCopy"
            | "CompleteMultipartUpload"
            | "ListObjectsV2"
            | "ListObjects"
            | "ListMultipartUploads"
            | "ListParts" => Self::Put,
            "DeleteObject" | "DeleteObjects" | "AbortMultipartUpload" => Self::Delete,
            _ => Self::Get,
        }
    }
}

/// Requests and bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BilledUsage {
    /// Requests of class [`RequestClass::Put`].
    pub puts: u64,
    /// Requests of class [`RequestClass::Get`].
    pub gets: u64,
    /// Requests of class [`RequestClass::Delete`].
    pub deletes: u64,
    /// Bytes of the bodies that were sent.
    pub sent: u64,
    /// Bytes of objects that were received.
    pub received: u64,
}

impl BilledUsage {
    /// All requests.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.puts + self.gets + self.deletes
    }
}

/// Counts what one program causes.
pub struct RequestAccount {
    name: String,
    counters: BilledCounters,
}

#[derive(Debug, Default)]
struct BilledCounters {
    puts: AtomicU64,
    gets: AtomicU64,
    deletes: AtomicU64,
    sent: AtomicU64,
    received: AtomicU64,
}

impl RequestAccount {
    /// An account with nothing in it.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            counters: BilledCounters::default(),
        }
    }

    /// The name of the program.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The counts up to now.
    #[must_use]
    pub fn usage(&self) -> BilledUsage {
        let counters = &self.counters;
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        BilledUsage {
            puts: of(&counters.puts),
            gets: of(&counters.gets),
            deletes: of(&counters.deletes),
            sent: of(&counters.sent),
            received: of(&counters.received),
        }
    }

    /// Counts an attempt that S3 charges for.
    fn add(&self, class: RequestClass, sent: u64, received: u64) {
        let counters = &self.counters;
        let requests = match class {
            RequestClass::Put => &counters.puts,
            RequestClass::Get => &counters.gets,
            RequestClass::Delete => &counters.deletes,
        };
        requests.fetch_add(1, Ordering::Relaxed);
        for (counter, bytes) in [(&counters.sent, sent), (&counters.received, received)] {
            if bytes > 0 {
                counter.fetch_add(bytes, Ordering::Relaxed);
            }
        }
    }
}

impl fmt::Debug for RequestAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RequestAccount").field(&self.name).finish()
    }
}

/// A program, and its call, that causes requests to S3.
#[derive(Clone, Copy, Debug)]
pub struct Caller {
    /// The account of the program. Programs are few, and their accounts stay to the end.
    pub account: &'static RequestAccount,
    /// The program's call, by a number that the installed function gives; 0 if it gives none.
    pub call: u64,
}

thread_local! {
    static CURRENT: Cell<Option<Caller>> = const { Cell::new(None) };
}

/// Tells the caller of a thread that has not [`enter`]ed one.
type CallerOfThread = fn() -> Option<Caller>;

static CALLER_OF_THREAD: OnceLock<CallerOfThread> = OnceLock::new();

/// Has `caller` asked for the caller of each request whose thread has not [`enter`]ed one. Only
/// the first call has an effect.
pub fn install(caller: CallerOfThread) {
    CALLER_OF_THREAD.get_or_init(|| caller);
}

/// The caller of requests that this thread begins now.
#[must_use]
pub fn current() -> Option<Caller> {
    let entered = CURRENT.get();
    entered.or_else(|| CALLER_OF_THREAD.get().and_then(|caller| caller()))
}

/// From here to the drop of the guard, this thread begins requests for `caller`. `None` changes
/// nothing.
#[must_use]
pub fn enter(caller: Option<Caller>) -> EnteredCaller {
    EnteredCaller(caller.map(|caller| CURRENT.replace(Some(caller))))
}

/// Returns to the caller before.
#[derive(Debug)]
pub struct EnteredCaller(Option<Option<Caller>>);

impl Drop for EnteredCaller {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            CURRENT.set(before);
        }
    }
}

/// `future` with its requests for the caller's account, on whichever thread it is polled.
pub(crate) fn on_account<F: Future>(future: F) -> OnAccount<F> {
    OnAccount {
        caller: current(),
        future: Box::pin(future),
    }
}

/// A future whose requests are for one caller.
pub(crate) struct OnAccount<F> {
    caller: Option<Caller>,
    future: Pin<Box<F>>,
}

impl<F: Future> Future for OnAccount<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let _entered = enter(self.caller);
        self.future.as_mut().poll(context)
    }
}

/// An attempt that is counted when it ends.
#[derive(Debug)]
pub(crate) struct BilledAttempt {
    caller: Option<Caller>,
    class: RequestClass,
    /// Bytes of an object that are sent.
    sent: u64,
    /// Whether its answer has bytes of an object.
    receives: bool,
}

impl BilledAttempt {
    /// An attempt with a body of `sent` bytes.
    pub(crate) fn new(caller: Option<Caller>, operation: &str, sent: u64) -> Self {
        Self {
            caller,
            class: RequestClass::of(operation),
            sent: match operation {
                "PutObject" | "UploadPart" => sent,
                _ => 0,
            },
            receives: operation == "GetObject",
        }
    }

    /// The attempt has ended with `received` bytes and this status, if there was an answer. S3
    /// does not charge for its own failures, 500 and above.
    pub(crate) fn ended(&self, received: u64, status: Option<u16>) {
        if let Some(Caller { account, .. }) = &self.caller
            && status.is_some_and(|status| status < 500)
        {
            let received = if self.receives { received } else { 0 };
            account.add(self.class, self.sent, received);
        }
    }

    /// The program's call that caused it; 0 if that is not known.
    pub(crate) fn call(&self) -> u64 {
        self.caller.as_ref().map_or(0, |caller| caller.call)
    }

    /// The attempt was given up: S3 may have served it.
    pub(crate) fn given_up(&self) {
        self.ended(0, Some(0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(name: &str) -> &'static RequestAccount {
        Box::leak(Box::new(RequestAccount::new(name)))
    }

    #[test]
    fn operations_are_charged_by_class() {
        for (operation, class) in [
            ("GetObject", RequestClass::Get),
            ("HeadObject", RequestClass::Get),
            ("CreateSession", RequestClass::Get),
            ("ListObjectsV2", RequestClass::Put),
            ("UploadPartCopy", RequestClass::Put),
            ("DeleteObjects", RequestClass::Delete),
            ("AbortMultipartUpload", RequestClass::Delete),
        ] {
            assert_eq!(RequestClass::of(operation), class, "{operation}");
        }
    }

    #[test]
    fn attempts_are_counted_in_their_account() {
        let account = account("cat");
        let caller = Some(Caller { account, call: 7 });
        let attempt = |operation, sent| BilledAttempt::new(caller, operation, sent);
        assert_eq!(attempt("GetObject", 0).call(), 7);
        attempt("GetObject", 0).ended(100, Some(206));
        attempt("GetObject", 0).ended(0, Some(404));
        attempt("GetObject", 0).ended(0, Some(503));
        attempt("PutObject", 7).ended(0, None);
        attempt("PutObject", 7).ended(0, Some(200));
        attempt("ListObjectsV2", 0).ended(500, Some(200));
        attempt("DeleteObjects", 50).given_up();
        let expected = BilledUsage {
            puts: 2,
            gets: 2,
            deletes: 1,
            sent: 7,
            received: 100,
        };
        assert_eq!(account.usage(), expected);
        assert_eq!(expected.requests(), 5);
    }

    #[test]
    fn the_account_of_a_thread_is_that_of_the_innermost_caller() {
        let caller = |name| {
            let account = account(name);
            Some(Caller { account, call: 0 })
        };
        let name = || current().map(|caller| caller.account.name().to_owned());
        assert_eq!(name(), None);
        let entered = enter(caller("outer"));
        {
            let _inner = enter(caller("inner"));
            let _nothing = enter(None);
            assert_eq!(name().as_deref(), Some("inner"));
        }
        assert_eq!(name().as_deref(), Some("outer"));
        drop(entered);
        assert_eq!(name(), None);
    }
}
