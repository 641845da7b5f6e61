//! Ways to start wrong: one clear message, the right exit code, no hang, no panic, no secret.

use std::time::{Duration, Instant};

use mountpoint_client::server::{Fault, Operation, Rule};

use crate::harness::{BUCKET, Mounted, SECRET_KEY, mount_s3, put, server};

/// How a start goes wrong.
struct Wrong<'a> {
    what: &'a str,
    args: Vec<&'a str>,
    variables: Vec<(&'a str, &'a str)>,
    code: i32,
    message: &'a str,
}

fn wrong<'a>(what: &'a str, args: &[&'a str], code: i32, message: &'a str) -> Wrong<'a> {
    Wrong {
        what,
        args: args.to_vec(),
        variables: vec![],
        code,
        message,
    }
}

#[track_caller]
fn check(case: &Wrong<'_>) {
    for foreground in [true, false] {
        let start = Instant::now();
        let mut command = mount_s3();
        command
            .args(&case.args)
            .envs(case.variables.iter().copied());
        if foreground {
            command.arg("--foreground");
        }
        let output = command.output().unwrap();
        let (stdout, stderr) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        let shown = format!("{} (foreground {foreground}): {stderr}", case.what);
        assert_eq!(output.status.code(), Some(case.code), "{shown}");
        assert!(stderr.contains(case.message), "{shown}");
        assert!(
            !stderr.contains("panicked") && !stderr.contains("stack backtrace"),
            "{shown}"
        );
        assert!(
            !stderr.contains(SECRET_KEY) && !stdout.contains(SECRET_KEY),
            "{shown}"
        );
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{shown} took {:?}",
            start.elapsed()
        );
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of ways to start wrong")]
fn wrong_starts() {
    let server = server();
    put(&server, "file", "x");
    let (url, root) = (server.url(), tempfile::tempdir().unwrap());
    let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
    let (dir, missing, file) = (path("dir"), path("missing"), path("file"));
    std::fs::create_dir(&dir).unwrap();
    std::fs::write(&file, "x").unwrap();
    let at = ["--endpoint-url", url.as_str(), "--force-path-style"];
    let cases = [
        wrong("no arguments", &[], 2, "BUCKET_NAME"),
        wrong("no directory", &[BUCKET], 2, "DIRECTORY"),
        wrong(
            "unknown flag",
            &[BUCKET, &dir, "--no-such-flag"],
            2,
            "--no-such-flag",
        ),
        wrong("bucket name", &["a", &dir], 2, "not a bucket name"),
        wrong(
            "prefix",
            &[BUCKET, &dir, "--prefix", "x"],
            2,
            "must end with '/'",
        ),
        wrong(
            "endpoint",
            &[BUCKET, &dir, "--endpoint-url", "localhost"],
            2,
            "http://localhost",
        ),
        wrong("mode", &[BUCKET, &dir, "--file-mode", "9"], 2, "octal"),
        wrong(
            "no such directory",
            &[BUCKET, &missing, at[0], at[1], at[2]],
            1,
            "mkdir -p",
        ),
        wrong(
            "a file",
            &[BUCKET, &file, at[0], at[1], at[2]],
            1,
            "not a directory",
        ),
        wrong(
            "no such bucket",
            &["absent-bucket", &dir, at[0], at[1], at[2]],
            1,
            "does not exist",
        ),
        wrong(
            "unreachable",
            &[BUCKET, &dir, at[0], "http://127.0.0.1:1", at[2]],
            1,
            "cannot reach the S3 server",
        ),
        wrong(
            "no such host",
            &[BUCKET, &dir, at[0], "http://no-such-host.invalid", at[2]],
            1,
            "cannot reach",
        ),
        wrong(
            "unsigned",
            &[BUCKET, &dir, at[0], at[1], at[2], "--no-sign-request"],
            1,
            "permission",
        ),
        wrong(
            "no such profile",
            &[BUCKET, &dir, at[0], at[1], at[2], "--profile", "absent"],
            1,
            "credentials",
        ),
        Wrong {
            variables: vec![("AWS_SECRET_ACCESS_KEY", "wrong")],
            ..wrong(
                "wrong secret",
                &[BUCKET, &dir, at[0], at[1], at[2]],
                1,
                "credentials",
            )
        },
        Wrong {
            variables: vec![("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")],
            ..wrong(
                "no credentials",
                &[BUCKET, &dir, at[0], at[1], at[2]],
                1,
                "AWS_ACCESS_KEY_ID",
            )
        },
        Wrong {
            variables: vec![("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "lots")],
            ..wrong(
                "variable",
                &[BUCKET, &dir, at[0], at[1], at[2]],
                1,
                "UNSTABLE_MOUNTPOINT_MAX_BACKGROUND",
            )
        },
    ];
    for case in &cases {
        check(case);
    }
}

#[test]
fn a_mount_point_in_use() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let (url, dir) = (server.url(), mounted.path().to_str().unwrap().to_owned());
    check(&wrong(
        "mounted",
        &[BUCKET, &dir, "--endpoint-url", &url, "--force-path-style"],
        1,
        "already mounted",
    ));
}

#[test]
fn a_server_that_never_answers() {
    let server = server();
    server
        .faults()
        .add(Rule::on(Operation::ListObjectsV2, Fault::BlackHole));
    let root = tempfile::tempdir().unwrap();
    let start = Instant::now();
    let output = mount_s3()
        .args([
            BUCKET,
            root.path().to_str().unwrap(),
            "--endpoint-url",
            &server.url(),
            "--force-path-style",
        ])
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(
        start.elapsed() < Duration::from_secs(40),
        "{:?}",
        start.elapsed()
    );
    assert!(!stderr.is_empty());
}

#[test]
fn something_that_is_no_s3_server() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _read = stream.read(&mut [0; 4096]);
            let _written = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\nConnection: close\r\n\r\n<html></html",
            );
        }
    });
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().to_str().unwrap();
    check(&wrong(
        "web server",
        &[BUCKET, dir, "--endpoint-url", &url, "--force-path-style"],
        1,
        "S3 server",
    ));
}
