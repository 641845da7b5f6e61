//! Bytes of HTTP headers and of keys as text, without loss.
//!
//! Each byte that is not UTF-8 becomes a NUL and its two hexadecimal digits. Neither a header nor
//! the name of a file has a NUL, so that two different texts stay different.

use std::borrow::Cow;

/// The text of `bytes`.
#[must_use]
pub fn text_of_bytes(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        for byte in chunk.invalid() {
            text.push('\0');
            text.extend([byte >> 4, byte & 15].map(|digit| char::from(DIGITS[usize::from(digit)])));
        }
    }
    text
}

/// The bytes that `text` stands for. A NUL that stands for no byte stays.
#[must_use]
pub fn bytes_of_text(text: &str) -> Cow<'_, [u8]> {
    if !text.contains('\0') {
        return Cow::Borrowed(text.as_bytes());
    }
    let mut rest = text.as_bytes();
    let mut bytes = Vec::with_capacity(rest.len());
    while let [first, behind @ ..] = rest {
        let escaped = escaped(rest);
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() {
            &rest[3..]
        } else {
            behind
        };
    }
    Cow::Owned(bytes)
}

/// The byte that a NUL and two digits at the beginning of `text` stand for.
///
/// No character of ASCII is written so: nothing can become a line break.
fn escaped(text: &[u8]) -> Option<u8> {
    let [0, high, low, ..] = text else {
        return None;
    };
    let digit = |byte| DIGITS.iter().position(|digit| digit == byte);
    let byte = u8::try_from((digit(high)? << 4) | digit(low)?).ok()?;
    (byte >= 0x80).then_some(byte)
}

const DIGITS: &[u8; 16] = b"0123456789abcdef";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_bytes_come_back() {
        for (bytes, text) in [
            (&b"plain"[..], "plain"),
            ("f\u{fc}r".as_bytes(), "f\u{fc}r"),
            (b"f\xfcr", "f\0fcr"),
            (b"\xff\xfe\x80", "\0ff\0fe\080"),
            (b"\xc3", "\0c3"),
            (b"", ""),
        ] {
            assert_eq!(text_of_bytes(bytes), text);
            assert_eq!(bytes_of_text(text), bytes, "{text:?}");
        }
        // Nothing but such bytes is made of digits.
        for text in ["\x000a", "\0", "\0f", "\0FF", "\0zz", "a\x000d\x000ab"] {
            assert_eq!(bytes_of_text(text), text.as_bytes(), "{text:?}");
        }
    }
}
