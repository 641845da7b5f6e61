//! Renaming a file.

use mountpoint_client::testing::sim::{Fault, FaultRule, When};
use mountpoint_client::types::ObjectHeaders;
use mountpoint_client::{ErrorKind, ObjectClient as _};

use super::*;
use crate::config::{CopyLimits, WriteConfig};
use crate::operation::RenameMode::{KeepExisting, Replace};

const ROOT: InodeNo = InodeNo::ROOT;

#[test]
fn a_file_moves_with_what_it_carries() {
    let mount = writable(&["a", "d/x"]);
    let headers = ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        storage_class: Some("STANDARD_IA".to_owned()),
        metadata: vec![("owner".to_owned(), "me".to_owned())],
        ..ObjectHeaders::default()
    };
    let object = mount.bucket.object("a").unwrap();
    mount
        .bucket
        .insert(mountpoint_client::testing::sim::SimObject {
            headers: headers.clone(),
            ..object
        });
    let (a, d) = (mount.walk("a"), mount.walk("d"));
    assert!(matches!(mount.lookup(d, "b"), Err(FsError::NotFound)));
    mount.requests();
    rename(&mount, (ROOT, "a"), (d, "b"), Replace).unwrap();
    // The first deletion of a mount takes a HEAD and a trial more.
    assert_eq!(mount.requests(), (1 + 1, 0, 2 + 1));
    assert_eq!(mount.bucket.keys(), ["d/b", "d/x"]);
    assert_eq!(content(&mount, "d/b").unwrap(), "content of a");
    let mut moved = mount.bucket.object("d/b").unwrap().headers;
    assert!(moved.token.take().is_some(), "the copy has one of its own");
    assert_eq!(moved, headers);
    // The kernel continues with this inode.
    assert_eq!(mount.lookup(d, "b").unwrap().attributes.ino, a);
    assert!(now(mount.fs.attributes(a)).is_ok());
    assert!(matches!(mount.lookup(ROOT, "a"), Err(FsError::NotFound)));
    let opened = now(mount.fs.open(a, READ)).unwrap();
    assert_eq!(
        now(mount.fs.read(opened.handle, 0, 99, false))
            .unwrap()
            .len(),
        12
    );
    mount.fs.release(opened.handle);
}

#[test]
fn what_has_the_new_name_is_replaced_only_with_leave() {
    let write = WriteConfig {
        allow_rename: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &["a", "b", "d/x"], write);
    for name in ["a", "b", "d"] {
        mount.walk(name);
    }
    let error = rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-overwrite")));
    let outcome = rename(&mount, (ROOT, "a"), (ROOT, "b"), KeepExisting);
    assert!(matches!(outcome, Err(FsError::Exists)));
    let outcome = rename(&mount, (ROOT, "a"), (ROOT, "d"), Replace);
    assert!(matches!(outcome, Err(FsError::IsADirectory)));
    let outcome = rename(&mount, (ROOT, "d"), (ROOT, "a"), Replace);
    assert!(matches!(outcome, Err(FsError::NotADirectory)));
    // Another client makes the new name, unnoticed.
    mount.bucket.put_object("c", "theirs");
    let error = rename(&mount, (ROOT, "a"), (ROOT, "c"), Replace).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-overwrite")));
    let outcome = rename(&mount, (ROOT, "a"), (ROOT, "c"), KeepExisting);
    assert!(matches!(outcome, Err(FsError::Exists)));
    assert_eq!(content(&mount, "c").unwrap(), "theirs");
    assert_eq!(content(&mount, "a").unwrap(), "content of a");
    rename(&mount, (ROOT, "a"), (ROOT, "a"), Replace).unwrap();

    let mount = writable(&["a", "b"]);
    let (a, b) = (mount.walk("a"), mount.walk("b"));
    rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap();
    assert_eq!(content(&mount, "b").unwrap(), "content of a");
    assert_eq!(mount.walk("b"), a);
    assert!(matches!(
        now(mount.fs.attributes(b)),
        Err(FsError::Stale(_))
    ));
}

#[test]
fn an_open_file_is_read_on_behind_renames_of_it_and_of_its_directory() {
    const MIB: u64 = 1 << 20;
    let mount = writable(&["d/x"]);
    mount.bucket.put_pattern("d/a", 8 * MIB, 1);
    let bytes = mount.bucket.object("d/a").unwrap().content.to_vec();
    let (d, a) = (mount.walk("d"), mount.walk("d/a"));
    let handle = now(mount.fs.open(a, READ)).unwrap().handle;
    let read = |at: u64| {
        let data = now(mount.fs.read(handle, at * MIB, 100, true));
        data.map(|data| {
            let start = usize::try_from(at * MIB).unwrap();
            data.to_vec() == bytes[start..start + 100]
        })
    };
    rename(&mount, (d, "a"), (ROOT, "c"), Replace).unwrap();
    assert!(read(2).unwrap());
    rename(&mount, (ROOT, "c"), (d, "c"), Replace).unwrap();
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/c", "e/x"]);
    assert!(read(6).unwrap());
    // What another client puts there is another file.
    mount.bucket.put_pattern("e/c", 8 * MIB, 2);
    let stale = read(4);
    assert!(matches!(stale, Err(FsError::Stale(_))), "{stale:?}");
}

#[test]
fn without_the_flag_the_application_copies_if_it_may_delete() {
    let mount = Mount::immediate(&["a"]);
    mount.walk("a");
    let error = rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-rename")));
    let write = WriteConfig {
        allow_delete: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &["a", "d/x"], write);
    mount.walk("a");
    mount.walk("d");
    for name in ["a", "d"] {
        let error = rename(&mount, (ROOT, name), (ROOT, "b"), Replace).unwrap_err();
        assert!(matches!(&error, FsError::NeedsCopy(text) if text.contains("--allow-rename")));
    }
    assert_eq!(mount.bucket.keys(), ["a", "d/x"]);
    // A directory that is in no bucket needs no flag for its rename.
    mkdir(&mount, ROOT, "m").unwrap();
    rename(&mount, (ROOT, "m"), (ROOT, "n"), Replace).unwrap();
    assert_eq!(mount.names(ROOT), ["a", "d/", "n/"]);
}

#[test]
fn a_directory_bucket_renames_by_itself() {
    let mount = directory_bucket(&["a", "b"], WriteConfig::default());
    mount.walk("a");
    mount.requests();
    let outcome = rename(&mount, (ROOT, "a"), (ROOT, "b"), KeepExisting);
    assert!(outcome.is_err());
    rename(&mount, (ROOT, "a"), (ROOT, "c"), Replace).unwrap();
    let log = mount.bucket.take_log();
    assert_eq!(log.count(Operation::CopyObject), 0);
    assert_eq!(mount.bucket.keys(), ["b", "c"]);
    assert_eq!(content(&mount, "b").unwrap(), "content of b");
}

#[test]
fn a_general_purpose_bucket_is_never_asked_to_rename() {
    let mount = writable(&["a", "d/x", "d/y"]);
    mount.walk("a");
    mount.walk("d");
    rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap();
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
    assert_eq!(mount.bucket.log().count(Operation::RenameObject), 0);
}

#[test]
fn a_large_object_is_copied_in_parts() {
    let write = WriteConfig {
        allow_rename: true,
        copy_limits: CopyLimits {
            whole_max: 20 << 20,
            part_max: 8 << 20,
        },
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &[], write);
    mount.bucket.put_pattern("a", (20 << 20) + 1, 1);
    let before = mount.bucket.object("a").unwrap();
    let a = mount.walk("a");
    rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap();
    let log = mount.bucket.take_log();
    assert_eq!(log.count(Operation::UploadPartCopy), 3);
    let after = mount.bucket.object("b").unwrap();
    assert_eq!(after.content.to_vec(), before.content.to_vec());
    assert_ne!(
        after.etag, before.etag,
        "a copy in parts is another version"
    );
    assert_eq!(mount.walk("b"), a, "and the same file");
    assert_eq!(mount.bucket.keys(), ["b"]);

    // A part that fails leaves no upload behind.
    mount
        .bucket
        .fail_next(Operation::UploadPartCopy, 1, ErrorKind::Denied);
    let error = rename(&mount, (ROOT, "b"), (ROOT, "c"), Replace).unwrap_err();
    assert!(matches!(error, FsError::Denied(_)));
    assert_eq!(mount.bucket.log().count(Operation::AbortMultipartUpload), 1);
    assert_eq!(mount.bucket.keys(), ["b"]);
}

#[test]
fn each_request_of_a_rename_may_fail_and_nothing_is_lost() {
    for nth in 1.. {
        let mount = writable(&["a"]);
        mount.walk("a");
        mount.requests();
        mount.bucket.add_fault(FaultRule {
            operation: None,
            when: When::Every(nth),
            fault: Fault::Fail(ErrorKind::Transient),
        });
        let outcome = rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace);
        mount.bucket.clear_faults();
        if outcome.is_ok() {
            assert!(nth > 3, "every request was tried");
            return;
        }
        assert_eq!(content(&mount, "a").unwrap(), "content of a", "{nth}");
        rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap();
        assert_eq!(mount.bucket.keys(), ["b"]);
    }
}

/// The next mount aborts a copy that can be neither completed nor aborted.
#[test]
fn a_copy_that_is_left_behind_is_aborted_by_the_next_mount() {
    let state = tempfile::tempdir().unwrap();
    let write = WriteConfig {
        allow_rename: true,
        copy_limits: CopyLimits {
            whole_max: 1 << 20,
            part_max: 5 << 20,
        },
        bucket: "b".to_owned(),
        state_directory: Some(state.path().to_owned()),
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &[], write);
    mount.bucket.put_object("a", vec![1; 6 << 20]);
    let uploads = |bucket: &SimClient| now(bucket.list_uploads("")).unwrap().len();
    let mount_time = mount.clock.wall();
    let recover = |bucket: &SimClient| {
        let journal = crate::journal::Journal::new(Some(state.path()), "b");
        now(journal.recover(bucket, mount_time))
    };
    for operation in [Operation::UploadPartCopy, Operation::AbortMultipartUpload] {
        mount.bucket.fail_next(operation, 1, ErrorKind::Denied);
    }
    mount.walk("a");
    rename(&mount, (ROOT, "a"), (ROOT, "b"), Replace).unwrap_err();
    assert_eq!(mount.bucket.keys(), ["a"]);
    // The recovery does not touch uploads of a living process.
    assert_eq!((recover(&mount.bucket), uploads(&mount.bucket)), (0, 1));
    let Mount { bucket, fs, .. } = mount;
    drop(fs);
    assert_eq!((recover(&bucket), uploads(&bucket)), (1, 0));
}
