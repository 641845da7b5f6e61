//! Shared parts of the tests: servers, mounts, machines, faults.

pub(crate) mod fault_loop;
pub(crate) mod harness;
pub(crate) mod machine;
