//! An upload that is given up, and whether it had become an object before: its completion may have been answered to nobody.
//!
//! Nobody else knows the id of an upload. So one that is gone when it is to be aborted was completed.

use mountpoint_client::types::{ETag, Upload};
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

/// The version that `upload` became, which is gone, of `size` bytes; `None` if it is another by now.
pub(crate) async fn completed(
    client: &dyn ObjectClient,
    upload: &Upload,
    size: u64,
) -> Option<ETag> {
    let info = client.head(&upload.key).await.ok()?;
    (info.size == size).then_some(info.etag)
}
