//! Required and forbidden contents of the log.

use std::collections::BTreeMap;
use std::process::Output;

use nix::sys::signal::{Signal, kill};

use crate::harness::{BUCKET, Mounted, SECRET_KEY, mount_s3, put, read, server, shell, wait_until};

const TOKEN: &str = "session-token-that-nobody-may-see";
const CONTENT: &str = "content-that-nobody-may-see";
const VALUE: &str = "value-that-nobody-may-see";
/// A key of 32 bytes, and its form in the header.
const CUSTOMER_KEY: &str = "0123456789abcdef0123456789ABCDEF";
const CUSTOMER_KEY_BASE64: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlBQkNERUY=";

/// The output of a careless `{:?}` for a byte string.
fn numbers(text: &str) -> String {
    let numbers: Vec<String> = text.bytes().take(8).map(|byte| byte.to_string()).collect();
    numbers.join(", ")
}

#[test]
fn no_level_shows_contents_or_secrets() {
    let key_file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(key_file.path(), CUSTOMER_KEY).unwrap();
    let (customer, path) = ("--sse-customer-key-file", key_file.path().to_str().unwrap());
    for (filter, args, presses) in [
        (Some("trace"), &[][..], 0),
        (Some("trace"), &[customer, path], 0),
        (
            Some("trace,crt=trace,mountpoint_fs=trace"),
            &["--debug", "--debug-crt"],
            0,
        ),
        (None, &["--debug", "--debug-crt"], 0),
        (None, &[], 3),
    ] {
        let server = server();
        let args = [args, &["--allow-overwrite", "--posix-metadata"]].concat();
        let mounted = Mounted::with(&server, &args, |command| {
            command.env("AWS_SESSION_TOKEN", TOKEN);
            command.envs(filter.map(|filter| ("MOUNTPOINT_LOG", filter)));
        });
        for level in ["info", "debug", "trace"].into_iter().take(presses) {
            kill(mounted.pid(), Signal::SIGUSR2).unwrap();
            let text = format!("log level is now {level}");
            wait_until(&text, || mounted.log().contains(&text));
        }
        let small = mounted.join("small");
        std::fs::write(&small, CONTENT).unwrap();
        std::fs::write(mounted.join("large"), CONTENT.repeat(400_000)).unwrap();
        assert_eq!(read(&small), CONTENT.as_bytes());
        assert_eq!(read(&mounted.join("large")).len(), CONTENT.len() * 400_000);
        shell(
            mounted.path(),
            &format!(
                "setfattr -n user.a -v {VALUE} small && getfattr -d small && ls -l && ! cat absent"
            ),
        );
        let log = mounted.log();
        let what = format!("{filter:?} {args:?}");
        assert!(log.contains("DEBUG"), "{what}: {log}");
        for secret in [
            SECRET_KEY,
            TOKEN,
            CONTENT,
            VALUE,
            CUSTOMER_KEY,
            CUSTOMER_KEY_BASE64,
        ] {
            check_absent(&log, secret, &what);
            check_absent(&log, &numbers(secret), &what);
        }
        // The log has only the length of signatures, keys and tokens.
        for name in ["Signature=", "x-amz-security-token:", "customer-key:"] {
            for (at, _) in log.match_indices(name) {
                let value = &log[at + name.len()..];
                assert!(value.starts_with('<'), "{what}: {}", line_at(&log, at));
            }
        }
    }
}

#[track_caller]
fn check_absent(log: &str, secret: &str, what: &str) {
    if let Some(at) = log.find(secret) {
        panic!("{what}: {secret} is in {}", line_at(log, at));
    }
}

fn line_at(log: &str, at: usize) -> &str {
    let from = log[..at].rfind('\n').map_or(0, |end| end + 1);
    log[from..].lines().next().unwrap_or_default()
}

/// Names come from the bucket, texts from the server: neither begins a line.
#[test]
fn a_name_forges_no_line() {
    let server = server();
    let name = "evil\n2026-01-01T00:00:00.000000Z ERROR main forged: \u{1b}[31m";
    put(&server, name, "x");
    let mounted = Mounted::new(&server, &["--debug"]);
    let (from, to) = (mounted.join(name), mounted.join("other"));
    std::fs::rename(&from, &to).unwrap_err();
    std::fs::remove_file(&from).unwrap_err();
    std::fs::write(&from, "y").unwrap_err();
    assert_eq!(read(&from), b"x");
    let log = mounted.log();
    assert!(log.contains("forged"), "{log}");
    for line in log.lines() {
        assert!(!line.contains('\u{1b}'), "{line}");
        assert_ne!(line.split_whitespace().nth(1), Some("ERROR"), "{line}");
        let is_begun = line.starts_with("20") && !line.starts_with("2026-01-01");
        assert!(is_begun || !line.contains("forged"), "{line}");
    }
}

#[test]
fn a_name_forges_no_line_of_the_terminal() {
    let Output { stderr, status, .. } = mount_s3()
        .args([BUCKET, "/no/such\nmount-s3: all is well"])
        .output()
        .unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert!(!status.success());
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains(r"/no/such\nmount-s3: all is well"), "{said}");
}

/// Words that occur together in lines of requests.
const LINES: [&[&str]; 5] = [
    &[
        "\"GetObject\"",
        "key=\"s3://test-bucket/large\"",
        "range=\"0-",
        "status=206",
        "time=",
    ],
    &[
        "\"PutObject\"",
        "key=\"s3://test-bucket/new\"",
        "status=200",
        "request_id=",
    ],
    &[
        "\"UploadPart\"",
        "key=\"s3://test-bucket/parts\"",
        "status=200",
    ],
    &[
        "\"CompleteMultipartUpload\"",
        "key=\"s3://test-bucket/parts\"",
        "status=200",
        "request_id=",
    ],
    &[
        "\"DeleteObject\"",
        "key=\"s3://test-bucket/new\"",
        "status=204",
    ],
];

/// How often each name occurs.
fn counted(names: impl Iterator<Item = String>) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// One line for each request at the server.
#[test]
fn debug_tells_of_each_request() {
    let server = server();
    put(&server, "small", "x");
    server.store().put_synthetic(BUCKET, "large", 4 << 20, 1);
    let mounted = Mounted::unhedged(&server, &["--debug", "--allow-changes"]);
    read(&mounted.join("small"));
    read(&mounted.join("large"));
    shell(
        mounted.path(),
        "echo x > new && rm new && ls > /dev/null && ! cat absent && head -c 9000000 /dev/zero > parts",
    );
    let log = mounted.log();
    assert!(
        log.contains("mounting version=") && log.contains("bucket=\"test-bucket\""),
        "{log}"
    );
    assert!(
        log.contains("settings ") && log.contains("may=\"overwrite,"),
        "{log}"
    );
    let seen = || {
        counted(
            server
                .log()
                .snapshot()
                .iter()
                .map(|record| format!("{:?}", record.operation)),
        )
    };
    let told = || {
        let log = mounted.log();
        let lines = log
            .lines()
            .filter_map(|line| line.split_once(" request operation=\""));
        counted(lines.map(|(_, rest)| rest.split('"').next().unwrap_or_default().to_owned()))
    };
    wait_until("a line for each request", || seen() == told());
    let log = mounted.log();
    for parts in LINES {
        let is_there = |line: &str| parts.iter().all(|part| line.contains(part));
        assert!(log.lines().any(is_there), "{parts:?}: {log}");
    }
    assert!(!log.contains("18446744073709551615"), "{log}");
}
