//! Tests of several modules together.

pub(super) mod kernel;
mod mount;
mod notices;
mod parked;
mod passthrough;
mod reads;
mod served;
mod session;
mod versions;
