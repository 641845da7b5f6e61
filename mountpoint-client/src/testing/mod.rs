//! Test doubles and the suite that proves them: a bucket in memory, an embedded S3 server, the
//! contract.
//!
//! Nothing that runs in a mount depends on this module, except the demo, which mounts the embedded
//! server's bucket.

pub mod contract;
#[cfg(feature = "server")]
pub mod server;
pub mod sim;
