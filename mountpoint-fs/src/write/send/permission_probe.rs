//! The permission probe: an upload that is begun, gets one byte and is aborted.

use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::types::{Key, ObjectHeaders, PartNumber, Upload};
use mountpoint_client::{ClientError, ErrorKind};

use super::context::SendContext;
use crate::operation::FsError;
use crate::write::background::{self, SharedOutcome};
use crate::write::failure::failed;

/// Tries whether an object `key` with `headers` may be stored, and settles `outcome`. Continues if
/// no writer waits.
pub(in crate::write) fn probe_permission(
    context: Arc<SendContext>,
    key: Key,
    headers: ObjectHeaders,
    outcome: SharedOutcome<Result<(), FsError>>,
) {
    let pending = context.begin();
    background::run(async move {
        let (upload, tried) = try_to_store(&context, &key, headers).await;
        let proven = match tried {
            Ok(()) => Ok(()),
            Err(error) if error.kind == ErrorKind::Unsupported => {
                tracing::debug!(%key, "whether files may be stored is seen when one is: {error}");
                Ok(())
            }
            Err(error) => Err(failed(error)),
        };
        match &proven {
            Ok(()) => context.permission.shown(),
            Err(error) => context.permission.failed(&key, error),
        }
        // Before the file is stored: a server that ends an upload by its key would take the
        // object for a part of it.
        if let Some(upload) = upload {
            end_probe(&context, &upload).await;
        }
        outcome.settle(proven);
        drop(pending);
    });
}

async fn try_to_store(
    context: &SendContext,
    key: &Key,
    headers: ObjectHeaders,
) -> (Option<Upload>, Result<(), ClientError>) {
    let upload = match context.client.create_upload(key, headers, None).await {
        Ok(upload) => upload,
        Err(error) => return (None, Err(error)),
    };
    context.journal.begun(&upload).await;
    let body = Bytes::from_static(PROBE_BODY);
    let sent = context.client.put_part(&upload, PartNumber(1), body, None);
    let sent = sent.await.map(drop);
    (Some(upload), sent)
}

async fn end_probe(context: &SendContext, upload: &Upload) {
    match context.client.abort_upload(upload).await {
        Ok(()) => context.journal.ended(upload),
        Err(error) if error.kind == ErrorKind::NoSuchUpload => context.journal.ended(upload),
        Err(error) => {
            let key = &upload.key;
            tracing::warn!(%key, "an unfinished upload stays in the bucket: {error}");
        }
    }
}

/// The body of the probe's part. Not empty: some servers take no empty part.
const PROBE_BODY: &[u8] = b"\0";
