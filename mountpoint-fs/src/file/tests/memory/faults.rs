//! Every fault at every request of stores: the program is told, or the object is there, whole and
//! right; nothing else appears, nothing is left behind that the next mount does not abort, and a
//! file whose store was refused is stored by the next close.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{
    Fault, FaultRule, Operation, RequestId, RequestRecord, Time, When,
};
use mountpoint_client::types::StoredChecksum;
use mountpoint_client::{ErrorKind, ObjectClient as _, SimClient};

use super::{MIB, Mount, client, pattern, small_parts};
use crate::clock::Clock;
use crate::config::WriteConfig;
use crate::file::StagedFile;
use crate::operation::FsError;

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

/// Bytes of a file of which a part is sent while it is written.
const LONG: usize = 17 * MIB;

const WORKLOADS: [Workload; 14] = [
    Workload::New(0),
    Workload::New(5),
    Workload::New(6 * MIB),
    Workload::New(LONG),
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
    if workload == Workload::New(LONG) {
        // The others end as those of a short one.
        return vec![
            Fault::Fail(ErrorKind::Transient),
            Fault::FailAfterwards(ErrorKind::Transient),
            Fault::Repeat,
            Fault::ConflictEndsUpload,
        ];
    }
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
        let (before, between, after) = match self {
            Self::New(len) => (None, None, pattern(len)),
            Self::Replace(len) => (Some(old(7)), None, pattern(len)),
            Self::GoOn(first, more) | Self::GrowNew(first, more) => {
                (None, Some(pattern(first)), pattern(first + more))
            }
            Self::Append(first, more) | Self::Grow(first, more) => {
                let after = [old(first), pattern(more)].concat();
                (Some(old(first)), None, after)
            }
        };
        Contents {
            before,
            between,
            after,
        }
    }

    fn grows(self) -> bool {
        matches!(self, Self::GrowNew(..) | Self::Grow(..))
    }

    /// Writes and stores the file. Returns it with the outcome.
    fn run(
        self,
        mount: &Mount,
        contents: &Contents,
        desk: &Desk,
    ) -> (StagedFile, Result<(), FsError>) {
        let all = &contents.after;
        let (file, first) = match self {
            Self::New(_) | Self::GoOn(..) | Self::GrowNew(..) => (mount.new_file("key"), 0),
            Self::Replace(_) => {
                let file = mount.over("key");
                desk.wait(mount, file.empty()).unwrap();
                (file, 0)
            }
            Self::Append(first, _) | Self::Grow(first, _) => (mount.over("key"), first),
        };
        if self.grows() {
            file.set_checksum(StoredChecksum::None);
        }
        let mut outcome = Ok(());
        let at = match &contents.between {
            Some(between) => {
                outcome = desk.write(mount, &file, 0, between);
                outcome = outcome.and_then(|()| desk.wait(mount, file.store()));
                between.len()
            }
            None => first,
        };
        outcome = outcome.and_then(|()| desk.write(mount, &file, at, &all[at..]));
        outcome = outcome.and_then(|()| desk.wait(mount, file.store()));
        (file, outcome)
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

    fn wait<T>(&self, mount: &Mount, work: impl Future<Output = T>) -> T {
        let (mut work, clock) = (Box::pin(work), Clock::monotonic());
        let start = clock.now();
        loop {
            if let Some(outcome) = (&mut work).now_or_never() {
                return outcome;
            }
            if !self.answer(mount) {
                // A thread sums or reads bytes.
                assert!(
                    clock.now() < start + Duration::from_secs(60),
                    "nothing is asked, and yet it waits"
                );
                std::thread::sleep(Duration::from_micros(100));
            }
        }
    }

    /// Writes, and waits where the file does.
    fn write(
        &self,
        mount: &Mount,
        file: &StagedFile,
        mut at: usize,
        data: &[u8],
    ) -> Result<(), FsError> {
        for piece in data.chunks(MIB) {
            let data = piece.to_vec().into();
            self.wait(mount, file.write(at as u64, data))?;
            at += piece.len();
        }
        Ok(())
    }

    /// Answers all that comes in the background.
    fn clear(&self, mount: &Mount) {
        self.wait(mount, mount.writing.drained());
    }

    fn answer(&self, mount: &Mount) -> bool {
        let gets = mount.client.pending_gets().into_iter().map(|it| it.id);
        let others = mount.client.pending_requests();
        let others = others.into_iter().map(|it| it.id);
        let pending: BTreeSet<_> = gets.chain(others).collect();
        let mut seen = self.seen.borrow_mut();
        seen.extend(&pending);
        let hung = seen.iter().nth(self.hangs).copied();
        drop(seen);
        let next = pending.iter().find(|id| Some(**id) != hung);
        next.or_else(|| pending.first())
            .is_some_and(|id| mount.client.finish(*id))
    }
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
                    (workload, &contents),
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
                (workload, &contents),
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

/// A mount that notes its uploads in `state`.
fn mount(client: Arc<SimClient>, state: &Path) -> Mount {
    let config = WriteConfig {
        bucket: "bucket".to_owned(),
        state_directory: Some(state.to_owned()),
        allow_append: true,
        incremental_upload: true,
        ..small_parts()
    };
    let mount = Mount::doubting(client, 256 << 20, config);
    mount.writing.believe();
    mount
}

/// One case; `false` if the workload has fewer requests.
fn check(
    (workload, contents): (Workload, &Contents),
    fault: &Fault,
    (hit, is_lasting): (u32, bool),
    state: &Path,
    time: Time,
) -> bool {
    let case = format!("{workload:?}, {fault:?} at {hit}, for ever: {is_lasting}, {time:?}");
    let mount = mount(client(time, workload.grows()), state);
    let desk = Desk::new(hit);
    if let Some(before) = &contents.before {
        mount.client.put_object("key", before.clone());
    }
    mount.client.add_fault(FaultRule {
        operation: None,
        when: match is_lasting {
            true => When::From(hit),
            false => When::Nth(hit),
        },
        fault: fault.clone(),
    });
    let (file, outcome) = workload.run(&mount, contents, &desk);
    desk.clear(&mount);
    let log = mount.client.take_log();
    mount.client.clear_faults();
    check_content(
        (workload, contents),
        mount.content("key"),
        outcome.is_ok(),
        &case,
    );
    if let Err(error) = &outcome {
        // Nobody else was here.
        let is_said = *fault == Fault::Fail(ErrorKind::PreconditionFailed);
        assert!(!matches!(error, FsError::Exists) || is_said, "{case}");
        let is_own = matches!(fault, Fault::Repeat | Fault::Conflict | Fault::Twice);
        assert!(!is_own || workload.grows(), "{case}: {error}");
    }
    let was_hit = log.records().len() >= hit as usize;
    assert!(was_hit || outcome.is_ok(), "{case}: {outcome:?}");
    // The next close, when S3 is well.
    let again = desk.wait(&mount, file.store());
    desk.clear(&mount);
    check_content(
        (workload, contents),
        mount.content("key"),
        again.is_ok() && file.size() == contents.after.len() as u64,
        &case,
    );
    // Nobody knows whose appended bytes are when an answer was lost, and a server that says for
    // ever that there is no object is believed.
    let is_gone = is_lasting && *fault == Fault::Fail(ErrorKind::NotFound);
    let may_end = workload.grows() || is_gone;
    assert!(again.is_ok() || may_end, "{case}: {again:?}");
    drop(file);
    desk.clear(&mount);
    check_end(mount, (fault, hit, is_lasting), log.records(), state, &case);
    was_hit
}

/// A failed store has left what was there, or has done what it did not tell.
#[track_caller]
fn check_content(
    (workload, contents): (Workload, &Contents),
    content: Option<Vec<u8>>,
    is_stored: bool,
    case: &str,
) {
    let is_whole = content.as_ref() == Some(&contents.after);
    assert!(is_whole || !is_stored, "{case}: it is not what was written");
    // An object that grows holds the first parts of what was written, and no less than before.
    let before = contents.before.as_ref().map_or(1, Vec::len);
    let is_beginning = |content: &Vec<u8>| {
        workload.grows() && content.len() >= before && contents.after.starts_with(content)
    };
    let is_left = content == contents.before
        || content.is_some() && content == contents.between
        || content.as_ref().is_some_and(is_beginning);
    assert!(is_whole || is_left, "{case}: a part of the file");
}

/// The mount ends: nothing is held, and the next one aborts what was left.
#[track_caller]
fn check_end(
    mount: Mount,
    (fault, hit, is_lasting): (&Fault, u32, bool),
    records: &[RequestRecord],
    state: &Path,
    case: &str,
) {
    // Nobody knows the id of an upload whose beginning was not answered.
    let hits = records.iter().skip(hit as usize - 1);
    let hits = hits.take(if is_lasting { usize::MAX } else { 1 });
    let is_lost = matches!(
        fault,
        Fault::FailAfterwards(_) | Fault::Repeat | Fault::Conflict | Fault::Twice
    );
    let unknown = hits.filter(|it| it.operation == Operation::CreateMultipartUpload);
    let unknown = if is_lost { unknown.count() } else { 0 };
    let (budget, client) = (Arc::clone(&mount.budget), Arc::clone(&mount.client));
    drop(mount);
    assert_eq!(budget.used(), 0, "{case}");
    let next = self::mount(client, state);
    let desk = Desk::new(u32::MAX);
    desk.wait(&next, next.writing.recover());
    let left = desk.wait(&next, next.client.list_uploads(""));
    let left = left.unwrap().len();
    assert!(left <= unknown, "{case}: {left} uploads");
}
