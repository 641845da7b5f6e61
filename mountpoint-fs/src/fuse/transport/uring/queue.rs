//! The thread of a ring: requests in, replies out.

use std::io;
use std::iter;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_crt_sys::fuse_ring::{Event, Ring, Slot};
use nix::errno::Errno;

use crate::fuse::reply::{Body, Outbox, Outgoing, ReplyTo};
use crate::fuse::request_loop::RequestLoop;
use crate::fuse::wire::ReplyHeader;

/// The queue that one thread serves.
#[derive(Debug)]
pub(super) struct Queue {
    ring: Ring,
    outbox: Arc<Outbox>,
    server: RequestLoop,
    /// Used again and again.
    replies: Vec<Outgoing>,
}

impl Queue {
    /// A queue whose ring is registered.
    pub(super) fn new(ring: Ring, outbox: Arc<Outbox>, server: RequestLoop) -> Self {
        Self {
            ring,
            outbox,
            server,
            replies: Vec::new(),
        }
    }

    /// Serves until the connection ends.
    pub(super) fn run(mut self) {
        if let Err(error) = self.serve() {
            tracing::error!(%error, "a ring of the FUSE connection failed, its requests get no answer: unmount");
        }
        self.outbox.close();
    }

    fn serve(&mut self) -> io::Result<()> {
        loop {
            if !self.send()? {
                return Ok(());
            }
            if !self.outbox.may_sleep() {
                continue;
            }
            let patience = (self.ring.resident() > 0).then_some(RING_IDLE);
            self.ring.wait(patience)?;
            self.outbox.awake();
            if !self.serve_events()? {
                return Ok(());
            }
        }
    }

    /// Serves what has come. Returns whether the connection lives.
    fn serve_events(&mut self) -> io::Result<bool> {
        let mut is_idle = true;
        while let Some(event) = self.ring.next() {
            is_idle = false;
            match event {
                Event::Arrived(slot) => {
                    self.server.serve_ring(ReplyTo::ring(slot, &self.outbox));
                    if !self.send()? {
                        return Ok(false);
                    }
                }
                Event::Woken => {}
                Event::Ended => return Ok(false),
                Event::Failed(error) => {
                    tracing::error!(%error, "the kernel did not take a reply");
                }
            }
        }
        if is_idle {
            self.ring.give_back_idle();
        }
        Ok(true)
    }

    /// Sends what waits to be sent. Returns whether there may be more some time.
    fn send(&mut self) -> io::Result<bool> {
        let is_open = self.outbox.take(&mut self.replies);
        let mut replies = std::mem::take(&mut self.replies);
        for outgoing in replies.drain(..) {
            self.send_one(outgoing)?;
        }
        self.replies = replies;
        Ok(is_open)
    }

    fn send_one(&mut self, (mut slot, unique, reply): Outgoing) -> io::Result<()> {
        let (errno, body) = (reply.errno(), reply.body());
        let len = body.len();
        self.ring.make_room(len)?;
        if len <= slot.body_max() {
            fill(&mut slot, unique, errno, &body);
        } else {
            tracing::error!(unique, len, "a reply is too long, the application gets EIO");
            fill(&mut slot, unique, Errno::EIO as i32, &Body::Bytes(&[]));
        }
        // The blocks of the reply are free before the application hears of it.
        drop(reply);
        self.ring.commit(slot)
    }
}

/// Puts a reply where the kernel takes it from. The one copy of file data between socket and
/// kernel.
fn fill(slot: &mut Slot, unique: u64, errno: i32, body: &Body<'_>) {
    let header = ReplyHeader::encode(unique, errno, body.len());
    match body {
        Body::Fixed(body) => slot.set_reply(header, iter::once(body.as_bytes())),
        Body::Bytes(body) => slot.set_reply(header, iter::once(*body)),
        Body::Data(data) => {
            let pieces = data.slices.iter();
            slot.set_reply(
                header,
                pieces.map(|(block, range)| block.bytes(range.clone())),
            );
        }
    }
}

/// Time without a request after which an io_uring queue frees its replies' memory.
const RING_IDLE: Duration = Duration::from_secs(1);
