//! The log lines of operations that fail or are refused.
//!
//! A failure is logged once for each inode while it is open, and each kind within a limit of time.

use std::ffi::OsStr;
use std::sync::Arc;

use tracing::Level;

use super::refusal::Refusal;
use crate::clock::Clock;
use crate::fs::FileSystem;
use crate::fuse::errno::{Access, FuseOperation, errno, level};
use crate::fuse::log::{LogLimit, LoggedFailures};
use crate::fuse::reply::Reply;
use crate::operation::{FsError, InodeNo};

/// The subject of an operation, for the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Subject<'a> {
    ino: InodeNo,
    /// A name in that directory.
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

/// The failures and refusals of a mount.
#[derive(Debug)]
pub(super) struct FailureLog {
    /// Used for the keys of inodes.
    fs: Arc<FileSystem>,
    access: Access,
    refusals: LogLimit<&'static str>,
    failures: LogLimit<(FuseOperation, i32, &'static str)>,
    logged: LoggedFailures,
}

impl FailureLog {
    pub(super) fn new(fs: &Arc<FileSystem>, access: Access, clock: &Clock) -> Self {
        Self {
            fs: Arc::clone(fs),
            access,
            refusals: LogLimit::new(clock.clone()),
            failures: LogLimit::new(clock.clone()),
            logged: LoggedFailures::default(),
        }
    }

    /// Notes that a handle of `ino` was released: its next failure is logged again.
    pub(super) fn released(&self, ino: InodeNo) {
        self.logged.released(ino);
    }

    /// Refuses an operation. Each reason is logged, within a limit.
    pub(super) fn refuse(&self, what: Subject<'_>, refusal: Refusal) -> Reply {
        if let Some(suppressed) = self.refusals.admit(refusal.reason) {
            let key = self.key_text(what);
            tracing::warn!(key, errno = %refusal.errno, suppressed, "{}", refusal.reason);
        }
        Reply::Failed(refusal.errno)
    }

    fn key_text(&self, what: Subject<'_>) -> String {
        let known = self.fs.key_text(what.ino, what.name);
        known.unwrap_or_else(|| format!("(inode {})", what.ino.0))
    }

    /// The reply to an operation that failed with `error`, which is logged if it is new.
    pub(super) fn failed(
        &self,
        operation: FuseOperation,
        what: Subject<'_>,
        error: &FsError,
    ) -> Reply {
        let errno = errno(error, self.access);
        let is_warning = level(operation, error) == Level::WARN;
        if is_warning && self.logged.is_news(operation, what.ino, &error.to_string()) {
            let kind = (operation, errno as i32, flag_in(error));
            if let Some(suppressed) = self.failures.admit(kind) {
                let key = self.key_text(what);
                tracing::warn!(key, %errno, suppressed, "{operation} failed: {error}");
            }
        } else {
            tracing::debug!(inode = what.ino.0, name = ?what.name, %errno, "{operation} failed: {error}");
        }
        Reply::Failed(errno)
    }
}

/// The flag of [`FLAGS`] that a refusal names, if any. Refusals with another flag are of another
/// kind; a file's name in the text does not matter.
fn flag_in(error: &FsError) -> &'static str {
    let FsError::NotPermitted(text) = error else {
        return "";
    };
    let named = FLAGS.into_iter().find(|flag| text.contains(flag));
    named.unwrap_or_default()
}

/// The flags that permit operations which are refused without them.
const FLAGS: [&str; 5] = [
    "--allow-overwrite",
    "--allow-append",
    "--allow-delete",
    "--allow-rename",
    "--posix-metadata",
];

#[cfg(test)]
mod tests {
    use super::*;

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
}
