//! Renaming a file that is being written: by the process that writes it, and by others.

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, When};

use super::*;
use crate::operation::RenameMode::{KeepExisting, Replace};
use crate::operation::{AttributeChange, RenameMode, Stop, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;
const ME: Opener = Opener {
    process: 7,
    started: 1,
};
const BYTES: &[u8] = b"what was written";

/// A file `name` with [`BYTES`] that `opener` has made and not closed.
fn written(mount: &Mount, name: &str, opener: Opener) -> HandleNo {
    let how = WriteOptions::default();
    let created = mount.fs.create(ROOT, OsStr::new(name), how, opener);
    let handle = created.unwrap().1.handle;
    let taken = mount.fs.write_now(handle, 0, BYTES);
    taken.expect("there is memory").unwrap();
    handle
}

async fn rename_by(
    mount: &Mount,
    process: Opener,
    to: &str,
    mode: RenameMode,
) -> Result<(), FsError> {
    let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new(to)));
    let stop = Stop::never();
    mount.fs.rename_for(from, to, mode, &stop, process).await
}

fn close(mount: &Mount, handle: HandleNo) -> Result<(), FsError> {
    let closed = drive(mount, mount.fs.flush(handle, &OPENER));
    mount.fs.release(handle);
    closed
}

fn content(mount: &Mount, key: &str) -> Option<Vec<u8>> {
    Some(mount.bucket.object(key)?.content.to_vec())
}

#[test]
fn a_process_renames_what_it_has_not_closed() {
    let mount = writable(&[]);
    let handle = written(&mount, "a", ME);
    now(rename_by(&mount, ME, "b", Replace)).unwrap();
    assert_eq!(mount.bucket.keys(), ["b"]);
    assert_eq!(content(&mount, "b").unwrap(), BYTES);
    now(mount.fs.sync(handle)).unwrap();
    close(&mount, handle).unwrap();
    assert_eq!(mount.bucket.keys(), ["b"]);
    let b = mount.lookup(ROOT, "b").unwrap().attributes;
    assert_eq!(b.size, BYTES.len() as u64);
    assert!(matches!(mount.lookup(ROOT, "a"), Err(FsError::NotFound)));
}

#[test]
fn a_process_does_not_rename_what_another_writes() {
    let later = Opener { started: 2, ..ME };
    let other = Opener { process: 8, ..ME };
    let unseen = Opener::UNSEEN;
    for (opener, process) in [
        (ME, other),
        (ME, later),
        (ME, unseen),
        (unseen, ME),
        // Unknown openers may be two processes.
        (unseen, unseen),
    ] {
        let mount = writable(&[]);
        let handle = written(&mount, "a", opener);
        let refused = now(rename_by(&mount, process, "b", Replace));
        assert!(matches!(refused, Err(FsError::NotPermitted(_))));
        assert_eq!(mount.bucket.keys(), [""; 0], "it is not stored either");
        close(&mount, handle).unwrap();
        assert_eq!(content(&mount, "a").unwrap(), BYTES);
    }
}

/// A close would store these bytes under the old name.
#[test]
fn what_is_written_behind_such_a_rename_is_refused() {
    let mount = writable(&[]);
    let handle = written(&mount, "a", ME);
    now(rename_by(&mount, ME, "b", Replace)).unwrap();
    let refused = mount.fs.write_now(handle, BYTES.len() as u64, b"more");
    assert!(matches!(refused, Some(Err(FsError::Stale(_)))));
    let told = close(&mount, handle);
    assert!(matches!(told, Err(FsError::Stale(_))), "the close says so");
    assert_eq!(mount.bucket.keys(), ["b"]);
    assert_eq!(content(&mount, "b").unwrap(), BYTES);
}

/// Bytes that were never written are zeros, as after a close.
#[test]
fn a_length_that_was_set_is_kept() {
    let mount = writable(&[]);
    let handle = written(&mount, "a", ME);
    let ino = mount.lookup(ROOT, "a").unwrap().attributes.ino;
    let change = AttributeChange {
        size: Some(100),
        handle: Some(handle),
        ..AttributeChange::default()
    };
    now(mount.fs.set_attributes(ino, change)).unwrap();
    now(rename_by(&mount, ME, "b", Replace)).unwrap();
    close(&mount, handle).unwrap();
    let stored = content(&mount, "b").unwrap();
    assert_eq!((stored.len(), &stored[..BYTES.len()]), (100, BYTES));
}

#[test]
fn a_target_that_is_there_is_replaced_if_that_is_allowed() {
    #[track_caller]
    fn check(allow_overwrite: bool, mode: RenameMode, is_replaced: bool) {
        let write = WriteConfig {
            allow_overwrite,
            ..all_changes()
        };
        let mount = Mount::with_write(SimOptions::default(), "", &["b"], write);
        let b = mount.walk("b");
        let reader = now(mount.fs.open(b, READ)).unwrap().handle;
        let handle = written(&mount, "a", ME);
        let renamed = now(rename_by(&mount, ME, "b", mode));
        assert_eq!(renamed.is_ok(), is_replaced, "{renamed:?}");
        if is_replaced {
            assert_eq!(mount.bucket.keys(), ["b"]);
            assert_eq!(content(&mount, "b").unwrap(), BYTES);
            let new = mount.lookup(ROOT, "b").unwrap().attributes;
            assert_ne!(
                new.ino, b,
                "who has the old one open does not see the new one"
            );
        } else {
            assert_eq!(content(&mount, "a").unwrap(), BYTES);
            assert_eq!(content(&mount, "b").unwrap(), b"content of b");
        }
        mount.fs.release(reader);
        close(&mount, handle).unwrap();
    }
    check(true, Replace, true);
    check(false, Replace, false);
    check(true, KeepExisting, false);
}

#[test]
fn a_target_that_is_being_written_stays() {
    let mount = writable(&[]);
    let (source, target) = (written(&mount, "a", ME), written(&mount, "b", ME));
    let refused = now(rename_by(&mount, ME, "b", Replace));
    assert!(matches!(refused, Err(FsError::NotPermitted(_))));
    close(&mount, source).unwrap();
    close(&mount, target).unwrap();
    assert_eq!(mount.bucket.keys(), ["a", "b"]);
}

/// After each failure the old name has the whole file, or the process gets an error.
#[test]
fn each_request_may_fail_and_nothing_is_lost() {
    for nth in 1.. {
        let mount = writable(&[]);
        let handle = written(&mount, "a", ME);
        mount.requests();
        mount.bucket.add_fault(FaultRule {
            operation: None,
            when: When::From(nth),
            fault: Fault::Fail(ErrorKind::Denied),
        });
        let outcome = drive(&mount, rename_by(&mount, ME, "b", Replace));
        mount.bucket.clear_faults();
        if outcome.is_ok() {
            assert!(nth > 3, "every request was tried");
            return;
        }
        let is_stored = content(&mount, "a").is_some_and(|bytes| bytes == BYTES);
        assert_eq!(close(&mount, handle).is_ok(), is_stored, "request {nth}");
        if is_stored {
            mount.walk("a");
            drive(&mount, rename_by(&mount, ME, "b", Replace)).unwrap();
            assert_eq!(mount.bucket.keys(), ["b"], "request {nth}");
            assert_eq!(content(&mount, "b").unwrap(), BYTES, "request {nth}");
        }
    }
}

/// The machine stops between the store and the copy: the next mount finds the whole file under its
/// old name.
#[test]
fn a_crash_before_the_copy_leaves_the_whole_file() {
    let mount = manual(&[], all_changes());
    written(&mount, "a", ME);
    let mut renaming = Box::pin(rename_by(&mount, ME, "b", Replace));
    go_on_to(&mount, &mut renaming, Operation::CopyObject);
    drop(renaming);
    let next = mount.beside(all_changes());
    assert_eq!(next.bucket.keys(), ["a"]);
    assert_eq!(content(&next, "a").unwrap(), BYTES);
}

/// A signal does not end the store in progress: the close waits for it.
#[test]
fn a_signal_while_it_is_stored_ends_the_rename() {
    let mount = manual(&[], all_changes());
    let handle = written(&mount, "a", ME);
    let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
    let stop = Stop::default();
    let mut renaming = Box::pin(mount.fs.rename_for(from, to, Replace, &stop, ME));
    waits(&mut renaming);
    assert_eq!(pending(&mount, Operation::PutObject), 1);
    stop.ask();
    let ended = (&mut renaming).now_or_never();
    assert!(matches!(ended, Some(Err(FsError::Interrupted))));
    close(&mount, handle).unwrap();
    assert_eq!(mount.bucket.keys(), ["a"]);
    assert_eq!(mount.bucket.log().count(Operation::PutObject), 1);
}
