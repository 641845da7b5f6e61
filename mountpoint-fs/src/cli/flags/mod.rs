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

use clap::Args;

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
pub(crate) use values::{mebibytes, parse_endpoint, seconds, short_time};
pub use write::{Sse, UploadChecksums, WriteFlags};

/// The flags by which a helper command reaches a bucket as a mount does.
#[derive(Clone, Debug, Args)]
pub struct StoreFlags {
    /// The bucket and its address.
    #[command(flatten)]
    pub bucket: BucketFlags,

    /// The credentials.
    #[command(flatten)]
    pub credentials: CredentialsFlags,

    /// The client of S3.
    #[command(flatten)]
    pub client: ClientFlags,

    /// Without effect, as all sizes of parts of uploads: these commands write nothing to the
    /// bucket.
    #[arg(long, hide = true)]
    write_part_size: Option<u64>,
}
