//! The local disk: folders of this user alone, their files and locks.
//!
//! [`Disk`] is what the cache and staged writes need of a folder. It has one implementation,
//! [`Folder`], and one simulation, `test_disk`. Knows no format but what all have in common:
//! `record`. Every call may wait for a slow disk: no thread that serves requests makes one.

mod disk;
mod error;
mod folder;
mod local_file;
mod lock;
mod record;
#[cfg(any(test, fuzzing))]
#[cfg_attr(fuzzing, expect(dead_code, reason = "fuzz targets need a part of it"))]
pub(crate) mod test_disk;
#[cfg(any(test, fuzzing))]
mod test_file;

pub(crate) use self::disk::{Disk, DiskFile, DiskSpace, FileStatus};
pub(crate) use self::error::{DirectoryError, DirectoryUse};
pub(crate) use self::folder::Folder;
pub(crate) use self::lock::{lock_within, try_lock, try_lock_shared};
pub(crate) use self::record::{CHECKSUM_LEN, Fields, checksum, seal, unseal};

#[cfg(test)]
mod tests;
