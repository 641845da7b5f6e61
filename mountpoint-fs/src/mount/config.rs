//! Settings of one mount: command line and environment, resolved once.

use std::path::PathBuf;

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::crt_client::CrtClientOptions;

use super::Environment;
use crate::cli::CliArgs;
use crate::config::{FsConfig, ReadConfig, limits};

/// What the kernel is told at mount time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FuseTuning {
    /// Requests that the kernel keeps in flight in the background (readahead, asynchronous direct I/O).
    pub max_background: u16,
    /// Background requests from which on the kernel holds back readahead.
    pub congestion_threshold: u16,
    /// Session threads.
    pub threads: usize,
    /// Whether each session thread has its own descriptor.
    pub clone_descriptors: bool,
}

impl Default for FuseTuning {
    fn default() -> Self {
        Self {
            max_background: limits::MAX_BACKGROUND,
            congestion_threshold: congestion_threshold(limits::MAX_BACKGROUND),
            threads: limits::SESSION_THREADS,
            clone_descriptors: false,
        }
    }
}

/// Everything that one mount needs to know.
#[derive(Clone, Debug)]
pub struct MountConfig {
    /// Where to mount.
    pub directory: PathBuf,
    /// How to reach the bucket.
    pub client: CrtClientOptions,
    /// Names, attributes, reads.
    pub fs: FsConfig,
    /// Kernel settings.
    pub fuse: FuseTuning,
    /// Who may use it.
    pub access: crate::fuse::MountOptions,
}

impl MountConfig {
    /// Resolves flags before variables before defaults.
    ///
    /// # Errors
    /// A text for the user.
    pub fn resolve(args: &CliArgs, environment: &Environment) -> Result<Self, String> {
        let prefix = args.prefix()?.to_owned();
        let max_background = environment.max_background.unwrap_or(limits::MAX_BACKGROUND);
        let congestion = environment
            .congestion_threshold
            .unwrap_or_else(|| congestion_threshold(max_background));
        if congestion > max_background {
            return Err(format!(
                "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD={congestion} is above max_background {max_background}"
            ));
        }
        Ok(Self {
            directory: args.directory.clone(),
            client: client_options(args, environment)?,
            fs: FsConfig {
                prefix,
                uid: args.uid.unwrap_or_else(|| nix::unistd::getuid().as_raw()),
                gid: args.gid.unwrap_or_else(|| nix::unistd::getgid().as_raw()),
                dir_mode: args.dir_mode.unwrap_or(0o755),
                file_mode: args.file_mode.unwrap_or(0o644),
                read: read_config(args, environment),
            },
            fuse: FuseTuning {
                max_background,
                congestion_threshold: congestion,
                threads: limits::SESSION_THREADS.min(usize::from(args.max_threads)),
                clone_descriptors: environment.clone_fuse_fd,
            },
            access: crate::fuse::MountOptions {
                source_name: "mountpoint-s3".to_owned(),
                allow_other: args.allow_other,
                allow_root: args.allow_root,
                auto_unmount: args.auto_unmount,
                // Writing lands with a later version; until then the kernel is told, so that every tool knows.
                read_only: true,
            },
        })
    }
}

fn congestion_threshold(max_background: u16) -> u16 {
    (max_background / 4 * 3).max(1)
}

fn read_config(args: &CliArgs, environment: &Environment) -> ReadConfig {
    let memory_max = args
        .memory_target
        .map_or_else(|| memory_default(memory_available()), |mib| mib << 20);
    ReadConfig {
        memory_max,
        part_size: args.read_part_size,
        window_max: environment
            .prefetch_window_max
            .unwrap_or_else(|| ReadConfig::default().window_max),
    }
}

/// A quarter, so that applications keep the rest; within bounds that make sense.
fn memory_default(available: u64) -> u64 {
    (available / 4).clamp(
        limits::READ_MEMORY_DEFAULT_MIN,
        limits::READ_MEMORY_DEFAULT_MAX,
    )
}

/// Memory of the machine or of the control group, whichever is less, in bytes.
fn memory_available() -> u64 {
    let machine = nix::sys::sysinfo::sysinfo().map_or(u64::MAX, |info| info.ram_total());
    let group = [
        "/sys/fs/cgroup/memory.max",
        "/sys/fs/cgroup/memory/memory.limit_in_bytes",
    ]
    .iter()
    .find_map(|path| {
        std::fs::read_to_string(path)
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    });
    machine.min(group.unwrap_or(u64::MAX))
}

fn client_options(args: &CliArgs, environment: &Environment) -> Result<CrtClientOptions, String> {
    let mut options = CrtClientOptions::new(&args.bucket.name);
    options.region = args.region.clone().or_else(|| environment.region.clone());
    options.endpoint_url = args
        .endpoint_url
        .clone()
        .or_else(|| environment.endpoint_url.clone());
    options.force_path_style = args.force_path_style;
    options.credentials = if args.no_sign_request {
        CredentialsMode::Unsigned
    } else {
        CredentialsMode::Default {
            profile: args.profile.clone(),
        }
    };
    options.throughput_target_gbps = Some(f64::from(args.maximum_throughput_gbps));
    options.part_size_max =
        usize::try_from(args.read_part_size).map_err(|error| error.to_string())?;
    options.event_loop_threads = environment.event_loop_threads;
    if let Some(path) = &environment.ca_bundle {
        let read = std::fs::read(path)
            .map_err(|error| format!("cannot read AWS_CA_BUNDLE={path}: {error}"));
        options.ca_bundle = Some(read?);
    }
    if let Some(attempts) = environment.max_attempts {
        options.max_attempts = attempts;
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quarter_of_memory_within_bounds() {
        for (available, expected) in [
            (0, 256 << 20),
            (1 << 30, 256 << 20),
            (4 << 30, 1 << 30),
            (1 << 40, 8 << 30),
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
