//! Remedies of failures, for the user.
//!
//! Pure.

use crate::ErrorKind;

/// The advice for a server that cannot be reached, from the reason of the TLS library or the CRT.
pub(super) fn for_unreachable(why: &str) -> &'static str {
    if why.contains("CaUsedAsEndEntity") {
        "the server shows a CA certificate where its own is expected"
    } else if why.contains("InvalidContentType") {
        "the server speaks no TLS there; if it is an HTTP port, use http://"
    } else if why.contains("expired") {
        "the server's certificate has expired, or this machine's clock is wrong"
    } else if why.contains("certificate") || why.contains("TLS") {
        "the server's certificate must be for this name and from an authority that is trusted here (--ca-bundle)"
    } else {
        "check --endpoint-url, the network and the proxy in between (https_proxy, http_proxy, no_proxy)"
    }
}

/// The advice for an answer of `status` that is not S3's.
pub(super) fn for_page(status: u16) -> String {
    let advice = match status {
        400 => "is it an HTTPS port, which wants https://?",
        407 => "the proxy wants a login",
        _ => "a gateway or a proxy gave it, or the endpoint is no S3 server",
    };
    advice.to_owned()
}

/// The advice for an error answer of `status` and, where the server sent one, `code`.
pub(super) fn for_answer(
    operation: &str,
    status: u16,
    code: Option<&str>,
    kind: &ErrorKind,
) -> Option<String> {
    let advice = match kind {
        ErrorKind::WrongRegion(Some(region)) => {
            return Some(format!(
                "the bucket is in region {region}: use --region {region}"
            ));
        }
        ErrorKind::Denied if operation == CREATE_SESSION => {
            "the credentials need s3express:CreateSession on the bucket"
        }
        ErrorKind::Unsupported if operation == CREATE_SESSION => {
            "the server knows no directory buckets: if this is not one, say --bucket-type general-purpose"
        }
        ErrorKind::Denied if code.is_none() => {
            "access denied: check the credentials and the bucket's policy"
        }
        ErrorKind::Denied => "check the credentials' permissions and the bucket's policy",
        ErrorKind::Credentials if code == Some("RequestTimeTooSkewed") => {
            "set this machine's clock: it differs from the server's by more than 15 minutes"
        }
        ErrorKind::Credentials => "check the credentials",
        ErrorKind::WrongRegion(None) => {
            "the bucket is elsewhere: check --region and --endpoint-url"
        }
        ErrorKind::Conflict => "another request for the same object is in flight",
        ErrorKind::NoSuchBucket if code.is_none() => "the bucket does not exist",
        ErrorKind::NotFound if code.is_none() => "the object does not exist",
        ErrorKind::InvalidRequest if status == 400 && code.is_none() => {
            "bad request: expired credentials, a wrong --region, or http:// for https:// are the usual reasons"
        }
        ErrorKind::InvalidRequest if status == 413 => {
            "the server, or a proxy before it, takes no requests as large as this: raise its limit \
             (nginx: client_max_body_size; below 5 MiB no parts can be sent), or send smaller parts \
             (--write-part-size)"
        }
        ErrorKind::InvalidResponse if code.is_none() => "is the endpoint an S3 server?",
        ErrorKind::Archived => "restore the object first",
        _ => return None,
    };
    Some(advice.to_owned())
}

const CREATE_SESSION: &str = "CreateSession";
