//! The ends that operations have in common, and their replies.

use std::sync::Arc;

use super::dispatcher::Dispatcher;
use super::failure_log::Subject;
use super::refusal::Refusal;
use crate::fuse::errno::FuseOperation;
use crate::fuse::parked::PendingReply;
use crate::fuse::reply::Reply;
use crate::operation::{Attributes, FsError, InodeNo, Stop};

impl Dispatcher {
    /// A reply with `attributes`.
    pub(super) fn attributes(&self, attributes: Attributes) -> Reply {
        Reply::Attributes(self.rules.allowed_users.shown(attributes))
    }

    /// Takes the set-ID bits, if there are any, from a file that was changed, unless its user
    /// `keeps` them. Behind the change, so that the file carries the mode to the bucket by itself.
    pub(super) async fn drop_set_id(&self, ino: InodeNo, keeps: bool) -> Result<(), FsError> {
        match keeps || !self.fs.has_set_id(ino) {
            true => Ok(()),
            false => {
                let drop = || self.fs.drop_set_id(ino);
                self.fs.when_at_rest(&Stop::never(), drop).await
            }
        }
    }

    /// The reply to a change: no later mount shows names from before it.
    pub(super) fn when_settled(self: &Arc<Self>, pending: PendingReply) -> PendingReply {
        let this = Arc::clone(self);
        Box::pin(async move {
            let reply = pending.await;
            this.fs.settled().await;
            reply
        })
    }

    pub(super) fn refuse<'a>(&self, what: impl Into<Subject<'a>>, refusal: Refusal) -> Reply {
        self.failures.refuse(what.into(), refusal)
    }

    /// The reply to an operation that has no result but its success.
    pub(super) fn done<'a>(
        &self,
        operation: FuseOperation,
        what: impl Into<Subject<'a>>,
        result: Result<(), FsError>,
    ) -> Reply {
        self.reply(operation, what, result, |()| Reply::Done)
    }

    pub(super) fn reply<'a, T>(
        &self,
        operation: FuseOperation,
        what: impl Into<Subject<'a>>,
        result: Result<T, FsError>,
        encode: impl FnOnce(T) -> Reply,
    ) -> Reply {
        match result {
            Ok(value) => encode(value),
            Err(error) => self.failures.failed(operation, what.into(), &error),
        }
    }
}
