//! From a request to an operation of the file system, and from its result to a reply.
//!
//! Knows neither descriptors nor threads: a request goes in, an [`Answer`] comes out. Invariant: a
//! request that wants a reply yields `Now` or `Later`, one that wants none yields anything else.

mod dispatcher;
mod failure_log;
mod maker;
mod mutations;
mod open_flags;
mod opening;
mod refusal;
mod replies;
mod subject;

pub(super) use dispatcher::{Answer, Dispatcher, Rules};
