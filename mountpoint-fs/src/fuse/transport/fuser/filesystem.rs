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
use crate::fuse::reply::{DirectoryReply, FuserReply};
use crate::fuse::wire::{
    AllocateRequest, Content, CopyRangeRequest, Mutation, Operation, Unsupported,
};

impl Filesystem for Bridge {
    fn init(&mut self, _: &fuser::Request, config: &mut KernelConfig) -> io::Result<()> {
        self.begin(&agree(config, self.limits)?);
        Ok(())
    }

    fn lookup(&self, requester: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let reply = FuserReply::Entry(reply);
        self.serve(requester, parent, Operation::Lookup { name }, reply);
    }

    fn forget(&self, requester: &fuser::Request, ino: INodeNo, count: u64) {
        self.serve_request(requester, ino, Operation::Forget { count }, None);
    }

    fn getattr(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        _: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let reply = FuserReply::Attributes(reply);
        self.serve(requester, ino, Operation::GetAttributes, reply);
    }

    fn setattr(
        &self,
        requester: &fuser::Request,
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
        let reply = FuserReply::Attributes(reply);
        self.mutate(requester, ino, Mutation::SetAttributes(change), reply);
    }

    fn readlink(&self, requester: &fuser::Request, ino: INodeNo, reply: ReplyData) {
        self.serve(requester, ino, Operation::ReadLink, FuserReply::Data(reply));
    }

    fn mknod(
        &self,
        requester: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let reply = FuserReply::Entry(reply);
        self.serve(requester, parent, Operation::MakeNode { name, mode }, reply);
    }

    fn mkdir(
        &self,
        requester: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let reply = FuserReply::Entry(reply);
        self.mutate(
            requester,
            parent,
            Mutation::MakeDirectory { name, mode },
            reply,
        );
    }

    fn unlink(&self, requester: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = FuserReply::Empty(reply);
        self.mutate(requester, parent, Mutation::Unlink { name }, reply);
    }

    fn rmdir(&self, requester: &fuser::Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let reply = FuserReply::Empty(reply);
        self.mutate(requester, parent, Mutation::RemoveDirectory { name }, reply);
    }

    fn symlink(
        &self,
        requester: &fuser::Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let target = target.as_os_str();
        let reply = FuserReply::Entry(reply);
        self.mutate(
            requester,
            parent,
            Mutation::SymbolicLink { name, target },
            reply,
        );
    }

    fn rename(
        &self,
        requester: &fuser::Request,
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
        self.mutate(requester, parent, rename, FuserReply::Empty(reply));
    }

    fn link(
        &self,
        requester: &fuser::Request,
        _: INodeNo,
        parent: INodeNo,
        name: &OsStr,
        reply: ReplyEntry,
    ) {
        let reply = FuserReply::Entry(reply);
        self.mutate(requester, parent, Mutation::HardLink { name }, reply);
    }

    fn open(&self, requester: &fuser::Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let flags = flags.0.cast_unsigned();
        let reply = FuserReply::Open(reply);
        self.serve(requester, ino, Operation::Open { flags }, reply);
    }

    fn create(
        &self,
        requester: &fuser::Request,
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
        self.serve(requester, parent, create, FuserReply::Create(reply));
    }

    fn read(
        &self,
        requester: &fuser::Request,
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
        self.serve(requester, ino, read, FuserReply::Data(reply));
    }

    fn write(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let write = Operation::Write {
            handle: handle.0,
            offset,
            data: Content(data),
        };
        self.serve(requester, ino, write, FuserReply::Write(reply));
    }

    fn flush(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: LockOwner,
        reply: ReplyEmpty,
    ) {
        let flush = Operation::Flush { handle: handle.0 };
        self.serve(requester, ino, flush, FuserReply::Empty(reply));
    }

    fn release(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let release = Operation::Release { handle: handle.0 };
        self.serve(requester, ino, release, FuserReply::Empty(reply));
    }

    fn fsync(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let sync = Operation::Sync { handle: handle.0 };
        self.serve(requester, ino, sync, FuserReply::Empty(reply));
    }

    fn opendir(&self, requester: &fuser::Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let reply = FuserReply::Open(reply);
        self.serve(requester, ino, Operation::OpenDirectory, reply);
    }

    fn readdir(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let reply = DirectoryReply::Names(reply);
        self.list(requester, ino, (handle, offset), reply);
    }

    fn readdirplus(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let reply = DirectoryReply::Entries(reply);
        self.list(requester, ino, (handle, offset), reply);
    }

    fn releasedir(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        reply: ReplyEmpty,
    ) {
        let release = Operation::ReleaseDirectory { handle: handle.0 };
        self.serve(requester, ino, release, FuserReply::Empty(reply));
    }

    fn fsyncdir(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let reply = FuserReply::Empty(reply);
        self.serve(requester, ino, Operation::SyncDirectory, reply);
    }

    fn statfs(&self, requester: &fuser::Request, ino: INodeNo, reply: ReplyStatfs) {
        self.serve(requester, ino, Operation::StatFs, FuserReply::StatFs(reply));
    }

    fn setxattr(
        &self,
        requester: &fuser::Request,
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
        self.mutate(requester, ino, set, FuserReply::Empty(reply));
    }

    fn getxattr(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        size: u32,
        reply: ReplyXattr,
    ) {
        let get = Operation::ExtendedAttribute { name, size };
        self.serve(requester, ino, get, FuserReply::ExtendedAttribute(reply));
    }

    fn listxattr(&self, requester: &fuser::Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let list = Operation::ExtendedAttributes { size };
        self.serve(requester, ino, list, FuserReply::ExtendedAttribute(reply));
    }

    fn removexattr(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        name: &OsStr,
        reply: ReplyEmpty,
    ) {
        let remove = Mutation::RemoveExtendedAttribute { name };
        self.mutate(requester, ino, remove, FuserReply::Empty(reply));
    }

    fn ioctl(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        _: u32,
        _: &[u8],
        _: u32,
        reply: ReplyIoctl,
    ) {
        let ioctl = Operation::Unsupported(Unsupported::Ioctl);
        self.serve(requester, ino, ioctl, FuserReply::Ioctl(reply));
    }

    fn fallocate(
        &self,
        requester: &fuser::Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocate = AllocateRequest {
            handle: handle.0,
            // Both are below the half of what fits.
            end: offset + len,
            mode: mode.cast_unsigned(),
        };
        self.mutate(
            requester,
            ino,
            Mutation::Allocate(allocate),
            FuserReply::Empty(reply),
        );
    }

    fn copy_file_range(
        &self,
        requester: &fuser::Request,
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
        self.mutate(
            requester,
            ino,
            Mutation::CopyRange(copy),
            FuserReply::Write(reply),
        );
    }
}
