//! Session threads that read requests from `/dev/fuse`, and the rings beside them.
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
use super::uring::{Rings, Started};
use crate::fuse::init::SessionLimits;
use crate::fuse::passthrough::Passthrough;
use crate::fuse::reply::{Channel, Outbox};
use crate::fuse::request_loop::{RequestLoop, Service};
use crate::fuse::session_options::{SessionError, SessionOptions, Transport};
use crate::fuse::wire::{InitRequest, forget_name, init_flags};
use crate::fuse::written_pages::WrittenPages;

/// Shakes hands with the kernel and starts the session threads.
pub(super) fn start(
    device: OwnedFd,
    service: &Service,
    options: &SessionOptions,
) -> Result<Vec<JoinHandle<()>>, SessionError> {
    let channel = Arc::new(Channel::new(device)?);
    let mut buffer = vec![0; buffer_len(options.write_max)];
    let prepare = |init: &InitRequest| prepare_rings(&channel, init, options);
    let limits = SessionLimits {
        passes_through: Passthrough::is_wanted(&service.fs, options.passthrough),
        drops_set_id: true,
        ..SessionLimits::new(options)?
    };
    let (agreed, rings) = shake_hands(&channel, &mut buffer, limits, prepare)?;
    let notified = Arc::downgrade(&channel);
    notices::start(&service.fs, move |name| {
        let channel = notified.upgrade().ok_or(io::ErrorKind::BrokenPipe)?;
        channel.tell(&forget_name(name.directory, &name.name))
    })?;
    let passthrough = Passthrough::begin(&channel, &agreed, &service.fs, options)?;
    let pages = WrittenPages::new(Arc::clone(&channel), &options.runtime);
    let server = service.servers(&agreed, passthrough, pages);
    let (mut threads, outboxes) = start_rings(options.transport, rings, &server);
    let count = if outboxes.is_empty() {
        options.threads
    } else {
        THREADS_BESIDE_RINGS
    };
    let outboxes: Arc<[_]> = outboxes.into();
    for index in 0..count {
        let worker = Worker {
            channel: channel_of(&channel, index, options.clone_descriptors),
            server: server(),
            outboxes: Arc::clone(&outboxes),
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

/// Rings, if the user wants them, the kernel offers io_uring, and they can be made.
fn prepare_rings(channel: &Channel, init: &InitRequest, options: &SessionOptions) -> Option<Rings> {
    let is_offered = init.flags & init_flags::OVER_IO_URING != 0;
    if !is_offered || !options.transport.wants_io_uring() {
        if options.transport == Transport::IoUring {
            fall_back(options.transport, NOT_OFFERED);
        }
        return None;
    }
    match Rings::new(channel.device(), options.ring_threads) {
        Ok(rings) => Some(rings),
        Err(reason) => {
            fall_back(options.transport, &reason);
            None
        }
    }
}

/// Starts all threads, or none if one fails.
fn start_rings(
    transport: Transport,
    rings: Option<Rings>,
    server: impl Fn() -> RequestLoop,
) -> (Vec<JoinHandle<()>>, Vec<Arc<Outbox>>) {
    match rings.map(|rings| rings.start(server)) {
        None => (Vec::new(), Vec::new()),
        Some(Ok(Started { threads, outboxes })) => {
            tracing::debug!(threads = threads.len(), "FUSE over io_uring");
            (threads, outboxes)
        }
        Some(Err(error)) => {
            fall_back(transport, &error.to_string());
            (Vec::new(), Vec::new())
        }
    }
}

/// Logs the reason: a warning only for users that chose io_uring by name.
fn fall_back(transport: Transport, reason: &str) {
    if transport == Transport::IoUring {
        tracing::warn!("requests go through /dev/fuse, not over io_uring: {reason}");
    } else {
        tracing::info!("requests go through /dev/fuse, not over io_uring: {reason}");
    }
}

/// A session thread.
struct Worker {
    channel: Arc<Channel>,
    server: RequestLoop,
    /// Wakers of rings that serve the same connection, and end with it.
    outboxes: Arc<[Arc<Outbox>]>,
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
        // The kernel reports the end only to rings with an idle entry.
        for outbox in self.outboxes.iter() {
            outbox.close();
        }
    }
}

/// The reason why a capable kernel offers no io_uring.
const NOT_OFFERED: &str = "the kernel does not offer it; that takes Linux 6.14 and `echo Y > \
    /sys/module/fuse/parameters/enable_uring` before the mount";

/// Beside rings the device brings FORGET and INTERRUPT only.
const THREADS_BESIDE_RINGS: usize = 1;

/// A whole WRITE, with its header in a page of its own. The kernel demands a buffer of this size.
fn buffer_len(write_max: u32) -> usize {
    write_max as usize + 4096
}
