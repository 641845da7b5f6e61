//! The layer between a connection and `s3s`: reads the head, logs, lets faults happen.
//!
//! Knows HTTP heads and bodies, nothing of an operation's work. Runs on the server's threads; a
//! request is one future, dropped when its client goes away.

use std::convert::Infallible;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use futures::future::BoxFuture;
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, Request, Response, StatusCode};
use s3s::service::S3Service;
use s3s::{S3Error, S3ErrorCode};

use super::api::express::Sessions;
use super::http::body::{AnswerBody, BodyFault};
use super::http::chunked;
use super::http::faults::{Faults, HeadFault, Quirks, RequestFaults};
use super::http::head::{Head, content_range};
use super::http::request_log::{RequestLog, Ticket};
use super::http::stalling::HeadStall;
use super::store::buckets::Store;

/// Answers every request of every connection.
pub(super) struct Service {
    pub(super) s3: S3Service,
    pub(super) store: Arc<Store>,
    pub(super) log: Arc<RequestLog>,
    pub(super) faults: Arc<Faults>,
    pub(super) sessions: Arc<Sessions>,
    /// Requests that have been answered.
    pub(super) answers: AtomicU64,
    /// Whether `s3s` checks signatures; otherwise they are taken off, as it refuses signatures that
    /// it cannot check.
    pub(super) verifies: bool,
}

/// Why there is no answer. The connection is closed.
#[derive(Debug)]
pub(super) struct NoAnswer(&'static str);

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for NoAnswer {}

impl Service {
    /// Answers one request.
    pub(super) fn answer(
        self: &Arc<Self>,
        request: Request<Incoming>,
        stall: &HeadStall,
    ) -> BoxFuture<'static, Result<Response<AnswerBody>, NoAnswer>> {
        let (this, stall) = (Arc::clone(self), stall.clone());
        Box::pin(async move {
            let (mut parts, body) = request.into_parts();
            let head = Head::parse(&parts);
            let ticket = this.log.begin(&head);
            let plan = this.faults.plan(&head);
            let is_head = parts.method == Method::HEAD;
            parts.extensions.insert(Quirks {
                unknown_subresource: head.unknown_subresource,
                ..plan.as_ref().map(|plan| plan.quirks).unwrap_or_default()
            });
            let mut response = match &plan {
                None => this.operate(&head, parts, body.into()).await?,
                Some(plan) => this.misbehave(plan, &head, parts, body).await?,
            };
            if plan.as_ref().is_none_or(|plan| plan.page.is_none()) {
                let id = HeaderValue::from(this.answers.fetch_add(1, Ordering::Relaxed));
                response.headers_mut().insert("x-amz-request-id", id);
            }
            if plan.as_ref().is_some_and(|plan| plan.head.stalls) {
                stall.begin();
            }
            let mut fault = plan.map(|plan| plan.body).unwrap_or_default();
            if fault.stalls_at_half {
                let len = http_body::Body::size_hint(response.body()).lower();
                fault.stall_after = Some(len / 2);
            }
            Ok(finish(response, ticket, is_head, fault))
        })
    }

    async fn misbehave(
        &self,
        plan: &RequestFaults,
        head: &Head,
        parts: Parts,
        body: Incoming,
    ) -> Result<Response<s3s::Body>, NoAnswer> {
        if plan.black_hole {
            std::future::pending::<()>().await;
        }
        for hold in &plan.holds {
            // An error is the end of the rule.
            while hold.clone().changed().await.is_ok() {}
        }
        if !plan.delay.is_zero() {
            tokio::time::sleep(plan.delay).await;
        }
        let takes_body = parts.method == Method::PUT || parts.method == Method::POST;
        if plan.quirks.requires_length
            && takes_body
            && !parts.headers.contains_key(header::CONTENT_LENGTH)
        {
            return error(411, "MissingContentLength");
        }
        let has = |name: &&str| parts.headers.contains_key(*name);
        if plan.unknown_headers.iter().any(has) {
            return error(501, "NotImplemented");
        }
        if plan.drop_connection {
            return Err(NoAnswer("dropped by a fault rule"));
        }
        if let Some(status) = plan.page {
            return Ok(page(status));
        }
        if let Some(status) = plan.endless_error {
            return Ok(endless(status));
        }
        if let Some((status, code)) = plan.error {
            return error(status, code);
        }
        if let Some(code) = plan.error_in_body {
            return error(200, code);
        }
        if plan.ends_upload
            && let Some(bucket) = self.store.bucket(&head.bucket)
        {
            bucket.uploads.lock().retain(|(key, _), _| *key != head.key);
            return error(409, "ConditionalRequestConflict");
        }
        let mut response = match plan.twice {
            true => self.operate_twice(head, parts, body).await?,
            false => self.operate(head, parts, body.into()).await?,
        };
        if plan.drop_afterwards {
            return Err(NoAnswer("dropped by a fault rule, when it was done"));
        }
        if let Some((status, code)) = plan.error_afterwards {
            return error(status, code);
        }
        if let Some(status) = plan.page_afterwards {
            return Ok(page(status));
        }
        distort(&mut response, &plan.head);
        Ok(response)
    }

    /// Does it twice; the second answer.
    async fn operate_twice(
        &self,
        head: &Head,
        parts: Parts,
        body: Incoming,
    ) -> Result<Response<s3s::Body>, NoAnswer> {
        let body = body.collect().await;
        let body = body.map_err(|_| NoAnswer("the body broke"))?.to_bytes();
        self.operate(head, parts.clone(), body.clone().into())
            .await?;
        self.operate(head, parts, body.into()).await
    }

    async fn operate(
        &self,
        head: &Head,
        mut parts: Parts,
        mut body: s3s::Body,
    ) -> Result<Response<s3s::Body>, NoAnswer> {
        if let Err(error) = self.sessions.check(head, &parts.headers) {
            return to_response(error);
        }
        drop_unusable_range(&mut parts.headers);
        if !self.verifies {
            body = chunked::unsign(&mut parts, body);
        }
        let answer = self.s3.call(Request::from_parts(parts, body)).await;
        answer.map_err(|_| NoAnswer("the answer could not be written"))
    }
}

/// S3 ignores a `Range` that it does not understand or that names several ranges; `s3s` refuses it.
/// A range that is signed has to stay.
fn drop_unusable_range(headers: &mut HeaderMap) {
    let text = |name| {
        headers
            .get(name)
            .and_then(|value: &HeaderValue| value.to_str().ok())
            .unwrap_or_default()
    };
    let is_signed = text(header::AUTHORIZATION).contains("range");
    if !is_signed && s3s::dto::Range::parse(text(header::RANGE)).is_err() {
        headers.remove(header::RANGE);
    }
}

fn finish(
    response: Response<s3s::Body>,
    mut ticket: Ticket,
    is_head: bool,
    fault: BodyFault,
) -> Response<AnswerBody> {
    let (mut parts, body) = response.into_parts();
    if is_head
        && parts.status == StatusCode::OK
        && parts.headers.contains_key(header::CONTENT_RANGE)
    {
        // `s3s` knows this status for GET only.
        parts.status = StatusCode::PARTIAL_CONTENT;
    }
    ticket.answered(parts.status.as_u16(), content_range(&parts.headers));
    let bodiless = is_head
        || parts.status == StatusCode::NOT_MODIFIED
        || parts.status == StatusCode::NO_CONTENT;
    let (body, fault) = if bodiless {
        (s3s::Body::empty(), BodyFault::default())
    } else {
        (body, fault)
    };
    Response::from_parts(parts, AnswerBody::new(body, ticket, fault))
}

fn error(status: u16, code: &'static str) -> Result<Response<s3s::Body>, NoAnswer> {
    let code = S3ErrorCode::from_bytes(code.as_bytes()).unwrap_or(S3ErrorCode::InternalError);
    let mut error = S3Error::with_message(code, "by a fault rule");
    error
        .set_status_code(StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR));
    to_response(error)
}

/// The page that a gateway shows to people.
fn page(status: u16) -> Response<s3s::Body> {
    let body =
        s3s::Body::from("<html><body><h1>No server is available</h1></body></html>".to_owned());
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(status).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let kind = HeaderValue::from_static("text/html");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// An error whose body has no end.
fn endless(status: u16) -> Response<s3s::Body> {
    let piece = || Ok::<_, Infallible>(Frame::data(Bytes::from_static(&[b' '; 4096])));
    let pieces = futures::stream::repeat_with(piece);
    let mut response = page(status);
    *response.body_mut() = s3s::Body::http_body(StreamBody::new(pieces));
    response
}

fn to_response(error: S3Error) -> Result<Response<s3s::Body>, NoAnswer> {
    error
        .to_http_response()
        .map_err(|_| NoAnswer("the error could not be written"))
}

/// Has the element `from` of an answer's document be called `to`, or leaves it out.
fn rename_element(document: &str, (from, to): (&str, &str)) -> String {
    match (to, element(document, from)) {
        ("", Some(found)) => format!("{}{}", &document[..found.start], &document[found.end..]),
        _ => document
            .replace(&format!("<{from}>"), &format!("<{to}>"))
            .replace(&format!("<{from} "), &format!("<{to} "))
            .replace(&format!("</{from}>"), &format!("</{to}>")),
    }
}

/// Gives the element `name` of an answer's document another text.
fn replace_text(document: &str, (name, text): (&str, &str)) -> String {
    let Some(found) = element(document, name) else {
        return document.to_owned();
    };
    let (before, after) = (&document[..found.start], &document[found.end..]);
    format!("{before}<{name}>{text}</{name}>{after}")
}

/// Where the first element of this name is, if it has no attributes.
fn element(document: &str, name: &str) -> Option<Range<usize>> {
    let start = document.find(&format!("<{name}>"))?;
    let close = format!("</{name}>");
    let end = document[start..].find(&close)? + start + close.len();
    Some(start..end)
}

/// Changes the answer's document, if it has one.
fn edit(response: &mut Response<s3s::Body>, change: impl Fn(&str) -> String) {
    let Some(bytes) = response.body().bytes() else {
        return;
    };
    let text = change(&String::from_utf8_lossy(&bytes));
    response
        .headers_mut()
        .insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
    *response.body_mut() = s3s::Body::from(text);
}

fn distort(response: &mut Response<s3s::Body>, fault: &HeadFault) {
    let headers = response.headers_mut();
    if fault.no_etag {
        headers.remove(header::ETAG);
    }
    if fault.wrong_etag {
        headers.insert(
            header::ETAG,
            HeaderValue::from_static("\"00000000000000000000000000000000\""),
        );
    }
    if fault.wrong_checksum {
        let of_zero = [
            ("x-amz-checksum-crc32c", "AAAAAA=="),
            ("x-amz-checksum-crc64nvme", "AAAAAAAAAAA="),
        ];
        for (name, value) in of_zero {
            if headers.contains_key(name) {
                headers.insert(name, HeaderValue::from_static(value));
            }
        }
    }
    if let Some(element) = fault.element {
        edit(response, |document| rename_element(document, element));
    }
    if let Some(text) = fault.element_text {
        edit(response, |document| replace_text(document, text));
    }
    let is_range = response.status() == StatusCode::PARTIAL_CONTENT;
    let headers = response.headers_mut();
    if fault.no_checksum_of_ranges && is_range {
        for name in ["crc32", "crc32c", "crc64nvme", "sha1", "sha256", "type"] {
            headers.remove(format!("x-amz-checksum-{name}"));
        }
    }
    if fault.no_content_range {
        headers.remove(header::CONTENT_RANGE);
    }
    if fault.length_error != 0 {
        let exact = http_body::Body::size_hint(response.body()).exact();
        let length = exact.unwrap_or(0).saturating_add_signed(fault.length_error);
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}
