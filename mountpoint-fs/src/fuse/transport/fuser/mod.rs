//! FUSE through the library `fuser`, to compare with our own session.
//!
//! The library receives and parses requests and encodes replies. The operations and their answers
//! stay ours: [`Bridge`](bridge::Bridge) turns the library's calls into the requests that `wire`
//! would parse. `doc/internals/fuse-transports.md` lists the limits of the library.
//!
//! Threads: `fuser-N` of the library read requests, `fuse-library` waits for their end.

mod bridge;
mod connection;
mod filesystem;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use fuser::{Config, SessionACL};
use mountpoint_crt_sys::fuse_device;

use self::bridge::Bridge;
use super::notices;
use crate::fuse::init::SessionLimits;
use crate::fuse::reply::Channel;
use crate::fuse::request_loop::Service;
use crate::fuse::session_options::{SessionError, SessionOptions};

/// Shakes hands with the kernel and starts the library's threads.
pub(super) fn start(
    device: OwnedFd,
    service: Service,
    options: &SessionOptions,
) -> Result<Vec<JoinHandle<()>>, SessionError> {
    let device = Channel::new(device)?.into_device();
    let mut config = Config::default();
    config.n_threads = Some(options.threads);
    config.clone_fd = options.clone_descriptors && can_be_cloned(&device);
    let fs = Arc::clone(&service.fs);
    let bridge = Bridge::new(service, SessionLimits::new(options)?);
    tracing::warn!("over the library fuser, the mount can only be read");
    // Each request's user is checked later, as for the other transports.
    let session = fuser::Session::from_fd(bridge, device, SessionACL::All, config);
    let session = session.map_err(|error| match error.kind() {
        io::ErrorKind::NotConnected => SessionError::Ended,
        _ => SessionError::Device(error),
    })?;
    let notifier = session.notifier();
    notices::start(&fs, move |name| {
        let directory = fuser::INodeNo(name.directory.0);
        notifier.inval_entry(directory, name.name.as_ref().as_ref())
    })?;
    let thread = thread::Builder::new().name("fuse-library".to_owned());
    let thread = thread.spawn(move || {
        if let Err(error) = session.run() {
            tracing::error!(%error, "the session of the library fuser failed");
        }
    })?;
    Ok(vec![thread])
}

/// Whether threads can have descriptors of their own. Without them the library fails.
fn can_be_cloned(device: &OwnedFd) -> bool {
    let cloned = fuse_device::clone_device(device.as_fd());
    if let Err(error) = &cloned {
        tracing::warn!(%error, "the FUSE device cannot be cloned, session threads share it");
    }
    cloned.is_ok()
}
