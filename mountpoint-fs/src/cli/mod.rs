//! The command line of `mount-s3`: parsing and checking, without side effects.
//!
//! `flags` has one struct for each heading of `--help`. [`Invocation`] holds the purpose of the
//! arguments.

mod args;
mod bucket;
mod complete;
mod flags;
mod fstab;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod generate;
mod helper;
mod invocation;
mod mount_like;
mod page;

pub use args::{CliArgs, VERSION};
pub use bucket::{BucketArg, BucketArgError};
pub use flags::{
    BucketFlags, BucketTypeArg, CacheFlags, CachePassthrough, ClientFlags, CredentialsFlags,
    ListenAddress, LoggingFlags, MetadataFlags, MetricsFlags, MountFlags, OnConflict, ReadModeArg,
    Sse, StagingFlags, StoreFlags, TimeToLive, UploadChecksums, WriteFlags,
};
pub(crate) use flags::{mebibytes, parse_endpoint, seconds, short_time};
pub use fstab::fstab_entry;
pub use generate::{completion_candidates, completions, man_page};
pub use helper::{HELPER_NAMES, Helper};
pub use invocation::{Invocation, Shell};
pub use mount_like::{Flag, flags_given, mount_arguments, text_given};
pub use page::page_of;
