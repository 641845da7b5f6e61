//! A FUSE connection being served: the handshake, and the threads that read requests.
//!
//! Invariant: the threads end when, and only when, the kernel ends the connection (unmounted, or
//! aborted). Threads: session threads `fuse-N` wait in `read` on the device and nowhere else;
//! beside them, where requests come over io_uring, those of `uring`.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use mountpoint_crt_sys::fuse_device;
use nix::errno::Errno;
use nix::unistd::{SysconfVar, sysconf};
use tokio::runtime::Handle;

use super::dispatch::{Dispatcher, Rules};
use super::errno::Access;
use super::init::{self, Negotiation, Wishes};
use super::parked::{Parked, Starter, panic_message};
use super::reply::{Reply, ReplyTo};
use super::request_loop::{RequestLoop, answer_malformed};
use super::transport::Transport;
use super::wire::{Fixed, InitReply, InitRequest, Operation, Request, init_flags};
use crate::clock::Clock;
use crate::fs::FileSystem;
use crate::fuse::mounting::Mount;
use crate::fuse::mounting::readahead;
use crate::fuse::proc::Effect;
use crate::fuse::transport::Channel;
use crate::fuse::transport::notices;
use crate::fuse::transport::uring::{Outbox, Rings, Started};
use crate::sync::Mutex;

/// How a connection is served.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Session threads, where requests come from `/dev/fuse`; at least one.
    pub threads: usize,
    /// How requests and replies travel.
    pub transport: Transport,
    /// Most threads there may be that serve FUSE over io_uring.
    pub ring_threads: usize,
    /// Whether each session thread gets a descriptor, and so a queue of requests, of its own.
    pub clone_descriptors: bool,
    /// Background requests (read-ahead) the kernel may have in flight.
    pub max_background: u16,
    /// Background requests from which on the kernel slows its callers down.
    pub congestion_threshold: u16,
    /// Largest WRITE, in bytes: no less than `WRITE_SIZE_MIN`, no more than `WRITE_SIZE_MAX`.
    pub write_max: u32,
    /// Whether changes are refused with EROFS.
    pub read_only: bool,
    /// Where operations go on that no delivering thread resumes.
    pub runtime: Handle,
}

/// Why a connection could not be served.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The device failed, or is not a FUSE device.
    #[error("cannot talk to the kernel over the FUSE device: {0}")]
    Device(#[from] io::Error),
    /// The connection ended before it began.
    #[error("the file system was unmounted before it was ready")]
    Ended,
    /// No common protocol.
    #[error(
        "the kernel speaks FUSE {major}.{minor}, which is too old: Linux 4.14 or newer is needed"
    )]
    TooOld {
        /// The kernel's major version.
        major: u32,
        /// The kernel's minor version.
        minor: u32,
    },
}

/// A mount being served. Dropping it does not end it; unmounting does.
#[derive(Debug)]
pub struct Session {
    parked: Arc<Parked>,
    /// Joined, and emptied, by the first who waits; others wait for the lock.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Session {
    /// Shakes hands with the kernel and starts the session threads. When it returns, the mount
    /// serves.
    pub fn start(
        fs: Arc<FileSystem>,
        mount: &Mount,
        options: SessionOptions,
    ) -> Result<Self, SessionError> {
        let channel = Arc::new(Channel::new(mount.device().try_clone_to_owned()?)?);
        let mut buffer = vec![0; buffer_len(options.write_max)];
        let wishes = Wishes {
            background_max: options.max_background,
            congestion_threshold: options.congestion_threshold,
            page_size: page_size()?,
            write_max: options.write_max,
            over_io_uring: false,
        };
        let prepare = |init: &InitRequest| prepare_rings(&channel, init, &options);
        let (agreed, rings) = shake_hands(&channel, &mut buffer, wishes, prepare)?;
        let access = if options.read_only {
            Access::ReadOnly
        } else {
            Access::ReadWrite
        };
        let can_map_direct = agreed.flags & init_flags::DIRECT_IO_ALLOW_MMAP != 0;
        let rules = Rules {
            access,
            visitors: mount.visitors(),
            can_map_direct,
        };
        notices::start(&fs, &channel)?;
        let dispatcher = Dispatcher::new(Arc::clone(&fs), rules, &Clock::monotonic());
        let parked = Arc::new(Parked::new(Effect::on));
        let server = || {
            let starter = Starter::new(&parked, &options.runtime);
            RequestLoop::new(&dispatcher, &parked, starter)
        };
        let (mut threads, outboxes) = start_rings(options.transport, rings, server);
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
        if let Some(number) = mount.device_number() {
            fs.set_readahead(readahead::raise(number));
        }
        Ok(Self {
            parked,
            threads: Mutex::new(threads),
        })
    }

    /// Returns when the kernel has ended the connection: unmounted, or aborted.
    pub fn wait(&self) {
        let mut threads = self.threads.lock();
        for thread in threads.drain(..) {
            if let Err(panic) = thread.join() {
                let message = panic_message(panic.as_ref());
                tracing::error!(message, "a session thread panicked");
            }
        }
        // Nobody waits for these any more; what they hold is given back.
        self.abort_pending();
    }

    /// Operations that wait for S3 or memory.
    #[must_use]
    pub fn operations_in_progress(&self) -> usize {
        self.parked.count()
    }

    /// Answers every parked operation with EIO. New ones are still served.
    pub fn abort_pending(&self) {
        self.parked.cancel_all(Errno::EIO);
    }
}

/// The first thread uses the first descriptor; the others one of their own, if it can be had.
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

/// Size of the kernel's pages in bytes.
fn page_size() -> io::Result<u32> {
    let size = sysconf(SysconfVar::PAGE_SIZE)?.and_then(|size| u32::try_from(size).ok());
    size.ok_or_else(|| io::Error::other("the page size is unknown"))
}

/// Rings, if the kernel offers io_uring and they are wanted and can be had.
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

/// Starts them. Where that fails nothing is started.
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

/// Says why. Who asked for io_uring by name should see it; others lose nothing that they know of.
fn fall_back(transport: Transport, reason: &str) {
    if transport == Transport::IoUring {
        tracing::warn!("requests go through /dev/fuse, not over io_uring: {reason}");
    } else {
        tracing::info!("requests go through /dev/fuse, not over io_uring: {reason}");
    }
}

/// Answers INIT, which comes before anything else. Returns what was agreed, and the rings if they
/// are part of it.
fn shake_hands(
    channel: &Arc<Channel>,
    buffer: &mut [u8],
    wishes: Wishes,
    prepare: impl Fn(&InitRequest) -> Option<Rings>,
) -> Result<(InitReply, Option<Rings>), SessionError> {
    loop {
        let message = channel.receive(buffer)?.ok_or(SessionError::Ended)?;
        let request = match Request::parse(message) {
            Ok(request) => request,
            Err(malformed) => {
                answer_malformed(channel, malformed);
                continue;
            }
        };
        let reply = ReplyTo::device(channel, request.header.unique);
        let Operation::Init(init) = request.operation else {
            reply.send(Reply::Failed(Errno::EIO));
            continue;
        };
        let rings = prepare(&init);
        let wishes = Wishes {
            over_io_uring: rings.is_some(),
            ..wishes
        };
        match init::negotiate(&init, wishes) {
            Negotiation::Agreed(agreed) => {
                log_agreed(&init, &agreed);
                reply.send(Reply::Fixed(Fixed::init(&agreed)));
                return Ok((agreed, rings));
            }
            Negotiation::AskAgain => reply.send(Reply::Fixed(Fixed::version())),
            Negotiation::TooOld => {
                reply.send(Reply::Failed(Errno::EPROTO));
                return Err(SessionError::TooOld {
                    major: init.major,
                    minor: init.minor,
                });
            }
        }
    }
}

fn log_agreed(init: &InitRequest, agreed: &InitReply) {
    tracing::debug!(
        kernel = format_args!("{}.{}", init.major, init.minor),
        agreed = format_args!("{}.{}", InitReply::MAJOR, agreed.minor),
        flags = ?init::flag_names(agreed.flags),
        not_offered = ?init::flag_names(init::FLAGS_WANTED & !init.flags),
        max_background = agreed.background_max,
        congestion_threshold = agreed.congestion_threshold,
        max_readahead = agreed.readahead_max,
        max_write = agreed.write_max,
        max_pages = agreed.pages_max,
        "FUSE negotiated"
    );
}

/// A session thread.
struct Worker {
    channel: Arc<Channel>,
    server: RequestLoop,
    /// Of rings that serve the same connection, and end with it.
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
        // The kernel tells a ring of the end only where an entry is idle.
        for outbox in self.outboxes.iter() {
            outbox.close();
        }
    }
}

/// Why a kernel that could does not.
const NOT_OFFERED: &str = "the kernel does not offer it; that takes Linux 6.14 and `echo Y > \
    /sys/module/fuse/parameters/enable_uring` before the mount";

/// Beside rings the device brings FORGET and INTERRUPT only.
const THREADS_BESIDE_RINGS: usize = 1;

/// A whole WRITE, and its header in a page of its own. The kernel refuses to read into less.
fn buffer_len(write_max: u32) -> usize {
    write_max as usize + 4096
}
