//! Listings of directories that outlive the mount.
//!
//! `format` is a listing in a file, `marks` tell until when listings do not count because a mount
//! has changed the directory, `folder` has the files, and `listing_store` the threads and the
//! order: a mark is on the disk before a change is acknowledged, and what is older does not count.
//! Nothing here makes an operation fail: what the disk does not have comes from S3.

mod folder;
mod format;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod listing_store;
mod marks;
mod shared_time;

pub(super) use folder::{clear, remove_all};
pub(crate) use format::SavedName;
pub(crate) use listing_store::{ListingStore, SavedListing};

#[cfg(test)]
mod tests;
