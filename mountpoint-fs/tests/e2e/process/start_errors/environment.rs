//! Invalid variables, and the files that variables name.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

use super::{ENDPOINT_PASSWORD, PROXY_PASSWORD, Row, Target, check_all};
use crate::harness::{BUCKET, server};

#[test]
fn variables() {
    let (server, target) = (server(), Target::new());
    let garbage = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(garbage.path(), "no certificate").unwrap();
    let row = |name: &str, value: &str, texts: &[&'static str]| {
        Row::new(&format!("{name}={value}"), texts)
            .args([BUCKET, target.path().to_str().unwrap()])
            .args(["--endpoint-url", &server.url(), "--force-path-style"])
            .variable(name, value)
    };
    let endpoint = |name: &str, value: &str, texts: &[&'static str]| {
        Row::new(&format!("{name}={value}"), texts)
            .args([BUCKET, target.path().to_str().unwrap()])
            .variable(name, value)
    };
    check_all(&[
        Row::new("a region that is no text", &["AWS_REGION is not UTF-8"])
            .args([BUCKET, target.path().to_str().unwrap()])
            .variable("AWS_REGION", OsString::from_vec(b"a\xff".to_vec())),
        endpoint(
            "AWS_ENDPOINT_URL",
            &format!("http://user:{ENDPOINT_PASSWORD}@127.0.0.1:1"),
            &["AWS_ENDPOINT_URL: an endpoint is", "with no user"],
        ),
        endpoint(
            "AWS_ENDPOINT_URL",
            &format!("user:{ENDPOINT_PASSWORD}@127.0.0.1:1"),
            &["AWS_ENDPOINT_URL: an endpoint is", "with no user"],
        ),
        endpoint(
            "AWS_ENDPOINT_URL_S3",
            "http://127.0.0.1:1/path",
            &["AWS_ENDPOINT_URL_S3: an endpoint is", "with no path"],
        ),
        row(
            "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
            "lots",
            &["UNSTABLE_MOUNTPOINT_MAX_BACKGROUND=lots", "1 to 65535"],
        ),
        row(
            "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
            "0",
            &["UNSTABLE_MOUNTPOINT_MAX_BACKGROUND=0", "1 to 65535"],
        ),
        row(
            "UNSTABLE_MOUNTPOINT_CONGESTION_THRESHOLD",
            "1000",
            &["CONGESTION_THRESHOLD=1000 is above", "set "],
        ),
        row(
            "UNSTABLE_MOUNTPOINT_CLONE_FUSE_FD",
            "maybe",
            &["neither true nor false"],
        ),
        row(
            "UNSTABLE_MOUNTPOINT_MAX_PREFETCH_WINDOW_SIZE",
            "1",
            &["MAX_PREFETCH_WINDOW_SIZE=1 is not a number from"],
        ),
        row(
            "UNSTABLE_CRT_EVENTLOOP_THREADS",
            "-1",
            &["UNSTABLE_CRT_EVENTLOOP_THREADS=-1", "1 to 1024"],
        ),
        row("AWS_MAX_ATTEMPTS", "0", &["AWS_MAX_ATTEMPTS=0", "1 to"]),
        row(
            "MOUNTPOINT_LOG",
            "a=b=c",
            &["MOUNTPOINT_LOG=a=b=c is no log filter"],
        ),
        row(
            "MOUNTPOINT_START_TIMEOUT",
            "0",
            &["MOUNTPOINT_START_TIMEOUT=0", "1 to 3600"],
        ),
        row(
            "AWS_CA_BUNDLE",
            "/no/such/ca.pem",
            &["cannot read AWS_CA_BUNDLE=/no/such/ca.pem", "PEM"],
        ),
        row(
            "AWS_CA_BUNDLE",
            garbage.path().to_str().unwrap(),
            &["the CA bundle", "PEM"],
        ),
        row(
            "UNSTABLE_MOUNTPOINT_PID_FILE",
            "/no/such/directory/pid",
            &[
                "cannot write the PID file /no/such/directory/pid",
                "its directory must exist and be writable",
            ],
        ),
        row(
            "NOTIFY_SOCKET",
            &"x".repeat(200),
            &["NOTIFY_SOCKET names no socket"],
        ),
        row(
            "https_proxy",
            &format!("socks5://user:{PROXY_PASSWORD}@h:1"),
            &[
                "https_proxy: a proxy must be http://host:port",
                "not socks5://",
            ],
        ),
        row(
            "http_proxy",
            &format!("http://user:{PROXY_PASSWORD}%zz@h:1"),
            &["http_proxy: the proxy's user or password is not properly percent-encoded"],
        ),
        Row::new(
            "AWS_REGION=us east",
            &["no endpoint for bucket", "region us east", "Invalid region"],
        )
        .args([BUCKET, target.path().to_str().unwrap()])
        .variable("AWS_REGION", "us east"),
    ]);
}
