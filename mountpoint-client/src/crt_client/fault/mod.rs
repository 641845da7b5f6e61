//! Failures: the meaning of one, and of many.
//!
//! `classify` has the one table of failures, for the CRT and the SDK, and `origin` tells S3's
//! answers from those of gateways. `Breaker` and `Watch` notice
//! a server that answers nothing, `Suspicion` keys that the server refuses because they expired.

mod breaker;
mod classify;
#[expect(
    clippy::module_inception,
    reason = "the file is named after the type it defines"
)]
mod fault;
mod hint;
mod operation;
mod origin;
mod outage;
mod sdk_fault;
pub(super) mod suspicion;

pub(super) use breaker::{Breaker, Probe, SILENCE_MAX, Waiting};
pub(super) use classify::{ErrorAnswer, of_crt, of_page};
pub(super) use fault::Fault;
pub(super) use operation::Operation;
#[cfg(any(test, fuzzing))]
pub(super) use origin::ErrorDocument;
pub(super) use origin::{is_signed, may_be_page};
pub(super) use outage::{NOTICED_AFTER, Troubled, UNANSWERED_MAX, Watch};
pub(super) use sdk_fault::of_sdk;
