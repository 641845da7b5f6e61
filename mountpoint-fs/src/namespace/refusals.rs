//! Why a file cannot be had under its name.

use crate::operation::FsError;

/// The error of a name whose object is another one by now, or gone.
pub(super) fn replaced(what: &str) -> FsError {
    FsError::Stale(format!("{what} was replaced or deleted in the bucket"))
}

/// Why a file that is being written cannot be had.
pub(super) fn being_written(name: &str) -> FsError {
    FsError::NotPermitted(format!(
        "{name} is being written: it can be opened, removed and renamed when its writer has closed it"
    ))
}
