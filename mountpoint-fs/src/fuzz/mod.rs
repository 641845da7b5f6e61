//! Fuzz targets: what the process reads from a kernel, a disk that others can write, and a socket.
//!
//! `make fuzz` runs them with a fuzzer. The unit tests run them over the saved inputs in
//! `mountpoint-fs/fuzz/corpus`, and over variants of these.

use std::fs::File;
use std::io::{Seek as _, Write as _};

use nix::sys::memfd::{MFdFlags, memfd_create};

/// A name, which a folder of saved inputs has too, and a function that panics if it finds a fault.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[FuzzTarget] = &[
    ("cache_entry", crate::cache::fuzz::entry),
    ("cache_extents", crate::cache::fuzz::extents),
    ("cache_index", crate::cache::fuzz::index),
    ("cache_listing", crate::cache::fuzz::listing),
    ("cache_name", crate::cache::fuzz::name),
    ("cache_shared", crate::cache::fuzz::shared),
    ("cache_shared_places", crate::cache::fuzz::places),
    ("cache_usage", crate::cache::fuzz::usage),
    ("cli_flags", crate::cli::fuzz::flags),
    ("cli_options", crate::cli::fuzz::options),
    ("fuse_proc", crate::fuse::fuzz_proc),
    ("fuse_request", crate::fuse::fuzz_request),
    ("index_coding", crate::index::fuzz::coding),
    ("index_entries", crate::index::fuzz::entries),
    ("index_file", crate::index::fuzz::file),
    ("inventory_csv", crate::indexer::fuzz::csv),
    ("inventory_manifest", crate::indexer::fuzz::manifest),
    ("inventory_parquet", crate::indexer::fuzz::parquet),
    ("journal", crate::journal::fuzz::lines),
    ("metadata", crate::operation::fuzz::metadata),
    ("staging_checkpoint", crate::file::fuzz::checkpoint),
    ("staging_contents", crate::file::fuzz::contents),
    ("staging_control", crate::file::fuzz::message),
    ("staging_journal", crate::file::fuzz::journal),
    ("staging_kept", crate::file::fuzz::description),
    ("staging_name", crate::file::fuzz::name),
    ("staging_record", crate::file::fuzz::record),
    ("stats_answers", crate::stats_command::fuzz::answers),
    ("stats_capture", crate::stats_command::fuzz::capture),
];

/// A file of these bytes that no folder has.
pub(crate) fn memory_file(bytes: &[u8]) -> File {
    let file = memfd_create(c"fuzz", MFdFlags::MFD_CLOEXEC).unwrap();
    let mut file = File::from(file);
    file.write_all(bytes).unwrap();
    file.rewind().unwrap();
    file
}

#[cfg(test)]
#[path = "../../../mountpoint-fs/fuzz/saved_inputs.rs"]
mod saved_inputs;
