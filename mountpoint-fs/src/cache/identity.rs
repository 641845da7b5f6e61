//! Which bytes an entry holds: one version of one object of one store.

use mountpoint_client::types::{ETag, Key};
use sha2::{Digest, Sha256};

use super::storage::EntryName;

/// Where objects come from. Two stores never share entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoreId {
    /// The endpoint's URL; empty for AWS.
    pub endpoint: String,
    /// The bucket's name or ARN.
    pub bucket: String,
    /// Fingerprint of the key that the customer encrypts with (SSE-C); empty without one. A user
    /// who lacks the key must not get the bytes from a cache.
    pub encryption: String,
}

/// One version of one object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CachedVersion {
    pub(crate) store: StoreId,
    pub(crate) key: Key,
    pub(crate) etag: ETag,
    /// Size in bytes.
    pub(crate) size: u64,
}

impl CachedVersion {
    /// The name of its entry: a hash of all that it consists of, with lengths before texts so that
    /// no two versions give the same bytes.
    pub(crate) fn name(&self) -> EntryName {
        let mut hash = Sha256::new();
        hash.update(b"mount-s3 cache v1");
        for text in self.texts() {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        hash.update(self.size.to_le_bytes());
        let digest = hash.finalize();
        let mut name = [0; 16];
        name.copy_from_slice(&digest[..16]);
        EntryName(name)
    }

    /// Whether both are the same version.
    pub(crate) fn is(&self, other: &Self) -> bool {
        self.size == other.size && self.texts() == other.texts()
    }

    /// All texts, in the order of the header. Quotes of the `ETag` do not count: some servers leave
    /// them out of listings.
    pub(super) fn texts(&self) -> [&str; 5] {
        [
            &self.store.endpoint,
            &self.store.bucket,
            &self.store.encryption,
            self.key.as_str(),
            self.etag.as_str().trim_matches('"'),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version() -> CachedVersion {
        CachedVersion {
            store: StoreId {
                endpoint: "http://host".to_owned(),
                bucket: "bucket".to_owned(),
                encryption: String::new(),
            },
            key: Key::parse("a/b").unwrap(),
            etag: ETag::from_header("\"1\""),
            size: 7,
        }
    }

    #[test]
    fn every_part_of_a_version_changes_the_name() {
        let base = version();
        let mut others = vec![
            version(),
            version(),
            version(),
            version(),
            version(),
            version(),
        ];
        others[0].store.endpoint.push('x');
        others[1].store.bucket.push('x');
        others[2].store.encryption.push('x');
        others[3].key = Key::parse("a/bc").unwrap();
        others[4].etag = ETag::from_header("\"2\"");
        others[5].size = 8;
        for other in others {
            assert_ne!(other.name(), base.name(), "{other:?}");
        }
        assert_eq!(version().name(), base.name());
    }

    #[test]
    fn texts_do_not_run_into_each_other() {
        let mut moved = version();
        moved.store.endpoint.push('b');
        moved.store.bucket.remove(0);
        assert_ne!(moved.name(), version().name());
    }
}
