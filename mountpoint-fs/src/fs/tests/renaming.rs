//! Renaming files and directories.

use std::time::Duration;

use mountpoint_client::sim::{Fault, FaultRule, When};
use mountpoint_client::types::ObjectHeaders;
use mountpoint_client::{ErrorKind, ObjectClient as _};

use super::changing::{drive, mkdir, writable};
use super::*;
use crate::config::limits::COPIES_IN_FLIGHT_MAX;
use crate::config::{CopyLimits, WriteConfig};
use crate::operation::RenameMode::{self, KeepExisting, Replace};
use crate::operation::Stop;

const ROOT: InodeNo = InodeNo::ROOT;

#[track_caller]
fn rename(
    mount: &Mount,
    from: (InodeNo, &str),
    to: (InodeNo, &str),
    mode: RenameMode,
) -> Result<(), FsError> {
    let (from, to) = ((from.0, OsStr::new(from.1)), (to.0, OsStr::new(to.1)));
    now(mount.fs.rename(from, to, mode, &Stop::never()))
}

fn directory_bucket(keys: &[&str], write: WriteConfig) -> Mount {
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    Mount::with_write(options, "", keys, write)
}

/// A bucket whose requests are answered when the test says so.
fn manual(keys: &[&str], write: WriteConfig) -> Mount {
    let options = SimOptions {
        time: Time::Manual,
        ..SimOptions::default()
    };
    Mount::with_write(options, "", keys, write)
}

/// How many requests of `operation` wait for their answers.
fn pending(mount: &Mount, operation: Operation) -> usize {
    let pending = mount.bucket.pending_requests();
    let same = pending
        .iter()
        .filter(|request| request.operation == operation);
    same.count()
}

/// Answers what `renaming` asks until it sends an `operation`.
fn go_on_to<T>(
    mount: &Mount,
    renaming: &mut (impl Future<Output = T> + Unpin),
    operation: Operation,
) {
    while pending(mount, operation) == 0 {
        waits(renaming);
        mount.bucket.deliver_all();
        waits(renaming);
    }
}

fn content(mount: &Mount, key: &str) -> Option<String> {
    let object = mount.bucket.object(key)?;
    let bytes = object.content.to_vec();
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

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
    mount.bucket.insert(mountpoint_client::sim::SimObject {
        headers: headers.clone(),
        ..object
    });
    let (a, d) = (mount.walk("a"), mount.walk("d"));
    assert!(matches!(mount.lookup(d, "b"), Err(FsError::NotFound)));
    mount.requests();
    rename(&mount, (ROOT, "a"), (d, "b"), Replace).unwrap();
    assert_eq!(mount.requests(), (1, 0, 2));
    assert_eq!(mount.bucket.keys(), ["d/b", "d/x"]);
    assert_eq!(content(&mount, "d/b").unwrap(), "content of a");
    assert_eq!(mount.bucket.object("d/b").unwrap().headers, headers);
    // The kernel goes on with the same inode.
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
    // Somebody else makes the new name, unseen.
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
    // What is in no bucket is renamed by nobody's leave.
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

#[test]
fn a_directory_moves_with_all_that_is_in_it() {
    let keys = ["d/", "d/a", "d/s/", "d/s/b", "d/s/t/c", "d-not", "e/x"];
    let mount = writable(&keys);
    let (d, e) = (mount.walk("d"), mount.walk("e"));
    let c = mount.walk("d/s/t/c");
    mkdir(&mount, d, "empty").unwrap();
    rename(&mount, (ROOT, "d"), (e, "d2"), Replace).unwrap();
    assert_eq!(
        mount.bucket.keys(),
        [
            "d-not",
            "e/d2/",
            "e/d2/a",
            "e/d2/s/",
            "e/d2/s/b",
            "e/d2/s/t/c",
            "e/x"
        ]
    );
    assert_eq!(mount.walk("e/d2"), d);
    assert_eq!(mount.walk("e/d2/s/t/c"), c);
    assert_eq!(mount.names(d), ["a", "empty/", "s/"]);
    assert_eq!(mount.names(ROOT), ["d-not", "e/"]);
    assert_eq!(content(&mount, "e/d2/s/b").unwrap(), "content of d/s/b");
    mkdir(&mount, ROOT, "n").unwrap();
    let outcome = rename(&mount, (ROOT, "n"), (ROOT, "e"), Replace);
    assert!(matches!(outcome, Err(FsError::NotEmpty)));
    let outcome = rename(&mount, (ROOT, "n"), (ROOT, "e"), KeepExisting);
    assert!(matches!(outcome, Err(FsError::Exists)));
    mkdir(&mount, ROOT, "free").unwrap();
    rename(&mount, (ROOT, "e"), (ROOT, "free"), Replace).unwrap();
    assert_eq!(mount.names(ROOT), ["d-not", "free/", "n/"]);
}

#[test]
fn a_directory_of_a_directory_bucket_moves_object_by_object() {
    let write = WriteConfig {
        allow_rename: true,
        ..WriteConfig::default()
    };
    let keys: Vec<String> = (0..100).map(|number| format!("d/{number:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mount = directory_bucket(&keys, write);
    mount.walk("d");
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
    let log = mount.bucket.take_log();
    assert_eq!(log.count(Operation::RenameObject), 100);
    assert_eq!(log.count(Operation::CopyObject), 0);
    assert_eq!(mount.bucket.keys().len(), 100);
    assert!(mount.bucket.keys().iter().all(|key| key.starts_with("e/")));
    let plain = directory_bucket(&["d/a"], WriteConfig::default());
    plain.walk("d");
    let error = rename(&plain, (ROOT, "d"), (ROOT, "e"), Replace).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-rename")));
}

/// Fails the nth request for every n; after each failure every object has a name, and the same rename again ends it.
#[test]
fn a_directory_rename_that_fails_anywhere_goes_on_when_it_is_repeated() {
    const OBJECTS: usize = 1010;
    let keys: Vec<String> = (0..OBJECTS)
        .map(|number| format!("d/{number:04}"))
        .collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut copied_twice = 0;
    for nth in [1, 3, 5, 600, 1013, 1015, 1016, 1017] {
        let mount = writable(&keys);
        mount.walk("d");
        mount.requests();
        mount.bucket.add_fault(FaultRule {
            operation: None,
            when: When::Every(nth),
            fault: Fault::Fail(ErrorKind::Transient),
        });
        let outcome = rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace);
        mount.bucket.clear_faults();
        let all = mount.bucket.keys();
        for number in 0..OBJECTS {
            let has = |directory: &str| {
                all.binary_search(&format!("{directory}/{number:04}"))
                    .is_ok()
            };
            assert!(has("d") || has("e"), "{number} is lost after request {nth}");
        }
        if outcome.is_err() {
            let first = mount.bucket.take_log().count(Operation::CopyObject);
            mount.walk("d");
            rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
            let second = mount.bucket.take_log().count(Operation::CopyObject);
            copied_twice = copied_twice.max((first + second).saturating_sub(OBJECTS));
        }
        assert_eq!(mount.bucket.keys().len(), OBJECTS, "request {nth}");
        assert!(mount.bucket.keys().iter().all(|key| key.starts_with("e/")));
    }
    // Those behind the first failure that were in the air, too.
    assert!(
        copied_twice <= COPIES_IN_FLIGHT_MAX,
        "{copied_twice}: only copies that failed are made again"
    );
}

/// A directory bucket's mount with a rename of `d` to `e` that stopped: `e` has an object that `d` has not.
fn half_renamed(kind: ErrorKind) -> Mount {
    let write = WriteConfig {
        allow_rename: true,
        allow_delete: true,
        allow_overwrite: true,
        ..WriteConfig::default()
    };
    let mount = directory_bucket(&["d/a", "old", "olds/x"], write);
    mount.walk("d");
    mount.bucket.fail_next(Operation::RenameObject, 1, kind);
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap_err();
    assert_eq!(mount.bucket.keys(), ["d/a", "old", "olds/x"]);
    mount.bucket.put_object("e/b", "content of e/b");
    mount.clock.advance(Duration::from_secs(60));
    mount
}

#[test]
fn a_rename_goes_on_only_with_what_was_there_when_it_began() {
    let d = |mount: &Mount| mount.walk("d");
    let empty = |mount: &Mount| {
        let d = d(mount);
        mount.walk("d/a");
        now(mount.fs.unlink(d, OsStr::new("a"))).unwrap();
    };
    let rmdir = |mount: &Mount| {
        empty(mount);
        now(mount.fs.remove_directory(ROOT, OsStr::new("d"))).unwrap();
    };
    let mv = |mount: &Mount, from: &str, to: (InodeNo, &str)| {
        mount.walk(from);
        rename(mount, (ROOT, from), to, Replace).unwrap();
    };
    type Between<'a> = &'a dyn Fn(&Mount);
    let cases: [(&str, bool, Between<'_>); 7] = [
        ("nothing", true, &|_| {}),
        ("a newer object", false, &|mount| {
            mount.bucket.put_object("d/c", "newer");
        }),
        ("a day", false, &|mount| {
            mount.clock.advance(Duration::from_secs(24 * 60 * 60));
        }),
        ("an older directory has its name", false, &|mount| {
            rmdir(mount);
            mv(mount, "olds", (ROOT, "d"));
        }),
        ("an older file is in one that was made", false, &|mount| {
            rmdir(mount);
            now(mount.fs.make_directory(ROOT, OsStr::new("d"), 0o755)).unwrap();
            mv(mount, "old", (d(mount), "x"));
        }),
        ("an older file is in it", false, &|mount| {
            mv(mount, "old", (d(mount), "x"));
        }),
        ("it was to be moved elsewhere", false, &|mount| {
            mount
                .bucket
                .fail_next(Operation::RenameObject, 1, ErrorKind::Transient);
            d(mount);
            rename(mount, (ROOT, "d"), (ROOT, "f"), Replace).unwrap_err();
        }),
    ];
    for (case, goes_on, between) in cases {
        let mount = half_renamed(ErrorKind::Transient);
        between(&mount);
        let before = mount.bucket.keys();
        d(&mount);
        mount.walk("e");
        let outcome = rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace);
        if goes_on {
            outcome.unwrap();
            assert_eq!(
                mount.bucket.keys(),
                ["e/a", "e/b", "old", "olds/x"],
                "{case}"
            );
        } else {
            assert!(
                matches!(outcome, Err(FsError::NotEmpty)),
                "{case}: {outcome:?}"
            );
            assert_eq!(mount.bucket.keys(), before, "{case}");
        }
    }
}

/// Nothing was moved, so the new directory is somebody else's.
#[test]
fn a_rename_that_was_refused_at_once_has_not_begun() {
    for kind in [
        ErrorKind::Denied,
        ErrorKind::Throttled,
        ErrorKind::InvalidRequest,
    ] {
        let mount = half_renamed(kind.clone());
        mount.walk("d");
        mount.walk("e");
        let outcome = rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace);
        assert!(
            matches!(outcome, Err(FsError::NotEmpty)),
            "{kind:?}: {outcome:?}"
        );
    }
}

#[test]
fn what_others_write_meanwhile_stays() {
    let mount = manual(
        &["d/a", "d/b"],
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
    mount.bucket.deliver_all();
    mount.bucket.put_object("d/b", "newer");
    mount.bucket.put_object("d/c", "new");
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
    assert_eq!(content(&mount, "d/b").unwrap(), "newer");
    assert_eq!(content(&mount, "d/c").unwrap(), "new");
    assert_eq!(mount.bucket.keys(), ["d/b", "d/c", "e/a", "e/b"]);
}

#[test]
fn a_file_that_is_replaced_meanwhile_is_moved_in_its_newest_version() {
    let mount = manual(
        &["a"],
        WriteConfig {
            allow_rename: true,
            allow_overwrite: true,
            ..WriteConfig::default()
        },
    );
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("a"))).unwrap();
    let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
    let stop = Stop::default();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    // HEAD, COPY, and before the deletion somebody writes.
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

/// What somebody writes between the last listing and the deletion stays, where the server knows conditions of deletions.
#[test]
fn what_is_written_just_before_the_deletion_stays() {
    let mount = manual(
        &["d/a", "d/b", "d/c"],
        WriteConfig {
            allow_rename: true,
            ..WriteConfig::default()
        },
    );
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    let stop = Stop::never();
    let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &stop));
    go_on_to(&mount, &mut renaming, Operation::DeleteObjects);
    mount.bucket.put_object("d/b", "newer");
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
    assert_eq!(mount.bucket.keys(), ["d/b", "e/a", "e/b", "e/c"]);
    assert_eq!(content(&mount, "d/b").unwrap(), "newer");
    // A server that takes no versions in a list is given none.
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
fn a_rename_that_is_interrupted_ends_when_nothing_of_it_is_in_the_air() {
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
    // It waits for what it has sent, and sends no more.
    waits(&mut renaming);
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Interrupted)), "{outcome:?}");
    assert!(mount.bucket.pending_requests().is_empty());
    let now = mount.bucket.keys();
    assert_eq!(now.iter().filter(|key| key.starts_with("e/")).count(), sent);
    assert_eq!(now.len(), 100 + sent);
    // The same rename again goes on.
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

#[test]
fn a_directory_that_holds_another_object_of_that_name_is_not_replaced() {
    for keys in [&["d/a", "e/a"][..], &["d/a", "d/b", "e/b"]] {
        let mount = writable(keys);
        mount.walk("d");
        mount.walk("e");
        let outcome = rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace);
        assert!(matches!(outcome, Err(FsError::NotEmpty)), "{outcome:?}");
        assert_eq!(mount.bucket.keys(), keys);
        let theirs = keys[keys.len() - 1];
        assert_eq!(
            content(&mount, theirs).unwrap(),
            format!("content of {theirs}")
        );
    }
}

#[test]
fn a_directory_with_a_file_that_is_being_written_stays_where_it_is() {
    let mount = writable(&["d/s/a"]);
    let s = mount.walk("d/s");
    let d = mount.walk("d");
    mount.walk("d/s/a");
    let options = crate::operation::WriteOptions::default();
    let (_, opened) = mount
        .fs
        .create(s, OsStr::new("new"), options, Opener::UNSEEN)
        .unwrap();
    let written = mount.fs.write_now(opened.handle, 0, b"hello");
    written.unwrap().unwrap();
    for (from, to) in [((ROOT, "d"), (ROOT, "e")), ((d, "s"), (ROOT, "s"))] {
        let outcome = rename(&mount, from, to, Replace);
        assert!(matches!(&outcome, Err(FsError::NotPermitted(text)) if text.contains("new")));
    }
    assert_eq!(mount.bucket.keys(), ["d/s/a"]);
    now(mount.fs.unlink(s, OsStr::new("a"))).unwrap();
    let outcome = now(mount.fs.remove_directory(d, OsStr::new("s")));
    assert!(matches!(outcome, Err(FsError::NotEmpty)), "{outcome:?}");
    mount.fs.release(opened.handle);
    assert_eq!(mount.bucket.keys(), ["d/s/new"]);
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/s/new"]);
}

#[test]
fn a_file_that_was_closed_and_not_stored_moves_with_its_directory() {
    let mount = writable(&["d/a"]);
    let d = mount.walk("d");
    let options = crate::operation::WriteOptions::default();
    let (_, opened) = mount
        .fs
        .create(d, OsStr::new("new"), options, Opener::UNSEEN)
        .unwrap();
    now(mount.fs.flush(opened.handle, &OPENER)).unwrap();
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/a", "e/new"]);
    mount.fs.release(opened.handle);
    assert_eq!(mount.bucket.keys(), ["e/a", "e/new"]);
}

/// A copy in parts that can be neither completed nor aborted is aborted by the next mount.
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
    // Not while the process lives.
    assert_eq!((recover(&mount.bucket), uploads(&mount.bucket)), (0, 1));
    let Mount { bucket, fs, .. } = mount;
    drop(fs);
    assert_eq!((recover(&bucket), uploads(&bucket)), (1, 0));
}
