//! `mount-s3 warm`: what it fetched, a mount reads without a GET.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, synthetic_bytes};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::harness::{
    BUCKET, CACHE_ROOM, Mounted, PATIENCE, mount_s3, put, read, server, wait_for_exit, wait_until,
};

const MIB: u64 = 1 << 20;

/// A large object of the tests.
const SIZE: u64 = 40 * MIB + 12_345;

/// Objects of all sizes, below `d/` and elsewhere. Returns those below `d/`: path, size, seed.
fn put_objects(server: &Server) -> Vec<(String, u64, u64)> {
    let mut objects = vec![
        ("large".to_owned(), SIZE, 1),
        ("sub/empty".to_owned(), 0, 2),
        ("one byte".to_owned(), 1, 3),
        ("sub/part".to_owned(), 8 * MIB, 4),
    ];
    for number in 0..30 {
        objects.push((format!("small/{number:02}.bin"), 1000 * number, 10 + number));
    }
    for (path, size, seed) in &objects {
        server
            .store()
            .put_synthetic(BUCKET, &format!("d/{path}"), *size, *seed);
    }
    put(server, "elsewhere", "not wanted");
    put(server, "d2/file", "not wanted");
    objects
}

fn total(objects: &[(String, u64, u64)]) -> u64 {
    objects.iter().map(|(_, size, _)| size).sum()
}

/// `mount-s3 warm` with a cache and the server's address.
fn command(server: &Server, cache: &Path, args: &[&str]) -> Command {
    let mut command = mount_s3();
    command.arg("warm").args(args).arg("--cache").arg(cache);
    if !args.contains(&CACHE_ROOM[0]) {
        command.args(CACHE_ROOM);
    }
    command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    command
}

/// A run that ends with `code`: its standard output and standard error.
#[track_caller]
fn ends(command: &mut Command, code: i32) -> (String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    );
    assert_eq!(status.code(), Some(code), "{stdout}{stderr}");
    (stdout, stderr)
}

/// A run that puts everything into the cache: bytes that were fetched, and that were there.
#[track_caller]
fn warm(server: &Server, cache: &Path, args: &[&str]) -> (u64, u64) {
    let args = [args, &["--json"]].concat();
    let (stdout, stderr) = ends(&mut command(server, cache, &args), 0);
    // A run that takes long tells how far it is.
    let is_progress = |line: &str| line.starts_with("mount-s3 warm: ");
    assert!(stderr.lines().all(is_progress), "{stderr}");
    let summary: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(summary["files"], summary["complete"], "{stdout}");
    let number = |name: &str| summary[name].as_u64().unwrap();
    (number("fetched_bytes"), number("present_bytes"))
}

fn mounted(server: &Server, cache: &Path, args: &[&str]) -> Mounted {
    let args = [&["--cache", cache.to_str().unwrap()], &CACHE_ROOM[..], args].concat();
    Mounted::unhedged(server, &args)
}

/// GETs since the log was cleared, and bytes of their answers.
fn gets(server: &Server) -> (u64, u64) {
    let log = server.log();
    let done = log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0);
    assert!(done, "GETs are in flight for ever");
    let counters = log.counters(Operation::GetObject);
    (counters.requests, counters.bytes_sent)
}

/// Reads all objects in a mount of `d/`, without a GET.
#[track_caller]
fn check_warm(server: &Server, cache: &Path, objects: &[(String, u64, u64)]) {
    server.log().clear();
    let mounted = mounted(server, cache, &["--prefix", "d/"]);
    for (path, size, seed) in objects {
        let bytes = read(&mounted.join(path));
        assert!(bytes == synthetic_bytes(*seed, 0..*size), "{path} differs");
    }
    assert_eq!(gets(server), (0, 0));
}

/// Bytes that the data files of a cache occupy.
fn occupied(cache: &Path) -> u64 {
    let mut occupied = 0;
    let mut folders = vec![cache.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path: PathBuf = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "data") {
                occupied += fs::metadata(path).unwrap().blocks() * 512;
            }
        }
    }
    occupied
}

#[test]
fn a_mount_reads_what_was_fetched_without_a_get() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let source = format!("{BUCKET}/d/");
    assert_eq!(
        warm(&server, cache.path(), &[&source]),
        (total(&objects), 0)
    );
    assert_eq!(gets(&server).1, total(&objects));
    check_warm(&server, cache.path(), &objects);
}

#[test]
fn a_second_run_fetches_nothing() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let uri = format!("s3://{BUCKET}/d");
    let parts = ["--read-part-size", "3000000"];
    let first = warm(&server, cache.path(), &[&[&*uri], &parts[..]].concat());
    assert_eq!(first, (total(&objects), 0));
    server.log().clear();
    let second = warm(&server, cache.path(), &[BUCKET, "--prefix", "d/"]);
    assert_eq!(second, (0, total(&objects)));
    assert_eq!(gets(&server), (0, 0));
    check_warm(&server, cache.path(), &objects);
}

#[test]
fn only_what_was_not_read_before_is_fetched() {
    use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let mount = mounted(&server, cache.path(), &["--prefix", "d/"]);
    server.log().clear();
    let file = fs::File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(mount.join("large"))
        .unwrap();
    for number in 0..20u64 {
        let offset = (number * 7 % 20) * 2 * MIB + 4096 * number;
        file.read_exact_at(&mut [0; 4096], offset).unwrap();
    }
    drop(file);
    assert!(mount.unmount().success());
    let read_bytes = gets(&server).1;
    let (fetched, present) = warm(&server, cache.path(), &[&format!("{BUCKET}/d/")]);
    assert_eq!(fetched + present, total(&objects));
    assert!(present > 0 && present <= read_bytes, "{present}");
    check_warm(&server, cache.path(), &objects);
}

#[test]
fn a_killed_run_is_gone_on_with() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let source = format!("{BUCKET}/d/");
    let hold = server.faults().add(Rule {
        key_prefix: "d/large".to_owned(),
        skip: 3,
        ..Rule::on(Operation::GetObject, Fault::Hold)
    });
    let mut run = command(&server, cache.path(), &[&source])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // The second part of the large object: the first one is recorded.
    wait_until("a part", || occupied(cache.path()) >= 18 * MIB);
    run.kill().unwrap();
    run.wait().unwrap();
    server.faults().remove(hold);
    gets(&server);
    server.log().clear();
    let (fetched, present) = warm(&server, cache.path(), &[&source]);
    assert_eq!(fetched + present, total(&objects));
    assert!(present > 0 && fetched > 0, "{fetched} {present}");
    assert_eq!(gets(&server).1, fetched);
    check_warm(&server, cache.path(), &objects);
}

#[test]
fn an_interrupted_run_tells_how_far_it_came() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let source = format!("{BUCKET}/d/large");
    // More than half a minute of it is left.
    let slow = [&*source, "--maximum-bandwidth", "1"];
    let mut run = command(&server, cache.path(), &slow);
    let mut run = run
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until("bytes", || occupied(cache.path()) > 0);
    kill(Pid::from_raw(run.id().cast_signed()), Signal::SIGINT).unwrap();
    assert_eq!(wait_for_exit(&mut run, PATIENCE).code(), Some(1));
    let output = run.wait_with_output().unwrap();
    let (stdout, stderr) = (
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    );
    assert!(stdout.starts_with("0 of 1 files found so far"), "{stdout}");
    assert!(stdout.contains("the next run fetches the rest"), "{stdout}");
    assert_eq!(stderr, "mount-s3 warm: interrupted\n");
    let (fetched, present) = warm(&server, cache.path(), &[&source]);
    assert_eq!(fetched + present, SIZE);
    assert!(present > 0 && fetched > 0, "{fetched} {present}");
    check_warm(&server, cache.path(), &objects[..1]);
}

#[test]
fn an_index_spares_listings_and_finds_objects_that_changed() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let index = cache.path().join("names.idx");
    let mut make = mount_s3();
    make.args(["index", BUCKET, "-o"]).arg(&index);
    make.args(["--endpoint-url", &server.url(), "--force-path-style"]);
    ends(&mut make, 0);
    server.store().put_synthetic(BUCKET, "d/large", SIZE, 99);
    server
        .store()
        .put_synthetic(BUCKET, "d/small/07.bin", 7, 99);
    assert!(server.store().delete(BUCKET, "d/small/09.bin"));
    server.log().clear();
    let source = format!("{BUCKET}/d/");
    let args = [&*source, "--index", index.to_str().unwrap()];
    let (stdout, stderr) = ends(&mut command(&server, cache.path(), &args), 1);
    let files = objects.len();
    let summary = format!("{} of {files} files of the bucket", files - 3);
    assert!(stdout.starts_with(&summary), "{stdout}");
    assert!(stdout.contains("3 could not be fetched"), "{stdout}");
    for (key, reason) in [
        ("large", "replaced"),
        ("small/07.bin", "replaced"),
        ("small/09.bin", "deleted"),
    ] {
        let line = format!("mount-s3 warm: d/{key}: it was {reason} before");
        let told = stderr.lines().filter(|it| it.starts_with(&line)).count();
        assert_eq!(told, 1, "{key}: {stderr}");
    }
    for operation in [Operation::ListObjectsV2, Operation::HeadObject] {
        assert_eq!(server.log().count(operation), 0, "{operation:?}");
    }
    // The object is another version now.
    let (fetched, present) = warm(&server, cache.path(), &[&source]);
    assert_eq!(
        (fetched, present),
        (SIZE + 7, total(&objects) - SIZE - 16_000)
    );
}

#[test]
fn keys_of_a_list_and_patterns() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let objects = put_objects(&server);
    let source = format!("{BUCKET}/d/");
    let mut run = command(&server, cache.path(), &[&source, "--files-from", "-"]);
    run.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut run = run.stderr(Stdio::piped()).spawn().unwrap();
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"small/01.bin\nno such\nlarge\n").unwrap();
    drop(stdin);
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(
        stderr,
        "mount-s3 warm: d/no such: there is no such object\n"
    );
    assert_eq!(
        server.log().count(Operation::ListObjectsV2),
        1,
        "the start's"
    );

    let patterns = [
        "--include",
        "*.bin",
        "--include",
        "large",
        "--exclude",
        "/small/*2.bin",
    ];
    let wanted =
        |path: &str| !path.ends_with("2.bin") && path.starts_with("small") || path == "large";
    let mut chosen = objects.clone();
    chosen.retain(|(path, ..)| wanted(path));
    let (fetched, present) = warm(
        &server,
        cache.path(),
        &[&[&*source], &patterns[..]].concat(),
    );
    assert_eq!(
        (fetched, present),
        (total(&chosen) - SIZE - 1000, SIZE + 1000)
    );
    check_warm(&server, cache.path(), &chosen);
}

#[test]
fn a_customers_key_belongs_to_the_store() {
    let server = server();
    let cache = TempDir::new().unwrap();
    let directory = TempDir::new().unwrap();
    let key = directory.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    let key = ["--sse-customer-key-file", key.to_str().unwrap()];
    let mount = Mounted::new(&server, &key);
    let content = synthetic_bytes(5, 0..100_000);
    fs::write(mount.join("secret"), &content).unwrap();
    assert!(mount.unmount().success());
    let fetched = warm(&server, cache.path(), &[&[BUCKET], &key[..]].concat());
    assert_eq!(fetched, (100_000, 0));
    server.log().clear();
    let with_key = mounted(&server, cache.path(), &key);
    assert!(read(&with_key.join("secret")) == content);
    assert_eq!(gets(&server).0, 0);
    let without = mounted(&server, cache.path(), &[]);
    assert!(read(&without.join("secret")) == content);
    assert_ne!(gets(&server).0, 0, "the cache needs no key");
}

#[test]
fn a_full_cache_ends_the_run() {
    let server = server();
    let objects = put_objects(&server);
    let cache = TempDir::new().unwrap();
    let source = format!("{BUCKET}/d/");
    let args = [&*source, "--max-cache-size", "20"];
    let (stdout, stderr) = ends(&mut command(&server, cache.path(), &args), 1);
    let count = stderr.matches("the cache has no room for more").count();
    assert_eq!(count, 1, "{stderr}");
    assert!(stdout.contains("found so far"), "{stdout}");
    let bytes = occupied(cache.path());
    assert!((1..=20 * MIB).contains(&bytes), "{bytes}");
    // The kept bytes are of use.
    let (fetched, present) = warm(&server, cache.path(), &[&source]);
    assert_eq!(fetched + present, total(&objects));
    assert!(present > 0, "{fetched} {present}");
}

#[test]
fn a_full_disk_ends_the_run() {
    let server = server();
    put_objects(&server);
    let disk = TempDir::new().unwrap();
    nix::mount::mount(
        Some("tmpfs"),
        disk.path(),
        Some("tmpfs"),
        nix::mount::MsFlags::empty(),
        Some("size=16m,mode=700"),
    )
    .unwrap();
    let run = command(&server, disk.path(), &[BUCKET]).output();
    nix::mount::umount(disk.path()).unwrap();
    let run = run.unwrap();
    let stderr = String::from_utf8(run.stderr).unwrap();
    assert_eq!(run.status.code(), Some(1), "{stderr}");
    assert!(
        stderr.contains("the cache has no room for more"),
        "{stderr}"
    );
}

#[test]
fn runs_that_cannot_begin() {
    let server = server();
    let place = TempDir::new().unwrap();
    let file = place.path().join("file");
    fs::write(&file, "x").unwrap();
    let cache = place.path().join("cache");
    let none = file.with_file_name("none");
    let none = none.to_str().unwrap();
    for (cache, args, code, reason) in [
        (&file, &[BUCKET][..], 1, "--cache"),
        (&cache, &["other-bucket"], 1, "other-bucket"),
        (
            &cache,
            &[BUCKET, "other"],
            1,
            "run the command once for each",
        ),
        (&cache, &[BUCKET, "--index", none], 1, "cannot use --index"),
        (&cache, &[BUCKET, "--files-from", none], 1, "--files-from"),
        (
            &cache,
            &[&format!("{BUCKET}/none/")],
            1,
            "the bucket has no object of this name",
        ),
        (&cache, &[], 2, "BUCKET"),
    ] {
        let (_, stderr) = ends(&mut command(&server, cache, args), code);
        assert!(stderr.contains(reason), "{reason}: {stderr}");
    }
}
