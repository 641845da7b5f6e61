//! Control of waiting requests by the test: [`Time::Manual`](super::Time::Manual) and
//! [`Time::ManualGets`](super::Time::ManualGets).
//!
//! A test sees the requests that wait, publishes bytes piece by piece, and ends requests in any
//! order. Observers are called on the thread of the test, inside these methods.

use std::ops::{Bound, Range};
use std::sync::Arc;

use crate::ErrorKind;
use crate::types::Priority;

use super::client::SimClient;
use super::in_flight::{GetOperation, GetStep, RequestId};
use super::request_log::Operation;
use super::store::check::injected;

/// Requests that [`SimClient::deliver_all`] ends at most, so that a reader that never stops asking
/// fails a test and does not hang it.
const DELIVER_ALL_MAX: usize = 1 << 16;

/// A GET that waits.
#[derive(Clone, Debug)]
pub struct PendingGet {
    /// Its name.
    pub id: RequestId,
    /// The object's key.
    pub key: String,
    /// Bytes of the object it asks for.
    pub range: Range<u64>,
    /// The GET's priority.
    pub priority: Priority,
    /// Bytes that are not published yet.
    pub bytes_left: u64,
}

/// Any other request that waits.
#[derive(Clone, Debug)]
pub struct PendingRequest {
    /// Its name.
    pub id: RequestId,
    /// The operation of S3's API.
    pub operation: Operation,
    /// The key, a listing's prefix, or a copy's destination; empty where there is none.
    pub key: String,
}

impl SimClient {
    /// The GETs that have not ended, oldest first.
    #[must_use]
    pub fn pending_gets(&self) -> Vec<PendingGet> {
        self.pending_gets_after(None)
    }

    /// The GETs among them that were made after the request `last`.
    #[must_use]
    pub fn pending_gets_after(&self, last: Option<RequestId>) -> Vec<PendingGet> {
        let first = last.map_or(Bound::Unbounded, Bound::Excluded);
        let in_flight = self.shared.in_flight.lock();
        let gets = in_flight.gets.range((first, Bound::Unbounded));
        let gets: Vec<_> = gets.map(|(_, operation)| Arc::clone(operation)).collect();
        drop(in_flight);
        let pending = gets.iter().map(|operation| PendingGet {
            id: operation.id,
            key: operation.request.key.as_str().to_owned(),
            range: operation.request.range.clone(),
            priority: operation.request.priority,
            bytes_left: operation.bytes_left(),
        });
        pending.collect()
    }

    /// The requests other than GETs that wait for an answer, oldest first.
    #[must_use]
    pub fn pending_requests(&self) -> Vec<PendingRequest> {
        let in_flight = self.shared.in_flight.lock();
        let pending = in_flight.queued.iter().map(|(id, queued)| PendingRequest {
            id: *id,
            operation: queued.operation,
            key: queued.key.clone(),
        });
        pending.collect()
    }

    /// Publishes the next `bytes` of a GET, fewer if fewer are left, and tells its observer. Never
    /// finishes it; it does fail it where S3 would (missing key, other version). With 0 bytes only
    /// that is decided. `false` if no such GET waits.
    pub fn deliver(&self, id: RequestId, bytes: u64) -> bool {
        self.operation(id)
            .is_some_and(|operation| operation.step(GetStep::Publish(bytes)))
    }

    /// Publishes the rest of a GET and finishes it, or answers another request. `false` if none
    /// such waits.
    pub fn finish(&self, id: RequestId) -> bool {
        if let Some(operation) = self.operation(id) {
            return operation.step(GetStep::Finish);
        }
        self.answer(id, None)
    }

    /// Fails a request; it has had no effect. `false` if no such request waits.
    pub fn fail(&self, id: RequestId, kind: ErrorKind) -> bool {
        if let Some(operation) = self.operation(id) {
            return operation.fail(injected(kind, operation.request.key.as_str()));
        }
        self.answer(id, Some(kind))
    }

    /// Finishes every request that waits, oldest first, and those that are made meanwhile. Returns
    /// how many. Panics after 65,536: something asks without end.
    pub fn deliver_all(&self) -> usize {
        let mut finished = 0;
        while let Some(id) = self.oldest() {
            assert!(finished < DELIVER_ALL_MAX, "requests without end");
            if !self.finish(id) {
                // Its step is running further up this stack and goes on there.
                break;
            }
            finished += 1;
        }
        finished
    }

    fn oldest(&self) -> Option<RequestId> {
        let in_flight = self.shared.in_flight.lock();
        let get = in_flight.gets.keys().next();
        let request = in_flight.queued.keys().next();
        get.into_iter().chain(request).min().copied()
    }

    fn operation(&self, id: RequestId) -> Option<Arc<GetOperation>> {
        self.shared.in_flight.lock().gets.get(&id).cloned()
    }

    fn answer(&self, id: RequestId, failure: Option<ErrorKind>) -> bool {
        let queued = self.shared.in_flight.lock().queued.remove(&id);
        match queued {
            Some(queued) => {
                (queued.answer)(failure);
                true
            }
            None => false,
        }
    }
}
