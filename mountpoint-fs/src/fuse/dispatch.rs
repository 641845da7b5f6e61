//! From a request to an operation of the file system, and from its result to a reply.
//!
//! Knows neither descriptors nor threads: a request goes in, an [`Answer`] comes out. Invariant: a
//! request that wants a reply yields `Now` or `Later`, one that wants none yields anything else.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Arc;

use nix::errno::Errno;
use tracing::Level;

use super::errno::{Access, NO_ATTRIBUTE, NO_SUCH_ATTRIBUTES, Step, TOO_LITTLE_ROOM, errno, level};
use super::parked::{OnSignal, PendingReply};
use super::refusal::{Refusal, unsupported};
use super::reply::Reply;
use super::visitors::Visitors;
use super::wire::{DirectoryBuffer, Fixed, Header, Operation, Request};
use crate::clock::Clock;
use crate::config::limits::READ_SIZE_MAX;
use crate::fs::FileSystem;
use crate::fuse::log::LogLimit;
use crate::fuse::log::ToldFailures;
use crate::fuse::proc::{ClosingThread, opener};
use crate::fuse::proc::{LookingThread, WritingThread};
use crate::operation::{Attributes, FsError, HandleNo, InodeNo, OpenOptions, Opened, WriteOptions};

/// What to do about a request.
pub(super) enum Answer {
    /// Reply now.
    Now(Reply),
    /// Poll this; it becomes the reply.
    Later(PendingReply, OnSignal),
    /// Cancel the operation that answers this request.
    Interrupt { unique: u64 },
    /// Nobody waits.
    Nothing,
}

/// What holds for a whole connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    /// Whether the mount may be changed.
    pub(super) access: Access,
    /// Who may use the mount.
    pub(super) visitors: Visitors,
    /// Whether a file that is read past the page cache can be mapped as shared memory (Linux 6.6).
    /// Where it cannot, only those who ask for `O_DIRECT` are served that way: `mmap` is used more
    /// than it seems.
    pub(super) can_map_direct: bool,
}

/// What an operation is about, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    ino: InodeNo,
    /// A name in it.
    name: Option<&'a OsStr>,
}

impl From<InodeNo> for Subject<'_> {
    fn from(ino: InodeNo) -> Self {
        Self { ino, name: None }
    }
}

impl<'a> From<(InodeNo, &'a OsStr)> for Subject<'a> {
    fn from((ino, name): (InodeNo, &'a OsStr)) -> Self {
        let name = Some(name);
        Self { ino, name }
    }
}

/// Turns requests into operations.
#[derive(Debug)]
pub(super) struct Dispatcher {
    pub(super) fs: Arc<FileSystem>,
    rules: Rules,
    refusals: LogLimit<&'static str>,
    failures: LogLimit<(Step, i32, &'static str)>,
    told: ToldFailures,
}

impl Dispatcher {
    /// A dispatcher to `fs`.
    pub(super) fn new(fs: Arc<FileSystem>, rules: Rules, clock: &Clock) -> Arc<Self> {
        let (refusals, failures) = (LogLimit::new(clock.clone()), LogLimit::new(clock.clone()));
        Arc::new(Self {
            fs,
            rules,
            refusals,
            failures,
            told: ToldFailures::default(),
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
        if self.rules.access == Access::ReadOnly && is_change(operation) {
            let errno = errno(&FsError::ReadOnly, self.rules.access);
            return Answer::Now(Reply::Failed(errno));
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
            // Access control lists and what security modules ask for.
            Operation::ExtendedAttribute { name, .. } if !name.as_bytes().starts_with(b"user.") => {
                return Answer::Now(Reply::Failed(NO_SUCH_ATTRIBUTES));
            }
            Operation::Unsupported(operation) => {
                return unsupported(*operation)
                    .map_or(Answer::Nothing, |errno| Answer::Now(Reply::Failed(errno)));
            }
            Operation::Mutate(mutation) => {
                return self.mutate((ino, header.pid), mutation);
            }
            _ => {}
        }
        if let Operation::Write {
            handle,
            offset,
            data,
        } = *operation
        {
            // A thread of another namespace has no number here: then its file stands for it.
            let thread = match header.pid {
                0 => handle,
                pid => u64::from(pid),
            };
            self.fs.thread_writes(thread, data.0.len());
            return self.write(header, HandleNo(handle), offset, data.0);
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

    /// Whether the one who asks is none of those whom the mount serves. `fstat` names no handle:
    /// that of what is open is let through, but for the root directory, where a walk into the mount
    /// begins.
    fn is_denied(&self, header: &Header, operation: &Operation<'_>) -> bool {
        let ino = InodeNo(header.node);
        let is_of_open_handle = || {
            let asks = matches!(operation, Operation::GetAttributes);
            asks && ino != InodeNo::ROOT && self.fs.is_open(ino)
        };
        self.rules.visitors.refuses(header.uid, operation) && !is_of_open_handle()
    }

    /// The reply that tells `attributes`.
    pub(super) fn attributes(&self, attributes: Attributes) -> Reply {
        Reply::Fixed(Fixed::attributes(&self.rules.visitors.shown(attributes)))
    }

    /// Operations that may have to wait.
    #[expect(clippy::too_many_lines, reason = "one arm for each kind of request")]
    fn later(self: &Arc<Self>, header: &Header, operation: &Operation<'_>) -> Option<PendingReply> {
        let (ino, pid) = (InodeNo(header.node), header.pid);
        let this = Arc::clone(self);
        Some(match *operation {
            Operation::Lookup { name } => this.lookup(ino, name.to_owned(), LookingThread(pid)),
            Operation::GetAttributes => Box::pin(async move {
                let result = this.fs.attributes(ino).await;
                this.reply(Step::Attributes, ino, result, |attributes| {
                    this.attributes(attributes)
                })
            }),
            Operation::Open { flags } => {
                let options = open_options(flags, header.pid);
                Box::pin(async move {
                    let result = if options.write {
                        let options = write_options(flags);
                        this.fs.open_for_writing(ino, options, opener(pid)).await
                    } else if flags.cast_signed() & libc::O_ACCMODE == libc::O_RDWR {
                        let how = write_options(flags);
                        let open = this.fs.open_for_both(ino, options, how, opener(pid));
                        open.await
                    } else {
                        this.fs.open(ino, options).await
                    };
                    // What `touch` does before it sets the times. If the times are refused, the log
                    // says so.
                    let is_try = flags & libc::O_NONBLOCK.cast_unsigned() != 0;
                    let step = if is_try { Step::TryOpen } else { Step::Open };
                    this.opened(step, ino, options, result)
                })
            }
            Operation::Read {
                handle,
                offset,
                size,
                fills_cache,
            } => Box::pin(async move {
                let result = this
                    .fs
                    .read(HandleNo(handle), offset, size, fills_cache)
                    .await;
                this.reply(Step::Read, ino, result, Reply::Data)
            }),
            Operation::ExtendedAttribute { name, size } => {
                this.extended_attribute(ino, name.to_owned(), size)
            }
            Operation::ExtendedAttributes { size } => Box::pin(async move {
                let names = this.fs.extended_attributes(ino).await;
                this.reply(Step::ExtendedAttribute, ino, names, |names| {
                    sized(&names, size)
                })
            }),
            Operation::ReadLink => Box::pin(async move {
                let result = this.fs.read_link(ino).await;
                this.reply(Step::ReadLink, ino, result, Reply::Data)
            }),
            Operation::OpenDirectory => Box::pin(async move {
                let result = this.fs.open_directory(ino).await;
                this.reply(Step::OpenDirectory, ino, result, |handle| {
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
                    this.reply(Step::ReadDirectory, ino, result, |()| {
                        Reply::Bytes(buffer.into_bytes())
                    })
                })
            }
            _ => return this.changing(ino, pid, operation),
        })
    }

    /// Operations that change the bucket and may have to wait.
    fn changing(
        self: Arc<Self>,
        ino: InodeNo,
        pid: u32,
        operation: &Operation<'_>,
    ) -> Option<PendingReply> {
        let this = self;
        Some(match *operation {
            Operation::Create { name, flags, mode } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let options = new_file(flags, mode);
                    let result = this.fs.create(ino, &name, options, opener(pid));
                    this.reply(Step::Create, (ino, &*name), result, |(entry, opened)| {
                        Reply::Fixed(Fixed::created(&entry, &opened))
                    })
                })
            }
            Operation::MakeNode { name, mode } => {
                let name = name.to_owned();
                Box::pin(async move {
                    let result = if mode & libc::S_IFMT == libc::S_IFREG {
                        this.fs.make_file(ino, &name, new_file(0, mode)).await
                    } else {
                        Err(FsError::InvalidArgument(
                            "S3 has no pipes, sockets or devices",
                        ))
                    };
                    this.reply(Step::Create, (ino, &*name), result, |entry| {
                        Reply::Fixed(Fixed::entry(&entry))
                    })
                })
            }
            Operation::Flush { handle } => Box::pin(async move {
                let closing = ClosingThread(pid);
                let result = this.fs.flush(HandleNo(handle), &closing).await;
                this.reply(Step::Flush, ino, result, |()| Reply::Done)
            }),
            Operation::Sync { handle } => Box::pin(async move {
                let result = this.fs.sync(HandleNo(handle)).await;
                this.reply(Step::Sync, ino, result, |()| Reply::Done)
            }),
            _ => return None,
        })
    }

    /// The reply to a LOOKUP, which may say for how long a name is absent.
    fn lookup(self: Arc<Self>, ino: InodeNo, name: OsString, who: LookingThread) -> PendingReply {
        Box::pin(async move {
            let result = self.fs.lookup_for(ino, &name, &who).await;
            if matches!(result, Err(FsError::NotFound)) {
                let negative_ttl = self.fs.negative_ttl(ino, &name);
                if !negative_ttl.is_zero() {
                    return Reply::Fixed(Fixed::absence(negative_ttl));
                }
            }
            self.reply(Step::Lookup, (ino, &*name), result, |entry| {
                Reply::Fixed(Fixed::entry(&entry))
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
            self.reply(Step::ExtendedAttribute, ino, result, |value| {
                value.map_or(Reply::Failed(NO_ATTRIBUTE), |value| sized(&value, size))
            })
        })
    }

    /// A WRITE. Bytes for which there is room go from the request into the file's buffer at once.
    fn write(
        self: &Arc<Self>,
        header: &Header,
        handle: HandleNo,
        offset: u64,
        data: &[u8],
    ) -> Answer {
        let (ino, thread) = (InodeNo(header.node), WritingThread(header.pid));
        let len = u32::try_from(data.len()).expect("a request is shorter than 4 GiB");
        let done = move |()| Reply::Fixed(Fixed::written(len));
        if let Some(result) = self.fs.write_now(handle, offset, data) {
            return Answer::Now(self.reply(Step::Write, ino, result, done));
        }
        let (this, held) = (Arc::clone(self), self.fs.hold(data));
        let pending = async move {
            let goes_on = || thread.goes_on();
            let written = this
                .fs
                .write_in_order(handle, offset, held.bytes(), &goes_on);
            let result = written.await;
            this.reply(Step::Write, ino, result, done)
        };
        Answer::Later(Box::pin(pending), OnSignal::End)
    }

    /// The reply to an OPEN.
    fn opened(
        &self,
        step: Step,
        ino: InodeNo,
        options: OpenOptions,
        result: Result<Opened, FsError>,
    ) -> Reply {
        self.reply(step, ino, result, |mut opened| {
            let must_bypass = options.write || options.direct || opened.grows;
            opened.direct_io &= must_bypass || self.rules.can_map_direct;
            Reply::Fixed(Fixed::opened(&opened))
        })
    }

    /// Operations that never wait.
    fn now(&self, ino: InodeNo, operation: &Operation<'_>) -> Reply {
        match operation {
            Operation::Release { handle } => {
                self.told.released(ino);
                self.fs.release(HandleNo(*handle));
                Reply::Done
            }
            Operation::ReleaseDirectory { handle } => {
                self.fs.release_directory(HandleNo(*handle));
                Reply::Done
            }
            Operation::StatFs => Reply::Fixed(Fixed::statfs(&self.fs.statfs())),
            Operation::SyncDirectory | Operation::Destroy => Reply::Done,
            // INIT a second time, or an operation of another group: the kernel is not what it was.
            _ => Reply::Failed(Errno::EIO),
        }
    }

    pub(super) fn refuse<'a>(&self, what: impl Into<Subject<'a>>, refusal: Refusal) -> Reply {
        if let Some(suppressed) = self.refusals.admit(refusal.reason) {
            let key = self.key_text(what.into());
            tracing::warn!(key, errno = %refusal.errno, suppressed, "{}", refusal.reason);
        }
        Reply::Failed(refusal.errno)
    }

    fn key_text(&self, what: Subject<'_>) -> String {
        let known = self.fs.key_text(what.ino, what.name);
        known.unwrap_or_else(|| format!("(inode {})", what.ino.0))
    }

    pub(super) fn reply<'a, T>(
        &self,
        step: Step,
        what: impl Into<Subject<'a>>,
        result: Result<T, FsError>,
        encode: impl FnOnce(T) -> Reply,
    ) -> Reply {
        match result {
            Ok(value) => encode(value),
            Err(error) => self.failed(step, what.into(), &error),
        }
    }

    fn failed(&self, step: Step, what: Subject<'_>, error: &FsError) -> Reply {
        let errno = errno(error, self.rules.access);
        let is_warning = level(step, error) == Level::WARN;
        if is_warning && self.told.is_news(step, what.ino, &error.to_string()) {
            let kind = (step, errno as i32, flag_in(error));
            if let Some(suppressed) = self.failures.admit(kind) {
                let key = self.key_text(what);
                tracing::warn!(key, %errno, suppressed, "{step} failed: {error}");
            }
        } else {
            tracing::debug!(inode = what.ino.0, name = ?what.name, %errno, "{step} failed: {error}");
        }
        Reply::Failed(errno)
    }
}

/// Which of [`FLAGS`] a refusal names, if any: refusals that need another are of another kind. A
/// file's name in the text makes no kind of its own.
fn flag_in(error: &FsError) -> &'static str {
    let FsError::NotPermitted(text) = error else {
        return "";
    };
    let named = FLAGS.into_iter().find(|flag| text.contains(flag));
    named.unwrap_or_default()
}

/// The flags that permit what is refused without them.
const FLAGS: [&str; 5] = [
    "--allow-overwrite",
    "--allow-append",
    "--allow-delete",
    "--allow-rename",
    "--posix-metadata",
];

/// An extended attribute, or the names of all: their length if the application has no room yet.
fn sized(value: &[u8], size: u32) -> Reply {
    match u32::try_from(value.len()) {
        Ok(len) if size == 0 => Reply::Fixed(Fixed::length(len)),
        Ok(len) if len <= size => Reply::Bytes(value.to_vec()),
        Ok(_) | Err(_) => Reply::Failed(TOO_LITTLE_ROOM),
    }
}

/// Whether an operation is one of those that a file system refuses that is mounted read-only. The
/// kernel lets none through, unless somebody else mounted it, and for writing.
fn is_change(operation: &Operation<'_>) -> bool {
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

/// `open(2)`'s flags in the file system's words.
fn open_options(flags: u32, process: u32) -> OpenOptions {
    let is_set = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    OpenOptions {
        // A file that is opened for both is read until it is changed.
        write: match flags.cast_signed() & libc::O_ACCMODE {
            libc::O_RDONLY => is_set(libc::O_TRUNC),
            libc::O_RDWR => is_set(libc::O_TRUNC) || is_set(libc::O_APPEND),
            _ => true,
        },
        direct: is_set(libc::O_DIRECT),
        process,
    }
}

/// `open(2)`'s flags for a file that is written.
fn write_options(flags: u32) -> WriteOptions {
    let is_set = |flag: libc::c_int| flags & flag.cast_unsigned() != 0;
    WriteOptions {
        truncate: is_set(libc::O_TRUNC),
        exclusive: is_set(libc::O_EXCL),
        append: is_set(libc::O_APPEND),
        // O_SYNC includes O_DSYNC.
        synchronous: is_set(libc::O_DSYNC),
        both: is_set(libc::O_RDWR),
        mode: None,
    }
}

/// The same for a new file with the permission bits of `mode`.
fn new_file(flags: u32, mode: u32) -> WriteOptions {
    WriteOptions {
        mode: u16::try_from(mode & 0o7777).ok(),
        ..write_options(flags)
    }
}

#[cfg(test)]
mod tests {
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    use super::*;
    use crate::config::FsConfig;

    #[test]
    fn files_that_could_not_be_mapped_are_not_opened_past_the_page_cache() {
        let check = |can_map_direct, direct, expected| {
            let client = Arc::new(SimClient::new(SimOptions::default()));
            let config = FsConfig::default();
            let fs = Arc::new(FileSystem::new(client, config, Clock::manual()));
            let rules = Rules {
                access: Access::ReadWrite,
                visitors: Visitors::All,
                can_map_direct,
            };
            let dispatcher = Dispatcher::new(fs, rules, &Clock::manual());
            let opened = Opened {
                handle: HandleNo(1),
                direct_io: true,
                keep_cache: false,
                flush: false,
                grows: false,
            };
            let options = OpenOptions {
                direct,
                ..OpenOptions::default()
            };
            let reply = dispatcher.opened(Step::Open, InodeNo(2), options, Ok(opened));
            let Reply::Fixed(body) = reply else {
                panic!("{reply:?}")
            };
            assert_eq!(
                body,
                Fixed::opened(&Opened {
                    direct_io: expected,
                    ..opened
                })
            );
        };
        check(true, false, true);
        check(true, true, true);
        check(false, false, false);
        check(false, true, true);
    }

    #[test]
    fn a_refusal_is_of_the_kind_of_its_flag_and_not_of_its_file() {
        for (text, flag) in [
            (
                "a file is not removed without --allow-delete",
                "--allow-delete",
            ),
            (
                "an existing file is not replaced without --allow-overwrite",
                "--allow-overwrite",
            ),
            (
                "run--x is not renamed: a copy on the server needs --allow-rename",
                "--allow-rename",
            ),
            ("run--x is being written", ""),
            (
                "run--1 is open for reading: it can be written when it is closed",
                "",
            ),
            ("--allow-nothing", ""),
        ] {
            assert_eq!(
                flag_in(&FsError::NotPermitted(text.to_owned())),
                flag,
                "{text}"
            );
        }
        assert_eq!(flag_in(&FsError::Stale("--allow-delete".to_owned())), "");
    }

    #[test]
    fn flags_of_open() {
        let check = |flags: libc::c_int, write, direct| {
            assert_eq!(
                open_options(flags.cast_unsigned(), 7),
                OpenOptions {
                    write,
                    direct,
                    process: 7
                },
                "{flags:#o}"
            );
        };
        check(libc::O_RDONLY, false, false);
        check(libc::O_RDONLY | libc::O_DIRECT, false, true);
        check(libc::O_WRONLY, true, false);
        check(libc::O_RDWR | libc::O_DIRECT, false, true);
        check(libc::O_RDWR | libc::O_TRUNC, true, false);
        check(libc::O_RDWR | libc::O_APPEND, true, false);
        check(libc::O_RDONLY | libc::O_TRUNC, true, false);
    }
}
