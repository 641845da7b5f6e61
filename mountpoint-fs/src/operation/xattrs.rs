//! Extended attributes in the metadata of an object, as s3fs stores them.
//!
//! Pure. All of them are in one header, `x-amz-meta-xattr`: JSON of names and base64 values, with
//! every byte that is not plain written as `%XX`. An unintelligible value is ignored: another
//! program's metadata must not hide a file.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The extended attributes of an object, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtendedAttributes(BTreeMap<String, Vec<u8>>);

impl ExtendedAttributes {
    /// Parses `metadata`: names without the `x-amz-meta-` prefix, and values.
    #[must_use]
    pub fn of(metadata: &[(String, String)]) -> Self {
        let mut headers = metadata.iter();
        let header = headers.find(|(name, _)| name.eq_ignore_ascii_case(HEADER));
        let parsed = header.and_then(|(_, text)| parse(text));
        Self(parsed.unwrap_or_default())
    }

    /// Puts the attributes into the metadata of an object. Other metadata stays.
    pub fn store(&self, metadata: &mut Vec<(String, String)>) {
        metadata.retain(|(name, _)| !name.eq_ignore_ascii_case(HEADER));
        if !self.0.is_empty() {
            metadata.push((HEADER.to_owned(), self.text()));
        }
    }

    /// The value of `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.get(name).map(Vec::as_slice)
    }

    /// Gives `name` a value.
    pub fn set(&mut self, name: &str, value: &[u8]) {
        self.0.insert(name.to_owned(), value.to_vec());
    }

    /// Removes `name`. Returns whether it existed.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// All names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    fn text(&self) -> String {
        let encoded = self
            .0
            .iter()
            .map(|(name, value)| (name, STANDARD.encode(value)));
        let encoded: BTreeMap<_, _> = encoded.collect();
        let json = serde_json::to_string(&encoded).expect("a map of texts is JSON");
        let mut text = String::with_capacity(json.len() * 2);
        for byte in json.bytes() {
            if byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte) {
                text.push(char::from(byte));
            } else {
                write!(text, "%{byte:02X}").expect("a text takes any");
            }
        }
        text
    }
}

fn parse(text: &str) -> Option<BTreeMap<String, Vec<u8>>> {
    let json: BTreeMap<String, String> = serde_json::from_slice(&decode(text)?).ok()?;
    // An attribute whose value is broken is left out; the others stay.
    let pairs = json.into_iter().filter_map(|(name, value)| {
        let value = STANDARD.decode(value.trim()).ok()?;
        Some((name, value))
    });
    Some(pairs.collect())
}

/// Decodes `%XX` to bytes.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        decoded.push(if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
        } else {
            byte
        });
    }
    Some(decoded)
}

/// The header, without `x-amz-meta-`.
const HEADER: &str = "xattr";

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(text: &str) -> Vec<(String, String)> {
        vec![("Xattr".to_owned(), text.to_owned())]
    }

    #[test]
    fn what_s3fs_wrote_is_read() {
        #[track_caller]
        fn check(text: &str, expected: &[(&str, &[u8])]) {
            let read = ExtendedAttributes::of(&header(text));
            let mut wanted = ExtendedAttributes::default();
            for (name, value) in expected {
                wanted.set(name, value);
            }
            assert_eq!(read, wanted, "{text}");
        }
        // Written by `setfattr -n user.colour -v blue` on s3fs 1.90, with one attribute and with
        // two.
        check(
            "%7B%22user.colour%22%3A%22Ymx1ZQ%3D%3D%22%7D",
            &[("user.colour", b"blue")],
        );
        check(
            "%7B%22user.a%22%3A%22AP8%3D%22%2C%22user.b%22%3A%22%22%7D",
            &[("user.a", b"\0\xff"), ("user.b", b"")],
        );
        check(r#"{"user.plain":"eA=="}"#, &[("user.plain", b"x")]);
        check(
            r#"{"user.broken":"!","user.x":"eA=="}"#,
            &[("user.x", b"x")],
        );
        for nothing in ["", "%7", "%zz", "{", "[1]", "%7B%22a%22%3A1%7D"] {
            check(nothing, &[]);
        }
    }

    #[test]
    fn other_metadata_stays() {
        let mut metadata = vec![("owner".to_owned(), "me".to_owned())];
        let mut attributes = ExtendedAttributes::default();
        attributes.set("user.a", b"1");
        attributes.store(&mut metadata);
        attributes.set("user.a", b"2");
        attributes.store(&mut metadata);
        assert_eq!(metadata.len(), 2);
        assert_eq!(metadata[1].1, "%7B%22user.a%22%3A%22Mg%3D%3D%22%7D");
        assert!(attributes.remove("user.a") && !attributes.remove("user.a"));
        attributes.store(&mut metadata);
        assert_eq!(metadata, [("owner".to_owned(), "me".to_owned())]);
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read_again(pairs: BTreeMap<String, Vec<u8>>) {
            let attributes = ExtendedAttributes(pairs);
            let mut metadata = Vec::new();
            attributes.store(&mut metadata);
            prop_assert!(metadata.iter().all(|(_, text)| text.is_ascii()));
            prop_assert_eq!(ExtendedAttributes::of(&metadata), attributes);
        }
    }
}
