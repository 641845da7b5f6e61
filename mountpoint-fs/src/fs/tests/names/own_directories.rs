//! With write-back, directories that this mount makes answer for the names that they lack.

use std::time::Duration;

use super::*;
use crate::config::NamesConfig;

const ROOT: InodeNo = InodeNo::ROOT;

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

#[test]
fn without_write_back_each_name_is_asked_for() {
    let (mount, directory) = made(false);
    assert!(is_absent(&mount, directory, "f"));
    assert_ne!(mount.requests(), (0, 0, 0));
}

#[test]
fn names_of_others_are_seen_after_a_while_and_in_a_listing_at_once() {
    let (mount, directory) = made(true);
    mount.bucket.put_object("d/theirs", "x");
    assert!(is_absent(&mount, directory, "theirs"));
    mount.clock.advance(Duration::from_secs(10));
    assert!(!is_absent(&mount, directory, "theirs"));
    let (mount, directory) = made(true);
    mount.bucket.put_object("d/theirs", "x");
    assert_eq!(mount.names(directory), ["theirs"]);
    assert!(!is_absent(&mount, directory, "theirs"));
    mount.clock.advance(Duration::from_secs(5));
    assert!(!is_absent(&mount, directory, "theirs"), "the page has it");
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
