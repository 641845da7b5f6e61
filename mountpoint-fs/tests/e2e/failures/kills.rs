//! The mount's process is killed at each request that changes an object.
//!
//! The kill comes before the server has done the request, and after. Then the object is old or new
//! as a whole, or on a directory bucket a longer prefix of the new one; the next mount aborts
//! unfinished uploads, touches no other client's, and completes an equal piece of work.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, ServerOptions};
use nix::sys::signal::Signal;

use crate::harness::{
    self, Mounted, PATIENCE, create_to_write, mount_s3, read, run, wait_until, write_and_close,
};

const MIB: usize = 1 << 20;
const GENERAL: &str = harness::BUCKET;
const DIRECTORY: &str = "killed--usw2-az1--x-s3";

/// The key of another client's upload.
const OTHERS: &str = "others";

/// A change of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// The file is opened without `O_TRUNC`, cut to nothing, and written.
    CutLate,
    /// The file is opened without `O_TRUNC` or `O_APPEND`, and written at its end.
    WriteLate,
    /// `O_APPEND`, to so many bytes.
    Append(usize),
    /// `copy_file_range` of another file into a new one, and a few bytes.
    Copy,
    /// The file is synchronised, and written further.
    GoOn,
    Touch,
}

impl Work {
    fn before(self) -> Option<Vec<u8>> {
        match self {
            Self::CutLate | Self::WriteLate | Self::Touch => Some(vec![1; 6 * MIB]),
            Self::Append(len) => Some(vec![1; len]),
            Self::Copy | Self::GoOn => None,
        }
    }

    /// The synchronised content, which the file may have in between.
    fn between(self) -> Option<Vec<u8>> {
        (self == Self::GoOn).then(|| vec![2; 6 * MIB])
    }

    fn after(self) -> Vec<u8> {
        match self {
            Self::CutLate => vec![2; 7 * MIB],
            Self::WriteLate => [vec![1; 6 * MIB], vec![2; 6 * MIB]].concat(),
            Self::Append(len) => [vec![1; len], vec![2; 6 * MIB]].concat(),
            Self::Copy => [vec![3; 11 * MIB], vec![2; 9]].concat(),
            Self::GoOn => vec![2; 7 * MIB],
            Self::Touch => vec![1; 6 * MIB],
        }
    }

    fn run(self, directory: &Path, key: &str) -> io::Result<()> {
        let path = directory.join(key);
        let old = || OpenOptions::new().write(true).open(&path);
        match self {
            Self::CutLate => {
                let file = old()?;
                file.set_len(0)?;
                write_and_close(file, &self.after())
            }
            Self::WriteLate => {
                let mut file = old()?;
                let end = file.seek(SeekFrom::End(0))?;
                assert_eq!(end, 6 << 20);
                write_and_close(file, &[2; 6 * MIB])
            }
            Self::Append(_) => {
                let file = OpenOptions::new().append(true).open(&path)?;
                write_and_close(file, &[2; 6 * MIB])
            }
            Self::Copy => {
                let mut source = File::open(directory.join("source"))?;
                let mut file = File::create(&path)?;
                io::copy(&mut source, &mut file)?;
                write_and_close(file, &[2; 9])
            }
            Self::GoOn => {
                let mut file = File::create(&path)?;
                file.write_all(&self.after()[..6 * MIB])?;
                file.sync_all()?;
                write_and_close(file, &self.after()[6 * MIB..])
            }
            Self::Touch => {
                let touched = run("touch", &[path.to_str().unwrap()]);
                let refused = || io::Error::other(format!("{touched:?}"));
                touched.status.success().then_some(()).ok_or_else(refused)
            }
        }
    }
}

use Operation::{
    CompleteMultipartUpload, CopyObject, CreateMultipartUpload, PutObject, UploadPart,
    UploadPartCopy,
};

/// The requests of each change that modify the bucket, on either kind of bucket.
const WORKS: [(&str, Work, &[Operation]); 12] = [
    (GENERAL, Work::CutLate, UPLOAD),
    (GENERAL, Work::WriteLate, COPYING_UPLOAD),
    (GENERAL, Work::Append(7), UPLOAD),
    (GENERAL, Work::Append(6 * MIB), COPYING_UPLOAD),
    (GENERAL, Work::Copy, COPYING_UPLOAD),
    (GENERAL, Work::GoOn, &[UploadPartCopy]),
    (GENERAL, Work::Touch, &[CopyObject]),
    (DIRECTORY, Work::CutLate, UPLOAD),
    (DIRECTORY, Work::WriteLate, &[PutObject]),
    (DIRECTORY, Work::Append(7), &[PutObject]),
    (DIRECTORY, Work::Copy, COPYING_UPLOAD),
    (DIRECTORY, Work::GoOn, &[PutObject]),
];
const UPLOAD: &[Operation] = &[CreateMultipartUpload, UploadPart, CompleteMultipartUpload];
const COPYING_UPLOAD: &[Operation] = &[UploadPartCopy, UploadPart, CompleteMultipartUpload];

/// The moment of the kill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    /// The server has not begun the first such request.
    Before,
    /// The server has done the request, its answer is lost, and the process retries.
    After,
    /// As `Before`, of the second such request.
    BeforeSecond,
}

const WHENS: [When; 3] = [When::Before, When::After, When::BeforeSecond];

impl When {
    /// Whether the moment makes a difference for this request, which may occur only once.
    fn can_be(self, operation: Operation) -> bool {
        self != Self::BeforeSecond || matches!(operation, UploadPart | PutObject)
    }

    /// Whether the request exists. Behind a server-side copy only a few bytes are sent: one part.
    /// So are the bytes behind an object that ends within a part.
    fn strikes(self, work: Work, operation: Operation) -> bool {
        let one = [
            (Work::Copy, UploadPart),
            (Work::WriteLate, PutObject),
            (Work::Append(7), PutObject),
        ];
        self != Self::BeforeSecond || !one.contains(&(work, operation))
    }
}

fn mount(server: &Server, bucket: &str, state: &Path) -> Mounted {
    let mut command = mount_s3();
    command.args([bucket, "--endpoint-url", &server.url()]);
    // In bytes: 5 MiB.
    command.args(["--write-part-size", "5242880", "--allow-overwrite"]);
    command.args(["--state-directory", state.to_str().unwrap()]);
    command.arg(if bucket == DIRECTORY {
        "--incremental-upload"
    } else {
        "--allow-append"
    });
    Mounted::start(command)
}

#[test]
fn a_kill_at_each_request_loses_nothing_and_leaves_nothing() {
    let server = Server::start(ServerOptions::default()).unwrap();
    for bucket in [GENERAL, DIRECTORY] {
        let state = tempfile::tempdir().unwrap();
        server.store().create_bucket(bucket);
        server.store().put(bucket, "source", vec![3; 11 * MIB]);
        // An upload of another client, which has no journal here.
        let others = leave_an_upload(&server, bucket);
        let mut mounted = mount(&server, bucket, state.path());
        for (_, work, operations) in WORKS.iter().filter(|(of, ..)| *of == bucket) {
            for operation in *operations {
                for when in WHENS.iter().filter(|when| when.can_be(*operation)) {
                    let when = *when;
                    let key = format!("{work:?}-{operation:?}-{when:?}").replace(['(', ')'], "-");
                    let killed =
                        kill_during(&server, bucket, mounted, (*work, *operation, when), &key);
                    assert_eq!(killed, when.strikes(*work, *operation), "{key}");
                    let check = |what| check(&server, bucket, *work, &key, what);
                    check("killed");
                    mounted = mount(&server, bucket, state.path());
                    // No process knows the id of an upload whose creation was not answered.
                    let is_unknown = (*operation, when) == (CreateMultipartUpload, When::After);
                    wait_until("the abort of what was left", || {
                        let left = server.store().uploads(bucket);
                        left.iter().filter(|(of, _)| *of == key).count() <= usize::from(is_unknown)
                    });
                    let left = server.store().uploads(bucket);
                    assert!(left.contains(&others), "{key}: another's upload is gone");
                    check("mounted again");
                    // The current object can be read, and the work be done again.
                    if let Some(object) = server.store().object(bucket, &key) {
                        assert!(read(&mounted.join(&key)) == object.bytes(), "{key}");
                    }
                    server.store().delete(bucket, &key);
                    let again = format!("{key}-again");
                    if let Some(before) = work.before() {
                        server.store().put(bucket, &again, before);
                    }
                    work.run(mounted.path(), &again).expect(&again);
                    let content = server.store().object(bucket, &again).unwrap().bytes();
                    assert!(content == work.after(), "{again}");
                    server.store().delete(bucket, &again);
                }
            }
        }
    }
}

/// Runs the work, and kills the process at a hanging request, else at the end.
///
/// Returns whether a request hung.
fn kill_during(
    server: &Server,
    bucket: &str,
    mounted: Mounted,
    (work, operation, when): (Work, Operation, When),
    key: &str,
) -> bool {
    if let Some(before) = work.before() {
        server.store().put(bucket, key, before);
    }
    let rule = |fault, skip, count| {
        server.faults().add(Rule {
            key_prefix: key.to_owned(),
            skip,
            count,
            ..Rule::on(operation, fault)
        })
    };
    let lost = (when == When::After).then(|| rule(Fault::DropConnectionAfterwards, 0, Some(1)));
    let skipped = u64::from(when != When::Before);
    let stuck = rule(Fault::BlackHole, skipped, None);
    let directory = mounted.path().to_owned();
    let is_stuck = std::thread::scope(|scope| {
        let working = scope.spawn(|| work.run(&directory, key));
        let start = Instant::now();
        while server.faults().fired(stuck) == Some(0) && !working.is_finished() {
            assert!(start.elapsed() < PATIENCE, "{key} comes to no end");
            std::thread::sleep(Duration::from_millis(2));
        }
        let is_stuck = !working.is_finished();
        mounted.signal(Signal::SIGKILL);
        let outcome = working.join().unwrap();
        assert_eq!(outcome.is_ok(), !is_stuck, "{key}: {outcome:?}");
        is_stuck
    });
    run("umount", &["-l", directory.to_str().unwrap()]);
    for rule in lost.into_iter().chain([stuck]) {
        server.faults().remove(rule);
    }
    is_stuck
}

/// Checks that the object is old or new as a whole.
///
/// On a directory bucket a streamed one may be a prefix of the new one, no shorter than the old one
/// after an append.
#[track_caller]
fn check(server: &Server, bucket: &str, work: Work, key: &str, what: &str) {
    let found = server.store().object(bucket, key);
    let found = found.map(|object| object.bytes().to_vec());
    let is_whole = found == work.before()
        || found.as_ref() == Some(&work.after())
        || (found.is_some() && found == work.between());
    let is_streamed = !matches!(work, Work::Copy | Work::CutLate);
    let grows = bucket == DIRECTORY && is_streamed;
    let is_beginning = |found: &Vec<u8>| {
        let is_appended = matches!(work, Work::Append(_) | Work::WriteLate);
        let least = work
            .before()
            .filter(|_| is_appended)
            .map_or(0, |old| old.len());
        grows && found.len() >= least && work.after().starts_with(found)
    };
    let len = found.as_ref().map(Vec::len);
    assert!(
        is_whole || found.as_ref().is_some_and(is_beginning),
        "{key}, {what}: {len:?} bytes"
    );
}

/// Leaves an upload of a killed client that has no journal, with one part.
fn leave_an_upload(server: &Server, bucket: &str) -> (String, String) {
    let state = tempfile::tempdir().unwrap();
    let mut command = mount_s3();
    command.args([bucket, "--endpoint-url", &server.url()]);
    command.args(["--write-part-size", "5242880"]);
    command.args(["--state-directory", state.path().to_str().unwrap()]);
    let mounted = Mounted::start(command);
    let mut file = create_to_write(mounted.join(OTHERS)).unwrap();
    for _ in 0..17 {
        file.write_all(&[5; MIB]).unwrap();
    }
    wait_until("the upload", || !server.store().uploads(bucket).is_empty());
    let directory = mounted.path().to_owned();
    mounted.signal(Signal::SIGKILL);
    run("umount", &["-l", directory.to_str().unwrap()]);
    server.store().uploads(bucket).remove(0)
}
