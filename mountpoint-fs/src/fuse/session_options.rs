//! The options of a session, and the errors of its start.

use std::fmt;
use std::io;
use std::str::FromStr;

use tokio::runtime::Handle;

use crate::config::PassthroughMode;

/// The options of a session.
#[derive(Clone, Debug)]
pub struct SessionOptions {
    /// Session threads that read `/dev/fuse`; at least one.
    pub threads: usize,
    /// The transport of requests and replies.
    pub transport: Transport,
    /// Most threads that serve FUSE over io_uring.
    pub ring_threads: usize,
    /// Whether each session thread gets a descriptor, and so a queue of requests, of its own.
    pub clone_descriptors: bool,
    /// Background requests (read-ahead) the kernel may have in flight.
    pub max_background: u16,
    /// Background requests from which on the kernel slows its callers down.
    pub congestion_threshold: u16,
    /// Largest WRITE, in bytes: no less than `WRITE_SIZE_MIN`, no more than `WRITE_SIZE_MAX`.
    pub write_max: u32,
    /// Whether the kernel reads local files by itself.
    pub passthrough: PassthroughMode,
    /// Whether changes are refused with EROFS.
    pub read_only: bool,
    /// Runs operations that no delivering thread resumes.
    pub runtime: Handle,
}

/// The reason why a connection could not be served.
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

/// A choice of transports. All fall back to `/dev/fuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The fastest one by measurement: `/dev/fuse`.
    #[default]
    Auto,
    /// `read` and `writev` on `/dev/fuse`.
    DevFuse,
    /// Queues in shared memory, if the kernel offers them.
    IoUring,
    /// The library `fuser` on `/dev/fuse`.
    Fuser,
}

impl Transport {
    /// Whether rings are made if the kernel offers them.
    pub(super) fn wants_io_uring(self) -> bool {
        self == Self::IoUring
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Auto, Self::DevFuse, Self::IoUring, Self::Fuser]
            .into_iter()
            .find(|transport| transport.to_string() == text)
            .ok_or_else(|| "it is none of auto, dev-fuse, io-uring and fuser".to_owned())
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::DevFuse => "dev-fuse",
            Self::IoUring => "io-uring",
            Self::Fuser => "fuser",
        })
    }
}
