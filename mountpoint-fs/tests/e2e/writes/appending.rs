//! Appending: PutObject at the object's end on a directory bucket. Two mounts, and kills, on both
//! bucket kinds.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;

use mountpoint_client::testing::server::{
    Fault, Operation, RequestRecord, Rule, Server, ServerOptions,
};
use nix::sys::signal::Signal;

use crate::fault_loop::{every_fault_at_every_request, faults_of_writes};
use crate::harness::{
    self, Mounted, create_to_write, mount_s3, read, run, shell, wait_until, write_and_close,
};

const BUCKET: &str = "appended--usw2-az1--x-s3";

const MIB: usize = 1 << 20;

fn server_with(options: ServerOptions) -> Server {
    let server = Server::start(options).unwrap();
    server.store().create_bucket(BUCKET);
    server.store().create_bucket(harness::BUCKET);
    server
}

fn server() -> Server {
    server_with(ServerOptions::default())
}

fn mount(server: &Server, args: &[&str]) -> Mounted {
    mount_of(server, BUCKET, args)
}

fn mount_of(server: &Server, bucket: &str, args: &[&str]) -> Mounted {
    let mut command = mount_s3();
    command.args([bucket, "--endpoint-url", &server.url()]);
    // In bytes: 5 MiB.
    command.args(["--write-part-size", "5242880"]);
    Mounted::start({
        command.args(args);
        command
    })
}

fn content(server: &Server, key: &str) -> Option<Vec<u8>> {
    Some(server.store().object(BUCKET, key)?.bytes().to_vec())
}

/// The write offset of each append, in the order of the requests. `None` for a request that created
/// the object.
fn offsets(records: &[RequestRecord]) -> Vec<Option<u64>> {
    let puts = records
        .iter()
        .filter(|it| it.operation == Operation::PutObject);
    puts.map(|put| {
        let offset = put.setting("x-amz-write-offset-bytes")?;
        Some(offset.parse().unwrap())
    })
    .collect()
}

fn bytes(len: usize) -> Vec<u8> {
    let pattern: Vec<u8> = (0..251).collect();
    let mut bytes = pattern.repeat(len / pattern.len() + 1);
    bytes.truncate(len);
    bytes
}

#[test]
fn what_is_appended_is_sent_and_nothing_else() {
    for flag in ["--incremental-upload", "--allow-append"] {
        let server = server();
        let mounted = mount(&server, &[flag]);
        shell(mounted.path(), "printf 'one ' > log");
        server.log().clear();
        shell(mounted.path(), "printf 'two ' >> log");
        let records = server.log().take();
        assert_eq!(offsets(&records), [Some(4)], "{flag}");
        let sent: Vec<_> = records.iter().map(|record| record.operation).collect();
        assert!(!sent.contains(&Operation::GetObject), "{flag}: {sent:?}");
        assert!(sent.len() <= 5, "{flag}: {sent:?}");
        shell(
            mounted.path(),
            "for i in 1 2 3 4; do printf $i >> log; done",
        );
        assert_eq!(
            shell(mounted.path(), "cat log"),
            "one two 1234",
            "what was appended is read"
        );
        assert_eq!(content(&server, "log").unwrap(), b"one two 1234");
        // An empty file, a new one, and one that is opened without an append.
        shell(
            mounted.path(),
            "> empty; printf a >> empty; printf b >> empty; printf c >> new; : >> log",
        );
        assert_eq!(content(&server, "empty").unwrap(), b"ab");
        assert_eq!(content(&server, "new").unwrap(), b"c");
        assert_eq!(content(&server, "log").unwrap(), b"one two 1234");
        assert!(mounted.unmount().success());
    }
}

#[test]
fn a_large_file_grows_in_the_bucket_and_fsync_is_durable() {
    let server = server();
    let mounted = mount(&server, &["--incremental-upload"]);
    let data = bytes(21 * MIB);
    let mut file = create_to_write(mounted.join("large")).unwrap();
    file.write_all(&data[..12 * MIB]).unwrap();
    wait_until("two parts", || {
        content(&server, "large").is_some_and(|it| it.len() == 10 * MIB)
    });
    assert!(content(&server, "large").unwrap() == data[..10 * MIB]);
    // Synchronised bytes are in the bucket.
    file.sync_all().unwrap();
    assert!(content(&server, "large").unwrap() == data[..12 * MIB]);
    // A reader that opens the file then follows it from part to part.
    let follower = File::open(mounted.join("large")).unwrap();
    let followed = |from: usize, len: usize| {
        let mut read = vec![0; len];
        let offset = u64::try_from(from).unwrap();
        follower.read_exact_at(&mut read, offset).unwrap();
        assert!(read == data[from..from + len], "{from} {len}");
    };
    followed(11 * MIB, MIB);
    file.write_all(&data[12 * MIB..]).unwrap();
    wait_until("the next part", || {
        content(&server, "large").is_some_and(|it| it.len() == 20 * MIB)
    });
    followed(3 * MIB, MIB);
    followed(19 * MIB, MIB);
    // The mount is killed: synchronised bytes are in the bucket, and of later ones a prefix.
    let directory = mounted.path().to_owned();
    mounted.signal(Signal::SIGKILL);
    run("umount", &["-l", directory.to_str().unwrap()]);
    drop(file);
    assert!(content(&server, "large").unwrap() == data[..20 * MIB]);
    assert!(server.store().uploads(BUCKET).is_empty());
    // The next mount continues at the end of the object.
    let mounted = mount(&server, &["--incremental-upload"]);
    server.log().clear();
    let mut file = OpenOptions::new()
        .append(true)
        .open(mounted.join("large"))
        .unwrap();
    file.write_all(&data[20 * MIB..]).unwrap();
    drop(file);
    assert!(read(&mounted.join("large")) == data);
    assert_eq!(offsets(&server.log().take()), [Some(20 << 20)]);
}

/// The appends take three forms. By the server, by a PUT of the whole object, by a copy into an
/// upload.
#[test]
fn two_mounts_that_append_lose_nothing() {
    for (bucket, flag, len) in [
        (BUCKET, "--incremental-upload", 1),
        (harness::BUCKET, "--allow-append", 1),
        (harness::BUCKET, "--allow-append", 5 * MIB),
    ] {
        let server = server();
        let [one, two] = [(); 2].map(|()| mount_of(&server, bucket, &[flag]));
        server.store().put(bucket, "log", bytes(len));
        let appended = || {
            let content = server.store().object(bucket, "log").unwrap().bytes();
            assert!(content[..len] == bytes(len), "{bucket} {len}");
            String::from_utf8(content[len..].to_vec()).unwrap()
        };
        let open = |mounted: &Mounted| {
            let path = mounted.join("log");
            OpenOptions::new().append(true).open(path)
        };
        // Both mounts have opened one version: the second writer gets an error, and the first one's
        // bytes stay.
        let (mut first, mut second) = (open(&one).unwrap(), open(&two).unwrap());
        first.write_all(b"1").unwrap();
        second.write_all(b"2").unwrap();
        first.sync_all().unwrap();
        let refused = second.sync_all().unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::ESTALE), "{bucket} {len}");
        drop((first, second));
        assert_eq!(appended(), "1");
        // A writer that retries until it succeeds appends every line once.
        let lines = |mounted: &Mounted, name: &str| {
            for number in 0..5 {
                let line = format!("{name}{number}\n");
                let attempt = || -> io::Result<()> {
                    let mut file = open(mounted)?;
                    file.write_all(line.as_bytes())?;
                    nix::unistd::close(file).map_err(io::Error::from)
                };
                wait_until("a turn", || attempt().is_ok());
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| lines(&one, "a"));
            scope.spawn(|| lines(&two, "b"));
        });
        let all = appended();
        let mut found: Vec<_> = all.strip_prefix("1").unwrap().lines().collect();
        let of_one: Vec<_> = found.iter().filter(|it| it.starts_with('a')).collect();
        assert!(of_one.is_sorted(), "{all}");
        found.sort_unstable();
        let expected = ["a", "b"].map(|name| (0..5).map(move |number| format!("{name}{number}")));
        let expected: Vec<_> = expected.into_iter().flatten().collect();
        assert_eq!(found, expected, "{bucket} {len}");
        assert!(server.store().uploads(bucket).is_empty());
    }
}

/// The mount is killed while an append request hangs.
///
/// The object is unchanged, and the next mount leaves no upload.
#[test]
fn a_mount_that_is_killed_while_it_appends_loses_nothing() {
    use Operation::{CompleteMultipartUpload, PutObject, UploadPart, UploadPartCopy};
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let state = ["--state-directory", state.path().to_str().unwrap()];
    for (bucket, flag, len, stuck) in [
        (BUCKET, "--incremental-upload", 7, PutObject),
        (BUCKET, "--incremental-upload", 6 * MIB, PutObject),
        (harness::BUCKET, "--allow-append", 7, PutObject),
        (harness::BUCKET, "--allow-append", 6 * MIB, UploadPartCopy),
        (harness::BUCKET, "--allow-append", 6 * MIB, UploadPart),
        (
            harness::BUCKET,
            "--allow-append",
            6 * MIB,
            CompleteMultipartUpload,
        ),
    ] {
        let case = format!("{bucket} {len} {stuck:?}");
        let args = [&state[..], &[flag]].concat();
        server.store().put(bucket, "log", bytes(len));
        let mounted = mount_of(&server, bucket, &args);
        // The first file of a mount proves the permission to write by an upload.
        std::fs::write(mounted.join("first"), "x").unwrap();
        assert!(server.store().delete(bucket, "first"));
        server.log().clear();
        let rule = server.faults().add(Rule::on(stuck, Fault::BlackHole));
        let path = mounted.join("log");
        let mut file = OpenOptions::new().append(true).open(path).unwrap();
        let directory = mounted.path().to_owned();
        std::thread::scope(|scope| {
            // The write waits if it is the mount's first one that needs a copy of the existing
            // bytes.
            let closing =
                scope.spawn(move || file.write_all(b"new").and_then(|()| file.sync_all()));
            wait_until("the request", || server.log().counters(stuck).requests > 0);
            mounted.signal(Signal::SIGKILL);
            assert!(closing.join().unwrap().is_err(), "{case}");
        });
        run("umount", &["-l", directory.to_str().unwrap()]);
        server.faults().remove(rule);
        let content = || server.store().object(bucket, "log").unwrap().bytes();
        assert!(content() == bytes(len), "{case}");
        let mounted = mount_of(&server, bucket, &args);
        wait_until("the abort of what was left", || {
            server.store().uploads(bucket).is_empty()
        });
        shell(mounted.path(), "printf new >> log");
        let expected = [&bytes(len)[..], b"new"].concat();
        assert!(content() == expected, "{case}");
    }
}

#[test]
fn an_object_of_ten_thousand_parts_is_renewed() {
    let server = server_with(ServerOptions {
        append_parts_max: 5,
        ..ServerOptions::default()
    });
    let mounted = mount(&server, &["--incremental-upload"]);
    shell(
        mounted.path(),
        "for i in 1 2 3 4 5 6 7 8 9; do printf $i >> log; done",
    );
    assert_eq!(content(&server, "log").unwrap(), b"123456789");
    // One part, and four that are appended to it; before the first copy, a trial of the server.
    assert_eq!(server.log().count(Operation::CopyObject), 1 + 1);
}

/// The append, and the size of the object before it.
#[derive(Clone, Copy, Debug)]
enum Workload {
    New,
    Small,
    Large,
}

impl Workload {
    fn before(self) -> usize {
        match self {
            Self::New => 0,
            Self::Small => 7,
            Self::Large => 5 * MIB + 3,
        }
    }

    fn after(self) -> usize {
        match self {
            Self::Small => 20,
            Self::New | Self::Large => self.before() + 6 * MIB,
        }
    }

    fn run(self, mounted: &Mounted, key: &str) -> io::Result<()> {
        let path = mounted.join(key);
        let file = match self {
            Self::New => create_to_write(&path)?,
            Self::Small | Self::Large => OpenOptions::new().append(true).open(&path)?,
        };
        write_and_close(file, &bytes(self.after())[self.before()..])
    }
}

#[test]
fn every_fault_at_every_request_of_an_append_is_told_or_overcome() {
    let server = server();
    let mounted = mount(&server, &["--incremental-upload"]);
    let mut cases = 0;
    for workload in [Workload::New, Workload::Small, Workload::Large] {
        let (before, after) = (workload.before(), bytes(workload.after()));
        let mut faults = faults_of_writes();
        let error = |status, code| Fault::Error { status, code };
        faults.push((error(400, "InvalidWriteOffset"), Some(1), false));
        faults.push((error(403, "AccessDenied"), Some(1), false));
        faults.push((Fault::CutBody(0), Some(1), false));
        // Nothing tells whose appended bytes are.
        for (fault, _, is_overcome) in &mut faults {
            let loses_answer = matches!(
                fault,
                Fault::ErrorAfterwards { .. }
                    | Fault::PageAfterwards(_)
                    | Fault::DropConnectionAfterwards
            );
            *is_overcome &= !loses_answer;
        }
        let run = |key: &str| {
            if before > 0 {
                server.store().put(BUCKET, key, after[..before].to_vec());
            }
            workload.run(&mounted, key)
        };
        let name = format!("{workload:?}");
        cases += every_fault_at_every_request(&server, &name, faults, run, |key, is_ok, case| {
            let found = content(&server, key).unwrap_or_default();
            assert!(found.len() >= before, "{case}: something is lost");
            assert!(after.starts_with(&found), "{case}: it is no beginning");
            assert!(!is_ok || found.len() == after.len(), "{case}");
            server.store().delete(BUCKET, key);
        });
    }
    assert!(cases > 60, "{cases} cases are not all");
    // S3 has refused to abort the upload.
    for (key, _) in server.store().uploads(BUCKET) {
        let named = format!("AbortMultipartUpload s3://{BUCKET}/{key}: ");
        let log = mounted.log();
        let is_named = |line: &str| line.contains("stays in the bucket") && line.contains(&named);
        assert!(log.lines().any(is_named), "{key} stays in silence");
    }
}

/// A server that is slow, throttles and disappears stores every line once.
#[test]
fn a_server_that_stumbles_has_every_line_once() {
    let server = server();
    let mounted = mount(&server, &["--incremental-upload"]);
    for (fault, probability) in [
        (Fault::SlowDown, 0.2),
        (Fault::DropConnection, 0.1),
        (Fault::DropConnectionAfterwards, 0.2),
    ] {
        server.faults().add(Rule {
            probability,
            seed: 7,
            ..Rule::on(Operation::PutObject, fault)
        });
    }
    let mut file = create_to_write(mounted.join("log")).unwrap();
    let mut expected = Vec::new();
    for number in 0..40 {
        let line = format!("line {number}\n");
        file.write_all(line.as_bytes()).unwrap();
        expected.extend_from_slice(line.as_bytes());
        file.sync_all().unwrap();
        assert!(content(&server, "log").unwrap() == expected, "{number}");
    }
}
