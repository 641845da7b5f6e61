//! The machine as an EC2 instance: its metadata service, its type, the throughput of its network.
//!
//! Knows no S3. Everything here is optional: a machine that is no instance loses no time over it.

mod kind;
mod metadata;
mod throughput;

pub use kind::MetadataUse;
pub(crate) use kind::instance_type;
pub(crate) use metadata::metadata_client;
pub use throughput::instance_throughput_gbps;
