//! What S3 knows of a name: the requests behind a lookup.
//!
//! One LIST of all keys that begin with the name's key says whether it is an object, a directory or nothing, and as a
//! rule shows what is below a directory too. Where more keys come between the object and what is below it (`a-1/…`
//! between `a` and `a/…`) than the request asks for, a second one settles it. A directory bucket lists whole
//! directories only: there a HEAD and a LIST are sent at once.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{Either, select};
use mountpoint_client::types::{Key, ListOutput, ListRequest, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::names;
use super::subtree::{Below, Subtree, Verdict};
use super::version::{Found, Version};
use crate::config::limits::LOOKUP_KEYS;
use crate::operation::{FsError, PosixAttributes};

/// S3's answer about one name.
#[derive(Clone, Debug)]
pub(super) struct Answer {
    /// What it is; `None` if nothing has this name.
    pub(super) found: Option<Found>,
    /// What its object says of itself, where objects are asked.
    pub(super) posix: Option<PosixAttributes>,
    /// When it was asked for, on the mount's clock. What was found was true then or later.
    pub(super) asked: Duration,
    /// How long it took.
    pub(super) took: Duration,
}

/// What is called so, and the names that were seen on the way.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) found: Option<Found>,
    pub(super) below: Vec<Below>,
}

/// Asks what `key` is, which is a name of the directory whose prefix is `directory`.
pub(super) async fn find(
    client: &Arc<dyn ObjectClient>,
    directory: &str,
    key: &Key,
) -> Result<Seen, FsError> {
    let own = names::directory_prefix(key);
    if !client.lists_in_order() {
        return match own {
            Some(own) => find_in_directory_bucket(client, key, own).await,
            None => Ok(Seen::only(file(client.head(key).await)?)),
        };
    }
    let listed = client.list(keys_from(key.as_str())).await?;
    let subtree = Subtree::new(&listed, true);
    let below = subtree.below(directory);
    let (found, below) = match (subtree.verdict(key.as_str(), own.as_deref()), own) {
        (Verdict::Certain(found), _) => (found, below),
        (Verdict::UnlessDirectory(found), Some(own)) => {
            let listed = client.list(keys_from(&own)).await?;
            if has_any(&listed) {
                (
                    Some(Found::Directory),
                    Subtree::new(&listed, true).below(&own),
                )
            } else {
                (found, below)
            }
        }
        (Verdict::UnlessDirectory(found), None) => (found, below),
    };
    Ok(Seen {
        found: restored(client, key, found).await?,
        below,
    })
}

/// A listing does not say whether an archived object has been restored; a HEAD does.
async fn restored(
    client: &Arc<dyn ObjectClient>,
    key: &Key,
    found: Option<Found>,
) -> Result<Option<Found>, FsError> {
    match found {
        Some(Found::File(version)) if version.is_archived => file(client.head(key).await),
        found => Ok(found),
    }
}

/// What the object of a file, or the marker of a directory, carries; with the newest version of the file.
pub(super) async fn carried(
    client: &Arc<dyn ObjectClient>,
    key: &Key,
    found: Option<Found>,
) -> Result<(Option<Found>, Option<PosixAttributes>), FsError> {
    let (object, is_directory) = match &found {
        None => return Ok((None, None)),
        Some(Found::File(_)) => (Some(key.clone()), false),
        Some(Found::Directory) => {
            let marker = names::directory_prefix(key);
            (marker.and_then(|marker| Key::parse(&marker)), true)
        }
    };
    let Some(object) = object else {
        return Ok((found, None));
    };
    match client.head_details(&object).await {
        Ok(described) => {
            let posix = PosixAttributes::of(&described.headers.metadata);
            let found = if is_directory {
                Found::Directory
            } else {
                Found::File(Version::from(&described.info))
            };
            Ok((Some(found), Some(posix)))
        }
        Err(error) if error.kind == ErrorKind::NotFound => {
            Ok((found.filter(|_| is_directory), None))
        }
        Err(error) => Err(error.into()),
    }
}

/// A directory wins, so the answer is certain as soon as the listing shows one, and never before the listing has come.
async fn find_in_directory_bucket(
    client: &Arc<dyn ObjectClient>,
    key: &Key,
    own: String,
) -> Result<Seen, FsError> {
    match select(client.list(keys_from(&own)), client.head(key)).await {
        Either::Left((listed, head)) => match directory(&listed?, &own) {
            Some(seen) => Ok(seen),
            None => Ok(Seen::only(file(head.await)?)),
        },
        Either::Right((head, listing)) => match directory(&listing.await?, &own) {
            Some(seen) => Ok(seen),
            None => Ok(Seen::only(file(head)?)),
        },
    }
}

/// The directory `prefix`, if any key begins with it, also one that is hidden.
fn directory(listed: &ListOutput, prefix: &str) -> Option<Seen> {
    has_any(listed).then(|| Seen {
        found: Some(Found::Directory),
        below: Subtree::new(listed, false).below(prefix),
    })
}

fn has_any(listed: &ListOutput) -> bool {
    !listed.objects.is_empty() || !listed.common_prefixes.is_empty()
}

fn keys_from(prefix: &str) -> ListRequest {
    ListRequest {
        prefix: prefix.to_owned(),
        max_keys: Some(LOOKUP_KEYS),
        ..ListRequest::default()
    }
}

fn file(head: Result<ObjectInfo, ClientError>) -> Result<Option<Found>, FsError> {
    match head {
        Ok(info) => Ok(Some(Found::File(Version::from(&info)))),
        Err(error) if error.kind == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl Seen {
    fn only(found: Option<Found>) -> Self {
        Self {
            found,
            below: Vec::new(),
        }
    }
}
