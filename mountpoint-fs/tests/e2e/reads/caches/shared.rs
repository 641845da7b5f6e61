//! Mounts that share a bucket of contents, on three servers: what one has read the others do not
//! ask the origin for.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use mountpoint_client::ObjectClient as _;
use mountpoint_client::testing::server::{
    Fault, Operation, Rule, Server, ServerOptions, synthetic_bytes,
};
use mountpoint_client::types::ListRequest;
use tempfile::TempDir;

use crate::harness::{
    BUCKET, CACHE_ROOM, Mounted, PATIENCE, client_of, mount_s3, put, server, wait_until,
};
use crate::servers::{self, Program};

const MIB: u64 = 1 << 20;

/// Object of the tests: five extents.
const SIZE: u64 = 40 * MIB + 12_345;

/// Small objects, an extent each.
const SMALL: u64 = 20;

/// A directory bucket, by its name.
const DIRECTORY_BUCKET: &str = "shared--usw2-az1--x-s3";

/// A server with a large object and small ones.
fn filled(server: Server) -> Server {
    server.store().create_bucket(BUCKET);
    server.store().put_synthetic(BUCKET, "large", SIZE, 1);
    for number in 0..SMALL {
        let bytes = synthetic_bytes(number, 0..30_000);
        put(&server, &format!("small/{number}"), bytes);
    }
    server
}

#[track_caller]
fn check_all(mounted: &Mounted) {
    let bytes = fs::read(mounted.join("large")).unwrap();
    assert!(bytes == synthetic_bytes(1, 0..SIZE), "large differs");
    for number in 0..SMALL {
        let bytes = fs::read(mounted.join(&format!("small/{number}"))).unwrap();
        let expected = synthetic_bytes(number, 0..30_000);
        assert!(bytes == expected, "small/{number} differs");
    }
}

/// GETs since the log was cleared.
fn gets(server: &Server) -> u64 {
    let log = server.log();
    let done = log.wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0);
    assert!(done, "GETs are in flight for ever");
    log.counters(Operation::GetObject).requests
}

/// The origin was asked for nothing but what the shared bucket was late with: a busy machine delays
/// some answer by a second. A bucket that is too slow here is left alone, and the log says so.
#[track_caller]
fn check_not_asked(origin: &Server, mounted: &Mounted) {
    let log = mounted.log();
    let late = log.matches("a GET is late: sent a second time").count() as u64;
    let asked = gets(origin);
    let is_slow = ["to answer; reads go to S3", "it is late; reads go to S3"]
        .iter()
        .any(|reason| log.contains(reason));
    assert!(asked == late || is_slow, "{asked} GETs, {late} late: {log}");
}

/// Reads all in one mount and, once it is `stored`, in another one.
fn share(mount: &dyn Fn() -> Mounted, origin: &Server, stored: &mut dyn FnMut() -> bool) {
    let first = mount();
    check_all(&first);
    wait_until("the last extent", stored);
    assert!(first.unmount().success());
    let second = mount();
    origin.log().clear();
    check_all(&second);
    check_not_asked(origin, &second);
    assert!(second.unmount().success());
}

/// Extents of all objects.
const EXTENTS: u64 = 5 + SMALL;

fn extents<'a>(keys: impl Iterator<Item = &'a str>) -> u64 {
    keys.filter(|key| key.contains("mount-s3-cache/v1/"))
        .map(|_| 1)
        .sum()
}

/// Shares a bucket of a server in another process. The origin takes the keys of that server.
fn share_on(program: &Program) {
    let origin = Server::start(ServerOptions {
        credentials: Some((
            servers::ACCESS_KEY.to_owned(),
            servers::SECRET_KEY.to_owned(),
        )),
        ..ServerOptions::default()
    });
    let origin = filled(origin.unwrap());
    let (runtime, client) = client_of(program);
    let mut stored = || {
        let list = client.list(ListRequest {
            prefix: "some/where/".to_owned(),
            ..ListRequest::default()
        });
        let listed = runtime.block_on(list).unwrap().objects;
        extents(listed.iter().map(|object| object.key.as_str())) == EXTENTS
    };
    let bucket = format!("s3://{}/some/where/", servers::BUCKET);
    let mount = || {
        let args = [
            "--debug",
            "--cache-bucket",
            &bucket,
            "--cache-endpoint-url",
            program.endpoint(),
        ];
        Mounted::with(&origin, &args, |command| {
            command
                .env("MOUNTPOINT_HEDGING", "false")
                .env("AWS_ACCESS_KEY_ID", servers::ACCESS_KEY)
                .env("AWS_SECRET_ACCESS_KEY", servers::SECRET_KEY);
        })
    };
    share(&mount, &origin, &mut stored);
}

#[test]
fn mounts_share_a_bucket_of_minio() {
    share_on(&Program::minio());
}

#[test]
fn mounts_share_a_bucket_of_versitygw() {
    share_on(&Program::versitygw());
}

/// Extents in the directory bucket of a server.
fn stored_in(server: &Server) -> u64 {
    let keys = server.store().keys(DIRECTORY_BUCKET);
    extents(keys.iter().map(String::as_str))
}

#[test]
fn mounts_share_a_directory_bucket() {
    let origin = filled(server());
    let shared = Server::start_with_bucket(DIRECTORY_BUCKET).unwrap();
    let url = shared.url();
    let args = ["--cache-xz", DIRECTORY_BUCKET, "--cache-endpoint-url", &url];
    let mount = || Mounted::unhedged(&origin, &[&args[..], &["--debug"]].concat());
    share(&mount, &origin, &mut || stored_in(&shared) == EXTENTS);

    // A disk is filled from the bucket, and is asked first then.
    let disk = TempDir::new().unwrap();
    let disk_args = ["--cache", disk.path().to_str().unwrap()];
    let both = [&args[..], &disk_args, &CACHE_ROOM].concat();
    for is_filled in [false, true] {
        shared.log().clear();
        origin.log().clear();
        let mounted = Mounted::unhedged(&origin, &both);
        check_all(&mounted);
        assert!(mounted.unmount().success());
        assert_eq!(gets(&origin), 0);
        assert_eq!(gets(&shared) == 0, is_filled);
    }
}

#[test]
fn a_shared_bucket_that_dies_while_it_is_read_costs_no_read() {
    let origin = filled(server());
    let shared = Server::start_with_bucket(DIRECTORY_BUCKET).unwrap();
    let url = shared.url();
    let args = ["--cache-xz", DIRECTORY_BUCKET, "--cache-endpoint-url", &url];
    let mounted = Mounted::unhedged(&origin, &args);
    check_all(&mounted);
    wait_until("the last extent", || stored_in(&shared) == EXTENTS);
    assert!(mounted.unmount().success());

    let mounted = Mounted::unhedged(&origin, &args);
    origin.log().clear();
    let file = File::open(mounted.join("large")).unwrap();
    let mut bytes = vec![0; 1 << 20];
    file.read_exact_at(&mut bytes, 0).unwrap();
    assert!(bytes == synthetic_bytes(1, 0..MIB));
    drop((shared, file));
    check_all(&mounted);
    assert!(gets(&origin) > 0);
    assert!(mounted.log().contains("the shared cache is not used for"));
    assert!(mounted.unmount().success());
}

/// Versions of one object among mounts that run at the same time.
#[test]
fn mounts_at_the_same_time_share_each_version() {
    let origin = filled(server());
    let shared = Server::start_with_bucket(DIRECTORY_BUCKET).unwrap();
    let url = shared.url();
    let args = ["--cache-xz", DIRECTORY_BUCKET, "--cache-endpoint-url", &url];
    let mount = || Mounted::unhedged(&origin, &[&args[..], &["--debug"]].concat());
    let (first, second) = (mount(), mount());
    check_all(&first);
    wait_until("the last extent", || stored_in(&shared) == EXTENTS);
    origin.log().clear();

    // The second one has the file open while the object is replaced: it reads the old version.
    let file = File::open(second.join("large")).unwrap();
    let mut bytes = vec![0; usize::try_from(SIZE).unwrap()];
    let (front, rest) = bytes.split_at_mut(1 << 20);
    file.read_exact_at(front, 0).unwrap();
    origin.store().put_synthetic(BUCKET, "large", SIZE, 2);
    file.read_exact_at(rest, MIB).unwrap();
    drop(file);
    assert!(bytes == synthetic_bytes(1, 0..SIZE), "not the open version");
    check_not_asked(&origin, &second);

    // Another mount finds the bytes of the new version that one mount reads.
    let large = |mounted: &Mounted| {
        let bytes = fs::read(mounted.join("large")).unwrap();
        assert!(bytes == synthetic_bytes(2, 0..SIZE), "not the new version");
    };
    let (third, fourth) = (mount(), mount());
    large(&third);
    assert!(gets(&origin) > 0);
    wait_until("the new version", || stored_in(&shared) == EXTENTS + 5);
    origin.log().clear();
    large(&fourth);
    check_not_asked(&origin, &fourth);
    for mounted in [first, second, third, fourth] {
        assert!(mounted.unmount().success());
    }
}

#[test]
fn a_shared_bucket_that_is_silent_costs_neither_a_mount_nor_a_read() {
    let origin = filled(server());
    let shared = Server::start_with_bucket(DIRECTORY_BUCKET).unwrap();
    shared.faults().add(Rule::always(Fault::BlackHole));
    let url = shared.url();
    let args = ["--cache-xz", DIRECTORY_BUCKET, "--cache-endpoint-url", &url];
    let mounted = Mounted::unhedged(&origin, &args);
    check_all(&mounted);
    let log = mounted.log();
    assert!(log.contains("did not answer within"), "{log}");
    assert!(log.contains("the shared cache is not used for"), "{log}");
    assert!(mounted.unmount().success());
}

/// The log of a mount whose shared cache cannot be used.
#[track_caller]
fn check_refused(server: &Server, args: &[&str], texts: &[&str]) {
    let directory = TempDir::new().unwrap();
    let output = mount_s3()
        .args([BUCKET, directory.path().to_str().unwrap()])
        .args(["--endpoint-url", &server.url(), "--force-path-style"])
        .args(args)
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    for text in texts {
        assert!(stderr.contains(text), "{args:?}: {text}: {stderr}");
    }
}

#[test]
fn a_shared_bucket_that_cannot_be_used_is_told_at_the_start() {
    let server = server();
    check_refused(
        &server,
        &["--cache-bucket", "missing"],
        &["--cache-bucket: bucket 'missing' does not exist"],
    );
    check_refused(
        &server,
        &["--cache-bucket", BUCKET],
        &["--cache-bucket lies within what is mounted"],
    );
    server.store().create_bucket("shared");
    for operation in [Operation::HeadObject, Operation::PutObject] {
        let fault = Fault::Error {
            status: 403,
            code: "AccessDenied",
        };
        let rule = server.faults().add(Rule::on(operation, fault));
        check_refused(
            &server,
            &["--cache-bucket", "s3://shared/p/"],
            &[
                "no permission",
                "bucket 'shared'",
                "s3:PutObject",
                "s3:ListBucket",
            ],
        );
        server.faults().remove(rule);
    }
    // The doctor says so as well, and changes nothing unless it is asked to.
    let doctor = |args: &[&str]| {
        let output = mount_s3()
            .args(["doctor", BUCKET, "--endpoint-url", &server.url()])
            .args(["--force-path-style", "--cache-bucket"])
            .args(args)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(doctor(&["missing", "--check-writes"]).contains("bucket 'missing' does not exist"));
    assert!(doctor(&["shared"]).contains("the bucket 'shared' can be read;"));
    assert!(server.store().keys("shared").is_empty());
    assert!(doctor(&["shared", "--check-writes"]).contains("can be read and written"));
}

#[test]
fn a_shared_cache_in_the_mounted_bucket_is_found_under_another_name_of_it() {
    const ALIAS: &str = "data-1a2b3c-s3alias";
    const INSIDE: &str = "is the mounted one under another name";
    let server = server();
    assert!(server.store().add_bucket_name(BUCKET, ALIAS));
    let doctor = |more: &[&str]| {
        let output = mount_s3()
            .args(["doctor", BUCKET, "--endpoint-url", &server.url()])
            .args(["--force-path-style", "--cache-bucket", ALIAS])
            .args(more)
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.code(), report)
    };
    // Nothing tells yet, and the doctor changes nothing unless it is asked to.
    let (_, report) = doctor(&[]);
    assert!(report.contains("can be read;"), "{report}");
    let (code, report) = doctor(&["--check-writes"]);
    assert!(code == Some(1) && report.contains(INSIDE), "{report}");
    check_refused(
        &server,
        &["--cache-bucket", ALIAS],
        &[INSIDE, "its files would show the cache"],
    );
    let (code, report) = doctor(&[]);
    assert!(code == Some(1) && report.contains(INSIDE), "{report}");
    // Another prefix of the same bucket is outside.
    let (_, report) = doctor(&["--prefix", "data/"]);
    assert!(report.contains("can be read;"), "{report}");
}
