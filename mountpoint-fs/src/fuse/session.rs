//! The service of a FUSE connection.
//!
//! Invariant: the threads end when, and only when, the kernel ends the connection (unmounted, or
//! aborted).

use std::sync::Arc;
use std::thread::JoinHandle;

use nix::errno::Errno;

use super::errno::Access;
use super::parked::Parked;
use super::request_loop::Service;
use super::session_options::{SessionError, SessionOptions};
use super::transport;
use crate::executor::panic_message;
use crate::fs::FileSystem;
use crate::fuse::mounting::Mount;
use crate::fuse::mounting::readahead;
use crate::fuse::proc::Effect;
use crate::metrics::trace::WaitsInProgress;
use crate::sync::Mutex;

/// A served mount. Its drop does not end the service; an unmount does.
#[derive(Debug)]
pub struct Session {
    parked: Arc<Parked>,
    /// The first waiting thread joins and empties these; others wait for the lock.
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Session {
    /// Shakes hands with the kernel and starts the session threads. On return the mount serves.
    pub fn start(
        fs: Arc<FileSystem>,
        mount: &Mount,
        options: SessionOptions,
    ) -> Result<Self, SessionError> {
        let parked = Arc::new(Parked::new(Effect::on));
        let service = Service {
            fs: Arc::clone(&fs),
            access: if options.read_only {
                Access::ReadOnly
            } else {
                Access::ReadWrite
            },
            allowed_users: mount.allowed_users(),
            device: mount.device_number(),
            parked: Arc::clone(&parked),
            runtime: options.runtime.clone(),
        };
        let device = mount.device().try_clone_to_owned()?;
        let threads = transport::start(device, service, &options)?;
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
        // No application waits for these; their memory and handles are given back.
        self.abort_pending();
    }

    /// Operations that wait for S3 or memory.
    #[must_use]
    pub fn operations_in_progress(&self) -> usize {
        self.parked.count()
    }

    /// Counts the waits of these operations up to now. Returns those that wait.
    #[must_use]
    pub fn count_waits(&self) -> WaitsInProgress {
        self.parked.count_waits()
    }

    /// Answers every parked operation with EIO. New ones are still served.
    pub fn abort_pending(&self) {
        self.parked.cancel_all(Errno::EIO);
    }
}
