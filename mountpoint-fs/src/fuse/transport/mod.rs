//! How requests and replies travel between kernel and process.
//!
//! Each transport receives requests, has a [`RequestLoop`](super::request_loop::RequestLoop) serve
//! them, and gives it a [`ReplyTo`](super::reply::ReplyTo) for each answer.

mod device;
mod fuser;
mod handshake;
mod notices;

use std::os::fd::OwnedFd;
use std::thread::JoinHandle;

use super::passthrough::Passthrough;
use super::request_loop::Service;
use super::session_options::{SessionError, SessionOptions, Transport};

/// Shakes hands with the kernel over `device` and starts the threads that serve the connection.
pub(super) fn start(
    device: OwnedFd,
    service: Service,
    options: &SessionOptions,
) -> Result<Vec<JoinHandle<()>>, SessionError> {
    if options.transport != Transport::Fuser {
        return device::start(device, &service, options);
    }
    if service.fs.lists_names_only() {
        tracing::warn!(
            "requests go through /dev/fuse, not through the library fuser: it has no directory \
             entry of unknown kind, which --posix-metadata needs"
        );
        return device::start(device, &service, options);
    }
    if Passthrough::is_wanted(&service.fs, options.passthrough) {
        Passthrough::cannot(options.passthrough, "the library fuser serves the mount");
    }
    fuser::start(device, service, options)
}
