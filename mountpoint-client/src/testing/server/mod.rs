//! An S3 server in this process, for the demo, the tests and the benchmark.
//!
//! Real HTTP, SigV4 and, on request, TLS on loopback through the `s3s` crate; buckets and objects
//! in memory, or computed ([`Store::put_synthetic`]); a log of every request; and [`Faults`] that
//! make it misbehave. Its operations behave as S3's documentation says; all others answer 501.
//!
//! Knows nothing of the client. Path style only, one region, no versions, no access control lists.
//! A bucket whose name ends with `--x-s3` is a directory bucket; a server that verifies signatures
//! has none of those.
//!
//! Invariant: an object is replaced as a whole, so every answer comes from one version. The server
//! runs on threads of its own, named `s3-server…`, and stops when [`Server`] is dropped.

mod api;
mod clock;
mod connections;
mod embedded;
mod http;
mod operation;
mod options;
mod service;
mod store;
#[cfg(test)]
mod tests;
mod tls;

pub use embedded::Server;
pub use http::faults::{Fault, Faults, Rule, RuleId};
pub use http::request_log::{LogMode, OperationCounters, RequestLog, RequestRecord};
pub use operation::Operation;
pub use options::{PartSizes, PartTags, ServerOptions};
pub use store::buckets::Store;
pub use store::object::{Encryption, Headers, Object, Restore};
pub use store::synthetic::{PERIOD, SyntheticChecker, SyntheticMismatch, synthetic_bytes};
