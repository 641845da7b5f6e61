//! Flags of writing, caching and metrics: known, checked, and refused until they do something.
//!
//! A flag that would change what the mount may do must not be swallowed. [`LaterFlags::refusals`] says for each
//! that was given what this version does instead; nothing is mounted then.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, value_parser};

use super::client_flags::PART_MAX;
use super::values::parse_kms_key;
use super::{BucketArg, BucketArgError};

/// Flags under "Not in this version".
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_help_heading = "Not in this version: checked, then refused with what it does instead",
    // A disk and a bucket may cache at the same time.
    group = ArgGroup::new("cache_group").args(["cache", "cache_xz"]).multiple(true)
)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line that we are compatible with"
)]
pub struct LaterFlags {
    /// Let files be removed
    #[arg(long)]
    pub allow_delete: bool,

    /// Let files be replaced
    #[arg(long)]
    pub allow_overwrite: bool,

    /// Append to objects of S3 Express One Zone
    #[arg(long)]
    pub incremental_upload: bool,

    /// Storage class of new objects
    #[arg(long, value_name = "CLASS")]
    pub storage_class: Option<String>,

    /// Encryption of new objects
    #[arg(long, value_name = "ALGORITHM")]
    pub sse: Option<Sse>,

    /// KMS key that new objects are encrypted with
    #[arg(long, value_name = "AWS_KMS_KEY_ARN", requires = "sse", value_parser = parse_kms_key)]
    pub sse_kms_key_id: Option<String>,

    /// Checksum of uploads
    #[arg(long, value_name = "ALGORITHM")]
    pub upload_checksums: Option<UploadChecksums>,

    /// Set the content type of new objects by the extension of their name
    #[arg(long)]
    pub infer_content_type: bool,

    /// Part size of uploads, in bytes
    #[arg(long, value_name = "SIZE", value_parser = value_parser!(u64).range(WRITE_PART_MIN..=PART_MAX))]
    pub write_part_size: Option<u64>,

    /// Keep content in this directory
    #[arg(long, value_name = "DIRECTORY")]
    pub cache: Option<PathBuf>,

    /// Most space for --cache
    #[arg(long, value_name = "MiB", requires = "cache")]
    pub max_cache_size: Option<u64>,

    /// Keep content in this bucket of S3 Express One Zone
    #[arg(long, value_name = "BUCKET", value_parser = parse_cache_bucket)]
    pub cache_xz: Option<BucketArg>,

    /// Block size of the caches
    #[arg(long, value_name = "KiB", requires = "cache_group", value_parser = value_parser!(u64).range(1..))]
    pub cache_block_size: Option<u64>,

    /// Log a summary of metrics every 5 s
    #[arg(long)]
    pub log_metrics: bool,

    /// Send metrics to this OpenTelemetry collector
    #[arg(long, value_name = "ENDPOINT")]
    pub otlp_endpoint: Option<String>,

    /// How often metrics are sent
    #[arg(long, value_name = "SECONDS", requires = "otlp_endpoint", value_parser = value_parser!(u64).range(1..))]
    pub otlp_export_interval: Option<u64>,
}

/// Value of `--sse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sse {
    /// A key of the Key Management Service
    #[value(name = "aws:kms")]
    Kms,
    /// A key of the Key Management Service, two layers
    #[value(name = "aws:kms:dsse")]
    KmsDsse,
    /// A key of S3's own
    #[value(name = "AES256")]
    Aes256,
}

/// Value of `--upload-checksums`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UploadChecksums {
    /// CRC32C of each part
    Crc32c,
    /// CRC64NVME of the object
    Crc64nvme,
    /// None
    Off,
}

impl LaterFlags {
    /// What a user who gave these flags must know: one text for each that this version cannot honour.
    #[must_use]
    pub fn refusals(&self) -> Vec<String> {
        let given = [
            ("allow-delete", self.allow_delete, READ_ONLY),
            ("allow-overwrite", self.allow_overwrite, READ_ONLY),
            ("incremental-upload", self.incremental_upload, READ_ONLY),
            ("storage-class", self.storage_class.is_some(), READ_ONLY),
            ("sse", self.sse.is_some(), NO_UPLOAD_ENCRYPTION),
            (
                "sse-kms-key-id",
                self.sse_kms_key_id.is_some(),
                NO_UPLOAD_ENCRYPTION,
            ),
            (
                "upload-checksums",
                self.upload_checksums.is_some(),
                READ_ONLY,
            ),
            ("infer-content-type", self.infer_content_type, READ_ONLY),
            (
                "write-part-size",
                self.write_part_size.is_some(),
                WRITE_PART,
            ),
            ("cache", self.cache.is_some(), NO_CACHE),
            ("max-cache-size", self.max_cache_size.is_some(), NO_CACHE),
            ("cache-xz", self.cache_xz.is_some(), NO_CACHE),
            (
                "cache-block-size",
                self.cache_block_size.is_some(),
                NO_CACHE,
            ),
            ("log-metrics", self.log_metrics, NO_METRICS),
            ("otlp-endpoint", self.otlp_endpoint.is_some(), NO_METRICS),
            (
                "otlp-export-interval",
                self.otlp_export_interval.is_some(),
                NO_METRICS,
            ),
        ];
        given
            .into_iter()
            .filter(|(_, given, _)| *given)
            .map(|(flag, _, instead)| {
                format!("--{flag} is not in this version, which {instead}: leave the flag out")
            })
            .collect()
    }

    /// A combination that the values alone do not exclude.
    pub(super) fn conflict(&self) -> Option<&'static str> {
        (self.sse == Some(Sse::Aes256) && self.sse_kms_key_id.is_some())
            .then_some("--sse-kms-key-id cannot be used with --sse AES256, which has no key")
    }
}

const READ_ONLY: &str = "mounts read-only";
const NO_UPLOAD_ENCRYPTION: &str =
    "mounts read-only and reads objects whatever they are encrypted with";
const WRITE_PART: &str = "mounts read-only; --read-part-size sets the ranges of reads";
const NO_CACHE: &str = "keeps content in memory only (--memory-target sets how much)";
const NO_METRICS: &str = "has no metrics; --debug logs what the mount does";

/// S3's own bound of a part.
const WRITE_PART_MIN: u64 = 5 << 20;

fn parse_cache_bucket(text: &str) -> Result<BucketArg, String> {
    let bucket: BucketArg = text
        .parse()
        .map_err(|error: BucketArgError| error.to_string())?;
    if bucket.prefix.is_empty() {
        Ok(bucket)
    } else {
        Err("a cache is a whole bucket, without a prefix".to_owned())
    }
}
