//! Pages and attributes of a file that the kernel must forget before an answer.
//!
//! - Linux drops the pages of an `O_DIRECT` write before it sends the write, and once more behind
//!   it only if the application waits in the call. Behind an asynchronous one (libaio, io_uring;
//!   Linux 6.18) pages that were read meanwhile would keep old bytes for good, and a mapping could
//!   store them. So the kernel drops the range between the write and its answer: a read behind the
//!   answer sees the new bytes.
//! - Of two answers with attributes of one inode Linux takes the one that arrives first, if both
//!   were asked for before it. Where the file took another version between them, Linux has the old
//!   size, and would cut reads of a handle that is opened then. So it forgets the attributes before
//!   the answer to that OPEN.
//!
//! Invariant: no session thread tells the kernel. It waits for reads of these pages in flight,
//! which session threads serve.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::reply::Channel;
use super::wire::{forget_attributes, forget_pages};
use crate::operation::InodeNo;

/// Tells the kernel of one connection.
#[derive(Debug)]
pub(super) struct InodeNotices {
    channel: Arc<Channel>,
    /// Its threads for blocking work wait for the kernel, at most one for each write or open in
    /// flight.
    runtime: Handle,
}

impl InodeNotices {
    pub(super) fn new(channel: Arc<Channel>, runtime: &Handle) -> Self {
        Self {
            channel,
            runtime: runtime.clone(),
        }
    }

    /// Returns when the kernel has no page of `range` of `ino` that is older than this call.
    pub(super) async fn forget_pages(&self, ino: InodeNo, range: Range<u64>) {
        self.tell(ino, forget_pages(ino, range)).await;
    }

    /// Returns when the kernel has no attributes of `ino`, and takes none of an answer to a request
    /// before this call.
    pub(super) async fn forget_attributes(&self, ino: InodeNo) {
        self.tell(ino, forget_attributes(ino)).await;
    }

    async fn tell(&self, ino: InodeNo, message: Vec<u8>) {
        let channel = Arc::clone(&self.channel);
        let told = self.runtime.spawn_blocking(move || channel.tell(&message));
        match told.await {
            Ok(Ok(())) => {}
            // The kernel does not know the inode, or the connection has ended.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Err(error)) => {
                tracing::warn!(inode = ino.0, %error, "the kernel may keep what it knew of a file");
            }
            Err(error) => tracing::debug!(inode = ino.0, %error, "the mount ends"),
        }
    }
}
