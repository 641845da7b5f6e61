//! The library's calls as requests: each builds the request that `wire` would parse.
//!
//! Reads alone: the library answers every other call with ENOSYS.

use std::ffi::OsStr;
use std::io;

use fuser::{
    Errno, FileHandle, Filesystem, INodeNo, KernelConfig, LockOwner, OpenAccMode, OpenFlags,
    ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs,
};

use super::bridge::Bridge;
use super::connection::agree;
use crate::fuse::reply::DirectoryReply;
use crate::fuse::wire::Operation;

impl Filesystem for Bridge {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        self.begin(&agree(config, self.limits)?);
        Ok(())
    }

    fn lookup(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.serve(request, parent, Operation::Lookup { name }, reply);
    }

    fn forget(&self, request: &fuser::Request, ino: INodeNo, count: u64) {
        self.serve_request(request, ino, Operation::Forget { count }, None);
    }

    fn getattr(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        self.serve(request, ino, Operation::GetAttributes, reply);
    }

    fn open(&self, request: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        // Without WRITE, an open that empties the file would lose its content.
        if flags.acc_mode() != OpenAccMode::O_RDONLY || flags.0 & libc::O_TRUNC != 0 {
            return reply.error(Errno::EROFS);
        }
        let flags = flags.0.cast_unsigned();
        self.serve(request, ino, Operation::Open { flags }, reply);
    }

    fn read(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let read = Operation::Read {
            handle: handle.0,
            offset,
            size,
            // Only reads that bypass the page cache name the owner of a lock.
            fills_cache: owner.is_none(),
        };
        self.serve(request, ino, read, reply);
    }

    fn release(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let release = Operation::Release { handle: handle.0 };
        self.serve(request, ino, release, reply);
    }

    fn opendir(&self, request: &fuser::Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        self.serve(request, ino, Operation::OpenDirectory, reply);
    }

    fn readdir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let reply = DirectoryReply::Names(reply);
        self.list(request, ino, (handle, offset), reply);
    }

    fn readdirplus(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let reply = DirectoryReply::Entries(reply);
        self.list(request, ino, (handle, offset), reply);
    }

    fn releasedir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let release = Operation::ReleaseDirectory { handle: handle.0 };
        self.serve(request, ino, release, reply);
    }

    fn statfs(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(request, ino, Operation::StatFs, reply);
    }
}
