//! The way of a written file's bytes to the bucket.
//!
//! Decided when the first part is full, or the file is closed before that. The choice is final: an
//! object is made by one request, by an upload, or by appends.

use std::sync::Arc;

use mountpoint_client::types::ChecksumAlgorithm;

use crate::write::send::append::AppendUpload;
use crate::write::send::copied_range::CopiedRange;
use crate::write::send::multipart::Upload;
use crate::write::types::UploadMode;

/// The way of a file's bytes to the bucket.
#[derive(Debug, Default)]
pub(in crate::write) enum Sink {
    /// Nothing is sent: the buffer holds the file, which one request stores unless a part fills.
    #[default]
    Undecided,
    /// Nothing is sent: the file begins with an object, which the server copies into an upload.
    Copied(CopiedRange),
    /// Parts are sent to an upload.
    Multipart(Multipart),
    /// Parts are appended to the object.
    Append {
        /// The object, and the parts in flight.
        upload: AppendUpload,
        /// Full parts since the file was opened or stored.
        parts: u16,
    },
}

/// An upload, and the parts sent to it.
#[derive(Debug)]
pub(in crate::write) struct Multipart {
    pub(in crate::write) upload: Arc<Upload>,
    /// Parts sent, copies included.
    pub(in crate::write) parts: u16,
    /// Whether parts are copies, which have no checksums.
    pub(in crate::write) has_copies: bool,
    /// The object's metadata was changed after the upload was begun.
    pub(in crate::write) is_metadata_late: bool,
}

impl Sink {
    /// Parts sent; copies are counted.
    pub(in crate::write) fn parts(&self) -> u16 {
        match self {
            Self::Undecided | Self::Copied(_) => 0,
            Self::Multipart(multipart) => multipart.parts,
            Self::Append { parts, .. } => *parts,
        }
    }

    /// Whether parts were sent, or an upload was begun for them.
    pub(in crate::write) fn is_begun(&self) -> bool {
        self.parts() > 0 || self.is_multipart()
    }

    pub(in crate::write) fn is_multipart(&self) -> bool {
        matches!(self, Self::Multipart(_))
    }

    /// Whether the next part is appended to the object, where full parts are sent by `mode`.
    pub(in crate::write) fn appends(&self, mode: UploadMode) -> bool {
        match self {
            Self::Undecided => mode == UploadMode::Append,
            Self::Copied(_) | Self::Multipart(_) => false,
            Self::Append { .. } => true,
        }
    }

    /// The object that parts are appended to; `None` before the first part and for uploads.
    pub(in crate::write) fn append(&mut self) -> Option<&mut AppendUpload> {
        match self {
            Self::Append { upload, .. } => Some(upload),
            Self::Undecided | Self::Copied(_) | Self::Multipart(_) => None,
        }
    }

    /// The checksum of the next part; `new` is that of new objects.
    pub(in crate::write) fn algorithm(
        &self,
        new: Option<ChecksumAlgorithm>,
    ) -> Option<ChecksumAlgorithm> {
        match self {
            Self::Append { upload, .. } => upload.algorithm(),
            Self::Undecided | Self::Copied(_) | Self::Multipart(_) => new,
        }
    }

    /// Takes the upload out, if there is one. Then nothing is sent.
    pub(in crate::write) fn take_upload(&mut self) -> Option<Arc<Upload>> {
        match std::mem::take(self) {
            Self::Multipart(multipart) => Some(multipart.upload),
            other => {
                *self = other;
                None
            }
        }
    }

    /// The metadata of the object has changed: an upload that was begun does not carry it.
    pub(in crate::write) fn metadata_changed(&mut self) {
        if let Self::Multipart(multipart) = self {
            multipart.is_metadata_late = true;
        }
    }
}
