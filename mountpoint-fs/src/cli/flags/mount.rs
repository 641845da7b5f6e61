//! Flags that control the mount's appearance and its permitted users.

use clap::{Args, ValueEnum};

use super::values::{parse_id, parse_mode};

/// Flags under "Mount options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Mount options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line that we are compatible with"
)]
pub struct MountFlags {
    /// Mount read-only
    #[arg(long)]
    pub read_only: bool,

    /// Unmount when the process ends, however it ends
    #[arg(long)]
    pub auto_unmount: bool,

    /// Let root use the mount, besides its owner
    #[arg(long, conflicts_with = "allow_other")]
    pub allow_root: bool,

    /// Let every user use the mount; an ordinary user needs user_allow_other in /etc/fuse.conf
    #[arg(long)]
    pub allow_other: bool,

    /// Owner of files and directories [default: the current user]
    #[arg(long, value_name = "UID", value_parser = parse_id)]
    pub uid: Option<u32>,

    /// Group of files and directories [default: the current group]
    #[arg(long, value_name = "GID", value_parser = parse_id)]
    pub gid: Option<u32>,

    /// Permission bits of directories, in octal [default: 0755]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub dir_mode: Option<u16>,

    /// Permission bits of files, in octal [default: 0644]
    #[arg(long, value_name = "MODE", value_parser = parse_mode)]
    pub file_mode: Option<u16>,

    /// Which way replies to reads take: through the kernel's page cache or straight to the
    /// application
    #[arg(long, value_name = "MODE", value_enum, default_value_t = ReadModeArg::Auto)]
    pub read_mode: ReadModeArg,
}

/// Value of `--read-mode`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ReadModeArg {
    /// Chosen at each open by the file's size and by how it and its reader's program were seen to
    /// read
    #[default]
    Auto,
    /// Through the page cache: best for small reads and for what is read again
    Cached,
    /// Straight to the application, as if it had asked for O_DIRECT: best for large reads of what
    /// is read once
    Direct,
}
