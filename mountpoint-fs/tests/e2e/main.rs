//! End to end: the `mount-s3` binary, a real mount, real HTTP.
//!
//! Needs `/dev/fuse` and the permission to mount; without them every test fails, none is skipped.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, reads the real clock and starts threads"
)]

mod applications;
mod failures;
mod metrics;
mod mounting;
mod names;
#[path = "../../../mountpoint-client/tests/network/support/network_namespace.rs"]
mod network_namespace;
mod process;
mod promises;
mod reads;
#[path = "../../../mountpoint-client/tests/contract/servers.rs"]
mod servers;
mod soak;
mod staged;
mod support;
mod writes;

use support::{fault_loop, harness, machine};
