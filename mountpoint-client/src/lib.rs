//! The S3 client of Mountpoint.
//!
//! One object-safe trait, [`ObjectClient`], and two implementations of it: [`CrtClient`] talks to
//! S3 and S3-compatible servers, [`SimClient`] is a bucket in memory with seeded latency and
//! faults. Both pass one [`contract`](testing::contract) suite, and so does `CrtClient` against the
//! embedded [server](testing).
//!
//! This crate knows keys, ranges and ETags; it knows no inode, no file and no kernel.

pub mod attempt_report;
pub mod billing;
pub mod credentials;
pub mod crt_client;
pub mod endpoint;
pub mod error;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod instance;
pub mod metrics;
pub mod network;
pub mod object_client;
pub mod page_cycle;
pub mod pauses;
pub mod retry;
pub mod testing;
pub mod types;
mod xml_root;

pub use crt_client::{CrtClient, CrtClientOptions, ServerSideEncryption, SseCustomerKey};
pub use endpoint::BucketType;
pub use error::{ClientError, ErrorKind};
pub use object_client::{GetHandle, GetObserver, ObjectClient, Pending};
pub use page_cycle::PageCycle;
pub use pauses::PauseReason;
pub use testing::sim::SimClient;
