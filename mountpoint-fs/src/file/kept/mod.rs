//! Versions of files that could not be stored, and stay in the directory until the user removes
//! them.
//!
//! A version is `ID.json`, its description, and `ID.1` and `ID.2`, its data files. The description
//! comes last, so a version that is named is whole.

mod description;
mod export;
#[cfg(any(test, fuzzing))]
pub(super) mod fuzz;
mod keep;
mod recorded;
mod unknown;
mod versions;

pub(super) use description::{BaseVersion, KeptRange};
pub(crate) use description::{Description, FORMAT, KeptPlace};
#[cfg(test)]
pub(super) use export::BaseFetch;
pub(crate) use export::{LocalRead, export, read_files};
pub(super) use keep::{Kept, keep};
pub(super) use recorded::keep_version;
pub(super) use unknown::keep_unknown;
pub(crate) use versions::{DirectoryState, KeptVersion, KeptVersions};
