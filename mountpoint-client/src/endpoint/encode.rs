//! Percent-encoding of keys and queries, as SigV4 asks for it.
//!
//! Pure. `.` and `..` components and empty ones stay as they are: in S3 they are part of the name.

/// Percent-encodes a value for a query: everything but unreserved characters.
#[must_use]
pub fn encode_query(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    encode_into(&mut encoded, value, false);
    encoded
}

/// Percent-encodes a key for a header or a path: everything but unreserved characters and `/`.
#[must_use]
pub fn encode_key(key: &str) -> String {
    let mut encoded = String::with_capacity(key.len());
    encode_into(&mut encoded, key, true);
    encoded
}

/// RFC 3986's unreserved characters stay, as SigV4 asks; `/` may too.
pub(super) fn encode_into(out: &mut String, text: &str, keep_slash: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text.as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if keep_slash => out.push('/'),
            _ => {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}
