//! Requests whose signature is not checked.
//!
//! `s3s` decodes the `aws-chunked` framing of a signed body only while it verifies the signature. A
//! server without credentials takes the signature off and decodes the framing here: chunk sizes,
//! data, trailers; chunk signatures are skipped.

use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use hyper::HeaderMap;
use hyper::header::{self, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use parking_lot::Mutex;
use s3s::dto::StreamingBlob;

/// Trailers of a decoded body; there once the body was read to its end. An extension of the
/// request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trailers(Arc<Mutex<HeaderMap>>);

impl Trailers {
    pub(crate) fn value(&self, name: &str) -> Option<String> {
        self.0.lock().get(name)?.to_str().ok().map(str::to_owned)
    }
}

/// Longest line of framing or trailer that is accepted, in bytes.
const LINE_LEN_MAX: usize = 4096;

/// Most trailers that are accepted.
const TRAILERS_MAX: usize = 16;

/// Takes the signature off the request, and the framing off its body.
pub(crate) fn unsign(parts: &mut Parts, body: s3s::Body) -> s3s::Body {
    parts.headers.remove(header::AUTHORIZATION);
    unsign_query(parts);
    let payload = parts.headers.remove("x-amz-content-sha256");
    let is_chunked = payload.is_some_and(|value| value.as_bytes().starts_with(b"STREAMING-"));
    if !is_chunked {
        return body;
    }
    if let Some(length) = parts.headers.remove("x-amz-decoded-content-length") {
        parts.headers.insert(header::CONTENT_LENGTH, length);
    }
    let trailers = Trailers::default();
    parts.extensions.insert(trailers.clone());
    s3s::Body::from(StreamingBlob::wrap(decode(body, trailers)))
}

/// Takes the parameters of a presigned URL off the query.
fn unsign_query(parts: &mut Parts) {
    let Some(query) = parts.uri.query().filter(|query| query.contains("X-Amz-")) else {
        return;
    };
    let kept: Vec<_> = query
        .split('&')
        .filter(|pair| !pair.starts_with("X-Amz-"))
        .collect();
    let path_and_query = format!("{}?{}", parts.uri.path(), kept.join("&"));
    if let Ok(uri) = path_and_query.trim_end_matches('?').parse() {
        parts.uri = uri;
    }
}

struct Decoder {
    body: s3s::Body,
    buffer: BytesMut,
    /// Bytes of the current chunk that are still to come.
    remaining: u64,
    /// Whether a line break must come before the next chunk's size.
    after_chunk: bool,
    trailers: Trailers,
}

fn decode(
    body: s3s::Body,
    trailers: Trailers,
) -> impl Stream<Item = Result<Bytes, std::io::Error>> {
    let decoder = Decoder {
        body,
        buffer: BytesMut::new(),
        remaining: 0,
        after_chunk: false,
        trailers,
    };
    stream::try_unfold(decoder, |mut decoder| async move {
        Ok(decoder.next().await?.map(|bytes| (bytes, decoder)))
    })
}

impl Decoder {
    /// The next bytes of the payload; `None` at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, std::io::Error> {
        if self.remaining == 0 {
            if self.after_chunk && !self.line().await?.is_empty() {
                return Err(broken("no line break after a chunk"));
            }
            let line = self.line().await?;
            let size = line.split(';').next().unwrap_or_default().trim();
            self.remaining = u64::from_str_radix(size, 16).map_err(|_| broken("bad chunk size"))?;
            self.after_chunk = true;
            if self.remaining == 0 {
                self.read_trailers().await?;
                return Ok(None);
            }
        }
        if self.buffer.is_empty() && !self.fill().await? {
            return Err(broken("the body ends within a chunk"));
        }
        let len = self.remaining.min(self.buffer.len() as u64);
        self.remaining -= len;
        Ok(Some(
            self.buffer
                .split_to(usize::try_from(len).unwrap_or(usize::MAX))
                .freeze(),
        ))
    }

    async fn read_trailers(&mut self) -> Result<(), std::io::Error> {
        for _ in 0..=TRAILERS_MAX {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok(());
            };
            let name = HeaderName::try_from(name.trim()).map_err(|_| broken("bad trailer"))?;
            let value = HeaderValue::try_from(value.trim()).map_err(|_| broken("bad trailer"))?;
            self.trailers.0.lock().insert(name, value);
        }
        Err(broken("too many trailers"))
    }

    /// The next line without its line break; empty at the end of the body.
    async fn line(&mut self) -> Result<String, std::io::Error> {
        loop {
            if let Some(len) = self.buffer.iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(len);
                self.buffer.advance(1);
                return Ok(String::from_utf8_lossy(&line)
                    .trim_end_matches('\r')
                    .to_owned());
            }
            if self.buffer.len() > LINE_LEN_MAX {
                return Err(broken("a line is too long"));
            }
            if !self.fill().await? {
                return Ok(String::new());
            }
        }
    }

    async fn fill(&mut self) -> Result<bool, std::io::Error> {
        match self.body.next().await {
            Some(bytes) => {
                self.buffer
                    .extend_from_slice(&bytes.map_err(std::io::Error::other)?);
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

fn broken(what: &'static str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(framed: &str, expected: Option<&str>, crc: Option<&str>) {
        for piece in [1, 3, framed.len()] {
            let pieces: Vec<_> = framed
                .as_bytes()
                .chunks(piece)
                .map(|part| Ok(Bytes::copy_from_slice(part)))
                .collect();
            let body = s3s::Body::from(StreamingBlob::wrap::<_, std::io::Error>(stream::iter(
                pieces,
            )));
            let trailers = Trailers::default();
            let decoded: Vec<_> =
                futures::executor::block_on(decode(body, trailers.clone()).collect());
            let decoded: Result<Vec<_>, _> = decoded.into_iter().collect();
            let text = decoded
                .map(|parts| String::from_utf8(parts.concat()).unwrap())
                .ok();
            assert_eq!(text.as_deref(), expected, "{framed:?} in pieces of {piece}");
            assert_eq!(
                trailers.value("x-amz-checksum-crc32").as_deref(),
                crc,
                "{framed:?}"
            );
        }
    }

    #[test]
    fn framing_is_taken_off() {
        check("0\r\n\r\n", Some(""), None);
        check(
            "3\r\nabc\r\n2;chunk-signature=00\r\nde\r\n0\r\n\r\n",
            Some("abcde"),
            None,
        );
        check(
            "A\r\n0123456789\r\n0\r\nx-amz-checksum-crc32:AAAA\r\n\r\n",
            Some("0123456789"),
            Some("AAAA"),
        );
        check("3\r\nab", None, None);
        check("zz\r\nab", None, None);
        check("1\r\nab\r\n0\r\n\r\n", None, None);
    }
}
