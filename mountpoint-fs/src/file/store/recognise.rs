//! Recognising this file's own object, where no answer told that it was stored.
//!
//! A process that is killed between the end of an upload and the note of it in the journal leaves a
//! record that is based on a version that is gone; a store whose answer was lost does the same. The
//! object's token tells: its series is in the record, and its number says which version it is.

use std::sync::Arc;

use mountpoint_client::ErrorKind;

use super::request::StoreRequest;
use crate::file::context::StagingContext;
use crate::operation::FsError;
use crate::write::Stored;

/// The version of the file that the bucket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recognised {
    /// The version that is to be stored.
    Whole,
    /// The one of this number, before it.
    Earlier(u64),
    /// A later one, which a process before has stored and not committed.
    Later,
}

/// The object in the bucket, if it is an upload of this file that was not known to be there.
pub(super) async fn recognise(
    context: &Arc<StagingContext>,
    request: &StoreRequest,
) -> Result<Option<(Stored, Recognised)>, FsError> {
    let identity = &request.identity;
    if !identity.may_be_sent {
        return Ok(None);
    }
    let there = match context.writing.client().head_details(&request.key).await {
        Ok(there) => there,
        Err(error) if error.kind == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let token = there.token.as_ref();
    let number = token.and_then(|token| token.number_in(&identity.series));
    let found = match number.filter(|number| *number > identity.known) {
        Some(number) if number == identity.number => Recognised::Whole,
        Some(number) if identity.has(number) => Recognised::Earlier(number),
        Some(number) if number > identity.number => Recognised::Later,
        // The file has changes of this process instead of those of that version.
        Some(_) | None => return Ok(None),
    };
    let there = Stored {
        etag: there.info.etag,
        size: there.info.size,
    };
    Ok(Some((there, found)))
}
