//! Index files: made by `mount-s3 index`, and mounts that take their names from one.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, synthetic_bytes};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::harness::{
    BUCKET, Mounted, PATIENCE, mount_s3, put, read, server, shell, wait_for_exit,
};

/// Runs `mount-s3 index` with the server's address.
fn make_index(server: &Server, args: &[&str]) -> Output {
    let mut command = mount_s3();
    command.arg("index").args(args);
    command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    command.output().unwrap()
}

/// An index of `bucket`, which is to succeed.
#[track_caller]
fn index_of(server: &Server, bucket: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("names.idx");
    let output = make_index(server, &[bucket, "-o", path.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert!(told.is_empty(), "{told}");
    (directory, path)
}

/// A mount of the bucket with an index.
fn mounted(server: &Server, index: &Path, args: &[&str]) -> Mounted {
    let args = [&["--index", index.to_str().unwrap()], args].concat();
    Mounted::unhedged(server, &args)
}

/// The reason of a mount with an index that is refused.
#[track_caller]
fn refused(server: &Server, bucket: &str, index: &Path, args: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let mut command = mount_s3();
    command
        .arg(bucket)
        .arg(directory.path())
        .arg("--foreground");
    command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    command.arg("--index").arg(index).args(args);
    let output = command.output().unwrap();
    assert!(!output.status.success());
    String::from_utf8(output.stderr).unwrap()
}

/// LISTs and HEADs so far.
fn questions(server: &Server) -> u64 {
    let of = |operation| server.log().count(operation);
    of(Operation::ListObjectsV2) + of(Operation::HeadObject) + of(Operation::HeadBucket)
}

fn put_tree(server: &Server) {
    for directory in 0..30 {
        for file in 0..50 {
            let key = format!("t/d{directory:02}/sub/f{file:03}.bin");
            server
                .store()
                .put_synthetic(BUCKET, &key, 1000 + file, file);
        }
    }
    put(server, "t/read me.txt", "words");
    put(server, "t/é", "accent");
    put(server, "t/empty", "");
    put(server, "t/marked/", "");
    // A directory hides the file of its name, and these cannot be shown.
    put(server, "t/d00", "hidden by a directory");
    put(server, "t//x", "no name");
    put(server, "t/../y", "no name");
    let large = 3 << 20;
    server.store().put_synthetic(BUCKET, "large", large, 7);
}

#[test]
fn a_mount_with_an_index_lists_nothing_and_shows_what_another_shows() {
    let server = server();
    put_tree(&server);
    let (_directory, index) = index_of(&server, BUCKET);
    let script = "find . -printf '%p %y %s %T@\\n' | sort; ls -lR --time-style=+%s t | md5sum; \
                  find . -type f -print0 | sort -z | xargs -0 sha256sum; \
                  test ! -e t/none; test ! -e none/x; stat -c '%n %s' t/é 't/read me.txt' t/d07/sub/f010.bin; \
                  ls -d t/*";
    let expected = {
        let plain = Mounted::unhedged(&server, &[]);
        let shown = shell(plain.path(), script);
        // Directories have the time of the mount.
        without_times_of_directories(&shown)
    };
    server.log().clear();
    let mounted = mounted(&server, &index, &[]);
    let shown = shell(mounted.path(), script);
    assert_eq!(without_times_of_directories(&shown), expected);
    assert_eq!(questions(&server), 0);
    assert_eq!(read(&mounted.join("large")), synthetic_bytes(7, 0..3 << 20));
    let log = mounted.log();
    assert!(log.contains("cannot be shown"), "{log}");
}

/// Without lines that differ from mount to mount.
fn without_times_of_directories(shown: &str) -> String {
    let lines = shown
        .lines()
        .filter(|line| !line.contains(" d ") && !line.ends_with("  -"));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn names_alone_are_looked_up_without_requests() {
    let server = server();
    put_tree(&server);
    let (_directory, index) = index_of(&server, BUCKET);
    server.log().clear();
    let mounted = mounted(&server, &index, &[]);
    for directory in [3, 17, 29] {
        for file in [0, 49] {
            let path = format!("t/d{directory:02}/sub/f{file:03}.bin");
            assert_eq!(
                std::fs::metadata(mounted.join(&path)).unwrap().len(),
                1000 + file
            );
        }
        let absent = mounted.join(&format!("t/d{directory:02}/sub/f050.bin"));
        assert!(!absent.exists());
    }
    let requests = server.log().take();
    assert!(requests.is_empty(), "{requests:?}");
}

#[test]
fn a_replaced_object_is_stale_and_the_log_says_what_to_do() {
    let server = server();
    for (key, size) in [
        ("small", 1_000),
        ("large", 3 << 20),
        ("deleted", 2_000),
        ("same", 9),
    ] {
        server.store().put_synthetic(BUCKET, key, size, 1);
    }
    let (_directory, index) = index_of(&server, BUCKET);
    server.store().put_synthetic(BUCKET, "small", 1_000, 2);
    server.store().put_synthetic(BUCKET, "large", 3 << 20, 2);
    assert!(server.store().delete(BUCKET, "deleted"));
    put(&server, "new", "unknown to the index");
    for key in ["small", "large", "deleted"] {
        // The log has a limit of such lines.
        let mounted = mounted(&server, &index, &[]);
        // Its name, size and time are those of the index.
        assert!(mounted.join(key).exists());
        for _ in 0..2 {
            let error = std::fs::read(mounted.join(key)).unwrap_err();
            assert_eq!(
                error.raw_os_error(),
                Some(Errno::ESTALE as i32),
                "{key}: {error}"
            );
        }
        let log = mounted.log();
        let told = log.lines().any(|line| {
            line.contains(&format!("{key} was replaced or deleted after the index"))
                && line.contains("make the index anew with `mount-s3 index`")
        });
        assert!(told, "{key}: {log}");
    }
    let mounted = mounted(&server, &index, &[]);
    assert_eq!(read(&mounted.join("same")), synthetic_bytes(1, 0..9));
    assert!(!mounted.join("new").exists());
}

#[test]
fn nothing_can_be_changed() {
    let server = server();
    put(&server, "a", "1");
    let (_directory, index) = index_of(&server, BUCKET);
    let mounted = mounted(&server, &index, &[]);
    for outcome in [
        std::fs::write(mounted.join("b"), "2"),
        std::fs::remove_file(mounted.join("a")),
        std::fs::create_dir(mounted.join("c")),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::EROFS as i32), "{error}");
    }
    let error = refused(&server, BUCKET, &index, &["--allow-delete"]);
    let expected = "--allow-delete cannot be used with --index, whose mount is read-only";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn an_index_of_something_else_is_refused() {
    let server = server();
    server.store().create_bucket("other-bucket");
    put(&server, "p/a", "1");
    put(&server, "q/b", "2");
    let (directory, index) = index_of(&server, &format!("{BUCKET}/p/"));
    let error = refused(&server, "other-bucket", &index, &[]);
    let expected = format!("it is of the bucket '{BUCKET}', and this mount is of 'other-bucket'");
    assert!(error.contains(&expected), "{error}");
    for (args, expected) in [
        (
            &[][..],
            "has the keys under 'p/' only, and this mount is of the whole bucket",
        ),
        (&["--prefix", "q/"][..], "this mount is of 'q/'"),
    ] {
        let error = refused(&server, BUCKET, &index, args);
        assert!(error.contains(expected), "{error}");
    }
    let bytes = std::fs::read(&index).unwrap();
    let damaged = directory.path().join("damaged");
    for (content, expected) in [
        (&b"something else entirely"[..], "it is no index file"),
        (b"", "it is no index file"),
        (&bytes[..bytes.len() - 5], "it is damaged"),
    ] {
        std::fs::write(&damaged, content).unwrap();
        let error = refused(&server, BUCKET, &damaged, &["--prefix", "p/"]);
        assert!(error.contains(expected), "{error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let mounted = mounted(&server, &index, &["--prefix", "p/"]);
    assert_eq!(read(&mounted.join("a")), b"1");
}

#[test]
fn a_damaged_block_is_an_error_of_the_names_in_it() {
    let server = server();
    for file in 0..2_000 {
        server
            .store()
            .put_synthetic(BUCKET, &format!("d/f{file:05}"), 1, 1);
    }
    let (_directory, index) = index_of(&server, BUCKET);
    let mut bytes = std::fs::read(&index).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    std::fs::write(&index, bytes).unwrap();
    let mounted = mounted(&server, &index, &[]);
    assert!(mounted.join("d/f00000").exists());
    let mut names = std::fs::read_dir(mounted.join("d")).unwrap();
    let error = names.find_map(Result::err).unwrap();
    assert_eq!(error.raw_os_error(), Some(Errno::EIO as i32), "{error}");
    let log = mounted.log();
    assert!(log.contains("the checksum of a block is wrong"), "{log}");
}

#[test]
fn an_index_appears_whole_or_not_at_all() {
    let server = server();
    put(&server, "a", "1");
    let (directory, index) = index_of(&server, BUCKET);
    let before = std::fs::read(&index).unwrap();
    let path = index.to_str().unwrap();
    let output = make_index(&server, &["no-such-bucket", "-o", path]);
    assert!(!output.status.success());
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(told.contains("no-such-bucket"), "{told}");
    assert_eq!(std::fs::read(&index).unwrap(), before);
    put(&server, "b", "2");
    let output = make_index(&server, &[BUCKET, "-o", path]);
    let told = String::from_utf8(output.stdout).unwrap();
    assert!(
        told.contains("has 2 keys of the bucket test-bucket"),
        "{told}"
    );
    let files = std::fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 1);
    let output = make_index(&server, &[BUCKET, "-o", "/no/such/directory/names"]);
    let told = String::from_utf8(output.stderr).unwrap();
    assert!(
        told.contains("cannot write /no/such/directory/names"),
        "{told}"
    );
}

#[test]
fn an_inventory_makes_the_same_index_without_a_request() {
    let server = server();
    let mut rows = String::new();
    for file in (0..3_000).rev() {
        let key = format!("d{}/f {file:05}", file % 7);
        let etag = server.store().put_synthetic(BUCKET, &key, file, file);
        let (etag, key) = (etag.trim_matches('"'), key.replace(' ', "%20"));
        rows +=
            &format!("\"{BUCKET}\",\"{key}\",\"{file}\",\"2026-01-02T03:04:05.000Z\",\"{etag}\"\n");
    }
    let directory = tempfile::tempdir().unwrap();
    let csv = directory.path().join("data.csv");
    std::fs::write(&csv, rows).unwrap();
    let index = directory.path().join("names.idx");
    server.log().clear();
    let mut command = mount_s3();
    command.args(["index", BUCKET, "-o", index.to_str().unwrap()]);
    command.args([
        "--inventory-columns",
        "Bucket, Key, Size, LastModifiedDate, ETag",
    ]);
    let output = command.arg("--inventory").arg(&csv).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    assert_eq!(server.log().count_all(), 0);
    let mounted = mounted(&server, &index, &[]);
    let names = shell(
        mounted.path(),
        "find . -type f | wc -l; ls d1 | sed -n 1,2p",
    );
    assert_eq!(names, "3000\nf 00001\nf 00008\n");
    assert_eq!(
        read(&mounted.join("d1/f 02997")),
        synthetic_bytes(2997, 0..2997)
    );
    assert_eq!(questions(&server), 0);
}

#[test]
fn a_signal_ends_the_command_and_leaves_no_file() {
    let server = server();
    put(&server, "a", "1");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("names.idx");
    // The first LIST looks at the bucket, the second one waits for ever.
    let hold = Rule::on(Operation::ListObjectsV2, Fault::Hold);
    let hold = server.faults().add(Rule { skip: 1, ..hold });
    let mut command = mount_s3();
    command.arg("index").arg(BUCKET).arg("-o").arg(&path);
    command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
    let log = server.log();
    let list = Operation::ListObjectsV2;
    assert!(log.wait_until(list, PATIENCE, |counters| counters.requests == 2));
    kill(
        Pid::from_raw(i32::try_from(process.id()).unwrap()),
        Signal::SIGINT,
    )
    .unwrap();
    let status = wait_for_exit(&mut process, PATIENCE);
    assert_eq!(status.code(), Some(1));
    let mut told = String::new();
    process
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut told)
        .unwrap();
    assert!(told.contains("interrupted; no file was written"), "{told}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    server.faults().remove(hold);
}

#[test]
fn large_buckets_are_listed_several_ranges_at_once_and_in_order() {
    let server = server();
    for directory in 0..40 {
        for file in 0..600 {
            let key = format!("data/{directory:02}/sample-{file:05}.jpg");
            server.store().put_synthetic(BUCKET, &key, 1, 1);
        }
    }
    // Far more than a busy machine takes to read an answer.
    let (fixed, jitter) = (Duration::from_millis(200), Duration::ZERO);
    server
        .faults()
        .add(Rule::always(Fault::Latency { fixed, jitter }));
    let (_directory, index) = index_of(&server, BUCKET);
    let counters = server.log().counters(Operation::ListObjectsV2);
    assert!(counters.in_flight_max >= 3, "{counters:?}");
    let mounted = mounted(&server, &index, &[]);
    let names = shell(mounted.path(), "find data -type f");
    assert_eq!(names.lines().count(), 40 * 600);
}

#[test]
fn an_index_of_a_directory_bucket_is_in_order() {
    let bucket = "indexed--use1-az4--x-s3";
    let server = Server::start_with_bucket(bucket).unwrap();
    for file in 0..2_500 {
        server
            .store()
            .put_synthetic(bucket, &format!("d{}/f{file:05}", file % 3), 1, 1);
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("names.idx");
    let mut command = mount_s3();
    command.args(["index", bucket, "--endpoint-url", &server.url(), "-o"]);
    let output = command.arg(&path).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{told}");
    let mut command = mount_s3();
    command.args([
        bucket,
        "--endpoint-url",
        &server.url(),
        "--force-path-style",
    ]);
    command.arg("--index").arg(&path);
    let mounted = Mounted::start(command);
    let names = shell(
        mounted.path(),
        "find . -type f | wc -l; ls d1 | sed -n 1,2p",
    );
    assert_eq!(names, "2500\nf00001\nf00004\n");
}
