//! Flags that permit changes and control uploads.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::client::PART_MAX;
use super::values::{bytes, parse_kms_key};

/// Flags under "Write options".
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Write options")]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a flag of the command line that we are compatible with"
)]
pub struct WriteFlags {
    /// Let everything be changed that S3 can change: --allow-overwrite, --allow-delete,
    /// --allow-rename, --allow-append and --posix-metadata in one
    #[arg(long)]
    pub allow_changes: bool,

    /// Let files and directories be removed
    #[arg(long)]
    pub allow_delete: bool,

    /// Let existing files be replaced, shortened and touched
    #[arg(long)]
    pub allow_overwrite: bool,

    /// Let existing files be appended to (`>>`), by a copy on the server where that cannot append
    #[arg(long)]
    pub allow_append: bool,

    /// Let files and directories be renamed by a copy on the server, where the bucket cannot rename
    #[arg(long)]
    pub allow_rename: bool,

    /// Let `mkdir` store an object that marks the directory
    #[arg(long)]
    pub directory_markers: bool,

    /// Keep mode, owner, times and symbolic links in the metadata of objects, as s3fs does
    #[arg(long)]
    pub posix_metadata: bool,

    /// As --allow-append; on a directory bucket, new files grow there part by part as well
    #[arg(long)]
    pub incremental_upload: bool,

    /// Storage class of new objects
    #[arg(long, value_name = "CLASS")]
    pub storage_class: Option<String>,

    /// Encryption of new objects
    #[arg(long, value_name = "ALGORITHM")]
    pub sse: Option<Sse>,

    /// KMS key that new objects are encrypted with
    #[arg(long, value_name = "AWS_KMS_KEY_ARN", requires = "sse", value_parser = parse_kms_key)]
    pub sse_kms_key_id: Option<String>,

    /// Checksum of uploads [default: crc32c]
    #[arg(long, value_name = "ALGORITHM")]
    pub upload_checksums: Option<UploadChecksums>,

    /// Set the content type of new objects by the extension of their name
    #[arg(long)]
    pub infer_content_type: bool,

    /// Part size of uploads, in bytes [default: 8388608, growing with the file]
    #[arg(long, value_name = "SIZE", value_parser = bytes(WRITE_PART_MIN..=PART_MAX))]
    pub write_part_size: Option<u64>,

    /// Where unfinished uploads are remembered, so that the next mount can abort what a killed one
    /// left [default: XDG_STATE_HOME/mountpoint-s3, ~/.local/state/mountpoint-s3, for root
    /// /var/lib/mountpoint-s3]
    #[arg(long, value_name = "DIRECTORY")]
    pub state_directory: Option<PathBuf>,
}

/// Value of `--sse`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Sse {
    /// A key of the Key Management Service
    #[value(name = "aws:kms")]
    Kms,
    /// A key of the Key Management Service, two layers
    #[value(name = "aws:kms:dsse")]
    KmsDsse,
    /// A key of S3's own
    #[value(name = "AES256")]
    Aes256,
}

/// Value of `--upload-checksums`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum UploadChecksums {
    /// CRC32C of each part
    Crc32c,
    /// CRC64NVME of the object
    Crc64nvme,
    /// None
    Off,
}

impl WriteFlags {
    /// A forbidden combination of values that are each permitted.
    pub(in crate::cli) fn conflict(&self) -> Option<&'static str> {
        (self.sse == Some(Sse::Aes256) && self.sse_kms_key_id.is_some())
            .then_some("--sse-kms-key-id cannot be used with --sse AES256, which has no key")
    }

    /// The given flags that allow a change.
    pub(in crate::cli) fn changing(&self) -> Vec<&'static str> {
        let given = [
            (self.allow_changes, "--allow-changes"),
            (self.allow_delete, "--allow-delete"),
            (self.allow_overwrite, "--allow-overwrite"),
            (self.allow_append, "--allow-append"),
            (self.incremental_upload, "--incremental-upload"),
            (self.allow_rename, "--allow-rename"),
            (self.directory_markers, "--directory-markers"),
        ];
        let given = given.into_iter().filter(|(given, _)| *given);
        given.map(|(_, flag)| flag).collect()
    }
}

/// S3's own minimum of a part.
const WRITE_PART_MIN: u64 = 5 << 20;
