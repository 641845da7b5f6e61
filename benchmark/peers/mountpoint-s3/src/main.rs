//! Mounts a bucket with the published library crates of mountpoint-s3, so that the benchmark has
//! the reference beside it without downloading a binary.
//!
//! Only wiring is ours. Every setting is the default of the reference's own command line: 8 MiB
//! parts, 10 Gbit/s, 16 session threads, 95 % of the memory, no cache, metadata lifetime "minimal",
//! jemalloc; with a cache blocks of 1 MiB, 5 % of the disk free, metadata for 60 s. The instance
//! lookup is left out, because its result off EC2 is the same default.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Parser;
use mountpoint_s3_client::config::{AddressingStyle, S3ClientAuthConfig, TlsConfig};
use mountpoint_s3_client::user_agent::UserAgent;
use mountpoint_s3_fs::data_cache::{
    CacheLimit, DataCacheConfig, DiskDataCacheConfig, ManagedCacheDir,
};
use mountpoint_s3_fs::fs::{CacheConfig, TimeToLive};
use mountpoint_s3_fs::fuse::config::{FuseOptions, FuseSessionConfig, MountPoint};
use mountpoint_s3_fs::logging::{LoggingConfig, init_logging};
use mountpoint_s3_fs::memory::{CandidateSize, PagedPool, effective_total_memory};
use mountpoint_s3_fs::s3::config::{
    ClientConfig, MemoryLimitSetting, PartConfig, Region, TargetThroughputSetting,
};
use mountpoint_s3_fs::s3::{Bucket, Prefix, S3Path};
use mountpoint_s3_fs::{
    MountpointConfig, Runtime, S3FilesystemConfig, Superblock, SuperblockConfig, metrics,
};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The crates that decide how it behaves; the lock file pins them.
const VERSION: &str = "mountpoint-s3-fs 0.11.0, mountpoint-s3-client 0.22.1 (library crates)";
const PART_SIZE: usize = 8 * 1024 * 1024;
const CACHE_BLOCK_SIZE: usize = 1024 * 1024;
const METADATA_LIFETIME_WITH_CACHE: Duration = Duration::from_secs(60);
const SESSION_THREADS_MAX: usize = 16;
const MEMORY_SHARE: f64 = 0.95;

#[derive(Debug, Parser)]
#[command(about, version = VERSION)]
struct Arguments {
    /// The bucket to mount
    bucket: String,
    /// An existing directory
    directory: PathBuf,
    /// Address of the S3 server
    #[arg(long)]
    endpoint_url: String,
    /// Always so; accepted so that the reference's own binary can stand in for this one
    #[arg(long)]
    force_path_style: bool,
    /// Always so; accepted for the same reason
    #[arg(long)]
    foreground: bool,
    /// Authorities to trust instead of the operating system's
    #[arg(long, env = "AWS_CA_BUNDLE")]
    ca_bundle: Option<PathBuf>,
    /// Region to sign for
    #[arg(long, default_value = "us-east-1")]
    region: String,
    /// Keep what was read in a folder below this one, until the end
    #[arg(long, value_name = "DIRECTORY")]
    cache: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let _logging = init_logging(LoggingConfig {
        log_file: None,
        log_to_stdout: true,
        default_filter: "warn,awscrt=off".to_owned(),
    })
    .context("logging")?;
    let _metrics = metrics::install(None).context("metrics")?;

    let memory =
        MemoryLimitSetting::Default((effective_total_memory() as f64 * MEMORY_SHARE) as usize);
    let part_config = PartConfig::with_part_size(PART_SIZE).validate(memory)?;
    let pool = PagedPool::config()
        .with_candidate_sizes([
            CandidateSize::prunable(part_config.read_size_bytes),
            CandidateSize::new(part_config.write_size_bytes),
            CandidateSize::new(CACHE_BLOCK_SIZE),
        ])
        .with_memory_limit(memory.bytes())
        .build();

    let path = S3Path::new(Bucket::new(arguments.bucket)?, Prefix::empty());
    let client = ClientConfig {
        region: Region::new_user_specified(arguments.region),
        endpoint_url: Some(arguments.endpoint_url),
        addressing_style: AddressingStyle::Path,
        dual_stack: false,
        transfer_acceleration: false,
        auth_config: S3ClientAuthConfig::Default,
        requester_pays: false,
        expected_bucket_owner: None,
        throughput_target: TargetThroughputSetting::Default,
        bind: None,
        part_config,
        user_agent: UserAgent::new(None),
        tls_config: arguments
            .ca_bundle
            .map(|path| TlsConfig::new().with_trust_store_path(path)),
    }
    .create_client(pool.clone(), Some(&path))?;
    let runtime = Runtime::new(client.event_loop_group());

    // Removes the folder's contents when it is dropped, as the reference does.
    let cache_folder = arguments.cache.as_deref().map(cache_folder).transpose()?;
    let filesystem = S3FilesystemConfig {
        cache_config: CacheConfig::new(match cache_folder {
            Some(_) => TimeToLive::Duration(METADATA_LIFETIME_WITH_CACHE),
            None => TimeToLive::Minimal,
        }),
        ..S3FilesystemConfig::default()
    };
    let superblock = Superblock::new(
        client.clone(),
        path,
        SuperblockConfig {
            cache_config: filesystem.cache_config.clone(),
            s3_personality: filesystem.s3_personality,
        },
    );
    let session = FuseSessionConfig::new(
        MountPoint::new(&arguments.directory)?,
        FuseOptions::default(),
        SESSION_THREADS_MAX,
    )?;
    let cache = DataCacheConfig {
        disk_cache_config: cache_folder.as_ref().map(|folder| DiskDataCacheConfig {
            cache_directory: folder.as_path_buf(),
            block_size: CACHE_BLOCK_SIZE as u64,
            limit: CacheLimit::default(),
        }),
        express_cache_config: None,
    };
    MountpointConfig::new(session, filesystem, cache)?
        .create_fuse_session(superblock, client, runtime, pool)?
        .join()
}

/// The folder of the reference in `directory`, emptied.
fn cache_folder(directory: &Path) -> Result<ManagedCacheDir> {
    ManagedCacheDir::new_from_parent_with_cache_key(directory, None, true).context("cache folder")
}
