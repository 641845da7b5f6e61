//! The kernel's side: FUSE messages in and out of `/dev/fuse`, and nothing else.
//!
//! [`mount`] makes a mount, [`Session`] serves it. A message takes this way: `transport` receives
//! it, `wire` parses it, `dispatch` turns it into an operation of
//! [`FileSystem`](crate::fs::FileSystem), `parked` polls that once and parks it if it is not ready;
//! the reply goes back through the `transport` the message came from.
//!
//! Knows neither S3 nor memory. Invariant: every request that wants a reply gets exactly one.
//! Threads: a few session threads read requests and never wait for anything else; the thread that
//! completes an operation sends its reply.

mod allowed_users;
mod connection;
mod dispatch;
mod errno;
mod init;
mod inode_notices;
mod log;
mod mounting;
mod parked;
mod passthrough;
mod proc;
mod reply;
mod request_loop;
mod session;
mod session_options;
#[cfg(test)]
mod tests;
mod transport;
mod wire;

pub use allowed_users::OtherUsers;
pub use connection::Connection;
pub use mounting::{
    Coverage, Mount, MountError, MountOptions, MountedAt, check_mount_point, inherit,
    is_dead_mount, leads_into, mount,
};
pub(crate) use reply::{declare_metrics, log_slow};
pub use session::Session;
pub use session_options::{SessionError, SessionOptions, Transport};
#[cfg(any(test, fuzzing))]
pub(crate) use {proc::fuzz::text as fuzz_proc, wire::fuzz::request as fuzz_request};
