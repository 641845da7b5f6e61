//! Files in memory alone that outgrow it: what S3 has of them, and what can still be changed.

use mountpoint_client::ErrorKind;
use mountpoint_client::ObjectClient as _;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, When};
use rand::prelude::{Rng as _, SeedableRng as _, StdRng};

use super::super::write_back::bytes;
use super::super::{Bench, IN_MEMORY, MIB, read, wait, write};
use crate::file::StagedFile;
use crate::operation::FsError;

/// Forty parts of 5 MiB.
const LEN: usize = 200 * MIB;
const PARTS: usize = 40;
const PART: usize = 5 * MIB;

/// A bench in memory, and a file of [`LEN`] bytes of which what is due was sent.
fn written() -> (Bench, StagedFile, Vec<u8>) {
    let bench = in_memory();
    let file = bench.new_file();
    let data = bytes(LEN, 1);
    write(&file, 0, &data).unwrap();
    wait(bench.staging.context().writing.drained());
    (bench, file, data)
}

fn in_memory() -> Bench {
    IN_MEMORY.set(true);
    Bench::new()
}

impl Bench {
    fn count_of(&self, operation: Operation) -> usize {
        self.client.log().count(operation)
    }

    fn memory(&self) -> usize {
        usize::try_from(self.staging.context().writing.bytes_held()).unwrap()
    }

    /// Stores the file. The bucket has it then, and no upload.
    #[track_caller]
    fn check_store_of(&self, file: &StagedFile, expected: &[u8]) {
        wait(file.store()).unwrap();
        wait(self.staging.context().writing.drained());
        assert!(self.content("key").unwrap() == expected);
        assert_eq!(wait(self.client.list_uploads("")).unwrap(), []);
    }
}

#[track_caller]
fn check_refused<T: std::fmt::Debug>(outcome: Result<T, FsError>) {
    let is_refused = |error: &FsError| matches!(error, FsError::NotSequential(text) if text.contains("--staging"));
    assert!(outcome.as_ref().is_err_and(is_refused), "{outcome:?}");
}

#[test]
fn a_long_file_takes_little_memory_and_each_part_is_sent_once() {
    let (bench, file, data) = written();
    // The first part, and those that are not sent.
    assert!(bench.memory() <= 4 * PART, "{}", bench.memory());
    bench.check_store_of(&file, &data);
    assert_eq!(bench.count_of(Operation::UploadPart), PARTS);
    drop(file);
    assert_eq!(bench.memory(), 0);
}

/// A header that is written last, an index at the end, and corrections of the newest bytes.
#[test]
fn the_first_part_and_the_newest_bytes_are_written_again() {
    for at in [0, 1000, PART - 10, LEN - 10, LEN - PART] {
        let (bench, file, mut data) = written();
        data[at..at + 10].copy_from_slice(b"0123456789");
        write(&file, at as u64, b"0123456789").unwrap();
        assert_eq!(read(&file, at as u64, 10).unwrap(), b"0123456789");
        write(&file, LEN as u64, b"index").unwrap();
        data.extend_from_slice(b"index");
        bench.check_store_of(&file, &data);
        // The index is one more.
        assert_eq!(bench.count_of(Operation::UploadPart), PARTS + 2, "{at}");
    }
}

#[test]
fn what_nobody_has_any_more_is_neither_changed_nor_read_before_the_store() {
    let (bench, file, data) = written();
    let middle = 100 * MIB as u64;
    check_refused(write(&file, middle, b"x"));
    check_refused(read(&file, middle, 10));
    check_refused(wait(file.zero(middle..middle + 10, true)));
    check_refused(wait(file.set_len(middle + 1)));
    bench.check_store_of(&file, &data);
    assert_eq!(read(&file, middle, 10).unwrap(), data[100 * MIB..][..10]);
    write(&file, middle, b"x").unwrap();
    let mut changed = data;
    changed[100 * MIB] = b'x';
    bench.check_store_of(&file, &changed);
}

#[test]
fn a_long_file_is_cut_between_its_parts_and_in_bytes_that_are_here() {
    for len in [0, 10, PART, PART + PART, LEN - 1] {
        let (bench, file, mut data) = written();
        wait(file.set_len(len as u64)).unwrap();
        data.truncate(len);
        write(&file, len as u64, b"more").unwrap();
        data.extend_from_slice(b"more");
        bench.check_store_of(&file, &data);
    }
}

#[test]
fn a_stream_goes_on_behind_a_synchronisation() {
    let (bench, file, mut data) = written();
    bench.check_store_of(&file, &data);
    let more = bytes(100 * MIB, 2);
    write(&file, LEN as u64, &more).unwrap();
    data.extend_from_slice(&more);
    wait(bench.staging.context().writing.drained());
    assert!(bench.memory() <= 20 * PART, "{}", bench.memory());
    write(&file, data.len() as u64, b"end").unwrap();
    data.extend_from_slice(b"end");
    bench.check_store_of(&file, &data);
    assert!(
        bench.count_of(Operation::UploadPart) <= PARTS + 22,
        "the beginning is copied"
    );
    assert!(bench.count_of(Operation::UploadPartCopy) > 0);
}

/// The server copies the beginning of the version before, and takes bytes in the place of that.
#[test]
fn a_header_is_written_again_behind_a_synchronisation() {
    for (synced, copies) in [(11 * MIB, 1), (20 * MIB, 2), (LEN, 2)] {
        let bench = in_memory();
        let file = bench.new_file();
        let mut data = bytes(synced, 1);
        write(&file, 0, &data).unwrap();
        bench.check_store_of(&file, &data);
        let more = bytes(100 * MIB, 2);
        write(&file, synced as u64, &more).unwrap();
        data.extend_from_slice(&more);
        wait(bench.staging.context().writing.drained());
        assert!(file.has_sent());
        data[5..15].copy_from_slice(b"0123456789");
        write(&file, 5, b"0123456789").unwrap();
        assert_eq!(read(&file, 0, 20).unwrap(), data[..20]);
        bench.check_store_of(&file, &data);
        assert_eq!(
            bench.count_of(Operation::UploadPartCopy),
            copies,
            "{synced}"
        );
    }
}

/// The upload ends, and with it the only copy of some bytes.
#[test]
fn a_long_file_whose_part_is_refused_has_failed() {
    let bench = in_memory();
    let file = bench.new_file();
    let data = bytes(100 * MIB, 1);
    write(&file, 0, &data).unwrap();
    wait(bench.staging.context().writing.drained());
    assert!(file.has_sent());
    bench.client.add_fault(FaultRule {
        operation: Some(Operation::UploadPart),
        when: When::Next(1),
        fault: Fault::Fail(ErrorKind::Denied),
    });
    let mut at = data.len() as u64;
    while write(&file, at, &data[..MIB]).is_ok() {
        at += MIB as u64;
        assert!(at < 200 * MIB as u64, "it has not failed");
    }
    assert!(matches!(wait(file.store()), Err(FsError::Denied(_))));
    assert!(file.failure().is_some());
    wait(bench.staging.context().writing.drained());
    assert_eq!(bench.content("key"), None);
    assert_eq!(wait(bench.client.list_uploads("")).unwrap(), []);
}

/// A file of which all bytes are here is sent again by the next close.
#[test]
fn a_short_file_outlives_a_failed_store() {
    let bench = in_memory();
    let file = bench.new_file();
    // The last part is for the store.
    let data = bytes(21 * MIB, 1);
    write(&file, 0, &data).unwrap();
    for operation in [Operation::UploadPart, Operation::CompleteMultipartUpload] {
        bench.client.add_fault(FaultRule {
            operation: Some(operation),
            when: When::Next(1),
            fault: Fault::Fail(ErrorKind::Throttled),
        });
        wait(file.store()).unwrap_err();
        bench.client.clear_faults();
    }
    bench.check_store_of(&file, &data);
}

#[test]
fn headers_that_change_behind_the_first_part_are_stored() {
    let (bench, file, data) = written();
    let changed = wait(file.change_headers(|headers| {
        headers.content_type = Some("text/x-late".to_owned());
        Ok(())
    }));
    assert!(changed.unwrap());
    bench.check_store_of(&file, &data);
    let headers = bench.client.object("key").unwrap().headers;
    assert_eq!(headers.content_type.as_deref(), Some("text/x-late"));
    assert!(!file.is_changed());
}

/// Streams with changes of bytes that were just written, of the header and of any others, cuts,
/// reads and stores, against plain bytes.
#[test]
fn streams_agree_with_a_model() {
    for seed in 0..6 {
        let bench = in_memory();
        let file = bench.new_file();
        let mut random = StdRng::seed_from_u64(seed);
        let mut expected: Vec<u8> = Vec::new();
        let mut refused = 0;
        for _ in 0..80 {
            let len = expected.len();
            match random.random_range(0..20) {
                0..12 => {
                    let mut data = vec![0; random.random_range(1..6 * MIB)];
                    random.fill(&mut data[..]);
                    write(&file, len as u64, &data).unwrap();
                    expected.extend_from_slice(&data);
                }
                12..16 if len > 0 => {
                    let at = match random.random_range(0..3) {
                        0 => random.random_range(0..len.min(PART)),
                        1 => len - random.random_range(0..len.min(3 * PART)) - 1,
                        _ => random.random_range(0..len),
                    };
                    let mut data = vec![0; random.random_range(1..9000)];
                    random.fill(&mut data[..]);
                    match write(&file, at as u64, &data) {
                        Ok(()) => {
                            expected.resize(len.max(at + data.len()), 0);
                            expected[at..at + data.len()].copy_from_slice(&data);
                        }
                        outcome => {
                            check_refused(outcome);
                            refused += 1;
                        }
                    }
                }
                16 if len > 0 => {
                    let cut = random.random_range(0..len);
                    match wait(file.set_len(cut as u64)) {
                        Ok(()) => expected.truncate(cut),
                        outcome => check_refused(outcome),
                    }
                }
                17 if len > 0 => {
                    let at = random.random_range(0..len);
                    let end = (at + 10_000).min(len);
                    match read(&file, at as u64, end - at) {
                        Ok(found) => assert!(found == expected[at..end], "{at}"),
                        outcome => check_refused(outcome),
                    }
                }
                18 => {
                    let stored = wait(file.store());
                    assert!(stored.is_ok(), "{seed}: {stored:?}");
                    assert!(bench.content("key").unwrap() == expected, "{seed}");
                }
                _ => wait(bench.staging.context().writing.drained()),
            }
            assert_eq!(file.size(), expected.len() as u64);
        }
        bench.check_store_of(&file, &expected);
        assert!(read(&file, 0, MIB).unwrap() == expected[..expected.len().min(MIB)]);
        drop(file);
        assert_eq!(bench.memory(), 0, "{refused} were refused");
    }
}
