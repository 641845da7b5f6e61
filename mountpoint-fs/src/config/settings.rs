//! Settings of the file system. `mount` resolves them once; they never change while mounted.

use std::time::Duration;

use super::WriteConfig;
use super::limits::{FILE_TTL, INODES_MAX_LEAST, WINDOW_MAX};

/// Settings of names, attributes and open files.
#[derive(Clone, Debug)]
pub struct FsConfig {
    /// Only keys under this prefix are visible; empty, or ends with `/`.
    pub prefix: String,
    /// Owner of every file and directory.
    pub uid: u32,
    /// Group of every file and directory.
    pub gid: u32,
    /// Permission bits of directories.
    pub dir_mode: u16,
    /// Permission bits of files.
    pub file_mode: u16,
    /// How long names are trusted, and how many are kept.
    pub names: NamesConfig,
    /// Settings of the read path.
    pub read: ReadConfig,
    /// Permitted changes, and their settings.
    pub write: WriteConfig,
}

impl Default for FsConfig {
    /// The whole bucket with files that belong to root: the defaults of the flags.
    fn default() -> Self {
        Self {
            prefix: String::new(),
            uid: 0,
            gid: 0,
            dir_mode: 0o755,
            file_mode: 0o644,
            names: NamesConfig::default(),
            read: ReadConfig::default(),
            write: WriteConfig::default(),
        }
    }
}

/// Settings of names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NamesConfig {
    /// How long a name and its attributes are valid (`--metadata-ttl`).
    pub ttl: Duration,
    /// How long the kernel may keep the absence of a name (`--negative-metadata-ttl`).
    pub negative_ttl: Duration,
    /// Largest age of a cached absence for a program that creates the file.
    pub create_ttl: Duration,
    /// Whether `open` trusts valid attributes. Otherwise `open` finds the newest version.
    pub opens_unasked: bool,
    /// Whether contents may be on a local disk: a version is proved without fetching them.
    pub has_cache: bool,
    /// Inodes above which the kernel is asked to forget some.
    pub inodes_max: usize,
    /// Whether files are made and directories are there while S3 cannot be reached: with
    /// write-back.
    pub works_offline: bool,
}

impl NamesConfig {
    /// The number of inodes to keep with so much memory of a machine or control group.
    #[must_use]
    pub fn inodes_max(machine_memory: u64) -> usize {
        let affordable = usize::try_from(machine_memory / INODE_MEMORY_SHARE);
        affordable.unwrap_or(usize::MAX).max(INODES_MAX_LEAST)
    }
}

impl Default for NamesConfig {
    fn default() -> Self {
        Self {
            ttl: FILE_TTL,
            negative_ttl: Duration::ZERO,
            create_ttl: CREATE_ABSENCE_AGE_MAX,
            opens_unasked: false,
            has_cache: false,
            inodes_max: INODES_MAX_LEAST,
            works_offline: false,
        }
    }
}

/// Settings of the read path.
#[derive(Clone, Debug)]
pub struct ReadConfig {
    /// Memory for blocks, in bytes: all blocks of all open files together.
    pub memory_max: u64,
    /// Largest range of one GET, in bytes (`--read-part-size`).
    pub part_size: u64,
    /// Largest prefetch window of one stream, in bytes (`MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE`).
    pub window_max: u64,
    /// Whether replies pass through the kernel's page cache (`--read-mode`).
    pub mode: ReadMode,
    /// Memory of the machine or its control group, in bytes. The limit of the page cache.
    pub machine_memory: u64,
    /// Whether a late GET is sent a second time.
    pub hedging: bool,
}

/// The path of replies to reads. `O_DIRECT` always gets direct ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadMode {
    /// Chosen for each open, by the file's size and by earlier reads of file and program.
    #[default]
    Auto,
    /// Through the page cache: best for small and repeated reads.
    Cached,
    /// Straight to the application: best for large reads of bytes that are read once.
    Direct,
}

/// Whether the kernel reads files that are whole in a local cache by itself (FUSE passthrough).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PassthroughMode {
    /// Where kernel and privileges allow it.
    #[default]
    Auto,
    /// As [`Self::Auto`], and where they do not, the log warns.
    On,
    /// Never.
    Off,
}

impl Default for ReadConfig {
    fn default() -> Self {
        Self {
            memory_max: 1 << 30,
            part_size: 8 << 20,
            window_max: WINDOW_MAX,
            mode: ReadMode::default(),
            machine_memory: 16 << 30,
            hedging: true,
        }
    }
}

/// Memory of the machine or its control group, in bytes, per inode that is kept.
///
/// Inodes take 2 % of it, where that is more than the least limit.
const INODE_MEMORY_SHARE: u64 = 64 << 10;

/// Largest age of an absence for a program that creates a file of that name.
///
/// The age may be as high as that of names and attributes: the file is stored on the condition that
/// the name is still absent.
const CREATE_ABSENCE_AGE_MAX: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inodes_kept_by_memory() {
        for (gib, expected) in [
            (0, 1_000_000),
            (4, 1_000_000),
            (61, 1_000_000),
            (64, 1 << 20),
            (256, 4 << 20),
            (1024, 16 << 20),
        ] {
            assert_eq!(NamesConfig::inodes_max(gib << 30), expected, "{gib} GiB");
        }
    }
}
