//! The duty to answer one request.
//!
//! Invariant: every [`ReplyTo`] sends exactly one reply, at the latest when it is dropped.
//! Threads: any.

use std::sync::Arc;

use nix::errno::Errno;

use super::channel::Channel;
use super::fuser_reply::FuserReply;
use super::measure::{Measure, MeasuredTrace};
use super::reply::Reply;
use crate::fuse::wire::Operation;
use crate::metrics::capture::CallRecord;

/// The right, and the duty, to answer one request.
#[derive(Debug)]
pub(in crate::fuse) struct ReplyTo {
    unique: u64,
    /// `None` after the answer.
    route: Option<Route>,
    /// Set if requests are measured.
    measure: Option<Measure>,
}

/// The transport of a reply.
#[derive(Debug)]
enum Route {
    Device(Arc<Channel>),
    Fuser(FuserReply),
}

impl ReplyTo {
    /// The duty to answer request `unique`, which was read from `channel`.
    pub(in crate::fuse) fn device(channel: &Arc<Channel>, unique: u64) -> Self {
        Self {
            unique,
            route: Some(Route::Device(Arc::clone(channel))),
            measure: None,
        }
    }

    /// The duty to answer request `unique`, which the library `fuser` received.
    pub(in crate::fuse) fn fuser(unique: u64, reply: FuserReply) -> Self {
        Self {
            unique,
            route: Some(Route::Fuser(reply)),
            measure: None,
        }
    }

    /// Measures the request until it is answered. Its subject is asked for if the request is to be
    /// recorded.
    pub(in crate::fuse) fn measured(
        mut self,
        operation: &Operation<'_>,
        subject: impl FnOnce() -> CallRecord,
    ) -> Self {
        self.measure = Measure::begin(operation, subject);
        self
    }

    /// The request waits; its waits are added to `trace`.
    pub(in crate::fuse) fn parks(&mut self, trace: Option<&MeasuredTrace>) {
        if let (Some(measure), Some(trace)) = (&mut self.measure, trace) {
            measure.parks(trace);
        }
    }

    /// The trace of the request, which `thread` waits for; `None` if nothing is measured. It may
    /// take the place of `spare`, the trace of an earlier request.
    pub(in crate::fuse) fn trace(
        &self,
        spare: Option<MeasuredTrace>,
        thread: u32,
    ) -> Option<MeasuredTrace> {
        Some(self.measure.as_ref()?.trace(spare, thread))
    }

    /// Answers.
    pub(in crate::fuse) fn send(mut self, reply: Reply) {
        self.answer(reply);
    }

    fn answer(&mut self, reply: Reply) {
        let Some(route) = self.route.take() else {
            return;
        };
        let measure = self.measure.take();
        let replying = measure.map(|measure| measure.replies(&reply));
        match route {
            Route::Device(channel) => write(&channel, self.unique, &reply),
            Route::Fuser(to) => to.send(self.unique, reply),
        }
        if let Some(replying) = replying {
            replying.ended();
        }
    }
}

impl Drop for ReplyTo {
    fn drop(&mut self) {
        self.answer(Reply::Failed(Errno::EIO));
    }
}

fn write(channel: &Channel, unique: u64, reply: &Reply) {
    let Err(error) = channel.send(unique, reply) else {
        return;
    };
    match error.raw_os_error().map(Errno::from_raw) {
        // The connection was aborted, or has ended: no application waits.
        Some(Errno::ENOENT | Errno::ENODEV | Errno::EPIPE) => {
            tracing::debug!(unique, %error, "no application waits for a reply");
        }
        _ => {
            tracing::error!(unique, %error, "a reply could not be sent, the application gets EIO");
            // If the kernel has ended the request, this write fails with ENOENT.
            let failed = Reply::Failed(Errno::EIO);
            if let Err(error) = channel.send(unique, &failed) {
                tracing::debug!(unique, %error, "no application waits for a reply");
            }
        }
    }
}
