//! Versions of objects, and the tags of objects that are made of parts.

use std::fmt;
use std::sync::{Arc, LazyLock};

use md5::{Digest as _, Md5};

/// S3's tag of one version of an object, in one form whoever tells it: in quotes, as `If-Match`
/// wants it, and without the mark of a weak tag.
///
/// Servers leave the quotes out of listings, proxies make strong tags weak, and some write `&quot;`
/// for a quote. So equal tags name the same version.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ETag(Arc<str>);

impl ETag {
    /// Longest tag, in bytes of its text with quotes. Amazon S3's have 34 to 40; files and names
    /// that are made of tags are as bounded as they are.
    pub const LEN_MAX: usize = 1024;

    /// The tag that an answer names by `sent`. `None` if that names no version: it is empty, longer
    /// than [`Self::LEN_MAX`], or has characters that no header can carry.
    #[must_use]
    pub fn parse(sent: &str) -> Option<Self> {
        let sent = sent.trim();
        let strong = match sent.split_at_checked(WEAK.len()) {
            Some((mark, tag)) if mark.eq_ignore_ascii_case(WEAK) && begins_with_quote(tag) => tag,
            _ => sent,
        };
        let tag = without_quotes(strong);
        let len = tag.len() + 2;
        if tag.is_empty() || len > Self::LEN_MAX || tag.chars().any(char::is_control) {
            return None;
        }
        if strong.len() == len && strong.starts_with('"') {
            return Some(Self(Arc::from(strong)));
        }
        Some(Self(Arc::from(format!("\"{tag}\""))))
    }

    /// The tag of a header or of a text that was kept; [`Self::none`] if that is none.
    #[must_use]
    pub fn from_header(value: &str) -> Self {
        Self::parse(value).unwrap_or_else(Self::none)
    }

    /// The tag of what has no version: its text is empty.
    #[must_use]
    pub fn none() -> Self {
        // One text for all: very many files may have none.
        static NONE: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from(""));
        Self(Arc::clone(&NONE))
    }

    /// The value for an `If-Match` header.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether both name the same version.
    #[must_use]
    pub fn matches(&self, other: &Self) -> bool {
        self == other
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
        let (mut all, mut count) = (Md5::new(), 0_u32);
        for part in parts {
            let digits = part.0.trim_matches('"').as_bytes();
            if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
                return None;
            }
            for pair in digits.chunks(2) {
                let pair = std::str::from_utf8(pair).ok()?;
                all.update([u8::from_str_radix(pair, 16).ok()?]);
            }
            count += 1;
        }
        let digest = hex(all.finalize().as_slice());
        (count > 0).then(|| Self(Arc::from(format!("\"{digest}-{count}\""))))
    }
}

/// The text between the quotes around it, in whichever form and however many these are: a tag that
/// was read is read again where it was kept, and must then be the same.
fn without_quotes(text: &str) -> &str {
    let mut text = text;
    loop {
        let len = text.len();
        for quote in QUOTES {
            text = text.strip_prefix(quote).unwrap_or(text);
            text = text.strip_suffix(quote).unwrap_or(text);
        }
        if text.len() == len {
            return text;
        }
    }
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn begins_with_quote(text: &str) -> bool {
    QUOTES.iter().any(|quote| text.starts_with(quote))
}

/// The mark of a weak tag, which a proxy puts before a tag that it has got.
const WEAK: &str = "W/";
/// A quote, as it is and as XML may spell it.
const QUOTES: [&str; 4] = ["\"", "&quot;", "&#34;", "&#x22;"];

impl fmt::Debug for ETag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_has_one_form_whoever_tells_it() {
        let long = "x".repeat(ETag::LEN_MAX - 2);
        for (sent, expected) in [
            ("\"abc-1\"", Some("\"abc-1\"")),
            ("abc-1", Some("\"abc-1\"")),
            (" \"abc\"\t", Some("\"abc\"")),
            ("W/\"abc\"", Some("\"abc\"")),
            ("w/&quot;abc&quot;", Some("\"abc\"")),
            ("W/abc", Some("\"W/abc\"")),
            ("&quot;abc&quot;", Some("\"abc\"")),
            ("&#34;abc&#34;", Some("\"abc\"")),
            ("&#x22;abc&#x22;", Some("\"abc\"")),
            ("\"abc", Some("\"abc\"")),
            ("\"&quot;abc&quot;\"", Some("\"abc\"")),
            ("&quot;abc&quot;&quot;", Some("\"abc\"")),
            ("&#34;\"abc\"\"&#34;", Some("\"abc\"")),
            ("\"\"\"\"", None),
            ("\u{e9}", Some("\"\u{e9}\"")),
            (&long, Some(&format!("\"{long}\""))),
            (&format!("{long}x"), None),
            ("", None),
            (" ", None),
            ("\"\"", None),
            ("\"", None),
            ("W/\"\"", None),
            ("&quot;&quot;", None),
            ("\"a\nb\"", None),
            ("\"a\u{0}\"", None),
            ("\"a\u{7f}\"", None),
        ] {
            let parsed = ETag::parse(sent);
            assert_eq!(parsed.as_ref().map(ETag::as_str), expected, "{sent:?}");
            let kept = ETag::from_header(sent);
            assert_eq!(kept.as_str(), expected.unwrap_or_default(), "{sent:?}");
            assert_eq!(ETag::from_header(kept.as_str()), kept, "{sent:?}");
        }
    }

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
            }
        }
    }
}
