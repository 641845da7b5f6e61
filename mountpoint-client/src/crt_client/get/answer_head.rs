//! The check of the head of a GET's answer, before any byte of it is believed.
//!
//! Pure. Invariant: an answer that passes has exactly the requested range of the requested version.

use std::ops::Range;

use mountpoint_crt_sys::ResponseHead;

use crate::ErrorKind;
use crate::crt_client::control::answer::{parse_content_range, read_etag};
use crate::crt_client::fault::is_signed;
use crate::types::{ETag, GetOutput};

/// Why an answer was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::crt_client) struct Refusal {
    pub(in crate::crt_client) kind: ErrorKind,
    pub(in crate::crt_client) what: String,
}

/// Checks the head of a successful answer to a GET of `asked` under `If-Match: if_match`, of an
/// object that has so many bytes, if that is known.
///
/// A 200 that fits neither the range nor the version may be the page of a gateway, which says
/// nothing of the object.
pub(in crate::crt_client) fn check(
    head: &ResponseHead,
    asked: &Range<u64>,
    if_match: Option<&ETag>,
    known_size: Option<u64>,
) -> Result<GetOutput, Refusal> {
    let checked = check_as_s3(head, asked, if_match, known_size);
    let is_page = head.status == 200 && !is_signed(|name| head.header(name));
    checked.map_err(|refusal| match is_page {
        true => Refusal {
            kind: ErrorKind::Transient,
            what: format!("the answer is not S3's: {}", refusal.what),
        },
        false => refusal,
    })
}

fn check_as_s3(
    head: &ResponseHead,
    asked: &Range<u64>,
    if_match: Option<&ETag>,
    known_size: Option<u64>,
) -> Result<GetOutput, Refusal> {
    let etag = read_etag(head.header("etag")).map_err(|what| invalid(what.to_owned()))?;
    if let Some(expected) = if_match.filter(|expected| !expected.matches(&etag)) {
        let what = format!(
            "the object is now version {etag:?}, not {expected:?} (the server ignored If-Match)"
        );
        return Err(Refusal {
            kind: ErrorKind::PreconditionFailed,
            what,
        });
    }
    let object_size = match head.status {
        206 => check_partial(head, asked, known_size)?,
        200 => check_whole(head, asked)?,
        status => return Err(invalid(format!("status {status} where 206 was expected"))),
    };
    if let Some(known) = known_size.filter(|known| *known != object_size) {
        return Err(invalid(format!(
            "the object has {object_size} bytes, and was said to have {known} in the same version {etag:?}"
        )));
    }
    Ok(GetOutput { etag, object_size })
}

/// The object's size, from a `Content-Range` that equals what was asked. One that does not tell the
/// size (`*`) is of the size that is known.
fn check_partial(
    head: &ResponseHead,
    asked: &Range<u64>,
    known_size: Option<u64>,
) -> Result<u64, Refusal> {
    let Some(value) = head.header("content-range") else {
        let what = "the answer has no Content-Range header; the server or a proxy drops it from ranged GETs";
        return Err(invalid(what.to_owned()));
    };
    let Some((range, size)) = parse_content_range(value) else {
        return Err(invalid(format!(
            "the Content-Range header {value:?} cannot be read"
        )));
    };
    if range != *asked {
        let what = format!(
            "Content-Range is {value:?} where bytes {}-{} were asked for",
            asked.start,
            asked.end - 1
        );
        return Err(invalid(what));
    }
    let known_size = known_size.filter(|size| asked.end <= *size);
    let Some(size) = size.or(known_size) else {
        return Err(invalid(format!(
            "the Content-Range header {value:?} does not say how large the object is"
        )));
    };
    match content_length(head)? {
        Some(length) if length != asked.end - asked.start => Err(invalid(format!(
            "Content-Length is {length} where Content-Range is {value:?}"
        ))),
        _ => Ok(size),
    }
}

/// A server that answers a range with the whole object is right only if the range is the whole
/// object.
fn check_whole(head: &ResponseHead, asked: &Range<u64>) -> Result<u64, Refusal> {
    match content_length(head)? {
        Some(length) if asked.start == 0 && asked.end == length => Ok(length),
        Some(length) => Err(invalid(format!(
            "status 200 with {length} bytes where bytes {}-{} were asked for: the server ignored the Range header",
            asked.start,
            asked.end - 1
        ))),
        None => Err(invalid(
            "status 200 without a Content-Length header where 206 was expected".to_owned(),
        )),
    }
}

fn content_length(head: &ResponseHead) -> Result<Option<u64>, Refusal> {
    let Some(value) = head.header("content-length") else {
        return Ok(None);
    };
    match value.trim().parse() {
        Ok(length) => Ok(Some(length)),
        Err(_) => Err(invalid(format!(
            "the Content-Length header {value:?} is not a number"
        ))),
    }
}

fn invalid(what: String) -> Refusal {
    Refusal {
        kind: ErrorKind::InvalidResponse,
        what,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: Range<u64> = 10..20;

    fn head(status: u16, headers: &str) -> ResponseHead {
        let headers = headers
            .split('|')
            .filter(|line| !line.is_empty())
            .map(|line| {
                let (name, value) = line.split_once(": ").unwrap();
                (name.to_owned(), value.to_owned())
            });
        ResponseHead {
            status,
            headers: headers.collect(),
        }
    }

    #[track_caller]
    fn accepts(status: u16, headers: &str, asked: Range<u64>, if_match: Option<&str>, size: u64) {
        let if_match = if_match.map(ETag::from_header);
        let output = check(&head(status, headers), &asked, if_match.as_ref(), None).unwrap();
        assert_eq!((output.etag.as_str(), output.object_size), ("\"a\"", size));
    }

    #[track_caller]
    fn refuses(status: u16, headers: &str, kind: &ErrorKind, reason: &str) {
        let refusal = check(
            &head(status, headers),
            &ASKED,
            Some(&ETag::from_header("\"a\"")),
            Some(100),
        )
        .unwrap_err();
        assert_eq!(refusal.kind, *kind, "{headers}");
        assert!(refusal.what.contains(reason), "{headers}: {}", refusal.what);
    }

    #[test]
    fn right_answers() {
        let good = "ETag: \"a\"|Content-Range: bytes 10-19/100|Content-Length: 10";
        accepts(206, good, ASKED, Some("\"a\""), 100);
        accepts(206, good, ASKED, Some("a"), 100);
        accepts(206, good, ASKED, None, 100);
        accepts(
            206,
            "etag: \"a\"|content-range: bytes 10-19/20",
            ASKED,
            None,
            20,
        );
        accepts(200, "ETag: \"a\"|Content-Length: 20", 0..20, None, 20);
    }

    #[test]
    fn a_size_that_is_known_need_not_be_told() {
        let head = head(206, "ETag: \"a\"|Content-Range: bytes 10-19/*");
        let size = |known| check(&head, &ASKED, None, known).map(|output| output.object_size);
        assert_eq!(size(Some(100)), Ok(100));
        for unknown in [None, Some(19)] {
            let refusal = size(unknown).unwrap_err();
            assert_eq!(refusal.kind, ErrorKind::InvalidResponse);
            assert!(refusal.what.contains("how large"), "{}", refusal.what);
        }
    }

    /// A gateway answers in the place of S3, with its own ETag, size and range.
    #[test]
    fn a_page_says_nothing_of_the_object() {
        for headers in [
            "Content-Type: text/html|Content-Length: 612",
            "ETag: \"b\"|Content-Length: 612",
            "ETag: \"b\"|Content-Length: 10",
        ] {
            let transient = ErrorKind::Transient;
            refuses(200, headers, &transient, "not S3's");
            let signed = format!("{headers}|x-amz-request-id: 1");
            let refusal = check(&head(200, &signed), &ASKED, None, None).unwrap_err();
            assert_eq!(refusal.kind, ErrorKind::InvalidResponse, "{headers}");
        }
    }

    #[test]
    fn etags_that_cannot_be_sent_back_are_refused() {
        for control in ['\n', '\0', '\u{1b}', '\u{7f}'] {
            let headers = format!("ETag: \"a{control}b\"|Content-Range: bytes 10-19/100");
            let reason = "no header can have";
            refuses(206, &headers, &ErrorKind::InvalidResponse, reason);
        }
    }

    #[test]
    fn wrong_answers() {
        let changed = ErrorKind::PreconditionFailed;
        let invalid = ErrorKind::InvalidResponse;
        let range = "Content-Range: bytes 10-19/100";
        refuses(
            206,
            &format!("ETag: \"b\"|{range}"),
            &changed,
            "ignored If-Match",
        );
        refuses(206, &format!("ETag: |{range}"), &invalid, "no ETag");
        refuses(206, range, &invalid, "no ETag");
        refuses(206, "ETag: \"a\"", &invalid, "no Content-Range");
        refuses(
            206,
            "ETag: \"a\"|Content-Range: bytes 10-19/101",
            &invalid,
            "has 101 bytes, and was said to have 100",
        );
        refuses(
            206,
            &format!("ETag: \"a\"|{range}|Content-Length: 9"),
            &invalid,
            "Content-Length is 9",
        );
        refuses(
            206,
            &format!("ETag: \"a\"|{range}|Content-Length: x"),
            &invalid,
            "not a number",
        );
        refuses(
            200,
            "x-amz-id-2: 1|ETag: \"a\"|Content-Length: 100",
            &invalid,
            "ignored the Range",
        );
        let no_length = "x-amz-id-2: 1|ETag: \"a\"";
        refuses(200, no_length, &invalid, "without a Content-Length");
        refuses(204, "ETag: \"a\"", &invalid, "status 204");
        for wrong in ["bytes 10-18/100", "bytes 11-19/100", "bytes 0-9/100"] {
            refuses(
                206,
                &format!("ETag: \"a\"|Content-Range: {wrong}"),
                &invalid,
                "were asked for",
            );
        }
        for broken in [
            "bytes */100",
            "10-19/100",
            "bytes 19-10/100",
            "bytes 10-19/15",
            "bytes -1-9/9",
            "x",
        ] {
            refuses(
                206,
                &format!("ETag: \"a\"|Content-Range: {broken}"),
                &invalid,
                "cannot be read",
            );
        }
        let huge = "bytes 10-18446744073709551615/18446744073709551615";
        refuses(
            206,
            &format!("ETag: \"a\"|Content-Range: {huge}"),
            &invalid,
            "cannot be read",
        );
    }
}
