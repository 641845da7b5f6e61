//! What S3 knows of a name: the requests behind a lookup.

use std::time::Duration;

use futures::future::{Either, select};
use mountpoint_client::types::{Key, ListOutput, ListRequest};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::names;
use super::version::{Found, Version};
use crate::operation::FsError;

/// S3's answer about one name.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// What it is; `None` if nothing has this name.
    pub(super) found: Option<Found>,
    /// When it was asked for, on the mount's clock. What was found was true then or later.
    pub(super) asked: Duration,
    /// How long it took.
    pub(super) took: Duration,
}

/// Asks for the object `key` and for anything below it at once: two requests, one serial step. A directory wins, so
/// the answer is certain as soon as the listing shows one, and never before the listing has come.
pub(super) async fn find(client: &dyn ObjectClient, key: &Key) -> Result<Option<Found>, FsError> {
    let Some(prefix) = names::directory_prefix(key) else {
        return file(client.head(key).await);
    };
    let request = ListRequest {
        prefix,
        delimiter: Some("/".to_owned()),
        max_keys: Some(1),
        ..ListRequest::default()
    };
    match select(client.list(request), client.head(key)).await {
        Either::Left((listed, head)) => {
            if has_any(&listed.map_err(FsError::from)?) {
                return Ok(Some(Found::Directory));
            }
            file(head.await)
        }
        Either::Right((head, listing)) => {
            if has_any(&listing.await.map_err(FsError::from)?) {
                return Ok(Some(Found::Directory));
            }
            file(head)
        }
    }
}

/// Whether the prefix is a directory: any key begins with it, also one that is hidden.
fn has_any(listed: &ListOutput) -> bool {
    !listed.objects.is_empty() || !listed.common_prefixes.is_empty()
}

fn file(
    head: Result<mountpoint_client::types::ObjectInfo, ClientError>,
) -> Result<Option<Found>, FsError> {
    match head {
        Ok(info) => Ok(Some(Found::File(Version::from(&info)))),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}
