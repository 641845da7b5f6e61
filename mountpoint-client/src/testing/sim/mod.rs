//! A bucket in memory: the test double for everything above [`ObjectClient`](crate::ObjectClient).
//!
//! [`SimClient`] answers as S3 documents it: conditions, listing order, multipart rules, archived
//! objects. The nondeterminism of a network (latency, throughput, failures) comes from
//! [`SimOptions`] and its seed, or is driven step by step by the test ([`Time::Manual`]). It knows
//! no HTTP: wrong answers of a server are the embedded server's business.
//!
//! Invariant: no lock is held while an observer or a waiter is told of anything, so both may call
//! the client. Threads: none, except [`Time::Threaded`], which has one for the timer.

mod client;
mod faults;
mod in_flight;
mod manual;
mod options;
mod request_log;
mod requests;
mod seeded_numbers;
mod store;
mod timer;

#[cfg(test)]
mod tests;

pub use client::SimClient;
pub use faults::{Fault, FaultRule, When};
pub use in_flight::RequestId;
pub use manual::{PendingGet, PendingRequest};
pub use options::{SimOptions, Time};
pub use request_log::{Operation, RequestLog, RequestRecord};
pub use store::content::{Content, pattern_bytes};
pub use store::object::SimObject;
