//! Extended attributes: what S3 knows of an object besides its bytes, and what objects carry.
//!
//! Files have five attributes `user.s3.…`, which are read-only. Listing them (`ls -l` lists those
//! of each file) asks S3 nothing. User metadata are one attribute in JSON, and each of them an
//! attribute that is not listed. All but the ETag come from one HEAD.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::{Key, ObjectDetails, bytes_of_text};
use mountpoint_client::{ClientError, ObjectClient};

use crate::clock::Clock;
use crate::namespace::moment::Moment;
use crate::namespace::single_flight::SingleFlight;
use crate::sync::Mutex;

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtendedAttribute<'a> {
    ETag,
    ContentType,
    StorageClass,
    VersionId,
    /// All user metadata.
    Metadata,
    /// One of the user metadata.
    OneOfMetadata(&'a str),
}

/// The names that are listed, each with a NUL byte behind it.
pub(super) const LISTED: &[u8] =
    b"user.s3.etag\0user.s3.content_type\0user.s3.storage_class\0user.s3.version_id\0user.s3.metadata\0";

impl<'a> ExtendedAttribute<'a> {
    /// The attribute of that name, if there may be one.
    pub(super) fn parse(name: &'a OsStr) -> Option<Self> {
        Some(match name.to_str()?.strip_prefix("user.s3.")? {
            "etag" => Self::ETag,
            "content_type" => Self::ContentType,
            "storage_class" => Self::StorageClass,
            "version_id" => Self::VersionId,
            "metadata" => Self::Metadata,
            name => Self::OneOfMetadata(name.strip_prefix("metadata.")?),
        })
    }

    /// Its value; `None` if the object does not have it.
    pub(super) fn value(self, details: &ObjectDetails) -> Option<Vec<u8>> {
        let headers = &details.headers;
        let text = |value: &Option<String>, absent: &str| {
            bytes_of_text(value.as_deref().unwrap_or(absent)).into_owned()
        };
        Some(match self {
            Self::ETag => details.info.etag.as_str().as_bytes().to_vec(),
            Self::ContentType => text(&headers.content_type, "binary/octet-stream"),
            Self::StorageClass => text(&headers.storage_class, "STANDARD"),
            // S3's name for the version of an object in a bucket without versions.
            Self::VersionId => text(&details.version_id, "null"),
            Self::Metadata => {
                let metadata = headers.metadata.iter();
                let shown = |value| String::from_utf8_lossy(&bytes_of_text(value)).into_owned();
                let metadata: BTreeMap<&str, String> = metadata
                    .map(|(name, value)| (name.as_str(), shown(value)))
                    .collect();
                serde_json::to_vec(&metadata).ok()?
            }
            Self::OneOfMetadata(wanted) => {
                let mut metadata = headers.metadata.iter();
                let (_, value) = metadata.find(|(name, _)| name.eq_ignore_ascii_case(wanted))?;
                bytes_of_text(value).into_owned()
            }
        })
    }
}

/// The answers to the last HEADs for extended attributes: a program that reads one reads others.
/// The lock guards the list alone.
#[derive(Debug)]
pub(super) struct RecentDetails {
    recent: Mutex<VecDeque<Recent>>,
    heads: SingleFlight<Key, Result<Arc<ObjectDetails>, ClientError>>,
}

#[derive(Debug)]
struct Recent {
    key: Key,
    details: Arc<ObjectDetails>,
    valid_until: Moment,
}

impl RecentDetails {
    pub(super) fn new() -> Self {
        Self {
            recent: Mutex::default(),
            heads: SingleFlight::new(),
        }
    }

    /// The details of the object `key`: those that are remembered, for `ttl`, or those of a HEAD.
    pub(super) async fn of(
        &self,
        client: &dyn ObjectClient,
        key: &Key,
        (clock, ttl): (&Clock, Duration),
    ) -> Result<Arc<ObjectDetails>, ClientError> {
        if let Some(details) = self.find(key, clock.now().into()) {
            return Ok(details);
        }
        let begin = || {
            let head = client.head_details(key);
            async move { head.await.map(Arc::new) }
        };
        let details = self.heads.join(key.clone(), begin).await?;
        self.add(key, &details, (clock.now() + ttl).into());
        Ok(details)
    }

    fn find(&self, key: &Key, now: Moment) -> Option<Arc<ObjectDetails>> {
        let recent = self.recent.lock();
        let known = recent
            .iter()
            .find(|recent| recent.key == *key && recent.valid_until > now)?;
        Some(Arc::clone(&known.details))
    }

    /// The object `key` may be another one by now, and so may the one that marks a directory of
    /// this name.
    pub(super) fn forget(&self, key: &Key) {
        let is_its = |known: &Key| {
            let known = known.as_str();
            known.strip_suffix('/').unwrap_or(known) == key.as_str()
        };
        self.recent.lock().retain(|recent| !is_its(&recent.key));
    }

    fn add(&self, key: &Key, details: &Arc<ObjectDetails>, valid_until: Moment) {
        let mut recent = self.recent.lock();
        recent.retain(|recent| recent.key != *key);
        if recent.len() == DETAILS_MAX {
            recent.pop_front();
        }
        recent.push_back(Recent {
            key: key.clone(),
            details: Arc::clone(details),
            valid_until,
        });
    }
}

/// Objects whose details, the source of extended attributes, are remembered.
const DETAILS_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mountpoint_client::types::{ETag, ObjectHeaders, ObjectInfo, StoredChecksum};

    use super::*;

    fn details(key: &str) -> ObjectDetails {
        ObjectDetails {
            info: ObjectInfo {
                key: Key::parse(key).unwrap(),
                size: 1,
                etag: ETag::from_header("\"e\""),
                last_modified: SystemTime::UNIX_EPOCH,
                storage_class: None,
                restored: false,
            },
            headers: ObjectHeaders::default(),
            version_id: None,
            checksum: StoredChecksum::None,
            token: None,
        }
    }

    #[test]
    fn names_and_values() {
        let plain = details("k");
        let mut rich = details("k");
        rich.headers = ObjectHeaders {
            content_type: Some("text/plain".to_owned()),
            storage_class: Some("GLACIER".to_owned()),
            metadata: vec![
                ("b".to_owned(), "2 \"two\"".to_owned()),
                ("Colour".to_owned(), "blue".to_owned()),
            ],
            ..ObjectHeaders::default()
        };
        rich.version_id = Some("v1".to_owned());
        for (name, of_plain, of_rich) in [
            ("user.s3.etag", Some("\"e\""), Some("\"e\"")),
            (
                "user.s3.content_type",
                Some("binary/octet-stream"),
                Some("text/plain"),
            ),
            ("user.s3.storage_class", Some("STANDARD"), Some("GLACIER")),
            ("user.s3.version_id", Some("null"), Some("v1")),
            (
                "user.s3.metadata",
                Some("{}"),
                Some(r#"{"Colour":"blue","b":"2 \"two\""}"#),
            ),
            ("user.s3.metadata.colour", None, Some("blue")),
            ("user.s3.metadata.none", None, None),
            ("user.s3.size", None, None),
            ("user.s3.", None, None),
            ("user.etag", None, None),
            ("security.capability", None, None),
        ] {
            let value = |details: &ObjectDetails| {
                let value = ExtendedAttribute::parse(OsStr::new(name))?.value(details)?;
                Some(String::from_utf8(value).unwrap())
            };
            assert_eq!(value(&plain).as_deref(), of_plain, "{name}");
            assert_eq!(value(&rich).as_deref(), of_rich, "{name}");
        }
    }

    #[test]
    fn every_listed_name_has_a_value() {
        let details = details("k");
        let names = LISTED.split(|byte| *byte == 0);
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        assert_eq!(names.len(), 5);
        for name in names {
            let name = OsStr::new(std::str::from_utf8(name).unwrap());
            let attribute = ExtendedAttribute::parse(name).unwrap();
            assert!(attribute.value(&details).is_some());
        }
    }

    #[test]
    fn the_last_are_remembered_for_a_while() {
        let at = |seconds| Moment::from(Duration::from_secs(seconds));
        let recent = RecentDetails::new();
        for number in 0..=DETAILS_MAX {
            let details = Arc::new(details(&number.to_string()));
            recent.add(&details.info.key, &details, at(2));
        }
        let find = |number: usize, now| {
            let key = Key::parse(&number.to_string()).unwrap();
            recent.find(&key, at(now)).is_some()
        };
        assert!(!find(0, 1), "it had to go");
        assert!(find(1, 1) && find(DETAILS_MAX, 1));
        assert!(!find(1, 2), "too old");
    }
}
