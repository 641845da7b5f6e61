//! Pages of the kernel that a write past the page cache has made old.
//!
//! Linux drops the pages of an `O_DIRECT` write before it sends the write, and once more behind it
//! only if the application waits in the call. Behind an asynchronous one (libaio, io_uring; Linux
//! 6.18) pages that were read meanwhile would keep old bytes for good, and a mapping could store
//! them. So the kernel is told to drop the range between the write and its answer: a read behind
//! the answer sees the new bytes.
//!
//! Invariant: no session thread tells the kernel. It waits for reads of these pages in flight,
//! which session threads serve.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use tokio::runtime::Handle;

use super::reply::Channel;
use super::wire::forget_pages;
use crate::operation::InodeNo;

/// Tells the kernel of one connection.
#[derive(Debug)]
pub(super) struct WrittenPages {
    channel: Arc<Channel>,
    /// Its threads for blocking work wait for the kernel, at most one for each write in flight.
    runtime: Handle,
}

impl WrittenPages {
    pub(super) fn new(channel: Arc<Channel>, runtime: &Handle) -> Self {
        Self {
            channel,
            runtime: runtime.clone(),
        }
    }

    /// Returns when the kernel has no page of `range` of `ino` that is older than this call.
    pub(super) async fn forget(&self, ino: InodeNo, range: Range<u64>) {
        let channel = Arc::clone(&self.channel);
        let told = self
            .runtime
            .spawn_blocking(move || channel.tell(&forget_pages(ino, range)));
        match told.await {
            Ok(Ok(())) => {}
            // The kernel does not know the inode, or the connection has ended.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Err(error)) => {
                tracing::warn!(inode = ino.0, %error, "the kernel may keep old pages of a file");
            }
            Err(error) => tracing::debug!(inode = ino.0, %error, "the mount ends"),
        }
    }
}
