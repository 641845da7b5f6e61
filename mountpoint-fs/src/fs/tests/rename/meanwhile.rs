//! Events during a rename: writes of other clients, and signals.

use std::time::Duration;

use mountpoint_client::testing::sim::{Fault, FaultRule, When};
use mountpoint_client::{ErrorKind, ObjectClient as _};

use super::*;
use crate::config::{CopyLimits, WriteConfig};
use crate::operation::RenameMode::Replace;
use crate::operation::Stop;

const ROOT: InodeNo = InodeNo::ROOT;

/// A mount that may rename, with these keys, after a lookup of `d`.
fn known_directory(keys: &[&str]) -> Mount {
    let write = WriteConfig {
        allow_rename: true,
        ..WriteConfig::default()
    };
    let mount = manual(keys, write);
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    mount
}

#[test]
fn what_others_write_meanwhile_stays() {
    let mount = known_directory(&["d/a", "d/b"]);
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let stop = Stop::default();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    go_on_to(&mount, &mut renaming, Operation::CopyObject);
    mount.bucket.deliver_all();
    mount.bucket.put_object("d/b", "newer");
    mount.bucket.put_object("d/c", "new");
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
    assert_eq!(content(&mount, "d/b").unwrap(), "newer");
    assert_eq!(content(&mount, "d/c").unwrap(), "new");
    assert_eq!(mount.bucket.keys(), ["d/b", "d/c", "e/a", "e/b"]);
}

/// A rewrite of equal bytes may change the headers. The deletion of the source must not lose them.
#[test]
fn the_same_bytes_that_others_write_meanwhile_stay() {
    let mount = known_directory(&["d/a", "d/b"]);
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let stop = Stop::never();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    go_on_to(&mount, &mut renaming, Operation::CopyObject);
    mount.bucket.deliver_all();
    mount.bucket.put_object("d/b", "content of d/b");
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
    assert_eq!(mount.bucket.keys(), ["d/b", "e/a", "e/b"]);
    drive(&mount, mount.fs.rename(from, to, Replace, &stop)).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/a", "e/b"]);
}

#[test]
fn a_file_that_is_replaced_meanwhile_is_moved_in_its_newest_version() {
    for ignores_versions in [false, true] {
        check_replaced_meanwhile(ignores_versions);
    }
}

fn check_replaced_meanwhile(ignores_versions: bool) {
    let mount = manual(
        &["a"],
        WriteConfig {
            allow_rename: true,
            allow_overwrite: true,
            ..WriteConfig::default()
        },
    );
    if ignores_versions {
        mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::DeleteObject),
            when: When::From(1),
            fault: Fault::IgnoreVersions,
        });
    }
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("a"))).unwrap();
    let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
    let stop = Stop::default();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    // HEAD, COPY, and a write before the deletion.
    for _ in 0..2 {
        waits(&mut renaming);
        mount.bucket.deliver_all();
    }
    mount.bucket.put_object("a", "newest");
    let outcome = drive(&mount, renaming);
    outcome.unwrap();
    assert_eq!(mount.bucket.keys(), ["b"]);
    assert_eq!(content(&mount, "b").unwrap(), "newest");
}

/// A write between the last listing and the deletion stays. The server must know conditions of
/// deletions.
#[test]
fn what_is_written_just_before_the_deletion_stays() {
    let mount = known_directory(&["d/a", "d/b", "d/c"]);
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let stop = Stop::never();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    go_on_to(&mount, &mut renaming, Operation::DeleteObjects);
    mount.bucket.put_object("d/b", "newer");
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
    assert_eq!(mount.bucket.keys(), ["d/b", "e/a", "e/b", "e/c"]);
    assert_eq!(content(&mount, "d/b").unwrap(), "newer");
    // A server that takes no versions in a list gets none.
    assert!(mount.bucket.remove("d/b"));
    mount.bucket.put_object("d/x", "x");
    mount.clock.advance(Duration::from_secs(2));
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let to = (ROOT, OsStr::new("f"));
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    mount
        .bucket
        .fail_next(Operation::DeleteObjects, 1, ErrorKind::InvalidRequest);
    waits(&mut renaming);
    drive(&mount, renaming).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/a", "e/b", "e/c", "f/x"]);
}

#[test]
fn a_rename_that_is_interrupted_ends_when_nothing_of_it_is_in_flight() {
    let keys: Vec<_> = (0..100).map(|number| format!("d/{number:03}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let mount = manual(
        &keys,
        WriteConfig {
            allow_rename: true,
            ..WriteConfig::default()
        },
    );
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let stop = Stop::default();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    go_on_to(&mount, &mut renaming, Operation::CopyObject);
    let sent = pending(&mount, Operation::CopyObject);
    stop.ask();
    // The rename waits for its requests in flight, and sends no more.
    waits(&mut renaming);
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Interrupted)), "{outcome:?}");
    assert!(mount.bucket.pending_requests().is_empty());
    let now = mount.bucket.keys();
    assert_eq!(now.iter().filter(|key| key.starts_with("e/")).count(), sent);
    assert_eq!(now.len(), 100 + sent);
    // An equal rename resumes.
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("e"))).unwrap();
    let stop = Stop::never();
    drive(&mount, mount.fs.rename(from, to, Replace, &stop)).unwrap();
    assert_eq!(mount.bucket.keys().len(), 100);
}

#[test]
fn a_large_copy_that_is_interrupted_leaves_nothing() {
    let mount = manual(
        &[],
        WriteConfig {
            allow_rename: true,
            copy_limits: CopyLimits {
                whole_max: 1 << 20,
                part_max: 1 << 20,
            },
            ..WriteConfig::default()
        },
    );
    mount.bucket.put_object("a", vec![1; 40 << 20]);
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("a"))).unwrap();
    let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
    let stop = Stop::default();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    go_on_to(&mount, &mut renaming, Operation::UploadPartCopy);
    stop.ask();
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Interrupted)), "{outcome:?}");
    assert_eq!(mount.bucket.keys(), ["a"]);
    let uploads = drive(&mount, mount.bucket.list_uploads("")).unwrap();
    assert!(uploads.is_empty(), "{uploads:?}");
}
