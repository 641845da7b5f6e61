//! Gaps and lengths that were set, against a file in memory.

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Operation, Time};

use crate::config::WriteConfig;
use crate::config::limits::GAP_BYTES_MAX;
use crate::operation::FsError;
use crate::write::tests::{Bench, MIB, now, pattern, write};
use crate::write::{Beginning, Stored};

/// The changes of a program to a new file.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Writes so many bytes at an offset.
    Write(usize, usize),
    /// Sets the length.
    Len(usize),
    Sync,
}
use Step::{Len, Sync, Write};

/// The stored bytes are those of a local file; the size that other processes see is right after
/// each step.
#[track_caller]
fn check(steps: &[Step]) {
    let bench = Bench::immediate();
    let writer = bench.writer(Beginning::New);
    let mut file = Vec::new();
    for step in steps {
        match *step {
            Write(offset, len) => {
                let data = pattern(len);
                for (at, piece) in (0..).step_by(MIB).zip(data.chunks(MIB)) {
                    now(writer.write(offset as u64 + at, piece)).unwrap();
                }
                file.resize(file.len().max(offset + len), 0);
                file[offset..offset + len].copy_from_slice(&data);
            }
            Len(len) => {
                now(writer.set_len(len as u64)).unwrap();
                file.resize(len, 0);
            }
            Sync => drop(now(writer.store()).unwrap()),
        }
        assert_eq!(writer.progress().size(), file.len() as u64, "{steps:?}");
    }
    assert_eq!(now(writer.finish()).unwrap().size, file.len() as u64);
    assert!(bench.content().unwrap() == file, "{steps:?}");
    assert!(!now(writer.is_open()));
    drop(writer);
    assert_eq!((bench.budget.used(), bench.uploads()), (0, 0), "{steps:?}");
}

#[test]
fn gaps_and_lengths_are_stored_as_zeros() {
    for steps in [
        &[Write(6, 1)][..],
        &[Write(0, 5), Write(6, 1)],
        &[
            Write(0, 5),
            Write(20 * MIB + 3, 7),
            Write(20 * MIB + 10, 6 * MIB),
        ],
        &[
            Write(0, 7 * MIB),
            Write(7 * MIB + 1, 3 * MIB),
            Len(40 * MIB),
        ],
        &[Len(0)],
        &[Len(10)],
        &[Len(10), Write(0, 3)],
        &[Len(10), Write(0, 3), Write(3, 7)],
        &[Len(10), Write(0, 3), Write(5, 20)],
        &[Len(10), Write(10, 4)],
        &[Len(100), Len(10), Write(0, 2), Len(2)],
        &[Len(20 * MIB), Write(0, 11 * MIB)],
        &[Len(10), Write(0, 3), Sync, Write(3, 3)],
        &[Write(0, 6 * MIB), Sync, Len(7 * MIB), Write(6 * MIB, 3)],
        &[Write(0, 3), Sync, Len(7)],
        &[Len(100), Sync],
    ] {
        check(steps);
    }
}

#[test]
fn a_file_that_is_appended_to_has_no_gaps() {
    let bench = Bench::immediate();
    bench.client.put_object("key", vec![7; 10]);
    let etag = bench.client.object("key").unwrap().etag;
    let writer = bench.writer(Beginning::Extend(Stored { etag, size: 10 }));
    now(writer.preload(&[7; 10])).unwrap();
    let longer = now(writer.set_len(20));
    assert!(
        matches!(longer, Err(FsError::NotPermitted(_))),
        "{longer:?}"
    );
    let written = now(writer.write(11, b"x"));
    assert!(
        matches!(written, Err(FsError::NotSequential(_))),
        "{written:?}"
    );
    assert_eq!(bench.content().unwrap(), [7; 10]);
}

#[test]
fn what_a_gap_may_cost_is_bounded() {
    for is_len in [false, true] {
        let bench = Bench::with(Time::Immediate, 256 << 20, WriteConfig::default());
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, b"abc").unwrap();
        let refused = if is_len {
            now(writer.set_len(4 + GAP_BYTES_MAX)).unwrap();
            now(writer.finish()).map(drop)
        } else {
            now(writer.write(4 + GAP_BYTES_MAX, b"x"))
        };
        assert!(matches!(refused, Err(FsError::TooLarge(_))), "{refused:?}");
        assert!(now(writer.finish()).is_err());
        assert_eq!((bench.content(), bench.uploads()), (None, 0));
    }
}

#[test]
fn a_length_that_is_refused_leaves_no_empty_object() {
    // Nor does it fail a file that gets bytes.
    for is_written in [false, true] {
        let bench = Bench::immediate();
        let writer = bench.writer(Beginning::New);
        let refused = now(writer.set_len(u64::MAX));
        assert!(matches!(refused, Err(FsError::TooLarge(_))), "{refused:?}");
        if is_written {
            write(&writer, 0, b"abc").unwrap();
            let cut = now(writer.set_len(2));
            assert!(matches!(cut, Err(FsError::NotPermitted(_))), "{cut:?}");
        }
        let stored = now(writer.finish());
        assert_eq!(stored.is_ok(), is_written, "{stored:?}");
        assert_eq!(bench.content(), is_written.then(|| b"abc".to_vec()));
    }
    // An empty object that existed before stays.
    let bench = Bench::immediate();
    bench.client.put_object("key", Vec::new());
    let etag = bench.client.object("key").unwrap().etag;
    let writer = bench.writer(Beginning::Fill(Stored { etag, size: 0 }));
    now(writer.set_len(u64::MAX)).unwrap_err();
    now(writer.finish()).unwrap();
    assert!(bench.content().unwrap().is_empty());
}

#[test]
fn a_write_behind_a_gap_that_is_interrupted_stores_no_zeros_in_its_place() {
    let bench = Bench::manual(32 << 20);
    let writer = bench.writer(Beginning::New);
    write(&writer, 0, b"abc").unwrap();
    // It waits for memory: no part has been taken from it yet.
    let mut waiting = Box::pin(writer.write(100 * MIB as u64, b"x"));
    assert!((&mut waiting).now_or_never().is_none());
    assert_eq!(bench.pending(), [Operation::CreateMultipartUpload]);
    drop(waiting);
    bench.client.deliver_all();
    let stored = now(writer.finish());
    assert!(
        matches!(stored, Err(FsError::NotSequential(_))),
        "{stored:?}"
    );
    bench.client.deliver_all();
    assert_eq!((bench.content(), bench.uploads()), (None, 0));
}
