//! Requests that find out what a name is.
//!
//! One LIST of the keys that begin with the name's key shows whether the name is an object, a
//! directory or absent, and mostly the entries of the directory. Other keys may sort between the
//! object and the keys below it (`a-1/…` between `a` and `a/…`). A second LIST decides if they fill
//! the answer. So [`NameProbe`] has other requests: a LIST below a name that is probably a
//! directory; a GET of the first bytes and that LIST, both at once, for a name that is probably a
//! file. A directory bucket lists only complete directories.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, join, select};
use mountpoint_client::types::{
    FirstBytes, Key, ListOutput, ListRequest, ObjectDetails, ObjectInfo,
};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient, Pending};

use super::prefix_listing::{Below, NameVerdict, Subtree};
use super::strategy::NameProbe;
use crate::clock::Clock;
use crate::config::limits::LOOKUP_KEYS;
use crate::namespace::listing::{Page, without_etag};
use crate::namespace::names;
use crate::namespace::version::{Found, Version};
use crate::operation::{FsError, PosixAttributes};

/// S3's answer about one name.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    /// The kind of the name; `None` if it is absent.
    pub(crate) found: Option<Found>,
    /// POSIX attributes in the object's metadata, if the mount reads them.
    pub(crate) posix: Option<PosixAttributes>,
    /// Time of the request, on the mount's clock. The answer was true then or later.
    pub(crate) asked: Duration,
    /// Arrival of the first of the answers that this one combines: its age counts from then.
    pub(crate) received_at: Duration,
    /// Whether it was asked for after the lookup had begun, and not before by another one.
    pub(crate) is_own: bool,
    /// The first bytes of the file, if the lookup fetched them.
    pub(crate) first_bytes: Option<Bytes>,
    /// All names in the directory, if the answer has them.
    pub(crate) names: Option<Arc<Page>>,
}

/// The kind of a name, with the other names that the answers have shown.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) found: Option<Found>,
    /// Keys of listed objects that cannot be shown, because they have no ETag.
    pub(crate) without_etag: Vec<String>,
    pub(crate) below: Vec<Below>,
    /// The first bytes of the file, if they were fetched.
    pub(crate) first_bytes: Option<Bytes>,
    /// Whether fetching the first bytes has failed.
    pub(crate) first_bytes_failed: bool,
    /// Whether a listing shows that the directory has no marker.
    pub(crate) lacks_marker: bool,
    /// Arrival of the first of the answers.
    pub(crate) received_at: Duration,
}

/// Finds out what `key` is, a name in the directory `directory`. `spend` permits fetching first
/// bytes after a directory was expected and none was found.
pub(crate) async fn find(
    client: &Arc<dyn ObjectClient>,
    clock: &Clock,
    directory: &str,
    key: &Key,
    probe: NameProbe,
    spend: impl FnOnce() -> bool,
) -> Result<Seen, FsError> {
    let is_ordered = client.lists_in_order();
    let Some(own) = names::directory_prefix(key) else {
        // The key is too long for any key below it.
        return object(client, clock, directory, key).await;
    };
    match probe {
        NameProbe::Below { then_first_bytes } => {
            let listed = client.list(keys_from(&own)).await?;
            let received_at = clock.now();
            if let Some(seen) = directory_of(&listed, &own, is_ordered, received_at) {
                return Ok(seen);
            }
            if !(then_first_bytes && spend()) {
                let seen = object(client, clock, directory, key).await?;
                return Ok(seen.and_answer_of(received_at));
            }
            let bytes = client.first_bytes(key, FIRST_BYTES_LEN).await;
            let bytes_received_at = clock.now();
            let seen =
                first_bytes_of(client, clock, directory, key, bytes, bytes_received_at).await?;
            Ok(seen.and_answer_of(received_at))
        }
        NameProbe::FirstBytes => {
            let (listing, bytes) = (
                client.list(keys_from(&own)),
                client.first_bytes(key, FIRST_BYTES_LEN),
            );
            let (received_at, bytes_received_at, bytes) = match select(listing, bytes).await {
                Either::Left((listed, bytes)) => {
                    let received_at = clock.now();
                    if let Some(seen) = directory_of(&listed?, &own, is_ordered, received_at) {
                        return Ok(seen);
                    }
                    let bytes = bytes.await;
                    (received_at, clock.now(), bytes)
                }
                Either::Right((bytes, listing)) => {
                    let received_at = clock.now();
                    let listed = listing.await?;
                    if let Some(seen) = directory_of(&listed, &own, is_ordered, clock.now()) {
                        return Ok(seen);
                    }
                    (received_at, received_at, bytes)
                }
            };
            let seen =
                first_bytes_of(client, clock, directory, key, bytes, bytes_received_at).await?;
            Ok(seen.and_answer_of(received_at))
        }
        NameProbe::ByName if is_ordered => {
            find_by_name(client, clock, directory, key, Some(&own)).await
        }
        NameProbe::ByName => find_in_directory_bucket(client, clock, key, own).await,
    }
}

/// Lists the keys that begin with the name. If they do not decide, lists the keys that begin with
/// `own`, the name's prefix as a directory; `None` if the key is too long for one.
async fn find_by_name(
    client: &Arc<dyn ObjectClient>,
    clock: &Clock,
    directory: &str,
    key: &Key,
    own: Option<&str>,
) -> Result<Seen, FsError> {
    let listed = client.list(keys_from(key.as_str())).await?;
    let received_at = clock.now();
    let subtree = Subtree::new(key.as_str(), &listed, true);
    let below = subtree.below(directory);
    let (found, unless_directory) = match subtree.verdict(key.as_str(), own) {
        NameVerdict::Certain(found) => (found, None),
        NameVerdict::UnlessDirectory(found) => (found, own),
    };
    if let Some(own) = unless_directory {
        let listed = client.list(keys_from(own)).await?;
        if let Some(seen) = directory_of(&listed, own, true, clock.now()) {
            return Ok(seen);
        }
    }
    let lacks_marker = own.is_some_and(|own| lacks_marker(&subtree, own, &listed));
    let found = restored(client, key, found).await?;
    Ok(Seen {
        lacks_marker,
        without_etag: without_etag(&listed),
        below,
        ..Seen::only(found, received_at)
    })
}

/// Finds the object `key`, which is not a directory.
async fn object(
    client: &Arc<dyn ObjectClient>,
    clock: &Clock,
    directory: &str,
    key: &Key,
) -> Result<Seen, FsError> {
    if !client.lists_in_order() {
        let found = file(client.head(key).await)?;
        return Ok(Seen::only(found, clock.now()));
    }
    find_by_name(client, clock, directory, key, None).await
}

/// Uses the answer to a GET of the first bytes, which arrived at `received_at`. Lists the object if
/// that failed: it may be archived, or only LIST may be permitted.
async fn first_bytes_of(
    client: &Arc<dyn ObjectClient>,
    clock: &Clock,
    directory: &str,
    key: &Key,
    first_bytes: Result<FirstBytes, ClientError>,
    received_at: Duration,
) -> Result<Seen, FsError> {
    match first_bytes {
        Ok(FirstBytes { info, bytes }) => {
            let found = Some(Found::File(Version::from(&info)));
            Ok(Seen {
                first_bytes: Some(bytes),
                ..Seen::only(found, received_at)
            })
        }
        Err(error) if error.kind == ErrorKind::NotFound => Ok(Seen::only(None, received_at)),
        Err(_) => {
            let seen = object(client, clock, directory, key).await?;
            Ok(Seen {
                first_bytes_failed: true,
                ..seen
            })
        }
    }
}

/// Sends a HEAD for an archived object, because a LIST does not tell whether it was restored.
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

/// Waits for `found` and a HEAD of the object, both at once, if there is a HEAD.
///
/// The HEAD's outcome counts for files only.
pub(crate) async fn together(
    clock: &Clock,
    found: impl Future<Output = Result<Seen, FsError>>,
    described: Option<Pending<ObjectDetails>>,
) -> Result<(Seen, Option<Described>), FsError> {
    let Some(described) = described else {
        return Ok((found.await?, None));
    };
    let described = async { (described.await, clock.now()) };
    let (seen, (described, received_at)) = join(found, described).await;
    let mut seen = seen?;
    seen.received_at = seen.received_at.min(received_at);
    let is_file = matches!(seen.found, Some(Found::File(_)));
    Ok((seen, is_file.then_some(described)))
}

type Described = Result<ObjectDetails, ClientError>;

/// Reads the POSIX attributes of a file's object or a directory's marker.
///
/// Also returns the newest version of the file. `described` is the outcome of an earlier HEAD of
/// the file. A directory that `lacks_marker` is not asked for one.
pub(crate) async fn carried(
    client: &Arc<dyn ObjectClient>,
    key: &Key,
    found: Option<Found>,
    lacks_marker: bool,
    described: Option<Described>,
) -> Result<(Option<Found>, Option<PosixAttributes>), FsError> {
    let (object, is_directory) = match &found {
        None => return Ok((None, None)),
        Some(Found::Directory) if lacks_marker => return Ok((found, None)),
        Some(Found::File(_)) => (Some(key.clone()), false),
        Some(Found::Directory) => {
            let marker = names::directory_prefix(key);
            (marker.and_then(|marker| Key::parse(&marker)), true)
        }
    };
    let Some(object) = object else {
        return Ok((found, None));
    };
    let described = match described {
        Some(described) => described,
        None => client.head_details(&object).await,
    };
    match described {
        Ok(described) => {
            let posix = PosixAttributes::of(&described.headers.metadata);
            let found = if is_directory {
                Found::Directory
            } else {
                Found::File(Version::from(&described.info))
            };
            Ok((Some(found), Some(posix)))
        }
        // The listing has shown the name. Some servers return a marker without an ETag.
        Err(error) if is_refusal(&error.kind) => Ok((found, None)),
        Err(error) => Err(error.into()),
    }
}

/// Whether a HEAD that failed so does not tell what an object carries, which is there: the key of
/// SSE-C is missing, its access control list denies it, or only the listing knows it.
fn is_refusal(kind: &ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::Denied
            | ErrorKind::InvalidRequest
            | ErrorKind::InvalidResponse
    )
}

/// Sends a LIST and a HEAD at once. A directory wins, so that only the LIST can decide for a file.
async fn find_in_directory_bucket(
    client: &Arc<dyn ObjectClient>,
    clock: &Clock,
    key: &Key,
    own: String,
) -> Result<Seen, FsError> {
    match select(client.list(keys_from(&own)), client.head(key)).await {
        Either::Left((listed, head)) => {
            let received_at = clock.now();
            match directory_of(&listed?, &own, false, received_at) {
                Some(seen) => Ok(seen),
                None => Ok(Seen::only(file(head.await)?, received_at)),
            }
        }
        Either::Right((head, listing)) => {
            let received_at = clock.now();
            let listed = listing.await?;
            match directory_of(&listed, &own, false, clock.now()) {
                Some(seen) => Ok(seen),
                None => Ok(Seen::only(file(head)?, received_at)),
            }
        }
    }
}

/// The directory `prefix`, if any key begins with it, even a hidden one.
fn directory_of(
    listed: &ListOutput,
    prefix: &str,
    is_ordered: bool,
    received_at: Duration,
) -> Option<Seen> {
    has_any(listed).then(|| {
        let subtree = Subtree::new(prefix, listed, is_ordered);
        Seen {
            below: subtree.below(prefix),
            lacks_marker: lacks_marker(&subtree, prefix, listed),
            without_etag: without_etag(listed),
            ..Seen::only(Some(Found::Directory), received_at)
        }
    })
}

/// Whether `listed` shows that no object has the key `marker`.
fn lacks_marker(subtree: &Subtree<'_>, marker: &str, listed: &ListOutput) -> bool {
    subtree.lacks(marker) && !without_etag(listed).iter().any(|key| key == marker)
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
    fn only(found: Option<Found>, received_at: Duration) -> Self {
        Self {
            found,
            without_etag: Vec::new(),
            below: Vec::new(),
            first_bytes: None,
            first_bytes_failed: false,
            lacks_marker: false,
            received_at,
        }
    }

    /// Marks the answer as based also on an earlier answer, which arrived at `received_at`.
    fn and_answer_of(self, received_at: Duration) -> Self {
        Self {
            received_at,
            ..self
        }
    }
}

/// First bytes of a file that come with the lookup: the kernel's first read.
pub(crate) const FIRST_BYTES_LEN: u32 = 128 << 10;
