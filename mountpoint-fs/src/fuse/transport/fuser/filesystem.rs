//! The library's calls as requests: each builds the request that `wire` would parse.
//!
//! Calls that the library answers by itself (locks, `poll`, `bmap`, `lseek`, `access`) get ENOSYS
//! there as here.

use std::ffi::OsStr;
use std::io;
use std::path::Path;
use std::time::SystemTime;

use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, INodeNo, IoctlFlags, KernelConfig,
    LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyOpen, ReplyStatfs, ReplyWrite,
    ReplyXattr, TimeOrNow, WriteFlags,
};

use super::bridge::Bridge;
use super::change::{Numbers, attribute_change, rename_mode};
use super::connection::agree;
use crate::fuse::reply::DirectoryReply;
use crate::fuse::wire::{
    AllocateRequest, Content, CopyRangeRequest, Mutation, Operation, Unsupported,
};

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

    fn setattr(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let numbers = Numbers {
            mode,
            uid,
            gid,
            size,
        };
        let change = attribute_change(&numbers, (atime, mtime), handle);
        self.serve(request, ino, Mutation::SetAttributes(change), reply);
    }

    fn readlink(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        self.serve(request, ino, Operation::ReadLink, reply);
    }

    fn mknod(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.serve(request, parent, Operation::MakeNode { name, mode }, reply);
    }

    fn mkdir(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        self.serve(
            request,
            parent,
            Mutation::MakeDirectory { name, mode },
            reply,
        );
    }

    fn unlink(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(request, parent, Mutation::Unlink { name }, reply);
    }

    fn rmdir(&self, request: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.serve(request, parent, Mutation::RemoveDirectory { name }, reply);
    }

    fn symlink(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str();
        self.serve(
            request,
            parent,
            Mutation::SymbolicLink { name, target },
            reply,
        );
    }

    fn rename(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        new_directory: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let rename = Mutation::Rename {
            name,
            new_directory: new_directory.0,
            new_name,
            mode: rename_mode(flags),
        };
        self.serve(request, parent, rename, reply);
    }

    fn link(
        &self,
        request: &fuser::Request,
        file: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let link = Mutation::HardLink { file: file.0, name };
        self.serve(request, parent, link, reply);
    }

    fn open(&self, request: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = flags.0.cast_unsigned();
        self.serve(request, ino, Operation::Open { flags }, reply);
    }

    fn create(
        &self,
        request: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let create = Operation::Create {
            name,
            flags: flags.cast_unsigned(),
            mode,
        };
        self.serve(request, parent, create, reply);
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

    fn write(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        open_flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = Operation::Write {
            handle: handle.0,
            offset,
            drops_set_id: flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID),
            is_direct: !flags.contains(WriteFlags::FUSE_WRITE_CACHE)
                && open_flags.0 & libc::O_DIRECT != 0,
            data: Content(data),
        };
        self.serve(request, ino, write, reply);
    }

    fn flush(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        let flush = Operation::Flush { handle: handle.0 };
        self.serve(request, ino, flush, reply);
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

    fn fsync(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let sync = Operation::Sync { handle: handle.0 };
        self.serve(request, ino, sync, reply);
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

    fn fsyncdir(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.serve(request, ino, Operation::SyncDirectory, reply);
    }

    fn statfs(&self, request: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(request, ino, Operation::StatFs, reply);
    }

    fn setxattr(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let set = Mutation::SetExtendedAttribute {
            name,
            value: Content(value),
            flags: flags.cast_unsigned(),
        };
        self.serve(request, ino, set, reply);
    }

    fn getxattr(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let get = Operation::ExtendedAttribute { name, size };
        self.serve(request, ino, get, reply);
    }

    fn listxattr(&self, request: &fuser::Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let list = Operation::ExtendedAttributes { size };
        self.serve(request, ino, list, reply);
    }

    fn removexattr(&self, request: &fuser::Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let remove = Mutation::RemoveExtendedAttribute { name };
        self.serve(request, ino, remove, reply);
    }

    fn ioctl(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let ioctl = Operation::Unsupported(Unsupported::Ioctl);
        self.serve(request, ino, ioctl, reply);
    }

    fn fallocate(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocate = AllocateRequest {
            handle: handle.0,
            start: offset,
            // Both are below the half of what fits.
            end: offset + len,
            mode: mode.cast_unsigned(),
        };
        self.serve(request, ino, Mutation::Allocate(allocate), reply);
    }

    fn copy_file_range(
        &self,
        request: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        to_node: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let copy = CopyRangeRequest {
            handle: handle.0,
            offset,
            to_node: to_node.0,
            to_handle: to_handle.0,
            to_offset,
            len,
            is_wide: false,
        };
        self.serve(request, ino, Mutation::CopyRange(copy), reply);
    }
}
