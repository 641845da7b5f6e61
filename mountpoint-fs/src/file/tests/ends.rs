//! The ends of a file, against bytes that are written while they are reached: each byte of a
//! successful write is in the bucket, or it is kept and a later close says so.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::FutureExt as _;
use mountpoint_client::SimClient;
use mountpoint_client::testing::sim::{SimOptions, Time};
use tempfile::TempDir;

use super::write_back::LONG;
use super::{Bench, mount, staging_config, wait, write};
use crate::clock::Clock;
use crate::config::{ConflictPolicy, WriteBackConfig};
use crate::file::StagedFile;
use crate::operation::FsError;
use crate::write::Adopts;

/// What another client's object meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// A new file without bytes, for which the object may stand.
    Empty,
    /// A new file.
    New,
    /// A file over an older object.
    Older,
    /// A file over an older object, of an earlier process.
    Recovered,
}

/// When bytes are written that the store in progress does not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteTime {
    /// The first request of the store waits for its answer.
    Asked,
    /// The requests that solve the conflict do.
    Solved,
    /// The store has ended.
    Behind,
}

/// The call that follows the write of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Then {
    Nothing,
    Commit,
}

const FIRST: &[u8] = b"first bytes";
const SECOND: &[u8] = b"second bytes";

impl Bench {
    /// A mount whose requests wait for the test.
    pub(super) fn manual(policy: ConflictPolicy, writes_back: bool) -> Self {
        let options = SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        };
        let client = Arc::new(SimClient::new(options));
        Self::manual_on(TempDir::new().unwrap(), client, (policy, writes_back))
    }

    fn manual_on(
        directory: TempDir,
        client: Arc<SimClient>,
        (policy, writes_back): (ConflictPolicy, bool),
    ) -> Self {
        let mut config = staging_config(&directory, policy);
        config.write_back = writes_back.then_some(WriteBackConfig {
            delay: LONG,
            drain_timeout: LONG,
            is_exclusive: false,
        });
        let staging = mount(&client, &config, None, Clock::monotonic()).unwrap();
        Self {
            client,
            staging,
            events: Arc::default(),
            directory,
        }
    }

    /// Runs `work` to its end, and answers all requests.
    pub(super) fn drive<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            if let Some(outcome) = work.as_mut().now_or_never() {
                return outcome;
            }
            self.client.deliver_all();
            std::thread::yield_now();
        }
    }

    /// Polls `work` until a request waits, or it has ended.
    pub(super) fn until_asked<T>(&self, work: &mut (impl Future<Output = T> + Unpin)) -> Option<T> {
        loop {
            if let Some(outcome) = work.now_or_never() {
                return Some(outcome);
            }
            if !self.client.pending_requests().is_empty() {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// Answers the requests that wait now.
    fn answer(&self) {
        for request in self.client.pending_requests() {
            self.client.finish(request.id);
        }
    }

    /// Whether an object has `bytes`.
    fn has_stored(&self, bytes: &[u8]) -> bool {
        let keys = self.client.keys().into_iter();
        let mut contents = keys.filter_map(|key| self.content(&key));
        contents.any(|content| has(&content, bytes))
    }

    /// Whether a kept version has `bytes`.
    pub(super) fn has_kept(&self, bytes: &[u8]) -> bool {
        let folder = self.directory.path().join("mount-s3-staging/kept");
        let names = self.names("kept").into_iter();
        let mut contents = names.map(|name| std::fs::read(folder.join(name)).unwrap());
        contents.any(|content| has(&content, bytes))
    }
}

fn has(content: &[u8], bytes: &[u8]) -> bool {
    content.windows(bytes.len()).any(|it| it == bytes)
}

/// The file whose store another client's object is about to meet.
fn begin(policy: ConflictPolicy, writes_back: bool, met: Met) -> (Bench, StagedFile) {
    let bench = Bench::manual(policy, writes_back);
    let file = match met {
        Met::Empty => {
            let file = bench.new_file();
            file.may_adopt(Adopts::Any);
            return (bench, file);
        }
        Met::New => bench.new_file(),
        Met::Older | Met::Recovered => {
            let object = bench.client.put_object("key", vec![1; 3000]);
            bench.over(&object)
        }
    };
    wait(file.set_len(0)).unwrap();
    write(&file, 0, FIRST).unwrap();
    if met != Met::Recovered {
        return (bench, file);
    }
    wait(file.commit()).unwrap();
    let client = Arc::clone(&bench.client);
    let next = Bench::manual_on(bench.killed(), client, (policy, writes_back));
    let file = next.staging.recovered()[0].file.clone();
    (next, file)
}

fn check(policy: ConflictPolicy, writes_back: bool, met: Met, (moment, then): (WriteTime, Then)) {
    let context = format!("{policy:?}, write-back {writes_back}, {met:?}, {moment:?}, {then:?}");
    let (bench, file) = begin(policy, writes_back, met);
    let mut store = Box::pin(file.store());
    assert!(bench.until_asked(&mut store).is_none(), "{context}");
    bench.client.put_object("key", "of the other client");
    let mut outcome = None;
    if moment == WriteTime::Solved {
        bench.answer();
        outcome = bench.until_asked(&mut store);
    }
    if moment == WriteTime::Behind {
        outcome = Some(bench.drive(&mut store));
    }
    let written = write(&file, 1000, SECOND);
    let mut commit = Box::pin(file.commit());
    let mut committed = None;
    if then == Then::Commit {
        committed = (&mut commit).now_or_never();
    }
    let stored = outcome.unwrap_or_else(|| bench.drive(store));
    let committed = committed.unwrap_or_else(|| bench.drive(commit));
    let released = bench.drive(file.release());
    assert!(
        bench.drive(bench.staging.drain(LONG)).is_empty(),
        "{context}"
    );
    bench.drive(bench.staging.context().writing.drained());
    let text = [&stored, &committed, &released].map(|it| format!("{it:?}"));
    if met != Met::Empty {
        told(
            &bench,
            FIRST,
            stored.and_then(|()| released.clone()),
            (&context, &text),
        );
    }
    if written.is_ok() {
        told(&bench, SECOND, committed.and(released), (&context, &text));
    } else {
        assert!(matches!(written, Err(FsError::Stale(_))), "{context}");
    }
    if !writes_back {
        return;
    }
    // Nothing is left behind that a later mount would upload.
    bench.drive(bench.staging.end_journal());
    let next = Bench::manual_on(
        bench.killed(),
        Arc::clone(&bench.client),
        (policy, writes_back),
    );
    assert!(next.staging.recovered().is_empty(), "{context}");
}

/// The bytes are in the bucket, or they are kept and an error tells of that.
#[track_caller]
fn told(bench: &Bench, bytes: &[u8], outcome: Result<(), FsError>, context: impl Debug) {
    let is_stored = bench.has_stored(bytes);
    let is_kept = bench.has_kept(bytes);
    assert!(
        is_stored || is_kept && outcome.is_err(),
        "{is_kept} {outcome:?} {context:#?}"
    );
}

#[test]
fn no_end_of_a_file_forgets_what_was_written_meanwhile() {
    use ConflictPolicy::{Fail, KeepBoth, Overwrite};
    for policy in [Fail, KeepBoth, Overwrite] {
        for writes_back in [false, true] {
            for met in [Met::Empty, Met::New, Met::Older, Met::Recovered] {
                if met == Met::Recovered && !writes_back {
                    continue;
                }
                for moment in [WriteTime::Asked, WriteTime::Solved, WriteTime::Behind] {
                    for then in [Then::Nothing, Then::Commit] {
                        check(policy, writes_back, met, (moment, then));
                    }
                }
            }
        }
    }
}

/// The version is kept at the end of the mount while a store is in progress, which succeeds or
/// meets a conflict.
#[test]
fn what_the_end_of_the_mount_keeps_has_all_bytes() {
    for writes_back in [false, true] {
        for is_conflict in [false, true] {
            let (bench, file) = begin(ConflictPolicy::KeepBoth, writes_back, Met::Older);
            let mut store = Box::pin(file.store());
            assert!(bench.until_asked(&mut store).is_none());
            write(&file, 1000, SECOND).unwrap();
            if is_conflict {
                bench.client.put_object("key", "of the other client");
            }
            wait(file.keep_at_end("the mount ends"));
            assert!(bench.has_kept(FIRST) && bench.has_kept(SECOND));
            let stored = bench.drive(store);
            assert_eq!(stored.is_err(), is_conflict, "{stored:?}");
            assert!(wait(file.commit()).is_err());
            // With write-back the committed one as well, whose store may fail.
            assert_eq!(bench.kept().len(), 1 + usize::from(writes_back));
        }
    }
}

#[test]
fn a_file_without_a_name_takes_no_changes_and_loses_none() {
    let bench = Bench::new();
    let changed = bench.new_file();
    write(&changed, 0, FIRST).unwrap();
    wait(changed.lose_name("it means something else"));
    let unchanged = bench.over(&bench.client.put_object("key", vec![1; 100]));
    wait(unchanged.lose_name("it means something else"));
    for (file, is_told) in [(changed, true), (unchanged, false)] {
        assert!(matches!(write(&file, 0, SECOND), Err(FsError::Stale(_))));
        assert_eq!(wait(file.commit()).is_err(), is_told);
        file.removed();
        assert_eq!(wait(file.commit()).is_err(), is_told, "also without a name");
    }
    assert!(bench.has_kept(FIRST));
    assert_eq!(bench.names("kept").len(), 2);
}

/// The disk refuses to note the removal of a file while another thread commits it.
#[test]
fn a_removal_that_fails_loses_no_commit() {
    let bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, FIRST).unwrap();
    wait(file.commit()).unwrap();
    write(&file, 1000, SECOND).unwrap();
    bench
        .staging
        .context()
        .write_back
        .as_ref()
        .unwrap()
        .journal
        .begin_close();
    let mut remove = pin!(file.remove());
    let removed = remove.as_mut().now_or_never();
    let committed = wait(file.commit());
    let removed = removed.unwrap_or_else(|| wait(remove));
    assert!(removed.is_err() && committed.is_err());
    assert!(!file.is_removed() && file.is_changed());
}
