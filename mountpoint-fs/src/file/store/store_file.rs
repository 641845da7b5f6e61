//! Making the object of a snapshot.

use std::pin::pin;
use std::sync::Arc;

use futures::future::{Either, select};
use mountpoint_client::ErrorKind;

use super::early::{EarlyStore, SentChanges};
use super::request::StoreRequest;
use crate::file::context::StagingContext;
use crate::operation::FsError;
use crate::write::{Outcome, background};

/// Stores a snapshot. Returns when the bucket has it.
///
/// [`FsError::Exists`] and [`FsError::Stale`] mean that another client changed the object, and
/// [`FsError::Interrupted`] that the store was asked to stop and has made none.
pub(super) async fn store(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Outcome, FsError> {
    if let Some(before) = &request.grows {
        let begun = request.begin(context, false);
        let feed = request.feed(false);
        return begun.grow(context, &feed, before.clone()).await;
    }
    let copies = request.has_copies() && context.writing.copies_parts() != Some(false);
    let outcome = attempt(context, request, copies).await;
    match outcome {
        // No other attempt has all bytes.
        Err(error) if request.snapshot.has_sent() => Err(error),
        // The first copies of the mount were refused: the server has none.
        Err(_) if copies && context.writing.copies_parts() == Some(false) => {
            attempt(context, request, false).await
        }
        // A lifecycle rule aborted it, or an administrator: the bytes are here, so all are sent.
        Err(error) if is_upload_gone(&error) => {
            context.writing.confirm(&request.checkpoint).await?;
            let anew = StoreRequest {
                early: None,
                ..request.clone()
            };
            attempt(context, &anew, copies).await
        }
        outcome => outcome,
    }
}

/// Whether a store failed because S3 has forgotten its upload.
fn is_upload_gone(error: &FsError) -> bool {
    matches!(error, FsError::Client(error) if error.kind == ErrorKind::NoSuchUpload)
}

async fn attempt(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
    has_copies: bool,
) -> Result<Outcome, FsError> {
    let snapshot = &*request.snapshot;
    let (begun, changes) = match &request.early {
        Some((early, changes)) if early.can_go_on(&request.target(), snapshot, changes) => {
            (Arc::clone(early), changes.clone())
        }
        early => {
            if let Some((early, _)) = early {
                early.give_up(&FsError::Interrupted).await;
            }
            (request.begin(context, has_copies), SentChanges::default())
        }
    };
    let feed = request.feed(begun.has_copies());
    let sent = {
        let sending = pin!(begun.send_rest(context, &feed, &changes));
        match select(sending, pin!(request.stop.asked())).await {
            Either::Left((sent, _)) => Some(sent),
            Either::Right(_) => None,
        }
    };
    match sent {
        Some(Ok(())) => {}
        Some(Err(error)) => {
            begun.give_up(&error).await;
            return Err(error);
        }
        None => {
            request.stop.stopped();
            give_up_later(context, begun);
            return Err(FsError::Interrupted);
        }
    }
    begun.finish().await
}

/// Ends an attempt that makes no object, in the background: the next attempt, or the abort, waits
/// until the parts in flight were answered.
fn give_up_later(context: &StagingContext, begun: Arc<EarlyStore>) {
    let work = context.writing.begin_work();
    background::run(async move {
        begun.give_up(&FsError::Interrupted).await;
        drop(work);
    });
}
