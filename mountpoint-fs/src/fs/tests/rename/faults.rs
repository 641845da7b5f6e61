//! Renames with failures or changes in between.

use std::pin::Pin;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Content, Fault, FaultRule, RequestId, SimObject, When};
use mountpoint_client::types::{Key, ObjectHeaders};

use super::*;
use crate::config::{CopyLimits, WriteConfig};
use crate::operation::RenameMode::Replace;
use crate::operation::Stop;

const ROOT: InodeNo = InodeNo::ROOT;

type Renaming<'a> = Pin<Box<dyn Future<Output = Result<(), FsError>> + 'a>>;

/// The rename of `d` to `e`, up to its first request `until`.
fn begun(mount: &Mount, until: Operation) -> Renaming<'_> {
    begun_to_stop(mount, until, Stop::never())
}

/// A rename up to its first request `until`, with a `stop`.
fn begun_to_stop(mount: &Mount, until: Operation, stop: Stop) -> Renaming<'_> {
    drive(mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let mut renaming: Renaming<'_> = Box::pin(async move {
        let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
        mount.fs.rename(from, to, Replace, &stop).await
    });
    while waiting(mount, until).is_empty() {
        waits(&mut renaming);
        mount.bucket.deliver_all();
        waits(&mut renaming);
    }
    renaming
}

fn waiting(mount: &Mount, operation: Operation) -> Vec<(RequestId, String)> {
    let pending = mount.bucket.pending_requests();
    // Those of the claim of the new name are not meant.
    let is_meant = |key: &str| !key.ends_with('/');
    let those = pending.into_iter();
    let those = those.filter(|it| it.operation == operation && is_meant(&it.key));
    those.map(|it| (it.id, it.key)).collect()
}

fn by_hand(directory_bucket: bool, keys: &[&str]) -> Mount {
    let options = SimOptions {
        time: Time::Manual,
        directory_bucket,
        ..SimOptions::default()
    };
    let write = WriteConfig {
        allow_rename: true,
        ..WriteConfig::default()
    };
    Mount::with_write(options, "", keys, write)
}

#[test]
fn what_was_gone_when_it_was_to_be_copied_is_not_deleted() {
    let mount = by_hand(false, &["d/a", "d/b"]);
    let gone = mount.bucket.object("d/b").unwrap();
    let renaming = begun(&mount, Operation::CopyObject);
    mount.bucket.remove("d/b");
    for (id, _) in waiting(&mount, Operation::CopyObject) {
        mount.bucket.finish(id);
    }
    // The deleted version is back.
    mount.bucket.insert(gone);
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
    assert_eq!(mount.bucket.keys(), ["d/b", "e/a"]);
}

#[test]
fn a_directory_rename_that_fails_ends_when_nothing_of_it_is_in_flight() {
    let keys: Vec<_> = (0..100).map(|number| format!("d/{number:03}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    for (is_directory_bucket, operation) in [
        (false, Operation::CopyObject),
        (true, Operation::RenameObject),
    ] {
        let mount = by_hand(is_directory_bucket, &keys);
        let mut renaming = begun(&mount, operation);
        if is_directory_bucket {
            // The first request shows that the bucket can rename.
            mount.bucket.deliver_all();
            waits(&mut renaming);
        }
        let sent = waiting(&mount, operation);
        assert!(sent.len() > 2);
        mount.bucket.fail(sent[1].0, ErrorKind::Denied);
        waits(&mut renaming);
        mount.bucket.finish(sent[0].0);
        waits(&mut renaming);
        assert_eq!(waiting(&mount, operation).len(), sent.len() - 2);
        let outcome = drive(&mount, renaming);
        assert!(matches!(outcome, Err(FsError::Denied(_))), "{outcome:?}");
        let moved = mount.bucket.keys();
        let moved = moved.iter().filter(|key| key.starts_with("e/")).count();
        assert_eq!(moved, sent.len() - 1 + usize::from(is_directory_bucket));
    }
}

/// Servers that delete no lists, or refuse their keys, need thousands of requests.
#[test]
fn a_directory_rename_hears_a_signal_while_it_deletes_one_by_one() {
    let keys: Vec<_> = (0..100).map(|number| format!("d/{number:03}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let mount = by_hand(false, &keys);
    mount.bucket.add_fault(FaultRule {
        operation: Some(Operation::DeleteObjects),
        when: When::From(1),
        fault: Fault::Fail(ErrorKind::Unsupported),
    });
    let stop = Stop::default();
    let renaming = begun_to_stop(&mount, Operation::DeleteObject, stop.clone());
    let sent = waiting(&mount, Operation::DeleteObject).len();
    stop.ask();
    let outcome = drive(&mount, renaming);
    assert!(matches!(outcome, Err(FsError::Interrupted)), "{outcome:?}");
    let left = mount.bucket.keys();
    let left = left.iter().filter(|key| key.starts_with("d/")).count();
    assert_eq!(left, keys.len() - sent);
}

/// A server that takes no versions in a list. A newer version of another host stays.
#[test]
fn a_directory_rename_deletes_no_newer_version_where_a_list_is_refused() {
    for kind in [ErrorKind::Unsupported, ErrorKind::InvalidRequest] {
        for has_conditions in [true, false] {
            let mount = by_hand(false, &["d/a", "d/b"]);
            let renaming = begun(&mount, Operation::DeleteObjects);
            if !has_conditions {
                // The check of each object is a HEAD there, as the first deletion shows.
                mount.bucket.add_fault(FaultRule {
                    operation: Some(Operation::DeleteObject),
                    when: When::Next(1),
                    fault: Fault::Fail(ErrorKind::Unsupported),
                });
            }
            mount.bucket.put_object("d/a", "newer");
            let (list, _) = waiting(&mount, Operation::DeleteObjects).remove(0);
            mount.bucket.fail(list, kind.clone());
            let outcome = drive(&mount, renaming);
            assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
            let expected = ["d/a", "e/a", "e/b"];
            assert_eq!(mount.bucket.keys(), expected, "{kind:?} {has_conditions}");
        }
    }
}

/// A mount of a server that ignores the version that these deletions name.
fn ignoring(deletions: &[Operation], keys: &[&str]) -> Mount {
    let mount = by_hand(false, keys);
    for deletion in deletions {
        mount.bucket.add_fault(FaultRule {
            operation: Some(*deletion),
            when: When::From(1),
            fault: Fault::IgnoreVersions,
        });
    }
    mount
}

const ONE: Operation = Operation::DeleteObject;
const LIST: Operation = Operation::DeleteObjects;

/// Another host writes after the last listing, while the first deletion is in flight.
#[test]
fn a_directory_rename_deletes_no_newer_version_on_a_server_that_ignores_versions() {
    for deletions in [&[][..], &[LIST], &[ONE], &[ONE, LIST]] {
        let mount = ignoring(deletions, &["d/a", "d/b", "d/c"]);
        let renaming = begun(&mount, LIST);
        mount.bucket.put_object("d/a", "newer");
        let outcome = drive(&mount, renaming);
        assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
        let expected = ["d/a", "e/a", "e/b", "e/c"];
        assert_eq!(mount.bucket.keys(), expected, "{deletions:?}");
        let there = mount.bucket.object("d/a").unwrap().content.to_vec();
        assert_eq!(&there[..], b"newer", "{deletions:?}");
    }
}

/// Another host writes to the tried object before the trial of the server.
#[test]
fn the_trial_of_a_server_deletes_no_newer_version() {
    for deletions in [&[][..], &[ONE, LIST]] {
        for newer in ["d/a", "d/b"] {
            let mount = ignoring(deletions, &["d/a", "d/b"]);
            let mut renaming = begun(&mount, Operation::CopyObject);
            mount.bucket.deliver_all();
            waits(&mut renaming);
            // The last listing, and then the HEAD of the object that is tried.
            while waiting(&mount, Operation::HeadObject).is_empty() {
                mount.bucket.deliver_all();
                waits(&mut renaming);
            }
            assert_eq!(waiting(&mount, Operation::HeadObject).len(), 1);
            mount.bucket.put_object(newer, "newer");
            let outcome = drive(&mount, renaming);
            assert!(matches!(outcome, Err(FsError::Busy(_))), "{outcome:?}");
            assert_eq!(mount.bucket.keys(), [newer, "e/a", "e/b"], "{deletions:?}");
        }
    }
}

/// Requests of two renames of three files: a mount tries a server once.
#[test]
fn a_server_is_tried_once_for_the_versions_of_deletions() {
    for (deletions, lists, ones) in [
        (&[][..], [2, 1], [0, 0]),
        (&[LIST], [1, 0], [3, 3]),
        (&[ONE, LIST], [1, 0], [2, 3]),
        (&[ONE], [2, 1], [0, 0]),
    ] {
        let mount = ignoring(deletions, &["d/a", "d/b", "d/c"]);
        drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
        let names = [OsStr::new("d"), OsStr::new("e"), OsStr::new("f")];
        for rename in 0..2 {
            let (from, to) = ((ROOT, names[rename]), (ROOT, names[rename + 1]));
            drop(mount.bucket.take_log());
            let stop = Stop::never();
            drive(&mount, mount.fs.rename(from, to, Replace, &stop)).unwrap();
            let log = mount.bucket.take_log();
            assert_eq!(log.count(LIST), lists[rename], "{deletions:?}");
            let is_one = |key: &str| !key.ends_with('/');
            let of_one = log
                .records()
                .iter()
                .filter(|it| it.operation == ONE && is_one(&it.key));
            assert_eq!(of_one.count(), ones[rename], "{deletions:?}");
        }
        assert_eq!(mount.bucket.keys(), ["f/a", "f/b", "f/c"]);
    }
}

/// An object that another client has removed is gone. About an existing one the server is wrong.
///
/// In the second case the error does not claim that the directory is missing.
#[test]
fn an_object_that_a_native_rename_does_not_find() {
    for hit in [1, 2] {
        let mount = by_hand(true, &["d/a", "d/b", "d/c"]);
        mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::RenameObject),
            when: When::Nth(hit),
            fault: Fault::Fail(ErrorKind::NotFound),
        });
        let outcome = drive(&mount, begun(&mount, Operation::RenameObject));
        assert!(
            matches!(outcome, Err(FsError::Busy(_))),
            "{hit}: {outcome:?}"
        );
        assert_eq!(mount.bucket.keys().len(), 3);
    }
    for gone in ["d/a", "d/b"] {
        let mount = by_hand(true, &["d/a", "d/b", "d/c"]);
        let mut renaming = begun(&mount, Operation::RenameObject);
        mount.bucket.remove(gone);
        waits(&mut renaming);
        drive(&mount, renaming).unwrap();
        let left = ["d/a", "d/b", "d/c"].iter().filter(|key| **key != gone);
        let left: Vec<_> = left.map(|key| key.replace("d/", "e/")).collect();
        assert_eq!(mount.bucket.keys(), left, "{gone}");
    }
}

#[test]
fn a_copy_in_parts_that_fails_is_aborted_when_none_is_in_flight() {
    let write = WriteConfig {
        allow_rename: true,
        copy_limits: CopyLimits {
            whole_max: 1 << 20,
            part_max: 5 << 20,
        },
        ..WriteConfig::default()
    };
    let mount = manual(&[], write);
    mount.bucket.put_pattern("d/a", 20 << 20, 1);
    let mut renaming = begun(&mount, Operation::UploadPartCopy);
    let sent = waiting(&mount, Operation::UploadPartCopy);
    assert_eq!(sent.len(), 4);
    mount.bucket.fail(sent[0].0, ErrorKind::Denied);
    for (id, _) in &sent[1..] {
        waits(&mut renaming);
        assert!(waiting(&mount, Operation::AbortMultipartUpload).is_empty());
        mount.bucket.finish(*id);
    }
    waits(&mut renaming);
    assert_eq!(waiting(&mount, Operation::AbortMultipartUpload).len(), 1);
    drive(&mount, renaming).unwrap_err();
    assert_eq!(mount.bucket.keys(), ["d/a"]);
}

#[test]
fn an_empty_directory_with_a_marker_is_replaced_by_the_marker_of_the_other() {
    for is_directory_bucket in [false, true] {
        let mount = by_hand(is_directory_bucket, &["d/x"]);
        for (key, mode) in [("d/", "16832"), ("e/", "16895")] {
            let headers = ObjectHeaders {
                metadata: vec![("mode".to_owned(), mode.to_owned())],
                ..ObjectHeaders::default()
            };
            mount.bucket.insert(SimObject {
                headers,
                ..SimObject::new(Key::parse(key).unwrap(), Content::bytes(""))
            });
        }
        for name in ["d", "e"] {
            drive(&mount, mount.fs.lookup(ROOT, OsStr::new(name))).unwrap();
        }
        let stop = Stop::never();
        let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
        drive(&mount, mount.fs.rename(from, to, Replace, &stop)).unwrap();
        assert_eq!(mount.bucket.keys(), ["e/", "e/x"]);
        let marker = mount.bucket.object("e/").unwrap();
        assert_eq!(marker.headers.metadata[0].1, "16832");
        let log = mount.bucket.take_log();
        assert_eq!(log.count(Operation::CopyObject) == 0, is_directory_bucket);
    }
}

#[test]
fn a_directory_with_an_object_that_cannot_be_asked_for_stays_as_it_is() {
    for (keys, named) in [
        (["d/a", "d/b\0no ETag"], "\"d/b\" has no ETag"),
        (["d/\0no ETag", "d/a"], "\"d/\" has no ETag"),
        (["d/a", "e/b\0no ETag"], "\"e/b\" has no ETag"),
        (["d/a", "d/b/\0ffc"], "not UTF-8"),
    ] {
        for is_directory_bucket in [false, true] {
            let mount = by_hand(is_directory_bucket, &keys);
            drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
            drive(&mount, mount.fs.lookup(ROOT, OsStr::new("e"))).ok();
            drop(mount.bucket.take_log());
            let stop = Stop::never();
            let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
            let refused = drive(&mount, mount.fs.rename(from, to, Replace, &stop)).unwrap_err();
            assert!(
                matches!(&refused, FsError::NotPermitted(text) if text.contains(named)),
                "{keys:?}: {refused}"
            );
            assert_eq!(mount.bucket.keys(), keys);
            let log = mount.bucket.take_log();
            for record in log.records() {
                assert!(
                    matches!(
                        record.operation,
                        Operation::ListObjectsV2 | Operation::HeadObject
                    ),
                    "{record:?}"
                );
            }
        }
    }
    // A NUL alone is a part of the key.
    let mount = by_hand(false, &["d/a", "d/b\0c"]);
    drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let stop = Stop::never();
    let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
    drive(&mount, mount.fs.rename(from, to, Replace, &stop)).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/a", "e/b\0c"]);
}

/// The kernel has pages of an old version. A rename by a copy moves the current one.
#[test]
fn a_version_that_others_wrote_is_moved_and_read_under_its_new_name() {
    for directory_bucket in [false, true] {
        let options = SimOptions {
            directory_bucket,
            ..SimOptions::default()
        };
        let write = WriteConfig {
            allow_rename: true,
            ..WriteConfig::default()
        };
        let mount = Mount::with_write(options, "", &["a"], write);
        let ino = mount.walk("a");
        let before = now(mount.fs.open(ino, READ)).unwrap();
        now(mount.fs.read(before.handle, 0, 100, true)).unwrap();
        mount.clock.advance(std::time::Duration::from_millis(1));
        mount.bucket.put_object("a", "theirs");
        let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
        now(mount.fs.rename(from, to, Replace, &Stop::never())).unwrap();
        mount.clock.advance(std::time::Duration::from_millis(1));
        let opened = match now(mount.fs.open(ino, READ)) {
            Err(FsError::Stale(_)) => now(mount.fs.open(mount.walk("b"), READ)),
            opened => opened,
        };
        let opened = opened.unwrap();
        assert!(
            !opened.keep_cache,
            "{directory_bucket}: these are old pages"
        );
        let data = now(mount.fs.read(opened.handle, 0, 100, true)).unwrap();
        assert_eq!(data.to_vec(), b"theirs", "{directory_bucket}");
        // A handle on the old version does not mix it with the new one.
        let old = now(mount.fs.read(before.handle, 0, 100, true));
        if let Ok(old) = old {
            assert_eq!(old.to_vec(), b"content of a", "{directory_bucket}");
        }
        assert_ne!(
            mount.walk("b"),
            ino,
            "{directory_bucket}: it is another file"
        );
    }
}

/// A server that deletes no lists of objects gets a request for each.
#[test]
fn a_directory_moves_on_a_server_that_deletes_no_lists() {
    for kind in [ErrorKind::Unsupported, ErrorKind::InvalidRequest] {
        let mount = by_hand(false, &["d/a", "d/s/b"]);
        let deletions = Operation::DeleteObjects;
        mount.bucket.fail_next(deletions, u32::MAX, kind);
        let renaming = begun(&mount, Operation::CopyObject);
        drive(&mount, renaming).unwrap();
        assert_eq!(mount.bucket.keys(), ["e/a", "e/s/b"]);
    }
}

/// The refusal is remembered: a whole object is copied by an upload from then on, and the
/// completion of one in parts is repeated without its copies.
#[test]
fn that_a_server_takes_no_conditions_is_seen_once() {
    for (whole_max, request, counted, (first, later)) in [
        (
            1 << 30,
            Operation::CopyObject,
            Operation::CopyObject,
            (2, 0),
        ),
        (
            1,
            Operation::CompleteMultipartUpload,
            Operation::UploadPartCopy,
            (1, 1),
        ),
    ] {
        let write = WriteConfig {
            allow_rename: true,
            copy_limits: CopyLimits {
                whole_max,
                part_max: 5 << 20,
            },
            ..WriteConfig::default()
        };
        let keys = ["a", "b", "c"];
        let mount = Mount::with_write(SimOptions::default(), "", &keys, write);
        mount.bucket.fail_next(request, 1, ErrorKind::Unsupported);
        for (key, copies) in [("a", first), ("b", later), ("c", later)] {
            mount.walk(key);
            drop(mount.bucket.take_log());
            let (new, never) = (format!("{key}.new"), Stop::never());
            let (from, to) = ((ROOT, OsStr::new(key)), (ROOT, OsStr::new(&new)));
            now(mount.fs.rename(from, to, Replace, &never)).unwrap();
            let log = mount.bucket.take_log();
            assert_eq!(log.count(counted), copies, "{key} {whole_max}");
        }
        // A newer object is not replaced, whichever side refuses.
        mount.bucket.put_object("d", "mine");
        mount.walk("d");
        mount.bucket.put_object("e", "theirs");
        let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
        let refused = now(mount.fs.rename(from, to, Replace, &Stop::never()));
        assert!(
            matches!(refused, Err(FsError::NotPermitted(_))),
            "{refused:?}"
        );
        assert_eq!(
            mount.bucket.object("e").unwrap().content.to_vec(),
            b"theirs"
        );
    }
}

/// A server that refuses conditions of copies gets a copy without one after a check.
#[test]
fn a_file_moves_on_a_server_that_takes_no_conditions_of_copies() {
    for (there, made_meanwhile, is_moved) in [
        (&["a"][..], false, true),
        (&["a", "b"], false, false),
        (&["a"], true, false),
    ] {
        let mount = by_hand(false, there);
        drive(&mount, mount.fs.lookup(ROOT, OsStr::new("a"))).unwrap();
        let refused = ErrorKind::Unsupported;
        mount.bucket.fail_next(Operation::CopyObject, 1, refused);
        let never = Stop::never();
        let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
        let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &never));
        if made_meanwhile {
            while waiting(&mount, Operation::CopyObject).is_empty() {
                waits(&mut renaming);
                mount.bucket.deliver_all();
                waits(&mut renaming);
            }
            mount.bucket.put_object("b", "theirs");
        }
        let outcome = drive(&mount, renaming);
        assert_eq!(outcome.is_ok(), is_moved, "{there:?}: {outcome:?}");
        let moved = mount.bucket.object("b").unwrap().content.to_vec();
        let theirs = match made_meanwhile {
            true => "theirs",
            false => "content of b",
        };
        let expected = if is_moved { "content of a" } else { theirs };
        assert_eq!(moved, expected.as_bytes(), "{there:?}");
        assert_eq!(mount.bucket.object("a").is_none(), is_moved);
    }
}

/// A server that ignores conditions of copies gets an upload, whose completion keeps them.
#[test]
fn a_file_moves_on_a_server_that_ignores_conditions_of_copies() {
    for made_meanwhile in [false, true] {
        let mount = by_hand(false, &["a"]);
        mount.fs.parts.mutator.believe(false);
        mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::CopyObject),
            when: When::Every(1),
            fault: Fault::IgnoreVersions,
        });
        drive(&mount, mount.fs.lookup(ROOT, OsStr::new("a"))).unwrap();
        let never = Stop::never();
        let (from, to) = ((ROOT, OsStr::new("a")), (ROOT, OsStr::new("b")));
        let mut renaming = Box::pin(mount.fs.rename(from, to, Replace, &never));
        if made_meanwhile {
            while waiting(&mount, Operation::CompleteMultipartUpload).is_empty() {
                waits(&mut renaming);
                mount.bucket.deliver_all();
                waits(&mut renaming);
            }
            mount.bucket.put_object("b", "theirs");
        }
        let outcome = drive(&mount, renaming);
        assert_eq!(outcome.is_err(), made_meanwhile, "{outcome:?}");
        let expected = match made_meanwhile {
            true => "theirs",
            false => "content of a",
        };
        let there = mount.bucket.object("b").unwrap().content.to_vec();
        assert_eq!(there, expected.as_bytes());
        assert_eq!(mount.bucket.object("a").is_some(), made_meanwhile);
    }
}

/// A policy may permit writes below the new name only: the trial is made there then.
#[test]
fn a_file_is_copied_from_a_key_that_may_not_be_written() {
    for is_ignored in [false, true] {
        let mount = writable(&["a"]);
        mount.fs.parts.mutator.believe(false);
        let rule = |when, fault| FaultRule {
            operation: Some(Operation::CopyObject),
            when,
            fault,
        };
        let denied = Fault::Fail(ErrorKind::Denied);
        mount.bucket.add_fault(rule(When::Next(1), denied));
        if is_ignored {
            let ignored = Fault::IgnoreVersions;
            mount.bucket.add_fault(rule(When::Every(1), ignored));
        }
        let (from, to) = (Key::parse("a").unwrap(), Key::parse("b").unwrap());
        let never = Stop::never();
        let (_, etag) = now(mount.fs.parts.mutator.link(&from, &to, &never)).unwrap();
        let there = mount.bucket.object("b").unwrap();
        assert_eq!(there.etag, etag, "{is_ignored}");
        assert_eq!(there.content.to_vec(), b"content of a");
        // The result of the trial there is remembered.
        drop(mount.bucket.take_log());
        let other = Key::parse("c").unwrap();
        now(mount.fs.parts.mutator.link(&from, &other, &never)).unwrap();
        let copies = mount.bucket.take_log().count(Operation::CopyObject);
        assert_eq!(copies, usize::from(!is_ignored));
    }
}
