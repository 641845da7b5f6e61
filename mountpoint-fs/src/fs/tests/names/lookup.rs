//! `lookup`, `attributes` and `forget`.

use std::os::unix::ffi::OsStrExt;
use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Content, Operation, SimObject, Time};
use mountpoint_client::types::Key;

use super::*;
use crate::config::limits::FILE_TTL;
use crate::namespace::bounds::BATCH_LOOKUPS;

const ROOT: InodeNo = InodeNo::ROOT;

/// The kind and size as a text, or the error's first word.
fn told(outcome: Result<Entry, FsError>) -> String {
    match outcome {
        Ok(entry) if entry.attributes.kind == FileKind::Directory => "directory".to_owned(),
        Ok(entry) => format!("file {}", entry.attributes.size),
        Err(error) => format!("{error:?}")
            .split(['(', ' '])
            .next()
            .unwrap()
            .to_owned(),
    }
}

#[test]
fn which_names_there_are() {
    #[track_caller]
    fn check(keys: &[&str], path: &str, expected: &str) {
        let mount = Mount::immediate(keys);
        let (parent, name) = match path.rsplit_once('/') {
            Some((parent, name)) => (mount.walk(parent), name),
            None => (ROOT, path),
        };
        assert_eq!(
            told(mount.lookup(parent, name)),
            expected,
            "{path} in {keys:?}"
        );
    }
    check(&[], "a", "NotFound");
    check(&["a"], "a", "file 12");
    check(&["a"], "b", "NotFound");
    check(&["ab"], "a", "NotFound");
    check(&["a/b"], "a", "directory");
    check(&["a/b"], "a/b", "file 14");
    check(&["a/b/c"], "a/b", "directory");
    check(&["a b/ü.txt"], "a b/ü.txt", "file 21");
    // A directory shadows a file.
    check(&["a", "a/b"], "a", "directory");
    check(&["a", "a/"], "a", "directory");
    check(&["a-b", "a/b"], "a", "directory");
    // Markers.
    check(&["a/"], "a", "directory");
    check(&["a/"], "a/b", "NotFound");
    check(&["a/", "a/b"], "a/b", "file 14");
    // Hidden keys; the components before the hidden one exist.
    check(&["a//b"], "a", "directory");
    check(&["a//b"], "a/b", "NotFound");
    check(&["a/./b"], "a/b", "NotFound");
    check(&["/b"], "b", "NotFound");
    check(&["a/../b"], "b", "NotFound");
    for name in ["", ".", "..", "a\0"] {
        check(&["a", "a//", "a/../b"], name, "InvalidName");
    }
    check(&["a"], &"n".repeat(256), "NameTooLong");
    check(&[&"n".repeat(255)], &"n".repeat(255), "file 266");
}

#[test]
fn names_that_no_key_has_are_not_asked_for() {
    let mount = Mount::immediate(&["a"]);
    let outcome = now(mount.fs.lookup(ROOT, OsStr::from_bytes(b"\xff")));
    assert!(matches!(outcome, Err(FsError::InvalidName(_))));
    let file = mount.walk("a");
    assert_eq!(mount.requests(), (0, 1, 0));
    assert!(matches!(
        mount.lookup(file, "b"),
        Err(FsError::NotADirectory)
    ));
    assert!(matches!(
        mount.lookup(InodeNo(99), "b"),
        Err(FsError::Stale(_))
    ));
    assert_eq!(mount.requests(), (0, 0, 0));
}

#[test]
fn the_longest_key() {
    let component = "c".repeat(255);
    let directory = [component.as_str(); 4].join("/");
    let key = format!("{directory}/");
    assert_eq!(key.len(), 1024);
    let mount = Mount::immediate(&[&key]);
    let parent = mount.walk(&directory);
    assert!(matches!(
        mount.lookup(parent, "n"),
        Err(FsError::NameTooLong)
    ));

    let (parent, name) = (["c".repeat(254).as_str(); 4].join("/"), "nnnn");
    let key = format!("{parent}/{name}");
    assert_eq!(key.len(), 1024);
    let mount = Mount::immediate(&[&key]);
    let parent = mount.walk(&parent);
    mount.clock.advance(FILE_TTL);
    mount.requests();
    assert_eq!(told(mount.lookup(parent, name)), "file 1035");
    assert_eq!(mount.requests(), (0, 1, 0));
    assert_eq!(mount.names(parent), [name]);
}

#[test]
fn only_the_mounted_prefix_is_seen() {
    let mount = Mount::new(
        Time::Immediate,
        "p/q/",
        &["a", "p/a", "p/q/a", "p/q/d/e", "p/qq"],
    );
    assert_eq!(told(mount.lookup(ROOT, "a")), "file 16");
    assert_eq!(told(mount.lookup(ROOT, "p")), "NotFound");
    assert_eq!(told(mount.lookup(mount.walk("d"), "e")), "file 18");
    assert_eq!(mount.names(ROOT), ["a", "d/"]);
    let keys: Vec<String> = mount
        .bucket
        .take_log()
        .records()
        .iter()
        .map(|record| record.key.clone())
        .collect();
    assert!(keys.iter().all(|key| key.starts_with("p/q/")), "{keys:?}");
}

/// Keys of requests in flight, with their operations.
fn asked(mount: &Mount) -> Vec<(Operation, String)> {
    let pending = mount.bucket.pending_requests();
    pending.into_iter().map(|r| (r.operation, r.key)).collect()
}

#[test]
fn a_cold_lookup_is_one_request() {
    for (name, expected) in [("a", "file 12"), ("d", "directory"), ("none", "NotFound")] {
        let mount = Mount::manual(&["a", "d/x", "d"]);
        let mut lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new(name)));
        waits(&mut lookup);
        let list = (Operation::ListObjectsV2, name.to_owned());
        assert_eq!(asked(&mount), [list]);
        assert_eq!(mount.bucket.deliver_all(), 1);
        assert_eq!(told(now(lookup)), expected);
    }
}

#[test]
fn what_a_lookup_saw_below_answers_the_next_ones() {
    let mount = Mount::immediate(&["a/b/c", "a/b/d/e", "a/x", "apple"]);
    mount.walk("a/b/c");
    mount.walk("a/b/d/e");
    mount.walk("a/x");
    mount.walk("apple");
    assert_eq!(mount.requests(), (0, 1, 0));
    // An absent name is looked up each time.
    let a = mount.walk("a");
    for _ in 0..2 {
        assert_eq!(told(mount.lookup(a, "new")), "NotFound");
        assert_eq!(mount.requests(), (0, 1, 0));
    }
    mount.bucket.put_object("a/new", "new");
    assert_eq!(told(mount.lookup(a, "new")), "file 3");
    assert_eq!(mount.requests(), (0, 1, 0));
    // A listing is valid as long as its answer.
    mount.clock.advance(FILE_TTL - Duration::from_millis(1));
    assert_eq!(mount.lookup(a, "x").unwrap().ttl, Duration::from_millis(1));
    assert_eq!(mount.requests(), (0, 0, 0));
    mount.clock.advance(Duration::from_millis(1));
    mount.lookup(a, "x").unwrap();
    assert_eq!(mount.requests(), (0, 1, 0));
}

/// Between `a` and the keys below `a/` are more keys than a lookup lists.
#[test]
fn a_crowded_name_is_two_requests() {
    let siblings: Vec<String> = (0..150).map(|number| format!("a-{number:03}/x")).collect();
    let check = |more: &[&str], expected: &str| {
        let keys: Vec<&str> = siblings.iter().map(String::as_str).collect();
        let mount = Mount::immediate(&[&keys, more].concat());
        let found = mount.lookup(ROOT, "a");
        assert_eq!(told(found.clone()), expected);
        assert_eq!(mount.requests(), (0, 2, 0));
        if expected == "directory" {
            let directory = found.unwrap().attributes.ino;
            assert_eq!(told(mount.lookup(directory, "b")), "directory");
            assert_eq!(mount.requests(), (0, 0, 0));
        }
    };
    check(&[], "NotFound");
    check(&["a"], "file 12");
    check(&["a/b/c"], "directory");
    check(&["a", "a/b/c"], "directory");
}

#[test]
fn in_a_directory_bucket_a_lookup_is_answered_as_soon_as_it_is_certain() {
    #[track_caller]
    fn check(name: &str, first: Operation, outcome: Option<ErrorKind>, expected: Option<&str>) {
        let options = SimOptions {
            time: Time::Manual,
            directory_bucket: true,
            ..SimOptions::default()
        };
        let mount = Mount::with_options(options, "", &["a", "d/x", "d"]);
        let mut lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new(name)));
        waits(&mut lookup);
        let asked = mount.bucket.pending_requests();
        assert_eq!(asked.len(), 2);
        let first = asked
            .iter()
            .find(|request| request.operation == first)
            .unwrap();
        match outcome {
            None => mount.bucket.finish(first.id),
            Some(kind) => mount.bucket.fail(first.id, kind),
        };
        assert_eq!(
            lookup.now_or_never().map(told).as_deref(),
            expected,
            "{name}"
        );
    }
    check("d", Operation::ListObjectsV2, None, Some("directory"));
    check("d", Operation::HeadObject, None, None);
    check("d", Operation::HeadObject, Some(ErrorKind::Transient), None);
    check("a", Operation::ListObjectsV2, None, None);
    check("a", Operation::HeadObject, None, None);
    check("none", Operation::ListObjectsV2, None, None);
    check("none", Operation::HeadObject, None, None);
    check(
        "a",
        Operation::ListObjectsV2,
        Some(ErrorKind::Denied),
        Some("Denied"),
    );
}

#[test]
fn names_of_a_directory_bucket() {
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    let keys: Vec<String> = (0..300).map(|number| format!("d/n{number:03}/x")).collect();
    let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    keys.extend(["d/a", "d/e/f"]);
    let mount = Mount::with_options(options, "", &keys);
    assert_eq!(told(mount.lookup(mount.walk("d"), "a")), "file 14");
    assert_eq!(told(mount.lookup(mount.walk("d"), "e")), "directory");
    assert_eq!(told(mount.lookup(mount.walk("d/e"), "f")), "file 16");
    assert_eq!(told(mount.lookup(mount.walk("d"), "none")), "NotFound");
    for number in 0..300 {
        mount.walk(&format!("d/n{number:03}/x"));
    }
}

#[test]
fn errors_of_a_lookup() {
    #[track_caller]
    fn check(operation: Operation, kind: ErrorKind, name: &str, expected: &str) {
        let mount = Mount::immediate(&["a", "d/x"]);
        mount.bucket.fail_next(operation, 1, kind);
        assert_eq!(told(mount.lookup(ROOT, name)), expected);
        // The mount remembers nothing of it.
        assert_ne!(told(mount.lookup(ROOT, name)), expected);
    }
    let list = Operation::ListObjectsV2;
    check(list, ErrorKind::Throttled, "a", "Client");
    check(list, ErrorKind::Denied, "a", "Denied");
    check(list, ErrorKind::Throttled, "d", "Client");
    check(list, ErrorKind::Credentials, "a", "Client");
}

#[test]
fn many_lookups_of_one_directory_become_a_listing_of_it() {
    let keys: Vec<String> = (0..200).map(|number| format!("n{number}")).collect();
    let mount = Mount::manual(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let mut lookups: Vec<_> = keys
        .iter()
        .map(|key| Box::pin(mount.fs.lookup(ROOT, OsStr::new(key))))
        .collect();
    lookups.iter_mut().for_each(waits);
    // The few single names and the directory for all others are requested at once.
    let names = usize::try_from(BATCH_LOOKUPS).unwrap();
    assert_eq!(asked(&mount).len(), names + 1);
    assert_eq!(asked(&mount)[names].1, "");
    mount.bucket.deliver_all();
    for lookup in lookups {
        assert!(now(lookup).is_ok());
    }
    assert_eq!(mount.fs.inode_count(), 200);
}

/// An absent name, looked up among many existing ones.
#[test]
fn absence_is_told_by_a_listing_that_was_asked_for_it() {
    let keys: Vec<String> = (0..200).map(|number| format!("n{number:03}")).collect();
    let mount = Mount::manual(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let lookup = |name: &'static str| Box::pin(mount.fs.lookup(ROOT, OsStr::new(name)));
    let mut first: Vec<_> = ["n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7"]
        .map(&lookup)
        .into();
    first.iter_mut().for_each(waits);
    let mut absent = lookup("absent");
    waits(&mut absent);
    // It joins a listing in flight, which may have missed the name.
    mount.clock.advance(Duration::from_millis(1));
    let mut late = lookup("late");
    waits(&mut late);
    mount.bucket.deliver_all();
    assert_eq!(told(now(absent)), "NotFound");
    mount.bucket.put_object("late", "new");
    waits(&mut late);
    mount.bucket.deliver_all();
    assert_eq!(told(now(late)), "file 3");
}

#[test]
fn a_directory_of_many_pages_is_listed_where_its_names_are_looked_up() {
    let keys: Vec<String> = (0..3000).map(|number| format!("d/n{number:04}")).collect();
    let mount = Mount::immediate(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let directory = mount.walk("d");
    mount.clock.advance(FILE_TTL);
    mount.requests();
    for number in 500..3000 {
        mount.lookup(directory, &format!("n{number:04}")).unwrap();
    }
    let (head, list, other) = mount.requests();
    assert_eq!(head, 0);
    assert!(list <= 16, "{list}");
    assert!(other <= 2, "first bytes that nobody took: {other}");
}

#[test]
fn identical_lookups_share_their_requests() {
    let mount = Mount::manual(&["a"]);
    let mut lookups: Vec<_> = (0..64)
        .map(|_| Box::pin(mount.fs.lookup(ROOT, OsStr::new("a"))))
        .collect();
    lookups.iter_mut().for_each(waits);
    assert_eq!(mount.bucket.pending_requests().len(), 1);
    // The lookup that began the request is dropped; the others do not notice.
    drop(lookups.remove(0));
    mount.bucket.deliver_all();
    let inos: Vec<InodeNo> = lookups
        .into_iter()
        .map(|lookup| now(lookup).unwrap().attributes.ino)
        .collect();
    assert!(inos.iter().all(|ino| *ino == inos[0]));
    mount.fs.forget(inos[0], 62);
    assert_eq!(mount.fs.inode_count(), 1);
    mount.fs.forget(inos[0], 1);
    assert_eq!(mount.fs.inode_count(), 0);
    assert_eq!(mount.requests(), (0, 1, 0));
    // A later lookup asks again.
    waits(&mut Box::pin(mount.fs.lookup(ROOT, OsStr::new("a"))));
    assert_eq!(mount.requests(), (0, 1, 0));
}

#[test]
fn a_lookup_that_is_dropped_leaves_nothing() {
    let mount = Mount::manual(&["a"]);
    let mut lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
    waits(&mut lookup);
    mount.bucket.deliver_all();
    drop(lookup);
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn one_version_is_one_inode() {
    let mount = Mount::immediate(&["a"]);
    let first = mount.lookup(ROOT, "a").unwrap().attributes;
    assert_eq!(
        (first.mode, first.nlink, first.uid, first.gid),
        (0o644, 1, 10, 20)
    );
    assert_eq!(mount.lookup(ROOT, "a").unwrap().attributes, first);
    // Equal bytes, written at another time.
    mount.bucket.put_object("a", "content of a");
    let again = mount.lookup(ROOT, "a").unwrap().attributes;
    assert_eq!(again.ino, first.ino);
    assert!(again.mtime > first.mtime);

    mount.bucket.put_object("a", "other bytes!");
    let second = mount.lookup(ROOT, "a").unwrap().attributes;
    assert_ne!(second.ino, first.ino);
    assert_eq!(second.size, first.size);
    assert_eq!(mount.fs.inode_count(), 2);
    assert!(matches!(
        now(mount.fs.attributes(first.ino)),
        Err(FsError::Stale(_))
    ));
    mount.fs.forget(first.ino, 3);
    mount.fs.forget(second.ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn a_name_of_another_kind_is_another_inode() {
    let mount = Mount::immediate(&["a"]);
    let file = mount.walk("a");
    mount.bucket.put_object("a/b", "b");
    let directory = mount.lookup(ROOT, "a").unwrap().attributes;
    assert_eq!(
        (directory.kind, directory.mode, directory.nlink),
        (FileKind::Directory, 0o755, 1)
    );
    let child = mount.lookup(directory.ino, "b").unwrap().attributes.ino;
    mount.bucket.remove("a/b");
    let second = mount.walk("a");
    assert!(file != directory.ino && second != directory.ino && second != file);
    assert!(matches!(
        now(mount.fs.attributes(directory.ino)),
        Err(FsError::Stale(_))
    ));
    // The child keeps its parent in the table.
    mount.fs.forget(directory.ino, 1);
    mount.clock.advance(FILE_TTL);
    assert!(matches!(
        now(mount.fs.attributes(child)),
        Err(FsError::NotFound)
    ));
    for ino in [file, second, child] {
        mount.fs.forget(ino, 1);
    }
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn attributes_are_answered_while_valid() {
    let mount = Mount::immediate(&["d/a"]);
    let ino = mount.walk("d/a");
    mount.requests();
    mount.clock.advance(Duration::from_millis(700));
    assert_eq!(
        now(mount.fs.attributes(ino)).unwrap().ttl,
        Duration::from_millis(300)
    );
    assert_eq!(mount.requests(), (0, 0, 0));
    mount.clock.advance(Duration::from_millis(300));
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().ttl, FILE_TTL);
    assert_eq!(mount.requests(), (0, 1, 0));
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().ttl, FILE_TTL);
    assert_eq!(mount.requests(), (0, 0, 0));
    mount.clock.advance(Duration::from_secs(3600));
    assert_eq!(
        now(mount.fs.attributes(ROOT)).unwrap().kind,
        FileKind::Directory
    );
    assert_eq!(mount.requests(), (0, 0, 0));
}

#[test]
fn attributes_of_what_changed() {
    #[track_caller]
    fn check(change: impl Fn(&SimClient), expected: &str) {
        let mount = Mount::immediate(&["a"]);
        let ino = mount.walk("a");
        change(&mount.bucket);
        assert!(now(mount.fs.attributes(ino)).is_ok(), "still valid");
        mount.clock.advance(FILE_TTL);
        let outcome = now(mount.fs.attributes(ino)).map(|attributes| Entry {
            attributes,
            ttl: FILE_TTL,
        });
        assert_eq!(told(outcome), expected);
        mount.fs.forget(ino, 1);
        assert_eq!(mount.fs.inode_count(), 0);
    }
    check(|_| {}, "file 12");
    check(
        |bucket| drop(bucket.put_object("a", "content of a")),
        "file 12",
    );
    check(|bucket| drop(bucket.put_object("a", "new")), "Stale");
    check(|bucket| drop(bucket.put_object("a/b", "new")), "Stale");
    check(|bucket| assert!(bucket.remove("a")), "NotFound");
    check(
        |bucket| bucket.fail_next(Operation::ListObjectsV2, 1, ErrorKind::Transient),
        "Client",
    );
}

#[test]
fn archived_objects_are_seen_but_not_readable() {
    let mount = Mount::immediate(&[]);
    let object = |key: &str| SimObject::new(Key::parse(key).unwrap(), Content::bytes("x"));
    mount
        .bucket
        .insert(object("cold").with_storage_class("GLACIER"));
    mount.bucket.insert(SimObject {
        restored: true,
        ..object("warm").with_storage_class("DEEP_ARCHIVE")
    });
    mount
        .bucket
        .insert(object("instant").with_storage_class("GLACIER_IR"));
    for (name, mode) in [("cold", 0), ("warm", 0o644), ("instant", 0o644)] {
        let attributes = mount.lookup(ROOT, name).unwrap().attributes;
        assert_eq!(attributes.mode, mode, "{name}");
        let opened = now(mount.fs.open(attributes.ino, READ));
        match mode {
            0 => assert!(
                matches!(opened, Err(FsError::Denied(text)) if text.contains("cold is archived"))
            ),
            _ => mount.fs.release(opened.unwrap().handle),
        }
    }
    // A restored copy appears: an equal version, and readable.
    let cold = mount.lookup(ROOT, "cold").unwrap().attributes.ino;
    mount.bucket.insert(SimObject {
        restored: true,
        ..object("cold").with_storage_class("GLACIER")
    });
    let restored = mount.lookup(ROOT, "cold").unwrap().attributes;
    assert_eq!((restored.ino, restored.mode), (cold, 0o644));
}

/// A slow answer from before an object's replacement arrives after a newer one.
#[test]
fn answers_that_overtake_each_other() {
    let mount = Mount::manual(&["a"]);
    let mut slow = Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
    waits(&mut slow);
    mount.bucket.deliver_all();
    mount.bucket.put_object("a", "new");
    mount.clock.advance(Duration::from_millis(1));
    let handle = now(mount.fs.open_directory(ROOT)).unwrap();
    let mut sink = Sink::new(9);
    let mut read = Box::pin(mount.fs.read_directory(handle, 0, true, &mut sink));
    waits(&mut read);
    mount.bucket.deliver_all();
    now(read).unwrap();
    let listed = sink.entries[2].entry.attributes;
    assert_eq!(listed.size, 3);
    // Its answer contradicts newer knowledge, so it asks once more.
    waits(&mut slow);
    mount.bucket.deliver_all();
    assert_eq!(now(slow).unwrap().attributes, listed);
}

/// A listing that was requested before a lookup and returned after it.
#[test]
fn a_listing_makes_nothing_valid_that_it_contradicts() {
    for is_same in [true, false] {
        let mount = Mount::manual(&["a", "b"]);
        let handle = now(mount.fs.open_directory(ROOT)).unwrap();
        let mut sink = Sink::new(9);
        let mut read = Box::pin(mount.fs.read_directory(handle, 0, true, &mut sink));
        waits(&mut read);
        mount.bucket.deliver_all();
        if !is_same {
            mount.bucket.put_object("a", "new");
        }
        mount.clock.advance(Duration::from_millis(400));
        let look = || Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
        let mut lookup = look();
        waits(&mut lookup);
        mount.bucket.deliver_all();
        let found = now(lookup).unwrap().attributes;
        mount.clock.advance(Duration::from_millis(400));
        now(read).unwrap();
        let listed = sink.entries[2].entry;
        assert_eq!(listed.attributes.ino, found.ino);
        let left = if is_same { FILE_TTL } else { Duration::ZERO };
        assert_eq!(listed.ttl, left);
        mount.clock.advance(Duration::from_millis(700));
        // The page answers, or a request.
        let mut again = look();
        assert_eq!((&mut again).now_or_never().is_some(), is_same);
        let mut attributes = Box::pin(mount.fs.attributes(found.ino));
        assert_eq!((&mut attributes).now_or_never().is_some(), is_same);
    }
}

/// An answer of two requests is as old as the first of their answers.
#[test]
fn an_answer_of_two_requests_is_valid_from_the_first_on() {
    let mut keys: Vec<String> = (0..150).map(|number| format!("a-{number:03}/x")).collect();
    keys.push("a".to_owned());
    let mount = Mount::manual(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let look = || Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
    let millis = Duration::from_millis;
    let answer = |after: u64| {
        mount.clock.advance(millis(after));
        let pending = mount.bucket.pending_requests();
        assert_eq!(pending.len(), 1);
        mount.bucket.finish(pending[0].id);
    };
    let mut lookup = look();
    waits(&mut lookup);
    answer(100);
    waits(&mut lookup);
    answer(400);
    let entry = now(lookup).unwrap();
    assert_eq!(entry.ttl, FILE_TTL - millis(400));
    let ino = entry.attributes.ino;
    let left = now(mount.fs.attributes(ino)).unwrap().ttl;
    assert_eq!(left, FILE_TTL - millis(400));
    // The version was received at 100 ms: too long ago for an open.
    waits(&mut Box::pin(mount.fs.open(ino, READ)));

    // A lookup that joins when the first of the answers is too old asks again.
    let mount = Mount::manual(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let look = || Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
    let mut first = look();
    waits(&mut first);
    let id = mount.bucket.pending_requests()[0].id;
    mount.bucket.finish(id);
    waits(&mut first);
    mount.clock.advance(FILE_TTL - millis(1));
    let mut young = look();
    waits(&mut young);
    mount.clock.advance(millis(1));
    let mut late = look();
    waits(&mut late);
    let id = mount.bucket.pending_requests()[0].id;
    mount.bucket.finish(id);
    assert_eq!(now(first).unwrap().ttl, Duration::ZERO);
    assert_eq!(now(young).unwrap().ttl, Duration::ZERO);
    waits(&mut late);
    mount.deliver_step();
    waits(&mut late);
    mount.deliver_step();
    assert_eq!(now(late).unwrap().ttl, FILE_TTL);
}
