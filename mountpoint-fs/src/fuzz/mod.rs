//! Fuzz targets: what the process reads from a kernel, a disk that others can write, and a socket.
//!
//! `make fuzz` runs them with a fuzzer. The unit tests run them over the saved inputs in
//! `mountpoint-fs/fuzz/corpus`, and over variants of these.

/// A name, which a folder of saved inputs has too, and a function that panics if it finds a fault.
pub type FuzzTarget = (&'static str, fn(&[u8]));

/// The targets of this crate.
pub const TARGETS: &[FuzzTarget] = &[
    ("fuse_request", crate::fuse::fuzz_request),
    ("journal", crate::journal::fuzz::lines),
    ("staging_checkpoint", crate::file::fuzz::checkpoint),
    ("staging_contents", crate::file::fuzz::contents),
    ("staging_control", crate::file::fuzz::message),
    ("staging_journal", crate::file::fuzz::journal),
    ("staging_kept", crate::file::fuzz::description),
    ("staging_name", crate::file::fuzz::name),
    ("staging_record", crate::file::fuzz::record),
];

#[cfg(test)]
#[path = "../../../mountpoint-fs/fuzz/saved_inputs.rs"]
mod saved_inputs;

#[cfg(test)]
mod tests {
    #[test]
    fn saved_inputs_and_their_variants_find_no_fault() {
        super::saved_inputs::run(super::TARGETS);
    }
}
