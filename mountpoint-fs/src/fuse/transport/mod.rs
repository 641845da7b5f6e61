//! How requests and replies travel between kernel and process.

mod device;
pub(super) mod notices;
pub(super) mod uring;

use std::fmt;
use std::str::FromStr;

pub(super) use self::device::Channel;

/// A choice of transports. All fall back to `/dev/fuse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Transport {
    /// The faster one, as far as it was measured: `/dev/fuse`.
    #[default]
    Auto,
    /// `read` and `writev` on `/dev/fuse`.
    DevFuse,
    /// Queues in shared memory, where the kernel offers them.
    IoUring,
}

impl Transport {
    /// Whether rings are made where the kernel offers them.
    pub(super) fn wants_io_uring(self) -> bool {
        self == Self::IoUring
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::Auto, Self::DevFuse, Self::IoUring]
            .into_iter()
            .find(|transport| transport.to_string() == text)
            .ok_or_else(|| "it is none of auto, dev-fuse and io-uring".to_owned())
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => "auto",
            Self::DevFuse => "dev-fuse",
            Self::IoUring => "io-uring",
        })
    }
}
