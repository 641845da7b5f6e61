//! The S3 client of Mountpoint.
//!
//! One object-safe trait, [`ObjectClient`], and two implementations of it: [`CrtClient`] talks to S3 and
//! S3-compatible servers, [`SimClient`] is a bucket in memory with seeded latency and faults. Both pass one
//! [`contract`] suite, and so does `CrtClient` against the embedded [`server`].
//!
//! This crate knows keys, ranges and ETags; it knows no inode, no file and no kernel.

pub mod error;
pub mod object_client;
#[cfg(feature = "server")]
pub mod server;
pub mod types;

pub use error::{ClientError, ErrorKind};
pub use object_client::{GetHandle, GetObserver, ObjectClient, Pending};
