//! New files that are created without asking S3 first.
//!
//! Such a file is stored on the condition that no object has its key, as every new file. Some
//! servers ignore that condition, for whole objects or for those in parts. Until the server was
//! seen to keep it, S3 is asked about the key before the file is stored. To see it soon, the first
//! small file is sent a second time: a server that keeps the condition refuses it. A server that
//! ignores it stores the same bytes again, and is asked before each file from then on.
//!
//! The second request has a risk, for this one file and such servers only: an object that another
//! host removes or replaces between the two requests comes back.

use bytes::Bytes;
use mountpoint_client::ErrorKind;
use mountpoint_client::types::{
    Checksum, Key, ListRequest, ObjectHeaders, PutCondition, PutRequest,
};

use super::context::SendContext;
use super::features::{Storing, Uses};
use super::put::put;
use crate::operation::FsError;
use crate::write::types::Stored;

/// [`FsError::Exists`] if an object has the key, unless the server is known to keep the condition
/// of `storing`.
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
        // A user without the permission to read may list; an object without an ETag is listed; and
        // the body of a listing's refusal tells of expired credentials.
        Err(error)
            if matches!(
                error.kind,
                ErrorKind::Denied | ErrorKind::InvalidRequest | ErrorKind::InvalidResponse
            ) && context.client.lists_in_order() =>
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

/// Stores a whole new object in one request, if there is none.
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
    // Another program may be about to fill an empty file.
    let is_suitable = (1..=CONDITION_PROBE_LEN_MAX).contains(&again.len());
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

/// Largest file that is sent once more to see whether the server refuses it then. One round trip,
/// few bytes.
const CONDITION_PROBE_LEN_MAX: usize = 128 << 10;
