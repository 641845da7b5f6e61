//! Session threads that read requests from `/dev/fuse`.
//!
//! Invariant: the threads end when, and only when, the kernel ends the connection. Threads:
//! `fuse-N` wait in `read` on the device and nowhere else.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use mountpoint_crt_sys::fuse_device;

use super::handshake::shake_hands;
use super::notices;
use crate::fuse::init::SessionLimits;
use crate::fuse::inode_notices::InodeNotices;
use crate::fuse::passthrough::Passthrough;
use crate::fuse::reply::Channel;
use crate::fuse::request_loop::{RequestLoop, Service};
use crate::fuse::session_options::{SessionError, SessionOptions};
use crate::fuse::wire::forget_name;

/// Shakes hands with the kernel and starts the session threads.
pub(super) fn start(
    device: OwnedFd,
    service: &Service,
    options: &SessionOptions,
) -> Result<Vec<JoinHandle<()>>, SessionError> {
    let channel = Arc::new(Channel::new(device)?);
    let mut buffer = vec![0; buffer_len(options.write_max)];
    let limits = SessionLimits {
        passes_through: Passthrough::is_wanted(&service.fs, options.passthrough),
        drops_set_id: true,
        ..SessionLimits::new(options)?
    };
    let agreed = shake_hands(&channel, &mut buffer, limits)?;
    let notified = Arc::downgrade(&channel);
    notices::start(&service.fs, move |name| {
        let channel = notified.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        channel.tell(&forget_name(name.directory, &name.name))
    })?;
    let passthrough = Passthrough::begin(&channel, &agreed, &service.fs, options)?;
    let inode_notices = InodeNotices::new(Arc::clone(&channel), &options.runtime);
    let server = service.servers(&agreed, passthrough, Some(inode_notices));
    let mut threads = Vec::new();
    for index in 0..options.threads {
        let worker = Worker {
            channel: channel_of(&channel, index, options.clone_descriptors),
            server: server(),
            buffer_len: buffer.len(),
        };
        let builder = thread::Builder::new().name(format!("fuse-{index}"));
        threads.push(builder.spawn(move || worker.run())?);
    }
    Ok(threads)
}

/// The first thread uses the first descriptor; each other thread gets its own, if possible.
fn channel_of(first: &Arc<Channel>, index: usize, clone: bool) -> Arc<Channel> {
    if index == 0 || !clone {
        return Arc::clone(first);
    }
    let cloned = fuse_device::clone_device(first.device().as_fd()).and_then(Channel::new);
    match cloned {
        Ok(channel) => Arc::new(channel),
        Err(error) => {
            tracing::warn!(%error, "the FUSE device cannot be cloned, session threads share it");
            Arc::clone(first)
        }
    }
}

/// A session thread.
struct Worker {
    channel: Arc<Channel>,
    server: RequestLoop,
    buffer_len: usize,
}

impl Worker {
    fn run(mut self) {
        let mut buffer = vec![0; self.buffer_len];
        let channel = Arc::clone(&self.channel);
        loop {
            match channel.receive(&mut buffer) {
                Ok(Some(message)) => self.server.serve_device(&channel, message),
                Ok(None) => break,
                Err(error) => {
                    tracing::error!(%error, "reading from the FUSE device failed, a session thread ends");
                    break;
                }
            }
        }
    }
}

/// A whole WRITE, with its header in a page of its own. The kernel demands a buffer of this size.
fn buffer_len(write_max: u32) -> usize {
    write_max as usize + 4096
}
