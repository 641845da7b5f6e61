//! Versions of objects, and the tags of objects that are made of parts.

use std::fmt;
use std::sync::Arc;

use md5::{Digest as _, Md5};

/// S3's tag of one version of an object, byte for byte as the server sent it, quotes included.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(Arc<str>);

impl ETag {
    /// Takes the header's value as it is.
    #[must_use]
    pub fn from_header(value: &str) -> Self {
        Self(Arc::from(value))
    }

    /// The value for an `If-Match` header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// This ETag in quotes. Some servers leave them out of listings and demand them in conditions.
    #[must_use]
    pub fn quoted(&self) -> Self {
        if self.0.ends_with('"') {
            self.clone()
        } else {
            Self::from_header(&format!("\"{}\"", self.0))
        }
    }

    /// Whether both name the same version. Quotes are ignored, because some servers leave them out
    /// of XML listings and put them into headers.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self.0.trim_matches('"') == other.0.trim_matches('"')
    }

    /// The number of parts that the object was made of, if the ETag tells it as Amazon S3's do:
    /// `…-N`.
    #[must_use]
    pub fn parts(&self) -> Option<usize> {
        let (digest, count) = self.0.trim_matches('"').split_once('-')?;
        let is_digest = digest.len() == 32 && digest.bytes().all(|b| b.is_ascii_hexdigit());
        count.parse().ok().filter(|_| is_digest)
    }

    /// The tag that Amazon S3 gives the object of an upload of parts with these tags: the MD5 of
    /// their digests, and their number. `None` if one of them is no digest. An object with that tag
    /// has the bytes of these parts.
    #[must_use]
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        Self::both_of_parts(parts).map(|(tag, _)| tag)
    }

    /// Whether this tag is that of an object made of parts with these tags. Such an object has the
    /// bytes of these parts. Garage's tag is the MD5 of their digests as text, not of the digests'
    /// bytes.
    #[must_use]
    pub fn is_of_parts<'a>(&self, parts: impl IntoIterator<Item = &'a Self>) -> bool {
        Self::both_of_parts(parts)
            .is_some_and(|(tag, of_text)| self.matches(&tag) || self.matches(&of_text))
    }

    /// The tag made of the digests' bytes, and the tag made of their text.
    fn both_of_parts<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Option<(Self, Self)> {
        let (mut all, mut text, mut count) = (Md5::new(), Md5::new(), 0_u32);
        for part in parts {
            let digits = part.0.trim_matches('"').as_bytes();
            if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            text.update(digits);
            for pair in digits.chunks(2) {
                let pair = std::str::from_utf8(pair).ok()?;
                all.update([u8::from_str_radix(pair, 16).ok()?]);
            }
            count += 1;
        }
        let tag = |of: Md5| {
            let digest = of.finalize();
            let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
            Self(Arc::from(format!("\"{hex}-{count}\"")))
        };
        (count > 0).then(|| (tag(all), tag(text)))
    }
}

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_an_upload_is_made_of_those_of_its_parts() {
        let empty = "d41d8cd98f00b204e9800998ecf8427e";
        let (ones, letters) = ("1".repeat(32), "a".repeat(32));
        for (parts, expected) in [
            (&[empty][..], Some("\"59adb24ef3cdbe0297f05b395827453f-1\"")),
            (
                &[&ones, &letters],
                Some("\"b47542bcb0437fd2841d0460324c5d05-2\""),
            ),
            (&[&ones, "something else"], None),
            (&[&"g".repeat(32)], None),
            (&[&"é".repeat(16)], None),
            (&[&"+1".repeat(16)], None),
            (&[], None),
        ] {
            for quote in ["", "\""] {
                let tags: Vec<_> = parts
                    .iter()
                    .map(|part| ETag::from_header(&format!("{quote}{part}{quote}")))
                    .collect();
                let made = ETag::of_parts(&tags);
                assert_eq!(made.as_ref().map(ETag::as_str), expected, "{parts:?}");
                assert_eq!(
                    made.is_some_and(|made| made.is_of_parts(&tags)),
                    expected.is_some()
                );
            }
        }
        let tags = [&ones, &letters].map(|part| ETag::from_header(part));
        let written = ETag::from_header("\"fff82b0398f55050286ed0ac0372cc0e-2\"");
        assert!(written.is_of_parts(&tags));
        assert!(!written.is_of_parts(&tags[..1]));
        assert!(!written.is_of_parts([&tags[1], &tags[0]]));
    }
}
