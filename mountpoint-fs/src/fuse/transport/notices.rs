//! Notices to the kernel: names that it should forget.
//!
//! A name whose object was found to be replaced is looked up anew; names of unused files are
//! forgotten when there are more inodes than the mount wants to keep. Each is one message.
//!
//! Invariant: a thread of their own sends them. The kernel takes the directory's lock for each, and
//! an application that waits for our answer may hold it: a session thread, or a thread that
//! delivers bytes, would wait for itself.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, Weak};
use std::thread;

use crate::config::limits::EVICTION_PERIOD;
use crate::fs::FileSystem;
use crate::operation::StaleName;

/// Starts to tell the kernel with `tell`, for as long as the file system lives and the connection
/// lasts.
pub(super) fn start(
    fs: &Arc<FileSystem>,
    tell: impl Fn(&StaleName) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let Some(stale) = fs.take_stale_names() else {
        return Ok(());
    };
    let fs = Arc::downgrade(fs);
    let builder = thread::Builder::new().name("fuse-notices".to_owned());
    builder.spawn(move || run(&fs, &stale, tell))?;
    Ok(())
}

fn run(
    fs: &Weak<FileSystem>,
    stale: &Receiver<StaleName>,
    tell: impl Fn(&StaleName) -> io::Result<()>,
) {
    let mut pause = EVICTION_PERIOD;
    loop {
        let received = stale.recv_timeout(pause);
        let Some(fs) = fs.upgrade() else { return };
        let names = match received {
            Ok(name) if fs.is_still_stale(&name) => vec![name],
            Ok(_) => Vec::new(),
            Err(RecvTimeoutError::Timeout) => {
                let batch = fs.eviction_batch();
                pause = batch.pause;
                batch.names
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        drop(fs);
        for name in &names {
            match tell(name) {
                Ok(()) => {}
                // The kernel has forgotten it already.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::debug!(%error, "the kernel takes no notices any more");
                    return;
                }
            }
        }
    }
}
