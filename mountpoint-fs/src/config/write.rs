//! Settings of everything that changes the bucket.

use std::path::PathBuf;

use mountpoint_client::types::ChecksumAlgorithm;

/// What the mount may change, and how it uploads.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, independent of the others"
)]
pub struct WriteConfig {
    /// Nothing may be changed (`--read-only`).
    pub read_only: bool,
    /// Files and directories may be removed (`--allow-delete`).
    pub allow_delete: bool,
    /// Existing files may be replaced (`--allow-overwrite`).
    pub allow_overwrite: bool,
    /// Each part of a file is appended to its object at once (`--incremental-upload`); directory buckets only.
    pub incremental_upload: bool,
    /// Existing files may be appended to by a copy on the server (`--allow-append`).
    pub allow_append: bool,
    /// Size of the parts of an upload, in bytes (`--write-part-size`); `None` lets it grow with the file.
    pub part_size: Option<u64>,
    /// Checksum of uploads (`--upload-checksums`).
    pub checksum: Option<ChecksumAlgorithm>,
    /// Storage class of new objects (`--storage-class`).
    pub storage_class: Option<String>,
    /// Whether new objects get a content type by the extension of their name (`--infer-content-type`).
    pub infer_content_type: bool,
    /// Which bucket this is, for the journal: its name and where it is.
    pub bucket: String,
    /// Where unfinished uploads are remembered (`--state-directory`); `None` for nowhere.
    pub state_directory: Option<PathBuf>,
}

impl Default for WriteConfig {
    /// As a mount without flags: new files may be made, nothing else.
    fn default() -> Self {
        Self {
            read_only: false,
            allow_delete: false,
            allow_overwrite: false,
            incremental_upload: false,
            allow_append: false,
            part_size: None,
            checksum: Some(ChecksumAlgorithm::Crc32c),
            storage_class: None,
            infer_content_type: false,
            bucket: String::new(),
            state_directory: None,
        }
    }
}
