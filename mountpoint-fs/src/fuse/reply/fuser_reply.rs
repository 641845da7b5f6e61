//! Replies through the library `fuser`, which has a type for each kind of answer.
//!
//! Invariant: one reply for each value, by the library itself if the value is dropped. Threads:
//! any; the library writes to the descriptor that the request came from.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use fuser::{
    FileAttr, FileHandle, FileType, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs,
};
use nix::errno::Errno;

use super::reply::Reply;
use crate::fuse::wire::{Fixed, kept_for, open_flags_of};
use crate::operation::{
    Attributes, DirectoryEntry, DirectorySink, Entry, EntryDetail, FileKind, HandleNo, StatFs,
};
use crate::sync::Mutex;

/// The right, and the duty, to answer one request that `fuser` received.
#[derive(Debug)]
pub(in crate::fuse) enum FuserReply {
    Empty(ReplyEmpty),
    Data(ReplyData),
    Entry(ReplyEntry),
    Attributes(ReplyAttr),
    Open(ReplyOpen),
    StatFs(ReplyStatfs),
    Directory(SharedDirectory),
}

macro_rules! from_replies {
    ($($variant:ident($reply:ty)),*) => {
        $(impl From<$reply> for FuserReply {
            fn from(reply: $reply) -> Self {
                Self::$variant(reply)
            }
        })*
    };
}

from_replies!(
    Empty(ReplyEmpty),
    Data(ReplyData),
    Entry(ReplyEntry),
    Attributes(ReplyAttr),
    Open(ReplyOpen),
    StatFs(ReplyStatfs)
);

impl FuserReply {
    /// Answers.
    pub(super) fn send(self, unique: u64, reply: Reply) {
        match (self, reply) {
            (this, Reply::Failed(errno)) => this.fail(errno),
            (Self::Empty(to), Reply::Done) => to.ok(),
            (Self::Data(to), Reply::Data(data)) => match data.slices.as_slice() {
                [] => to.data(&[]),
                [(block, range)] => to.data(block.bytes(range.clone())),
                // A copy of file data: the library takes one slice.
                _ => to.data(&data.to_vec()),
            },
            (Self::Entry(to), Reply::Entry(Entry { attributes, ttl })) => to.entry_with_ttls(
                &kept_for(attributes.ttl),
                &kept_for(ttl),
                &shown(&attributes),
                GENERATION,
            ),
            (Self::Entry(to), Reply::Absence(ttl)) => {
                to.entry_with_ttls(&Duration::ZERO, &kept_for(ttl), &NO_INODE, GENERATION);
            }
            (Self::Attributes(to), Reply::Attributes(attributes)) => {
                to.attr(&kept_for(attributes.ttl), &shown(&attributes));
            }
            (Self::Open(to), Reply::Opened(opened)) => {
                let flags = FopenFlags::from_bits_retain(open_flags_of(&opened));
                to.opened(FileHandle(opened.handle.0), flags);
            }
            (Self::Open(to), Reply::OpenedDirectory(HandleNo(handle))) => {
                to.opened(FileHandle(handle), FopenFlags::empty());
            }
            (Self::StatFs(to), Reply::StatFs(statfs)) => send_statfs(to, &statfs),
            (Self::Directory(to), Reply::Done) => to.take(DirectoryReply::send),
            (this, reply) => {
                tracing::error!(unique, ?reply, to = ?this, "a reply of the wrong kind, the application gets EIO");
                this.fail(Errno::EIO);
            }
        }
    }

    fn fail(self, errno: Errno) {
        let errno = fuser::Errno::from_i32(errno as i32);
        match self {
            Self::Empty(to) => to.error(errno),
            Self::Data(to) => to.error(errno),
            Self::Entry(to) => to.error(errno),
            Self::Attributes(to) => to.error(errno),
            Self::Open(to) => to.error(errno),
            Self::StatFs(to) => to.error(errno),
            Self::Directory(to) => to.take(|reply| reply.fail(errno)),
        }
    }
}

/// A directory's reply, shared by the operation that fills it and the duty to send it.
///
/// The library does not tell the size of a reply: its own buffer decides when it is full. The lock
/// is a leaf, held while one entry is added.
#[derive(Clone)]
pub(in crate::fuse) struct SharedDirectory(Arc<Mutex<Option<DirectoryReply>>>);

/// The library's reply with its buffer.
pub(in crate::fuse) enum DirectoryReply {
    Names(ReplyDirectory),
    Entries(ReplyDirectoryPlus),
}

impl SharedDirectory {
    pub(in crate::fuse) fn new(reply: DirectoryReply) -> Self {
        Self(Arc::new(Mutex::new(Some(reply))))
    }

    fn take(&self, answer: impl FnOnce(DirectoryReply)) {
        let reply = self.0.lock().take();
        if let Some(reply) = reply {
            answer(reply);
        }
    }
}

impl DirectoryReply {
    fn send(self) {
        match self {
            Self::Names(to) => to.ok(),
            Self::Entries(to) => to.ok(),
        }
    }

    fn fail(self, errno: fuser::Errno) {
        match self {
            Self::Names(to) => to.error(errno),
            Self::Entries(to) => to.error(errno),
        }
    }

    /// Adds an entry. Returns whether there was room.
    fn add(&mut self, entry: &DirectoryEntry) -> bool {
        // The library has no entries of unknown kind: mounts with such entries do not use it.
        debug_assert!(entry.detail != EntryDetail::KindUnlessLink);
        let attributes = &entry.entry.attributes;
        let is_full = match self {
            Self::Names(to) => to.add(
                INodeNo(attributes.ino.0),
                entry.next_offset,
                kind(attributes.kind),
                &entry.name,
            ),
            // The kernel makes nothing of the attributes of `.` and `..`, for which no lookup is
            // counted.
            Self::Entries(to) => to.add(
                INodeNo(attributes.ino.0),
                entry.next_offset,
                &entry.name,
                &common_ttl(&entry.entry),
                &shown(attributes),
                GENERATION,
            ),
        };
        !is_full
    }
}

impl DirectorySink for SharedDirectory {
    fn add(&mut self, entry: &DirectoryEntry) -> bool {
        let mut reply = self.0.lock();
        reply.as_mut().is_some_and(|reply| reply.add(entry))
    }
}

impl fmt::Debug for SharedDirectory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedDirectory")
    }
}

/// The library has one time for the name and the attributes: the shorter one.
fn common_ttl(entry: &Entry) -> Duration {
    kept_for(entry.ttl.min(entry.attributes.ttl))
}

fn shown(attributes: &Attributes) -> FileAttr {
    FileAttr {
        ino: INodeNo(attributes.ino.0),
        size: attributes.size,
        blocks: attributes.size.div_ceil(Fixed::STAT_BLOCK_SIZE),
        atime: attributes.mtime,
        mtime: attributes.mtime,
        ctime: attributes.mtime,
        kind: kind(attributes.kind),
        perm: attributes.mode & 0o7777,
        nlink: attributes.nlink,
        uid: attributes.uid,
        gid: attributes.gid,
        blksize: Fixed::IO_SIZE,
        ..NO_INODE
    }
}

fn kind(kind: FileKind) -> FileType {
    match kind {
        FileKind::File => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::SymbolicLink => FileType::Symlink,
        FileKind::Pipe => FileType::NamedPipe,
        FileKind::Socket => FileType::Socket,
    }
}

fn send_statfs(to: ReplyStatfs, statfs: &StatFs) {
    let StatFs {
        block_size,
        blocks,
        name_len_max,
    } = *statfs;
    // Inodes are not counted; tools show a dash for 0.
    to.statfs(
        blocks,
        blocks,
        blocks,
        0,
        0,
        block_size,
        name_len_max,
        block_size,
    );
}

/// Inode numbers are not used twice while a mount lives.
const GENERATION: Generation = Generation(0);

/// The attributes in a reply for an absent name.
const NO_INODE: FileAttr = FileAttr {
    ino: INodeNo(0),
    size: 0,
    blocks: 0,
    atime: std::time::UNIX_EPOCH,
    mtime: std::time::UNIX_EPOCH,
    ctime: std::time::UNIX_EPOCH,
    crtime: std::time::UNIX_EPOCH,
    kind: FileType::RegularFile,
    perm: 0,
    nlink: 0,
    uid: 0,
    gid: 0,
    rdev: 0,
    blksize: 0,
    flags: 0,
};
