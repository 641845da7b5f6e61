//! Folders and files on a real disk.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::test_disk::real_folder;
use super::*;

#[test]
fn a_file_has_one_lock_which_goes_with_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = real_folder(folder.path());
    let open = || folder.open_file("lock").unwrap();
    let (first, other) = (open(), open());
    assert!(try_lock(&first).unwrap());
    assert!(!try_lock(&other).unwrap() && !try_lock_shared(&other).unwrap());
    assert!(!lock_within(&other, Duration::from_millis(3)).unwrap());
    drop(first);
    assert!(try_lock_shared(&other).unwrap());
    assert!(try_lock_shared(&open()).unwrap() && !try_lock(&open()).unwrap());
}

#[test]
fn a_folder_has_one_lock_which_goes_with_the_last_that_has_it_open() {
    let folder = tempfile::tempdir().unwrap();
    let open = || Arc::new(real_folder(folder.path()));
    let (first, other) = (open(), open());
    let soon = Duration::from_millis(3);
    assert!(first.lock_within(soon).unwrap() && !other.lock_within(soon).unwrap());
    // A thread that still writes to it.
    let thread = Arc::clone(&first);
    drop(first);
    assert!(!other.lock_within(soon).unwrap());
    drop(thread);
    assert!(other.lock_within(soon).unwrap());
}

#[test]
fn files_are_made_read_renamed_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = real_folder(folder.path());
    let file = disk.create("a").unwrap();
    let taken = disk.create("a").unwrap_err();
    assert_eq!(taken.kind(), io::ErrorKind::AlreadyExists);
    file.allocate(100).unwrap();
    file.write_at(b"abc", 98).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.size().unwrap(), 101);
    disk.rename("a", "b").unwrap();
    disk.sync().unwrap();
    assert_eq!(disk.list().unwrap(), ["b"]);
    let mut bytes = [9; 8];
    let read = disk.open("b").unwrap().read_at(&mut bytes, 96).unwrap();
    assert_eq!((read, &bytes[..read]), (5, &b"\0\0abc"[..]));
    disk.remove("b").unwrap();
    disk.remove("b").unwrap();
    assert_eq!(disk.list().unwrap(), [""; 0]);
}

#[test]
fn a_symbolic_link_is_not_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (inside, outside) = (folder.path().join("in"), folder.path().join("out"));
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(&outside, "x").unwrap();
    std::os::unix::fs::symlink(&outside, inside.join("a")).unwrap();
    let disk = real_folder(&inside);
    assert!(disk.open("a").is_err());
    std::os::unix::fs::symlink(&inside, inside.join("link")).unwrap();
    assert!(disk.enter("link").is_err());
}
