//! With write-back, directories that this mount makes answer for the names that they lack.

use std::time::Duration;

use mountpoint_client::ErrorKind;

use super::*;
use crate::config::NamesConfig;

const ROOT: InodeNo = InodeNo::ROOT;

/// How long S3 is not asked about names in a directory of this mount.
const OWN_AGE: Duration = Duration::from_secs(60);

/// A mount with write-back, and the directory `d` that it has just made.
fn made(works_offline: bool) -> (Mount, InodeNo) {
    let names = NamesConfig {
        works_offline,
        ..NamesConfig::default()
    };
    let mount = Mount::with_all(SimOptions::default(), names, all_changes(), "", &["other"]);
    let directory = make(&mount, ROOT, "d");
    mount.requests();
    (mount, directory)
}

fn make(mount: &Mount, parent: InodeNo, name: &str) -> InodeNo {
    assert!(is_absent(mount, parent, name));
    mount.clock.advance(Duration::from_millis(1));
    let made = now(mount.fs.make_directory(parent, OsStr::new(name), 0o755));
    made.unwrap().attributes.ino
}

fn is_absent(mount: &Mount, parent: InodeNo, name: &str) -> bool {
    matches!(mount.lookup(parent, name), Err(FsError::NotFound))
}

#[test]
fn a_tree_is_made_without_questions() {
    let (mount, directory) = made(true);
    assert!(is_absent(&mount, directory, "f"));
    let below = make(&mount, directory, "e");
    assert!(is_absent(&mount, below, "f"));
    assert_eq!(mount.requests(), (0, 0, 0));
    assert!(is_absent(&mount, ROOT, "f"), "the root is not its own");
    assert_ne!(mount.requests(), (0, 0, 0));
}

/// `tar` makes each directory for itself alone at first.
#[test]
fn a_directory_with_a_mode_of_its_own_is_ours_as_well() {
    let names = NamesConfig {
        works_offline: true,
        ..NamesConfig::default()
    };
    let write = WriteConfig {
        posix_metadata: true,
        ..all_changes()
    };
    let mount = Mount::with_all(SimOptions::default(), names, write, "", &["other"]);
    assert!(is_absent(&mount, ROOT, "d"));
    mount.requests();
    let made = now(mount.fs.make_directory(ROOT, OsStr::new("d"), 0o700)).unwrap();
    assert_eq!(made.attributes.mode & 0o777, 0o700);
    assert_eq!(mount.requests(), (0, 0, 1), "its marker");
    let directory = made.attributes.ino;
    for name in ["f", "e", "theirs"] {
        assert!(is_absent(&mount, directory, name));
    }
    assert_eq!(mount.requests(), (0, 0, 0));
    let below = now(mount.fs.make_directory(directory, OsStr::new("e"), 0o700)).unwrap();
    assert!(is_absent(&mount, below.attributes.ino, "f"));
    assert_eq!(mount.requests(), (1, 0, 1), "is its marker there?");
    mount.bucket.put_object("d/theirs/", "");
    let made_again = now(mount
        .fs
        .make_directory(directory, OsStr::new("theirs"), 0o700));
    assert!(matches!(made_again, Err(FsError::Exists)));
    mount.clock.advance(OWN_AGE);
    let stored = mount.lookup(ROOT, "d").unwrap();
    assert_eq!(stored.attributes.mode & 0o777, 0o700);
    assert!(
        stored.attributes.mtime > made.attributes.mtime,
        "a name was made in it"
    );
}

#[test]
fn without_write_back_each_name_is_asked_for() {
    let (mount, directory) = made(false);
    assert!(is_absent(&mount, directory, "f"));
    assert_ne!(mount.requests(), (0, 0, 0));
}

#[test]
fn names_of_others_are_seen_after_a_while_and_sooner_in_a_listing() {
    let (mount, directory) = made(true);
    mount.bucket.put_object("d/theirs", "x");
    assert!(is_absent(&mount, directory, "theirs"));
    mount.clock.advance(OWN_AGE);
    assert!(!is_absent(&mount, directory, "theirs"));
    let (mount, directory) = made(true);
    mount.bucket.put_object("d/theirs", "x");
    mount.clock.advance(NamesConfig::default().ttl);
    assert_eq!(mount.names(directory), ["theirs"]);
    mount.clock.advance(Duration::from_secs(5));
    mount.fs.give_back_idle();
    assert!(!is_absent(&mount, directory, "theirs"), "it was shown");
}

#[test]
fn without_write_back_an_own_directory_is_listed() {
    let (mount, directory) = made(false);
    mount.bucket.put_object("d/theirs", "x");
    assert_eq!(mount.names(directory), ["theirs"]);
}

/// What this mount makes is there, whether or not the kernel knows it still.
#[test]
fn own_names_are_there() {
    let (mount, directory) = made(true);
    assert!(is_absent(&mount, directory, "f"));
    let created = mount.fs.create(
        directory,
        OsStr::new("f"),
        WriteOptions::default(),
        Opener::UNSEEN,
    );
    let (entry, opened) = created.unwrap();
    now(mount.fs.write(opened.handle, 0, b"x")).unwrap();
    now(mount.fs.flush(opened.handle, &OPENER)).unwrap();
    mount.fs.release(opened.handle);
    mount.fs.forget(entry.attributes.ino, 1);
    assert!(!is_absent(&mount, directory, "f"));
    now(mount.fs.unlink(directory, OsStr::new("f"))).unwrap();
    assert!(is_absent(&mount, directory, "f"));
}

fn store(mount: &Mount, directory: InodeNo, name: &str) -> InodeNo {
    let options = WriteOptions::default();
    let created = mount
        .fs
        .create(directory, OsStr::new(name), options, Opener::UNSEEN);
    let (entry, opened) = created.unwrap();
    now(mount.fs.write(opened.handle, 0, b"x")).unwrap();
    now(mount.fs.flush(opened.handle, &OPENER)).unwrap();
    mount.fs.release(opened.handle);
    entry.attributes.ino
}

/// `git` looks again and again at the files that it has made, and opens them.
#[test]
fn what_was_made_is_found_and_opened_without_questions() {
    let (mount, directory) = made(true);
    let file = store(&mount, directory, "f");
    let below = make(&mount, directory, "e");
    mount.requests();
    mount.clock.advance(Duration::from_secs(5));
    assert_eq!(mount.lookup(directory, "f").unwrap().attributes.ino, file);
    assert_eq!(now(mount.fs.attributes(file)).unwrap().size, 1);
    assert_eq!(mount.lookup(directory, "e").unwrap().attributes.ino, below);
    let opened = now(mount.fs.open(file, READ)).unwrap();
    assert_eq!(mount.requests(), (0, 0, 0));
    mount.fs.release(opened.handle);
    mount.bucket.put_object("d/f", "another");
    assert_eq!(mount.lookup(directory, "f").unwrap().attributes.size, 1);
    mount.clock.advance(OWN_AGE);
    assert_eq!(mount.lookup(directory, "f").unwrap().attributes.size, 7);
}

/// `git` and `tar` look again and again at the directory that they fill.
#[test]
fn an_own_directory_is_there_without_questions() {
    let (mount, directory) = made(true);
    mount.clock.advance(OWN_AGE / 2);
    assert_eq!(mount.lookup(ROOT, "d").unwrap().attributes.ino, directory);
    assert_eq!(now(mount.fs.attributes(directory)).unwrap().ino, directory);
    assert_eq!(mount.requests(), (0, 0, 0));
    now(mount.fs.remove_directory(ROOT, OsStr::new("d"))).unwrap();
    assert!(is_absent(&mount, ROOT, "d"));
    let (mount, directory) = made(false);
    mount.clock.advance(NamesConfig::default().ttl);
    now(mount.fs.attributes(directory)).unwrap();
    assert_ne!(mount.requests(), (0, 0, 0), "without write-back");
}

/// `git` makes and renames the lock of a file again and again.
#[test]
fn what_was_renamed_or_removed_is_absent_without_questions() {
    let (mount, directory) = made(true);
    for taken_away in ["lock", "other"] {
        store(&mount, directory, taken_away);
    }
    let names = |name| (directory, OsStr::new(name));
    let (stop, mode) = (Stop::never(), RenameMode::Replace);
    now(mount.fs.rename(names("lock"), names("f"), mode, &stop)).unwrap();
    now(mount.fs.unlink(directory, OsStr::new("other"))).unwrap();
    mount.requests();
    assert!(is_absent(&mount, directory, "lock"));
    assert!(is_absent(&mount, directory, "other"));
    assert_eq!(mount.requests(), (0, 0, 0));
    store(&mount, directory, "lock");
    assert!(!is_absent(&mount, directory, "lock"));
    mount.bucket.put_object("d/other", "x");
    mount.clock.advance(OWN_AGE);
    assert!(!is_absent(&mount, directory, "other"));
}

#[test]
fn after_a_change_that_may_have_been_made_s3_is_asked() {
    let (mount, directory) = made(true);
    store(&mount, directory, "f");
    mount
        .bucket
        .fail_next(Operation::DeleteObject, 1, ErrorKind::Denied);
    assert!(now(mount.fs.unlink(directory, OsStr::new("f"))).is_err());
    mount.requests();
    assert!(!is_absent(&mount, directory, "f"));
    assert_ne!(mount.requests(), (0, 0, 0));
}

#[test]
fn a_rename_replaces_no_file_of_another_client() {
    let (mount, directory) = made(true);
    store(&mount, directory, "f");
    mount.bucket.put_object("d/g", "theirs");
    let names = |name| (directory, OsStr::new(name));
    let (stop, mode) = (Stop::never(), RenameMode::Replace);
    let renamed = now(mount.fs.rename(names("f"), names("g"), mode, &stop));
    assert!(matches!(renamed, Err(FsError::Exists)), "{renamed:?}");
    let theirs = mount.bucket.object("d/g").unwrap();
    assert_eq!(theirs.content.to_vec(), b"theirs");
}

/// The directories in it are others as well, whatever made them.
#[test]
fn what_is_in_a_renamed_directory_answers_no_more() {
    let (mount, directory) = made(true);
    let below = make(&mount, directory, "e");
    store(&mount, below, "f");
    let to = (ROOT, OsStr::new("to"));
    let (stop, mode) = (Stop::never(), RenameMode::Replace);
    now(mount.fs.rename((ROOT, OsStr::new("d")), to, mode, &stop)).unwrap();
    mount.bucket.put_object("d/e/theirs", "x");
    let theirs = mount.walk("d/e");
    assert!(!is_absent(&mount, theirs, "theirs"));
    assert!(is_absent(&mount, theirs, "f"));
}

/// A directory of that name that another client has made is not this mount's.
#[test]
fn a_removed_directory_answers_no_more() {
    let (mount, _) = made(true);
    now(mount.fs.remove_directory(ROOT, OsStr::new("d"))).unwrap();
    mount.bucket.put_object("d/theirs", "x");
    let theirs = mount.walk("d");
    assert!(!is_absent(&mount, theirs, "theirs"));
}

#[test]
fn a_renamed_directory_answers_no_more() {
    let (mount, _) = made(true);
    let to = (ROOT, OsStr::new("to"));
    let mode = RenameMode::Replace;
    now(mount
        .fs
        .rename((ROOT, OsStr::new("d")), to, mode, &Stop::never()))
    .unwrap();
    mount.bucket.put_object("d/theirs", "x");
    let theirs = mount.walk("d");
    assert!(!is_absent(&mount, theirs, "theirs"));
}
