//! Requests that change names and attributes, made into operations.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use super::dispatcher::{Answer, Dispatcher};
use super::refusal::Refusal;
use crate::fuse::errno::{NO_SUCH_ATTRIBUTES, FuseOperation};
use crate::fuse::parked::{OnSignal, PendingReply};
use crate::fuse::proc::opener;
use crate::fuse::reply::Reply;
use crate::fuse::wire::{AllocateRequest, CopyRangeRequest, Mutation};
use crate::handle::Opener;
use crate::operation::{HandleNo, InodeNo, RenameMode, SetMode, Stop};

impl Dispatcher {
    /// The operation that `mutation` of `ino` by `thread` asks for; the refusal where there is
    /// none.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of request")]
    pub(super) fn mutate(
        self: &Arc<Self>,
        (ino, thread): (InodeNo, u32),
        mutation: &Mutation<'_>,
    ) -> Answer {
        let this = Arc::clone(self);
        let pending: PendingReply = match *mutation {
            Mutation::Unlink { name } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = this.fs.unlink(ino, &name).await;
                    this.reply(FuseOperation::Unlink, (ino, &*name), result, |()| Reply::Done)
                })
            }
            Mutation::RemoveDirectory { name } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = this.fs.remove_directory(ino, &name).await;
                    this.reply(FuseOperation::RemoveDirectory, (ino, &*name), result, |()| {
                        Reply::Done
                    })
                })
            }
            Mutation::MakeDirectory { name, mode } => {
                let (name, mode) = (
                    name.to_owned(),
                    u16::try_from(mode & 0o7777).unwrap_or_default(),
                );
                Box::pin(async move {
                    let result = this.fs.make_directory(ino, &name, mode).await;
                    this.reply(FuseOperation::MakeDirectory, (ino, &*name), result, |entry| {
                        Reply::Entry(entry)
                    })
                })
            }
            Mutation::Rename {
                name, mode: None, ..
            } => {
                return Answer::Now(self.refuse((ino, name), Refusal::RENAME_SPECIAL));
            }
            Mutation::Rename {
                name,
                new_directory,
                new_name,
                mode: Some(mode),
            } => {
                let to = (InodeNo(new_directory), new_name);
                let stop = Stop::default();
                let process = opener(thread);
                let pending = this.rename((ino, name), to, mode, stop.clone(), process);
                return Answer::Later(pending, OnSignal::Ask(stop));
            }
            Mutation::SetAttributes(change) => Box::pin(async move {
                let result = this.fs.set_attributes(ino, change).await;
                this.reply(FuseOperation::SetAttributes, ino, result, |attributes| {
                    this.attributes(attributes)
                })
            }),
            Mutation::SymbolicLink { name, target } => {
                let (name, target) = (name.to_owned(), target.to_owned());
                Box::pin(async move {
                    let result = this.fs.symbolic_link(ino, &name, &target).await;
                    this.reply(FuseOperation::SymbolicLink, (ino, &*name), result, |entry| {
                        Reply::Entry(entry)
                    })
                })
            }
            Mutation::HardLink { name } => {
                return Answer::Now(self.refuse((ino, name), Refusal::LINK));
            }
            Mutation::SetExtendedAttribute { name, .. }
            | Mutation::RemoveExtendedAttribute { name }
                if !name.as_bytes().starts_with(b"user.") =>
            {
                return Answer::Now(Reply::Failed(NO_SUCH_ATTRIBUTES));
            }
            Mutation::Allocate(AllocateRequest { mode: 1.., .. }) => {
                return Answer::Now(self.refuse(ino, Refusal::ALLOCATE));
            }
            Mutation::Allocate(AllocateRequest { handle, end, .. }) => Box::pin(async move {
                let result = this.fs.allocate(HandleNo(handle), end).await;
                this.reply(FuseOperation::Allocate, ino, result, |()| Reply::Done)
            }),
            Mutation::SetExtendedAttribute { name, value, flags } => {
                let (name, value) = (name.to_owned(), value.0.to_owned());
                let mode = match flags {
                    XATTR_CREATE => SetMode::Create,
                    XATTR_REPLACE => SetMode::Replace,
                    _ => SetMode::Any,
                };
                Box::pin(async move {
                    let set = this.fs.set_extended_attribute(ino, &name, &value, mode);
                    let result = set.await;
                    this.reply(FuseOperation::SetExtendedAttribute, ino, result, |()| Reply::Done)
                })
            }
            Mutation::RemoveExtendedAttribute { name } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = this.fs.remove_extended_attribute(ino, &name).await;
                    this.reply(FuseOperation::SetExtendedAttribute, ino, result, |()| Reply::Done)
                })
            }
            Mutation::CopyRange(request) => this.copy_range(ino, request),
        };
        // What was sent goes on: its name is held in motion until it has come to rest.
        Answer::Later(pending, OnSignal::Ask(Stop::never()))
    }

    fn copy_range(self: Arc<Self>, ino: InodeNo, request: CopyRangeRequest) -> PendingReply {
        let from = (HandleNo(request.handle), request.offset);
        let to = (HandleNo(request.to_handle), request.to_offset);
        let len = if request.is_wide {
            request.len
        } else {
            request.len.min(COPY_LEN_MAX.into())
        };
        Box::pin(async move {
            let result = self.fs.copy_range(from, to, len).await;
            self.reply(FuseOperation::CopyRange, ino, result, |copied| {
                if request.is_wide {
                    Reply::Copied(copied)
                } else {
                    Reply::Written(u32::try_from(copied).expect("it was not asked for more"))
                }
            })
        })
    }

    fn rename(
        self: Arc<Self>,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        mode: RenameMode,
        stop: Stop,
        process: Opener,
    ) -> PendingReply {
        let (ino, name) = (from.0, from.1.to_owned());
        let (directory, new_name) = (to.0, to.1.to_owned());
        Box::pin(async move {
            let (from, to) = ((ino, name.as_os_str()), (directory, new_name.as_os_str()));
            let renaming = self.fs.rename_for(from, to, mode, &stop, process);
            let result = renaming.await;
            self.reply(FuseOperation::Rename, from, result, |()| Reply::Done)
        })
    }
}

const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

/// What the first kind of reply to a copy can count, in whole pages.
const COPY_LEN_MAX: u32 = 0xffff_f000;
