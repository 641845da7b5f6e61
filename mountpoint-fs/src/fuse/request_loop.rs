//! Serves requests one after the other, for one thread, whichever way they come.
//!
//! Invariant: a panic while a request is served ends neither the thread nor the session, and the
//! request gets EIO.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nix::errno::Errno;

use super::dispatch::{Answer, Dispatcher};
use super::parked::{Asker, Parked, Starter, panic_message};
use super::reply::{Reply, ReplyTo};
use super::wire::{Header, Malformed, Request};
use crate::executor;
use crate::fuse::transport::Channel;

/// What a thread that takes requests needs to serve them.
#[derive(Debug)]
pub(super) struct RequestLoop {
    dispatcher: Arc<Dispatcher>,
    parked: Arc<Parked>,
    starter: Starter,
}

impl RequestLoop {
    pub(super) fn new(
        dispatcher: &Arc<Dispatcher>,
        parked: &Arc<Parked>,
        starter: Starter,
    ) -> Self {
        Self {
            dispatcher: Arc::clone(dispatcher),
            parked: Arc::clone(parked),
            starter,
        }
    }

    /// Serves a message that was read from a descriptor.
    pub(super) fn serve_device(&mut self, channel: &Arc<Channel>, message: &[u8]) {
        guarded(|| {
            let request = match Request::parse(message) {
                Ok(request) => request,
                Err(malformed) => return answer_malformed(channel, malformed),
            };
            let asker = asker(&request);
            // Made before the dispatch, so that a panic in there is answered too.
            let reply = request
                .header
                .wants_reply()
                .then(|| ReplyTo::device(channel, asker.unique));
            let answer = self.dispatcher.dispatch(&request);
            self.carry_out(asker, answer, reply);
        });
    }

    /// Serves a message that came through a ring; it lies where its reply will.
    pub(super) fn serve_ring(&mut self, reply: ReplyTo) {
        guarded(|| {
            let request = Request::parse(reply.message());
            let answer =
                request.map(|request| (asker(&request), self.dispatcher.dispatch(&request)));
            match answer {
                Ok((asker, answer)) => self.carry_out(asker, answer, Some(reply)),
                Err(malformed) => {
                    log_malformed(malformed);
                    reply.send(Reply::Failed(Errno::EIO));
                }
            }
        });
    }

    fn carry_out(&mut self, asker: Asker, answer: Answer, reply: Option<ReplyTo>) {
        match (answer, reply) {
            (Answer::Now(answer), Some(reply)) => reply.send(answer),
            (Answer::Later(operation, on_signal), Some(reply)) => {
                self.starter.start(asker, on_signal, operation, reply);
            }
            (Answer::Interrupt { unique }, _) => self.parked.interrupt(unique),
            (Answer::Nothing, _) | (_, None) => {}
        }
    }
}

fn asker(request: &Request<'_>) -> Asker {
    Asker {
        unique: request.header.unique,
        thread: request.header.pid,
    }
}

/// Says EIO to a message that makes no sense, if somebody waits for an answer.
pub(super) fn answer_malformed(channel: &Arc<Channel>, malformed: Malformed) {
    log_malformed(malformed);
    if let Some(header) = malformed.header.filter(Header::wants_reply) {
        ReplyTo::device(channel, header.unique).send(Reply::Failed(Errno::EIO));
    }
}

fn log_malformed(malformed: Malformed) {
    tracing::error!(?malformed, "a message from the kernel makes no sense");
}

fn guarded(serve: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| executor::delivering(serve)));
    if let Err(panic) = outcome {
        let message = panic_message(panic.as_ref());
        tracing::error!(message, "serving a request panicked");
    }
}
