//! The first lines of the log: the version, the mount, and its settings.

use std::time::Duration;

use super::MountConfig;
use super::start_error::place;
use crate::cli::VERSION;

/// Logs the version and the bucket on the level info, the settings on debug.
pub(super) fn log_start(config: &MountConfig) {
    let client = &config.client;
    let (fs, fuse) = (&config.fs, &config.fuse);
    tracing::info!(
        version = VERSION,
        bucket = client.bucket,
        prefix = fs.prefix,
        directory = %config.directory.display(),
        "mounting"
    );
    tracing::debug!(
        place = place(client).trim_start(),
        region = client.region.as_deref(),
        credentials = ?client.credentials,
        read_only = fs.write.read_only,
        may = changes(config).join(","),
        metadata_ttl = %shown(fs.names.ttl),
        negative_metadata_ttl = %shown(fs.names.negative_ttl),
        memory_mib = fs.read.memory_max >> 20,
        read_part_size = fs.read.part_size,
        write_part_size = fs.write.part_size,
        read_mode = ?fs.read.mode,
        cache = ?config.cache,
        staging = ?config.staging,
        threads = fuse.threads,
        transport = ?fuse.transport,
        max_background = fuse.max_background,
        write_max = fuse.write_max,
        max_attempts = client.max_attempts,
        interfaces = ?client.network_interfaces,
        state_directory = ?fs.write.state_directory,
        "settings"
    );
}

/// Permitted changes besides new files.
fn changes(config: &MountConfig) -> Vec<&'static str> {
    let write = &config.fs.write;
    let each = [
        (write.allow_overwrite, "overwrite"),
        (write.allow_delete, "delete"),
        (write.allow_rename, "rename"),
        (write.allow_append, "append"),
        (write.posix_metadata, "posix-metadata"),
        (write.directory_markers, "directory-markers"),
    ];
    let allowed = each.into_iter().filter(|(is_allowed, _)| *is_allowed);
    allowed.map(|(_, name)| name).collect()
}

/// `1s`; `indefinite` for a time without end.
fn shown(time: Duration) -> String {
    if time > LONG {
        "indefinite".to_owned()
    } else {
        format!("{time:?}")
    }
}

/// A hundred years: a larger value can only mean for ever.
const LONG: Duration = Duration::from_secs(100 * 366 * 24 * 3600);
