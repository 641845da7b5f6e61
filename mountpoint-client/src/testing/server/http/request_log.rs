//! The log of the server: one record for each request, and counters.
//!
//! Cheap enough to stay on in benchmarks. Knows nothing of the store or of faults.
//!
//! Invariant: a request is recorded before its last byte is handed to the connection, so a client
//! that has the whole answer finds it in the log. Counters are exact; of the records the newest
//! [`RequestLog::ENTRIES_MAX`] are kept. Runs on the server's threads and on its readers'.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::head::Head;
use crate::testing::server::clock;
use crate::testing::server::operation::Operation;

/// How much the log keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogMode {
    /// Counters only.
    Counters,
    /// Counters and a record for each request.
    #[default]
    Full,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestRecord {
    /// Place in the order of arrival, from 0.
    pub sequence: u64,
    /// When it arrived, since the server's start.
    pub time: Duration,
    /// The operation of S3's API.
    pub operation: Operation,
    /// Bucket; empty if it named none.
    pub bucket: String,
    /// Key; empty if it named none.
    pub key: String,
    /// Bytes of the object it asked for, as far as it or the answer said; `None` without a range.
    pub range: Option<Range<u64>>,
    /// The raw query string.
    pub query: String,
    /// `prefix` of a listing.
    pub prefix: Option<String>,
    /// `If-Match` header.
    pub if_match: Option<String>,
    /// Algorithm and scope of the signature: `AWS4-HMAC-SHA256 us-east-1/s3/aws4_request`.
    pub signature: Option<String>,
    /// Headers by which a client's settings reach the server: payer, owner, encryption, session;
    /// and the offset of what is appended. Keys too: a test's server sees test keys.
    pub settings: Vec<(&'static str, String)>,
    /// Access key that it was signed with; `None` if it was not.
    pub access_key: Option<String>,
    /// HTTP status of the answer; 0 if there was none.
    pub status: u16,
    /// Bytes of the answer's body that were handed to the connection.
    pub bytes_sent: u64,
    /// Whether the answer's body was handed over to its end; false if the client went away or a
    /// fault cut it.
    pub complete: bool,
    /// From arrival to the end of the answer.
    pub duration: Duration,
    /// Requests for the same operation in flight when it arrived, itself included.
    pub in_flight: u64,
}

impl RequestRecord {
    /// One of the [`RequestRecord::settings`].
    #[must_use]
    pub fn setting(&self, name: &str) -> Option<&str> {
        let found = self.settings.iter().find(|(found, _)| *found == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Counters of one operation, since the start or the last [`RequestLog::clear`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OperationCounters {
    /// Requests that arrived.
    pub requests: u64,
    /// Requests that ended, with or without an answer.
    pub finished: u64,
    /// Answers with a status of 400 and above.
    pub errors: u64,
    /// Bytes of the answers' bodies.
    pub bytes_sent: u64,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Most requests in flight at once.
    pub in_flight_max: u64,
}

/// The log of a server.
#[derive(Debug)]
pub struct RequestLog {
    mode: LogMode,
    started: Instant,
    sequence: AtomicU64,
    state: Mutex<LogState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct LogState {
    entries: VecDeque<RequestRecord>,
    counters: [OperationCounters; Operation::ALL.len()],
}

impl RequestLog {
    /// Most records that are kept; the oldest are dropped. About 60 MiB when full.
    pub const ENTRIES_MAX: usize = 262_144;

    pub(crate) fn new(mode: LogMode) -> Self {
        let (state, changed) = (Mutex::default(), Condvar::new());
        Self {
            mode,
            started: clock::instant(),
            sequence: AtomicU64::new(0),
            state,
            changed,
        }
    }

    /// The records of the requests that ended, in order of arrival.
    #[must_use]
    pub fn snapshot(&self) -> Vec<RequestRecord> {
        let mut entries: Vec<_> = self.state.lock().entries.iter().cloned().collect();
        entries.sort_by_key(|entry| entry.sequence);
        entries
    }

    /// The records of the requests that ended, in order of arrival; they are removed. Counters
    /// stay.
    pub fn take(&self) -> Vec<RequestRecord> {
        let mut entries = Vec::from(std::mem::take(&mut self.state.lock().entries));
        entries.sort_by_key(|entry| entry.sequence);
        entries
    }

    /// Removes every record and sets the counters to zero; requests in flight stay counted as in
    /// flight.
    pub fn clear(&self) {
        let mut state = self.state.lock();
        state.entries.clear();
        for counters in &mut state.counters {
            let in_flight = counters.in_flight;
            *counters = OperationCounters {
                in_flight,
                in_flight_max: in_flight,
                ..OperationCounters::default()
            };
        }
    }

    /// The counters of one operation.
    #[must_use]
    pub fn counters(&self, operation: Operation) -> OperationCounters {
        self.state.lock().counters[operation as usize]
    }

    /// How many requests for this operation arrived.
    #[must_use]
    pub fn count(&self, operation: Operation) -> u64 {
        self.counters(operation).requests
    }

    /// How many requests arrived, whatever they asked for.
    #[must_use]
    pub fn count_all(&self) -> u64 {
        self.state
            .lock()
            .counters
            .iter()
            .map(|counters| counters.requests)
            .sum()
    }

    /// Waits until the counters of `operation` satisfy `condition`. Returns whether they did within
    /// `timeout`.
    pub fn wait_until(
        &self,
        operation: Operation,
        timeout: Duration,
        mut condition: impl FnMut(&OperationCounters) -> bool,
    ) -> bool {
        let deadline = clock::instant() + timeout;
        let mut state = self.state.lock();
        while !condition(&state.counters[operation as usize]) {
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return condition(&state.counters[operation as usize]);
            }
        }
        true
    }

    /// A request arrived. It ends with [`Ticket::finish`] or when the ticket is dropped.
    pub(crate) fn begin(self: &Arc<Self>, head: &Head) -> Ticket {
        let arrived = clock::instant();
        let mut state = self.state.lock();
        let counters = &mut state.counters[head.operation as usize];
        counters.requests += 1;
        counters.in_flight += 1;
        counters.in_flight_max = counters.in_flight_max.max(counters.in_flight);
        let in_flight = counters.in_flight;
        drop(state);
        self.changed.notify_all();
        let record = (self.mode == LogMode::Full).then(|| {
            Box::new(RequestRecord {
                sequence: self.sequence.fetch_add(1, Ordering::Relaxed),
                time: arrived - self.started,
                operation: head.operation,
                bucket: head.bucket.clone(),
                key: head.key.clone(),
                range: head.range.clone(),
                query: head.query.clone(),
                prefix: head.prefix.clone(),
                if_match: head.if_match.clone(),
                signature: head.signature.clone(),
                settings: head.settings.clone(),
                access_key: head.access_key.clone(),
                status: 0,
                bytes_sent: 0,
                complete: false,
                duration: Duration::ZERO,
                in_flight,
            })
        });
        let operation = head.operation;
        Ticket {
            log: Arc::clone(self),
            arrived,
            operation,
            status: 0,
            bytes_sent: 0,
            complete: false,
            record,
        }
    }

    fn end(&self, ticket: &mut Ticket) {
        let record = ticket.record.take().map(|mut record| {
            record.status = ticket.status;
            record.bytes_sent = ticket.bytes_sent;
            record.complete = ticket.complete;
            record.duration = ticket.arrived.elapsed();
            record
        });
        let mut state = self.state.lock();
        let counters = &mut state.counters[ticket.operation as usize];
        counters.finished += 1;
        counters.in_flight -= 1;
        counters.bytes_sent += ticket.bytes_sent;
        counters.errors += u64::from(ticket.status >= 400);
        if let Some(record) = record {
            if state.entries.len() == Self::ENTRIES_MAX {
                state.entries.pop_front();
            }
            state.entries.push_back(*record);
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// A request in flight; recorded when it is dropped.
#[derive(Debug)]
pub(crate) struct Ticket {
    log: Arc<RequestLog>,
    arrived: Instant,
    operation: Operation,
    status: u16,
    bytes_sent: u64,
    complete: bool,
    record: Option<Box<RequestRecord>>,
}

impl Ticket {
    /// The answer's head is known.
    pub(crate) fn answered(&mut self, status: u16, range: Option<Range<u64>>) {
        self.status = status;
        if let (Some(record), Some(range)) = (&mut self.record, range) {
            record.range = Some(range);
        }
    }

    /// Bytes of the answer's body are about to be handed to the connection.
    pub(crate) fn sent(&mut self, len: usize) {
        self.bytes_sent += len as u64;
    }

    /// The answer is complete.
    pub(crate) fn finish(mut self) {
        self.complete = true;
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let log = Arc::clone(&self.log);
        log.end(self);
    }
}
