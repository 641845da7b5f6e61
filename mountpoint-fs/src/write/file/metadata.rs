//! The metadata of a [`Writer`]'s object.
//!
//! The request that begins the object carries the metadata. A later change is applied by a copy of
//! the object onto itself after the upload is completed: metadata is sent once, however often it
//! was changed.

use mountpoint_client::types::{ETag, ObjectHeaders};

use super::sink::Sink;
use super::state::{FileState, Stage};
use super::writer::Writer;
use crate::operation::{FsError, PosixAttributes};
use crate::write::send::put::Adopts;

impl Writer {
    /// Changes the object's metadata. `false` if the bucket already holds the object: then the
    /// caller changes the object.
    pub async fn change_metadata(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<bool, FsError> {
        let mut state = self.state.lock().await;
        self.settled(&mut state).await?;
        {
            let mut headers = self.headers.lock();
            let before = headers.metadata.clone();
            change(&mut headers)?;
            if PosixAttributes::says_more(&headers.metadata, &before) {
                // The other host's object does not have the attributes.
                state.adopts = state.adopts.map(|_| Adopts::Nothing);
            }
        }
        state.sink.metadata_changed();
        state.is_timed = true;
        Ok(matches!(state.stage, Stage::Open))
    }

    /// Sets the first metadata of the object. Called before the writer is shared.
    pub fn begin_with(&self, mut headers: ObjectHeaders) {
        PosixAttributes::forget_time(&mut headers.metadata);
        *self.headers.lock() = headers;
    }

    /// The file changes now, so a time that was set before is void.
    pub(in crate::write) fn untime(&self, state: &mut FileState) {
        if std::mem::take(&mut state.is_timed) {
            PosixAttributes::forget_time(&mut self.headers.lock().metadata);
            state.sink.metadata_changed();
        }
    }

    /// The object's metadata.
    #[must_use]
    pub fn headers(&self) -> ObjectHeaders {
        self.headers.lock().clone()
    }

    /// Notes that the version `old` was replaced by one with equal bytes and other headers. No
    /// effect on a file that has stored another version.
    pub async fn metadata_replaced(&self, old: &ETag, etag: &ETag) {
        let mut state = self.state.lock().await;
        self.look(&mut state);
        let state = &mut *state;
        let Stage::Stored(stored) = &mut state.stage else {
            return;
        };
        if stored.etag != *old {
            return;
        }
        stored.etag = etag.clone();
        match &mut state.sink {
            Sink::Copied(base) => base.etag = etag.clone(),
            Sink::Append { upload, .. } => upload.metadata_replaced(stored),
            Sink::Undecided | Sink::Multipart(_) => {}
        }
    }
}
