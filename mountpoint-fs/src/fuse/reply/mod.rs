//! The answers to applications, and the ways to send them.
//!
//! [`Reply`] is a value of the domain; [`ReplyTo`] is the duty to send one. Servers of requests do
//! not know whether a reply travels by a descriptor, a ring or the library `fuser`.

mod channel;
mod fuser_reply;
mod measure;
mod outbox;
#[expect(
    clippy::module_inception,
    reason = "the folder is named after its type"
)]
mod reply;
mod reply_to;

pub(super) use channel::Channel;
pub(super) use fuser_reply::{DirectoryReply, FuserReply, SharedDirectory};
pub(super) use measure::{Measure, MeasuredTrace};
pub(crate) use measure::{declare_metrics, log_slow};
pub(super) use outbox::{Outbox, Outgoing};
pub(super) use reply::{Body, Reply};
pub(super) use reply_to::ReplyTo;
