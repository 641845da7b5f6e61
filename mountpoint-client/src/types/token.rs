//! The mark by which the sender of a write knows its own object again.
//!
//! Knows no requests. Only the sender knows a token before it is stored, so that an object with the
//! token proves that the write was done. Tokens are no secrets: a copy that keeps metadata carries
//! them on, and so each write is told by a token of its own.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

/// The mark of one write, in the metadata of the object that it makes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteToken(String);

impl WriteToken {
    /// The name of the token among an object's metadata.
    pub const METADATA_NAME: &str = "mount-s3-token";

    /// The most that a token takes of the metadata that S3 stores: its name, 22 characters, a dot
    /// and a number.
    pub const METADATA_LEN_MAX: usize = Self::METADATA_NAME.len() + 22 + 1 + 20;

    /// A token that no other write has.
    #[must_use]
    pub fn random() -> Self {
        Self(BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 16]>()))
    }

    /// The token with this text; `None` if no token has it.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_valid = (1..=TEXT_LEN_MAX).contains(&text.len()) && text.bytes().all(is_token);
        is_valid.then(|| Self(text.to_owned()))
    }

    /// The text that is stored.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The token of one of several writes, which are counted.
    #[must_use]
    pub fn numbered(&self, number: u64) -> Self {
        Self(format!("{}.{number}", self.0))
    }

    /// The number of the write among those of `series`; `None` if it is none of them.
    #[must_use]
    pub fn number_in(&self, series: &Self) -> Option<u64> {
        let number = self.0.strip_prefix(&series.0)?.strip_prefix('.')?;
        number.parse().ok()
    }
}

const TEXT_LEN_MAX: usize = WriteToken::METADATA_LEN_MAX - WriteToken::METADATA_NAME.len();

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_and_is_no_other_ones() {
        let (one, two) = (WriteToken::random(), WriteToken::random());
        assert_ne!(one, two);
        assert_eq!(one.as_str().len(), 22);
        let seventh = one.numbered(7);
        for token in [&one, &seventh, &one.numbered(u64::MAX)] {
            assert_eq!(WriteToken::parse(token.as_str()).as_ref(), Some(token));
        }
        assert_eq!(seventh.number_in(&one), Some(7));
        assert_eq!((seventh.number_in(&two), one.number_in(&one)), (None, None));
        for text in ["", "a b", "ü", &"a".repeat(44)] {
            assert_eq!(WriteToken::parse(text), None, "{text:?}");
        }
    }
}
