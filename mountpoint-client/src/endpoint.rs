//! Where a bucket's requests go: URL, region and signing name, resolved once for a mount, and paths of keys.
//!
//! The rules are AWS's own rule set, as the SDK ships it, so that the CRT's requests go where the SDK's go.
//! Knows no request and no credentials.

use aws_sdk_s3::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_smithy_types::Document;
use aws_smithy_types::endpoint::Endpoint as ResolvedEndpoint;

use crate::types::Key;
use crate::{ClientError, ErrorKind};

/// Where requests of one bucket go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `https://host[:port]`, without a path.
    pub origin: String,
    /// What stands before `/key` in the path: empty, or `/bucket` with path style addressing.
    path_prefix: String,
    /// Region that requests are signed for.
    pub signing_region: String,
    /// Service that requests are signed for: `s3`, or `s3express` for directory buckets.
    pub signing_service: String,
}

/// What decides where requests go.
#[derive(Clone, Debug)]
pub struct EndpointQuestion<'a> {
    /// Bucket name or ARN.
    pub bucket: &'a str,
    /// Region of the bucket.
    pub region: &'a str,
    /// Endpoint given by the user, with its scheme.
    pub endpoint_url: Option<&'a str>,
    /// Whether the bucket goes into the path instead of the host name.
    pub force_path_style: bool,
}

impl Endpoint {
    /// Asks the rules. Fails with [`ErrorKind::InvalidRequest`] where they say no, for example to a malformed URL.
    pub async fn resolve(question: &EndpointQuestion<'_>) -> Result<Self, ClientError> {
        let refuse = |why: String| ClientError::new(ErrorKind::InvalidRequest, why);
        if let Some(url) = question.endpoint_url {
            check_url(url).map_err(refuse)?;
        }
        let params = Params::builder()
            .bucket(question.bucket)
            .region(question.region)
            .set_endpoint(question.endpoint_url.map(str::to_owned))
            .force_path_style(question.force_path_style)
            .disable_s3_express_session_auth(true)
            .build()
            .map_err(|error| refuse(format!("endpoint of bucket {}: {error}", question.bucket)))?;
        let resolved = DefaultResolver::new();
        let resolved = ResolveEndpoint::resolve_endpoint(&resolved, &params)
            .await
            .map_err(|error| {
                refuse(format!(
                    "no endpoint for bucket {} in region {}: {error}",
                    question.bucket, question.region
                ))
            })?;
        Self::parse(&resolved, question.region).map_err(refuse)
    }

    fn parse(resolved: &ResolvedEndpoint, region: &str) -> Result<Self, String> {
        let url = resolved.url();
        let (scheme, rest) = url
            .split_once("://")
            .ok_or_else(|| format!("endpoint {url} has no scheme"))?;
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Ok(Self {
            origin: format!("{scheme}://{host}"),
            path_prefix: path.trim_end_matches('/').to_owned(),
            signing_region: auth_property(resolved, "signingRegion")
                .unwrap_or_else(|| region.to_owned()),
            signing_service: auth_property(resolved, "signingName")
                .unwrap_or_else(|| "s3".to_owned()),
        })
    }

    /// The path of a key's requests, percent-encoded. `.` and `..` components and empty ones stay as they are:
    /// in S3 they are part of the name.
    #[must_use]
    pub fn path(&self, key: &Key) -> String {
        let key = key.as_str();
        let mut path = String::with_capacity(self.path_prefix.len() + 1 + key.len());
        path.push_str(&self.path_prefix);
        path.push('/');
        encode_into(&mut path, key, true);
        path
    }
}

/// Percent-encodes a value for a query: everything but unreserved characters.
#[must_use]
pub fn encode_query(value: &str) -> String {
    let mut encoded = String::with_capacity(value.len());
    encode_into(&mut encoded, value, false);
    encoded
}

/// Percent-encodes a key for a header or a path: everything but unreserved characters and `/`.
#[must_use]
pub fn encode_key(key: &str) -> String {
    let mut encoded = String::with_capacity(key.len());
    encode_into(&mut encoded, key, true);
    encoded
}

/// RFC 3986's unreserved characters stay, as SigV4 asks; `/` may too.
fn encode_into(out: &mut String, text: &str, keep_slash: bool) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in text.as_bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            b'/' if keep_slash => out.push('/'),
            _ => {
                out.push('%');
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
        }
    }
}

/// The rules accept much and fail late; the usual mistakes get a message here.
fn check_url(url: &str) -> Result<(), String> {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or_else(|| {
        format!("endpoint URL {url:?} must begin with http:// or https://, for example https://{url}")
    })?;
    let host_end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(host_end);
    if host.is_empty() || host.contains(|c: char| c.is_whitespace() || c == '@') {
        return Err(format!("endpoint URL {url:?} has no valid host name"));
    }
    if path.contains(['?', '#']) {
        return Err(format!(
            "endpoint URL {url:?} must not have a query or a fragment"
        ));
    }
    Ok(())
}

fn auth_property(resolved: &ResolvedEndpoint, name: &str) -> Option<String> {
    if let Some(scheme) = resolved.auth_schemes().first() {
        return scheme
            .get(name)
            .and_then(Document::as_string)
            .map(str::to_owned);
    }
    let Some(Document::Array(schemes)) = resolved.properties().get("authSchemes") else {
        return None;
    };
    schemes
        .first()?
        .as_object()?
        .get(name)?
        .as_string()
        .map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(
        bucket: &str,
        region: &str,
        url: Option<&str>,
        force_path_style: bool,
    ) -> Result<Endpoint, ClientError> {
        let question = EndpointQuestion {
            bucket,
            region,
            endpoint_url: url,
            force_path_style,
        };
        futures::executor::block_on(Endpoint::resolve(&question))
    }

    #[track_caller]
    fn check(bucket: &str, region: &str, url: Option<&str>, path_style: bool, expected: [&str; 4]) {
        let endpoint = resolve(bucket, region, url, path_style).unwrap();
        let path = endpoint.path(&Key::parse("k").unwrap());
        let found = [
            &*endpoint.origin,
            &*path,
            &*endpoint.signing_region,
            &*endpoint.signing_service,
        ];
        assert_eq!(found, expected, "{bucket} {region} {url:?} {path_style}");
    }

    #[test]
    fn endpoints_of_aws() {
        let region = "eu-central-1";
        for (bucket, region, path_style, origin, path, service) in [
            (
                "bkt",
                region,
                false,
                "bkt.s3.eu-central-1.amazonaws.com",
                "/k",
                "s3",
            ),
            (
                "bkt",
                region,
                true,
                "s3.eu-central-1.amazonaws.com",
                "/bkt/k",
                "s3",
            ),
            (
                "a.dot",
                region,
                false,
                "s3.eu-central-1.amazonaws.com",
                "/a.dot/k",
                "s3",
            ),
            (
                "bkt",
                "cn-north-1",
                false,
                "bkt.s3.cn-north-1.amazonaws.com.cn",
                "/k",
                "s3",
            ),
            (
                "d--usw2-az1--x-s3",
                "us-west-2",
                false,
                "d--usw2-az1--x-s3.s3express-usw2-az1.us-west-2.amazonaws.com",
                "/k",
                "s3express",
            ),
        ] {
            let origin = format!("https://{origin}");
            check(
                bucket,
                region,
                None,
                path_style,
                [&*origin, path, region, service],
            );
        }
    }

    #[test]
    fn endpoints_of_others() {
        for (url, path_style, origin, path) in [
            (
                "http://127.0.0.1:9000",
                true,
                "http://127.0.0.1:9000",
                "/bkt/k",
            ),
            (
                "http://127.0.0.1:9000",
                false,
                "http://127.0.0.1:9000",
                "/bkt/k",
            ),
            (
                "https://s3.example.org:8443/",
                false,
                "https://bkt.s3.example.org:8443",
                "/k",
            ),
            (
                "https://s3.example.org:8443/",
                true,
                "https://s3.example.org:8443",
                "/bkt/k",
            ),
            (
                "https://example.org/s3/",
                true,
                "https://example.org",
                "/s3/bkt/k",
            ),
        ] {
            check(
                "bkt",
                "xx",
                Some(url),
                path_style,
                [origin, path, "xx", "s3"],
            );
        }
    }

    #[test]
    fn wrong_urls_are_refused_with_a_reason() {
        for (url, reason) in [
            ("127.0.0.1:9000", "must begin with http"),
            ("ftp://host", "must begin with http"),
            ("http://", "no valid host"),
            ("http:///x", "no valid host"),
            ("http://user@host", "no valid host"),
            ("http://host?a=b", "query"),
        ] {
            let error = resolve("b", "us-east-1", Some(url), true).unwrap_err();
            assert_eq!(error.kind, ErrorKind::InvalidRequest, "{url}");
            assert!(error.message.contains(reason), "{url}: {error}");
        }
    }

    #[test]
    fn keys_are_encoded_and_never_normalised() {
        let endpoint = resolve("b", "us-east-1", Some("http://h"), true).unwrap();
        for (key, path) in [
            ("a/b.txt", "/b/a/b.txt"),
            ("a b+c", "/b/a%20b%2Bc"),
            ("/lead//double/", "/b//lead//double/"),
            ("./../a/..", "/b/./../a/.."),
            ("ü€😀", "/b/%C3%BC%E2%82%AC%F0%9F%98%80"),
            (
                "%41?#&=;:@!$'()*,[]\\\"<>",
                "/b/%2541%3F%23%26%3D%3B%3A%40%21%24%27%28%29%2A%2C%5B%5D%5C%22%3C%3E",
            ),
            ("\u{1}\n\u{7f}~-_.", "/b/%01%0A%7F~-_."),
        ] {
            assert_eq!(endpoint.path(&Key::parse(key).unwrap()), path, "{key:?}");
        }
        assert_eq!(encode_query("a/b=+"), "a%2Fb%3D%2B");
        assert_eq!(encode_key("a/b +"), "a/b%20%2B");
    }
}
