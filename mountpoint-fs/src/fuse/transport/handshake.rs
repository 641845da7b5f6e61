//! The first messages of a connection, in which kernel and file system agree.
//!
//! Runs on the thread that starts the session, before any session thread.

use std::sync::Arc;

use nix::errno::Errno;

use crate::fuse::init::{self, Negotiation, SessionLimits};
use crate::fuse::reply::{Channel, Reply, ReplyTo};
use crate::fuse::request_loop::answer_malformed;
use crate::fuse::session_options::SessionError;
use crate::fuse::wire::{InitReply, InitRequest, Operation, Request};

/// Answers INIT, the first message. Returns the agreement.
pub(super) fn shake_hands(
    channel: &Arc<Channel>,
    buffer: &mut [u8],
    limits: SessionLimits,
) -> Result<InitReply, SessionError> {
    loop {
        let message = channel.receive(buffer)?.ok_or(SessionError::Ended)?;
        let request = match Request::parse(message) {
            Ok(request) => request,
            Err(malformed) => {
                answer_malformed(channel, malformed);
                continue;
            }
        };
        let reply = ReplyTo::device(channel, request.header.unique);
        let Operation::Init(init) = request.operation else {
            reply.send(Reply::Failed(Errno::EIO));
            continue;
        };
        match init::negotiate(&init, limits) {
            Negotiation::Agreed(agreed) => {
                log_agreed(&init, &agreed);
                reply.send(Reply::Agreed(agreed));
                return Ok(agreed);
            }
            Negotiation::AskAgain => reply.send(Reply::Version),
            Negotiation::TooOld => {
                reply.send(Reply::Failed(Errno::EPROTO));
                return Err(SessionError::TooOld {
                    major: init.major,
                    minor: init.minor,
                });
            }
        }
    }
}

pub(super) fn log_agreed(init: &InitRequest, agreed: &InitReply) {
    tracing::debug!(
        kernel = format_args!("{}.{}", init.major, init.minor),
        agreed = format_args!("{}.{}", InitReply::MAJOR, agreed.minor),
        flags = ?init::flag_names(agreed.flags),
        not_offered = ?init::flag_names(init::FLAGS_WANTED & !init.flags),
        max_background = agreed.background_max,
        congestion_threshold = agreed.congestion_threshold,
        max_readahead = agreed.readahead_max,
        max_write = agreed.write_max,
        max_pages = agreed.pages_max,
        "FUSE negotiated"
    );
}
