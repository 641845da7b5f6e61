//! How a file begins, what becomes of it, and the observer that learns it.

use mountpoint_client::types::{Checksum, ChecksumAlgorithm, ETag};

use crate::operation::FsError;

/// The version that the bucket holds after an upload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// The version.
    pub etag: ETag,
    /// Its size in bytes.
    pub size: u64,
}

/// What became of a file that was to be stored.
pub(super) enum Outcome {
    /// The bucket holds it.
    Stored(Stored),
    /// Another host's object stands for the file.
    Adopted(Stored),
}

/// How a file begins.
#[derive(Clone, Debug)]
pub enum Beginning {
    /// There is no object: one that somebody else makes meanwhile is not replaced.
    New,
    /// There is probably no object: S3 was not asked before.
    NewUnasked,
    /// The object that is there, which was this version when it was opened, is replaced.
    Replace(ETag),
    /// The object that is there is empty: it is replaced if it still is when the file is stored.
    Fill(Stored),
    /// The object that is there stays, and bytes come behind it: S3 copies it.
    Append(Stored),
    /// The server appends to the object, which has a checksum of this algorithm;
    /// this one, if it is that of all its bytes.
    Grow(Stored, Option<ChecksumAlgorithm>, Option<Checksum>),
    /// The object stays and is too small to be copied into an upload: its bytes are told by
    /// `Writer::preload`.
    Extend(Stored),
}

/// Learns the outcome of a file. Called with no lock held but the file's own.
pub trait WriteObserver: Send + Sync {
    /// The file is written again after it was stored. An error if it cannot be; one that is stale
    /// is final.
    fn resumed(&self) -> Result<(), FsError>;
    /// The bucket holds the file as it was when it was closed or synchronised.
    fn stored(&self, stored: &Stored);
    /// The bucket holds the beginning of the file, by parts that were appended to it; more is in
    /// flight or to come.
    fn grown(&self, _stored: &Stored) {}
    /// Another host's object stands for the file: the observer refuses to resume its writer.
    fn adopted(&self);
    /// The file failed for good.
    fn failed(&self, error: &FsError);
}

/// How full parts of a file are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UploadMode {
    /// To an upload: the object appears as a whole.
    Upload,
    /// Behind the end of the object.
    Append,
}
