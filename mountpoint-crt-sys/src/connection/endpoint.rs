//! Where a client's requests go.

use mountpoint_s3_crt_sys as sys;

use crate::CrtError;
use crate::allocator::Allocator;
use crate::error::OwnError;
use crate::ffi::{check, cursor};

/// A scheme and an authority, parsed by C.
pub(crate) struct Endpoint {
    uri: Box<sys::aws_uri>,
    authority: String,
    is_tls: bool,
}

// SAFETY: owned memory that nobody writes after the constructor; the cursors in it point into it.
unsafe impl Send for Endpoint {}
// SAFETY: as above.
unsafe impl Sync for Endpoint {}

impl Endpoint {
    pub(crate) fn new(allocator: Allocator, endpoint: &str) -> Result<Self, CrtError> {
        let (authority, is_tls) = split(endpoint).ok_or(OwnError::Endpoint)?;
        let scheme = if is_tls { "https" } else { "http" };
        let text = format!("{scheme}://{authority}");
        let mut uri = Box::new(sys::aws_uri::default());
        let text = cursor(text.as_bytes());
        // SAFETY: fills an empty struct with a copy of the text.
        check(unsafe {
            sys::aws_uri_init_parse(&raw mut *uri, allocator.as_ptr(), &raw const text)
        })?;
        // C takes port 80 where none is named and it does no TLS itself.
        if is_tls && uri.port == 0 {
            uri.port = HTTPS_PORT;
        }
        Ok(Self {
            uri,
            authority: authority.to_owned(),
            is_tls,
        })
    }

    pub(crate) fn as_ptr(&self) -> *const sys::aws_uri {
        &raw const *self.uri
    }

    /// Host, and the port where it is not the scheme's.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// The name or address, an IPv6 address without brackets.
    pub(crate) fn host(&self) -> &str {
        let host = self
            .authority
            .rsplit_once(':')
            .map_or(&*self.authority, |(host, port)| {
                if port.bytes().all(|byte| byte.is_ascii_digit()) {
                    host
                } else {
                    &self.authority
                }
            });
        host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn is_tls(&self) -> bool {
        self.is_tls
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        // SAFETY: filled by `new`, cleaned up once.
        unsafe { sys::aws_uri_clean_up(&raw mut *self.uri) };
    }
}

const HTTPS_PORT: u32 = 443;

/// The authority without the scheme's own port, and whether the scheme is https.
fn split(endpoint: &str) -> Option<(&str, bool)> {
    let (scheme, rest) = endpoint.split_once("://")?;
    let is_tls = scheme.eq_ignore_ascii_case("https");
    if !is_tls && !scheme.eq_ignore_ascii_case("http") {
        return None;
    }
    let authority = rest.trim_end_matches('/');
    if authority.is_empty() || authority.contains(['/', '?', '#', '@']) {
        return None;
    }
    let default_port = if is_tls { ":443" } else { ":80" };
    Some((
        authority.strip_suffix(default_port).unwrap_or(authority),
        is_tls,
    ))
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn endpoints() {
        let check = |endpoint, expected| assert_eq!(split(endpoint), expected, "{endpoint}");
        check("https://s3.example.com", Some(("s3.example.com", true)));
        check(
            "https://s3.example.com:443/",
            Some(("s3.example.com", true)),
        );
        check("HTTP://s3.example.com:80", Some(("s3.example.com", false)));
        check("http://localhost:9000", Some(("localhost:9000", false)));
        check("http://[::1]:9000", Some(("[::1]:9000", false)));
        for bad in [
            "",
            "localhost:9000",
            "ftp://host",
            "http://",
            "http://host/path",
            "http://me@host",
        ] {
            check(bad, None);
        }
    }
}
