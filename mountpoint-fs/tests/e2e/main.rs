//! End to end: the `mount-s3` binary, a real mount, real HTTP.
//!
//! Needs `/dev/fuse` and the permission to mount; without them every test fails, none is skipped.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test fails by panicking, reads the real clock and starts threads"
)]

mod appending;
mod autofs;
mod background;
mod changing;
mod command_line;
mod completion_tags;
mod copying;
mod creating;
mod data_programs;
mod directories;
mod directory_bucket;
mod doctor;
mod doctor_writes;
mod fault_loop;
mod faults;
mod fstab;
mod gaps;
mod harness;
mod interfaces;
mod kills;
mod kills_of_renames;
mod lifecycle;
mod logs;
mod machine;
mod many_writers;
mod memory;
mod metadata;
mod more_programs;
#[path = "../../../mountpoint-client/tests/network/support/network_namespace.rs"]
mod network_namespace;
mod one_file;
mod outages;
mod package;
mod passed_device;
mod programs;
mod read_mode;
mod reading;
mod refusals;
mod renaming_faults;
mod requests;
#[path = "../../../mountpoint-client/tests/contract/servers.rs"]
mod servers;
mod sharing;
mod signals;
mod small_files;
mod start_errors;
mod state_directory;
mod tail;
mod tools;
mod transport;
mod writing;
mod writing_ends;
mod writing_faults;
mod writing_headers;
