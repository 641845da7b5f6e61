//! An upload that is given up, and whether it had become an object before: its completion may have been answered to nobody.
//!
//! Nobody else knows the id of an upload. So one that is gone when it is to be aborted was completed, unless it was aborted
//! by who lists uploads, or a lifecycle rule: then the object that is there is not what it was to become, as far as can be
//! seen.

use mountpoint_client::types::{ETag, PutCondition, Upload};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

/// What became of an upload that was given up.
#[derive(Debug)]
pub(crate) enum Abandoned {
    /// The server has forgotten it, and its parts.
    Aborted,
    /// The server did not know it any more.
    WasGone,
    /// It is there still.
    Stays(ClientError),
}

/// Has the server forget `upload`, of which the completion was answered to nobody if `may_be_complete`.
///
/// Some servers (MinIO) say of every abort that it was done, so then its parts are asked for first.
pub(crate) async fn abandon(
    client: &dyn ObjectClient,
    upload: &Upload,
    may_be_complete: bool,
) -> Abandoned {
    let is_unknown = |error: &ClientError| error.kind == ErrorKind::NoSuchUpload;
    if may_be_complete
        && client
            .list_parts(upload)
            .await
            .is_err_and(|error| is_unknown(&error))
    {
        return Abandoned::WasGone;
    }
    match client.abort_upload(upload).await {
        Ok(()) => Abandoned::Aborted,
        Err(error) if is_unknown(&error) => Abandoned::WasGone,
        Err(error) => Abandoned::Stays(error),
    }
}

/// What an upload was to become.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// Bytes.
    pub(crate) size: u64,
    /// How many parts it had.
    pub(crate) parts: usize,
    /// On which condition.
    pub(crate) condition: &'a PutCondition,
}

/// The version that `upload` became, which is gone; `None` if the object is another one: it has another size, says that it
/// was made of another number of parts, or is the one that was to be replaced.
pub(crate) async fn completed(
    client: &dyn ObjectClient,
    upload: &Upload,
    wanted: Wanted<'_>,
) -> Option<ETag> {
    let info = client.head(&upload.key).await.ok()?;
    let is_old = match wanted.condition {
        PutCondition::Match(old) => old.matches(&info.etag),
        PutCondition::None | PutCondition::Absent => false,
    };
    let has_parts = info.etag.parts().is_none_or(|parts| parts == wanted.parts);
    (info.size == wanted.size && has_parts && !is_old).then_some(info.etag)
}
