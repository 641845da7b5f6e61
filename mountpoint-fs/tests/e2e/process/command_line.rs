//! The command line as a user types it: helper commands, refused flags, warnings.

use std::process::Output;

use mountpoint_fs::cli::HELPER_NAMES;

use crate::harness::{BUCKET, Mounted, mount_s3, put, read, server, unmount};

#[track_caller]
fn check(output: &Output, code: i32, stdout: &str, stderr: &str) {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stdout).contains(stdout),
        "{output:?}"
    );
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(stderr),
        "{output:?}"
    );
}

#[test]
fn helper_commands_print_and_end() {
    for (args, code, stdout, stderr) in [
        (&["--version"][..], 0, "mount-s3 ", ""),
        (&["--help"], 0, "Metrics options", ""),
        (&["completions", "bash"], 0, "complete -F", ""),
        (&["completions", "zsh"], 0, "#compdef mount-s3", ""),
        (
            &["completions", "fish"],
            0,
            "complete --command mount-s3",
            "",
        ),
        (&["completions", "--help"], 0, "mount-s3 completions", ""),
        (&["completions", "tcsh"], 2, "", "bash, zsh, fish"),
        (&["man"], 0, ".TH mount-s3", ""),
        (&["man", "warm"], 0, ".TH mount-s3-warm", ""),
        (&["man", "x"], 2, "", "doctor, bench, index"),
    ] {
        check(
            &mount_s3().args(args).output().unwrap(),
            code,
            stdout,
            stderr,
        );
    }
}

/// A bucket may have the name of a helper command.
#[test]
fn buckets_with_the_names_of_helper_commands() {
    let server = server();
    for name in HELPER_NAMES {
        let mut help = mount_s3();
        help.args([name, "--help"]);
        let help = help.output().unwrap();
        check(&help, 0, &format!("mount-s3 {name}"), "");
        // Each shows how it is used.
        check(&help, 0, "\nExamples:\n", "");
        server.store().create_bucket(name);
        server.store().put(name, "file", name.as_bytes().to_vec());
        let mut command = mount_s3();
        command.args([
            &format!("s3://{name}"),
            "--force-path-style",
            "--endpoint-url",
            &server.url(),
        ]);
        let mounted = Mounted::start(command);
        assert_eq!(read(&mounted.join("file")), name.as_bytes());
    }
}

/// Volumes of mountpoint-s3 use such flags: each causes one warning, and the mount works.
#[test]
fn flags_without_effect_mount_with_a_warning_each() {
    let server = server();
    put(&server, "file", "x");
    let directory = tempfile::tempdir().unwrap();
    let cache = tempfile::tempdir().unwrap();
    let cache = ["--cache", cache.path().to_str().unwrap()];
    let flags = [["--cache-block-size", "1024"]];
    let output = mount_s3()
        .args([BUCKET, directory.path().to_str().unwrap()])
        .args(["--endpoint-url", &server.url(), "--force-path-style"])
        .args(flags.as_flattened())
        .args(cache)
        .output()
        .unwrap();
    let content = read(&directory.path().join("file"));
    unmount(directory.path());
    assert_eq!((output.status.code(), &content[..]), (Some(0), &b"x"[..]));
    let stderr = String::from_utf8(output.stderr).unwrap();
    for flag in flags.map(|[flag, _]| flag) {
        let warning = format!("mount-s3: warning: {flag} has no effect");
        let told = stderr.lines().filter(|line| line.starts_with(&warning));
        assert_eq!(told.count(), 1, "{flag}: {stderr}");
    }
}

/// A difference between flags and behaviour is shown on the terminal, and the mount works.
#[test]
fn warnings_reach_the_terminal() {
    let server = server();
    put(&server, "file", "x");
    let directory = tempfile::tempdir().unwrap();
    let output = mount_s3()
        .args([
            BUCKET,
            directory.path().to_str().unwrap(),
            "--endpoint-url",
            &server.url(),
        ])
        .args(["--force-path-style", "--metadata-ttl", "0"])
        .env("_RJEM_MALLOC_CONF", "x")
        .env("MOUNTPOINT_MAX_BACKGROUND", "32")
        .env("UNSTABLE_MOUNTPOINT_MAX_BACKGROUND", "16")
        .output()
        .unwrap();
    unmount(directory.path());
    for warning in [
        "mount-s3: warning: --metadata-ttl 0 means 'minimal'",
        "mount-s3: warning: _RJEM_MALLOC_CONF has no effect: this program does not use jemalloc",
        "mount-s3: warning: MOUNTPOINT_MAX_BACKGROUND=32 is used",
    ] {
        check(&output, 0, "is mounted at", warning);
    }
}

/// Data and control requests have the properties that the flags set.
#[test]
fn flags_reach_the_server() {
    let server = server();
    put(&server, "file", "x");
    let flags = [
        "--user-agent-prefix",
        "tool/1",
        "--requester-pays",
        "--expected-bucket-owner",
        "123456789012",
    ];
    let mounted = Mounted::new(&server, &flags);
    assert_eq!(read(&mounted.join("file")), b"x");
    let records = server.log().snapshot();
    assert!(records.iter().any(|record| record.key == "file"));
    for record in records {
        let user_agent = record.setting("user-agent").unwrap();
        assert!(user_agent.starts_with("tool/1 mountpoint/"), "{record:?}");
        assert_eq!(
            record.setting("x-amz-request-payer"),
            Some("requester"),
            "{record:?}"
        );
        let owner = record.setting("x-amz-expected-bucket-owner");
        assert_eq!(owner, Some("123456789012"), "{record:?}");
    }
}
