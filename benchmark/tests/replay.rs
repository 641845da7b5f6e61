//! The benchmark reads the ranges again that `mount-s3 trace` wrote of a mount.
//!
//! Needs root and `/dev/fuse`, and the binary of `mount-s3`, which `--workspace` builds.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use mountpoint_client::testing::server::{Server, ServerOptions};
use nix::fcntl::OFlag;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

const BUCKET: &str = "recorded";
const SIZE: u64 = 3_000_000;

/// The product, beside the benchmark.
fn mount_s3() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_benchmark")).with_file_name("mount-s3");
    let mut command = Command::new(program);
    command
        .env("AWS_ACCESS_KEY_ID", "id")
        .env("AWS_SECRET_ACCESS_KEY", "key");
    command
        .env("AWS_EC2_METADATA_DISABLED", "true")
        .stdin(Stdio::null());
    command
}

/// A mount, until it is dropped.
struct Mount(tempfile::TempDir);

impl Mount {
    fn of(server: &Server) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let mut command = mount_s3();
        command.arg(BUCKET).arg(directory.path());
        command.args(["--endpoint-url", &server.url(), "--force-path-style"]);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        Self(directory)
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg("-l").arg(self.0.path()).status();
        assert!(unmounted.unwrap().success());
    }
}

/// A trace that runs.
struct Trace {
    process: Child,
    file: PathBuf,
}

impl Trace {
    fn begin(mount: &Mount, file: &Path) -> Self {
        let mut command = mount_s3();
        command.arg("trace").arg(mount.0.path()).arg("-o").arg(file);
        let process = command.args(["--seconds", "600"]).spawn().unwrap();
        // The file is made when the mount has said that it records.
        while !file.exists() {
            thread::sleep(Duration::from_millis(1));
        }
        Self {
            process,
            file: file.to_owned(),
        }
    }

    fn end(mut self) -> String {
        let pid = Pid::from_raw(self.process.id().try_into().unwrap());
        kill(pid, Signal::SIGINT).unwrap();
        assert!(self.process.wait().unwrap().success());
        fs::read_to_string(&self.file).unwrap()
    }
}

/// How often each range of each file was read.
fn ranges(trace: &str) -> BTreeMap<(String, u64, u64), usize> {
    let trace: Value = serde_json::from_str(trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let mut ranges = BTreeMap::new();
    for read in events.filter(|event| event["cat"] == "kernel" && event["name"] == "READ") {
        let read = &read["args"];
        let name = read["key"].as_str().unwrap().to_owned();
        let (offset, len) = (read["offset"].as_u64(), read["length"].as_u64());
        *ranges
            .entry((name, offset.unwrap(), len.unwrap()))
            .or_default() += 1;
    }
    ranges
}

fn direct(path: &Path) -> File {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_DIRECT.bits());
    options.open(path).unwrap()
}

/// Random ranges by two threads on one descriptor, another file from a descriptor of its own, and
/// one through the page cache.
fn work(root: &Path) {
    let shared = direct(&root.join("a/one"));
    thread::scope(|scope| {
        for thread in 0..2_u64 {
            let shared = &shared;
            scope.spawn(move || {
                for turn in 0..20_u64 {
                    let offset = (turn * 7919 + thread * 104_729) * 61 % (SIZE - 4096);
                    shared.read_exact_at(&mut [0; 4096], offset).unwrap();
                }
            });
        }
        scope.spawn(|| {
            let own = direct(&root.join("b/two"));
            own.read_exact_at(&mut vec![0; 1 << 20], 12_345).unwrap();
        });
    });
    let mut whole = Vec::new();
    let read = File::open(root.join("a/three"))
        .unwrap()
        .read_to_end(&mut whole);
    assert_eq!(read.unwrap() as u64, SIZE);
}

#[test]
fn a_trace_is_replayed_as_the_same_ranges() {
    let server = Server::start(ServerOptions::default()).unwrap();
    server.store().create_bucket(BUCKET);
    for (name, seed) in [("a/one", 1), ("b/two", 2), ("a/three", 3)] {
        server.store().put_synthetic(BUCKET, name, SIZE, seed);
    }
    let directory = tempfile::tempdir().unwrap();
    let (first, second) = (directory.path().join("1"), directory.path().join("2"));
    let mount = Mount::of(&server);
    let record = Trace::begin(&mount, &first);
    work(mount.0.path());
    let recorded = record.end();
    // On a fresh mount, with another record of the replay.
    drop(mount);
    let mount = Mount::of(&server);
    for pace in ["fast", "recorded"] {
        fs::remove_file(&second).ok();
        let record = Trace::begin(&mount, &second);
        let mut replay = Command::new(env!("CARGO_BIN_EXE_benchmark"));
        replay.arg("replay").arg(&first).arg(mount.0.path());
        let output = replay.args(["--pace", pace]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let replayed = record.end();
        let (expected, found) = (ranges(&recorded), ranges(&replayed));
        assert!(expected.len() > 40, "{expected:?}");
        // The kernel asks for whole pages, the replay for the bytes of the file.
        let clipped = |ranges: BTreeMap<(String, u64, u64), usize>| {
            let clip = |((name, offset, len), count): ((String, u64, u64), usize)| {
                ((name, offset, len.min(SIZE - offset)), count)
            };
            ranges.into_iter().map(clip).collect::<BTreeMap<_, _>>()
        };
        assert_eq!(clipped(expected), clipped(found), "{pace}");
    }
}

#[test]
fn what_is_no_trace_is_said() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("record");
    fs::write(&file, "{}\n").unwrap();
    let run = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_benchmark"));
        let output = command.args(arguments).output().unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let path = file.to_str().unwrap();
    let error = run(&["--replay", path]);
    assert!(error.contains("no file of mount-s3 trace"), "{error}");
    let error = run(&["--workload", "replay"]);
    assert!(error.contains("needs --replay FILE"), "{error}");
    let error = run(&["--replay-pace", "fast"]);
    assert!(error.contains("--replay"), "{error}");
}
