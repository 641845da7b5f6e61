//! Text as servers send it: form-encoded keys, error documents, messages.
//!
//! Pure, and safe on any input.

/// Decodes a key of a listing with `encoding-type=url`: `%XX`, and `+` for a space. `None` if it is malformed.
pub(super) fn decode_form(encoded: &str) -> Option<String> {
    if !encoded.contains(['%', '+']) {
        return Some(encoded.to_owned());
    }
    String::from_utf8(decode_bytes(encoded)?).ok()
}

/// The same of a key that may not be UTF-8, which Amazon S3 does not store and other servers do. What is not UTF-8 becomes
/// a NUL and its hexadecimal digits: another key for each, and none that a file can have.
pub(super) fn decode_key(encoded: &str) -> Option<String> {
    if !encoded.contains(['%', '+']) {
        return Some(encoded.to_owned());
    }
    let bytes = match String::from_utf8(decode_bytes(encoded)?) {
        Ok(key) => return Some(key),
        Err(error) => error.into_bytes(),
    };
    let mut key = String::with_capacity(bytes.len() + 16);
    for chunk in bytes.utf8_chunks() {
        key.push_str(chunk.valid());
        for byte in chunk.invalid() {
            key.push('\0');
            key.extend(
                [byte >> 4, byte & 15]
                    .map(|digit| char::from(b"0123456789abcdef"[usize::from(digit)])),
            );
        }
    }
    Some(key)
}

fn decode_bytes(encoded: &str) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity(encoded.len());
    let mut bytes = encoded.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'+' => b' ',
            b'%' => hex_digit(bytes.next()?)? << 4 | hex_digit(bytes.next()?)?,
            _ => byte,
        });
    }
    Some(decoded)
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte)
        .to_digit(16)
        .and_then(|digit| u8::try_from(digit).ok())
}

/// Text of the first `<name>` element, where it holds only text. Enough for S3's flat error documents; an
/// answer that is not one (a proxy's HTML) gives `None`.
pub(super) fn xml_element(document: &str, name: &str) -> Option<String> {
    let (_, rest) = document.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    if text.contains('<') {
        return None;
    }
    let mut plain = text.to_owned();
    for (entity, character) in [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&apos;", "'"),
        ("&#39;", "'"),
        ("&#34;", "\""),
        ("&amp;", "&"),
    ] {
        if plain.contains(entity) {
            plain = plain.replace(entity, character);
        }
    }
    Some(plain)
}

/// A server's message on one line of bounded length, without control characters.
pub(super) fn printable(message: &str) -> String {
    let mut out: String = message
        .chars()
        .take(MESSAGE_CHARS_MAX)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if message.chars().nth(MESSAGE_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// S3's own messages are shorter.
const MESSAGE_CHARS_MAX: usize = 300;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_not_utf_8() {
        for (encoded, decoded) in [
            ("a+b%2Bc", Some("a b+c")),
            ("%C3%BC", Some("\u{fc}")),
            ("d/%FFx%c3", Some("d/\0ffx\0c3")),
            ("%80%81", Some("\080\081")),
            ("%", None),
            ("%f", None),
        ] {
            assert_eq!(decode_key(encoded).as_deref(), decoded, "{encoded}");
        }
    }

    #[test]
    fn form_decoding() {
        for (encoded, decoded) in [
            ("", Some("")),
            ("plain/key.txt", Some("plain/key.txt")),
            ("a+b%2Bc", Some("a b+c")),
            ("%41%4a%4A", Some("AJJ")),
            ("%C3%BC%f0%9f%98%80", Some("ü😀")),
            ("%00%01%0a", Some("\u{0}\u{1}\n")),
            ("%", None),
            ("%4", None),
            ("%4G", None),
            ("%+1", None),
            ("%ff", None),
            ("ü%41", Some("üA")),
        ] {
            assert_eq!(decode_form(encoded).as_deref(), decoded, "{encoded:?}");
        }
    }

    #[test]
    fn elements_of_error_documents() {
        let document = "<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code><Message>a &lt;b&gt; &amp;lt; c</Message>\
                        <Key></Key><Deep><x>1</x></Deep></Error>";
        for (name, text) in [
            ("Code", Some("NoSuchKey")),
            ("Message", Some("a <b> &lt; c")),
            ("Key", Some("")),
            ("Deep", None),
            ("Region", None),
        ] {
            assert_eq!(xml_element(document, name).as_deref(), text, "{name}");
        }
        assert_eq!(xml_element("<Code>cut", "Code"), None);
        assert_eq!(xml_element("<html>502</html>", "Code"), None);
    }

    #[test]
    fn messages_are_tamed() {
        assert_eq!(printable("a\r\n\u{1b}[31mb"), "a   [31mb");
        assert_eq!(
            printable(&"ü".repeat(1000)).chars().count(),
            MESSAGE_CHARS_MAX + 1
        );
    }
}
