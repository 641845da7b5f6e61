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

/// A choice of transports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// `read` and `writev` on `/dev/fuse`.
    #[default]
    DevFuse,
    /// The library `fuser` on `/dev/fuse`, for reads alone, or our session if the library cannot
    /// serve the mount.
    Fuser,
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "auto" | "dev-fuse" => Ok(Self::DevFuse),
            "fuser" => Ok(Self::Fuser),
            _ => Err("it is none of auto, dev-fuse and fuser".to_owned()),
        }
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DevFuse => "dev-fuse",
            Self::Fuser => "fuser",
        })
    }
}
