//! All rings of a connection: made before the handshake, started after it.

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::{self, JoinHandle};

use mountpoint_crt_sys::fuse_ring::{Ring, RingOptions};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

use super::plan::{Plan, QueueThread, cores_in, plan};
use super::queue::Queue;
use crate::config::limits::{READ_SIZE_MAX, WRITE_SIZE_MAX};
use crate::fuse::reply::Outbox;
use crate::fuse::request_loop::RequestLoop;

/// Rings that the kernel does not know yet.
#[derive(Debug)]
pub(in crate::fuse) struct Rings {
    rings: Vec<(Ring, usize)>,
}

/// Rings that are served.
#[derive(Debug)]
pub(in crate::fuse) struct Started {
    pub(in crate::fuse) threads: Vec<JoinHandle<()>>,
    pub(in crate::fuse) outboxes: Vec<Arc<Outbox>>,
}

impl Rings {
    /// Rings for every core of this machine over `device`, on at most `threads_max` threads.
    ///
    /// # Errors
    /// With a text for the log: why they cannot be had.
    pub(in crate::fuse) fn new(device: impl AsFd, threads_max: usize) -> Result<Self, String> {
        let Plan {
            threads,
            depth,
            resident_max,
        } = plan_here(threads_max)?;
        let payload_max = (READ_SIZE_MAX as usize).max(WRITE_SIZE_MAX);
        let ring = |QueueThread { core, queues }| {
            let options = RingOptions {
                queues,
                depth,
                payload_max,
                resident_max,
            };
            let device = device.as_fd().try_clone_to_owned()?;
            Ok((Ring::new(device, options)?, core))
        };
        let rings: io::Result<_> = threads.into_iter().map(ring).collect();
        let rings = rings.map_err(|error| format!("io_uring is not to be had: {error}"))?;
        Ok(Self { rings })
    }

    /// Registers and serves them, each on a thread of its own with a server of its own.
    ///
    /// # Errors
    /// When the kernel does not take them. It sends everything to the device then.
    pub(in crate::fuse) fn start(self, server: impl Fn() -> RequestLoop) -> io::Result<Started> {
        let mut started = Started {
            threads: Vec::new(),
            outboxes: Vec::new(),
        };
        // One after the other: should one fail, those after it have no entries, and the kernel
        // waits for them.
        for (ring, core) in self.rings {
            if let Err(error) = started.add(ring, core, server()) {
                started.end();
                return Err(error);
            }
        }
        Ok(started)
    }
}

impl Started {
    fn add(&mut self, mut ring: Ring, core: usize, server: RequestLoop) -> io::Result<()> {
        let outbox = Outbox::new(ring.waker());
        let its_outbox = Arc::clone(&outbox);
        let (registered, outcome) = sync_channel(1);
        let thread = thread::Builder::new().name(format!("fuse-ring-{core}"));
        let thread = thread.spawn(move || {
            bind(core);
            let result = ring.register();
            let is_registered = result.is_ok();
            if !is_registered {
                ring.refuse();
            }
            // The other end waits for this.
            registered.send(result).ok();
            if is_registered {
                Queue::new(ring, its_outbox, server).run();
            }
        })?;
        self.threads.push(thread);
        self.outboxes.push(outbox);
        let gone = |_| io::Error::other("its thread ended");
        outcome.recv().map_err(gone)?
    }

    /// Ends the threads, which the kernel has sent nothing yet.
    fn end(self) {
        for outbox in &self.outboxes {
            outbox.close();
        }
        for thread in self.threads {
            thread.join().ok();
        }
    }
}

/// The plan for this machine and this process.
fn plan_here(threads_max: usize) -> Result<Plan, String> {
    let list = std::fs::read_to_string(CORES).map_err(|error| format!("{CORES}: {error}"))?;
    let cores = cores_in(&list).ok_or_else(|| format!("{CORES} is {list:?}"))?;
    let set = sched_getaffinity(Pid::from_raw(0))
        .map_err(|errno| format!("this process's cores are unknown: {errno}"))?;
    let is_usable = |core: &usize| set.is_set(*core).unwrap_or(false);
    let usable: Vec<_> = (0..CpuSet::count()).filter(is_usable).collect();
    plan(cores, &usable, threads_max)
}

/// Binds this thread to a core. Where that fails it serves all the same, at a third of the speed.
fn bind(core: usize) {
    let mut set = CpuSet::new();
    let bound = set
        .set(core)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set));
    if let Err(error) = bound {
        tracing::warn!(core, %error, "a thread that serves FUSE over io_uring is not bound to its core");
    }
}

/// Every core that may ever be there: the kernel has a queue for each.
const CORES: &str = "/sys/devices/system/cpu/possible";
