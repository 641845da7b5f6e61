//! Why a directory cannot be used, and what the user can do.

use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The use of a directory, for texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryUse {
    /// Its noun, as "cache".
    pub(crate) name: &'static str,
    /// The flag that names the directory.
    pub(crate) flag: &'static str,
}

/// The refusal of a directory.
#[derive(Debug, Error)]
pub(crate) enum DirectoryError {
    /// Something else has the name.
    #[error("the {} directory {} is not a directory: name another one with {}", .of.name, .path.display(), .of.flag)]
    NotADirectory {
        /// Its use.
        of: DirectoryUse,
        /// The name.
        path: PathBuf,
    },
    /// A link could lead anywhere, and later elsewhere.
    #[error(
        "the {name} directory {} is a symbolic link, which a {name} does not follow: name its target ({}) with {}",
        .path.display(), .target.display(), .of.flag, name = .of.name
    )]
    SymbolicLink {
        /// Its use.
        of: DirectoryUse,
        /// The link.
        path: PathBuf,
        /// Where it leads.
        target: PathBuf,
    },
    /// The owner could read what is in it, or change it.
    #[error(
        "{} belongs to user {owner}, and this process runs as user {user}: name a directory of your own with {}",
        .path.display(), .of.flag
    )]
    OthersOwn {
        /// Its use.
        of: DirectoryUse,
        /// The directory.
        path: PathBuf,
        /// Its owner.
        owner: u32,
        /// The effective user.
        user: u32,
    },
    /// A user who may write there could change what is in it.
    #[error(
        "other users may write to {path} (mode {mode:04o}), and so could change what the {name} returns: if you trust \
         what is in it, run `chmod go-w {path}`; else remove it",
        path = .path.display(), name = .of.name
    )]
    OthersWrite {
        /// Its use.
        of: DirectoryUse,
        /// The directory.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Its use would wait for the mount, and so for itself.
    #[error(
        "the {} directory {} is on the mount itself: name one on a local disk with {}",
        .of.name, .path.display(), .of.flag
    )]
    Inside {
        /// Its use.
        of: DirectoryUse,
        /// The directory.
        path: PathBuf,
    },
    /// Another program has locked it exclusively.
    #[error("{} is locked by another program, which `fuser -v {}` names", .0.display(), .0.display())]
    Locked(PathBuf),
    /// Without locks, processes could not know of each other.
    #[error(
        "{} cannot be locked: {error}. Name a directory on a local disk with {}",
        .path.display(), .of.flag
    )]
    Unlockable {
        /// Its use.
        of: DirectoryUse,
        /// The lock.
        path: PathBuf,
        /// The system's reason.
        #[source]
        error: io::Error,
    },
    /// The system refused a step.
    #[error("{what}, {}: {error}{}", .path.display(), remedy(.error, *.of))]
    Unusable {
        /// Its use.
        of: DirectoryUse,
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
    /// The system's refusal of the step `what`.
    pub(crate) fn unusable(
        of: DirectoryUse,
        path: &Path,
        what: &'static str,
        error: io::Error,
    ) -> Self {
        Self::Unusable {
            of,
            path: path.to_owned(),
            what,
            error,
        }
    }
}

impl From<DirectoryError> for String {
    /// The text for the user.
    fn from(refused: DirectoryError) -> Self {
        refused.to_string()
    }
}

impl From<DirectoryError> for io::Error {
    fn from(refused: DirectoryError) -> Self {
        match refused {
            DirectoryError::Unusable { error, .. } => error,
            refused => Self::other(refused),
        }
    }
}

/// The remedy against the system's reason.
fn remedy(error: &io::Error, of: DirectoryUse) -> String {
    let flag = of.flag;
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            format!(". Name a directory that this user may write to with {flag}")
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            format!(". Name a directory on a disk that can be written with {flag}")
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            format!(". Free some space, or name a directory on another disk with {flag}")
        }
        _ => String::new(),
    }
}
