//! The whole body of an answer, within bounds of time and length, before the SDK reads it.
//!
//! A server may hang in the middle of a body, or send one without an end. A document whose end is
//! missing is a shorter one for the SDK's parser: a listing would lack names. A gateway's page may
//! be an empty document for it: a deletion without errors.

use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_types::body::SdkBody;
use aws_smithy_types::byte_stream::ByteStream;

use super::silence::SilenceLimit;
use crate::xml_root::Root;

/// Whether the answer to `request` is in S3's own words. Only of an object's contents, which may be
/// the beginning of any XML, is a range asked.
pub(super) fn is_worded_by_s3(request: &HttpRequest) -> bool {
    !request.headers().contains_key("range")
}

/// The answer, with its whole body, or an error that a retry may mend. Of an error's body only the
/// beginning is kept if it is longer than a document of S3.
pub(super) async fn complete(
    mut response: HttpResponse,
    silence: SilenceLimit,
    is_worded_by_s3: bool,
) -> Result<HttpResponse, ConnectorError> {
    let is_success = response.status().is_success();
    let body = std::mem::replace(response.body_mut(), SdkBody::taken());
    let mut pieces = ByteStream::new(body);
    let mut body = Vec::new();
    while let Some(piece) = silence.goes_on(pieces.next()).await? {
        body.extend_from_slice(&piece.map_err(|error| ConnectorError::io(error.into()))?);
        match is_success {
            true if body.len() > BODY_MAX => {
                return Err(broken("the answer is larger than this client reads"));
            }
            false if body.len() > ERROR_BODY_MAX => break,
            _ => {}
        }
    }
    if is_success && is_worded_by_s3 {
        check(&response, &body)?;
    }
    *response.body_mut() = SdkBody::from(body);
    Ok(response)
}

/// The error if a body is none that S3 sends with a success.
fn check(response: &HttpResponse, body: &[u8]) -> Result<(), ConnectorError> {
    let root = Root::of(body);
    let kind = response.headers().get("content-type");
    if root.is_html() {
        return Err(broken("a page of HTML came in the place of the answer"));
    }
    if kind.is_some_and(|kind| kind.contains("xml")) && !root.is_whole {
        return Err(broken(
            "the answer's XML ends early, although its length is as announced",
        ));
    }
    Ok(())
}

fn broken(what: &'static str) -> ConnectorError {
    ConnectorError::io(what.into())
}

/// Longest body that is read, as over the CRT: S3's longest documents, lists of a thousand keys,
/// have 2 MiB.
const BODY_MAX: usize = 8 << 20;
/// The bytes read of an error's body, as over the CRT: S3's have less than 2 KiB.
const ERROR_BODY_MAX: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    async fn judged(
        kind: &'static str,
        status: u16,
        body: impl Into<SdkBody>,
    ) -> Result<HttpResponse, ConnectorError> {
        let status = status.try_into().expect("a status");
        let mut response = HttpResponse::new(status, body.into());
        response.headers_mut().insert("content-type", kind);
        let silence = SilenceLimit::of_body(Duration::from_secs(60));
        complete(response, silence, true).await
    }

    #[tokio::test]
    async fn an_answer_that_succeeded_is_whole_and_no_html() {
        let whole = judged("application/xml", 200, "<a>1</a>").await;
        let body = whole.expect("whole").body().bytes().map(<[u8]>::to_vec);
        assert_eq!(body.as_deref(), Some(&b"<a>1</a>"[..]));
        let cut = judged("text/xml; charset=utf-8", 200, "<a>1</").await;
        assert!(cut.expect_err("cut").is_io());
        for (kind, body) in [
            ("text/html", "<html>wait</html>"),
            ("application/xml", "<html>wait</html>"),
        ] {
            let page = judged(kind, 200, body).await;
            assert!(page.expect_err("a page").is_io(), "{body}");
        }
        for (kind, status, body) in [
            ("application/json", 200, "{\"a\": 1}"),
            ("application/xml", 500, "<a>1</"),
            ("text/html", 404, "<html>wait</html>"),
            ("text/plain", 200, "an answer of another service"),
            ("text/plain", 200, ""),
        ] {
            assert!(judged(kind, status, body).await.is_ok(), "{body}");
        }
    }

    #[tokio::test]
    async fn a_body_without_an_end_is_not_read_to_it() {
        for (status, len, is_read) in [
            (200, BODY_MAX, true),
            (200, BODY_MAX + 1, false),
            (404, BODY_MAX + 1, true),
        ] {
            let answer = judged("application/octet-stream", status, vec![b' '; len]).await;
            assert_eq!(answer.is_ok(), is_read, "{status} {len}");
        }
    }
}
