//! The answers to applications, and the ways to send them.
//!
//! [`Reply`] is a value of the domain; [`ReplyTo`] is the duty to send one. Servers of requests do
//! not know whether a reply travels by a descriptor or the library `fuser`.

mod channel;
mod fuser_reply;
mod measure;
#[expect(
    clippy::module_inception,
    reason = "the folder is named after its type"
)]
mod reply;
mod reply_to;

pub(super) use channel::Channel;
pub(super) use fuser_reply::{DirectoryReply, FuserReply, SharedDirectory};
pub(super) use measure::MeasuredTrace;
pub(crate) use measure::{declare_metrics, log_slow};
pub(super) use reply::Reply;
pub(super) use reply_to::ReplyTo;
