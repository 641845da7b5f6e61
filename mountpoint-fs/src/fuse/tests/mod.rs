//! Tests of several modules together.

pub(super) mod kernel;
mod mount;
mod notices;
mod served;
mod session;
mod task;
mod versions;
