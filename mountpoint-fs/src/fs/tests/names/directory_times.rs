//! Times of directories: what moves them, and what does not.

use std::time::{Duration, SystemTime};

use super::super::*;
use crate::config::limits::FILE_TTL;
use crate::operation::{AttributeChange, TimeChange};

const ROOT: InodeNo = InodeNo::ROOT;

fn time_of(mount: &Mount, ino: InodeNo) -> SystemTime {
    now(mount.fs.attributes(ino)).unwrap().mtime
}

/// Whether `change` moves the time of `directory`.
fn moves(mount: &Mount, directory: InodeNo, change: impl FnOnce()) -> bool {
    let before = time_of(mount, directory);
    mount.clock.advance(Duration::from_millis(5));
    change();
    let after = time_of(mount, directory);
    assert!(before <= after, "no time goes back");
    before < after
}

fn close(mount: &Mount, handle: HandleNo) {
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    mount.fs.release(handle);
}

#[test]
fn a_change_through_this_mount_moves_the_time_of_its_directory_alone() {
    let mount = writable(&["d/a", "d/b", "e/x"]);
    let (d, e) = (mount.walk("d"), mount.walk("e"));
    for name in ["a", "b"] {
        mount.lookup(d, name).unwrap();
    }
    let made = moves(&mount, d, || {
        let (_, handle) = create(&mount, d, "new");
        // The time is that of the creation.
        assert!(!moves(&mount, d, || {
            write(&mount, handle, 0, b"x");
            close(&mount, handle);
        }));
    });
    assert!(made);
    assert!(moves(&mount, d, || {
        now(mount.fs.unlink(d, OsStr::new("new"))).unwrap();
    }));
    assert!(moves(&mount, d, || {
        mkdir(&mount, d, "sub").unwrap();
    }));
    assert!(moves(&mount, d, || {
        now(mount.fs.remove_directory(d, OsStr::new("sub"))).unwrap();
    }));
    assert!(moves(&mount, d, || {
        rename(&mount, (d, "a"), (d, "c"), RenameMode::Replace).unwrap();
    }));
    let is_moved = moves(&mount, e, || {
        assert!(moves(&mount, d, || {
            rename(&mount, (d, "b"), (e, "b"), RenameMode::Replace).unwrap();
        }));
    });
    assert!(is_moved, "both directories of a rename");
    assert!(!moves(&mount, ROOT, || ()), "those above keep theirs");
    assert!(!moves(&mount, d, || {
        let refused = now(mount.fs.unlink(d, OsStr::new("b")));
        assert!(matches!(refused, Err(FsError::NotFound)));
        mount.names(d);
    }));
}

#[test]
fn a_listing_with_other_names_moves_the_time() {
    let mount = writable(&["d/a"]);
    let d = mount.walk("d");
    let list = || {
        mount.clock.advance(FILE_TTL);
        drop(mount.names(d));
    };
    assert!(!moves(&mount, d, list));
    assert!(!moves(&mount, d, list));
    mount.bucket.put_object("d/b", "b");
    assert!(moves(&mount, d, list));
    mount.bucket.put_object("d/b", "other");
    assert!(!moves(&mount, d, list), "the names are the same");
    mount.bucket.remove("d/a");
    // A look-up of a small directory shows its names, too.
    assert!(moves(&mount, d, || mount.clock.advance(FILE_TTL)));
    assert!(!moves(&mount, d, list));
    // What this mount makes has moved the time before, stored or not.
    let (_, handle) = create(&mount, d, "new");
    mkdir(&mount, d, "sub").unwrap();
    assert!(!moves(&mount, d, list));
    write(&mount, handle, 0, b"x");
    close(&mount, handle);
    let (_, below) = create(&mount, mount.walk("d/sub"), "x");
    close(&mount, below);
    assert!(!moves(&mount, d, list));
}

#[test]
fn the_time_outlives_the_inode() {
    let mount = writable(&["d/a", "d/b"]);
    let d = mount.walk("d");
    mount.lookup(d, "a").unwrap();
    now(mount.fs.unlink(d, OsStr::new("a"))).unwrap();
    let before = time_of(&mount, d);
    // Kept by this mount, because it took a name from it: the bucket shows it again.
    mount.clock.advance(FILE_TTL);
    mount.walk("d");
    mount.fs.forget(d, 2);
    mount.clock.advance(FILE_TTL);
    assert_eq!(time_of(&mount, mount.walk("d")), before);
}

#[test]
fn a_time_that_an_application_has_set_holds_until_the_next_change() {
    let mount = Mount::with_write(SimOptions::default(), "", &["d/a"], all_changes_in_parts());
    let d = mount.walk("d");
    mkdir(&mount, d, "one").unwrap();
    let change = AttributeChange {
        mtime: Some(TimeChange::At {
            seconds: 0,
            nanos: 7,
        }),
        ..AttributeChange::default()
    };
    let set = now(mount.fs.set_attributes(d, change)).unwrap();
    let told = SystemTime::UNIX_EPOCH + Duration::from_nanos(7);
    assert_eq!(set.mtime, told);
    mount.clock.advance(FILE_TTL);
    assert_eq!(time_of(&mount, d), told);
    mount.requests();
    assert!(moves(&mount, d, || {
        mkdir(&mount, d, "two").unwrap();
    }));
    assert_eq!(mount.requests().2, 0, "the marker keeps what was set");
    let beside = mount.beside(all_changes_in_parts());
    assert_eq!(time_of(&beside, beside.walk("d")), told);
}

#[test]
fn directories_have_one_link_and_removed_ones_none() {
    let mount = writable(&["d/a"]);
    let d = mount.walk("d");
    let sub = mkdir(&mount, d, "sub").unwrap();
    let links = |ino| now(mount.fs.attributes(ino)).unwrap().nlink;
    assert_eq!((links(ROOT), links(d), links(sub)), (1, 1, 1));
    let handle = now(mount.fs.open_directory(sub)).unwrap();
    now(mount.fs.remove_directory(d, OsStr::new("sub"))).unwrap();
    assert_eq!(links(sub), 0);
    mount.fs.release_directory(handle);
}
