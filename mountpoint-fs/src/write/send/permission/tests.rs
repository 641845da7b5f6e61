//! Requests before the first write of a file is answered, and the effects of refusals.

use std::sync::Arc;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Operation, SimOptions, Time};
use mountpoint_client::{ErrorKind, SimClient};

use crate::config::WriteConfig;
use crate::operation::FsError;
use crate::write::tests::{Bench, MIB, now, pattern};
use crate::write::{Beginning, Writer};

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
    /// Another failure of its PutObject, which says nothing of other files.
    Taken(&'static str),
    /// Nothing is written to it.
    Empty(&'static str),
}

fn mount(time: Time) -> Bench {
    let options = SimOptions {
        time,
        ..SimOptions::default()
    };
    let config = WriteConfig {
        part_size: Some(5 << 20),
        ..WriteConfig::default()
    };
    Bench::doubting(Arc::new(SimClient::new(options)), 256 << 20, config)
}

fn write(writer: &Writer, content: &[u8]) -> Result<(), FsError> {
    for (number, piece) in content.chunks(MIB).enumerate() {
        now(writer.write((number * MIB) as u64, piece))?;
    }
    Ok(())
}

fn denied(outcome: Result<(), FsError>, case: &str) {
    assert!(
        matches!(outcome, Err(FsError::Denied(_))),
        "{case}: {outcome:?}"
    );
}

/// Runs `steps` and says how many proofs each made: uploads begun, but for those of its own file.
#[track_caller]
fn check(steps: &[(Step, usize)]) {
    let bench = mount(Time::Immediate);
    for (step, proofs) in steps {
        let case = format!("{step:?} of {steps:?}");
        drop(bench.client.take_log());
        let (Step::Stored(key)
        | Step::StoredInParts(key)
        | Step::FirstWrite(key, _)
        | Step::Close(key, _)
        | Step::Taken(key)
        | Step::Empty(key)) = *step;
        let writer = bench.writer_of(key, Beginning::New);
        let store = || now(writer.store()).map(drop);
        let mut own = 0;
        match *step {
            Step::Stored(_) => {
                write(&writer, b"bytes").unwrap();
                store().unwrap();
            }
            Step::StoredInParts(_) => {
                own = 1;
                write(&writer, &pattern(6 * MIB)).unwrap();
                store().unwrap();
            }
            Step::FirstWrite(_, operation) => {
                bench.client.fail_next(operation, 1, ErrorKind::Denied);
                denied(write(&writer, b"bytes"), &case);
                denied(store(), &case);
            }
            Step::Close(_, operation) => {
                write(&writer, b"bytes").unwrap();
                bench.client.fail_next(operation, 1, ErrorKind::Denied);
                denied(store(), &case);
            }
            Step::Taken(_) => {
                write(&writer, b"bytes").unwrap();
                let kind = ErrorKind::PreconditionFailed;
                bench.client.fail_next(Operation::PutObject, 1, kind);
                let taken = store();
                assert!(matches!(taken, Err(FsError::Exists)), "{case}: {taken:?}");
            }
            Step::Empty(_) => store().unwrap(),
        }
        bench.client.clear_faults();
        let begun = bench.client.log().count(Operation::CreateMultipartUpload);
        assert_eq!(begun - own, *proofs, "{case}");
        assert_eq!(bench.uploads(), 0, "{case}");
        bench.client.remove(key);
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
        let bench = mount(Time::Manual);
        if fails {
            let operation = Operation::CreateMultipartUpload;
            bench.client.fail_next(operation, 3, ErrorKind::Denied);
        }
        let writers = ["a", "b", "c"].map(|key| bench.writer_of(key, Beginning::New));
        let mut writes = writers.each_ref().map(|it| Box::pin(it.write(0, b"x")));
        for write in &mut writes {
            assert!(write.now_or_never().is_none());
        }
        assert_eq!(bench.pending(), [Operation::CreateMultipartUpload]);
        let mut outcomes = [None, None, None];
        while outcomes.iter().any(Option::is_none) {
            bench.client.deliver_all();
            for (write, outcome) in writes.iter_mut().zip(&mut outcomes) {
                if outcome.is_none() {
                    *outcome = write.now_or_never();
                }
            }
        }
        let refused = outcomes.iter().flatten().filter(|it| it.is_err());
        assert_eq!(refused.count(), if fails { 3 } else { 0 });
        bench.client.deliver_all();
        let begun = bench.client.log().count(Operation::CreateMultipartUpload);
        assert_eq!(begun, creates);
    }
}

/// A server without uploads in parts is believed: what it refuses is seen when a file is stored.
#[test]
fn a_server_without_uploads_in_parts_is_not_asked_twice() {
    let bench = mount(Time::Immediate);
    let create = Operation::CreateMultipartUpload;
    bench.client.fail_next(create, 1, ErrorKind::Unsupported);
    for key in ["a", "b"] {
        let writer = bench.writer_of(key, Beginning::New);
        write(&writer, b"bytes").unwrap();
        now(writer.store()).unwrap();
    }
    assert_eq!(bench.client.log().count(create), 1);
}
