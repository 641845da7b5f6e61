//! Appending to an object, where the server can: for directory buckets.
//!
//! Bytes are put behind the end of a version, on the condition that version and length are
//! unchanged: no bytes of another client are ever replaced. Appended bytes carry no token, so that
//! nothing tells whose they are: if the answer was lost, the append fails.

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{AppendRequest, Checksum, Key, PutCondition};

use super::context::SendContext;
use super::features::Uses;
use crate::mutate::fault::{Doubt, unknown};
use crate::operation::FsError;
use crate::write::failure::{failed, not_made};
use crate::write::types::Stored;

/// Puts `body` behind the end of the version `before` of the object. Returns the new version.
///
/// # Errors
/// [`FsError::Stale`] if another client has changed the object.
pub(in crate::write) async fn append(
    context: &SendContext,
    key: &Key,
    mut before: Stored,
    body: Bytes,
    checksum: Option<Checksum>,
) -> Result<Stored, FsError> {
    let size = before.size + body.len() as u64;
    let checksum = context.features.reduce(Uses::checksum(checksum)).checksum;
    let (_sending, _in_flight) = (context.pressure.sending(), context.parts.enter());
    let mut was_renewed = false;
    loop {
        let request = AppendRequest {
            key: key.clone(),
            offset: before.size,
            if_match: before.etag.clone(),
            body: body.clone(),
            checksum,
        };
        let error = match context.client.append(request).await {
            Ok(output) => {
                let etag = output.etag;
                return Ok(Stored { etag, size });
            }
            Err(error) => error,
        };
        if Doubt::of(&error) == Some(Doubt::Lost) {
            return Err(unknown(&error, NO_TOKEN).into());
        }
        if error.kind == ErrorKind::TooManyParts && !was_renewed {
            tracing::info!(%key, "it was appended to as often as S3 allows: the server copies it onto itself");
            before = renew(context, key, &before).await?;
            was_renewed = true;
            continue;
        }
        return Err(not_made(error, &PutCondition::Match(before.etag), key));
    }
}

/// Makes the object one of a single part, by a copy of it onto itself.
async fn renew(context: &SendContext, key: &Key, stored: &Stored) -> Result<Stored, FsError> {
    let largest = context.config.copy_limits.whole_max;
    if stored.size > largest {
        return Err(FsError::TooLarge(format!(
            "{key} was appended to as often as S3 allows, and is larger than the {} GiB that it copies onto itself \
             at once: copy the file, and append to the copy",
            largest >> 30
        )));
    }
    let details = context.client.head_details(key).await.map_err(failed)?;
    if !details.info.etag.matches(&stored.etag) {
        return Err(FsError::Stale(format!(
            "{key} was replaced while it was appended to"
        )));
    }
    let seen = (&stored.etag, stored.size);
    let etag = context.mutator.replace_headers(key, seen, details.headers);
    Ok(Stored {
        etag: etag.await?,
        size: stored.size,
    })
}

/// Why nothing tells whether bytes were appended.
const NO_TOKEN: &str = "another client may have appended the same bytes";
