//! This machine: `facts` gathers facts, and each other file judges those of its area.

pub(super) mod facts;
pub(super) mod kernel;
pub(super) mod local_folders;
pub(super) mod memory;
pub(super) mod mount_point;
pub(super) mod mounting;
pub(super) mod network;
pub(super) mod process_limits;
