//! New files of which S3 was not asked before they were made.
//!
//! Such a file is stored on the condition that nothing has its key, as every new file. Whether the
//! server keeps that condition shows when it refuses to replace an object: of a whole one, and of
//! one in parts, for some servers keep one of both only. Until then S3 is asked about the key
//! before the file is stored: later than it would have been for other files, and not while a
//! directory waits for it. So that this need not go on, the first small file is sent once more when
//! it is there: a server that keeps the condition refuses it. One that does not has the same bytes
//! again, from the mount that has just stored them and has not let go of the file yet; it is asked
//! before each file from then on. Two hosts that meet in this one file may still lose by that: a
//! host that removes it between the two requests finds it again, and is the reason then why the
//! server is asked ever after; and what another host stores in its place between them is replaced,
//! by a server that ignores conditions.

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{
    Checksum, Key, ListRequest, ObjectHeaders, PutCondition, PutRequest,
};

use super::context::SendContext;
use super::features::{Storing, Uses};
use super::put::put;
use crate::config::limits::CONDITION_PROOF_LEN_MAX;
use crate::operation::FsError;
use crate::write::types::Stored;

/// [`FsError::Exists`] if there is an object of `key`, and the server is not known to refuse to
/// replace it by `storing` another.
pub(in crate::write) async fn ask_first(
    context: &SendContext,
    key: &Key,
    storing: Storing,
) -> Result<(), FsError> {
    if context.features.keeps_conditions(storing) {
        return Ok(());
    }
    match context.client.head(key).await {
        Ok(_) => Err(FsError::Exists),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(()),
        // A user that may write, but not read, may list; and an object without an ETag is listed.
        Err(error)
            if matches!(error.kind, ErrorKind::Denied | ErrorKind::InvalidResponse)
                && context.client.lists_in_order() =>
        {
            ask_by_listing(context, key).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn ask_by_listing(context: &SendContext, key: &Key) -> Result<(), FsError> {
    let listed = context.client.list(ListRequest {
        prefix: key.to_string(),
        max_keys: Some(1),
        ..ListRequest::default()
    });
    let listed = listed.await.map_err(FsError::from)?;
    let is_there = |found: &Key| {
        let shown = found.as_str();
        shown.strip_suffix(Key::NO_ETAG).unwrap_or(shown) == key.as_str()
    };
    if listed.objects.iter().any(|object| is_there(&object.key)) {
        return Err(FsError::Exists);
    }
    Ok(())
}

/// A whole new object in one request, if there is none.
pub(in crate::write) async fn put_unasked(
    context: &SendContext,
    key: &Key,
    body: Bytes,
    checksum: Option<Checksum>,
    headers: ObjectHeaders,
) -> Result<Stored, FsError> {
    ask_first(context, key, Storing::Whole).await?;
    let condition = PutCondition::Absent;
    let (again, its_headers) = (body.clone(), headers.clone());
    let stored = put(context, key, body, checksum, condition, headers).await?;
    // An empty file may be meant for another program to fill.
    let is_suitable = (1..=CONDITION_PROOF_LEN_MAX).contains(&again.len());
    if !is_suitable || !context.features.begin_probe() {
        return Ok(stored);
    }
    let uses = context.features.reduce(Uses {
        checksum,
        ..Uses::condition(PutCondition::Absent)
    });
    let sent = context.client.put(PutRequest {
        key: key.clone(),
        body: again,
        condition: uses.condition.clone(),
        checksum: uses.checksum,
        headers: its_headers,
    });
    match sent.await {
        Ok(output) => {
            tracing::warn!(
                "the server may ignore conditions on uploads: two hosts that create one file may overwrite each other; \
                 it is asked before a new file is stored"
            );
            let etag = output.etag;
            Ok(Stored { etag, ..stored })
        }
        Err(error) => {
            context.features.refused(Storing::Whole, &uses, &error);
            if error.kind != ErrorKind::PreconditionFailed {
                context.features.leave_unproven();
            }
            Ok(stored)
        }
    }
}
