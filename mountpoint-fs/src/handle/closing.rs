//! The processes that open and close a file.

use crate::operation::InodeNo;

/// The process that opened a file. The kernel may reuse a process id, so the start time belongs to
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener {
    /// The process id; 0 if the process is not visible.
    pub process: u32,
    /// The start time, in the kernel's ticks since the boot.
    pub started: u64,
}

impl Opener {
    /// An unknown process.
    pub const UNSEEN: Self = Self {
        process: 0,
        started: 0,
    };
}

/// A process that closes a descriptor.
pub trait Closing: Send + Sync {
    /// The closing process's relation to `opener`.
    fn closer(&self, opener: Opener) -> Closer;
    /// Whether the process has another descriptor for writing of the file `ino`, called `name`.
    fn others(&self, ino: InodeNo, name: &str) -> OtherDescriptors;
}

/// The relation of a closing process to the opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closer {
    /// The process that opened the file.
    Opener,
    /// Another process, while the opener lives.
    Child,
    /// Another process, after the opener has ended.
    Heir,
}

/// Other descriptors of the closed file in the process that closes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherDescriptors {
    /// The process has another descriptor.
    Held,
    /// The process has no other descriptor.
    None,
    /// The process is not visible.
    Unknown,
}
