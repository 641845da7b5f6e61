//! Requests that change names and attributes, made into operations.

use std::ffi::OsStr;
use std::sync::Arc;

use nix::errno::Errno;

use super::dispatch::{Answer, Dispatcher};
use super::errno::Step;
use super::refusal::Refusal;
use super::reply::Reply;
use super::task::PendingReply;
use super::wire::{Fixed, Mutation};
use crate::operation::{InodeNo, RenameMode};

impl Dispatcher {
    /// The operation that `mutation` of `ino` asks for; the refusal where there is none.
    pub(super) fn mutate(self: &Arc<Self>, ino: InodeNo, mutation: &Mutation<'_>) -> Answer {
        let this = Arc::clone(self);
        let pending: PendingReply = match *mutation {
            Mutation::Unlink { name } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = this.fs.unlink(ino, &name).await;
                    this.reply(Step::Unlink, ino, result, |()| Reply::Done)
                })
            }
            Mutation::RemoveDirectory { name } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = this.fs.remove_directory(ino, &name).await;
                    this.reply(Step::RemoveDirectory, ino, result, |()| Reply::Done)
                })
            }
            Mutation::MakeDirectory { name, mode } => {
                let (name, mode) = (
                    name.to_owned(),
                    u16::try_from(mode & 0o7777).unwrap_or_default(),
                );
                Box::pin(async move {
                    let result = this.fs.make_directory(ino, &name, mode).await;
                    this.reply(Step::MakeDirectory, ino, result, |entry| {
                        Reply::Fixed(Fixed::entry(&entry))
                    })
                })
            }
            Mutation::Rename { mode: None, .. } => {
                return Answer::Now(self.refuse(ino, Refusal::RENAME_SPECIAL));
            }
            Mutation::Rename {
                name,
                new_directory,
                new_name,
                mode: Some(mode),
            } => {
                let to = (InodeNo(new_directory), new_name);
                this.rename((ino, name), to, mode)
            }
            Mutation::SetAttributes(change) => Box::pin(async move {
                let result = this.fs.set_attributes(ino, change).await;
                this.reply(Step::SetAttributes, ino, result, |attributes| {
                    Reply::Fixed(Fixed::attributes(&attributes))
                })
            }),
            Mutation::SymbolicLink { name, target } => {
                let (name, target) = (name.to_owned(), target.to_owned());
                Box::pin(async move {
                    let result = this.fs.symbolic_link(ino, &name, &target).await;
                    this.reply(Step::SymbolicLink, ino, result, |entry| {
                        Reply::Fixed(Fixed::entry(&entry))
                    })
                })
            }
            Mutation::HardLink => return Answer::Now(self.refuse(ino, Refusal::LINK)),
            Mutation::Allocate => return Answer::Now(self.refuse(ino, Refusal::ALLOCATE)),
            Mutation::SetExtendedAttribute { .. } | Mutation::RemoveExtendedAttribute { .. } => {
                return Answer::Now(self.refuse(ino, Refusal::EXTENDED_ATTRIBUTE));
            }
            Mutation::CopyRange(_) => return Answer::Now(Reply::Failed(Errno::ENOSYS)),
        };
        match mutation {
            Mutation::Unlink { .. }
            | Mutation::RemoveDirectory { .. }
            | Mutation::SetAttributes(_) => Answer::Whole(pending),
            _ => Answer::Later(pending),
        }
    }

    fn rename(
        self: Arc<Self>,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        mode: RenameMode,
    ) -> PendingReply {
        let (ino, name) = (from.0, from.1.to_owned());
        let (directory, new_name) = (to.0, to.1.to_owned());
        Box::pin(async move {
            let (from, to) = ((ino, name.as_os_str()), (directory, new_name.as_os_str()));
            let result = self.fs.rename(from, to, mode).await;
            self.reply(Step::Rename, ino, result, |()| Reply::Done)
        })
    }
}
