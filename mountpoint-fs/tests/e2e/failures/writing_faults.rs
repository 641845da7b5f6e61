//! Faults at every request of a write. The writer gets an error, or the object is complete.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::SystemTime;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};

use nix::fcntl::AT_FDCWD;
use nix::sys::stat::{UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;

use crate::fault_loop::{
    every_fault_at_every_request, faults_of_writes, more_faults_of_writes,
    slow_faults_at_every_operation,
};
use crate::harness::{
    BUCKET, Mounted, create_to_write, server, shell, wait_until, write_and_close,
};

const MIB: usize = 1 << 20;

/// A change of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    Small,
    Large,
    /// Another object under an existing name.
    Replace,
    ReplaceLarge,
    /// An append to an object that S3 copies.
    Append,
    /// `copy_file_range` of another object.
    Copy,
    /// A change in the middle of an object: S3 copies the rest.
    Edit,
    Touch,
    Rename,
    Delete,
}

const WORKLOADS: [Workload; 10] = [
    Workload::Small,
    Workload::Large,
    Workload::Replace,
    Workload::ReplaceLarge,
    Workload::Append,
    Workload::Copy,
    Workload::Edit,
    Workload::Touch,
    Workload::Rename,
    Workload::Delete,
];

/// The key of the copy's source, at which faults strike, too.
fn source_of(key: &str) -> String {
    format!("{key}-source")
}

impl Workload {
    fn before(self) -> Option<Vec<u8>> {
        match self {
            Self::Small | Self::Large | Self::Copy => None,
            Self::Append => Some(vec![1; 5 * MIB]),
            Self::Edit => Some(vec![1; 11 * MIB]),
            Self::Replace | Self::ReplaceLarge | Self::Touch | Self::Rename | Self::Delete => {
                Some(vec![1; 1000])
            }
        }
    }

    /// The final object; `None` if there is none.
    fn after(self) -> Option<Vec<u8>> {
        match self {
            Self::Small | Self::Replace => Some(vec![2; 1000]),
            Self::Large | Self::ReplaceLarge => Some(vec![2; 6 * MIB]),
            Self::Append => Some([vec![1; 5 * MIB], vec![2; 1000]].concat()),
            Self::Copy => Some(vec![3; 6 * MIB]),
            Self::Edit => Some([vec![1; 6 * MIB], vec![2; 1000], vec![1; 5 * MIB - 1000]].concat()),
            Self::Touch => self.before(),
            Self::Rename | Self::Delete => None,
        }
    }

    /// Stores the initial object.
    fn prepare(self, server: &Server, key: &str) {
        if let Some(old) = self.before() {
            server.store().put(BUCKET, key, old);
            server.store().set_modified(BUCKET, key, OLD);
        }
        if self == Self::Copy {
            let source = self.after().unwrap();
            server.store().put(BUCKET, &source_of(key), source);
        }
    }

    fn run(self, mounted: &Mounted, key: &str) -> io::Result<()> {
        let path = mounted.join(key);
        let bytes = self.after().unwrap_or_default();
        match self {
            Self::Small | Self::Large => write_and_close(File::create_new(&path)?, &bytes),
            Self::Replace | Self::ReplaceLarge => write_and_close(File::create(&path)?, &bytes),
            Self::Append => {
                let file = OpenOptions::new().append(true).open(&path)?;
                write_and_close(file, &bytes[5 * MIB..])
            }
            Self::Copy => {
                let mut source = File::open(mounted.join(&source_of(key)))?;
                let mut file = create_to_write(&path)?;
                let copied = io::copy(&mut source, &mut file);
                let closed = write_and_close(file, &[]);
                copied.and(closed)
            }
            Self::Edit => {
                let file = OpenOptions::new().read(true).write(true).open(&path)?;
                let written = file.write_all_at(&[2; 1000], 6 << 20);
                let closed = nix::unistd::close(file).map_err(io::Error::from);
                written.and(closed)
            }
            Self::Touch => touch(&path),
            Self::Rename => std::fs::rename(&path, mounted.join(&format!("{key}-renamed"))),
            Self::Delete => std::fs::remove_file(&path),
        }
    }
}

/// A time long ago.
const OLD: SystemTime = SystemTime::UNIX_EPOCH;

/// Sets its times to now, without opening it.
fn touch(path: &Path) -> io::Result<()> {
    let now = TimeSpec::UTIME_NOW;
    utimensat(AT_FDCWD, path, &now, &now, UtimensatFlags::FollowSymlink)?;
    Ok(())
}

fn mount(server: &Server, state: &Path) -> Mounted {
    mount_with(server, state, &[])
}

fn mount_with_log(server: &Server, state: &Path, logs: &Path) -> Mounted {
    mount_with(server, state, &["--log-directory", logs.to_str().unwrap()])
}

fn mount_with(server: &Server, state: &Path, more: &[&str]) -> Mounted {
    let args = [
        "--allow-append",
        "--allow-delete",
        "--allow-overwrite",
        "--allow-rename",
        // The object to replace is stored just before.
        "--negative-metadata-ttl",
        "minimal",
        // In bytes: 5 MiB.
        "--write-part-size",
        "5242880",
        "--state-directory",
        state.to_str().unwrap(),
    ];
    Mounted::new(server, &[&args, more].concat())
}

#[test]
fn every_fault_at_every_request_of_a_write_is_told_or_overcome() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let mounted = mount(&server, state.path());
    // A server that refuses its first copy of a part is assumed to copy none.
    Workload::Append.prepare(&server, "copies");
    Workload::Append.run(&mounted, "copies").unwrap();
    let (mut unknown, mut cases) = (0, 0);
    for workload in WORKLOADS {
        let mut faults = faults_of_writes();
        faults.extend(more_faults_of_writes());
        if matches!(workload, Workload::Rename | Workload::Delete) {
            // An answer that the object does not exist is believed.
            faults.retain(|(fault, ..)| !matches!(fault, Fault::Error { status: 404, .. }));
        }
        if workload == Workload::Edit {
            // No checksum tells of another byte in the part of an object that the mount fetches.
            faults.retain(|(fault, ..)| !matches!(fault, Fault::CorruptByte(_)));
        }
        let run = |key: &str| {
            workload.prepare(&server, key);
            server.log().clear();
            workload.run(&mounted, key)
        };
        let name = format!("{workload:?}");
        cases += every_fault_at_every_request(&server, &name, faults, run, |key, is_ok, case| {
            check(&server, workload, key, is_ok, case);
            // If the answer to the creation of an upload is lost, or a proxy sends it twice, the
            // mount does not know its id.
            let creates = server.log().count(Operation::CreateMultipartUpload);
            let is_twice = case.ends_with("Twice") && creates > 0;
            unknown += usize::from(creates > 1 || is_twice);
        });
        // The last round was without a fault.
        let copies = server.log().count(Operation::UploadPartCopy);
        assert_eq!(
            copies > 0,
            matches!(workload, Workload::Copy | Workload::Append | Workload::Edit)
        );
    }
    assert!(cases > 400, "{cases} cases are not all");
    // Where every abort is refused, the next mount aborts.
    drop(mounted);
    let _mounted = mount(&server, state.path());
    wait_until("the end of all uploads that are known", || {
        server.store().uploads(BUCKET).len() <= unknown
    });
}

/// A conflict, or an error after the work was done. The writer gets no error, and the log has a
/// line.
#[test]
fn conflicts_and_answers_that_were_lost_are_overcome() {
    use Operation::{CompleteMultipartUpload, CopyObject, DeleteObject, PutObject};
    let server = server();
    let (state, logs) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mounted = mount_with_log(&server, state.path(), logs.path());
    let conflict = || ("ConditionalRequestConflict", 409);
    let before = |(code, status)| Fault::Error { status, code };
    let after = |(code, status)| Fault::ErrorAfterwards { status, code };
    let faults = [
        (before(conflict()), 1, false),
        (before(conflict()), 3, false),
        (after(conflict()), 1, true),
        (after(("SlowDown", 503)), 1, true),
        (after(("ServiceUnavailable", 503)), 1, true),
        (Fault::PageAfterwards(502), 1, true),
        (Fault::PageAfterwards(503), 2, true),
        (Fault::Twice, 1, true),
        (Fault::DropConnectionAfterwards, 1, true),
    ];
    let mut told = 0;
    for (number, (fault, count, is_done)) in faults.into_iter().enumerate() {
        for operation in [PutObject, CompleteMultipartUpload, CopyObject, DeleteObject] {
            for workload in WORKLOADS {
                let key = format!("{number}-{operation:?}-{workload:?}");
                let case = format!("{key} {fault:?}");
                workload.prepare(&server, &key);
                let rule = server.faults().add(Rule {
                    key_prefix: key.clone(),
                    ..Rule::on(operation, fault.clone()).times(count)
                });
                let outcome = workload.run(&mounted, &key);
                assert!(
                    outcome.is_ok(),
                    "{case}: {outcome:?}\n{}",
                    shell(logs.path(), "cat *")
                );
                let has_struck = server.faults().remove(rule).unwrap() > 0;
                check(&server, workload, &key, true, &case);
                // Requests for new objects, or for objects made from parts, were refused at their
                // repetition.
                let is_new = operation == PutObject && workload == Workload::Small;
                let is_refused = is_new || operation == CompleteMultipartUpload;
                if has_struck && is_done && is_refused {
                    let line = |line: &str| {
                        line.contains(&key) && line.contains("the change was made, although")
                    };
                    wait_until("the line of the log", || {
                        shell(logs.path(), "cat *").lines().any(line)
                    });
                    told += 1;
                }
            }
        }
    }
    assert!(told > 20, "{told} lines are not all");
    assert!(server.store().uploads(BUCKET).is_empty());
}

/// S3 may drop an upload that conflicts with another request, and its parts with it.
///
/// The application is not told that another client was first, unless the mount saw that before it
/// completed the upload, as it does for new files.
#[test]
fn an_upload_that_a_conflict_ended_is_sent_again() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let mounted = mount(&server, state.path());
    let complete = Operation::CompleteMultipartUpload;
    for workload in [Workload::Large, Workload::ReplaceLarge] {
        for theirs in [false, true] {
            let key = format!("{workload:?}-{theirs}");
            workload.prepare(&server, &key);
            let rule = server.faults().add(Rule {
                key_prefix: key.clone(),
                ..Rule::on(complete, Fault::ConflictEndsUpload).times(1)
            });
            let file = File::create(mounted.join(&key)).unwrap();
            // As large as the new object, and of one part less.
            let other = vec![9; 6 * MIB];
            if theirs {
                server.store().put(BUCKET, &key, other.clone());
            }
            let closed = write_and_close(file, &workload.after().unwrap());
            // The bytes are here: they are sent once more.
            let (expected, struck) = match theirs && workload == Workload::Large {
                true => {
                    let error = closed.expect_err(&key);
                    assert_eq!(error.raw_os_error(), Some(libc::EEXIST), "{key}: {error}");
                    (Some(other), 0)
                }
                false => {
                    closed.expect(&key);
                    (workload.after(), 1)
                }
            };
            assert_eq!(server.faults().remove(rule), Some(struck), "{key}");
            let there = server.store().object(BUCKET, &key);
            assert!(there.map(|it| it.bytes().to_vec()) == expected, "{key}");
        }
    }
    assert!(server.store().uploads(BUCKET).is_empty());
}

/// Servers that go silent, send less than they announce, or take few requests a second.
#[test]
fn silence_at_any_request_of_a_write_is_told_or_overcome() {
    let server = server();
    let state = tempfile::tempdir().unwrap();
    let mounted = mount(&server, state.path());
    let faults = [
        (Fault::BlackHole, Some(1), true),
        (Fault::Stall(0), Some(1), true),
        (Fault::WrongLength(1), Some(1), true),
        (Fault::SlowDownAbove(1), None, true),
    ];
    let (server, mounted, faults) = (&server, &mounted, &faults);
    let cases = std::thread::scope(|scope| {
        let started = WORKLOADS.map(|workload| {
            scope.spawn(move || {
                let run = |key: &str| {
                    let directory = key.strip_suffix("file").unwrap();
                    server.store().put(BUCKET, &format!("{directory}keep"), "");
                    workload.prepare(server, key);
                    workload.run(mounted, key)
                };
                let check =
                    |key: &str, is_ok, case: &str| check(server, workload, key, is_ok, case);
                let name = format!("{workload:?}");
                slow_faults_at_every_operation(server, &name, faults, &QUICK, run, check)
            })
        });
        started.map(|thread| thread.join().unwrap())
    });
    assert!(cases.iter().sum::<usize>() > 40, "{cases:?} are not all");
}

/// Operations with a wait of half a minute at most. S3 may take minutes for copies and completions.
const QUICK: [Operation; 5] = [
    Operation::HeadObject,
    Operation::CreateMultipartUpload,
    Operation::PutObject,
    Operation::UploadPart,
    Operation::DeleteObject,
];

/// Checks that the bucket holds all or nothing of the change. All of it if `is_ok`.
#[track_caller]
fn check(server: &Server, workload: Workload, key: &str, is_ok: bool, case: &str) {
    let content = |key: &str| Some(server.store().object(BUCKET, key)?.bytes().to_vec());
    let (here, old, new) = (content(key), workload.before(), workload.after());
    // A program that closes its file behind a copy that failed stores what it has.
    let is_begun = workload == Workload::Copy && here.as_ref().is_some_and(Vec::is_empty);
    let is_as_told = here == new || (!is_ok && (here == old || is_begun));
    assert!(is_as_told, "{case}");
    match workload {
        Workload::Rename => {
            let there = content(&format!("{key}-renamed"));
            assert!(there == old || (there.is_none() && !is_ok), "{case}");
            assert!(here == old || there == old, "{case}: it is lost");
        }
        Workload::Touch => {
            let touched = server.store().object(BUCKET, key).unwrap().modified();
            assert!(touched > OLD || !is_ok, "{case}");
        }
        Workload::Copy => assert!(content(&source_of(key)) == new, "{case}"),
        _ => {}
    }
}

/// The id of an upload whose creation was not answered is unknown.
///
/// The upload stays, untouched, and the log has a line.
#[test]
fn an_upload_whose_beginning_was_not_answered_is_told_in_the_log() {
    let server = server();
    let logs = tempfile::tempdir().unwrap();
    let directory = logs.path().to_str().unwrap();
    let mounted = Mounted::new(
        &server,
        &["--write-part-size", "5242880", "--log-directory", directory],
    );
    let create = Operation::CreateMultipartUpload;
    for (key, fault, left) in [
        ("refused", Fault::SlowDown, 0),
        ("lost", Fault::DropConnectionAfterwards, 1),
    ] {
        server.faults().add(Rule::on(create, fault).times(1));
        std::fs::write(mounted.join(key), vec![7; 6 * MIB]).unwrap();
        let object = server.store().object(BUCKET, key).unwrap();
        assert_eq!(object.size(), 6 << 20);
        assert_eq!(server.store().uploads(BUCKET).len(), left, "{key}");
        let said = shell(logs.path(), "cat *");
        let lines = said
            .lines()
            .filter(|line| line.contains("was not answered") && line.contains(key));
        assert_eq!(lines.count(), left, "{said}");
    }
}
