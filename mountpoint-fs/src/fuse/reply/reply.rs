//! The answers that an application can get.
//!
//! Pure: values of the domain, and their bodies as bytes.

use std::time::Duration;

use nix::errno::Errno;

use crate::fuse::wire::{Fixed, InitReply};
use crate::operation::{Attributes, Entry, HandleNo, InodeNo, Opened, ReadData, StatFs};

/// The answer to an application.
#[derive(Debug)]
pub(in crate::fuse) enum Reply {
    /// Success, without a result.
    Done,
    /// The operation failed.
    Failed(Errno),
    /// An inode whose lookup count was raised by one.
    Entry(Entry),
    /// As [`Self::Entry`], for a hard link: `stat` tells this inode number until the attributes are
    /// asked for again.
    Linked(Entry, InodeNo),
    /// No file has the name, and the kernel need not ask again for so long.
    Absence(Duration),
    Attributes(Attributes),
    Opened(Opened),
    /// A file that the kernel reads by itself, from the backing file of this number.
    PassedThrough(HandleNo, i32),
    OpenedDirectory(HandleNo),
    /// A file that was made and opened.
    Created(Entry, Opened),
    /// So many bytes were written.
    Written(u32),
    /// So many bytes were copied; counts further than [`Self::Written`].
    Copied(u64),
    /// The length of an extended attribute.
    Length(u32),
    StatFs(StatFs),
    /// The agreement of the handshake.
    Agreed(InitReply),
    /// The major version of our protocol.
    Version,
    /// Directory entries, or an extended attribute.
    Bytes(Vec<u8>),
    /// Bytes of a file, sent from where they lie.
    Data(ReadData),
}

/// The part of a reply that follows its header.
#[derive(Debug)]
pub(in crate::fuse) enum Body<'a> {
    Fixed(Fixed),
    Bytes(&'a [u8]),
    Data(&'a ReadData),
}

impl Reply {
    /// The errno in the header: positive, or 0 for success.
    pub(in crate::fuse) fn errno(&self) -> i32 {
        match self {
            Self::Failed(errno) => *errno as i32,
            _ => 0,
        }
    }

    /// The body as the kernel takes it.
    pub(in crate::fuse) fn body(&self) -> Body<'_> {
        Body::Fixed(match self {
            Self::Done | Self::Failed(_) => return Body::Bytes(&[]),
            Self::Bytes(bytes) => return Body::Bytes(bytes),
            Self::Data(data) => return Body::Data(data),
            Self::Entry(entry) => Fixed::entry(entry),
            Self::Linked(entry, file) => Fixed::linked(entry, *file),
            Self::Absence(ttl) => Fixed::absence(*ttl),
            Self::Attributes(attributes) => Fixed::attributes(attributes),
            Self::Opened(opened) => Fixed::opened(opened),
            Self::PassedThrough(handle, number) => Fixed::passed_through(*handle, *number),
            Self::OpenedDirectory(handle) => Fixed::opened_directory(*handle),
            Self::Created(entry, opened) => Fixed::created(entry, opened),
            Self::Written(size) => Fixed::written(*size),
            Self::Copied(len) => Fixed::copied(*len),
            Self::Length(len) => Fixed::length(*len),
            Self::StatFs(statfs) => Fixed::statfs(statfs),
            Self::Agreed(agreed) => Fixed::init(agreed),
            Self::Version => Fixed::version(),
        })
    }
}
