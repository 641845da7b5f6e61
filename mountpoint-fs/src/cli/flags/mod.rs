//! One struct of flags for each heading of `--help`, and how their values are read.

mod bucket;
mod cache;
mod client;
mod credentials;
mod logging;
mod metadata;
mod metrics;
mod mount;
mod staging;
mod values;
mod write;

pub use bucket::{BucketFlags, BucketTypeArg};
pub use cache::{CacheFlags, CachePassthrough};
pub use client::ClientFlags;
pub use credentials::CredentialsFlags;
pub use logging::LoggingFlags;
pub use metadata::MetadataFlags;
pub use metrics::{ListenAddress, MetricsFlags};
pub use mount::{MountFlags, ReadModeArg};
pub use staging::{OnConflict, StagingFlags};
pub use values::TimeToLive;
pub(crate) use values::{mebibytes, parse_endpoint, seconds};
pub use write::{Sse, UploadChecksums, WriteFlags};
