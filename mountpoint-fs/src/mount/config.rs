//! Settings of one mount: command line and environment, resolved once.

use std::path::{Path, PathBuf};
use std::time::Duration;

use mountpoint_client::crt_client::CrtClientOptions;
use mountpoint_client::types::ChecksumAlgorithm;

use super::client_options::{client_options, read_part_size};
use super::environment::{CONGESTION_THRESHOLD, MAX_BACKGROUND};
use super::metrics::{MetricsConfig, OtlpEndpoint};
use super::{Environment, SharedCacheSource};
use crate::cli::{CliArgs, ClientFlags, ListenAddress, ReadModeArg, UploadChecksums};
use crate::config::{
    CacheConfig, ConflictPolicy, CopyLimits, FsConfig, NamesConfig, PassthroughMode, ReadConfig,
    ReadMode, StagingConfig, WriteConfig, scale,
};
use crate::fuse::Transport;

/// Settings of the connection to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseTuning {
    /// Requests that the kernel keeps in flight in the background (readahead, asynchronous direct
    /// I/O).
    pub max_background: u16,
    /// Number of background requests above which the kernel holds back readahead.
    pub congestion_threshold: u16,
    /// Session threads.
    pub threads: usize,
    /// The channel of requests from the kernel.
    pub transport: Transport,
    /// Whether each session thread has its own descriptor.
    pub clone_descriptors: bool,
    /// Largest WRITE, in bytes.
    pub write_max: u32,
    /// Whether the kernel reads local files by itself.
    pub passthrough: PassthroughMode,
}

impl Default for FuseTuning {
    fn default() -> Self {
        Self {
            max_background: scale::MAX_BACKGROUND_MIN,
            congestion_threshold: congestion_threshold(scale::MAX_BACKGROUND_MIN),
            threads: scale::SESSION_THREADS_MIN,
            transport: Transport::default(),
            clone_descriptors: false,
            write_max: scale::write_max(u64::MAX),
            passthrough: PassthroughMode::default(),
        }
    }
}

/// Everything that one mount needs to know.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// Mount point, or a passed descriptor.
    pub directory: PathBuf,
    /// Settings of the S3 client.
    pub client: CrtClientOptions,
    /// The index file with the names of the bucket (`--index`).
    pub index: Option<PathBuf>,
    /// Names, attributes, reads.
    pub fs: FsConfig,
    /// Content on a local disk, if the user wants that.
    pub cache: Option<CacheConfig>,
    /// Content in a bucket that mounts share, if the user wants that.
    pub shared_cache: Option<SharedCacheSource>,
    /// Where changes of written files are kept, if the user wants that.
    pub staging: Option<StagingConfig>,
    /// Kernel settings.
    pub fuse: FuseTuning,
    /// The sinks of the metrics.
    pub metrics: MetricsConfig,
    /// Permitted users and other options of the mount.
    pub access: crate::fuse::MountOptions,
    /// Differences between the user's input and the mount's behaviour. They are shown before the
    /// terminal is left.
    pub warnings: Vec<String>,
}

impl MountConfig {
    /// Resolves flags before variables before defaults.
    ///
    /// # Errors
    /// A text for the user.
    pub fn resolve(args: &CliArgs, environment: &Environment) -> Result<Self, String> {
        let refusals = args.refusals();
        if !refusals.is_empty() {
            return Err(refusals.join("; "));
        }
        let prefix = args.prefix()?.to_owned();
        let mut client = client_options(
            &args.bucket,
            &args.bucket_flags,
            &args.credentials,
            &args.client,
            environment,
        )?;
        client.sse = super::client_options::encryption(&args.write);
        if args.is_fstab {
            client.user_agent.push_str(" mp-fstab");
        }
        let write = write_config(args, environment, client.endpoint_url.as_deref());
        let read = read_config(args, environment)?;
        let metrics = metrics_config(args, environment)?;
        let memory_max = read.memory_max;
        let shared_cache = args.cache.shared_config();
        let shared_cache =
            shared_cache.map(|config| SharedCacheSource::new(config, &client, &prefix));
        let staging = staging_config(args, client.endpoint_url.as_deref());
        let mount = &args.mount;
        Ok(Self {
            directory: args.directory.clone(),
            client,
            index: args.metadata.index.as_deref().map(absolute),
            fs: FsConfig {
                prefix,
                uid: mount.uid.unwrap_or_else(|| nix::unistd::getuid().as_raw()),
                gid: mount.gid.unwrap_or_else(|| nix::unistd::getgid().as_raw()),
                dir_mode: mount.dir_mode.unwrap_or(0o755),
                file_mode: mount.file_mode.unwrap_or(0o644),
                names: NamesConfig {
                    inodes_max: NamesConfig::inodes_max(read.machine_memory),
                    works_offline: args.staging.write_back,
                    ..args.metadata.names_config(args.cache.keeps_content())
                },
                read,
                write,
            },
            cache: args.cache.config(
                environment.cache_key.clone(),
                environment.keeps_cache.unwrap_or(false),
            ),
            shared_cache: shared_cache.transpose()?,
            staging,
            fuse: fuse_tuning(args, environment, memory_max)?,
            metrics,
            access: crate::fuse::MountOptions {
                source_name: args.source_name(),
                allow_other: mount.allow_other,
                allow_root: mount.allow_root,
                auto_unmount: mount.auto_unmount,
                transport: environment.fuse_transport,
                read_only: args.is_read_only(),
            },
            warnings: [args.warnings(), environment.warnings.clone()].concat(),
        })
    }
}

fn staging_config(args: &CliArgs, endpoint: Option<&str>) -> Option<StagingConfig> {
    let directory = args.staging.staging.as_deref()?;
    let policy = args.staging.on_conflict.map(ConflictPolicy::from);
    Some(StagingConfig {
        directory: absolute(directory),
        on_conflict: policy.unwrap_or_default(),
        bucket: args.bucket.name.clone(),
        endpoint: endpoint.unwrap_or_default().to_owned(),
        host: std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default(),
        mount_point: absolute(&args.directory).display().to_string(),
        write_back: args.staging.write_back(),
    })
}

fn fuse_tuning(
    args: &CliArgs,
    environment: &Environment,
    memory_max: u64,
) -> Result<FuseTuning, String> {
    let cores = cores();
    let max_background = environment
        .max_background
        .unwrap_or_else(|| scale::max_background(cores));
    let congestion = environment
        .congestion_threshold
        .unwrap_or_else(|| congestion_threshold(max_background));
    if congestion > max_background {
        return Err(format!(
            "{}={congestion} is above max_background, which is {max_background}; set {} as well",
            CONGESTION_THRESHOLD[0], MAX_BACKGROUND[0]
        ));
    }
    let threads_max = usize::try_from(args.client.max_threads).unwrap_or(usize::MAX);
    Ok(FuseTuning {
        max_background,
        congestion_threshold: congestion,
        threads: scale::session_threads(cores, threads_max),
        transport: environment.fuse_transport,
        clone_descriptors: environment.clone_fuse_fd,
        write_max: scale::write_max(memory_max),
        // A file that the kernel reads by itself would not show what is written.
        passthrough: match args.staging.staging {
            Some(_) => PassthroughMode::Off,
            None => args.cache.cache_passthrough.into(),
        },
    })
}

/// Cores that this process may use.
pub(super) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn congestion_threshold(max_background: u16) -> u16 {
    (max_background / 4 * 3).max(1)
}

fn read_config(args: &CliArgs, environment: &Environment) -> Result<ReadConfig, String> {
    let available = memory_available();
    Ok(ReadConfig {
        memory_max: memory_target(&args.client)?,
        part_size: read_part_size(&args.client),
        window_max: environment
            .prefetch_window_max
            .unwrap_or_else(|| scale::window_max(cores())),
        mode: match args.mount.read_mode {
            ReadModeArg::Auto => ReadMode::Auto,
            ReadModeArg::Cached => ReadMode::Cached,
            ReadModeArg::Direct => ReadMode::Direct,
        },
        machine_memory: available,
        hedging: environment.hedging.unwrap_or(true),
    })
}

/// Memory for data, in bytes, from the flag or from what there is.
///
/// # Errors
/// A text for the user: there is not so much.
pub fn memory_target(flags: &ClientFlags) -> Result<u64, String> {
    let available = memory_available();
    match flags.memory_target {
        None => Ok(memory_default(available)),
        Some(mib) if mib << 20 > available => Err(format!(
            "--memory-target {mib} is more than the {} MiB that this machine or its control group (cgroup) allows; \
             give less, or raise the group's limit",
            available >> 20
        )),
        Some(mib) => Ok(mib << 20),
    }
}

fn write_config(
    args: &CliArgs,
    environment: &Environment,
    endpoint_url: Option<&str>,
) -> WriteConfig {
    let write = &args.write;
    let part_size = write.write_part_size.or_else(|| {
        args.client
            .write_part_size()
            .map(|size| size.max(WRITE_PART_MIN))
    });
    let bucket = format!("{} {}", args.bucket.name, endpoint_url.unwrap_or("AWS"));
    let all = write.allow_changes && !args.is_read_only();
    WriteConfig {
        bucket,
        read_only: args.is_read_only(),
        allow_delete: all || write.allow_delete,
        allow_overwrite: all || write.allow_overwrite,
        allow_append: all || write.allow_append || write.incremental_upload,
        incremental_upload: write.incremental_upload,
        allow_rename: all || write.allow_rename,
        directory_markers: write.directory_markers,
        // What objects carry is shown whether or not it may be changed. An index tells nothing of
        // it.
        posix_metadata: write.posix_metadata
            || write.allow_changes && args.metadata.index.is_none(),
        copy_limits: CopyLimits::default(),
        part_size,
        checksum: match write.upload_checksums {
            None | Some(UploadChecksums::Crc32c) => Some(ChecksumAlgorithm::Crc32c),
            Some(UploadChecksums::Crc64nvme) => Some(ChecksumAlgorithm::Crc64Nvme),
            Some(UploadChecksums::Off) => None,
        },
        storage_class: write.storage_class.clone(),
        infer_content_type: write.infer_content_type,
        state_directory: write
            .state_directory
            .clone()
            .or_else(|| environment.state_directory())
            .map(|given| absolute(&given)),
    }
}

fn metrics_config(args: &CliArgs, environment: &Environment) -> Result<MetricsConfig, String> {
    let flags = &args.metrics;
    let interval = flags.otlp_export_interval.map(Duration::from_secs);
    let interval = interval.unwrap_or(OTLP_INTERVAL);
    let is_cumulative = environment.otlp_is_cumulative.unwrap_or(false);
    let otlp = flags.otlp_endpoint.as_deref();
    let otlp = otlp.map(|url| OtlpEndpoint::new(url, interval, is_cumulative));
    let listen = flags.metrics_listen.clone();
    Ok(MetricsConfig {
        is_off: flags.no_metrics,
        logs: flags.log_metrics,
        otlp: otlp.transpose()?,
        listen: listen.map(|address| match address {
            ListenAddress::Unix(path) => ListenAddress::Unix(absolute(&path)),
            ListenAddress::Tcp(_) => address,
        }),
        slow: flags.log_slow,
    })
}

/// Time between two exports to a collector, as mountpoint-s3 has it.
const OTLP_INTERVAL: Duration = Duration::from_secs(60);

/// A background process leaves its working directory, so paths must be absolute.
fn absolute(given: &Path) -> PathBuf {
    std::path::absolute(given).unwrap_or_else(|_| given.to_owned())
}

/// S3's smallest part.
const WRITE_PART_MIN: u64 = 5 << 20;

/// Default of the memory target: a quarter within bounds, so that applications keep the rest.
///
/// Never more than half: in a small control group the process itself has to fit, too. On large
/// machines a sixteenth, which 100 to 400 Gbit/s need where a request takes 100 ms.
fn memory_default(available: u64) -> u64 {
    let min = READ_MEMORY_DEFAULT_MIN.min(available / 2);
    let max = (available / 16).clamp(READ_MEMORY_DEFAULT_MAX, READ_MEMORY_LARGE_MAX);
    (available / 4).clamp(min, max)
}

/// The lesser of the machine's and the control group's memory, in bytes.
fn memory_available() -> u64 {
    let machine = nix::sys::sysinfo::sysinfo().map_or(u64::MAX, |info| info.ram_total());
    let group = super::process::control_group::memory_limit();
    machine.min(group.unwrap_or(u64::MAX))
}

/// Least memory for reads by default, on machines with twice as much.
const READ_MEMORY_DEFAULT_MIN: u64 = 256 << 20;

/// Most memory for reads by default on machines of up to 128 GiB.
///
/// `--memory-target` may ask for more.
const READ_MEMORY_DEFAULT_MAX: u64 = 8 << 30;

/// Most memory for reads by default on machines of 512 GiB and more.
const READ_MEMORY_LARGE_MAX: u64 = 32 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_memory_within_bounds() {
        for (available, expected) in [
            (0, 0),
            (128 << 20, 64 << 20),
            (256 << 20, 128 << 20),
            (512 << 20, 256 << 20),
            (1 << 30, 256 << 20),
            (4 << 30, 1 << 30),
            (128 << 30, 8 << 30),
            (256 << 30, 16 << 30),
            (1 << 40, 32 << 30),
        ] {
            assert_eq!(memory_default(available), expected, "{available}");
        }
    }

    #[test]
    fn three_quarters_of_background() {
        for (background, expected) in [(64, 48), (1, 1), (16, 12), (65535, 49149)] {
            assert_eq!(congestion_threshold(background), expected, "{background}");
        }
    }
}
