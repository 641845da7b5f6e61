//! This process: background, id file, notices to systemd, its limits and control groups.

pub(super) mod control_group;
pub(super) mod daemon;
pub(super) mod notify;
pub(super) mod open_files;
pub(super) mod pid_file;
pub(super) mod signals;
