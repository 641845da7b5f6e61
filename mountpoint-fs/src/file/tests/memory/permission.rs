//! Requests before the first write of a file is answered, and the effects of refusals.

use futures::FutureExt as _;
use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Operation, Time};

use super::{MIB, Mount, client, now, pattern, small_parts};
use crate::file::StagedFile;
use crate::operation::FsError;

/// The change of a program to a file of this key, and the call that reports a refusal.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// A small file is stored.
    Stored(&'static str),
    /// A larger one is.
    StoredInParts(&'static str),
    /// S3 refuses the requests of this kind; the first write of the file says so.
    FirstWrite(&'static str, Operation),
    /// A failure that the close reports.
    Close(&'static str, Operation),
    /// Another host has made the file, which says nothing of other files.
    Taken(&'static str),
    /// Nothing is written to it.
    Empty(&'static str),
}

fn mount(time: Time) -> Mount {
    Mount::doubting(client(time, false), 256 << 20, small_parts())
}

fn write(file: &StagedFile, content: &[u8]) -> Result<(), FsError> {
    for (number, piece) in content.chunks(MIB).enumerate() {
        now(file.write((number * MIB) as u64, piece.to_vec().into()))?;
    }
    Ok(())
}

#[track_caller]
fn denied(outcome: &Result<(), FsError>, case: &str) {
    let is_denied = matches!(outcome, Err(FsError::Denied(_)));
    assert!(is_denied, "{case}: {outcome:?}");
}

/// Runs `steps` and says how many proofs each made: uploads begun, but for those of its own file.
#[track_caller]
fn check(steps: &[(Step, usize)]) {
    let mount = mount(Time::Immediate);
    for (step, proofs) in steps {
        let case = format!("{step:?} of {steps:?}");
        drop(mount.client.take_log());
        let (Step::Stored(key)
        | Step::StoredInParts(key)
        | Step::FirstWrite(key, _)
        | Step::Close(key, _)
        | Step::Taken(key)
        | Step::Empty(key)) = *step;
        let file = mount.new_file(key);
        let mut own = 0;
        match *step {
            Step::Stored(_) => {
                write(&file, b"bytes").unwrap();
                now(file.store()).unwrap();
            }
            Step::StoredInParts(_) => {
                own = 1;
                write(&file, &pattern(6 * MIB)).unwrap();
                now(file.store()).unwrap();
            }
            Step::FirstWrite(_, operation) => {
                let kind = ErrorKind::Denied;
                mount.client.fail_next(operation, 1, kind);
                let quick = file.write_now(0, b"bytes");
                assert!(quick.is_none(), "{case}: it waits for the proof");
                denied(&write(&file, b"bytes"), &case);
                denied(&now(file.store()), &case);
                assert_eq!(mount.content(key), None, "{case}");
            }
            Step::Close(_, operation) => {
                write(&file, b"bytes").unwrap();
                let kind = ErrorKind::Denied;
                mount.client.fail_next(operation, 1, kind);
                denied(&now(file.store()), &case);
                // The file has the bytes, and a program may try again.
                assert!(file.is_changed(), "{case}");
            }
            Step::Taken(_) => {
                write(&file, b"bytes").unwrap();
                mount.client.put_object(key, "theirs");
                let taken = now(file.store());
                assert!(matches!(taken, Err(FsError::Exists)), "{case}: {taken:?}");
            }
            Step::Empty(_) => now(file.store()).unwrap(),
        }
        mount.client.clear_faults();
        let begun = mount.count_of(Operation::CreateMultipartUpload);
        assert_eq!(begun - own, *proofs, "{case}");
        assert_eq!(mount.uploads(), 0, "{case}");
        mount.client.remove(key);
    }
}

#[test]
fn who_may_not_write_is_told_by_the_first_write() {
    use Operation::{CreateMultipartUpload, PutObject, UploadPart};
    use Step::{Close, Empty, FirstWrite, Stored, StoredInParts, Taken};
    check(&[(Stored("a"), 1), (Stored("b"), 0), (StoredInParts("c"), 0)]);
    check(&[(StoredInParts("a"), 1), (Stored("b"), 0)]);
    // An empty file is stored as well.
    check(&[(Empty("a"), 0), (Stored("b"), 0)]);
    for refused in [CreateMultipartUpload, UploadPart] {
        check(&[
            (FirstWrite("a", refused), 1),
            (FirstWrite("a", refused), 1),
            (Stored("a"), 1),
            (Stored("a"), 0),
        ]);
    }
    // Permissions that the proof did not show, and those from before.
    check(&[
        (Close("a", PutObject), 1),
        (Close("a", PutObject), 1),
        (Stored("a"), 1),
        (Close("a", PutObject), 0),
        (FirstWrite("b", UploadPart), 1),
        (Stored("a"), 1),
        (Stored("a"), 0),
    ]);
    // A directory is doubted until a file is stored there.
    check(&[
        (Stored("mine/a"), 1),
        (Close("theirs/a", PutObject), 0),
        (FirstWrite("mine/b", UploadPart), 1),
        (Stored("mine/b"), 1),
        (Stored("other/b"), 0),
        (FirstWrite("theirs/b", UploadPart), 1),
        (Stored("mine/b"), 1),
        (Stored("mine/c"), 0),
        (Stored("theirs/c"), 1),
        (Stored("theirs/d"), 0),
    ]);
    // Another host was first: that is about one file.
    check(&[(Stored("a"), 1), (Taken("b"), 0), (Stored("c"), 0)]);
}

/// Files that are begun at the same time wait for one proof; if that fails, each has its own.
#[test]
fn the_first_files_of_a_mount_share_a_proof() {
    for (fails, creates) in [(false, 1), (true, 3)] {
        let mount = mount(Time::Manual);
        if fails {
            let operation = Operation::CreateMultipartUpload;
            mount.client.fail_next(operation, 3, ErrorKind::Denied);
        }
        let files = ["a", "b", "c"].map(|key| mount.new_file(key));
        let write = |file: &StagedFile| {
            let file = file.clone();
            Box::pin(async move { file.write(0, "x".into()).await })
        };
        let mut writes = files.each_ref().map(write);
        for write in &mut writes {
            assert!(write.now_or_never().is_none());
        }
        assert_eq!(mount.pending(), [Operation::CreateMultipartUpload]);
        let mut outcomes = [None, None, None];
        while outcomes.iter().any(Option::is_none) {
            mount.client.deliver_all();
            for (write, outcome) in writes.iter_mut().zip(&mut outcomes) {
                if outcome.is_none() {
                    *outcome = write.now_or_never();
                }
            }
        }
        let refused = outcomes.iter().flatten().filter(|it| it.is_err());
        assert_eq!(refused.count(), if fails { 3 } else { 0 });
        mount.client.deliver_all();
        assert_eq!(mount.count_of(Operation::CreateMultipartUpload), creates);
    }
}

/// A server without uploads in parts is believed: what it refuses is seen when a file is stored.
#[test]
fn a_server_without_uploads_in_parts_is_not_asked_twice() {
    let mount = mount(Time::Immediate);
    let create = Operation::CreateMultipartUpload;
    mount.client.fail_next(create, 1, ErrorKind::Unsupported);
    for key in ["a", "b"] {
        let file = mount.new_file(key);
        write(&file, b"bytes").unwrap();
        now(file.store()).unwrap();
    }
    assert_eq!(mount.count_of(create), 1);
}
