//! Requests that take virtual time.

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use mountpoint_client::SimClient;
use mountpoint_client::testing::sim::RequestId;

use super::Mount;
use crate::clock::Clock;

/// The answers of a mount's bucket, whose time is manual.
pub(super) struct VirtualTime {
    bucket: Arc<SimClient>,
    clock: Clock,
    /// The duration of a request.
    pub(super) latency: Duration,
    /// Time of each request's answer.
    due: BTreeMap<RequestId, Duration>,
    /// Most requests that were in flight at once.
    pub(super) in_flight_max: usize,
}

impl VirtualTime {
    pub(super) fn new(mount: &Mount, latency: Duration) -> Self {
        Self {
            bucket: Arc::clone(&mount.bucket),
            clock: mount.clock.clone(),
            latency,
            due: BTreeMap::new(),
            in_flight_max: 0,
        }
    }

    /// Runs an operation to its end. Requests that it does not wait for stay in flight.
    pub(super) fn run<T>(&mut self, operation: impl Future<Output = T>) -> T {
        let mut operation = pin!(operation);
        loop {
            if let Some(outcome) = operation.as_mut().now_or_never() {
                return outcome;
            }
            assert!(self.answer(Duration::MAX), "it waits for no request");
        }
    }

    /// Advances the time while the program does not use the mount.
    pub(super) fn pause(&mut self, time: Duration) {
        let until = self.clock.now() + time;
        while self.answer(until) {}
        let rest = until.saturating_sub(self.clock.now());
        self.clock.advance(rest);
    }

    /// Answers the request that is due next, if it is due until `until`.
    fn answer(&mut self, until: Duration) -> bool {
        let now = self.clock.now();
        let requests = self.bucket.pending_requests();
        let gets = self.bucket.pending_gets();
        self.in_flight_max = self.in_flight_max.max(requests.len() + gets.len());
        let requests = requests.into_iter().map(|request| request.id);
        for id in requests.chain(gets.into_iter().map(|get| get.id)) {
            self.due.entry(id).or_insert(now + self.latency);
        }
        let next = self.due.iter().min_by_key(|(_, at)| **at);
        let next = next.map(|(id, at)| (*id, *at));
        let Some((id, at)) = next.filter(|(_, at)| *at <= until) else {
            return false;
        };
        self.clock.advance(at.saturating_sub(now));
        self.due.remove(&id);
        self.bucket.finish(id);
        true
    }
}
