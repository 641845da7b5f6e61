//! From a request to an operation of the file system, and from its result to a reply.
//!
//! Knows neither descriptors nor threads: a request goes in, an [`Answer`] comes out. Invariant: a request that
//! wants a reply yields `Now` or `Later`, one that wants none yields anything else.

use std::sync::Arc;

use nix::errno::Errno;
use tracing::Level;

use super::device::Reply;
use super::errno::{Access, errno, level};
use super::log_limit::LogLimit;
use super::refusal::{Refusal, unsupported};
use super::task::PendingReply;
use super::wire::{DirectoryBuffer, Fixed, Header, Modification, Operation, Request};
use crate::clock::Clock;
use crate::config::limits::READ_SIZE_MAX;
use crate::fs::{FileSystem, FsError, HandleNo, InodeNo, OpenOptions};

/// What to do about a request.
pub(super) enum Answer {
    /// Reply now.
    Now(Reply),
    /// Poll this; it becomes the reply.
    Later(PendingReply),
    /// Cancel the operation that answers this request.
    Interrupt { unique: u64 },
    /// Nobody waits.
    Nothing,
}

/// Turns requests into operations.
#[derive(Debug)]
pub(super) struct Dispatcher {
    fs: Arc<FileSystem>,
    access: Access,
    /// With `--allow-root`: who may use the mount besides root.
    owner: Option<u32>,
    refusals: LogLimit,
    failures: LogLimit,
}

impl Dispatcher {
    /// A dispatcher to `fs`.
    pub(super) fn new(
        fs: Arc<FileSystem>,
        access: Access,
        owner: Option<u32>,
        clock: &Clock,
    ) -> Arc<Self> {
        let (refusals, failures) = (LogLimit::new(clock.clone()), LogLimit::new(clock.clone()));
        Arc::new(Self {
            fs,
            access,
            owner,
            refusals,
            failures,
        })
    }

    /// What to do about `request`. Does at once what is never answered.
    pub(super) fn dispatch(self: &Arc<Self>, request: &Request<'_>) -> Answer {
        let Request { header, operation } = request;
        tracing::trace!(
            unique = header.unique,
            inode = header.node,
            ?operation,
            "request"
        );
        let ino = InodeNo(header.node);
        if self.is_denied(header, operation) {
            return Answer::Now(Reply::Failed(Errno::EACCES));
        }
        match operation {
            Operation::Interrupt { unique } => return Answer::Interrupt { unique: *unique },
            Operation::Forget { count } => {
                self.fs.forget(ino, *count);
                return Answer::Nothing;
            }
            Operation::BatchForget(forgets) => {
                for (node, count) in forgets.iter() {
                    self.fs.forget(InodeNo(node), count);
                }
                return Answer::Nothing;
            }
            Operation::Unsupported(operation) => {
                return unsupported(*operation)
                    .map_or(Answer::Nothing, |errno| Answer::Now(Reply::Failed(errno)));
            }
            _ => {}
        }
        match self.later(ino, operation) {
            Some(pending) => Answer::Later(pending),
            None => Answer::Now(self.now(ino, operation)),
        }
    }

    /// Whether `--allow-root` refuses the request. What an open handle or the kernel itself needs is let through.
    fn is_denied(&self, header: &Header, operation: &Operation<'_>) -> bool {
        let is_other = self
            .owner
            .is_some_and(|owner| header.uid != owner && header.uid != 0);
        let is_guarded = matches!(
            operation,
            Operation::Lookup { .. }
                | Operation::GetAttributes
                | Operation::Open { .. }
                | Operation::OpenDirectory
                | Operation::StatFs
                | Operation::Modify(_)
        );
        is_other && is_guarded
    }

    /// Operations that may have to wait.
    fn later(self: &Arc<Self>, ino: InodeNo, operation: &Operation<'_>) -> Option<PendingReply> {
        let this = Arc::clone(self);
        Some(match *operation {
            Operation::Lookup { name } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = this.fs.lookup(ino, &name).await;
                    this.reply("lookup", ino, result, |entry| {
                        Reply::Fixed(Fixed::entry(&entry))
                    })
                })
            }
            Operation::GetAttributes => Box::pin(async move {
                let result = this.fs.attributes(ino).await;
                this.reply("getattr", ino, result, |attributes| {
                    Reply::Fixed(Fixed::attributes(&attributes))
                })
            }),
            Operation::Open { flags } => {
                let options = open_options(flags);
                Box::pin(async move {
                    let result = this.fs.open(ino, options).await;
                    if options.write && matches!(result, Err(FsError::ReadOnly)) {
                        return this.refuse(ino, Refusal::of_open_for_writing(this.access));
                    }
                    this.reply("open", ino, result, |opened| {
                        Reply::Fixed(Fixed::opened(&opened))
                    })
                })
            }
            Operation::Read {
                handle,
                offset,
                size,
            } => Box::pin(async move {
                let result = this.fs.read(HandleNo(handle), offset, size).await;
                this.reply("read", ino, result, Reply::Data)
            }),
            Operation::OpenDirectory => Box::pin(async move {
                let result = this.fs.open_directory(ino).await;
                this.reply("opendir", ino, result, |handle| {
                    Reply::Fixed(Fixed::opened_directory(handle))
                })
            }),
            Operation::ReadDirectory {
                handle,
                offset,
                size,
                plus,
            } => {
                let size_max = usize::try_from(size.min(READ_SIZE_MAX)).expect("1 MiB fits");
                Box::pin(async move {
                    let mut buffer = DirectoryBuffer::new(size_max, plus);
                    let handle = HandleNo(handle);
                    let result = this
                        .fs
                        .read_directory(handle, offset, plus, &mut buffer)
                        .await;
                    this.reply("readdir", ino, result, |()| {
                        Reply::Bytes(buffer.into_bytes())
                    })
                })
            }
            _ => return None,
        })
    }

    /// Operations that never wait.
    fn now(&self, ino: InodeNo, operation: &Operation<'_>) -> Reply {
        match operation {
            Operation::Release { handle } => {
                self.fs.release(HandleNo(*handle));
                Reply::Done
            }
            Operation::ReleaseDirectory { handle } => {
                self.fs.release_directory(HandleNo(*handle));
                Reply::Done
            }
            Operation::StatFs => Reply::Fixed(Fixed::statfs(&self.fs.statfs())),
            Operation::Flush | Operation::Sync | Operation::Destroy => Reply::Done,
            Operation::Modify(modification) => self.modify(ino, *modification),
            // INIT a second time, or an operation of another group: the kernel is not what it was.
            _ => Reply::Failed(Errno::EIO),
        }
    }

    fn modify(&self, ino: InodeNo, modification: Modification) -> Reply {
        self.refuse(ino, Refusal::of(modification, self.access))
    }

    fn refuse(&self, ino: InodeNo, refusal: Refusal) -> Reply {
        if let Some(suppressed) = self.refusals.admit() {
            tracing::warn!(inode = ino.0, errno = %refusal.errno, suppressed, "{}", refusal.reason);
        }
        Reply::Failed(refusal.errno)
    }

    fn reply<T>(
        &self,
        operation: &'static str,
        ino: InodeNo,
        result: Result<T, FsError>,
        encode: impl FnOnce(T) -> Reply,
    ) -> Reply {
        match result {
            Ok(value) => encode(value),
            Err(error) => self.failed(operation, ino, &error),
        }
    }

    fn failed(&self, operation: &'static str, ino: InodeNo, error: &FsError) -> Reply {
        let errno = errno(error, self.access);
        if level(error) == Level::WARN {
            if let Some(suppressed) = self.failures.admit() {
                tracing::warn!(inode = ino.0, %errno, suppressed, "{operation} failed: {error}");
            }
        } else {
            tracing::debug!(inode = ino.0, %errno, "{operation} failed: {error}");
        }
        Reply::Failed(errno)
    }
}

/// `open(2)`'s flags in the file system's words.
fn open_options(flags: u32) -> OpenOptions {
    let is_set = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    OpenOptions {
        write: is_set(libc::O_ACCMODE) || is_set(libc::O_TRUNC),
        direct: is_set(libc::O_DIRECT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_of_open() {
        let check = |flags: libc::c_int, write, direct| {
            assert_eq!(
                open_options(flags.cast_unsigned()),
                OpenOptions { write, direct },
                "{flags:#o}"
            );
        };
        check(libc::O_RDONLY, false, false);
        check(libc::O_RDONLY | libc::O_DIRECT, false, true);
        check(libc::O_WRONLY, true, false);
        check(libc::O_RDWR | libc::O_DIRECT, true, true);
        check(libc::O_RDONLY | libc::O_TRUNC, true, false);
    }
}
