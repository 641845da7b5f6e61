//! The head of a request: its operation, bucket, key and range.
//!
//! The log and the fault rules need it before `s3s` has parsed the request, and also for requests
//! that never get there. Reads the head only; knows neither signatures nor the store.

use std::ops::Range;

use hyper::http::request::Parts;
use hyper::{HeaderMap, Method, header};

use crate::testing::server::operation::Operation;

/// The head of one request, in S3's terms.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    pub(crate) operation: Operation,
    /// Whether a request that changes something carries a query parameter that this server does not
    /// know.
    pub(crate) unknown_subresource: bool,
    pub(crate) bucket: String,
    pub(crate) key: String,
    pub(crate) query: String,
    pub(crate) prefix: Option<String>,
    pub(crate) range: Option<Range<u64>>,
    pub(crate) if_match: Option<String>,
    /// Algorithm and scope of the signature.
    pub(crate) signature: Option<String>,
    pub(crate) settings: Vec<(&'static str, String)>,
    pub(crate) access_key: Option<String>,
}

impl Head {
    pub(crate) fn parse(parts: &Parts) -> Self {
        let path = percent_decode(parts.uri.path().strip_prefix('/').unwrap_or_default());
        let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
        let query = parts.uri.query().unwrap_or_default();
        let is_copy = parts.headers.contains_key("x-amz-copy-source");
        Self {
            operation: classify(&parts.method, (bucket, key), query, is_copy),
            unknown_subresource: is_change(&parts.method)
                && names(query).any(|name| !is_known_of_changes(name)),
            prefix: value_of(query, "prefix"),
            query: query.to_owned(),
            range: whole_range(&parts.headers),
            if_match: text(&parts.headers, &header::IF_MATCH),
            signature: text(&parts.headers, &header::AUTHORIZATION)
                .as_deref()
                .and_then(signature_scope),
            settings: settings(&parts.headers),
            access_key: access_key(&parts.headers),
            key: key.to_owned(),
            bucket: bucket.to_owned(),
        }
    }
}

fn text(headers: &HeaderMap, name: &header::HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// `AWS4-HMAC-SHA256 Credential=KEY/DATE/REGION/SERVICE/aws4_request, …` without the key, the
/// date and the rest.
fn signature_scope(authorization: &str) -> Option<String> {
    let (algorithm, rest) = authorization.split_once(" Credential=")?;
    let mut scope = rest.split(',').next()?.splitn(3, '/');
    Some(format!("{algorithm} {}", scope.nth(2)?))
}

/// The headers that a client's settings put on its requests, as far as they are there.
fn settings(headers: &HeaderMap) -> Vec<(&'static str, String)> {
    let found = SETTINGS.iter().filter_map(|&name| {
        let value = headers.get(name)?.to_str().ok()?;
        Some((name, value.to_owned()))
    });
    found.collect()
}

const SETTINGS: [&str; 14] = [
    "x-amz-write-offset-bytes",
    "user-agent",
    "x-amz-request-payer",
    "x-amz-expected-bucket-owner",
    "x-amz-source-expected-bucket-owner",
    "x-amz-region-set",
    "x-amz-s3session-token",
    "x-amz-server-side-encryption",
    "x-amz-server-side-encryption-aws-kms-key-id",
    "x-amz-server-side-encryption-customer-algorithm",
    "x-amz-server-side-encryption-customer-key",
    "x-amz-server-side-encryption-customer-key-md5",
    "x-amz-copy-source-server-side-encryption-customer-key",
    "x-amz-copy-source-server-side-encryption-customer-key-md5",
];

/// The public half of the keys that the request is signed with.
fn access_key(headers: &HeaderMap) -> Option<String> {
    let authorization = text(headers, &header::AUTHORIZATION)?;
    let (_, credential) = authorization.split_once("Credential=")?;
    let (access_key, _) = credential.split_once('/')?;
    Some(access_key.to_owned())
}

/// A range that names both ends. Others depend on the object's size; the answer's `Content-Range`
/// tells.
fn whole_range(headers: &HeaderMap) -> Option<Range<u64>> {
    let (first, last) = headers
        .get(header::RANGE)?
        .to_str()
        .ok()?
        .strip_prefix("bytes=")?
        .split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?)
}

/// The range in a `Content-Range` header.
pub(crate) fn content_range(headers: &HeaderMap) -> Option<Range<u64>> {
    let text = headers.get(header::CONTENT_RANGE)?.to_str().ok()?;
    let (first, last) = text
        .strip_prefix("bytes ")?
        .split_once('/')?
        .0
        .split_once('-')?;
    Some(first.parse().ok()?..last.parse::<u64>().ok()?.checked_add(1)?)
}

fn is_change(method: &Method) -> bool {
    *method == Method::PUT || *method == Method::POST || *method == Method::DELETE
}

/// Query parameters that requests which change something may carry here. Anything else would be a
/// sub-resource with a meaning of its own, and doing the plain operation instead would destroy
/// data.
fn is_known_of_changes(name: &str) -> bool {
    let known = ["uploads", "uploadId", "partNumber", "delete", "x-id"];
    known.contains(&name) || name.starts_with("X-Amz-")
}

fn names(query: &str) -> impl Iterator<Item = &str> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs.map(|pair| pair.split_once('=').map_or(pair, |(name, _)| name))
}

fn value_of(query: &str, name: &str) -> Option<String> {
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))?;
    Some(percent_decode(&value.replace('+', " ")))
}

fn classify(method: &Method, (bucket, key): (&str, &str), query: &str, is_copy: bool) -> Operation {
    let has = |name: &str| names(query).any(|other| other == name);
    match (method.as_str(), bucket.is_empty(), key.is_empty()) {
        ("GET", true, _) => Operation::ListBuckets,
        ("GET", _, true) if has("location") => Operation::GetBucketLocation,
        ("GET", _, true) if has("uploads") => Operation::ListMultipartUploads,
        ("GET", _, true) if has("session") => Operation::CreateSession,
        ("GET", _, true) if has("list-type") => Operation::ListObjectsV2,
        ("GET", _, true) => Operation::ListObjects,
        ("GET", _, _) if has("uploadId") => Operation::ListParts,
        ("GET", _, _) => Operation::GetObject,
        ("HEAD", _, true) => Operation::HeadBucket,
        ("HEAD", _, _) => Operation::HeadObject,
        ("PUT", _, true) => Operation::CreateBucket,
        ("PUT", _, _) if has("renameObject") => Operation::RenameObject,
        ("PUT", _, _) if has("uploadId") && is_copy => Operation::UploadPartCopy,
        ("PUT", _, _) if has("uploadId") => Operation::UploadPart,
        ("PUT", _, _) if is_copy => Operation::CopyObject,
        ("PUT", _, _) => Operation::PutObject,
        ("POST", false, true) if has("delete") => Operation::DeleteObjects,
        ("POST", _, false) if has("uploads") => Operation::CreateMultipartUpload,
        ("POST", _, false) if has("uploadId") => Operation::CompleteMultipartUpload,
        ("DELETE", false, true) => Operation::DeleteBucket,
        ("DELETE", _, false) if has("uploadId") => Operation::AbortMultipartUpload,
        ("DELETE", _, false) => Operation::DeleteObject,
        _ => Operation::Other,
    }
}

/// Undoes percent-encoding. Invalid sequences stay as they are: this is for the log, `s3s` refuses
/// them.
pub(crate) fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let escaped = (first == b'%')
            .then(|| tail.get(..2).and_then(hex_byte))
            .flatten();
        bytes.push(escaped.unwrap_or(first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

fn hex_byte(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(request: &str, is_copy: bool) -> Head {
        let (method, uri) = request.split_once(' ').unwrap();
        let mut request = hyper::Request::builder().method(method).uri(uri);
        if is_copy {
            request = request.header("x-amz-copy-source", "b/k");
        }
        Head::parse(&request.body(()).unwrap().into_parts().0)
    }

    #[track_caller]
    fn check_head(head: &Head, operation: Operation, key: &str, unknown: bool) {
        assert_eq!((head.operation, head.key.as_str()), (operation, key));
        assert_eq!(head.unknown_subresource, unknown);
    }

    #[track_caller]
    fn check(request: &str, operation: Operation, key: &str) {
        check_head(&parse(request, false), operation, key, false);
    }

    #[track_caller]
    fn check_copy(request: &str, operation: Operation, key: &str) {
        check_head(&parse(request, true), operation, key, false);
    }

    #[track_caller]
    fn check_unknown(request: &str, operation: Operation, key: &str) {
        check_head(&parse(request, false), operation, key, true);
    }

    #[test]
    fn operations_on_buckets() {
        use Operation::*;
        check("GET /", ListBuckets, "");
        check("GET /b", ListObjects, "");
        check("GET /b/?list-type=2&prefix=a%2Fb", ListObjectsV2, "");
        check("GET /b?location", GetBucketLocation, "");
        check("GET /b?uploads", ListMultipartUploads, "");
        check("HEAD /b", HeadBucket, "");
        check("PUT /b", CreateBucket, "");
        check("DELETE /b", DeleteBucket, "");
        check("POST /b?delete", DeleteObjects, "");
        check("POST /b", Other, "");
    }

    #[test]
    fn operations_on_objects() {
        use Operation::*;
        check("GET /b/k", GetObject, "k");
        check("GET /b/a%20%2B+%E2%82%AC//c/", GetObject, "a ++€//c/");
        check("GET /b/k?uploadId=7", ListParts, "k");
        check("HEAD /b/k", HeadObject, "k");
        check("PUT /b/k?x-id=PutObject", PutObject, "k");
        check_copy("PUT /b/k", CopyObject, "k");
        check("PUT /b/k?partNumber=1&uploadId=7", UploadPart, "k");
        check_copy("PUT /b/k?partNumber=1&uploadId=7", UploadPartCopy, "k");
        check_unknown("PUT /b/k?renameObject", RenameObject, "k");
        check_unknown("PUT /b/k?appendObject=1", PutObject, "k");
        check_unknown("DELETE /b/k?whatever", DeleteObject, "k");
        check("POST /b/k?uploads", CreateMultipartUpload, "k");
        check("POST /b/k?uploadId=7", CompleteMultipartUpload, "k");
        check("DELETE /b/k?uploadId=7", AbortMultipartUpload, "k");
    }

    #[test]
    fn prefixes_and_ranges_are_decoded() {
        let request = hyper::Request::builder()
            .uri("/b?list-type=2&prefix=a%2Fb+c")
            .header("range", "bytes=5-9");
        let head = Head::parse(&request.body(()).unwrap().into_parts().0);
        assert_eq!(head.prefix.as_deref(), Some("a/b c"));
        assert_eq!(head.range, Some(5..10));
    }
}
