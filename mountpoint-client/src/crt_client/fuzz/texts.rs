//! Single values in answers: keys, tags, times, ranges.

use std::time::SystemTime;

use aws_smithy_types::date_time::{DateTime, Format};
use mountpoint_crt_sys::{bytes_of_text, text_of_bytes};

use crate::crt_client::control::answer::{checksum_of_texts, parse_content_range};
use crate::crt_client::control::object_headers::checksum_header;
use crate::crt_client::text::{
    decode_form, decode_key, http_time, iso_time, printable, xml_element,
};
use crate::endpoint::{encode_key, encode_query};
use crate::types::{ETag, Key, WriteToken};

/// One text, read as each of the values that an answer has.
pub(crate) fn texts(data: &[u8]) {
    let text = text_of_bytes(data);
    // Bytes with a NUL may look like those that stand for others; no header and no file name has
    // one.
    assert!(data.contains(&0) || *bytes_of_text(&text) == *data);
    encoded(&text);
    times(&text);
    tags(&text);
    if let Some((range, size)) = parse_content_range(&text) {
        assert!(range.start < range.end);
        assert!(size.is_none_or(|size| range.end <= size), "{text:?}");
        let size = size.map_or_else(|| "*".to_owned(), |size| size.to_string());
        let again = format!("bytes {}-{}/{size}", range.start, range.end - 1);
        assert!(parse_content_range(&again).is_some(), "{again}");
    }
    for sum in [
        checksum_of_texts(Some(&text), None),
        checksum_of_texts(None, Some(&text)),
    ] {
        assert!(sum.is_none_or(|sum| checksum_header(sum).1 == text));
    }
    assert!(printable(&text).chars().count() <= 301);
    drop(xml_element(&text, "Code"));
}

/// An encoded text is decoded to the same text, and each decoded one can be encoded.
fn encoded(text: &str) {
    for encoded in [encode_key(text), encode_query(text)] {
        assert!(encoded.is_ascii());
        assert_eq!(decode_form(&encoded).as_deref(), Some(text));
        assert_eq!(decode_key(&encoded).as_deref(), Some(text));
    }
    let (key, form) = (decode_key(text), decode_form(text));
    assert!(form.is_none() || form.as_deref() == key.as_deref());
    if let Some(key) = &key {
        let is_odd = form.is_none();
        assert!(!is_odd || key.contains('\0'), "{text:?}");
        let made_up = Key::parse(key).and_then(|key| key.why_made_up());
        assert!(!is_odd || key.len() > Key::LEN_MAX || made_up.is_some());
    }
}

/// Times that the SDK reads as well are the same ones.
fn times(text: &str) {
    let at = |format| SystemTime::try_from(DateTime::from_str(text.trim(), format).ok()?).ok();
    if let Some(time) = at(Format::DateTimeWithOffset) {
        assert!(iso_time(text.trim()).is_none_or(|ours| ours == time));
    }
    assert_eq!(http_time(text), at(Format::HttpDate));
    if let Some(time) = iso_time(text) {
        let again = DateTime::from(time).fmt(Format::DateTime);
        let again = again.ok().and_then(|text| iso_time(&text));
        assert!(again.is_none_or(|again| again == time), "{text:?}");
    }
}

/// A tag that was read can be sent, and is then read as itself.
fn tags(text: &str) {
    if let Some(etag) = ETag::parse(text) {
        assert_eq!(ETag::parse(etag.as_str()), Some(etag.clone()), "{text:?}");
        assert!(etag.as_str().len() <= ETag::LEN_MAX);
        assert!(etag.as_str().starts_with('"') && etag.as_str().ends_with('"'));
        assert!(ETag::of_parts([&etag]).is_none_or(|all| all.parts() == Some(1)));
    }
    if let Some(token) = WriteToken::parse(text) {
        let numbered = token.numbered(7);
        assert_eq!(numbered.number_in(&token), Some(7));
    }
}
