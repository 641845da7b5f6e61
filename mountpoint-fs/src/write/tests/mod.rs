//! Writers over a simulated bucket, in virtual time: what is sent when, and what becomes of faults.

mod fault_matrix;

use std::path::Path;
use std::sync::Arc;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, SimOptions, Time, When};
use mountpoint_client::types::{ChecksumAlgorithm, Key};
use mountpoint_client::{ErrorKind, ObjectClient, SimClient};
use mountpoint_crt_sys::block::BlockPool;

use crate::clock::Clock;
use crate::config::WriteConfig;
use crate::memory::Budget;
use crate::mutate::Mutator;
use crate::operation::{FsError, Progress};
use crate::sync::Mutex;
use crate::write::{Beginning, MemorySource, Stored, WriteContext, WriteObserver, Writer};

pub(super) const MIB: usize = 1 << 20;

/// The reports of a writer.
#[derive(Debug, Default)]
pub(super) struct EventLog(Mutex<Vec<String>>);

impl WriteObserver for EventLog {
    fn resumed(&self) -> Result<(), FsError> {
        self.0.lock().push("resumed".to_owned());
        Ok(())
    }

    fn stored(&self, stored: &Stored) {
        self.0.lock().push(format!("stored {}", stored.size));
    }

    fn adopted(&self) {
        self.0.lock().push("adopted".to_owned());
    }

    fn failed(&self, _: &FsError) {
        self.0.lock().push("failed".to_owned());
    }
}

pub(super) struct Bench {
    pub(super) client: Arc<SimClient>,
    pub(super) context: Arc<WriteContext>,
    pub(super) budget: Arc<Budget>,
    pub(super) clock: Clock,
    told: Arc<EventLog>,
}

impl Bench {
    fn new(time: Time, memory: u64, checksum: Option<ChecksumAlgorithm>) -> Self {
        let config = WriteConfig {
            part_size: Some(5 << 20),
            checksum,
            ..WriteConfig::default()
        };
        Self::with(time, memory, config)
    }

    pub(super) fn with(time: Time, memory: u64, config: WriteConfig) -> Self {
        let options = SimOptions {
            time,
            ..SimOptions::default()
        };
        Self::over(Arc::new(SimClient::new(options)), memory, config)
    }

    /// A mount of `client`'s bucket where it was seen that files may be stored.
    fn over(client: Arc<SimClient>, memory: u64, config: WriteConfig) -> Self {
        let bench = Self::doubting(client, memory, config);
        bench.context.believe();
        bench
    }

    /// A mount of `client`'s bucket that has stored nothing.
    pub(super) fn doubting(client: Arc<SimClient>, memory: u64, config: WriteConfig) -> Self {
        let budget = Budget::new(memory);
        let source = MemorySource {
            budget: Arc::clone(&budget),
            pool: BlockPool::new(0),
            make_room: Arc::new(|| ()),
        };
        let clock = Clock::manual();
        let shared = || Arc::clone(&client) as Arc<dyn ObjectClient>;
        let mutator = Mutator::new(shared(), &config, clock.clone());
        let context = WriteContext::new(shared(), config, clock.clone(), source, mutator);
        // As after the first copy. Those of a server that is not known are in
        // `fs/tests/other_servers.rs`.
        context.send.features.learn_copies(true);
        Self {
            client,
            context,
            budget,
            clock,
            told: Arc::default(),
        }
    }

    /// How a file begins that replaces what is there.
    pub(super) fn replacing(&self) -> Beginning {
        assert!(self.client.object("key").is_some());
        Beginning::Replace
    }

    pub(super) fn immediate() -> Self {
        Self::new(Time::Immediate, 256 << 20, Some(ChecksumAlgorithm::Crc32c))
    }

    /// With a journal of uploads in `state`.
    pub(super) fn with_journal(state: &Path, time: Time) -> Self {
        let options = SimOptions {
            time,
            ..SimOptions::default()
        };
        Self::next_mount(Arc::new(SimClient::new(options)), state)
    }

    /// Of a directory bucket, where files are appended to part by part.
    pub(super) fn growing(state: &Path, time: Time) -> Self {
        let options = SimOptions {
            time,
            directory_bucket: true,
            ..SimOptions::default()
        };
        Self::next_mount(Arc::new(SimClient::new(options)), state)
    }

    /// The next mount of the same bucket.
    pub(super) fn next_mount(client: Arc<SimClient>, state: &Path) -> Self {
        let config = WriteConfig {
            part_size: Some(5 << 20),
            checksum: Some(ChecksumAlgorithm::Crc32c),
            bucket: "bucket".to_owned(),
            state_directory: Some(state.to_owned()),
            allow_append: true,
            incremental_upload: true,
            ..WriteConfig::default()
        };
        Self::over(client, 256 << 20, config)
    }

    /// The mount is gone, the bucket stays.
    pub(super) fn end(self) -> Arc<SimClient> {
        self.client
    }

    pub(super) fn manual(memory: u64) -> Self {
        Self::new(Time::Manual, memory, Some(ChecksumAlgorithm::Crc64Nvme))
    }

    pub(super) fn writer(&self, beginning: Beginning) -> Arc<Writer> {
        self.writer_of("key", beginning)
    }

    pub(super) fn writer_of(&self, key: &str, beginning: Beginning) -> Arc<Writer> {
        let progress = Arc::new(Progress::new(0, Clock::manual().wall()));
        let observer = Arc::clone(&self.told) as Arc<dyn WriteObserver>;
        let key = Key::parse(key).unwrap();
        Writer::new(&self.context, key, beginning, progress, observer)
    }

    pub(super) fn content(&self) -> Option<Vec<u8>> {
        Some(self.client.object("key")?.content.to_vec())
    }

    pub(super) fn uploads(&self) -> usize {
        let open = self.client.list_uploads("");
        open.now_or_never().map_or(0, |open| open.unwrap().len())
    }

    pub(super) fn told(&self) -> Vec<String> {
        std::mem::take(&mut self.told.0.lock())
    }

    pub(super) fn pending(&self) -> Vec<Operation> {
        let pending = self.client.pending_requests();
        pending.iter().map(|request| request.operation).collect()
    }
}

pub(super) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 253).unwrap()).collect()
}

/// Writes that need not wait.
#[track_caller]
pub(super) fn write(writer: &Writer, offset: usize, data: &[u8]) -> Result<(), FsError> {
    let mut at = offset;
    for piece in data.chunks(MIB) {
        writer
            .write_now(at as u64, piece)
            .expect("there is memory")?;
        at += piece.len();
    }
    Ok(())
}

#[track_caller]
pub(super) fn now<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("it does not wait")
}

#[test]
fn every_length_is_stored_as_it_was_written() {
    for algorithm in [
        None,
        Some(ChecksumAlgorithm::Crc32c),
        Some(ChecksumAlgorithm::Crc64Nvme),
    ] {
        for len in [
            0,
            1,
            4096,
            65_537,
            5 * MIB - 1,
            5 * MIB,
            5 * MIB + 1,
            10 * MIB,
            12 * MIB + 7,
        ] {
            for piece in [MIB, 999_983] {
                let bench = Bench::new(Time::Immediate, 256 << 20, algorithm);
                let content = pattern(len);
                let writer = bench.writer(Beginning::New);
                let mut at = 0;
                for piece in content.chunks(piece) {
                    write(&writer, at, piece).unwrap();
                    at += piece.len();
                }
                assert!(bench.content().is_none());
                assert_eq!(now(writer.store()).unwrap().size, len as u64);
                assert!(bench.content().unwrap() == content, "{len} by {piece}");
                assert_eq!(bench.told(), [format!("stored {len}")]);
                let log = bench.client.take_log();
                let parts = if len < 5 * MIB {
                    0
                } else {
                    len.div_ceil(5 * MIB)
                };
                assert_eq!(log.count(Operation::UploadPart), parts, "{len}");
                assert_eq!(log.count(Operation::PutObject), usize::from(parts == 0));
                drop(writer);
                assert_eq!((bench.budget.used(), bench.uploads()), (0, 0));
            }
        }
    }
}

#[test]
fn parts_are_sent_in_parallel_and_the_object_is_made_when_all_are_there() {
    let bench = Bench::manual(256 << 20);
    let writer = bench.writer(Beginning::New);
    write(&writer, 0, &pattern(16 * MIB)).unwrap();
    assert_eq!(bench.pending(), [Operation::CreateMultipartUpload]);
    let first = bench.client.pending_requests()[0].id;
    bench.client.finish(first);
    assert_eq!(bench.pending(), [Operation::UploadPart; 3]);
    let mut stored = Box::pin(writer.store());
    assert!((&mut stored).now_or_never().is_none());
    assert_eq!(bench.pending(), [Operation::UploadPart; 4]);
    // In any order.
    for request in bench.client.pending_requests().into_iter().rev() {
        assert!(bench.content().is_none());
        bench.client.finish(request.id);
    }
    // Whether somebody else has made it meanwhile.
    assert_eq!(bench.pending(), [Operation::HeadObject]);
    bench.client.finish(bench.client.pending_requests()[0].id);
    assert_eq!(bench.pending(), [Operation::CompleteMultipartUpload]);
    // The waiting thread may be interrupted: the store continues.
    drop(stored);
    bench.client.deliver_all();
    assert!(bench.content().unwrap() == pattern(16 * MIB));
    assert_eq!(bench.told(), ["stored 16777216"]);
    assert_eq!(now(writer.store()).unwrap().size, 16 << 20);
    assert!(bench.pending().is_empty());
}

#[test]
fn a_writer_waits_for_memory_and_one_that_gives_up_has_changed_nothing() {
    // 8 MiB of it are for reads, and 6 for a whole part.
    let bench = Bench::manual(24 << 20);
    let (first, second) = (bench.writer(Beginning::New), bench.writer(Beginning::New));
    write(&first, 0, &pattern(5 * MIB)).unwrap();
    let data = pattern(MIB);
    let mut at = 0;
    while let Some(written) = second.write_now(at, &data) {
        written.unwrap();
        at += data.len() as u64;
        assert!(at < 64 << 20, "memory has an end");
    }
    let mut waiting = Box::pin(second.write(at, &data));
    assert!((&mut waiting).now_or_never().is_none());
    drop(waiting);
    let mut waiting = Box::pin(second.write(at, &data));
    assert!((&mut waiting).now_or_never().is_none());
    // The parts of both are sent, and their memory is free.
    for _ in 0..8 {
        for request in bench.client.pending_requests() {
            bench.client.finish(request.id);
        }
    }
    now(waiting).unwrap();
    assert!(bench.context.bytes_held() <= 16 << 20);
}

#[test]
fn the_first_failure_is_final_and_nothing_stays() {
    let kinds = [
        ErrorKind::Denied,
        ErrorKind::Transient,
        ErrorKind::InvalidResponse,
    ];
    for kind in kinds {
        for operation in [
            Operation::CreateMultipartUpload,
            Operation::UploadPart,
            Operation::CompleteMultipartUpload,
        ] {
            let bench = Bench::immediate();
            let writer = bench.writer(Beginning::New);
            bench.client.fail_next(operation, 1, kind.clone());
            let written = write(&writer, 0, &pattern(11 * MIB));
            let outcome = written.and_then(|()| now(writer.store()).map(drop));
            let error = outcome.unwrap_err().to_string();
            for _ in 0..2 {
                let again = now(writer.store()).unwrap_err().to_string();
                assert_eq!(again, error);
                let write = write(&writer, 11 * MIB, b"x").unwrap_err().to_string();
                assert_eq!(write, error);
            }
            assert!(bench.content().is_none(), "{operation:?}");
            assert_eq!(bench.uploads(), 0, "{operation:?} {kind:?}");
            drop(writer);
            assert_eq!(bench.budget.used(), 0);
        }
        let bench = Bench::immediate();
        let writer = bench.writer(Beginning::New);
        bench
            .client
            .fail_next(Operation::PutObject, 1, kind.clone());
        write(&writer, 0, b"hello").unwrap();
        now(writer.store()).unwrap_err();
        now(writer.store()).unwrap_err();
        assert_eq!(
            (bench.content(), bench.told()),
            (None, vec!["failed".to_owned()])
        );
    }
}

#[test]
fn what_somebody_else_made_is_not_replaced() {
    for len in [5, 6 * MIB] {
        let bench = Bench::immediate();
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, &pattern(len)).unwrap();
        bench.client.put_object("key", "theirs");
        assert!(matches!(now(writer.store()), Err(FsError::Exists)));
        assert_eq!(bench.content().unwrap(), b"theirs");
        let writer = bench.writer(bench.replacing());
        write(&writer, 0, &pattern(len)).unwrap();
        now(writer.store()).unwrap();
        assert!(bench.content().unwrap() == pattern(len));
    }
}

#[test]
fn a_stored_file_goes_on() {
    let bench = Bench::immediate();
    let content = pattern(23 * MIB);
    let writer = bench.writer(Beginning::New);
    let mut at = 0;
    for end in [
        3,
        3,
        70_000,
        4 * MIB,
        6 * MIB,
        7 * MIB,
        22 * MIB,
        content.len(),
    ] {
        write(&writer, at, &content[at..end]).unwrap();
        at = end;
        assert_eq!(now(writer.store()).unwrap().size, at as u64);
        assert!(bench.content().unwrap() == content[..at], "{at}");
    }
    let log = bench.client.take_log();
    // 3, 70,000 and 4 MiB are put; then it is one upload, and three more that begin with a copy.
    assert_eq!(log.count(Operation::PutObject), 3);
    assert_eq!(log.count(Operation::UploadPartCopy), 3);
    assert_eq!(bench.told().iter().filter(|it| *it == "resumed").count(), 6);
    assert_eq!(bench.uploads(), 0);
}

#[test]
fn bytes_go_behind_an_object_that_is_there() {
    let old = pattern(9 * MIB);
    // Too small to be a part, and large enough to be copied; with nothing new, a little, and whole
    // parts.
    for size in [3, 70_000, 5 * MIB - 1, 6 * MIB] {
        for new in [0, 5, 12 * MIB] {
            let bench = Bench::immediate();
            let object = bench.client.put_object("key", old[..size].to_vec());
            let stored = Stored {
                etag: object.etag,
                size: size as u64,
            };
            let is_small = size < 5 * MIB;
            let beginning = if is_small {
                Beginning::Extend(stored)
            } else {
                Beginning::Append(stored)
            };
            let writer = bench.writer(beginning);
            if is_small {
                for piece in old[..size].chunks(MIB) {
                    now(writer.preload(piece)).unwrap();
                }
            }
            write(&writer, size, &pattern(new)).unwrap();
            now(writer.store()).unwrap();
            let expected = [&old[..size], &pattern(new)].concat();
            assert!(bench.content().unwrap() == expected, "{size} {new}");
            let log = bench.client.take_log();
            assert_eq!(log.records().is_empty(), new == 0, "{size}");
            assert_eq!(bench.uploads(), 0);
        }
    }
    // Somebody else replaces it meanwhile.
    for size in [3, 6 * MIB] {
        let bench = Bench::immediate();
        let object = bench.client.put_object("key", old[..size].to_vec());
        let stored = Stored {
            etag: object.etag,
            size: size as u64,
        };
        let writer = bench.writer(match size {
            3 => Beginning::Extend(stored),
            _ => Beginning::Append(stored),
        });
        if size == 3 {
            now(writer.preload(&old[..3])).unwrap();
        }
        bench.client.put_object("key", "theirs");
        let outcome = write(&writer, size, b"new").and_then(|()| now(writer.store()).map(drop));
        outcome.unwrap_err();
        assert_eq!(bench.content().unwrap(), b"theirs");
    }
}

/// The bytes of a server that ignores `If-Match` are looked at before they are replaced.
#[test]
fn a_changed_object_is_not_replaced_where_conditions_are_ignored() {
    for (size, request) in [
        (3, Operation::PutObject),
        (200 << 10, Operation::PutObject),
        (6 * MIB, Operation::CompleteMultipartUpload),
    ] {
        let bench = Bench::immediate();
        bench.context.send.mutator.believe(false);
        bench.client.add_fault(FaultRule {
            operation: Some(request),
            when: When::Every(1),
            fault: Fault::IgnoreVersions,
        });
        let old = pattern(size);
        for is_replaced in [false, true] {
            let object = bench.client.put_object("key", old.clone());
            let stored = Stored {
                etag: object.etag,
                size: size as u64,
            };
            let writer = bench.writer(match size < 5 * MIB {
                true => Beginning::Extend(stored),
                false => Beginning::Append(stored),
            });
            if size < 5 * MIB {
                now(writer.preload(&old)).unwrap();
            }
            write(&writer, size, b"new").unwrap();
            if is_replaced {
                bench.client.put_object("key", "theirs");
            }
            let outcome = now(writer.store());
            assert_eq!(outcome.is_err(), is_replaced, "{size}: {outcome:?}");
            let expected = match is_replaced {
                true => b"theirs".to_vec(),
                false => [&old[..], b"new"].concat(),
            };
            assert!(bench.content().unwrap() == expected, "{size}");
        }
    }
}

#[test]
fn a_server_that_takes_neither_conditions_nor_checksums_gets_none() {
    for len in [5, 11 * MIB] {
        let bench = Bench::immediate();
        // As a server does that says 501 to the header, each time it is sent.
        for operation in [Operation::PutObject, Operation::CreateMultipartUpload] {
            bench.client.fail_next(operation, 1, ErrorKind::Unsupported);
        }
        bench.client.fail_next(
            Operation::CompleteMultipartUpload,
            1,
            ErrorKind::Unsupported,
        );
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, &pattern(len)).unwrap();
        now(writer.store()).unwrap();
        assert!(bench.content().unwrap() == pattern(len));
    }
}

#[test]
fn a_write_that_is_not_the_next_bytes_fails_the_file() {
    for (before, offset) in [(5, 0_u64), (5, 4), (20 * MIB, 0)] {
        let bench = Bench::immediate();
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, &pattern(before)).unwrap();
        let is_refused =
            |error: FsError| matches!(error, FsError::NotSequential(text) if text.contains("key"));
        assert!(is_refused(now(writer.write(offset, b"x")).unwrap_err()));
        assert!(is_refused(write(&writer, before, b"x").unwrap_err()));
        assert!(is_refused(now(writer.store()).unwrap_err()));
        assert_eq!(bench.content(), None);
        assert_eq!(bench.uploads(), 0);
    }
}

/// An upload that this mount has aborted itself is gone, too: that it is gone does not say that it
/// was completed.
#[test]
fn an_upload_that_was_given_up_while_it_was_completed_is_not_taken_for_done() {
    let bench = Bench::manual(256 << 20);
    bench.client.put_object("key", vec![7; 11 * MIB]);
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::CompleteMultipartUpload),
        when: When::Next(1),
        fault: Fault::Repeat,
    });
    let writer = bench.writer(bench.replacing());
    write(&writer, 0, &pattern(11 * MIB)).unwrap();
    let mut storing = Box::pin(writer.store());
    assert!((&mut storing).now_or_never().is_none());
    let pending = |operation| {
        let requests = bench.client.pending_requests();
        let same = requests.iter().find(|it| it.operation == operation);
        same.map(|it| it.id)
    };
    while pending(Operation::CompleteMultipartUpload).is_none() {
        bench.client.finish(bench.client.pending_requests()[0].id);
    }
    let mut given_up = Box::pin(writer.abandon(&FsError::ReadOnly));
    assert!((&mut given_up).now_or_never().is_none());
    let abort = pending(Operation::AbortMultipartUpload).expect("it is aborted");
    bench.client.finish(abort);
    bench.client.deliver_all();
    now(given_up);
    let stored = now(storing);
    assert!(stored.is_err(), "{stored:?}");
    assert!(bench.content().unwrap() == vec![7; 11 * MIB]);
}

/// A server that completes and whose answer makes no sense.
#[test]
fn a_completion_that_was_done_is_seen_to_be_done() {
    for (fault, is_stored) in [
        (Fault::FailAfterwards(ErrorKind::InvalidResponse), true),
        (Fault::Fail(ErrorKind::InvalidResponse), false),
        (Fault::Repeat, true),
    ] {
        let bench = Bench::immediate();
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::CompleteMultipartUpload),
            when: When::Next(1),
            fault: fault.clone(),
        });
        let writer = bench.writer(Beginning::New);
        write(&writer, 0, &pattern(11 * MIB)).unwrap();
        let stored = now(writer.store());
        assert_eq!(stored.is_ok(), is_stored, "{fault:?} {stored:?}");
        let is_there = bench
            .content()
            .is_some_and(|content| content == pattern(11 * MIB));
        assert_eq!((is_there, bench.uploads()), (is_stored, 0), "{fault:?}");
    }
}

/// The upload is gone, its completion was answered with nonsense, and the object has the right
/// size: it is the one that was to be replaced, because somebody has aborted the upload.
#[test]
fn an_old_object_of_the_same_size_is_not_taken_for_the_new_one() {
    for takes_conditions in [true, false] {
        let bench = Bench::manual(256 << 20);
        bench.client.put_object("key", vec![7; 11 * MIB]);
        // A server that takes no conditions is told by its first refusal.
        let writer = if takes_conditions {
            bench.writer(bench.replacing())
        } else {
            let etag = bench.client.object("key").unwrap().etag;
            bench.writer(Beginning::Extend(Stored { etag, size: 0 }))
        };
        write(&writer, 0, &pattern(11 * MIB)).unwrap();
        let mut storing = Box::pin(writer.store());
        let mut refusals = if takes_conditions { 0 } else { 1 };
        let completion = loop {
            waits(&mut storing);
            let requests = bench.client.pending_requests();
            let next = &requests[0];
            if next.operation != Operation::CompleteMultipartUpload {
                bench.client.finish(next.id);
            } else if refusals > 0 {
                refusals -= 1;
                bench.client.fail(next.id, ErrorKind::Unsupported);
            } else {
                break next.id;
            }
        };
        let mut uploads = bench.client.list_uploads("");
        waits(&mut uploads);
        let last = || bench.client.pending_requests().last().unwrap().id;
        bench.client.finish(last());
        let uploads = now(uploads).unwrap();
        let mut aborting = bench.client.abort_upload(&uploads[0]);
        waits(&mut aborting);
        bench.client.finish(last());
        now(aborting).unwrap();
        bench.client.fail(completion, ErrorKind::InvalidResponse);
        bench.client.deliver_all();
        let stored = now(storing);
        assert!(stored.is_err(), "{takes_conditions}: {stored:?}");
    }
}

/// A future that waits.
#[track_caller]
fn waits<T>(future: &mut (impl Future<Output = T> + Unpin)) {
    assert!(future.now_or_never().is_none(), "it waits");
}

/// A server may keep no condition of a completion, whatever was there when the file was made: it is
/// asked before, until it has kept one.
#[test]
fn what_is_there_is_not_replaced_by_a_completion() {
    let bench = Bench::immediate();
    let store = |key| {
        drop(bench.client.take_log());
        let writer = bench.writer_of(key, Beginning::New);
        write(&writer, 0, &pattern(6 * MIB)).unwrap();
        let stored = now(writer.store());
        let log = bench.client.log();
        let asked = log.count(Operation::HeadObject);
        (stored, asked, log.count(Operation::CompleteMultipartUpload))
    };
    // The first completion is followed by a HEAD that compares the ETag.
    assert!(matches!(store("a"), (Ok(_), 2, 1)));
    bench.client.put_object("there", "theirs");
    assert!(matches!(store("there"), (Err(FsError::Exists), 1, 0)));
    assert!(matches!(store("b"), (Ok(_), 1, 1)));
    // Another host is faster between question and completion.
    let fault = FaultRule {
        operation: Some(Operation::CompleteMultipartUpload),
        when: When::Next(1),
        fault: Fault::Fail(ErrorKind::PreconditionFailed),
    };
    bench.client.add_fault(fault);
    assert!(matches!(store("c"), (Err(FsError::Exists), 1, 1)));
    assert!(matches!(store("there"), (Err(FsError::Exists), 0, 1)));
    assert!(matches!(store("d"), (Ok(_), 0, 1)));
    let theirs = bench.client.object("there").unwrap().content;
    assert_eq!(theirs.to_vec(), b"theirs");
    assert_eq!(bench.uploads(), 0);
}
