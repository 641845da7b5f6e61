//! The part of a [`Writer`] that says which metadata its object carries.
//!
//! Metadata goes with the request that begins the object. A change that comes later is put to the
//! object by a copy onto itself when the upload is completed, so that metadata is sent once,
//! however often it was changed.

use mountpoint_client::types::{ETag, ObjectHeaders};

use super::state::{Sink, Stage};
use super::writer::Writer;
use crate::operation::{FsError, PosixAttributes};
use crate::write::send::put::Adopts;

impl Writer {
    /// Changes what the object is to carry. Whether that is sent with it: else the bucket holds it
    /// already.
    pub async fn change_metadata(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<bool, FsError> {
        let mut sink = self.sink.lock().await;
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            self.look(&mut sink);
            let Stage::Storing(settled) = &sink.stage else {
                break;
            };
            let settled = settled.clone();
            drop(settled.wait().await);
        }
        {
            let mut headers = self.headers.lock();
            let before = headers.metadata.clone();
            change(&mut headers)?;
            if PosixAttributes::says_more(&headers.metadata, &before) {
                // The other host's object does not have the attributes.
                sink.adopts = Adopts::Nothing;
            }
        }
        sink.is_metadata_late |= sink.upload.is_some();
        sink.is_timed = true;
        Ok(matches!(sink.stage, Stage::Open))
    }

    /// What the object is to carry from the beginning on. Called before anybody else knows the
    /// writer.
    pub fn begin_with(&self, mut headers: ObjectHeaders) {
        PosixAttributes::forget_time(&mut headers.metadata);
        *self.headers.lock() = headers;
    }

    /// The file changes now: a time that it was to have before is none any more.
    pub(in crate::write) fn untime(&self, sink: &mut Sink) {
        if std::mem::take(&mut sink.is_timed) {
            PosixAttributes::forget_time(&mut self.headers.lock().metadata);
            sink.is_metadata_late |= sink.upload.is_some();
        }
    }

    /// What the object is to carry.
    #[must_use]
    pub fn headers(&self) -> ObjectHeaders {
        self.headers.lock().clone()
    }

    /// The version `old` of the object was replaced by one of the same bytes, which carries
    /// something else. Nothing to a file that has stored another: its bytes are not those.
    pub async fn metadata_replaced(&self, old: &ETag, etag: &ETag) {
        let mut sink = self.sink.lock().await;
        self.look(&mut sink);
        let sink = &mut *sink;
        if let Stage::Stored(stored) = &mut sink.stage
            && stored.etag == *old
        {
            stored.etag = etag.clone();
            if let Some(base) = &mut sink.base {
                base.etag = etag.clone();
            }
            if let Some(append) = &mut sink.append {
                append.metadata_replaced(stored);
            }
        }
    }
}
