//! Reads the body of an upload and verifies the request's claims: length and checksums.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use futures::StreamExt;
use hyper::HeaderMap;
use md5::{Digest, Md5};
use s3s::dto::StreamingBlob;
use s3s::{S3Error, S3ErrorCode, S3Request, S3Result, StdError, TrailingHeaders, s3_error};

use crate::testing::server::clock;
use crate::testing::server::http::chunked::Trailers;
use crate::testing::server::store::checksum::{Algorithm, Checksum, Hasher, verify};
use crate::testing::server::store::content::Content;
use crate::testing::server::store::gather::Gather;

/// Largest body of one request: S3's limit for PutObject and UploadPart.
const BODY_SIZE_MAX: u64 = 5 << 30;

/// A request's claims about its body.
pub(crate) struct Claims {
    pub(crate) content_md5: Option<String>,
    /// Checksums in headers.
    pub(crate) checksums: Vec<(Algorithm, String)>,
    /// The algorithm of the upload the body is a part of.
    pub(crate) algorithm: Option<Algorithm>,
    pub(crate) length: Option<i64>,
    /// Whether the tag must be the bytes' MD5, rather than any that tells one content from another.
    pub(crate) needs_md5: bool,
    trailer_names: String,
    verified: Option<TrailingHeaders>,
    unverified: Option<Trailers>,
}

impl Claims {
    /// The claims in a request's head; the caller adds those that its input names.
    pub(crate) fn of<T>(request: &S3Request<T>) -> Self {
        Self {
            content_md5: None,
            checksums: Vec::new(),
            algorithm: None,
            length: None,
            needs_md5: true,
            trailer_names: header(&request.headers, "x-amz-trailer"),
            verified: request.trailing_headers.clone(),
            unverified: request.extensions.get::<Trailers>().cloned(),
        }
    }

    /// The algorithm to compute: the one given, the one of the upload, or S3's default.
    fn choose(&self) -> S3Result<Algorithm> {
        let in_trailer = |algorithm: &Algorithm| {
            self.trailer_names
                .split(',')
                .any(|name| name.trim().eq_ignore_ascii_case(algorithm.header()))
        };
        let trailers = Algorithm::ALL.into_iter().filter(in_trailer);
        let mut given = self
            .checksums
            .iter()
            .map(|(algorithm, _)| *algorithm)
            .chain(trailers);
        let first = given.next();
        if given.next().is_some() {
            return Err(s3_error!(
                InvalidRequest,
                "Expecting a single x-amz-checksum- header"
            ));
        }
        match (first, self.algorithm) {
            (Some(given), Some(wanted)) if given != wanted => Err(s3_error!(
                InvalidRequest,
                "Checksum Type mismatch occurred, expected checksum Type: {}, actual checksum Type: {}",
                wanted.as_str().to_lowercase(),
                given.as_str().to_lowercase()
            )),
            (given, wanted) => Ok(given.or(wanted).unwrap_or(Algorithm::Crc64Nvme)),
        }
    }

    fn in_trailer(&self, algorithm: Algorithm) -> Option<String> {
        let text = |headers: &HeaderMap| {
            Some(header(headers, algorithm.header())).filter(|text| !text.is_empty())
        };
        let verified = self
            .verified
            .as_ref()
            .and_then(|trailers| trailers.read(text))
            .flatten();
        verified.or_else(|| self.unverified.as_ref()?.value(algorithm.header()))
    }
}

/// A body that is as the request claimed.
pub(crate) struct Received {
    pub(crate) content: Content,
    /// The MD5 of the bytes; of their checksum and number where that was enough.
    pub(crate) md5: [u8; 16],
    pub(crate) checksum: Checksum,
    pub(crate) at: SystemTime,
}

/// Reads a body to its end and verifies it.
pub(crate) async fn receive(body: Option<StreamingBlob>, claims: Claims) -> S3Result<Received> {
    let expected_md5 = claims.content_md5.as_deref().map(parse_md5).transpose()?;
    let algorithm = claims.choose()?;
    let length = claims.length.and_then(|length| u64::try_from(length).ok());
    let mut gather = Gather::new(length.unwrap_or(0));
    let mut md5 = (claims.needs_md5 || expected_md5.is_some()).then(Md5::new);
    let mut hasher = Hasher::new(algorithm);
    if let Some(mut body) = body {
        while let Some(piece) = body.next().await {
            let piece = piece.map_err(|error| broken_body(&error))?;
            if gather.len() + piece.len() as u64 > BODY_SIZE_MAX {
                return Err(s3_error!(
                    EntityTooLarge,
                    "Your proposed upload exceeds the maximum allowed size"
                ));
            }
            if let Some(md5) = &mut md5 {
                md5.update(&piece);
            }
            hasher.update(&piece);
            gather.push(&piece);
        }
    }
    let checksum = hasher.finish();
    let md5: [u8; 16] = match md5 {
        Some(md5) => md5.finalize().into(),
        None => Md5::digest(format!("{} {}", checksum.text(), gather.len())).into(),
    };
    if expected_md5.is_some_and(|expected| expected != md5) {
        return Err(s3_error!(
            BadDigest,
            "The Content-MD5 you specified did not match what we received."
        ));
    }
    for (_, given) in &claims.checksums {
        verify(given, &checksum)?;
    }
    if let Some(given) = claims.in_trailer(algorithm) {
        verify(&given, &checksum)?;
    }
    Ok(Received {
        content: gather.finish(),
        md5,
        checksum,
        at: clock::now(),
    })
}

fn parse_md5(text: &str) -> S3Result<Vec<u8>> {
    let bytes = BASE64.decode(text).ok().filter(|bytes| bytes.len() == 16);
    bytes.ok_or_else(|| s3_error!(InvalidDigest, "The Content-MD5 you specified was invalid."))
}

fn header(headers: &HeaderMap, name: &str) -> String {
    headers
        .get(name)
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default()
        .to_owned()
}

/// `s3s` has no types for what is wrong with a body, only texts.
fn broken_body(error: &StdError) -> S3Error {
    let text = error.to_string();
    if text.contains("Sha256Mismatch") {
        let code = S3ErrorCode::Custom("XAmzContentSHA256Mismatch".into());
        let mut error = S3Error::with_message(
            code,
            "The provided 'x-amz-content-sha256' header does not match",
        );
        error.set_status_code(hyper::StatusCode::BAD_REQUEST);
        error
    } else if text.contains("SignatureMismatch") {
        s3_error!(
            SignatureDoesNotMatch,
            "The signature of a chunk does not match"
        )
    } else {
        s3_error!(IncompleteBody, "The body is broken: {text}")
    }
}
