//! Removals and renames of staged files.

use std::ffi::OsStr;

use super::{OPENER, ROOT, Staged, in_both, wait};
use crate::operation::FsError;

#[test]
fn a_file_that_is_created_and_removed_is_never_sent() {
    in_both(|| {
        let mount = Staged::new(&["other"]);
        let (_, handle) = mount.create(ROOT, "f");
        mount.write(handle, 0, "abc").unwrap();
        mount.requests();
        mount.unlink(ROOT, "f").unwrap();
        assert_eq!(mount.read(handle).unwrap(), "abc", "it stays readable");
        mount.write(handle, 3, "d").unwrap();
        wait(mount.fs.sync(handle)).unwrap();
        mount.close(handle).unwrap();
        assert_eq!(mount.requests(), 0);
        assert_eq!(mount.stored("f"), None);
    });
}

#[test]
fn a_removed_file_stays_usable_and_its_name_is_free() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let old = mount.open("f");
        mount.write(old, 0, "C").unwrap();
        mount.unlink(ROOT, "f").unwrap();
        assert_eq!(mount.stored("f"), None);
        let (_, new) = mount.create(ROOT, "f");
        mount.write(new, 0, "new").unwrap();
        assert_eq!(mount.read(old).unwrap(), "Content of f");
        mount.write(old, 0, "x").unwrap();
        mount.close(old).unwrap();
        mount.close(new).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "new");
    });
}

/// S3 takes keys of 1,024 bytes. The bucket does not have the file yet, and could not refuse it.
#[test]
fn a_directory_gets_no_name_that_makes_the_key_of_a_pending_file_too_long() {
    let mount = Staged::write_back();
    let mut directory = wait(mount.fs.make_directory(ROOT, OsStr::new("d"), 0o755));
    for _ in 0..4 {
        let parent = directory.unwrap().attributes.ino;
        let name = "k".repeat(200);
        directory = wait(mount.fs.make_directory(parent, OsStr::new(&name), 0o755));
    }
    let (_, handle) = mount.create(directory.unwrap().attributes.ino, "file");
    mount.write(handle, 0, "bytes").unwrap();
    wait(mount.fs.flush(handle, &OPENER)).unwrap();
    let renamed = mount.rename((ROOT, "d"), (ROOT, &"D".repeat(255)));
    assert!(matches!(renamed, Err(FsError::NameTooLong)), "{renamed:?}");
    mount.fs.release(handle);
    wait(mount.fs.drained());
}

/// The kernel tells of the last close while the program goes on to remove what it has closed, as
/// databases do with their journals.
#[test]
fn a_closed_file_is_removed_while_its_handle_ends() {
    in_both(|| {
        let mount = Staged::new(&[]);
        for round in 0..ENDS {
            let (_, handle) = mount.create(ROOT, "f");
            mount.write(handle, 0, "abc").unwrap();
            wait(mount.fs.flush(handle, &OPENER)).unwrap();
            std::thread::scope(|scope| {
                scope.spawn(|| mount.fs.release(handle));
                let removed = mount.unlink(ROOT, "f");
                assert!(removed.is_ok(), "round {round}: {removed:?}");
            });
            wait(mount.fs.drained());
            assert_eq!(mount.stored("f"), None);
        }
    });
}

/// Ends of handles beside a removal. Of so many some come while the removal looks at the name.
const ENDS: usize = 3_000;

#[test]
fn a_temporary_file_replaces_another_before_or_after_its_close() {
    in_both(|| {
        for is_closed in [true, false] {
            for is_open in [true, false] {
                let mount = Staged::new(&["f"]);
                let reader = is_open.then(|| mount.open("f"));
                let (ino, handle) = mount.create(ROOT, "f.tmp");
                mount.write(handle, 0, "new").unwrap();
                if is_closed {
                    mount.close(handle).unwrap();
                }
                mount.rename((ROOT, "f.tmp"), (ROOT, "f")).unwrap();
                assert_eq!(mount.walk("f"), ino);
                let absent = wait(mount.fs.lookup(ROOT, OsStr::new("f.tmp")));
                assert!(matches!(absent, Err(FsError::NotFound)), "{absent:?}");
                if !is_closed {
                    assert_eq!(mount.stored("f").unwrap(), "content of f");
                    mount.close(handle).unwrap();
                }
                assert_eq!(mount.stored("f").unwrap(), "new");
                assert_eq!(mount.stored("f.tmp"), None);
                if let Some(reader) = reader {
                    mount.write(reader, 0, "old").unwrap();
                    mount.close(reader).unwrap();
                    assert_eq!(mount.stored("f").unwrap(), "new");
                }
            }
        }
    });
}

#[test]
fn a_stored_file_goes_on_under_its_new_name() {
    let mount = Staged::new(&["a", "d/x"]);
    let handle = mount.open("a");
    mount.write(handle, 0, "C").unwrap();
    let directory = mount.walk("d");
    mount.rename((ROOT, "a"), (directory, "b")).unwrap();
    assert_eq!(mount.stored("a"), None);
    assert_eq!(mount.stored("d/b").unwrap(), "content of a");
    mount.write(handle, 1, "O").unwrap();
    mount.close(handle).unwrap();
    assert_eq!(mount.stored("d/b").unwrap(), "COntent of a");
    assert_eq!(mount.stored("a"), None);
}

#[test]
fn a_directory_takes_its_staged_files_along() {
    in_both(|| {
        let mount = Staged::new(&["d/a", "d/e/b"]);
        let (a, b) = (mount.open("d/a"), mount.open("d/e/b"));
        let (_, new) = mount.create(mount.walk("d/e"), "new");
        for handle in [a, b, new] {
            mount.write(handle, 0, "C").unwrap();
        }
        mount.rename((ROOT, "d"), (ROOT, "z")).unwrap();
        for handle in [a, b, new] {
            mount.close(handle).unwrap();
        }
        assert_eq!(mount.stored("z/a").unwrap(), "Content of d/a");
        assert_eq!(mount.stored("z/e/b").unwrap(), "Content of d/e/b");
        assert_eq!(mount.stored("z/e/new").unwrap(), "C");
        for key in ["d/a", "d/e/b", "d/e/new"] {
            assert_eq!(mount.stored(key), None);
        }
    });
}

#[test]
fn a_directory_with_a_new_file_is_not_empty() {
    let mount = Staged::new(&[]);
    let made = wait(mount.fs.make_directory(ROOT, OsStr::new("d"), 0o755));
    let directory = made.unwrap().attributes.ino;
    let (_, handle) = mount.create(directory, "f");
    let remove = || wait(mount.fs.remove_directory(ROOT, OsStr::new("d")));
    assert!(matches!(remove(), Err(FsError::NotEmpty)));
    mount.unlink(directory, "f").unwrap();
    remove().unwrap();
    mount.close(handle).unwrap();
    assert!(mount.bucket.keys().is_empty());
}

#[test]
fn another_host_sees_a_file_when_it_is_stored() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let other = mount.beside();
        let handle = mount.open("f");
        mount.write(handle, 0, "C").unwrap();
        let reader = other.open_to_read("f");
        assert_eq!(other.read(reader).unwrap(), "content of f");
        other.close(reader).unwrap();
        mount.close(handle).unwrap();
        let reader = other.open_to_read("f");
        assert_eq!(other.read(reader).unwrap(), "Content of f");
    });
}
