//! Numbers of the protocol, as in `linux/fuse.h`.

/// Request codes.
pub(super) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const NOTIFY_REPLY: u32 = 41;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const COPY_FILE_RANGE_64: u32 = 53;
}

/// Features of kernel and file system, told to each other in INIT. Bits 32 and up travel in
/// `flags2`.
pub(in crate::fuse) mod init_flags {
    pub(crate) const ASYNC_READ: u64 = 1 << 0;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const ASYNC_DIO: u64 = 1 << 15;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub(crate) const PASSTHROUGH: u64 = 1 << 37;
}

/// Flag of a READ: it names the owner of a lock, which only reads that bypass the page cache do.
pub(super) const READ_LOCKOWNER: u32 = 1 << 1;

/// Flag of a WRITE: the kernel writes a page of its cache, and not what an application waits for.
pub(super) const WRITE_CACHE: u32 = 1 << 0;

/// Flag of a WRITE: its user may not keep the set-ID bits of the file.
pub(super) const WRITE_KILL_SUIDGID: u32 = 1 << 2;

/// Reply to OPEN: how the kernel treats the handle.
pub(in crate::fuse) mod open_flags {
    /// Reads bypass the page cache.
    pub(crate) const DIRECT_IO: u32 = 1 << 0;
    /// Pages cached by earlier opens stay.
    pub(crate) const KEEP_CACHE: u32 = 1 << 1;
    /// `close` sends no FLUSH.
    pub(crate) const NO_FLUSH: u32 = 1 << 5;
    /// The kernel reads a local file by itself, which the reply names.
    pub(crate) const PASSTHROUGH: u32 = 1 << 7;
}
