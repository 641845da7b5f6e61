//! Tests of several modules together.

pub(super) mod kernel;
mod mount;
mod notices;
mod parked;
mod parked_schedules;
mod passthrough;
mod reads;
mod served;
mod session;
mod versions;
