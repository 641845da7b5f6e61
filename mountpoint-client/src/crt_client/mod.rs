//! The client for S3 and S3-compatible servers.
//!
//! Data (get, put, put part) goes over the AWS Common Runtime, from and into our own memory, and so
//! do frequent requests: listings, HEAD, the first bytes of a file, deletions. All others go over
//! the AWS SDK, which knows S3's documents. Both sign with the same credentials, and obey one retry
//! policy and one pacing. Knows no file and no prefetching policy.
//!
//! Invariant: a byte is published only if the head of its answer names the version and the range
//! that were asked for. Data callbacks run on the CRT's event loops and never block; control
//! requests and waits are tasks of the tokio runtime given to [`CrtClient::connect`], so that a
//! [`Pending`](crate::Pending) may be polled anywhere.

mod client;
mod connect;
mod control;
mod core;
mod encryption;
mod fault;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod get;
mod lanes;
mod options;
mod probe;
mod request_headers;
mod request_log;
mod sdk;
mod sessions;
#[cfg(all(test, feature = "server"))]
mod tests;
mod text;

pub use client::CrtClient;
pub use encryption::{ServerSideEncryption, SseCustomerKey};
pub use options::CrtClientOptions;
pub use probe::{AnswerHead, ListingShape, Probe};
pub use text::{decode_key, iso_time};
