//! New files whose beginning is sent while they are written.

mod in_memory;

use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::ObjectClient as _;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, When};

use super::write_back::bytes;
use super::{Bench, MIB, in_both, name, wait, write};
use crate::file::StagedFile;
use crate::operation::FsError;

/// Twenty parts of 5 MiB.
const LEN: usize = 100 * MIB;
const PARTS: usize = 20;

impl Bench {
    /// A file of [`LEN`] bytes of which what is due was sent, and its bytes.
    fn written(&self) -> (StagedFile, Vec<u8>) {
        let file = self.new_file();
        let data = bytes(LEN, 1);
        write(&file, 0, &data).unwrap();
        wait(self.staging.context().writing.drained());
        (file, data)
    }

    fn parts(&self) -> usize {
        self.client.log().count(Operation::UploadPart)
    }

    /// Stores the file. The bucket has it then under the key, and no upload.
    #[track_caller]
    fn check_ahead(&self, file: &StagedFile, key: &str, expected: &[u8]) {
        wait(file.store()).unwrap();
        wait(self.staging.context().writing.drained());
        assert!(self.content(key).unwrap() == expected);
        assert_eq!(wait(self.client.list_uploads("")).unwrap(), []);
    }
}

/// Each part is sent once, when it is full.
#[test]
fn a_long_new_file_is_sent_while_it_is_written() {
    in_both(|| {
        let bench = Bench::new();
        let (file, data) = bench.written();
        assert_eq!(bench.parts(), PARTS);
        assert_eq!(bench.content("key"), None);
        bench.check_ahead(&file, "key", &data);
        assert_eq!(bench.parts(), PARTS);
        let created = bench.client.log().count(Operation::CreateMultipartUpload);
        assert_eq!(created, 1);
    });
}

/// Bytes that were sent and are written again: their part is sent again, and no other one.
#[test]
fn what_is_written_again_is_sent_again() {
    for at in [0, 7 * MIB, 60 * MIB] {
        let bench = Bench::new();
        let (file, mut data) = bench.written();
        let before = bench.parts();
        data[at..at + 10].copy_from_slice(b"0123456789");
        write(&file, at as u64, &data[at..at + 10]).unwrap();
        bench.check_ahead(&file, "key", &data);
        assert_eq!(bench.parts() - before, PARTS - before + 1, "{at}");
    }
}

#[test]
fn a_file_that_becomes_shorter_is_stored_as_it_is() {
    in_both(|| {
        for len in [0, 3, 20 * MIB, LEN - 1] {
            let bench = Bench::new();
            let (file, data) = bench.written();
            wait(file.set_len(len as u64)).unwrap();
            bench.check_ahead(&file, "key", &data[..len]);
        }
    });
}

#[test]
fn what_was_sent_of_a_file_that_is_removed_is_aborted() {
    in_both(|| {
        let bench = Bench::new();
        let (file, _) = bench.written();
        assert!(bench.parts() > 0);
        file.removed();
        wait(file.release()).unwrap();
        drop(file);
        wait(bench.staging.context().writing.drained());
        assert_eq!(wait(bench.client.list_uploads("")).unwrap(), []);
        assert_eq!(bench.content("key"), None);
        assert_eq!(bench.staging.context().writing.journal_entries(), 0);
    });
}

#[test]
fn a_file_that_is_renamed_is_sent_under_its_new_name() {
    let bench = Bench::new();
    let (file, data) = bench.written();
    name(&file, "other");
    bench.check_ahead(&file, "other", &data);
    assert_eq!(bench.content("key"), None);
}

/// A request that fails before the close is sent again by the close.
#[test]
fn s3_may_be_away_until_the_close() {
    in_both(|| {
        for operation in [Operation::CreateMultipartUpload, Operation::UploadPart] {
            let bench = Bench::new();
            bench.client.add_fault(FaultRule {
                operation: Some(operation),
                when: When::From(1),
                fault: Fault::Fail(ErrorKind::Unreachable),
            });
            let (file, data) = bench.written();
            bench.client.clear_faults();
            bench.check_ahead(&file, "key", &data);
        }
    });
}

/// A lifecycle rule aborts the upload of a file that is open for long: all is sent by the close.
#[test]
fn an_upload_that_s3_aborts_meanwhile_begins_anew() {
    let bench = Bench::new();
    let (file, data) = bench.written();
    let uploads = wait(bench.client.list_uploads("")).unwrap();
    wait(bench.client.abort_upload(&uploads[0])).unwrap();
    bench.check_ahead(&file, "key", &data);
    assert_eq!(bench.staging.context().writing.journal_entries(), 0);
}

/// The answer to the completion is lost: the bucket says that it was done.
#[test]
fn a_lost_answer_to_the_completion_is_no_failure() {
    in_both(|| {
        let bench = Bench::new();
        let (file, data) = bench.written();
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::CompleteMultipartUpload),
            when: When::Next(1),
            fault: Fault::FailAfterwards(ErrorKind::Transient),
        });
        bench.check_ahead(&file, "key", &data);
    });
}

/// Another client makes an object meanwhile: the close says so.
#[test]
fn a_conflict_is_told_by_the_close() {
    let bench = Bench::new();
    let (file, _) = bench.written();
    bench.client.put_object("key", "another client's");
    let stored = wait(file.store());
    assert!(matches!(stored, Err(FsError::Exists)), "{stored:?}");
    wait(bench.staging.context().writing.drained());
    assert_eq!(wait(bench.client.list_uploads("")).unwrap(), []);
    assert_eq!(bench.content("key").unwrap(), b"another client's");
    assert_eq!(bench.names("kept").len(), 2);
}

/// A file that is short, that is not written from its first byte on, that has an object, or that is
/// uploaded later anyway.
#[test]
fn nothing_else_is_sent_ahead() {
    let bench = Bench::new();
    let short = bench.new_file();
    write(&short, 0, &bytes(60 * MIB, 1)).unwrap();
    let late = bench.new_file();
    write(&late, 1, &bytes(LEN, 1)).unwrap();
    let old = bench.over(&bench.client.put_object("key", "old"));
    write(&old, 0, &bytes(LEN, 1)).unwrap();
    wait(bench.staging.context().writing.drained());
    assert_eq!(bench.parts(), 0);
    let bench = Bench::write_back(Duration::from_secs(60));
    let (_file, _) = bench.written();
    assert_eq!(bench.parts(), 0);
}
