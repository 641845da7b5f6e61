//! Settings of all changes of the bucket.

use std::path::PathBuf;

use mountpoint_client::types::ChecksumAlgorithm;

use super::limits::COPY_SIZE_MAX;

/// The changes that the mount permits, and its settings of uploads.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line, independent of the others"
)]
pub struct WriteConfig {
    /// No change is permitted (`--read-only`).
    pub read_only: bool,
    /// Files and directories may be removed (`--allow-delete`).
    pub allow_delete: bool,
    /// Existing files may be replaced (`--allow-overwrite`).
    pub allow_overwrite: bool,
    /// Existing files may be appended to (`--allow-append`, or `--incremental-upload` as in
    /// mountpoint-s3).
    pub allow_append: bool,
    /// All files, new ones too, are written by appends, if the store can (`--incremental-upload`).
    pub incremental_upload: bool,
    /// Renames may be copies where the server cannot rename (`--allow-rename`).
    pub allow_rename: bool,
    /// `mkdir` stores an object that marks the directory (`--directory-markers`).
    pub directory_markers: bool,
    /// Object metadata keep mode, owner, times and symbolic links (`--posix-metadata`).
    pub posix_metadata: bool,
    /// Size limits of copies on the server.
    pub copy_limits: CopyLimits,
    /// Size of the parts of an upload, in bytes (`--write-part-size`). `None` lets it grow with the
    /// file.
    pub part_size: Option<u64>,
    /// Checksum of uploads (`--upload-checksums`).
    pub checksum: Option<ChecksumAlgorithm>,
    /// Storage class of new objects (`--storage-class`).
    pub storage_class: Option<String>,
    /// Whether new objects get a content type by the extension of their name
    /// (`--infer-content-type`).
    pub infer_content_type: bool,
    /// Name and location of the bucket, for the journal.
    pub bucket: String,
    /// Directory of the journal of unfinished uploads (`--state-directory`); `None` for no journal.
    pub state_directory: Option<PathBuf>,
}

/// Sizes of copies on the server. A test lowers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyLimits {
    /// Largest object that one request copies.
    pub whole_max: u64,
    /// Largest part of an object that is copied in parts.
    pub part_max: u64,
}

impl Default for CopyLimits {
    fn default() -> Self {
        Self {
            whole_max: COPY_SIZE_MAX,
            part_max: COPY_PART_SIZE,
        }
    }
}

impl Default for WriteConfig {
    /// The settings of a mount without flags. New files may be made, and no other change.
    fn default() -> Self {
        Self {
            read_only: false,
            allow_delete: false,
            allow_overwrite: false,
            allow_append: false,
            incremental_upload: false,
            allow_rename: false,
            directory_markers: false,
            posix_metadata: false,
            copy_limits: CopyLimits::default(),
            part_size: None,
            checksum: Some(ChecksumAlgorithm::Crc32c),
            storage_class: None,
            infer_content_type: false,
            bucket: String::new(),
            state_directory: None,
        }
    }
}

/// Part size of an object that is copied in parts.
///
/// S3 copies some 100 MB/s within one request, so smaller parts are faster; 512 MiB times S3's
/// 10,000 parts is more than an object of 5 TiB needs, and larger objects get larger parts.
const COPY_PART_SIZE: u64 = 512 << 20;
