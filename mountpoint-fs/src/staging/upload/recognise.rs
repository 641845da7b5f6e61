//! Recognising this file's own upload after a kill.
//!
//! A process that is killed between the end of an upload and the note of it in the journal leaves a
//! record that is based on a version that is gone. The object's changed bytes tell: if all of them
//! are as they were sent, nobody's changes are lost by taking the object for the upload. A marker
//! of a directory has none: its metadata tell.

use std::sync::Arc;

use crc_fast::{CrcAlgorithm, Digest};
use mountpoint_client::ErrorKind;

use super::request::StoreRequest;
use crate::operation::FsError;
use crate::read::Reader;
use crate::staging::context::StagingContext;
use crate::staging::local::disk_error;
use crate::staging::record::{SentVersion, marker_sum, sent_version};
use crate::write::Stored;

/// The origin of the object in the bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognised {
    /// The version that is to be stored.
    Whole,
    /// One before it, perhaps with the same bytes.
    Earlier,
}

/// The object in the bucket, if it is an upload of this file.
pub(super) async fn recognise(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Option<(Stored, Recognised)>, FsError> {
    let Some(recovered) = &request.recovered else {
        return Ok(None);
    };
    let there = match context.writing.client().head_details(&request.key).await {
        Ok(there) => there,
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let marker_sum = marker_sum(&request.key, &there.headers.metadata);
    let there = Stored {
        etag: there.info.etag,
        size: there.info.size,
    };
    // An older record has no sum.
    let is_other_marker =
        |own: &SentVersion| own.marker_sum.is_some() && own.marker_sum != marker_sum;
    if there.size == request.snapshot.size() {
        let (snapshot, files) = (&request.snapshot, &request.sources.files);
        let (snapshot, files) = (Arc::clone(snapshot), Arc::clone(files));
        let directory = Arc::clone(&context.directory);
        let own = context.on_disk(move || {
            sent_version(&snapshot, &files).map_err(|error| disk_error(&directory, &error))
        });
        let own = SentVersion {
            marker_sum: request.marker_sum(),
            ..own.await?
        };
        if !is_other_marker(&own) && is_there(context, request, &there, &own).await? {
            // Only the headers may tell it from a version before it, and they are to be there.
            let was_sent_before = recovered.whole.is_some() && recovered.sent.contains(&own);
            let origin = match request.is_newer || was_sent_before {
                true => Recognised::Earlier,
                false => Recognised::Whole,
            };
            return Ok(Some((there, origin)));
        }
    }
    for sent in &recovered.sent {
        if !is_other_marker(sent) && is_there(context, request, &there, sent).await? {
            return Ok(Some((there, Recognised::Earlier)));
        }
    }
    Ok(None)
}

/// Whether the object has the size and the changed bytes of `sent`.
async fn is_there(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
    there: &Stored,
    sent: &SentVersion,
) -> Result<bool, FsError> {
    if there.size != sent.size {
        return Ok(false);
    }
    if sent.ranges.is_empty() {
        // No changed byte tells one version from another.
        return Ok(there.size == 0);
    }
    let reader = Reader::shared(&context.reading, &request.key, &there.etag, there.size);
    let mut digest = Digest::new(CrcAlgorithm::Crc64Nvme);
    for (start, end) in &sent.ranges {
        let mut at = *start;
        while at < *end {
            let len = u32::try_from(end - at).unwrap_or(u32::MAX).min(READ_LEN);
            let data = match reader.read(at, len).await {
                Ok(data) => data,
                // It was replaced once more.
                Err(FsError::Stale(_) | FsError::NotFound) => return Ok(false),
                Err(error) => return Err(error),
            };
            if data.is_empty() {
                return Ok(false);
            }
            at += data.len() as u64;
            for (block, range) in data.slices {
                digest.update(block.bytes(range));
            }
        }
    }
    Ok(digest.finalize() == sent.sum)
}

/// Bytes of one read of the object.
const READ_LEN: u32 = 1 << 20;
