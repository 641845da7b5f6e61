//! The command line of `mount-s3`: parsing and checking, without side effects.
//!
//! One struct of flags for each heading of `--help`. [`Invocation`] holds the purpose of the
//! arguments.

mod args;
mod bucket;
mod bucket_flags;
mod client_flags;
mod credentials_flags;
mod fstab;
mod generate;
mod invocation;
mod later_flags;
mod logging_flags;
mod metadata_flags;
mod mount_flags;
mod values;
mod write_flags;

pub use args::{CliArgs, VERSION};
pub use bucket::{BucketArg, BucketArgError};
pub use bucket_flags::{BucketFlags, BucketTypeArg};
pub use client_flags::ClientFlags;
pub use credentials_flags::CredentialsFlags;
pub use generate::man_page;
pub use invocation::{Invocation, Shell};
pub use later_flags::LaterFlags;
pub use logging_flags::LoggingFlags;
pub use metadata_flags::MetadataFlags;
pub use mount_flags::{MountFlags, ReadModeArg};
pub use values::TimeToLive;
pub(crate) use values::parse_endpoint;
pub use write_flags::{Sse, UploadChecksums, WriteFlags};
