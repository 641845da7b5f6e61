//! Keys of objects.

use std::fmt;
use std::sync::Arc;

/// A whole object key: UTF-8, 1 to 1024 bytes, cheap to clone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// Longest key that S3 stores, in bytes of UTF-8 (S3 user guide, "Naming Amazon S3 objects").
    pub const LEN_MAX: usize = 1024;

    /// Ends the key of an object that a server lists without an ETag. Such an object cannot be
    /// read, because its versions look alike. No file has a name with a NUL.
    pub const NO_ETAG: &str = "\0no ETag";

    /// The key `text`, or `None` if S3 could not store it (empty, or longer than [`Key::LEN_MAX`]).
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        (!text.is_empty() && text.len() <= Self::LEN_MAX).then(|| Self(Arc::from(text)))
    }

    /// The key as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether an object of this key marks a directory. No file has such a key.
    #[must_use]
    pub fn is_marker(&self) -> bool {
        self.0.ends_with('/')
    }

    /// The defect of an object that a listing names by this key, which the server does not know.
    ///
    /// The object has no ETag ([`Key::NO_ETAG`]), or its key is not UTF-8, where a NUL and two
    /// hexadecimal digits stand for a byte.
    #[must_use]
    pub fn why_made_up(&self) -> Option<&'static str> {
        let is_byte = |text: &str| match text.as_bytes() {
            [high, low, ..] => {
                matches!(high, b'8' | b'9' | b'a'..=b'f')
                    && matches!(low, b'0'..=b'9' | b'a'..=b'f')
            }
            _ => false,
        };
        if self.0.ends_with(Self::NO_ETAG) {
            Some("no ETag at the server")
        } else if self.0.split('\0').skip(1).any(is_byte) {
            Some("a name that is not UTF-8")
        } else {
            None
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
