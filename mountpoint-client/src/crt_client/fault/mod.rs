//! What goes wrong, and what to make of it: the meaning of one failure, and of many.
//!
//! `classify` has the one table of failures, for the CRT's and the SDK's alike. `Breaker` and
//! `Watch` see that a server answers nothing, `Suspicion` that it refuses keys which may have been
//! replaced.

mod breaker;
mod classify;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod fault;
mod hint;
mod operation;
mod outage;
mod sdk_fault;
pub(super) mod suspicion;

pub(super) use breaker::{Breaker, Probe, SILENCE_MAX, Waiting};
pub(super) use classify::{ErrorAnswer, of_crt};
pub(super) use fault::Fault;
pub(super) use operation::Operation;
pub(super) use outage::{NOTICED_AFTER, Troubled, UNANSWERED_MAX, Watch};
pub(super) use sdk_fault::of_sdk;
