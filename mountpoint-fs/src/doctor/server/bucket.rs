//! The bucket: its existence, region and permissions.
//!
//! Pure: answers in, findings out.

use mountpoint_client::ClientError;
use mountpoint_client::crt_client::{AnswerHead, Probe};
use mountpoint_client::types::BucketInfo;

use crate::doctor::finding::{Area, Check, Finding};

/// The source of the region that requests are signed for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::doctor) enum RegionSource {
    /// `--region` or a variable.
    Given,
    /// The AWS configuration, or the default.
    Found,
    /// The server's answer to a request with another region.
    Corrected { from: String, was_given: bool },
}

pub(in crate::doctor) fn region(region: &str, source: &RegionSource) -> Finding {
    const CHECK: &str = "region";
    match source {
        RegionSource::Given => Check(Area::Bucket, CHECK).ok(format!("{region}, as given")),
        RegionSource::Found => Check(Area::Bucket, CHECK).ok(format!("{region}, from the AWS configuration or by default"),
        ),
        RegionSource::Corrected {
            from,
            was_given: true,
        } => Check(Area::Bucket, CHECK).warning(format!("the bucket is in {region}, not in {from} as given"),
            format!("mount with --region {region}"),
        ),
        RegionSource::Corrected {
            from,
            was_given: false,
        } => Check(Area::Bucket, CHECK).warning(format!(
                "the bucket is in {region}; {from}, from the AWS configuration or by default, was asked first"
            ),
            format!("--region {region} saves a request at each start"),
        ),
    }
}

/// The finding on the proxy that requests go through, without its login.
pub(in crate::doctor) fn proxy(proxy: Option<&str>) -> Finding {
    let found = match proxy {
        Some(proxy) => format!("{proxy}, by a variable"),
        None => "none on the way to this endpoint".to_owned(),
    };
    Check(Area::Bucket, "proxy").ok(found)
}

/// The finding on the first answer.
pub(in crate::doctor) fn reached(endpoint: &str, head: &AnswerHead) -> Finding {
    let server = match &head.server {
        Some(server) => format!(" ({server})"),
        None => String::new(),
    };
    Check(Area::Bucket, "endpoint").ok(format!(
        "{endpoint}{server} answered in {} ms",
        head.round_trip.as_millis()
    ))
}

pub(in crate::doctor) fn not_reached(
    endpoint: &str,
    error: Option<&ClientError>,
    seconds: u64,
) -> Finding {
    match error {
        Some(error) => Check(Area::Bucket, "endpoint").failed(error),
        None => Check(Area::Bucket, "endpoint").error(
            format!("{endpoint} did not answer within {seconds} s"),
            "check --endpoint-url, the network and the proxy in between",
        ),
    }
}

/// The finding on HeadBucket, which a mount does not need.
pub(in crate::doctor) fn head_bucket(probe: &Probe<BucketInfo>) -> Finding {
    const CHECK: &str = "HeadBucket";
    match &probe.outcome {
        Ok(_) => Check(Area::Bucket, CHECK).ok("allowed"),
        Err(error) => Check(Area::Bucket, CHECK).lacks(error),
    }
}

/// The finding on the first request of a mount, which decides.
pub(in crate::doctor) fn list(prefix: &str, outcome: &Result<usize, ClientError>) -> Finding {
    const CHECK: &str = "ListObjectsV2";
    let place = match prefix {
        "" => "the bucket".to_owned(),
        prefix => format!("the prefix '{prefix}'"),
    };
    match outcome {
        Ok(0) => Check(Area::Bucket, CHECK).ok(format!("allowed; {place} holds no object")),
        Ok(_) => Check(Area::Bucket, CHECK).ok(format!("allowed on {place}")),
        Err(error) => Check(Area::Bucket, CHECK).failed(error),
    }
}

/// The finding on HeadObject or GetObject.
///
/// A refusal is a warning: other objects may be allowed.
pub(in crate::doctor) fn on_object(
    check: &'static str,
    key: &str,
    outcome: &Result<(), ClientError>,
) -> Finding {
    match outcome {
        Ok(()) => Check(Area::Bucket, check).ok(format!("allowed on '{key}'")),
        Err(error) => Check(Area::Bucket, check).lacks(error),
    }
}

/// The finding on a check without an object.
pub(in crate::doctor) fn no_object(check: &'static str) -> Finding {
    Check(Area::Bucket, check)
        .ok("not tried: no object with a byte that can be read is among the first")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mountpoint_client::ErrorKind;

    use super::*;
    use crate::doctor::finding::Level;
    use crate::doctor::finding::tests::expect;

    #[test]
    fn regions() {
        let corrected = |was_given| RegionSource::Corrected {
            from: "us-east-1".to_owned(),
            was_given,
        };
        for (source, level, text) in [
            (RegionSource::Given, Level::Ok, "eu-west-1, as given"),
            (RegionSource::Found, Level::Ok, "by default"),
            (corrected(true), Level::Warning, "not in us-east-1"),
            (corrected(false), Level::Warning, "--region eu-west-1"),
        ] {
            expect(&[region("eu-west-1", &source)], "region", level, text);
        }
    }

    #[test]
    fn answers_and_none() {
        expect(&[proxy(None)], "proxy", Level::Ok, "none");
        let row = proxy(Some("http://p:3128"));
        expect(&[row], "proxy", Level::Ok, "http://p:3128");
        let head = AnswerHead {
            status: 200,
            round_trip: Duration::from_millis(12),
            clock_ahead_s: None,
            server: Some("AmazonS3".to_owned()),
            checksums: Vec::new(),
        };
        let row = reached("https://b.s3", &head);
        expect(
            &[row],
            "endpoint",
            Level::Ok,
            "https://b.s3 (AmazonS3) answered in 12 ms",
        );
        let error = ClientError::new(ErrorKind::Unreachable, "refused; plug it in");
        let row = not_reached("http://x", Some(&error), 5);
        expect(&[row], "endpoint", Level::Error, "refused -> plug it in");
        expect(
            &[not_reached("http://x", None, 5)],
            "endpoint",
            Level::Error,
            "within 5 s",
        );
    }

    #[test]
    fn permissions() {
        let denied = || ClientError::new(ErrorKind::Denied, "AccessDenied").with_status(403);
        let probe = |outcome| Probe {
            outcome,
            head: None,
        };
        let row = head_bucket(&probe(Ok(BucketInfo::default())));
        expect(&[row], "HeadBucket", Level::Ok, "allowed");
        let row = head_bucket(&probe(Err(denied())));
        expect(&[row], "HeadBucket", Level::Warning, "s3:ListBucket");
        for (prefix, outcome, level, text) in [
            ("", Ok(3), Level::Ok, "allowed on the bucket"),
            ("a/", Ok(1), Level::Ok, "the prefix 'a/'"),
            ("a/", Ok(0), Level::Ok, "holds no object"),
            ("", Err(denied()), Level::Error, "HTTP 403"),
        ] {
            expect(&[list(prefix, &outcome)], "ListObjectsV2", level, text);
        }
        let row = on_object("GetObject", "k", &Err(denied()));
        expect(&[row], "GetObject", Level::Warning, "s3:GetObject");
        expect(
            &[on_object("GetObject", "k", &Ok(()))],
            "GetObject",
            Level::Ok,
            "'k'",
        );
        expect(
            &[no_object("GetObject")],
            "GetObject",
            Level::Ok,
            "not tried",
        );
    }
}
