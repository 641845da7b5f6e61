//! Every fault at every request of an upload: the writer is told, or the object is there, whole
//! and right; nothing else appears, and nothing is left behind that the next mount does not abort.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Fault, FaultRule, RequestId, Time, When};

use super::{Bench, MIB, now, pattern, write};
use crate::operation::FsError;
use crate::write::{Beginning, Stored, Writer};
use mountpoint_client::testing::sim::Operation;
use mountpoint_client::{ErrorKind, ObjectClient as _};

/// The written file, and the object before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Workload {
    /// A new file of so many bytes.
    New(usize),
    /// A file of so many bytes that replaces one.
    Replace(usize),
    /// So many bytes, then a synchronisation, and so many more.
    GoOn(usize, usize),
    /// An object of so many bytes, and so many behind it.
    Append(usize, usize),
    /// A new file of so many bytes, and so many behind a synchronisation, appended part by part.
    GrowNew(usize, usize),
    /// An object of so many bytes, and so many behind it, appended part by part.
    Grow(usize, usize),
}

const WORKLOADS: [Workload; 13] = [
    Workload::New(0),
    Workload::New(5),
    Workload::New(6 * MIB),
    Workload::Replace(5),
    Workload::Replace(6 * MIB),
    Workload::GoOn(5, 5),
    Workload::GoOn(5 * MIB, 5),
    Workload::Append(5, 5),
    Workload::Append(5 * MIB, 5),
    Workload::GrowNew(5, 5),
    Workload::GrowNew(6 * MIB, 5),
    Workload::Grow(5, 5),
    Workload::Grow(5, 6 * MIB),
];

fn faults(workload: Workload) -> Vec<Fault> {
    let mut kinds = vec![
        ErrorKind::InvalidRequest,
        ErrorKind::Denied,
        ErrorKind::NotFound,
        ErrorKind::NoSuchUpload,
        ErrorKind::Unsupported,
        // `SlowDown`, as long as the client has tried.
        ErrorKind::Throttled,
        // The same of 409 `ConditionalRequestConflict`.
        ErrorKind::Conflict,
        ErrorKind::Transient,
    ];
    if workload.grows() {
        kinds.extend([ErrorKind::PreconditionFailed, ErrorKind::TooManyParts]);
    }
    let mut faults: Vec<_> = kinds.into_iter().map(Fault::Fail).collect();
    // The server has done it, and nobody hears of it.
    faults.push(Fault::FailAfterwards(ErrorKind::Transient));
    faults.push(Fault::FailAfterwards(ErrorKind::Throttled));
    faults.extend([Fault::Repeat, Fault::Conflict, Fault::Twice]);
    faults.push(Fault::ConflictEndsUpload);
    faults
}

/// The contents that the bucket may have when a workload has come to its end.
struct Contents {
    before: Option<Vec<u8>>,
    /// The contents that a synchronisation before the end stores.
    between: Option<Vec<u8>>,
    after: Vec<u8>,
}

impl Workload {
    fn contents(self) -> Contents {
        let old = |len: usize| pattern(len).into_iter().rev().collect::<Vec<u8>>();
        match self {
            Self::New(len) => Contents {
                before: None,
                between: None,
                after: pattern(len),
            },
            Self::Replace(len) => Contents {
                before: Some(old(7)),
                between: None,
                after: pattern(len),
            },
            Self::GoOn(first, more) | Self::GrowNew(first, more) => Contents {
                before: None,
                between: Some(pattern(first)),
                after: pattern(first + more),
            },
            Self::Append(first, more) | Self::Grow(first, more) => Contents {
                before: Some(old(first)),
                between: None,
                after: [old(first), pattern(more)].concat(),
            },
        }
    }

    fn grows(self) -> bool {
        matches!(self, Self::GrowNew(..) | Self::Grow(..))
    }

    fn run(self, bench: &Bench, contents: &Contents, desk: &Desk) -> Result<(), FsError> {
        let store = |writer: &Writer| desk.wait(bench, writer.store()).map(drop);
        match self {
            Self::New(_) | Self::Replace(_) => {
                let beginning = match self {
                    Self::New(_) => Beginning::New,
                    _ => bench.replacing(),
                };
                let writer = bench.writer(beginning);
                let written = write(&writer, 0, &contents.after);
                ends(&writer, written.and_then(|()| store(&writer)))
            }
            Self::GoOn(first, _) | Self::GrowNew(first, _) => {
                let writer = bench.writer(Beginning::New);
                let written = desk
                    .write(bench, &writer, 0, &contents.after[..first])
                    .and_then(|()| store(&writer))
                    .and_then(|()| desk.write(bench, &writer, first, &contents.after[first..]))
                    .and_then(|()| store(&writer));
                ends(&writer, written)
            }
            Self::Grow(first, _) => {
                let object = bench.client.object("key").unwrap();
                let stored = Stored {
                    etag: object.etag,
                    size: first as u64,
                };
                let writer = bench.writer(Beginning::Grow(stored, None));
                let written = desk.write(bench, &writer, first, &contents.after[first..]);
                ends(&writer, written.and_then(|()| store(&writer)))
            }
            Self::Append(first, _) => {
                let object = bench.client.object("key").unwrap();
                let stored = Stored {
                    etag: object.etag,
                    size: first as u64,
                };
                let writer = if first < 5 * MIB {
                    let writer = bench.writer(Beginning::Extend(stored));
                    now(writer.preload(&contents.after[..first])).unwrap();
                    writer
                } else {
                    bench.writer(Beginning::Append(stored))
                };
                let written = write(&writer, first, &contents.after[first..]);
                ends(&writer, written.and_then(|()| store(&writer)))
            }
        }
    }
}

/// Answers requests, where they wait: the one that hangs when there is no other.
struct Desk {
    hangs: usize,
    seen: RefCell<BTreeSet<RequestId>>,
}

impl Desk {
    /// The request that hangs is the `hangs`-th, from 1.
    fn new(hangs: u32) -> Self {
        Self {
            hangs: hangs as usize - 1,
            seen: RefCell::default(),
        }
    }

    fn wait<T>(&self, bench: &Bench, future: impl Future<Output = T>) -> T {
        let mut future = Box::pin(future);
        loop {
            if let Some(outcome) = (&mut future).now_or_never() {
                return outcome;
            }
            assert!(self.answer(bench), "nothing is asked, and yet it waits");
        }
    }

    /// Writes, and waits where the writer does.
    fn write(
        &self,
        bench: &Bench,
        writer: &Writer,
        mut at: usize,
        data: &[u8],
    ) -> Result<(), FsError> {
        for piece in data.chunks(MIB) {
            match writer.write_now(at as u64, piece) {
                Some(outcome) => outcome?,
                None => self.wait(bench, writer.write(at as u64, piece))?,
            }
            at += piece.len();
        }
        Ok(())
    }

    /// Answers all that comes in the background.
    fn clear(&self, bench: &Bench) {
        while self.answer(bench) {}
    }

    fn answer(&self, bench: &Bench) -> bool {
        let gets = bench.client.pending_gets().into_iter().map(|it| it.id);
        let others = bench.client.pending_requests().into_iter().map(|it| it.id);
        let pending: BTreeSet<_> = gets.chain(others).collect();
        let mut seen = self.seen.borrow_mut();
        seen.extend(&pending);
        let hung = seen.iter().nth(self.hangs).copied();
        drop(seen);
        let next = pending.iter().find(|id| Some(**id) != hung);
        next.or_else(|| pending.first())
            .is_some_and(|id| bench.client.finish(*id))
    }
}

/// A failure is final: each later call returns the same error.
fn ends(writer: &Writer, outcome: Result<(), FsError>) -> Result<(), FsError> {
    let again = now(writer.store()).map(drop);
    match (&outcome, &again) {
        (Ok(()), Ok(())) => {}
        (Err(first), Err(second)) => assert_eq!(first.to_string(), second.to_string()),
        (first, second) => panic!("first {first:?}, then {second:?}"),
    }
    outcome
}

#[test]
fn every_fault_at_every_request_is_told_or_does_no_harm() {
    let state = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for workload in WORKLOADS {
        let contents = workload.contents();
        for fault in faults(workload) {
            for is_lasting in [false, true] {
                // A server that denies an upload for ever is believed when the upload is aborted.
                if is_lasting && fault == Fault::Fail(ErrorKind::NoSuchUpload) {
                    continue;
                }
                // The client repeats requests whose failure may pass.
                let passes = [ErrorKind::Throttled, ErrorKind::Conflict].map(Fault::Fail);
                if !is_lasting && passes.contains(&fault) {
                    continue;
                }
                let mut hits = 1..;
                while check(
                    &(workload, &contents),
                    &fault,
                    (hits.next().unwrap(), is_lasting),
                    state.path(),
                    Time::Immediate,
                ) {
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 250, "{cases} cases are not all");
}

/// One request hangs until the client gives it up, and everything else is answered before.
#[test]
fn every_request_that_hangs_is_told_or_does_no_harm() {
    let state = tempfile::tempdir().unwrap();
    let mut cases = 0;
    for workload in WORKLOADS {
        let contents = workload.contents();
        for fault in [
            Fault::Fail(ErrorKind::Transient),
            Fault::FailAfterwards(ErrorKind::Transient),
        ] {
            let mut hits = 1..;
            while check(
                &(workload, &contents),
                &fault,
                (hits.next().unwrap(), false),
                state.path(),
                Time::Manual,
            ) {
                cases += 1;
            }
        }
    }
    assert!(cases > 40, "{cases} cases are not all");
}

/// Whether it holds the first parts of what was written, and no less than there was before.
fn is_beginning(content: Option<&[u8]>, contents: &Contents) -> bool {
    let before = contents.before.as_ref().map_or(1, Vec::len);
    content.is_some_and(|content| content.len() >= before && contents.after.starts_with(content))
}

/// One case; `false` if the workload has fewer requests.
fn check(
    (workload, contents): &(Workload, &Contents),
    fault: &Fault,
    (hit, is_lasting): (u32, bool),
    state: &Path,
    time: Time,
) -> bool {
    let case = format!("{workload:?}, {fault:?} at {hit}, for ever: {is_lasting}, {time:?}");
    let bench = if workload.grows() {
        Bench::growing(state, time)
    } else {
        Bench::with_journal(state, time)
    };
    let desk = Desk::new(hit);
    if let Some(before) = &contents.before {
        bench.client.put_object("key", before.clone());
    }
    let when = if is_lasting {
        When::From(hit)
    } else {
        When::Nth(hit)
    };
    bench.client.add_fault(FaultRule {
        operation: None,
        when,
        fault: fault.clone(),
    });
    let outcome = workload.run(&bench, contents, &desk);
    desk.clear(&bench);
    let log = bench.client.take_log();
    bench.client.clear_faults();
    let content = bench.content();
    if outcome.is_ok() {
        assert!(content.as_ref() == Some(&contents.after), "{case}");
    } else {
        // The server may have done what it did not tell.
        let is_whole = content == contents.before
            || (workload.grows() && is_beginning(content.as_deref(), contents))
            || (content.is_some() && content == contents.between)
            || content.as_ref() == Some(&contents.after);
        assert!(is_whole, "{case}: a part of the file");
    }
    if let Err(error) = &outcome {
        // Nobody else was here.
        let is_said = *fault == Fault::Fail(ErrorKind::PreconditionFailed);
        assert!(!matches!(error, FsError::Exists) || is_said, "{case}");
        let is_own = matches!(fault, Fault::Repeat | Fault::Conflict | Fault::Twice);
        assert!(!is_own || workload.grows(), "{case}: {error}");
    }
    let was_hit = log.records().len() >= hit as usize;
    assert!(was_hit || outcome.is_ok(), "{case}: {outcome:?}");
    // Nobody knows the id of an upload whose beginning was not answered.
    let hits = log.records().iter().skip(hit as usize - 1);
    let hits = hits.take(if is_lasting { usize::MAX } else { 1 });
    let is_lost = matches!(
        fault,
        Fault::FailAfterwards(_) | Fault::Repeat | Fault::Conflict | Fault::Twice
    );
    let unknown = hits.filter(|it| it.operation == Operation::CreateMultipartUpload);
    let unknown = if is_lost { unknown.count() } else { 0 };
    let budget = std::sync::Arc::clone(&bench.budget);
    let client = bench.end();
    assert_eq!(budget.used(), 0, "{case}");
    let next = Bench::next_mount(client, state);
    desk.wait(&next, next.context.recover());
    let left = desk.wait(&next, next.client.list_uploads(""));
    let left = left.unwrap().len();
    assert!(left <= unknown, "{case}: {left} uploads");
    was_hit
}
