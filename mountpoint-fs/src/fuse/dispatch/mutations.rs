//! Requests that change names and attributes, made into operations.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::dispatcher::{Answer, Dispatcher};
use super::maker::maker;
use super::refusal::Refusal;
use crate::fuse::errno::{FuseOperation, NO_SUCH_ATTRIBUTES};
use crate::fuse::parked::{OnSignal, PendingReply};
use crate::fuse::reply::Reply;
use crate::fuse::wire::{AllocateRequest, CopyRangeRequest, Header, Mutation};
use crate::operation::{
    AllocateMode, AttributeChange, HandleNo, InodeNo, Maker, RenameMode, SetMode, Stop,
    WriteOptions,
};

impl Dispatcher {
    /// The operation that `mutation` asks for; the refusal where there is none.
    pub(super) fn mutate(self: &Arc<Self>, header: &Header, mutation: &Mutation<'_>) -> Answer {
        let (ino, keeps_set_id) = (InodeNo(header.node), header.uid == 0);
        let (this, stop) = (Arc::clone(self), Stop::default());
        let on_signal = OnSignal::Ask(stop.clone());
        let pending = match *mutation {
            Mutation::Unlink { name } => this.unlink(ino, name.to_owned(), stop),
            Mutation::RemoveDirectory { name } => this.remove_directory(ino, name.to_owned(), stop),
            Mutation::MakeDirectory { name, mode } => {
                this.make_directory(ino, name.to_owned(), (mode, maker(header)), stop)
            }
            Mutation::Rename {
                name,
                new_directory,
                new_name,
                mode,
            } => {
                let (from, to) = ((ino, name), (InodeNo(new_directory), new_name));
                let Some(mode) = mode else {
                    return Answer::Now(self.refuse(from, Refusal::RENAME_SPECIAL));
                };
                this.rename(from, to, mode, stop)
            }
            Mutation::SymbolicLink { name, target } => {
                let target = target.to_owned();
                this.symbolic_link(ino, name.to_owned(), (target, maker(header)), stop)
            }
            Mutation::HardLink { file, name } => this.link(InodeNo(file), (ino, name), stop),
            Mutation::SetAttributes(change) => this.set_attributes(ino, change, stop),
            Mutation::SetExtendedAttribute { name, .. }
            | Mutation::RemoveExtendedAttribute { name }
                if !name.as_bytes().starts_with(b"user.") =>
            {
                return Answer::Now(Reply::Failed(NO_SUCH_ATTRIBUTES));
            }
            Mutation::SetExtendedAttribute { name, value, flags } => {
                let value = value.0.to_owned();
                this.set_extended_attribute(ino, name.to_owned(), (value, flags), stop)
            }
            Mutation::RemoveExtendedAttribute { name } => {
                this.remove_extended_attribute(ino, name.to_owned(), stop)
            }
            Mutation::Allocate(request) => {
                let handle = HandleNo(request.handle);
                let is_taken = |mode: &AllocateMode| {
                    let extends = AllocateMode::Reserve { keeps_size: false };
                    *mode == extends || self.fs.is_of_written_file(handle)
                };
                let Some(mode) = allocate_mode(request.mode).filter(is_taken) else {
                    return Answer::Now(self.refuse(ino, Refusal::ALLOCATE));
                };
                this.allocate((ino, keeps_set_id), request, mode)
            }
            Mutation::CopyRange(request) => this.copy_range((ino, keeps_set_id), request),
        };
        // A change that was sent goes on: its name stays locked until the bucket has answered.
        Answer::Later(self.when_settled(pending), on_signal)
    }

    fn unlink(self: Arc<Self>, ino: InodeNo, name: OsString, stop: Stop) -> PendingReply {
        Box::pin(async move {
            let unlink = || self.fs.unlink(ino, &name);
            let result = self.fs.when_at_rest(&stop, unlink).await;
            self.done(FuseOperation::Unlink, (ino, &*name), result)
        })
    }

    fn remove_directory(self: Arc<Self>, ino: InodeNo, name: OsString, stop: Stop) -> PendingReply {
        Box::pin(async move {
            let remove = || self.fs.remove_directory(ino, &name);
            let result = self.fs.when_at_rest(&stop, remove).await;
            self.done(FuseOperation::RmDir, (ino, &*name), result)
        })
    }

    fn make_directory(
        self: Arc<Self>,
        ino: InodeNo,
        name: OsString,
        (mode, maker): (u32, Option<Maker>),
        stop: Stop,
    ) -> PendingReply {
        let mode = u16::try_from(mode & 0o7777).unwrap_or_default();
        Box::pin(async move {
            let make = || self.fs.make_directory_for(ino, &name, mode, maker);
            let result = self.fs.when_at_rest(&stop, make).await;
            let operation = FuseOperation::MkDir;
            self.reply(operation, (ino, &*name), result, Reply::Entry)
        })
    }

    /// A rename in one of the modes that S3 allows.
    fn rename(
        self: Arc<Self>,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        mode: RenameMode,
        stop: Stop,
    ) -> PendingReply {
        let (ino, name) = (from.0, from.1.to_owned());
        let (directory, new_name) = (to.0, to.1.to_owned());
        Box::pin(async move {
            let (from, to) = ((ino, name.as_os_str()), (directory, new_name.as_os_str()));
            let rename = || self.fs.rename(from, to, mode, &stop);
            let result = self.fs.when_at_rest(&stop, rename).await;
            self.done(FuseOperation::Rename, from, result)
        })
    }

    /// Another name for a file, which is a copy on the server.
    fn link(
        self: Arc<Self>,
        file: InodeNo,
        (directory, name): (InodeNo, &OsStr),
        stop: Stop,
    ) -> PendingReply {
        let name = name.to_owned();
        Box::pin(async move {
            let to = (directory, name.as_os_str());
            let link = || self.fs.link(file, to, &stop);
            let result = self.fs.when_at_rest(&stop, link).await;
            self.reply(FuseOperation::Link, to, result, |(entry, shown)| {
                Reply::Linked(entry, shown)
            })
        })
    }

    fn symbolic_link(
        self: Arc<Self>,
        ino: InodeNo,
        name: OsString,
        (target, maker): (OsString, Option<Maker>),
        stop: Stop,
    ) -> PendingReply {
        Box::pin(async move {
            let link = || self.fs.symbolic_link_for(ino, &name, &target, maker);
            let result = self.fs.when_at_rest(&stop, link).await;
            let operation = FuseOperation::SymLink;
            self.reply(operation, (ino, &*name), result, Reply::Entry)
        })
    }

    fn set_attributes(
        self: Arc<Self>,
        ino: InodeNo,
        change: AttributeChange,
        stop: Stop,
    ) -> PendingReply {
        Box::pin(async move {
            let cut = WriteOptions {
                truncate: true,
                ..WriteOptions::default()
            };
            let result = if change.size.is_some() && self.is_in_the_way(ino, cut) {
                Err(self.fs.open_afresh(ino))
            } else {
                let set = || self.fs.set_attributes(ino, change);
                self.fs.when_at_rest(&stop, set).await
            };
            self.reply(FuseOperation::SetAttr, ino, result, |attributes| {
                self.attributes(attributes)
            })
        })
    }

    fn set_extended_attribute(
        self: Arc<Self>,
        ino: InodeNo,
        name: OsString,
        (value, flags): (Vec<u8>, u32),
        stop: Stop,
    ) -> PendingReply {
        let mode = match flags {
            XATTR_CREATE => SetMode::Create,
            XATTR_REPLACE => SetMode::Replace,
            _ => SetMode::Any,
        };
        Box::pin(async move {
            let set = || self.fs.set_extended_attribute(ino, &name, &value, mode);
            let result = self.fs.when_at_rest(&stop, set).await;
            self.done(FuseOperation::SetXAttr, ino, result)
        })
    }

    fn remove_extended_attribute(
        self: Arc<Self>,
        ino: InodeNo,
        name: OsString,
        stop: Stop,
    ) -> PendingReply {
        Box::pin(async move {
            let remove = || self.fs.remove_extended_attribute(ino, &name);
            let result = self.fs.when_at_rest(&stop, remove).await;
            self.done(FuseOperation::SetXAttr, ino, result)
        })
    }

    fn allocate(
        self: Arc<Self>,
        (ino, keeps_set_id): (InodeNo, bool),
        request: AllocateRequest,
        mode: AllocateMode,
    ) -> PendingReply {
        Box::pin(async move {
            let (handle, range) = (HandleNo(request.handle), request.start..request.end);
            let allocate = || self.fs.allocate(handle, range.clone(), mode);
            let mut result = self.fs.when_at_rest(&Stop::never(), allocate).await;
            if result.is_ok() {
                result = self.drop_set_id(ino, keeps_set_id).await;
            }
            self.done(FuseOperation::FAllocate, ino, result)
        })
    }

    fn copy_range(
        self: Arc<Self>,
        (ino, keeps_set_id): (InodeNo, bool),
        request: CopyRangeRequest,
    ) -> PendingReply {
        let from = (HandleNo(request.handle), request.offset);
        let to = (HandleNo(request.to_handle), request.to_offset);
        let len = if request.is_wide {
            request.len
        } else {
            request.len.min(COPY_LEN_MAX.into())
        };
        Box::pin(async move {
            let target = InodeNo(request.to_node);
            let copy = || self.fs.copy_range(from, to, len);
            let mut result = self.fs.when_at_rest(&Stop::never(), copy).await;
            if let Ok(copied) = result {
                let dropped = self.drop_set_id(target, keeps_set_id).await;
                result = dropped.map(|()| copied);
            }
            self.reply(FuseOperation::CopyFileRange, ino, result, |copied| {
                if request.is_wide {
                    Reply::Copied(copied)
                } else {
                    Reply::Written(u32::try_from(copied).expect("it was not asked for more"))
                }
            })
        })
    }
}

/// The effect of the flags of `fallocate`; `None` for those without a meaning here.
fn allocate_mode(flags: u32) -> Option<AllocateMode> {
    let flags = flags.cast_signed();
    let keeps_size = flags & libc::FALLOC_FL_KEEP_SIZE != 0;
    match flags & !libc::FALLOC_FL_KEEP_SIZE {
        0 => Some(AllocateMode::Reserve { keeps_size }),
        libc::FALLOC_FL_PUNCH_HOLE if keeps_size => Some(AllocateMode::Zero { keeps_size }),
        libc::FALLOC_FL_ZERO_RANGE => Some(AllocateMode::Zero { keeps_size }),
        _ => None,
    }
}

const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

/// The most that the narrow kind of reply to a copy can count, in whole pages.
const COPY_LEN_MAX: u32 = 0xffff_f000;
