//! The kernel's side: FUSE messages in and out of `/dev/fuse`, and nothing else.
//!
//! [`mount`] makes a mount, [`Session`] serves it. A message takes this way: `device` receives it, `wire` parses
//! it, `dispatch` turns it into an operation of [`FileSystem`](crate::fs::FileSystem), `task` polls that once and
//! parks it if it is not ready; the reply goes back through the `device` the message came from.
//!
//! Knows neither S3 nor memory. Invariant: every request that wants a reply gets exactly one.
//! Threads: a few session threads read requests and never wait for anything else; replies are sent by whoever
//! completes an operation.

mod closing;
mod connection;
mod coverage;
mod dead_mount;
mod device;
mod dispatch;
mod errno;
mod fusermount;
mod guard;
mod inherited;
mod init;
mod log_limit;
mod mount_error;
mod mount_info;
mod mount_point;
mod mutate;
mod notices;
mod readahead;
mod refusal;
mod reply;
mod server;
mod session;
mod signals;
mod system_call;
mod task;
#[cfg(test)]
mod tests;
mod told_failures;
mod transport;
mod uring;
mod visitors;
mod wire;

pub use connection::Connection;
pub use coverage::Coverage;
pub use inherited::inherit;
pub use mount_error::MountError;
pub use mount_point::{Mount, MountOptions, check_mount_point, is_dead_mount, mount};
pub use session::{Session, SessionError, SessionOptions};
pub use transport::Transport;
pub use visitors::Guests;
