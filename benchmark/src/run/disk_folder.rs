//! The folder of the local disk that a measurement uses.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use nix::sys::statfs::{TMPFS_MAGIC, statfs};
use tempfile::TempDir;

/// An empty folder below `scratch`, on a disk. It is removed with what it holds.
pub(super) fn disk_folder(scratch: &Path) -> Result<TempDir> {
    let file_system = statfs(scratch).with_context(|| scratch.display().to_string())?;
    ensure!(
        file_system.filesystem_type() != TMPFS_MAGIC,
        "{} is in memory, and the disk cannot be measured there: let TMPDIR name a folder of a disk",
        scratch.display()
    );
    let folder = tempfile::Builder::new().prefix("disk-").tempdir_in(scratch);
    folder.with_context(|| scratch.display().to_string())
}
