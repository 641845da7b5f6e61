//! Content that is kept on a local disk.

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum, value_parser};

use crate::config::{CacheConfig, PassthroughMode};

/// Flags under "Cache options".
#[derive(Clone, Debug, Default, Args)]
#[command(
    next_help_heading = "Cache options",
    // A disk and a bucket may cache at the same time.
    group = ArgGroup::new("cache_group").args(["cache", "cache_xz"]).multiple(true)
)]
pub struct CacheFlags {
    /// Keep what is read in this directory of a local disk, also for later mounts; mounts of one
    /// user may share it. Sets --metadata-ttl 60 unless that is given
    #[arg(long, value_name = "DIRECTORY")]
    pub cache: Option<PathBuf>,

    /// Most space for --cache; 0 keeps nothing [default: all but 5 % of the file system]
    #[arg(long, value_name = "MiB", requires = "cache")]
    pub max_cache_size: Option<u64>,

    /// Empty --cache when the mount ends
    #[arg(long, requires = "cache")]
    pub cache_cleanup: bool,

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
