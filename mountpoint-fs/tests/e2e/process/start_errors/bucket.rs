//! Servers that refuse access.

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};

use super::{Row, Target, check_all};
use crate::harness::{BUCKET, server};

/// A server that answers every listing with this error.
fn answering(status: u16, code: &'static str) -> Server {
    let server = server();
    let fault = Fault::Error { status, code };
    server
        .faults()
        .add(Rule::on(Operation::ListObjectsV2, fault));
    server
}

#[test]
fn answers() {
    let target = Target::new();
    let row = |what: &str, server: &Server, texts: &[&'static str]| {
        Row::new(what, texts)
            .args([BUCKET, target.path().to_str().unwrap()])
            .args(["--endpoint-url", &server.url(), "--force-path-style"])
            .variable("AWS_MAX_ATTEMPTS", "3")
    };
    let empty = Server::start_with_bucket("another-bucket").unwrap();
    let denied = answering(403, "AccessDenied");
    let skewed = answering(403, "RequestTimeTooSkewed");
    let expired = answering(400, "ExpiredToken");
    let elsewhere = answering(301, "PermanentRedirect");
    let failing = answering(500, "InternalError");
    let busy = answering(503, "SlowDown");
    let old = answering(501, "NotImplemented");
    let strange = answering(400, "SomethingNew");
    check_all(&[
        row(
            "no such bucket",
            &empty,
            &["bucket 'test-bucket' does not exist", "Check its name"],
        ),
        row(
            "no permission",
            &denied,
            &[
                "no permission to list bucket 'test-bucket'",
                "AccessDenied",
                "need s3:ListBucket",
            ],
        ),
        row(
            "no permission for a prefix",
            &denied,
            &["for the prefix 'a/b/'"],
        )
        .args(["--prefix", "a/b/"]),
        row(
            "a wrong clock",
            &skewed,
            &[
                "the clock of this machine is wrong",
                "RequestTimeTooSkewed",
                "set this machine's clock",
            ],
        ),
        row(
            "an expired token",
            &expired,
            &[
                "no valid AWS credentials",
                "ExpiredToken",
                "check the credentials",
            ],
        )
        .variable("AWS_SESSION_TOKEN", super::TOKEN),
        row(
            "another region",
            &elsewhere,
            &["is in another region", "--region"],
        ),
        row(
            "another region than named",
            &elsewhere,
            &["is in another region", "--region"],
        )
        .args(["--region", "eu-west-1"]),
        row(
            "a server that fails",
            &failing,
            &[
                "InternalError",
                "after 3 attempts",
                "ask the operator of the server",
            ],
        ),
        row(
            "a server that is overloaded",
            &busy,
            &["SlowDown", "after 3 attempts", "Try again"],
        ),
        row(
            "a server that cannot list",
            &old,
            &["cannot list bucket", "NotImplemented", "ListObjectsV2"],
        ),
        row(
            "an answer that nobody knows",
            &strange,
            &[
                "cannot list bucket",
                "SomethingNew",
                "Check the bucket's name",
            ],
        ),
    ]);
}
