//! Servers of requests: each serves one thread of a transport, one request after the other.
//!
//! Invariant: a panic in a request ends neither the thread nor the session, and the request gets
//! EIO.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use nix::errno::Errno;
use tokio::runtime::Handle;

use super::allowed_users::AllowedUsers;
use super::dispatch::{Answer, Dispatcher, Rules};
use super::errno::Access;
use super::inode_notices::InodeNotices;
use super::mounting::DeviceNumber;
use super::parked::{OnSignal, Parked, PendingReply, Requester, Starter};
use super::passthrough::Passthrough;
use super::reply::{Channel, Reply, ReplyTo};
use super::wire::{Header, InitReply, Malformed, Operation, Request, init_flags};
use crate::clock::Clock;
use crate::executor::{self, panic_message};
use crate::fs::FileSystem;

/// The served file system, with the rules of its connection.
#[derive(Debug)]
pub(super) struct Service {
    pub(super) fs: Arc<FileSystem>,
    /// Whether the mount may be changed.
    pub(super) access: Access,
    /// The users that the mount serves.
    pub(super) allowed_users: AllowedUsers,
    /// Number of the mount's device, if the kernel tells it.
    pub(super) device: Option<DeviceNumber>,
    /// The operations that wait.
    pub(super) parked: Arc<Parked>,
    /// Runs operations that no delivering thread resumes.
    pub(super) runtime: Handle,
}

impl Service {
    /// Makes a server of requests for each thread, after kernel and file system agreed on `agreed`.
    pub(super) fn servers(
        &self,
        agreed: &InitReply,
        passthrough: Option<Passthrough>,
        inode_notices: Option<InodeNotices>,
    ) -> impl Fn() -> RequestLoop + use<> {
        let rules = Rules {
            access: self.access,
            allowed_users: self.allowed_users,
            device: self.device,
            can_map_direct: agreed.flags & init_flags::DIRECT_IO_ALLOW_MMAP != 0,
        };
        let fs = Arc::clone(&self.fs);
        let dispatcher =
            Dispatcher::new(fs, rules, passthrough, inode_notices, &Clock::monotonic());
        let (parked, runtime) = (Arc::clone(&self.parked), self.runtime.clone());
        move || {
            let starter = Starter::new(&parked, &runtime);
            RequestLoop::new(&dispatcher, &parked, starter)
        }
    }
}

/// A server of requests, for one thread.
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
        guarded(|| match Request::parse(message) {
            Ok(request) => {
                let Header {
                    unique,
                    wants_reply,
                    ..
                } = request.header;
                // Made before the dispatch, so that a panic there is answered too.
                let reply = wants_reply.then(|| {
                    let reply = ReplyTo::device(channel, unique);
                    reply.measured(&request.operation, || self.dispatcher.subject(&request))
                });
                let answer = self.dispatcher.dispatch(&request);
                self.carry_out(requester(&request.header), answer, reply);
            }
            Err(malformed) => answer_malformed(channel, malformed),
        });
    }

    /// Serves a request that a library parsed.
    pub(super) fn serve_parsed(&mut self, request: &Request<'_>, reply: Option<ReplyTo>) {
        guarded(|| {
            let subject = || self.dispatcher.subject(request);
            let reply = reply.map(|reply| reply.measured(&request.operation, subject));
            let answer = self.dispatcher.dispatch(request);
            self.carry_out(requester(&request.header), answer, reply);
        });
    }

    /// Serves a READDIR, or READDIRPLUS, whose operation `make` makes.
    pub(super) fn serve_pending(
        &mut self,
        header: &Header,
        plus: bool,
        reply: ReplyTo,
        make: impl FnOnce(Arc<Dispatcher>) -> PendingReply,
    ) {
        guarded(|| {
            let listing = Request {
                header: *header,
                operation: Operation::ReadDirectory {
                    handle: 0,
                    offset: 0,
                    size: 0,
                    plus,
                },
            };
            let subject = || self.dispatcher.subject(&listing);
            let reply = reply.measured(&listing.operation, subject);
            let operation = make(Arc::clone(&self.dispatcher));
            let answer = Answer::Later(operation, OnSignal::End);
            self.carry_out(requester(header), answer, Some(reply));
        });
    }

    fn carry_out(&mut self, requester: Requester, answer: Answer, reply: Option<ReplyTo>) {
        match (answer, reply) {
            (Answer::Now(answer), Some(reply)) => reply.send(answer),
            (Answer::Later(operation, on_signal), Some(reply)) => {
                self.starter.start(requester, on_signal, operation, reply);
            }
            (Answer::Interrupt { unique }, _) => self.parked.interrupt(unique),
            (Answer::Nothing, _) | (_, None) => {}
        }
    }
}

fn requester(header: &Header) -> Requester {
    Requester {
        unique: header.unique,
        thread: header.pid,
    }
}

/// Answers EIO to a message that cannot be parsed, if an application waits for an answer.
pub(super) fn answer_malformed(channel: &Arc<Channel>, malformed: Malformed) {
    tracing::error!(?malformed, "a message from the kernel makes no sense");
    if let Some(header) = malformed.header.filter(|header| header.wants_reply) {
        ReplyTo::device(channel, header.unique).send(Reply::Failed(Errno::EIO));
    }
}

fn guarded(serve: impl FnOnce()) {
    let outcome = catch_unwind(AssertUnwindSafe(|| executor::delivering(serve)));
    if let Err(panic) = outcome {
        let message = panic_message(panic.as_ref());
        tracing::error!(message, "serving a request panicked");
    }
}
