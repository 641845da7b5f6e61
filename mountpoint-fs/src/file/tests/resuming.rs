//! Uploads in parts that were cut off: the next attempt sends what S3 does not have.

use std::sync::Arc;

use bytes::Bytes;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, When};
use mountpoint_client::types::{Key, ObjectHeaders, PartNumber, Upload};
use mountpoint_client::{ErrorKind, ObjectClient as _};

use super::write_back::{LONG, bytes};
use super::{Bench, MIB, name, wait, write};
use crate::file::StagedFile;
use crate::file::local::DataFiles;
use crate::file::store::{checkpoint_file, find_checkpoint};
use crate::write::{BegunUpload, CheckpointStore as _};

/// Five parts of 5 MiB, the last one shorter.
const LEN: usize = 23 * MIB;

impl Bench {
    /// A file whose upload S3 went away from, when it had two parts.
    fn cut(&self) -> StagedFile {
        let file = self.new_file();
        write(&file, 0, &bytes(LEN, 1)).unwrap();
        wait(file.commit()).unwrap();
        self.cut_store(&file, 2);
        file
    }

    /// Stores the file, and S3 goes away behind so many parts: the first ones that it lacks.
    #[track_caller]
    fn cut_store(&self, file: &StagedFile, parts: u32) {
        // An upload that is begun already sends its parts in their order.
        for parts in [0, parts] {
            for operation in [Operation::UploadPart, Operation::UploadPartCopy] {
                self.client.add_fault(FaultRule {
                    operation: Some(operation),
                    when: When::From(parts + 1),
                    fault: Fault::Fail(ErrorKind::Unreachable),
                });
            }
            wait(file.store()).unwrap_err();
            self.client.clear_faults();
            self.idle();
        }
        drop(self.client.take_log());
    }

    /// Returns when nothing runs in the background.
    fn idle(&self) {
        wait(self.staging.context().writing.drained());
    }

    /// The requests of each kind since the last call.
    fn sent(&self, operation: Operation) -> usize {
        self.client.log().count(operation)
    }

    fn uploads(&self) -> Vec<Upload> {
        wait(self.client.list_uploads("")).unwrap()
    }

    /// The bucket has the file, and nothing else: no upload, and no checkpoint.
    #[track_caller]
    fn check_stored(&self, expected: &[u8], context: &str) {
        self.drain();
        self.idle();
        assert!(self.content("key").unwrap() == expected, "{context}");
        assert_eq!(self.uploads(), [], "{context}");
        assert_eq!(self.checkpoints(), [""; 0], "{context}");
    }

    fn checkpoints(&self) -> Vec<String> {
        let mut names = self.names("files");
        names.retain(|name| name.ends_with(".u"));
        names
    }
}

#[test]
fn an_attempt_behind_an_outage_sends_the_missing_parts() {
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    wait(file.store()).unwrap();
    assert_eq!(bench.sent(Operation::UploadPart), 3);
    assert_eq!(bench.sent(Operation::CreateMultipartUpload), 0);
    bench.check_stored(&bytes(LEN, 1), "the same process");
}

#[test]
fn a_mount_behind_a_kill_sends_the_missing_parts() {
    let bench = Bench::write_back(LONG);
    drop(bench.cut());
    let next = bench.restart(LONG).unwrap();
    next.check_stored(&bytes(LEN, 1), "after a kill");
    assert_eq!(next.sent(Operation::UploadPart), 3);
    assert_eq!(next.sent(Operation::ListParts), 1);
    assert_eq!(next.sent(Operation::CreateMultipartUpload), 0);
}

/// Each kill leaves what the mounts before it have sent.
#[test]
fn many_kills_send_each_part_once() {
    let mut bench = Bench::write_back(LONG);
    let file = bench.new_file();
    write(&file, 0, &bytes(LEN, 1)).unwrap();
    wait(file.commit()).unwrap();
    bench.cut_store(&file, 1);
    for _ in 0..3 {
        bench = bench.restart(LONG).unwrap();
        let recovered = bench.staging.recovered();
        bench.cut_store(&recovered[0].file, 1);
    }
    bench = bench.restart(LONG).unwrap();
    bench.check_stored(&bytes(LEN, 1), "after four kills");
    assert_eq!(bench.sent(Operation::UploadPart), 1);
}

/// A part whose bytes changed is sent again, and no other one.
#[test]
fn changes_behind_the_cut_send_their_parts_again() {
    let parts_of = [(0, 4), (7 * MIB, 4), (12 * MIB, 3), (4 * MIB, 5)];
    for (at, parts) in parts_of {
        for is_killed in [false, true] {
            let context = format!("{at} {is_killed}");
            let bench = Bench::write_back(LONG);
            let file = bench.cut();
            let mut expected = bytes(LEN, 1);
            let changed = &mut expected[at..at + 2 * MIB];
            changed.copy_from_slice(&bytes(2 * MIB, 77));
            write(&file, at as u64, changed).unwrap();
            wait(file.commit()).unwrap();
            let bench = match is_killed {
                true => bench.restart(LONG).unwrap(),
                false => bench,
            };
            bench.check_stored(&expected, &context);
            assert_eq!(bench.sent(Operation::UploadPart), parts, "{context}");
        }
    }
}

/// An upload that S3 has forgotten begins anew.
#[test]
fn an_upload_that_is_gone_begins_anew() {
    for is_killed in [false, true] {
        let bench = Bench::write_back(LONG);
        let file = bench.cut();
        wait(bench.client.abort_upload(&bench.uploads()[0])).unwrap();
        let bench = match is_killed {
            true => bench.restart(LONG).unwrap(),
            false => bench,
        };
        drop(file);
        bench.check_stored(&bytes(LEN, 1), "gone");
        assert_eq!(bench.sent(Operation::UploadPart), 5);
    }
}

/// A part counts only with the tag that S3 says, and only if S3 may be asked.
#[test]
fn parts_that_s3_has_otherwise_are_sent_again() {
    let bench = Bench::write_back(LONG);
    drop(bench.cut());
    let other = Bytes::from(bytes(5 * MIB, 9));
    let upload = &bench.uploads()[0];
    wait(bench.client.put_part(upload, PartNumber(2), other, None)).unwrap();
    drop(bench.client.take_log());
    let next = bench.restart(LONG).unwrap();
    next.check_stored(&bytes(LEN, 1), "another part");
    assert_eq!(next.sent(Operation::UploadPart), 4);
    let bench = Bench::write_back(LONG);
    drop(bench.cut());
    bench
        .client
        .fail_next(Operation::ListParts, 1, ErrorKind::Denied);
    let next = bench.restart(LONG).unwrap();
    next.check_stored(&bytes(LEN, 1), "not listed");
    assert_eq!(next.sent(Operation::UploadPart), 5);
}

/// A server that lists parts and then refuses them: everything is sent again.
#[test]
fn a_completion_that_is_refused_begins_anew() {
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    bench.client.fail_next(
        Operation::CompleteMultipartUpload,
        1,
        ErrorKind::InvalidRequest,
    );
    wait(file.store()).unwrap_err();
    bench.idle();
    assert_eq!(bench.uploads(), []);
    drop(bench.client.take_log());
    wait(file.store()).unwrap();
    assert_eq!(bench.sent(Operation::UploadPart), 5);
    bench.check_stored(&bytes(LEN, 1), "refused");
}

/// The completion was done, and the process was killed before it knew: no part is sent again.
#[test]
fn an_upload_that_was_completed_is_recognised_without_sending_parts() {
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    let killed = bench.killed();
    wait(file.store()).unwrap();
    bench.idle();
    drop(bench.client.take_log());
    let next = Bench::on(killed, Arc::clone(&bench.client), LONG).unwrap();
    next.check_stored(&bytes(LEN, 1), "completed");
    assert_eq!(next.sent(Operation::UploadPart), 0);
    assert_eq!(next.names("kept"), [""; 0]);
}

/// As S3 goes away during the completion: the parts stay, and are completed later. A bucket that
/// can be asked says at once whether the completion was done.
#[test]
fn a_completion_that_was_not_answered_is_tried_again() {
    let lost = || Fault::FailAfterwards(ErrorKind::Transient);
    for (fault, is_away, is_stored) in [
        (Fault::Fail(ErrorKind::Transient), false, false),
        (Fault::Fail(ErrorKind::Transient), true, false),
        (lost(), false, true),
        (lost(), true, false),
    ] {
        let context = format!("{fault:?} {is_away}");
        let bench = Bench::write_back(LONG);
        let file = bench.cut();
        bench.client.add_fault(FaultRule {
            operation: Some(Operation::CompleteMultipartUpload),
            when: When::Next(1),
            fault,
        });
        if is_away {
            bench.client.add_fault(FaultRule {
                operation: Some(Operation::HeadObject),
                // The first one is sent before the completion.
                when: When::Nth(2),
                fault: Fault::Fail(ErrorKind::Unreachable),
            });
        }
        assert_eq!(wait(file.store()).is_ok(), is_stored, "{context}");
        drop(bench.client.take_log());
        wait(file.store()).unwrap();
        assert_eq!(bench.sent(Operation::UploadPart), 0, "{context}");
        assert_eq!(bench.sent(Operation::CreateMultipartUpload), 0, "{context}");
        bench.check_stored(&bytes(LEN, 1), &context);
    }
}

/// A user that may not list parts: the abort tells whether the completion was done.
#[test]
fn a_completion_that_only_an_abort_settles_is_settled() {
    for (fault, is_stored) in [
        (Fault::Fail(ErrorKind::Transient), false),
        (Fault::FailAfterwards(ErrorKind::Transient), true),
    ] {
        let context = format!("{fault:?}");
        let bench = Bench::write_back(LONG);
        let file = bench.new_file();
        write(&file, 0, &bytes(LEN, 1)).unwrap();
        wait(file.commit()).unwrap();
        for (operation, fault) in [
            (Operation::CompleteMultipartUpload, fault),
            (Operation::ListParts, Fault::Fail(ErrorKind::Denied)),
        ] {
            bench.client.add_fault(FaultRule {
                operation: Some(operation),
                when: When::Next(1),
                fault,
            });
        }
        assert_eq!(wait(file.store()).is_ok(), is_stored, "{context}");
        bench.check_stored(&bytes(LEN, 1), &context);
    }
}

/// Headers and key belong to the upload.
#[test]
fn another_key_or_other_headers_begin_anew() {
    for is_renamed in [false, true] {
        let bench = Bench::write_back(LONG);
        let file = bench.cut();
        if is_renamed {
            name(&file, "other");
        } else {
            wait(file.change_headers(|headers: &mut ObjectHeaders| {
                headers.metadata.push(("a".to_owned(), "b".to_owned()));
                Ok(())
            }))
            .unwrap();
        }
        wait(file.store()).unwrap();
        bench.idle();
        assert_eq!(bench.sent(Operation::UploadPart), 5, "{is_renamed}");
        assert_eq!(bench.uploads(), [], "{is_renamed}");
    }
}

/// No part stays in the bucket of a file that is not stored in the end.
#[test]
fn an_upload_that_nobody_continues_is_aborted() {
    // Removed.
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    wait(file.remove()).unwrap();
    bench.idle();
    assert_eq!(bench.uploads(), []);
    // Removed, and S3 was away: by the next mount.
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    bench.go_away();
    wait(file.remove()).unwrap();
    bench.idle();
    bench.client.clear_faults();
    assert_eq!(bench.uploads().len(), 1);
    let next = bench.restart(LONG).unwrap();
    next.idle();
    assert_eq!(next.uploads(), []);
    assert_eq!(next.checkpoints(), [""; 0]);
    // Short enough for one request.
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    wait(file.set_len(10)).unwrap();
    wait(file.commit()).unwrap();
    bench.check_stored(&bytes(10, 1), "cut");
    // In conflict with another client.
    let bench = Bench::write_back(LONG);
    let file = bench.cut();
    bench.client.put_object("key", "another client's");
    wait(file.store()).unwrap_err();
    bench.check_stored(b"another client's", "conflict");
    assert_eq!(bench.names("kept").len(), 2);
}

/// Copies on the server are parts as others are.
#[test]
fn copies_are_not_made_again() {
    let bench = Bench::write_back(LONG);
    let mut expected = bytes(LEN, 9);
    let file = bench.over(&bench.client.put_object("key", expected.clone()));
    let changed = bytes(10, 1);
    for at in [6 * MIB, 15 * MIB] {
        write(&file, at as u64, &changed).unwrap();
        expected[at..at + 10].copy_from_slice(&changed);
    }
    wait(file.commit()).unwrap();
    bench.cut_store(&file, 1);
    let next = bench.restart(LONG).unwrap();
    next.check_stored(&expected, "copies");
    let (copies, parts) = (
        next.sent(Operation::UploadPartCopy),
        next.sent(Operation::UploadPart),
    );
    let whole = Bench::write_back(LONG);
    let file = whole.over(&whole.client.put_object("key", bytes(LEN, 9)));
    for at in [6 * MIB, 15 * MIB] {
        write(&file, at as u64, &changed).unwrap();
    }
    wait(file.store()).unwrap();
    let all = (
        whole.sent(Operation::UploadPartCopy),
        whole.sent(Operation::UploadPart),
    );
    assert_eq!((copies + 1, parts + 1), all);
}

/// The end of an upload may be noted late: the checkpoint is the next upload's by then.
#[test]
fn a_late_end_leaves_the_checkpoint_of_the_next_upload() {
    let bench = Bench::write_back(LONG);
    let context = bench.staging.context();
    let name = DataFiles::new(context.directory().unwrap(), &context.file_memory, false).name();
    let file = checkpoint_file(context, name, None);
    let upload = |id: &str| Upload {
        key: Key::parse("key").unwrap(),
        upload_id: id.to_owned(),
    };
    let begin = |id| {
        wait(file.begun(&BegunUpload {
            upload: upload(id),
            headers: ObjectHeaders::default(),
            checksum: None,
        }))
    };
    assert!(begin("first") && begin("second"));
    file.ended(&upload("first"));
    bench.idle();
    let found = find_checkpoint(&**context.directory().unwrap().disk(), name).unwrap();
    assert_eq!(found.begun.upload, upload("second"));
    file.ended(&upload("second"));
    bench.idle();
    assert_eq!(
        find_checkpoint(&**context.directory().unwrap().disk(), name),
        None
    );
}
