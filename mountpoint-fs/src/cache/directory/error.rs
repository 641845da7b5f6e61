//! Why a directory cannot hold the cache, and what the user can do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The refusal of a cache directory.
#[derive(Debug, Error)]
pub(crate) enum DirectoryError {
    /// Something else has the name.
    #[error("the cache directory {} is not a directory: name another one with --cache", .0.display())]
    NotADirectory(PathBuf),
    /// A link could lead anywhere, and later elsewhere.
    #[error(
        "the cache directory {} is a symbolic link, which a cache does not follow: name its target ({}) with --cache",
        .path.display(), .target.display()
    )]
    SymbolicLink {
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The owner could read the cache, or have it return other bytes.
    #[error(
        "{} belongs to user {owner}, and this process runs as user {user}: name a directory of your own with --cache",
        .path.display()
    )]
    OthersOwn {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user.
        user: u32,
    },
    /// A user who may write there could have the cache return other bytes.
    #[error(
        "other users may write to {path} (mode {mode:04o}), and so could change what the cache returns: if you trust \
         what is in it, run `chmod go-w {path}`; else remove it",
        path = .path.display()
    )]
    OthersWrite {
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Reading the cache would wait for the mount, and so for itself.
    #[error(
        "the cache directory {} is on the mount itself: name one on a local disk with --cache",
        .0.display()
    )]
    Inside(PathBuf),
    /// Another program has locked it exclusively.
    #[error("{} is locked by another program, which `fuser -v {}` names", .0.display(), .0.display())]
    Locked(PathBuf),
    /// Without locks, processes could not share it.
    #[error(
        "{} cannot be locked: {}. Name a directory on a local disk with --cache",
        .0.display(), .1
    )]
    Unlockable(PathBuf, #[source] io::Error),
    /// The system refused a step.
    #[error("{what}, {}: {error}{}", .path.display(), remedy(.error))]
    Unusable {
        /// Where.
        path: PathBuf,
        /// The step that failed.
        what: &'static str,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
}

impl DirectoryError {
    pub(super) fn unusable(path: &Path, what: &'static str, error: io::Error) -> Self {
        Self::Unusable {
            path: path.to_owned(),
            what,
            error,
        }
    }
}

/// What helps against the system's reason.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            ". Name a directory that this user may write to with --cache"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            ". Name a directory on a disk that can be written with --cache"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            ". Free some space, or name a directory on another disk with --cache"
        }
        _ => "",
    }
}
