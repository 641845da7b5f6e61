//! Names of objects in the shared bucket: hashes of what the objects hold.
//!
//! Two versions, extents, formats or stores never have one name, so an object is never changed and
//! needs no invalidation.

use mountpoint_client::types::Key;
use sha2::{Digest as _, Sha256};

use super::extents::{CHUNK_LEN, EXTENT_LEN, ExtentPlace};
use super::frame::{FORMAT, Seed};
use crate::cache::identity::CachedVersion;

/// One extent of one version, as all nodes name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cache::shared) struct ExtentName {
    /// The seed of its checksums.
    pub(in crate::cache::shared) seed: Seed,
    hex: String,
}

impl ExtentName {
    pub(in crate::cache::shared) fn of(version: &CachedVersion, place: &ExtentPlace) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"mount-s3 shared cache");
        for text in version.texts() {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        let numbers = [
            u64::from(FORMAT),
            version.size,
            EXTENT_LEN,
            CHUNK_LEN,
            place.number,
        ];
        for number in numbers {
            hash.update(number.to_le_bytes());
        }
        let seed: Seed = hash.finalize().into();
        let hex = seed[..16]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        Self { seed, hex }
    }

    /// Its object.
    pub(in crate::cache::shared) fn key(&self, prefix: &str) -> Option<Key> {
        Key::parse(&format!("{prefix}{FOLDER}v{FORMAT}/{}", self.hex))
    }
}

/// The object that each mount writes at its start: it proves the permission.
pub(in crate::cache::shared) fn start_key(prefix: &str) -> Option<Key> {
    Key::parse(&format!("{prefix}{FOLDER}last-start"))
}

/// A key that no object has: asking for it proves the permission to learn of a miss.
pub(in crate::cache::shared) fn absent_key(prefix: &str) -> Option<Key> {
    Key::parse(&format!("{prefix}{FOLDER}never-stored"))
}

/// Begins all keys of the cache behind the user's `prefix`.
pub(in crate::cache::shared) fn folder(prefix: &str) -> String {
    format!("{prefix}{FOLDER}")
}

/// Everything of the cache in its bucket lies below this, behind the user's prefix.
const FOLDER: &str = "mount-s3-cache/";

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use mountpoint_client::types::ETag;

    use super::*;
    use crate::cache::StoreId;

    fn version() -> CachedVersion {
        CachedVersion {
            store: StoreId {
                endpoint: "http://e".to_owned(),
                bucket: "bucket".to_owned(),
                encryption: String::new(),
            },
            key: Key::parse("a/key").unwrap(),
            etag: ETag::from_header("\"1\""),
            size: 100 << 20,
        }
    }

    fn name(version: &CachedVersion, offset: u64) -> String {
        let name = ExtentName::of(version, &ExtentPlace::at(offset, version.size));
        name.key("p/").unwrap().as_str().to_owned()
    }

    #[test]
    fn all_that_differs_gives_another_name() {
        let base = version();
        let mut names = HashSet::from([name(&base, 0), name(&base, EXTENT_LEN)]);
        let mut other = |change: fn(&mut CachedVersion)| {
            let mut version = version();
            change(&mut version);
            assert!(names.insert(name(&version, 0)), "{version:?}");
        };
        other(|it| it.store.endpoint.push('x'));
        other(|it| it.store.bucket.push('x'));
        other(|it| it.store.encryption.push('x'));
        other(|it| it.key = Key::parse("a/kez").unwrap());
        other(|it| it.etag = ETag::from_header("\"2\""));
        other(|it| it.size += 1);
    }

    #[test]
    fn names_are_the_same_for_ever() {
        let base = version();
        let expected = name(&base, 0);
        assert!(expected.starts_with("p/mount-s3-cache/v1/"), "{expected}");
        assert_eq!(expected.len(), "p/mount-s3-cache/v1/".len() + 32);
        assert_eq!(name(&base, 5), expected);
        let unquoted = CachedVersion {
            etag: ETag::from_header("1"),
            ..base
        };
        assert_eq!(name(&unquoted, 0), expected);
    }
}
