//! Failures of a mount's start, with their remedies.

use std::fmt;

use mountpoint_client::credentials::CredentialsMode;
use mountpoint_client::crt_client::CrtClientOptions;
use mountpoint_client::{ClientError, ErrorKind};

/// A text for the user.
#[derive(Clone, PartialEq, Eq)]
pub struct StartError(String);

impl StartError {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }
}

impl From<String> for StartError {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StartError {}

/// ` at URL`, where the user named one. ` through the proxy URL`, where there is one.
pub(super) fn place(options: &CrtClientOptions) -> String {
    let url = options.endpoint_url.as_deref();
    let mut place = url.map_or_else(String::new, |url| format!(" at {url}"));
    let asked = url.unwrap_or("https://s3.amazonaws.com");
    if let Some(proxy) = options.proxy.for_url(asked) {
        place.push_str(&format!(" through the proxy {proxy}"));
    }
    place
}

/// The first request's failure in the words of a user who mounts a bucket.
pub(super) fn explain(options: &CrtClientOptions, prefix: &str, error: &ClientError) -> StartError {
    let bucket = &options.bucket;
    let at = place(options);
    let text = match &error.kind {
        ErrorKind::NoSuchBucket | ErrorKind::NotFound => format!(
            "bucket '{bucket}' does not exist{at}: {error}. Check its name, --region and --endpoint-url"
        ),
        ErrorKind::Denied if matches!(options.credentials, CredentialsMode::Unsigned) => format!(
            "no permission to list bucket '{bucket}'{at} by unsigned requests: {error}. The bucket is not public: leave \
             --no-sign-request out, and use credentials with s3:ListBucket on the bucket{} and s3:GetObject on its objects",
            for_prefix(prefix)
        ),
        ErrorKind::Denied => format!(
            "no permission to list bucket '{bucket}'{at}: {error}. The credentials need s3:ListBucket on the bucket{} \
             and s3:GetObject on its objects",
            for_prefix(prefix)
        ),
        ErrorKind::Credentials if error.message.contains("RequestTimeTooSkewed") => {
            format!("the clock of this machine is wrong: {error}")
        }
        // The client's text has the remedy: the log of a mount needs it as well.
        ErrorKind::Credentials if error.status.is_none() => {
            format!("cannot use bucket '{bucket}': {error}")
        }
        ErrorKind::Credentials => {
            format!("no valid AWS credentials for bucket '{bucket}': {error}")
        }
        ErrorKind::WrongRegion(Some(region)) => {
            format!("bucket '{bucket}' is in another region: mount it with --region {region}")
        }
        ErrorKind::WrongRegion(None) => {
            format!("bucket '{bucket}' is in another region: {error}. Name it with --region")
        }
        ErrorKind::Unreachable => format!("cannot reach the S3 server{at}: {error}"),
        // A server that expects TLS sends bytes that are not HTTP.
        ErrorKind::Transient if error.message.contains("invalid HTTP version") => {
            format!("the server{at} speaks no HTTP: {error}. If it is an HTTPS port, use https://")
        }
        ErrorKind::Transient | ErrorKind::Throttled | ErrorKind::Conflict => {
            format!(
                "the S3 server{at} fails: {error}. Try again, and ask the operator of the server"
            )
        }
        ErrorKind::InvalidResponse => {
            format!(
                "the server{at} is no S3 server, or its answer was damaged: {error}. Check --endpoint-url"
            )
        }
        ErrorKind::Unsupported => format!(
            "the server{at} cannot list bucket '{bucket}': {error}. Mountpoint needs a server with ListObjectsV2"
        ),
        // Without a status the error is not the server's.
        _ if error.status.is_none() => format!("cannot use bucket '{bucket}'{at}: {error}"),
        _ => format!(
            "cannot list bucket '{bucket}'{at}: {error}. Check the bucket's name, --region and --endpoint-url"
        ),
    };
    StartError(text)
}

fn for_prefix(prefix: &str) -> String {
    if prefix.is_empty() {
        String::new()
    } else {
        format!(" (for the prefix '{prefix}')")
    }
}
