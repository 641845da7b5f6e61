//! The origin of an answer: S3, or a gateway, an ingress or a proxy in front of it, which answers
//! with the same statuses while S3 is away.
//!
//! Pure. An error is S3's only with its document, which names a code. An answer to HEAD has no
//! document: there the headers tell, and where they do not, the same is asked with a body.

use mountpoint_crt_sys::ResponseHead;

use crate::crt_client::text;
use crate::xml_root::Root;

/// S3's document of an error.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::crt_client) struct ErrorDocument {
    pub(in crate::crt_client) code: String,
    pub(in crate::crt_client) message: Option<String>,
    pub(in crate::crt_client) region: Option<String>,
}

impl ErrorDocument {
    /// The document that `body` is; `None` if S3 did not write it, or not all of it came.
    pub(in crate::crt_client) fn read(body: &[u8]) -> Option<Self> {
        if !Root::of(body).is("Error") {
            return None;
        }
        let document = String::from_utf8_lossy(body);
        let element = |name| {
            text::xml_element(&document, name)
                .map(|text| text.trim().to_owned())
                .filter(|text| !text.is_empty())
        };
        Some(Self {
            code: element("Code")?,
            message: element("Message"),
            region: element("Region"),
        })
    }
}

/// Whether the head of an answer without a document is one of S3, whatever its status.
pub(in crate::crt_client) fn is_signed<'a>(header: impl Fn(&str) -> Option<&'a str>) -> bool {
    SIGNS
        .iter()
        .any(|name| header(name).is_some_and(|value| !value.trim().is_empty()))
}

/// Whether the head of a refusal without a document is S3's.
pub(super) fn is_refusal_of_s3<'a>(header: impl Fn(&str) -> Option<&'a str>) -> bool {
    let kind = header("content-type").unwrap_or("xml");
    kind.contains("xml") && is_signed(header)
}

/// Whether the head of a successful answer to HEAD may be that of a page for people.
pub(in crate::crt_client) fn may_be_page(head: &ResponseHead) -> bool {
    let kind = head.header("content-type").unwrap_or_default();
    let has_etag = head.header("etag").is_some_and(|etag| !etag.is_empty());
    !is_signed(|name| head.header(name)) && (!has_etag || kind.contains("html"))
}

/// Headers that S3 and its kin send with every answer, HEAD's included, and gateways do not.
const SIGNS: [&str; 5] = [
    "x-amz-request-id",
    "x-amz-id-2",
    "x-amz-bucket-region",
    "x-amz-delete-marker",
    "x-minio-error-code",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_document_with_a_code_is_an_error_of_s3() {
        let document = |body: &str| ErrorDocument::read(body.as_bytes());
        let found = document(
            "<?xml version=\"1.0\"?>\n<Error><Code>NoSuchKey</Code><Message>a &lt; b</Message>\
             <Resource>/b/a&b</Resource><Region>r-1</Region></Error>",
        );
        let expected = ErrorDocument {
            code: "NoSuchKey".to_owned(),
            message: Some("a < b".to_owned()),
            region: Some("r-1".to_owned()),
        };
        assert_eq!(found, Some(expected));
        for other in [
            "",
            "default backend - 404",
            "<html><body><Error><Code>NoSuchKey</Code></Error></body></html>",
            "<Error><Code>NoSuchKey</Code>",
            "<Error><Message>no</Message></Error>",
            "<Error><Code> </Code></Error>",
            "{\"Code\": \"NoSuchKey\"}",
        ] {
            assert_eq!(document(other), None, "{other}");
        }
    }

    #[test]
    fn heads_tell_their_origin() {
        let id = ("x-amz-request-id", "1");
        for (headers, is_s3) in [
            (&[id][..], true),
            (&[id, ("content-type", "application/xml")], true),
            (&[id, ("content-type", "text/html")], false),
            (&[("x-minio-error-code", "NoSuchKey")], true),
            (&[("x-amz-request-id", "")], false),
            (&[("x-amz-cf-id", "1"), ("server", "CloudFront")], false),
            (&[("content-type", "application/xml")], false),
            (&[], false),
        ] {
            let find = |name: &str| {
                let found = headers.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| *value)
            };
            assert_eq!(is_refusal_of_s3(find), is_s3, "{headers:?}");
        }
    }
}
