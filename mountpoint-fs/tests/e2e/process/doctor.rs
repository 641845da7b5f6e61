//! `mount-s3 doctor`: its report of good and bad buckets, its harmlessness, and its advice.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};
use parking_lot::Mutex;

use crate::harness::{
    ACCESS_KEY, BUCKET, HANG, Mounted, PATIENCE, SECRET_KEY, mount_s3, put, read, server, unmount,
};
use crate::machine::{bare_devices, bind, fuse_device, in_private_namespace};

/// The report for machines, and the exit code.
pub(crate) struct Diagnosis {
    pub(crate) code: Option<i32>,
    pub(crate) document: serde_json::Value,
}

impl Diagnosis {
    /// Runs the doctor against a server that answers.
    ///
    /// The doctor gives each answer a few seconds and reports a missing one: on a starved machine
    /// it is run again.
    #[track_caller]
    pub(crate) fn of(command: Command) -> Self {
        Self::asking(command, || ())
    }

    /// Runs the doctor likewise, and `before` ahead of each run.
    #[track_caller]
    fn asking(mut command: Command, before: impl Fn()) -> Self {
        command.arg("--json");
        let started = Instant::now();
        loop {
            before();
            let diagnosis = Self::once(&mut command);
            if !diagnosis.is_out_of_time() || started.elapsed() > PATIENCE {
                return diagnosis;
            }
        }
    }

    /// Runs the doctor with `--json`.
    #[track_caller]
    fn once(command: &mut Command) -> Self {
        Self::disturbed(command, |_| ())
    }

    /// Runs the doctor likewise, and `disturb` meanwhile.
    #[track_caller]
    pub(crate) fn disturbed(command: &mut Command, disturb: impl FnOnce(&mut Child)) -> Self {
        let alone = ALONE.lock();
        let started = Instant::now();
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        disturb(&mut child);
        let output = child.wait_with_output().unwrap();
        assert!(started.elapsed() < HANG, "{output:?}");
        drop(alone);
        check_no_secret(&output);
        let text = String::from_utf8_lossy(&output.stdout);
        let document =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{output:?}"));
        Self {
            code: output.status.code(),
            document,
        }
    }

    pub(crate) fn is_out_of_time(&self) -> bool {
        let findings = self.document["findings"].as_array().unwrap();
        let mut found = findings.iter().map(|row| row["found"].as_str().unwrap());
        found.any(|text| OUT_OF_TIME.iter().any(|words| text.contains(words)))
    }

    /// A row as `level: found -> advice`.
    #[track_caller]
    pub(crate) fn row(&self, check: &str) -> String {
        let findings = self.document["findings"].as_array().unwrap();
        let row = findings.iter().find(|row| row["check"] == check);
        let row = row.unwrap_or_else(|| panic!("no row {check} in {}", self.document));
        let text = |name: &str| row[name].as_str().unwrap().to_owned();
        format!("{}: {} -> {}", text("level"), text("found"), text("advice"))
    }

    /// The recommended command without the program.
    fn recommended(&self) -> Vec<String> {
        let command = self.document["recommendation"]["command"].as_array();
        let words = command.unwrap().iter().skip(1);
        words
            .map(|word| word.as_str().unwrap().to_owned())
            .collect()
    }

    fn is_mountable(&self) -> bool {
        self.document["mountable"].as_bool().unwrap()
    }
}

/// Findings that only a slow machine causes.
const OUT_OF_TIME: [&str; 5] = [
    "does not answer: a dead file system",
    "did not answer within",
    "no answer within",
    "none within",
    "broken off after",
];

/// Held by a running doctor, which waits a few seconds for each resource.
///
/// On a starved machine several doctors at once are too slow for that.
static ALONE: Mutex<()> = Mutex::new(());

#[track_caller]
fn check_no_secret(output: &Output) {
    let shown = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(!shown.contains(SECRET_KEY), "{shown}");
    assert!(!shown.contains("panicked"), "{shown}");
}

fn doctor(args: &[&str]) -> Command {
    let mut command = mount_s3();
    command.arg("doctor").args(args);
    command
}

pub(crate) fn doctor_at(url: &str, args: &[&str]) -> Command {
    let mut command = doctor(args);
    command.args(["--endpoint-url", url, "--force-path-style"]);
    command
}

/// Checks in the log that the doctor changed nothing and sent no unneeded request.
#[track_caller]
fn check_harmless(server: &Server) {
    for record in server.log().snapshot() {
        let is_harmless = matches!(
            record.operation,
            Operation::HeadBucket
                | Operation::ListObjectsV2
                | Operation::HeadObject
                | Operation::GetObject
        );
        assert!(is_harmless, "{record:?}");
    }
}

#[test]
fn a_good_bucket() {
    let server = server();
    for key in ["a", "b/c", "d e+f", "ü"] {
        put(&server, key, "contents");
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().to_str().unwrap();
    let command = doctor_at(&server.url(), &[BUCKET, path]);
    let diagnosis = Diagnosis::asking(command, || server.log().clear());
    let shown = diagnosis.document.to_string();
    assert_eq!(diagnosis.code, Some(0), "{shown}");
    assert!(diagnosis.is_mountable(), "{shown}");
    for (check, expected) in [
        ("kernel version", "ok: Linux "),
        ("/dev/fuse", "ok: can be opened"),
        ("mount point", "ok: "),
        ("credentials", "ok: from environment"),
        ("proxy", "ok: none"),
        ("endpoint", "answered in"),
        ("clock", "ok: within"),
        ("region", "ok: us-east-1"),
        ("HeadBucket", "ok: allowed"),
        ("ListObjectsV2", "ok: allowed"),
        ("HeadObject", "ok: allowed on 'a'"),
        ("GetObject", "ok: allowed on 'a'"),
        ("listing order", "ok: 4 keys"),
        ("listing encoding", "ok: "),
        ("range requests", "ok: "),
        ("conditional reads", "ok: If-Match is honoured"),
        ("checksums", "ok: "),
        ("rename", "never tried"),
    ] {
        let row = diagnosis.row(check);
        assert!(row.contains(expected), "{check}: {row}");
    }
    // A request that is repeated because its connection stalled on a busy machine counts once.
    let records = server.log().snapshot().into_iter();
    let asked: HashSet<_> = records
        .map(|it| (it.operation, it.key, it.query, it.range, it.if_match))
        .collect();
    assert!(asked.len() <= 8, "few requests: {asked:?}");
    check_harmless(&server);

    // The recommended command word for word, in the background as a user would type it.
    let output = mount_s3().args(diagnosis.recommended()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(read(&directory.path().join("b/c")), b"contents");
    unmount(directory.path());
}

/// Removes the directory, because the harness mounts at a directory of its own.
fn without(words: &[String], directory: &str) -> Vec<String> {
    let kept = words.iter().filter(|word| *word != directory);
    kept.cloned().collect()
}

#[test]
fn the_recommendation_adds_what_is_missing() {
    let server = server();
    put(&server, "file", "contents");
    // By a host name without bucket subdomains, and by a variable.
    let url = server.url().replace("127.0.0.1", "localhost");
    let mut command = doctor(&[BUCKET]);
    command.env("AWS_ENDPOINT_URL", &url);
    let diagnosis = Diagnosis::of(command);
    let shown = diagnosis.document.to_string();
    assert_eq!(diagnosis.code, Some(0), "{shown}");
    let words = diagnosis.recommended();
    assert_eq!(words[..2], [BUCKET.to_owned(), format!("/mnt/{BUCKET}")]);
    for word in ["--force-path-style", "--endpoint-url", &url] {
        assert!(words.iter().any(|w| w == word), "{word}: {shown}");
    }
    assert!(
        diagnosis.row("addressing").starts_with("warning"),
        "{shown}"
    );
    let mut recommended = mount_s3();
    recommended.args(without(&words, &format!("/mnt/{BUCKET}")));
    let mounted = Mounted::start(recommended);
    assert_eq!(read(&mounted.join("file")), b"contents");
}

#[test]
fn text_for_people() {
    let server = server();
    put(&server, "file", "contents");
    let output = doctor_at(&server.url(), &[BUCKET]).output().unwrap();
    check_no_secret(&output);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    for part in [
        "kernel\n  ok ",
        "\nbucket\n",
        "The bucket can be mounted with:\n",
        &format!(
            "mount-s3 {BUCKET} /mnt/{BUCKET} --endpoint-url {}",
            server.url()
        ),
    ] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn this_machine_alone() {
    let diagnosis = Diagnosis::of(doctor(&[]));
    assert_eq!(diagnosis.code, Some(0), "{}", diagnosis.document);
    assert!(diagnosis.row("open files").starts_with("ok"));
    assert_eq!(
        diagnosis.document["recommendation"],
        serde_json::Value::Null
    );
    let areas = diagnosis.document["findings"].as_array().unwrap();
    assert!(areas.iter().all(|row| row["area"] != "bucket"));
}

#[test]
#[expect(
    clippy::too_many_lines,
    reason = "a table of what stands against a mount"
)]
fn buckets_that_cannot_be_mounted() {
    let server = server();
    put(&server, "file", "contents");
    let (good, dead) = (server.url(), "http://127.0.0.1:1".to_owned());
    let case = |url: &str, args: &[&str], variables: &[(&str, &str)]| {
        let mut command = doctor_at(url, args);
        command.envs(variables.iter().copied());
        let diagnosis = Diagnosis::of(command);
        assert_eq!(diagnosis.code, Some(1), "{}", diagnosis.document);
        assert!(!diagnosis.is_mountable());
        diagnosis
    };
    let no_keys = [("AWS_ACCESS_KEY_ID", ""), ("AWS_SECRET_ACCESS_KEY", "")];
    let wrong_keys = [("AWS_SECRET_ACCESS_KEY", "wrong")];
    for (url, args, variables, check, expected) in [
        (
            &dead,
            &[BUCKET][..],
            &[][..],
            "endpoint",
            "check --endpoint-url",
        ),
        (
            &good,
            &["absent-bucket"],
            &[],
            "ListObjectsV2",
            "check the bucket's name",
        ),
        (
            &good,
            &[BUCKET],
            &wrong_keys,
            "ListObjectsV2",
            "credentials",
        ),
        (
            &good,
            &[BUCKET],
            &no_keys,
            "credentials",
            "AWS_ACCESS_KEY_ID",
        ),
        (
            &good,
            &[BUCKET, "--no-sign-request"],
            &[],
            "ListObjectsV2",
            "s3:ListBucket",
        ),
        (
            &good,
            &[BUCKET, "/no/such/directory"],
            &[],
            "mount point",
            "mkdir -p",
        ),
        (
            &good,
            &[BUCKET, "--bind", "nowhere0"],
            &[],
            "--bind",
            "ip link",
        ),
        (
            &good,
            &[
                BUCKET,
                "--sse",
                "AES256",
                "--sse-kms-key-id",
                "arn:aws:kms:r:1:key/x",
            ],
            &[],
            "flags",
            "--sse-kms-key-id cannot",
        ),
    ] {
        let diagnosis = case(url, args, variables);
        let row = diagnosis.row(check);
        assert!(row.starts_with("error"), "{check}: {row}");
        assert!(row.contains(expected), "{check}: {row}");
    }
    check_harmless(&server);
}

#[test]
fn a_server_with_weaknesses() {
    let server = server();
    put(&server, "archive", "contents");
    put(&server, "file", "contents");
    server
        .store()
        .set_storage_class(BUCKET, "archive", Some("DEEP_ARCHIVE"), None);
    let deny = Fault::Error {
        status: 403,
        code: "AccessDenied",
    };
    let cases = [
        (
            Operation::GetObject,
            Fault::IgnoreRange,
            "range requests",
            "warning",
        ),
        (
            Operation::GetObject,
            Fault::IgnoreConditions,
            "conditional reads",
            "warning",
        ),
        (
            Operation::GetObject,
            deny.clone(),
            "GetObject",
            "s3:GetObject",
        ),
        (Operation::HeadObject, deny.clone(), "HeadObject", "warning"),
        (Operation::HeadBucket, deny, "HeadBucket", "warning"),
    ];
    for (operation, fault, check, expected) in cases {
        let rule = server.faults().add(Rule::on(operation, fault));
        let diagnosis = Diagnosis::of(doctor_at(&server.url(), &[BUCKET]));
        server.faults().remove(rule);
        let row = diagnosis.row(check);
        assert_eq!(diagnosis.code, Some(0), "{}", diagnosis.document);
        assert!(row.contains(expected), "{check}: {row}");
    }
    check_harmless(&server);
}

/// A server that answers like a region of another bucket's. Returns its URL.
///
/// Its clock is slow, and its listings are in arbitrary order.
fn stubborn_server() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || answer_stubbornly(stream));
        }
    });
    url
}

fn answer_stubbornly(mut stream: std::net::TcpStream) {
    let mut request = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    while !request.ends_with("\r\n\r\n") {
        if lines.read_line(&mut request).unwrap_or(0) == 0 {
            return;
        }
    }
    let date = "Date: Sat, 21 Nov 2020 12:00:00 GMT";
    let head = if request.contains("/eu-west-1/s3/") {
        "HTTP/1.1 200 OK"
    } else {
        "HTTP/1.1 301 Moved Permanently"
    };
    let body = if request.starts_with("HEAD") {
        ""
    } else {
        "<ListBucketResult><IsTruncated>false</IsTruncated>\
         <Contents><Key>b</Key><Size>0</Size><ETag>&quot;1&quot;</ETag></Contents>\
         <Contents><Key>a</Key><Size>0</Size><ETag>&quot;1&quot;</ETag></Contents></ListBucketResult>"
    };
    let length = body.len();
    // The client may have closed the connection.
    write!(
        stream,
        "{head}\r\n{date}\r\nServer: stubborn\r\nx-amz-bucket-region: eu-west-1\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .ok();
}

#[test]
fn what_a_server_tells_of_itself() {
    let url = stubborn_server();
    for (args, variables, region) in [
        (&[BUCKET][..], &[][..], "saves a request"),
        (
            &[BUCKET],
            &[("AWS_DEFAULT_REGION", "ap-south-1")],
            "ap-south-1, from the AWS configuration or by default, was asked first",
        ),
        (
            &[BUCKET],
            &[("AWS_REGION", "")],
            "us-east-1, from the AWS configuration or by default, was asked first",
        ),
        (
            &[BUCKET],
            &[("AWS_REGION", "ap-south-1")],
            "not in ap-south-1 as given",
        ),
        (
            &[BUCKET, "--region", "us-east-1"],
            &[],
            "not in us-east-1 as given",
        ),
    ] {
        let mut command = doctor_at(&url, args);
        command.envs(variables.iter().copied());
        let diagnosis = Diagnosis::of(command);
        let shown = diagnosis.document.to_string();
        assert_eq!(diagnosis.code, Some(0), "{shown}");
        for (check, expected) in [
            ("region", region),
            ("endpoint", "(stubborn)"),
            ("clock", "S3 refuses requests"),
            ("GetObject", "not tried"),
            ("listing order", "not in order"),
            ("listing encoding", "not URL-encoded"),
        ] {
            let row = diagnosis.row(check);
            assert!(row.contains(expected), "{check}: {row}");
        }
        let words = diagnosis.recommended();
        let regions = words.iter().filter(|word| *word == "--region");
        assert_eq!(regions.count(), 1, "{words:?}");
        assert!(words.iter().any(|word| word == "eu-west-1"), "{words:?}");
    }
}

#[test]
fn a_server_that_does_not_answer() {
    let server = server();
    server
        .faults()
        .add(Rule::on(Operation::HeadBucket, Fault::BlackHole));
    let diagnosis = Diagnosis::once(doctor_at(&server.url(), &[BUCKET]).arg("--json"));
    assert_eq!(diagnosis.code, Some(1));
    assert!(diagnosis.is_out_of_time());
    let row = diagnosis.row("endpoint");
    assert!(row.contains("did not answer within 5 s"), "{row}");
}

#[test]
fn a_chosen_directory_that_is_in_use_does_not_stand_against_a_mount() {
    let server = server();
    put(&server, "file", "contents");
    in_private_namespace(|| {
        let (root, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let chosen = format!("/mnt/{BUCKET}");
        bind(root.path(), "/mnt");
        std::fs::create_dir(&chosen).unwrap();
        bind(other.path(), &chosen);
        for (args, code, level, advice) in [
            (&[BUCKET][..], 0, "warning: ", "name another directory"),
            (&[BUCKET, &chosen], 1, "error: ", "choose another directory"),
        ] {
            let diagnosis = Diagnosis::of(doctor_at(&server.url(), args));
            assert_eq!(diagnosis.code, Some(code), "{}", diagnosis.document);
            let row = diagnosis.row("mount point");
            assert!(row.starts_with(level) && row.contains(advice), "{row}");
        }
    });
}

#[test]
fn folders_of_a_mount_that_would_be_objects_are_told() {
    let server = server();
    let (mounted, outer) = (Mounted::new(&server, &[]), tempfile::tempdir().unwrap());
    let path = |name: &str| outer.path().join(name).to_str().unwrap().to_owned();
    let mount_point = path("mnt");
    std::fs::create_dir(&mount_point).unwrap();
    let told = |cache: &str, staging: &str| {
        let args = [BUCKET, &mount_point, "--cache", cache, "--staging", staging];
        let diagnosis = Diagnosis::of(doctor_at(&server.url(), &args));
        (diagnosis.is_mountable(), diagnosis)
    };
    let (is_mountable, diagnosis) = told(&path("mnt/cache"), &path("staging"));
    assert!(!is_mountable);
    assert!(diagnosis.row("--cache").contains("within the mount itself"));
    assert!(diagnosis.row("--staging").starts_with("ok: "));
    let elsewhere = mounted.join("staging");
    let (is_mountable, diagnosis) = told(&path("cache"), elsewhere.to_str().unwrap());
    assert!(is_mountable && diagnosis.row("--cache").starts_with("ok: "));
    assert!(diagnosis.row("--staging").contains("on a FUSE mount"));
}

#[test]
fn a_bucket_that_is_called_doctor() {
    let server = server();
    server.store().create_bucket("doctor");
    server.store().put("doctor", "file", &b"contents"[..]);
    let diagnosis = Diagnosis::of(doctor_at(&server.url(), &["doctor"]));
    assert_eq!(diagnosis.code, Some(0), "{}", diagnosis.document);
    let words = diagnosis.recommended();
    assert_eq!(words[..2], ["s3://doctor", "/mnt/doctor"]);
    let mut recommended = mount_s3();
    recommended.args(without(&words, "/mnt/doctor"));
    let mounted = Mounted::start(recommended);
    assert_eq!(read(&mounted.join("file")), b"contents");
    drop(mounted);

    let output = doctor(&["--help"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("s3://doctor"), "{text}");
    assert!(!text.contains(ACCESS_KEY), "{text}");
}

#[test]
fn a_missing_syslog_is_told_of_where_a_mount_would_use_it() {
    in_private_namespace(|| {
        let root = tempfile::tempdir().unwrap();
        bare_devices();
        fuse_device(root.path(), 0o600);
        let row = Diagnosis::of(doctor(&[])).row("log");
        assert!(row.starts_with("warning: there is no syslog"), "{row}");
        assert!(row.contains("--log-directory"), "{row}");
        let elsewhere = Diagnosis::of(doctor(&["s3://x-1", "--no-log"]));
        assert!(!elsewhere.document.to_string().contains("no syslog"));
    });
}

/// Advice is complete, and names no flag that was given.
#[test]
fn advice_is_whole_and_new() {
    let server = server();
    let mounted = Mounted::new(&server, &[]);
    let directory = mounted.path().to_str().unwrap();
    let url = server.url();
    let at = ["--endpoint-url", &url, "--force-path-style"];
    let args = [&[BUCKET, directory, "--no-sign-request"][..], &at].concat();
    let diagnosis = Diagnosis::of(doctor(&args));
    let row = diagnosis.row("mount point");
    let (found, advice) = row.split_once(" -> ").unwrap();
    assert!(found.ends_with("type fuse.mount-s3)"), "{row}");
    let whole = format!("unmount it with `umount {directory}` (");
    assert!(advice.starts_with(&whole), "{row}");
    assert!(
        advice.ends_with("is gone), or choose another directory"),
        "{row}"
    );
    let row = diagnosis.row("ListObjectsV2");
    assert!(row.contains("leave --no-sign-request out"), "{row}");
    assert!(!row.contains("needs --no-sign-request"), "{row}");
}
