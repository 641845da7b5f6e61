//! Hashes in place of names of files.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};

use sha2::{Digest as _, Sha256};

/// Replaces the parts of names by hashes, with a random key that is not kept.
#[derive(Debug)]
pub(super) struct NameHash {
    key: [u8; 32],
}

impl NameHash {
    /// With a key of the system's random numbers.
    pub(super) fn with_random_key() -> io::Result<Self> {
        let mut key = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        Ok(Self { key })
    }

    /// `name` with a hash for each part between slashes, and one for its extension.
    pub(super) fn of(&self, name: &str) -> String {
        let parts = name.split('/').map(|part| match part.rsplit_once('.') {
            _ if part.is_empty() => String::new(),
            Some((stem, extension)) if !stem.is_empty() => {
                let stem = self.hash(b"stem", stem, STEM_BYTES);
                let extension = self.hash(b"extension", extension, EXTENSION_BYTES);
                format!("{stem}.{extension}")
            }
            _ => self.hash(b"stem", part, STEM_BYTES),
        });
        parts.collect::<Vec<_>>().join("/")
    }

    fn hash(&self, kind: &[u8], text: &str, len: usize) -> String {
        let hash = Sha256::new()
            .chain_update(self.key)
            .chain_update(kind)
            .chain_update([0_u8])
            .chain_update(text);
        let mut hex = String::new();
        for byte in hash.finalize().iter().take(len) {
            // Writing into a string cannot fail.
            write!(hex, "{byte:02x}").ok();
        }
        hex
    }
}

/// Bytes of a part's hash: two of a million parts are alike with a chance of one in ten million.
const STEM_BYTES: usize = 8;
/// Bytes of an extension's hash: a job has a few extensions.
const EXTENSION_BYTES: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structure_stays_and_names_go() {
        let hash = NameHash::with_random_key().unwrap();
        let (one, other) = (hash.of("secret/plan.txt"), hash.of("secret/other.txt"));
        assert_eq!(one, hash.of("secret/plan.txt"));
        assert_ne!(one, other);
        assert_eq!(one.split('/').next(), other.split('/').next());
        assert_eq!(one.rsplit('.').next(), other.rsplit('.').next());
        assert_eq!(one.split('/').count(), 2);
        for word in ["secret", "plan", "txt"] {
            assert!(!one.contains(word), "{one}");
        }
        assert_ne!(
            one,
            NameHash::with_random_key().unwrap().of("secret/plan.txt")
        );
        assert_eq!(hash.of(""), "");
        assert!(!hash.of(".profile").contains('.'));
    }
}
