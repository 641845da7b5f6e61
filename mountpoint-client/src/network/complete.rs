//! Whether an answer in XML came to its end.
//!
//! A server or a proxy that stops early and still frames its answer well leaves a document without
//! its end. The SDK's parser takes that for a shorter document: a listing would lack names. Pure
//! but for collecting the body.

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

use super::silence::SilenceLimit;

/// Whether the answer to `request` is in S3's own words. Only of an object's contents, which may be
/// the beginning of any XML, is a range asked.
pub(super) fn is_worded_by_s3(request: &HttpRequest) -> bool {
    !request.headers().contains_key("range")
}

/// The answer, with its whole body, or an error that a retry may mend. Answers that are not XML are
/// passed on as they are.
pub(super) async fn complete(
    mut response: HttpResponse,
    silence: SilenceLimit,
) -> Result<HttpResponse, ConnectorError> {
    let is_xml = response
        .headers()
        .get("content-type")
        .is_some_and(|kind| kind.contains("xml"));
    if !is_xml || !response.status().is_success() {
        return Ok(response);
    }
    let body = std::mem::replace(response.body_mut(), SdkBody::taken());
    let mut pieces = ByteStream::new(body);
    let mut body = Vec::new();
    while let Some(piece) = silence.heard(pieces.next()).await? {
        body.extend_from_slice(&piece.map_err(|error| ConnectorError::io(error.into()))?);
    }
    if !is_whole(&body) {
        return Err(ConnectorError::io(
            "the answer's XML ends early, although its length is as announced".into(),
        ));
    }
    *response.body_mut() = SdkBody::from(body);
    Ok(response)
}

/// Whether a document ends where its outermost element does. One that does not begin like XML is
/// for the parser.
fn is_whole(body: &[u8]) -> bool {
    let text = body.trim_ascii();
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    let mut rest = text;
    while let Some(end) = end_of_prologue(rest) {
        let Some(at) = rest.windows(end.len()).position(|bytes| bytes == end) else {
            return false;
        };
        if rest.starts_with(b"<!DOCTYPE") && rest[..at].contains(&b'[') {
            // Its declarations have angle brackets of their own.
            return true;
        }
        rest = rest[at + end.len()..].trim_ascii_start();
    }
    let Some(root) = rest.strip_prefix(b"<") else {
        // Nothing but a prologue is cut; no body at all is how S3 says that it has nothing to say.
        return !text.starts_with(b"<");
    };
    let is_delimiter = |byte: &u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'>');
    let name = &root[..root.iter().position(is_delimiter).unwrap_or(root.len())];
    let end = rest.strip_suffix(b">").map(<[u8]>::trim_ascii_end);
    let Some(end) = end else {
        return false;
    };
    let is_closed = end
        .strip_suffix(name)
        .is_some_and(|before| before.ends_with(b"</"));
    let is_empty_element = end.ends_with(b"/") && !root[..root.len() - 1].contains(&b'>');
    is_closed || is_empty_element
}

/// The end mark of the declaration or comment before the outermost element that `rest` begins with.
fn end_of_prologue(rest: &[u8]) -> Option<&'static [u8]> {
    match rest {
        [b'<', b'!', b'-', b'-', ..] => Some(b"-->"),
        [b'<', b'?', ..] => Some(b"?>"),
        [b'<', b'!', ..] => Some(b">"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const LISTING: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!-- s3 -->\n\
        <ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Contents><Key>a</Key>\
        </Contents><Contents><Key>b</Key></Contents></ListBucketResult>";

    #[test]
    fn documents_are_whole_at_their_end_only() {
        for whole in [
            LISTING,
            &format!(" \r\n\r\n{LISTING}\n"),
            "<a/>",
            "<?xml version='1.0'?><a b='c' />",
            "<a></a >",
            "\u{FEFF}<a>1</a>",
            "",
            "  \n",
            "no XML at all",
            "<!-- a -> b > c --><a></a>",
            "<?xml-stylesheet href='a>b'?><a></a>",
            "<!DOCTYPE a><a></a>",
            "<!DOCTYPE a [ <!ELEMENT a (#PCDATA)> ]><a></a>",
        ] {
            assert!(is_whole(whole.as_bytes()), "{whole:?}");
        }
        for end in 1..LISTING.len() {
            assert!(
                !is_whole(&LISTING.as_bytes()[..end]),
                "{:?}",
                &LISTING[..end]
            );
        }
        for cut in [
            "<",
            "<a>",
            "<a><b/>",
            "<a><b></b>",
            "<?xml version",
            "<!-- s3",
            "<!-- a > <b></b>",
            "<!DOCTYPE a><a>",
        ] {
            assert!(!is_whole(cut.as_bytes()), "{cut:?}");
        }
    }

    async fn judged(
        kind: &'static str,
        status: u16,
        body: &'static str,
    ) -> Result<HttpResponse, ConnectorError> {
        let status = status.try_into().expect("a status");
        let mut response = HttpResponse::new(status, SdkBody::from(body));
        response.headers_mut().insert("content-type", kind);
        let silence = SilenceLimit::of_attempt(Duration::from_secs(60));
        complete(response, silence).await
    }

    #[tokio::test]
    async fn only_answers_in_xml_that_succeeded_are_judged() {
        let whole = judged("application/xml", 200, "<a>1</a>").await;
        let body = whole.expect("whole").body().bytes().map(<[u8]>::to_vec);
        assert_eq!(body.as_deref(), Some(&b"<a>1</a>"[..]));
        let cut = judged("text/xml; charset=utf-8", 200, "<a>1</").await;
        assert!(cut.expect_err("cut").is_io());
        for (kind, status) in [("application/json", 200), ("application/xml", 500)] {
            assert!(judged(kind, status, "<a>1</").await.is_ok());
        }
    }
}
