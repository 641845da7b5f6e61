//! Heads of answers to ranged GETs, as the fuzzer makes them.

use std::ops::Range;

use mountpoint_crt_sys::ResponseHead;

use super::answer::{Answer, assert_shown};
use crate::crt_client::control::answer::{header, parse_content_range};
use crate::crt_client::fault::Operation;
use crate::crt_client::get::{answer_head, first_bytes, read_checksum};
use crate::types::{ETag, Key};

/// The head of an answer to a GET: the first line of the input is the first byte that was asked
/// for, the one behind the last, the size that is known, and the version.
pub(crate) fn range_head(data: &[u8]) {
    let Answer { asked, head, body } = Answer::read(data);
    let mut words = asked.split(' ');
    let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
    let (start, end, known) = (number(), number(), number());
    let start = start.unwrap_or(0).min(u64::MAX - 1);
    let asked: Range<u64> = start..end.unwrap_or(0).max(start + 1);
    let version = words.next().and_then(ETag::parse);
    match answer_head::check(&head, &asked, version.as_ref(), known) {
        Ok(output) => {
            assert!(version.is_none_or(|version| version == output.etag));
            assert!(known.is_none_or(|known| known == output.object_size));
            assert!(asked.end <= output.object_size, "{asked:?} {output:?}");
            assert_ne!(output.etag, ETag::none());
            let told = head.header("content-range").unwrap_or_default();
            let named = format!("{}-{}/", asked.start, asked.end - 1);
            let is_whole = head.status == 200 && asked.start == 0;
            assert!(is_whole || told.replace(' ', "").contains(&named), "{told}");
        }
        Err(refusal) => assert!(!refusal.what.contains(char::is_control), "{refusal:?}"),
    }
    first_bytes_head(&head);
    if let Some(expected) = read_checksum::expected(&head) {
        assert!(read_checksum::has_any(&head));
        if expected.check(body).is_ok() {
            let other = [body, b"x"].concat();
            assert!(expected.check(&other).is_err());
        }
    }
}

/// A head as an answer to a GET of the first bytes: the object is not taken for shorter than it is.
fn first_bytes_head(head: &ResponseHead) {
    let key = Key::parse("key").expect("a possible key");
    let operation = Operation::on_key("GetObject", "bucket", &key);
    let len_max = 9;
    match first_bytes::info_of(&operation, &key, len_max, head) {
        Ok(info) => match header(head, "content-range").map(parse_content_range) {
            Some(named) => {
                let (range, size) = named.expect("a range that can be read");
                assert_eq!(range, 0..info.size.min(len_max.into()), "{head:?}");
                assert!(size.is_none_or(|size| size == info.size), "{head:?}");
            }
            None => assert_ne!(head.status, 206, "{head:?}"),
        },
        Err(fault) => assert_shown(&fault.error),
    }
}
