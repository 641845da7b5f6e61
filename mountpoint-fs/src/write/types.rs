//! The object that a store replaces, and the outcome of the store.

use mountpoint_client::types::ETag;

/// The version that the bucket holds after an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The version.
    pub etag: ETag,
    /// Its size in bytes.
    pub size: u64,
}

/// The outcome of storing a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The bucket holds it.
    Stored(Stored),
    /// Another host's object stands for the file.
    Adopted(Stored),
}

/// The object in the place of a content that is brought as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replaced {
    /// None. An object that another client makes meanwhile is not replaced.
    Nothing,
    /// Probably none: S3 was not asked.
    NothingUnasked,
    /// This version. Another one is not replaced.
    Version(ETag),
    /// Whatever is there.
    Any,
}
