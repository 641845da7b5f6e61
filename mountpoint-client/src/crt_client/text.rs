//! Text as servers send it: form-encoded keys, times, error documents, messages.
//!
//! Pure, and safe on any input.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_smithy_types::date_time::{DateTime, Format};
use mountpoint_crt_sys::text_of_bytes;

/// Decodes a key of a listing with `encoding-type=url`: `%XX`, and `+` for a space. `None` if it is
/// malformed.
pub(super) fn decode_form(encoded: &str) -> Option<String> {
    if !encoded.contains(['%', '+']) {
        return Some(encoded.to_owned());
    }
    String::from_utf8(decode_bytes(encoded)?).ok()
}

/// Decodes a URL-encoded key that need not be UTF-8.
///
/// Amazon S3 stores no such key, other servers do. Each byte that is not UTF-8 becomes a NUL and
/// its hexadecimal digits, so that two keys stay different and no file has such a name.
#[must_use]
pub fn decode_key(encoded: &str) -> Option<Cow<'_, str>> {
    if !encoded.contains(['%', '+']) {
        return Some(Cow::Borrowed(encoded));
    }
    Some(Cow::Owned(text_of_bytes(&decode_bytes(encoded)?)))
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

/// A time of a listing, ISO 8601: `2026-01-02T03:04:05.678Z`, or with an offset such as `+01:00`
/// for the `Z`.
#[must_use]
pub fn iso_time(text: &str) -> Option<SystemTime> {
    let (date, rest) = text.split_once(['T', 't', ' '])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone = rest.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = rest.split_at(zone);
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let nanos = fraction_nanos(fraction)?;
    let offset = match zone {
        "Z" | "z" => 0,
        zone => {
            let [hours, minutes] = numbers(&zone[1..], ':', [2, 2])?;
            let offset = (hours <= 23 && minutes <= 59).then_some(hours * 3600 + minutes * 60)?;
            if zone.starts_with('-') {
                -offset
            } else {
                offset
            }
        }
    };
    let is_clock = hour <= 23 && minute <= 59 && second <= 60;
    let is_date = (1..=12).contains(&month) && (1..=days_of(year, month)).contains(&day);
    if !is_clock || !is_date {
        return None;
    }
    let seconds = days_since_1970(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second;
    time_at(seconds - offset)?.checked_add(Duration::from_nanos(nanos))
}

/// Decimal numbers of exactly so many digits each.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut found = [0; N];
    let mut pieces = text.split(between);
    for (number, digits) in found.iter_mut().zip(digits) {
        let piece = pieces.next().filter(|piece| piece.len() == digits)?;
        let is_number = piece.bytes().all(|byte| byte.is_ascii_digit());
        *number = is_number.then(|| piece.parse().ok()).flatten()?;
    }
    pieces.next().is_none().then_some(found)
}

/// Nanoseconds of the digits behind the point of a second. Smaller fractions are dropped.
fn fraction_nanos(digits: &str) -> Option<u64> {
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let nanos = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
    Some(nanos.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0')))
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Of the Gregorian calendar, whose years begin in March here, so that the leap day is the last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let before_year = year * 365 + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let before_month = (month * 153 + 2) / 5;
    before_year + before_month + day - 1 - DAYS_TO_1970
}

fn time_at(seconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        UNIX_EPOCH.checked_sub(distance)
    } else {
        UNIX_EPOCH.checked_add(distance)
    }
}

/// A time of a header: `Fri, 02 Jan 2026 03:04:05 GMT`.
pub(super) fn http_time(text: &str) -> Option<SystemTime> {
    let time = DateTime::from_str(text.trim(), Format::HttpDate).ok()?;
    SystemTime::try_from(time).ok()
}

/// Text of the first `<name>` element, where it holds only text. Enough for S3's flat error
/// documents; an answer that is not one (a proxy's HTML) gives `None`.
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

/// From the first of March of the year 0, of a calendar that had been Gregorian always.
const DAYS_TO_1970: i64 = 719_468;
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
    fn times() {
        for (text, millis) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2026-01-02T03:04:05.678Z", Some(1_767_323_045_678)),
            ("2026-01-02T03:04:05Z", Some(1_767_323_045_000)),
            (
                "2026-01-02 03:04:05.6789123456789z",
                Some(1_767_323_045_678),
            ),
            ("2026-01-02T04:34:05+01:30", Some(1_767_323_045_000)),
            ("2026-01-01T22:04:05-05:00", Some(1_767_323_045_000)),
            ("2000-02-29T23:59:60Z", Some(951_868_800_000)),
            ("2024-12-31T23:59:59.999Z", Some(1_735_689_599_999)),
            ("1969-12-31T23:59:59.250Z", Some(-750)),
            // Zero of a Go program.
            ("0001-01-01T00:00:00Z", Some(-62_135_596_800_000)),
            ("9999-12-31T23:59:59Z", Some(253_402_300_799_000)),
            ("", None),
            ("2026-01-02", None),
            ("2026-01-02T03:04:05", None),
            ("2026-01-02T03:04Z", None),
            ("2026-1-2T03:04:05Z", None),
            ("2026-13-02T03:04:05Z", None),
            ("2026-00-02T03:04:05Z", None),
            ("2023-02-29T03:04:05Z", None),
            ("1900-02-29T03:04:05Z", None),
            ("2026-01-00T03:04:05Z", None),
            ("2026-01-02T24:04:05Z", None),
            ("2026-01-02T03:60:05Z", None),
            ("2026-01-02T03:04:61Z", None),
            ("2026-01-02T03:04:05.Z", None),
            ("2026-01-02T03:04:05.+1Z", None),
            ("2026-01-02T03:04:05Zx", None),
            ("2026-01-02T03:04:05+1:00", None),
            ("2026-01-02T03:04:05+24:00", None),
            ("+026-01-02T03:04:05Z", None),
            ("2026-01-02-03T03:04:05Z", None),
            ("ü026-01-02T03:04:05Z", None),
            ("2026-01-02T03:04:05+ü:00", None),
        ] {
            let found = iso_time(text).map(|time| match time.duration_since(UNIX_EPOCH) {
                Ok(since) => i128::try_from(since.as_millis()).unwrap(),
                Err(before) => -i128::try_from(before.duration().as_millis()).unwrap(),
            });
            assert_eq!(found, millis, "{text:?}");
        }
        let found = http_time(" Fri, 02 Jan 2026 03:04:05 GMT");
        assert_eq!(found, iso_time("2026-01-02T03:04:05Z"));
        assert_eq!(http_time("yesterday"), None);
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
