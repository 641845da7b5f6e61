//! WRITEs of one file in the orders in which session threads may take them.

use std::pin::Pin;
use std::sync::Arc;

use futures::FutureExt as _;

use super::REORDER_DISTANCE_MAX;
use super::REORDER_WAIT;
use crate::operation::FsError;
use crate::write::tests::{Bench, MIB, now, pattern};
use crate::write::{Beginning, Writer};

const ASYNCHRONOUS: &(dyn Fn() -> bool + Send + Sync) = &|| true;
const ALONE: &(dyn Fn() -> bool + Send + Sync) = &|| false;

type Written = Pin<Box<dyn Future<Output = Result<(), FsError>> + Send>>;

/// A piece of `content` that a writer writes meanwhile.
fn send(writer: &Arc<Writer>, content: &[u8], piece: usize) -> Written {
    let (writer, at) = (Arc::clone(writer), piece * MIB);
    let bytes = content[at..content.len().min(at + MIB)].to_vec();
    Box::pin(async move {
        match writer.write_now(at as u64, &bytes) {
            Some(done) => done,
            None => {
                let written = writer.write_in_order(at as u64, &bytes, ASYNCHRONOUS);
                written.await
            }
        }
    })
}

/// Pieces that arrive in this order become the file.
#[track_caller]
fn check(order: &[usize], checksum_of: usize) {
    let bench = Bench::immediate();
    let writer = bench.writer(Beginning::New);
    let content = pattern(checksum_of);
    let mut waiting: Vec<Written> = Vec::new();
    for piece in order {
        waiting.push(send(&writer, &content, *piece));
        // The bytes of one of them wake others.
        let mut before = waiting.len() + 1;
        while waiting.len() < before {
            before = waiting.len();
            waiting.retain_mut(|written| {
                let done = written.now_or_never();
                done.is_none_or(|done| done.is_err())
            });
        }
    }
    assert!(waiting.is_empty(), "{order:?}");
    now(writer.store()).unwrap();
    assert_eq!(bench.content(), Some(content), "{order:?}");
}

#[test]
fn pieces_of_an_asynchronous_write_are_taken_in_any_order() {
    check(&[0, 1, 2, 3], 4 * MIB);
    check(&[1, 0], 2 * MIB);
    check(&[3, 2, 1, 0], 4 * MIB);
    check(&[1, 0, 3, 2, 5, 4], 6 * MIB);
    check(&[2, 0, 3, 1], 3 * MIB + 5);
    check(&[7, 6, 5, 4, 3, 2, 1, 0, 8, 11, 10, 9], 12 * MIB - 1);
}

/// After the bound a gap is a gap, and filled as that of a program that leaves one and waits for
/// each write.
#[test]
fn what_never_comes_is_waited_for_once() {
    let bench = Bench::immediate();
    let writer = bench.writer(Beginning::New);
    let content = pattern(8 * MIB);
    let mut ahead = send(&writer, &content, 2);
    assert!((&mut ahead).now_or_never().is_none());
    bench.clock.advance(REORDER_WAIT / 2);
    assert!(bench.context.pressure.look(), "somebody waits");
    assert!((&mut ahead).now_or_never().is_none());
    // One of those that are missing: what is still missing has all of the time again.
    now(send(&writer, &content, 0)).unwrap();
    bench.clock.advance(REORDER_WAIT / 2);
    bench.context.pressure.look();
    assert!((&mut ahead).now_or_never().is_none());
    bench.clock.advance(REORDER_WAIT);
    bench.context.pressure.look();
    now(ahead).unwrap();
    assert!(!bench.context.pressure.look(), "nobody waits");
    // A WRITE that comes too late would have to go back.
    let late = now(send(&writer, &content, 1));
    assert!(matches!(late, Err(FsError::NotSequential(_))), "{late:?}");
    assert_eq!((bench.content(), bench.uploads()), (None, 0));
}

#[test]
fn a_gap_that_nothing_can_fill_is_one_at_once() {
    let far = REORDER_DISTANCE_MAX + 1;
    for (offset, goes_on) in [(1, ALONE), (far, ALONE), (far, ASYNCHRONOUS)] {
        let bench = Bench::immediate();
        let writer = bench.writer(Beginning::New);
        assert!(writer.write_now(offset, b"x").is_none());
        now(writer.write_in_order(offset, b"x", goes_on)).unwrap();
        assert_eq!(writer.progress().size(), offset + 1);
    }
}

/// Nobody waits for the bytes of a file that has failed, nor of one whose writer was waited for in
/// vain before.
#[test]
fn a_file_that_failed_is_not_waited_for() {
    let bench = Bench::immediate();
    let writer = bench.writer(Beginning::New);
    let content = pattern(8 * MIB);
    now(send(&writer, &content, 0)).unwrap();
    let mut ahead = send(&writer, &content, 2);
    assert!((&mut ahead).now_or_never().is_none());
    let back = now(writer.write(0, b"x"));
    assert!(matches!(back, Err(FsError::NotSequential(_))), "{back:?}");
    assert!(now(ahead).is_err());
    assert!(now(send(&writer, &content, 5)).is_err());
}
