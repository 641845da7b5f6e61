//! [`SimClient`]: a request passes log, faults and queue, and then reaches the store, now or later.
//!
//! Locks: `in_flight` and `store`, never both at once, and neither during a callback.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::channel::oneshot;
use mountpoint_crt_sys::block::BlockFill;
use parking_lot::Mutex;

use crate::object_client::Pending;
use crate::types::{GetRequest, Key};
use crate::{ClientError, ErrorKind, GetHandle, GetObserver};

use super::faults::{Fault, FaultPlan, FaultRule, When};
use super::in_flight::{Admission, Answer, GetOperation, GetStep, InFlight, Queued, Shared};
use super::options::{SimOptions, Time};
use super::request_log::{Operation, RequestLog, RequestRecord};
use super::seeded_numbers::SeededNumbers;
use super::store::bucket::Store;
use super::store::check::injected;
use super::store::content::Content;
use super::store::object::SimObject;
use super::timer::Timer;

/// Bytes that threaded GETs publish at a time.
const PIECE_LEN: u64 = 64 * 1024;

/// A bucket in memory. See the [module](super).
pub struct SimClient {
    pub(super) shared: Arc<Shared>,
}

impl SimClient {
    /// An empty bucket.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        let in_flight = InFlight {
            log: RequestLog::default(),
            gets: BTreeMap::new(),
            queued: BTreeMap::new(),
            faults: FaultPlan::new(options.faults.clone(), options.seed),
            latencies: SeededNumbers::new(options.seed.wrapping_add(1)),
            requests: 0,
            gets_max: 0,
        };
        let shared = Shared {
            store: Mutex::new(Store::new(&options)),
            in_flight: Mutex::new(in_flight),
            is_throttled: AtomicBool::new(false),
            timer: (options.time == Time::Threaded).then(Timer::start),
            options,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Stores an object, past log and faults. Panics if S3 could not store such a key.
    pub fn put_object(&self, key: &str, bytes: impl Into<bytes::Bytes>) -> SimObject {
        self.write(key, Content::bytes(bytes))
    }

    /// Stores `size` bytes of [`pattern_bytes`](super::pattern_bytes), which take no memory.
    pub fn put_pattern(&self, key: &str, size: u64, seed: u64) -> SimObject {
        self.write(key, Content::pattern(size, seed))
    }

    /// Stores an object exactly as given: storage class, ETag and times are the caller's.
    pub fn insert(&self, object: SimObject) {
        self.shared.store.lock().insert(object);
    }

    /// Removes an object; `false` if there was none.
    pub fn remove(&self, key: &str) -> bool {
        Key::parse(key).is_some_and(|key| self.shared.store.lock().remove(&key).is_some())
    }

    /// The object as it is now.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<SimObject> {
        let key = Key::parse(key)?;
        self.shared
            .store
            .lock()
            .object(&key)
            .map(|object| (**object).clone())
    }

    /// All keys, in UTF-8 byte order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let store = self.shared.store.lock();
        store
            .objects
            .values()
            .map(|object| object.key.as_str().to_owned())
            .collect()
    }

    /// Adds a fault rule.
    pub fn add_fault(&self, rule: FaultRule) {
        self.shared.in_flight.lock().faults.add(rule);
    }

    /// The next `count` requests of `operation` fail.
    pub fn fail_next(&self, operation: Operation, count: u32, kind: ErrorKind) {
        let fault = Fault::Fail(kind);
        self.add_fault(FaultRule {
            operation: Some(operation),
            when: When::Next(count),
            fault,
        });
    }

    /// Removes all fault rules.
    pub fn clear_faults(&self) {
        self.shared.in_flight.lock().faults.clear();
    }

    /// The requests since the last call, which empties the log.
    #[must_use]
    pub fn take_log(&self) -> RequestLog {
        self.shared.in_flight.lock().log.take()
    }

    /// The requests since the last [`SimClient::take_log`].
    #[must_use]
    pub fn log(&self) -> RequestLog {
        self.shared.in_flight.lock().log.clone()
    }

    /// From now on the server is said to ask for fewer requests, or no longer.
    pub fn set_throttled(&self, is_throttled: bool) {
        self.shared
            .is_throttled
            .store(is_throttled, Ordering::Relaxed);
    }

    /// GETs that have not ended.
    #[must_use]
    pub fn gets_in_flight(&self) -> usize {
        self.shared.in_flight.lock().gets.len()
    }

    /// Most GETs that were in operation at once, since the start.
    #[must_use]
    pub fn gets_in_flight_max(&self) -> usize {
        self.shared.in_flight.lock().gets_max
    }

    fn write(&self, key: &str, content: Content) -> SimObject {
        let key = Key::parse(key).expect("a key that S3 can store");
        let mut store = self.shared.store.lock();
        let etag = content.etag();
        store.write(&key, content, etag, crate::types::ObjectHeaders::default());
        let object = store.object(&key).expect("it was stored above");
        (**object).clone()
    }

    pub(super) fn start_get(
        &self,
        request: GetRequest,
        into: BlockFill,
        observer: Arc<dyn GetObserver>,
    ) -> GetHandle {
        let record = RequestRecord {
            priority: Some(request.priority),
            ..RequestRecord::new(Operation::GetObject, request.key.as_str())
        };
        let record = record.with_range(request.range.clone());
        let mut in_flight = self.shared.in_flight.lock();
        let Admission {
            id,
            record,
            latency,
            fault,
        } = in_flight.admit(record, &self.shared.options);
        let stop_after = match fault {
            Some(Fault::StopAfter(bytes)) => Some(bytes),
            _ => None,
        };
        let shared = Arc::clone(&self.shared);
        let operation =
            GetOperation::new(shared, (id, record), request, into, observer, stop_after);
        let operation = Arc::new(operation);
        in_flight.gets.insert(id, Arc::clone(&operation));
        in_flight.gets_max = in_flight.gets_max.max(in_flight.gets.len());
        drop(in_flight);
        operation.observer.sent_over(0);
        let cancelled = Arc::downgrade(&operation);
        self.shared.launch(operation, latency, fault);
        GetHandle::new(move || {
            if let Some(operation) = cancelled.upgrade() {
                let what = format!("GET of {} was cancelled", operation.request.key);
                operation.fail(ClientError::new(ErrorKind::Cancelled, what));
            }
        })
    }

    /// Submits any other request: `work` is done when its time has come, all at once.
    pub(super) fn submit<T: Send + 'static>(
        &self,
        record: RequestRecord,
        work: impl FnOnce(&mut Store) -> Result<T, ClientError> + Clone + Send + 'static,
    ) -> Pending<T> {
        let (operation, key) = (record.operation, record.key.clone());
        let Admission {
            id, latency, fault, ..
        } = self
            .shared
            .in_flight
            .lock()
            .admit(record, &self.shared.options);
        let shared = Arc::clone(&self.shared);
        let what = format!("{operation:?} {key}");
        let its_key = key.clone();
        let answer = move |failure: Option<ErrorKind>| {
            if let Some(kind) = failure {
                return Err(injected(kind, &what));
            }
            // Dropped behind the lock: owners of bodies may take locks of their own.
            let _bodies = work.clone();
            let mut store = shared.store.lock();
            match fault {
                Some(fault) => faulty(&fault, (operation, &its_key), &mut store, work),
                None => work(&mut store),
            }
        };
        if matches!(self.shared.options.time, Time::Immediate | Time::ManualGets) {
            return Box::pin(std::future::ready(answer(None)));
        }
        let (sender, receiver) = oneshot::channel();
        let answer: Answer = Box::new(move |failure| {
            // The caller may have stopped waiting; the work is done all the same.
            drop(sender.send(answer(failure)));
        });
        match &self.shared.timer {
            Some(timer) => {
                // Where too many wait, this one does not.
                if let Err(job) = timer.schedule(latency, Box::new(move || answer(None))) {
                    job();
                }
            }
            None => {
                let queued = Queued {
                    operation,
                    key,
                    answer,
                };
                self.shared.in_flight.lock().queued.insert(id, queued);
            }
        }
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(dropped())) })
    }
}

impl Shared {
    /// Sends a GET on its way.
    fn launch(
        self: &Arc<Self>,
        operation: Arc<GetOperation>,
        latency: Duration,
        fault: Option<Fault>,
    ) {
        let failure = match fault {
            Some(Fault::Fail(kind) | Fault::FailAfterwards(kind)) => {
                Some(injected(kind, operation.request.key.as_str()))
            }
            _ => None,
        };
        match (&self.timer, failure) {
            (Some(timer), failure) => {
                let shared = Arc::clone(self);
                let of_job = Arc::clone(&operation);
                let job = Box::new(move || match failure {
                    Some(error) => {
                        of_job.fail(error);
                    }
                    None => shared.stream(of_job),
                });
                if timer.schedule(latency, job).is_err() {
                    operation.fail(injected(ErrorKind::Throttled, "too many requests wait"));
                }
            }
            (None, Some(error)) => {
                operation.fail(error);
            }
            (None, None) if self.options.time == Time::Immediate => {
                operation.step(GetStep::Finish);
            }
            (None, None) => {}
        }
    }

    /// One piece of a GET in real time; comes back for the next one.
    fn stream(self: Arc<Self>, operation: Arc<GetOperation>) {
        let Some(throughput) = self.options.throughput else {
            operation.step(GetStep::Finish);
            return;
        };
        let bytes_left = operation.bytes_left();
        if bytes_left <= PIECE_LEN {
            operation.step(GetStep::Finish);
            return;
        }
        if !operation.step(GetStep::Publish(PIECE_LEN)) {
            return;
        }
        let Some(timer) = &self.timer else { return };
        let pause = Duration::from_nanos(PIECE_LEN * 1_000_000_000 / throughput.max(1));
        let next = Arc::clone(&operation);
        let shared = Arc::clone(&self);
        if timer
            .schedule(pause, Box::new(move || shared.stream(next)))
            .is_err()
        {
            operation.fail(injected(ErrorKind::Throttled, "too many requests wait"));
        }
    }
}

impl Drop for SimClient {
    /// Requests that wait for the test end with [`ErrorKind::Cancelled`]; those that wait for time
    /// are answered at once.
    fn drop(&mut self) {
        if let Some(timer) = &self.shared.timer {
            timer.close();
            return;
        }
        let (gets, queued) = {
            let mut in_flight = self.shared.in_flight.lock();
            (
                std::mem::take(&mut in_flight.gets),
                std::mem::take(&mut in_flight.queued),
            )
        };
        for operation in gets.into_values() {
            operation.fail(dropped());
        }
        drop(queued);
    }
}

impl fmt::Debug for SimClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimClient")
            .field("options", &self.shared.options)
            .finish_non_exhaustive()
    }
}

/// The outcome of `work`, the request for `key`, as far as `fault` lets it happen.
fn faulty<T>(
    fault: &Fault,
    (operation, key): (Operation, &str),
    store: &mut Store,
    work: impl FnOnce(&mut Store) -> Result<T, ClientError> + Clone,
) -> Result<T, ClientError> {
    let what = format!("{operation:?} {key}");
    match *fault {
        Fault::Fail(ref kind) => Err(injected(kind.clone(), &what)),
        Fault::StopAfter(_) => Err(injected(ErrorKind::Transient, &what)),
        Fault::FailAfterwards(ref kind) => {
            let failure = injected(kind.clone(), &what);
            work(store).and_then(|_| Err(repeated(operation, failure)))
        }
        // The client token of RenameObject tells a repetition: what was done is not done again.
        Fault::Repeat | Fault::Twice if operation == Operation::RenameObject => work(store),
        Fault::Repeat => {
            drop(work.clone()(store));
            work(store).map_err(|error| repeated(operation, error))
        }
        Fault::Conflict => {
            drop(work.clone()(store));
            work(store).map_err(|error| contested(operation, error))
        }
        Fault::ConflictEndsUpload => {
            store.uploads.forget(key);
            work(store).map_err(|error| contested(operation, error))
        }
        Fault::Twice => {
            drop(work.clone()(store));
            work(store).map_err(|error| maybe_twice(operation, error))
        }
        Fault::IgnoreVersions => {
            store.ignores_versions = true;
            let done = work(store);
            store.ignores_versions = false;
            done
        }
        Fault::Delay(_) => work(store),
    }
}

/// The failure of a request that was sent for the second time.
fn repeated(operation: Operation, mut error: ClientError) -> ClientError {
    error.answer_was_lost = may_be_own(operation, &error);
    error
}

/// The failure of a request that was sent again after a conflict.
fn contested(operation: Operation, error: ClientError) -> ClientError {
    let mut error = repeated(operation, error);
    error.met_conflict = true;
    error
}

/// The failure of a request that a proxy sent for the second time.
fn maybe_twice(operation: Operation, mut error: ClientError) -> ClientError {
    error.maybe_twice = may_be_own(operation, &error);
    error
}

/// Whether the effect of the first request may be the reason why the second one is refused.
fn may_be_own(operation: Operation, error: &ClientError) -> bool {
    match error.kind {
        ErrorKind::PreconditionFailed | ErrorKind::NoSuchUpload | ErrorKind::TooManyParts => true,
        // It has another name by then.
        ErrorKind::NotFound => operation == Operation::RenameObject,
        _ => false,
    }
}

fn dropped() -> ClientError {
    ClientError::new(ErrorKind::Cancelled, "the simulated client was dropped")
}
