//! Content that is kept on a local disk, and in a bucket that mounts share.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, value_parser};

use super::values::{mebibytes, parse_endpoint};
use crate::cli::{BucketArg, BucketArgError};
use crate::config::{CacheConfig, PassthroughMode, SharedCacheConfig};

/// Flags under "Cache options".
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_help_heading = "Cache options",
    // A disk and a bucket may cache at the same time.
    group = ArgGroup::new("cache_group").args(["cache", "cache_xz", "cache_bucket"]).multiple(true),
    group = ArgGroup::new("shared_cache_group").args(["cache_xz", "cache_bucket"])
)]
pub struct CacheFlags {
    /// Keep what is read in this directory of a local disk, also for later mounts; mounts of one
    /// user may share it. Sets --metadata-ttl 60 unless that is given
    #[arg(long, value_name = "DIRECTORY")]
    pub cache: Option<PathBuf>,

    /// Most space for --cache; 0 keeps nothing [default: all but 5 % of the file system]
    #[arg(long, value_name = "MiB", requires = "cache", value_parser = mebibytes(0..=u64::MAX))]
    pub max_cache_size: Option<u64>,

    /// Empty --cache when the mount ends
    #[arg(long, requires = "cache")]
    pub cache_cleanup: bool,

    /// Keep what is read in this bucket of S3 Express One Zone for all mounts that name it; with
    /// --cache, behind the disk. Sets --metadata-ttl 60 unless that is given
    #[arg(long, value_name = "BUCKET", value_parser = parse_cache_bucket)]
    pub cache_xz: Option<BucketArg>,

    /// As --cache-xz, in any bucket of S3 or of an S3-compatible server
    #[arg(long, value_name = "s3://BUCKET/PREFIX/", value_parser = parse_shared_bucket)]
    pub cache_bucket: Option<BucketArg>,

    /// Server of --cache-bucket or --cache-xz [default: that of --endpoint-url]
    #[arg(long, value_name = "URL", requires = "shared_cache_group", value_parser = parse_endpoint)]
    pub cache_endpoint_url: Option<String>,

    /// Whether the kernel itself reads files that are whole in --cache
    #[arg(long, value_name = "MODE", value_enum, default_value_t = CachePassthrough::Auto)]
    pub cache_passthrough: CachePassthrough,

    /// Accepted; exactly what was fetched is kept
    #[arg(long, value_name = "KiB", requires = "cache_group", value_parser = value_parser!(u64).range(1..))]
    pub cache_block_size: Option<u64>,
}

/// Value of `--cache-passthrough`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum CachePassthrough {
    /// Where kernel and privileges allow
    #[default]
    Auto,
    /// As auto, and the log warns where they do not
    On,
    /// Never: every read is checked
    Off,
}

impl From<CachePassthrough> for PassthroughMode {
    fn from(mode: CachePassthrough) -> Self {
        match mode {
            CachePassthrough::Auto => Self::Auto,
            CachePassthrough::On => Self::On,
            CachePassthrough::Off => Self::Off,
        }
    }
}

impl CacheFlags {
    /// The cache that the flags select. `key` names a part of the directory for those who give it,
    /// and `keeps_at_exit` overrides `--cache-cleanup`.
    #[must_use]
    pub fn config(&self, key: Option<String>, keeps_at_exit: bool) -> Option<CacheConfig> {
        let directory = self.cache.as_ref()?;
        if self.max_cache_size == Some(0) {
            return None;
        }
        Some(CacheConfig {
            // A background process leaves its working directory, so the path must be absolute.
            directory: std::path::absolute(directory).unwrap_or_else(|_| directory.clone()),
            bytes_max: self.max_cache_size.map(|mib| mib.saturating_mul(1 << 20)),
            key,
            clear_at_exit: self.cache_cleanup && !keeps_at_exit,
        })
    }

    /// The shared cache that the flags select.
    #[must_use]
    pub fn shared_config(&self) -> Option<SharedCacheConfig> {
        let (flag, bucket) = match (&self.cache_xz, &self.cache_bucket) {
            (Some(bucket), _) => ("--cache-xz", bucket),
            (None, Some(bucket)) => ("--cache-bucket", bucket),
            (None, None) => return None,
        };
        Some(SharedCacheConfig {
            flag,
            bucket: bucket.name.clone(),
            prefix: bucket.prefix.clone(),
            endpoint_url: self.cache_endpoint_url.clone(),
        })
    }

    /// Whether anything that is read is kept.
    #[must_use]
    pub fn keeps_content(&self) -> bool {
        self.cache.is_some() || self.cache_xz.is_some() || self.cache_bucket.is_some()
    }

    /// Differences between the flags and the mount's behaviour.
    pub(in crate::cli) fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.cache_block_size.is_some() {
            warnings.push(
                "--cache-block-size has no effect: the cache keeps exactly the ranges that were fetched".to_owned(),
            );
        }
        if self.max_cache_size == Some(0) {
            warnings.push("--max-cache-size 0: nothing is kept in --cache".to_owned());
        }
        warnings
    }
}

fn parse_cache_bucket(text: &str) -> Result<BucketArg, String> {
    let bucket = parse_shared_bucket(text)?;
    if bucket.prefix.is_empty() {
        Ok(bucket)
    } else {
        Err("a cache is a whole bucket, without a prefix; --cache-bucket takes one".to_owned())
    }
}

fn parse_shared_bucket(text: &str) -> Result<BucketArg, String> {
    text.parse()
        .map_err(|error: BucketArgError| error.to_string())
}
