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

/// The question what the name `key` in the directory `directory` is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'a> {
    pub(crate) client: &'a dyn ObjectClient,
    pub(crate) clock: &'a Clock,
    pub(crate) directory: &'a str,
    pub(crate) key: &'a Key,
}

/// What a LIST below a name and another request, both sent at once, have found.
enum Both<T> {
    /// The LIST shows a directory: the other request is dropped.
    Directory(Seen),
    /// The LIST shows none. The other answer, with its arrival and that of the first of the two.
    Other(T, Duration, Duration),
}

impl Question<'_> {
    /// Finds out what the name is. `spend` permits fetching first bytes after a directory was
    /// expected and none was found.
    pub(crate) async fn find(
        &self,
        probe: NameProbe,
        spend: impl FnOnce() -> bool,
    ) -> Result<Seen, FsError> {
        let is_ordered = self.client.lists_in_order();
        let Some(own) = names::directory_prefix(self.key) else {
            // The key is too long for any key below it.
            return self.object().await;
        };
        match probe {
            NameProbe::Below { then_first_bytes } => {
                let listed = self.client.list(keys_from(&own)).await?;
                let received_at = self.clock.now();
                if let Some(seen) = directory_of(&listed, &own, is_ordered, received_at) {
                    return Ok(seen);
                }
                let seen = if then_first_bytes && spend() {
                    let bytes = self.client.first_bytes(self.key, FIRST_BYTES_LEN).await;
                    self.first_bytes_of(bytes, self.clock.now()).await?
                } else {
                    self.object().await?
                };
                Ok(seen.and_answer_of(received_at))
            }
            NameProbe::FirstBytes => {
                let bytes = self.client.first_bytes(self.key, FIRST_BYTES_LEN);
                match self.list_and(&own, bytes).await? {
                    Both::Directory(seen) => Ok(seen),
                    Both::Other(bytes, bytes_received_at, received_at) => {
                        let seen = self.first_bytes_of(bytes, bytes_received_at).await?;
                        Ok(seen.and_answer_of(received_at))
                    }
                }
            }
            NameProbe::ByName if is_ordered => self.find_by_name(Some(&own)).await,
            // A directory wins, so that only the LIST can decide for a file.
            NameProbe::ByName => match self.list_and(&own, self.client.head(self.key)).await? {
                Both::Directory(seen) => Ok(seen),
                Both::Other(head, _, received_at) => Ok(Seen::only(file(head)?, received_at)),
            },
        }
    }

    /// Waits for a LIST of the keys that begin with `own`, the name's prefix as a directory, and
    /// for `other`.
    async fn list_and<T>(
        &self,
        own: &str,
        other: Pending<T>,
    ) -> Result<Both<Answered<T>>, FsError> {
        let is_ordered = self.client.lists_in_order();
        match select(self.client.list(keys_from(own)), other).await {
            Either::Left((listed, other)) => {
                let received_at = self.clock.now();
                match directory_of(&listed?, own, is_ordered, received_at) {
                    Some(seen) => Ok(Both::Directory(seen)),
                    None => Ok(Both::Other(other.await, self.clock.now(), received_at)),
                }
            }
            Either::Right((other, listing)) => {
                let received_at = self.clock.now();
                let listed = listing.await?;
                match directory_of(&listed, own, is_ordered, self.clock.now()) {
                    Some(seen) => Ok(Both::Directory(seen)),
                    None => Ok(Both::Other(other, received_at, received_at)),
                }
            }
        }
    }

    /// Lists the keys that begin with the name. If they do not decide, lists the keys that begin
    /// with `own`, the name's prefix as a directory; `None` if the key is too long for one.
    async fn find_by_name(&self, own: Option<&str>) -> Result<Seen, FsError> {
        let name = self.key.as_str();
        let listed = self.client.list(keys_from(name)).await?;
        let received_at = self.clock.now();
        let subtree = Subtree::new(name, &listed, true);
        let below = subtree.below(self.directory);
        let (found, unless_directory) = match subtree.verdict(name, own) {
            NameVerdict::Certain(found) => (found, None),
            NameVerdict::UnlessDirectory(found) => (found, own),
        };
        if let Some(own) = unless_directory {
            let listed = self.client.list(keys_from(own)).await?;
            if let Some(seen) = directory_of(&listed, own, true, self.clock.now()) {
                return Ok(seen);
            }
        }
        // A LIST does not tell whether an archived object was restored.
        let found = match found {
            Some(Found::File(version)) if version.is_archived => {
                file(self.client.head(self.key).await)?
            }
            found => found,
        };
        Ok(Seen {
            lacks_marker: own.is_some_and(|own| lacks_marker(&subtree, own, &listed)),
            without_etag: without_etag(&listed),
            below,
            ..Seen::only(found, received_at)
        })
    }

    /// Finds the object of the name, which is not a directory.
    async fn object(&self) -> Result<Seen, FsError> {
        if !self.client.lists_in_order() {
            let found = file(self.client.head(self.key).await)?;
            return Ok(Seen::only(found, self.clock.now()));
        }
        self.find_by_name(None).await
    }

    /// Uses the answer to a GET of the first bytes, which arrived at `received_at`. Lists the
    /// object if that failed: it may be archived, or only LIST may be permitted.
    async fn first_bytes_of(
        &self,
        first_bytes: Answered<FirstBytes>,
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
                let seen = self.object().await?;
                Ok(Seen {
                    first_bytes_failed: true,
                    ..seen
                })
            }
        }
    }

    /// Reads the POSIX attributes of a file's object or a directory's marker.
    ///
    /// Also returns the newest version of the file. `described` is the outcome of an earlier HEAD
    /// of the file. A directory that `lacks_marker` is not asked for one.
    pub(crate) async fn carried(
        &self,
        found: Option<Found>,
        lacks_marker: bool,
        described: Option<Answered<ObjectDetails>>,
    ) -> Result<(Option<Found>, Option<PosixAttributes>), FsError> {
        let object = match &found {
            Some(Found::File(_)) => Some(self.key.clone()),
            Some(Found::Directory) if !lacks_marker => {
                names::directory_prefix(self.key).and_then(|marker| Key::parse(&marker))
            }
            Some(Found::Directory) | None => None,
        };
        let Some(object) = object else {
            return Ok((found, None));
        };
        let described = match described {
            Some(described) => described,
            None => self.client.head_details(&object).await,
        };
        match described {
            Ok(described) => {
                let posix = PosixAttributes::of(&described.headers.metadata);
                let newest = Found::File(Version::from(&described.info));
                let found = found.map(|found| match found {
                    Found::Directory => found,
                    Found::File(_) => newest,
                });
                Ok((found, Some(posix)))
            }
            // The listing has shown the name. Some servers return a marker without an ETag.
            Err(error) if is_refusal(&error.kind) => Ok((found, None)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Waits for `found` and a HEAD of the object, both at once, if there is a HEAD.
///
/// The HEAD's outcome counts for files only.
pub(crate) async fn together(
    clock: &Clock,
    found: impl Future<Output = Result<Seen, FsError>>,
    described: Option<Pending<ObjectDetails>>,
) -> Result<(Seen, Option<Answered<ObjectDetails>>), FsError> {
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

type Answered<T> = Result<T, ClientError>;

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
