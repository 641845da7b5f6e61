//! Renaming a directory: moved objects, obstacles, and the resumption after a failure.

use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Content, Fault, FaultRule, SimObject, When};
use mountpoint_client::types::{ETag, Key};

use super::*;
use crate::config::WriteConfig;
use crate::config::limits::COPIES_IN_FLIGHT_MAX;
use crate::operation::RenameMode::{KeepExisting, Replace};
use crate::operation::{AttributeChange, PosixAttributes};

const ROOT: InodeNo = InodeNo::ROOT;

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

/// The attributes of an empty directory are in its marker. What replaces it has others.
#[test]
fn the_marker_of_a_replaced_directory_goes_with_it() {
    let write = || WriteConfig {
        allow_rename: true,
        allow_overwrite: true,
        ..WriteConfig::default()
    };
    let keys = ["d/a", "e/", "g/"];
    for mount in [writable(&keys), directory_bucket(&keys, write())] {
        mount.walk("e");
        mount.walk("d");
        rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
        assert_eq!(mount.bucket.keys(), ["e/a", "g/"]);
        mkdir(&mount, ROOT, "f").unwrap();
        mount.walk("g");
        rename(&mount, (ROOT, "f"), (ROOT, "g"), Replace).unwrap();
        assert_eq!(mount.bucket.keys(), ["e/a"]);
        assert_eq!(mount.names(ROOT), ["e/", "g/"]);
    }
}

/// The copy of an object that was uploaded in parts has another ETag.
#[test]
fn files_have_the_versions_of_their_copies_behind_the_rename_of_their_directory() {
    let mount = writable(&["d/a"]);
    mount.bucket.insert(SimObject {
        etag: ETag::from_header("\"11111111111111111111111111111111-2\""),
        ..SimObject::new(Key::parse("d/f").unwrap(), Content::bytes("bytes"))
    });
    let file = mount.walk("d/f");
    let directory = mount.walk("d");
    rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
    // The kernel goes on with what it has looked up.
    rename(&mount, (directory, "f"), (ROOT, "g"), Replace).unwrap();
    assert_eq!(mount.walk("g"), file);
    now(mount.fs.unlink(ROOT, OsStr::new("g"))).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/a"]);
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

/// Fails the nth request for every n.
///
/// After each failure every object has a name, and an equal rename completes the work.
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
    // Requests in flight behind the first failure are awaited, too.
    assert!(
        copied_twice <= COPIES_IN_FLIGHT_MAX,
        "{copied_twice}: only copies that failed are made again"
    );
}

/// A directory bucket's mount with a rename of `d` to `e` that stopped. `e` has an object that `d`
/// has not.
fn half_renamed(kind: ErrorKind) -> Mount {
    let write = all_changes();
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

/// The new directory belongs to another client, because no object was moved.
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

/// Equal objects are no copies of an earlier attempt: two programs make the same lock.
#[test]
fn a_directory_that_holds_equal_objects_is_not_replaced() {
    for theirs in [&["e/a"][..], &["e/a", "e/b"]] {
        let mount = writable(&["d/a"]);
        for key in theirs {
            mount.bucket.put_object(key, "content of d/a");
        }
        mount.walk("d");
        mount.walk("e");
        let before = mount.bucket.keys();
        let outcome = rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace);
        assert!(matches!(outcome, Err(FsError::NotEmpty)), "{outcome:?}");
        assert_eq!(mount.bucket.keys(), before);
    }
}

#[test]
fn a_file_that_was_closed_and_not_stored_moves_with_its_directory() {
    let mount = writable(&["d/a"]);
    let d = mount.walk("d");
    let options = WriteOptions::default();
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

/// The headers of an object were changed after a first attempt had copied it.
///
/// Its bytes are equal, and the copy is repeated.
#[test]
fn what_was_changed_since_it_was_copied_is_copied_again() {
    for is_half_deleted in [false, true] {
        let write = WriteConfig {
            allow_rename: true,
            allow_delete: true,
            posix_metadata: true,
            ..WriteConfig::default()
        };
        let keys = ["d/a", "d/b"];
        let mount = Mount::with_write(SimOptions::default(), "", &keys, write);
        let d = mount.walk("d");
        for operation in [Operation::DeleteObjects, Operation::DeleteObject] {
            mount.bucket.fail_next(operation, 1, ErrorKind::Denied);
        }
        rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap_err();
        mount.bucket.clear_faults();
        if is_half_deleted {
            mount.bucket.remove("d/b");
        }
        mount.clock.advance(Duration::from_secs(2));
        let a = mount.lookup(d, "a").unwrap().attributes.ino;
        let mode = AttributeChange {
            mode: Some(0o600),
            ..AttributeChange::default()
        };
        now(mount.fs.set_attributes(a, mode)).unwrap();
        mount.walk("e");
        rename(&mount, (ROOT, "d"), (ROOT, "e"), Replace).unwrap();
        assert_eq!(mount.bucket.keys(), ["e/a", "e/b"], "{is_half_deleted}");
        let metadata = mount.bucket.object("e/a").unwrap().headers.metadata;
        let carried = PosixAttributes::of(&metadata);
        assert_eq!(carried.mode, Some(0o600), "{is_half_deleted}");
    }
}
