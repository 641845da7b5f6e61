//! The beginning of a written file, its outcome, and the observer of both.

use mountpoint_client::types::{ChecksumAlgorithm, ETag};

use crate::operation::FsError;

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

/// The beginning of a written file.
#[derive(Clone, Debug)]
pub enum Beginning {
    /// There is no object. An object that another client makes meanwhile is not replaced.
    New,
    /// There is probably no object: S3 was not asked.
    NewUnasked,
    /// The existing object is replaced, whatever its version.
    Replace,
    /// The existing object is empty. It is replaced if it is still empty when the file is stored.
    Fill(Stored),
    /// The existing object stays, and bytes come behind it: S3 copies it.
    Append(Stored),
    /// The server appends to the object, which has a checksum of this algorithm.
    Grow(Stored, Option<ChecksumAlgorithm>),
    /// The object stays and is too small to be copied into an upload: `Writer::preload` brings its
    /// bytes.
    Extend(Stored),
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
}

/// Learns the outcome of a file. Called with no lock held but the file's own.
pub trait WriteObserver: Send + Sync {
    /// The application continues a stored file. An error refuses that; a stale one is final.
    fn resumed(&self) -> Result<(), FsError>;
    /// The bucket holds the file as of its close or synchronisation.
    fn stored(&self, stored: &Stored);
    /// The bucket holds the beginning of the file, made of appended parts; more is in flight or to
    /// come.
    fn grown(&self, _stored: &Stored) {}
    /// Another host's object stands for the file: the observer refuses to resume its writer.
    fn adopted(&self);
    /// The file failed for good.
    fn failed(&self, error: &FsError);
}

/// The way of a file's full parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UploadMode {
    /// To a multipart upload: the object appears as a whole.
    Upload,
    /// Appended behind the end of the object.
    Append,
}
