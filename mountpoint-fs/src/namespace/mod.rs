//! Names: the key of a file, the inode of a name, and S3's last answer about it.
//!
//! [`Namespace`] turns names into requests and answers into inodes; [`Listing`] enumerates one
//! directory. Neither knows open files, bytes or the kernel's messages.
//!
//! Invariants: an inode is one *version* of one file, or one directory, and never becomes another;
//! its number is never used again. A lookup count rises only in the step that returns it to the
//! caller, so a future that is dropped while it waits leaks none. The one lock that is held
//! anywhere is never held across an `.await`.
//!
//! Runs on whatever thread polls it.

mod change;
mod facade;
mod inodes;
mod known;
mod listing;
mod moment;
mod names;
mod open;
mod refusals;
mod resolve;
mod single_flight;
mod version;
mod xattrs;

pub use change::KeyLockGuard;
pub use facade::{Created, DirectoryMarker, NameChange, Namespace, NextSibling, Standing};
pub use inodes::AttributeStyle;
pub use listing::{AheadBudget, AllKeys, Listed, Listing, Page, WalkStats};
pub use open::{OpenVersion, Proof};
pub use version::{Found, Version};

/// Bounds that tests of the file system name.
#[cfg(test)]
pub(crate) mod bounds {
    pub(crate) use super::facade::{LISTING_AGE_MAX, RENAME_WAIT_MAX};
    pub(crate) use super::listing::{LIST_AHEAD_PAGES_MAX, LIST_REQUESTS_MAX, WALK_AGE_MAX};
    pub(crate) use super::open::OPEN_FETCH_MAX;
    pub(crate) use super::resolve::{BATCH_LOOKUPS, FIRST_BYTES_FAILED_AGE, FIRST_BYTES_LEN};
}
