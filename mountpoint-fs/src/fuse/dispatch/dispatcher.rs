//! From a request to an operation of the file system, and from its result to a reply.

use std::ffi::{OsStr, OsString};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use nix::errno::Errno;

use super::failure_log::FailureLog;
use super::maker::maker;
use super::open_flags::new_file;
use super::refusal::unsupported;
use super::subject::subject;
use crate::clock::Clock;
use crate::config::limits::READ_SIZE_MAX;
use crate::fs::FileSystem;
use crate::fuse::allowed_users::AllowedUsers;
use crate::fuse::errno::{
    Access, FuseOperation, NO_ATTRIBUTE, NO_SUCH_ATTRIBUTES, TOO_LITTLE_ROOM, errno,
};
use crate::fuse::inode_notices::InodeNotices;
use crate::fuse::mounting::DeviceNumber;
use crate::fuse::parked::{OnSignal, PendingReply};
use crate::fuse::passthrough::Passthrough;
use crate::fuse::proc::LookingThread;
use crate::fuse::proc::{ClosingThread, opener};
use crate::fuse::reply::Reply;
use crate::fuse::wire::{DirectoryBuffer, Header, Operation, Request};
use crate::metrics::capture::CallRecord;
use crate::operation::{
    DirectorySink, Entry, FileKind, FsError, HandleNo, InodeNo, Maker, Stop, WriteOptions,
};

/// The way to answer a request.
pub(in crate::fuse) enum Answer {
    /// Reply now.
    Now(Reply),
    /// Poll this; it becomes the reply.
    Later(PendingReply, OnSignal),
    /// Cancel the operation that answers this request.
    Interrupt { unique: u64 },
    /// No application waits for an answer.
    Nothing,
}

/// The rules of a whole connection.
#[derive(Clone, Copy, Debug)]
pub(in crate::fuse) struct Rules {
    /// Whether the mount may be changed.
    pub(in crate::fuse) access: Access,
    /// The users that the mount serves.
    pub(in crate::fuse) allowed_users: AllowedUsers,
    /// Number of the mount's device, if the kernel tells it.
    pub(in crate::fuse) device: Option<DeviceNumber>,
    /// Whether a file that is read past the page cache can be mapped as shared memory (Linux 6.6).
    /// Where it cannot, only files opened with `O_DIRECT` are read that way: more programs use
    /// `mmap` than it seems.
    pub(in crate::fuse) can_map_direct: bool,
}

/// Turns requests into operations.
#[derive(Debug)]
pub(in crate::fuse) struct Dispatcher {
    pub(super) fs: Arc<FileSystem>,
    pub(super) rules: Rules,
    pub(super) failures: FailureLog,
    pub(super) passthrough: Option<Passthrough>,
    pub(super) inode_notices: Option<InodeNotices>,
}

impl Dispatcher {
    /// A dispatcher to `fs`.
    pub(in crate::fuse) fn new(
        fs: Arc<FileSystem>,
        rules: Rules,
        passthrough: Option<Passthrough>,
        inode_notices: Option<InodeNotices>,
        clock: &Clock,
    ) -> Arc<Self> {
        let failures = FailureLog::new(&fs, rules.access, clock);
        Arc::new(Self {
            fs,
            rules,
            failures,
            passthrough,
            inode_notices,
        })
    }

    /// The subject of `request`, for a recording.
    pub(in crate::fuse) fn subject(&self, request: &Request<'_>) -> CallRecord {
        subject(&self.fs, request)
    }

    /// The answer to `request`. Requests without an answer are carried out at once.
    pub(in crate::fuse) fn dispatch(self: &Arc<Self>, request: &Request<'_>) -> Answer {
        let Request { header, operation } = request;
        tracing::trace!(
            unique = header.unique,
            inode = header.node,
            ?operation,
            "request"
        );
        let ino = InodeNo(header.node);
        if let Some(errno) = self.denied(header, operation) {
            return Answer::Now(Reply::Failed(errno));
        }
        match operation {
            Operation::Interrupt { unique } => return Answer::Interrupt { unique: *unique },
            Operation::Forget { count } => {
                self.fs.forget(ino, *count);
                return Answer::Nothing;
            }
            Operation::BatchForget(forgets) => {
                let forget = |(node, count)| self.fs.forget(InodeNo(node), count);
                forgets.iter().for_each(forget);
                return Answer::Nothing;
            }
            // Access control lists, and the attributes of security modules.
            Operation::ExtendedAttribute { name, .. } if !name.as_bytes().starts_with(b"user.") => {
                return Answer::Now(Reply::Failed(NO_SUCH_ATTRIBUTES));
            }
            Operation::Unsupported(operation) => {
                let answer = |errno| Answer::Now(Reply::Failed(errno));
                return unsupported(*operation).map_or(Answer::Nothing, answer);
            }
            Operation::Mutate(mutation) => return self.mutate(header, mutation),
            Operation::Write {
                handle,
                offset,
                drops_set_id,
                is_direct,
                data,
            } => {
                let to = (HandleNo(*handle), *offset);
                return self.write(header, to, data.0, (*drops_set_id, *is_direct));
            }
            _ => {}
        }
        match self.later(header, operation) {
            Some(pending)
                if matches!(operation, Operation::Flush { .. } | Operation::Sync { .. }) =>
            {
                Answer::Later(pending, OnSignal::Store)
            }
            Some(pending) => Answer::Later(pending, OnSignal::End),
            None => Answer::Now(self.now(ino, operation)),
        }
    }

    /// The error if the mount does not serve the user, or does not change files.
    ///
    /// `fstat` names no handle: attributes of open files are let through, except those of the root
    /// directory, where a walk into the mount begins.
    fn denied(&self, header: &Header, operation: &Operation<'_>) -> Option<Errno> {
        let ino = InodeNo(header.node);
        let is_of_open_handle = || {
            let asks = matches!(operation, Operation::GetAttributes);
            asks && ino != InodeNo::ROOT && self.fs.is_open(ino)
        };
        if self.rules.allowed_users.refuses(header.uid, operation) && !is_of_open_handle() {
            return Some(Errno::EACCES);
        }
        let is_refused = self.rules.access == Access::ReadOnly && is_change(operation);
        is_refused.then(|| errno(&FsError::ReadOnly, self.rules.access))
    }

    /// Operations that may have to wait.
    fn later(self: &Arc<Self>, header: &Header, operation: &Operation<'_>) -> Option<PendingReply> {
        let (ino, pid) = (InodeNo(header.node), header.pid);
        let this = Arc::clone(self);
        Some(match *operation {
            Operation::Lookup { name } => this.lookup(ino, name.to_owned(), LookingThread(pid)),
            Operation::GetAttributes => this.get_attributes(ino),
            Operation::Open { flags } => this.open(header, flags),
            Operation::Read {
                handle,
                offset,
                size,
                fills_cache,
            } => Box::pin(async move {
                let read = this.fs.read(HandleNo(handle), offset, size, fills_cache);
                let result = read.await;
                this.reply(FuseOperation::Read, ino, result, Reply::Data)
            }),
            Operation::ExtendedAttribute { name, size } => {
                this.extended_attribute(ino, name.to_owned(), size)
            }
            Operation::ExtendedAttributes { size } => this.extended_attributes(ino, size),
            Operation::ReadLink => Box::pin(async move {
                let result = this.fs.read_link(ino).await;
                this.reply(FuseOperation::ReadLink, ino, result, Reply::Data)
            }),
            Operation::OpenDirectory => Box::pin(async move {
                let result = this.fs.open_directory(ino).await;
                this.reply(FuseOperation::OpenDir, ino, result, Reply::OpenedDirectory)
            }),
            Operation::ReadDirectory {
                handle,
                offset,
                size,
                plus,
            } => {
                let size_max = usize::try_from(size.min(READ_SIZE_MAX)).expect("1 MiB fits");
                let buffer = DirectoryBuffer::new(size_max, plus);
                let place = (HandleNo(handle), offset);
                this.read_directory(ino, place, plus, buffer, |buffer| {
                    Reply::Bytes(buffer.into_bytes())
                })
            }
            _ => return this.changing(ino, (pid, maker(header)), operation),
        })
    }

    /// The reply to a READDIR or READDIRPLUS, whose entries go into `sink`.
    pub(in crate::fuse) fn read_directory<S: DirectorySink + 'static>(
        self: Arc<Self>,
        ino: InodeNo,
        (handle, offset): (HandleNo, u64),
        plus: bool,
        mut sink: S,
        encode: impl FnOnce(S) -> Reply + Send + 'static,
    ) -> PendingReply {
        Box::pin(async move {
            let read = self.fs.read_directory(handle, offset, plus, &mut sink);
            let result = read.await;
            self.reply(FuseOperation::ReadDir, ino, result, |()| encode(sink))
        })
    }

    /// Operations that change the bucket and may have to wait.
    fn changing(
        self: Arc<Self>,
        ino: InodeNo,
        (pid, maker): (u32, Option<Maker>),
        operation: &Operation<'_>,
    ) -> Option<PendingReply> {
        let this = self;
        Some(match *operation {
            Operation::Create { name, flags, mode } => {
                let name = name.to_owned();
                let options = WriteOptions {
                    maker,
                    ..new_file(flags, mode)
                };
                Box::pin(async move {
                    let opener = opener(pid);
                    let create = || this.fs.create_for(ino, &name, options, opener);
                    let result = this.fs.when_at_rest(&Stop::never(), create).await;
                    let result = result.and_then(|(entry, opened)| {
                        this.admit(entry.attributes.ino, &opened)?;
                        Ok((entry, opened))
                    });
                    this.reply(
                        FuseOperation::Create,
                        (ino, &*name),
                        result,
                        |(entry, opened)| Reply::Created(entry, opened),
                    )
                })
            }
            Operation::MakeNode { name, mode } => {
                let name = name.to_owned();
                let options = WriteOptions {
                    maker,
                    ..new_file(0, mode)
                };
                Box::pin(async move {
                    let make = || this.make_node((ino, &name), mode, options);
                    let result = this.fs.when_at_rest(&Stop::never(), make).await;
                    this.fs.settled().await;
                    this.reply(FuseOperation::Create, (ino, &*name), result, |entry| {
                        Reply::Entry(entry)
                    })
                })
            }
            Operation::Flush { handle } => Box::pin(async move {
                let closing = ClosingThread {
                    thread: pid,
                    device: this.rules.device,
                };
                let result = this.fs.flush(HandleNo(handle), &closing).await;
                this.fs.settled().await;
                this.done(FuseOperation::Close, ino, result)
            }),
            Operation::Sync { handle } => Box::pin(async move {
                let result = this.fs.sync(HandleNo(handle)).await;
                this.fs.settled().await;
                this.done(FuseOperation::FSync, ino, result)
            }),
            _ => return None,
        })
    }

    /// Makes the file, pipe or socket that `mode` asks for.
    async fn make_node(
        &self,
        (directory, name): (InodeNo, &OsStr),
        mode: u32,
        options: WriteOptions,
    ) -> Result<Entry, FsError> {
        let special = match mode & libc::S_IFMT {
            libc::S_IFREG => return self.fs.make_file(directory, name, options).await,
            libc::S_IFIFO => FileKind::Pipe,
            libc::S_IFSOCK => FileKind::Socket,
            _ => return Err(FsError::NotPermitted("devices are not made".to_owned())),
        };
        let made = self.fs.make_special(directory, name, special, options);
        made.await
    }

    /// The reply to a LOOKUP, which may say for how long a name is absent.
    fn lookup(self: Arc<Self>, ino: InodeNo, name: OsString, who: LookingThread) -> PendingReply {
        Box::pin(async move {
            let result = self.fs.lookup_for(ino, &name, &who).await;
            if matches!(result, Err(FsError::NotFound)) {
                let negative_ttl = self.fs.negative_ttl(ino, &name);
                if !negative_ttl.is_zero() {
                    return Reply::Absence(negative_ttl);
                }
            }
            self.reply(FuseOperation::Lookup, (ino, &*name), result, |entry| {
                Reply::Entry(entry)
            })
        })
    }

    /// The reply to a GETATTR.
    fn get_attributes(self: Arc<Self>, ino: InodeNo) -> PendingReply {
        Box::pin(async move {
            let result = self.fs.attributes(ino).await;
            self.reply(FuseOperation::GetAttr, ino, result, |attributes| {
                self.attributes(attributes)
            })
        })
    }

    /// The reply to a GETXATTR.
    fn extended_attribute(
        self: Arc<Self>,
        ino: InodeNo,
        name: OsString,
        size: u32,
    ) -> PendingReply {
        Box::pin(async move {
            let result = self.fs.extended_attribute(ino, &name).await;
            self.reply(FuseOperation::GetXAttr, ino, result, |value| {
                value.map_or(Reply::Failed(NO_ATTRIBUTE), |value| sized(&value, size))
            })
        })
    }

    /// The reply to a LISTXATTR.
    fn extended_attributes(self: Arc<Self>, ino: InodeNo, size: u32) -> PendingReply {
        Box::pin(async move {
            let names = self.fs.extended_attributes(ino).await;
            self.reply(FuseOperation::GetXAttr, ino, names, |names| {
                sized(&names, size)
            })
        })
    }

    /// A WRITE. Bytes for which there is room go from the request into the file's buffer at once.
    fn write(
        self: &Arc<Self>,
        header: &Header,
        (handle, offset): (HandleNo, u64),
        data: &[u8],
        (drops_set_id, is_direct): (bool, bool),
    ) -> Answer {
        let ino = InodeNo(header.node);
        // A thread of another namespace has no number here: then its file stands for it.
        let thread_or_file = match header.pid {
            0 => handle.0,
            pid => u64::from(pid),
        };
        self.fs.thread_writes(thread_or_file, data.len());
        let len = u32::try_from(data.len()).expect("a request is shorter than 4 GiB");
        let done = move |()| Reply::Written(len);
        let drops_set_id = drops_set_id && self.fs.has_set_id(ino);
        let old = offset..offset + u64::from(len);
        let old = self
            .inode_notices
            .as_ref()
            .filter(|_| len > 0 && (is_direct || self.fs.overtakes_pages(handle)))
            .map(|_| old);
        let this = Arc::clone(self);
        if !drops_set_id && let Some(result) = self.fs.write_now(handle, offset, data) {
            let Some(old) = old.filter(|_| result.is_ok()) else {
                return Answer::Now(self.reply(FuseOperation::Write, ino, result, done));
            };
            let pending = async move {
                this.forget_pages(ino, old).await;
                done(())
            };
            return Answer::Later(Box::pin(pending), OnSignal::End);
        }
        let held = self.fs.hold(data);
        let pending = async move {
            let mut result = this.fs.write_held(handle, offset, held).await;
            if drops_set_id && result.is_ok() {
                // Behind the write, so that the file carries the mode to the bucket by itself.
                result = this.fs.drop_set_id(ino).await;
            }
            if let Some(old) = old {
                this.forget_pages(ino, old).await;
            }
            this.reply(FuseOperation::Write, ino, result, done)
        };
        let on_signal = match drops_set_id {
            true => OnSignal::Ask(Stop::never()),
            false => OnSignal::End,
        };
        Answer::Later(Box::pin(pending), on_signal)
    }

    /// Returns when the kernel has no old page of a range that was written past its cache.
    async fn forget_pages(&self, ino: InodeNo, old: Range<u64>) {
        if let Some(notices) = &self.inode_notices {
            notices.forget_pages(ino, old).await;
        }
    }

    /// Operations that never wait.
    fn now(&self, ino: InodeNo, operation: &Operation<'_>) -> Reply {
        match operation {
            Operation::Release { handle } => {
                self.failures.released(ino);
                // First: a writer may begin when the file system knows of no reader.
                if let Some(passthrough) = &self.passthrough {
                    passthrough.released(ino);
                }
                self.fs.release(HandleNo(*handle));
                Reply::Done
            }
            Operation::ReleaseDirectory { handle } => {
                self.fs.release_directory(HandleNo(*handle));
                Reply::Done
            }
            Operation::StatFs => Reply::StatFs(self.fs.statfs()),
            Operation::SyncDirectory | Operation::Destroy => Reply::Done,
            // INIT a second time, or an operation of another group: a kernel never does that.
            _ => Reply::Failed(Errno::EIO),
        }
    }
}

/// An extended attribute, or the names of all: their length if the application has no room yet.
fn sized(value: &[u8], size: u32) -> Reply {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => Reply::Length(len),
        Ok(len) if len <= size => Reply::Bytes(value.to_vec()),
        Ok(_) | Err(_) => Reply::Failed(TOO_LITTLE_ROOM),
    }
}

/// Whether a file system that is mounted read-only refuses the operation.
///
/// The kernel refuses such operations itself, unless another process mounted for writing.
pub(super) fn is_change(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Open { flags } => {
            let mode = flags.cast_signed() & libc::O_ACCMODE;
            mode != libc::O_RDONLY || flags & libc::O_TRUNC.cast_unsigned() != 0
        }
        Operation::Create { .. }
        | Operation::MakeNode { .. }
        | Operation::Write { .. }
        | Operation::Mutate(_) => true,
        _ => false,
    }
}
