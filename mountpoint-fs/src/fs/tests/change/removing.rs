//! Removing files and directories, and making directories.

use std::time::Duration;

use mountpoint_client::ErrorKind;

use super::*;
use crate::config::WriteConfig;
use crate::config::limits::FILE_TTL;

const ROOT: InodeNo = InodeNo::ROOT;

#[track_caller]
fn unlink(mount: &Mount, directory: InodeNo, name: &str) -> Result<(), FsError> {
    now(mount.fs.unlink(directory, OsStr::new(name)))
}

#[track_caller]
fn rmdir(mount: &Mount, directory: InodeNo, name: &str) -> Result<(), FsError> {
    now(mount.fs.remove_directory(directory, OsStr::new(name)))
}

#[test]
fn removing_a_whole_directory_is_one_request_a_file_and_few_listings() {
    const FILES: usize = 2500;
    // The kernel does likewise for `rm -r`: it repeats lookups whose answers have expired.
    #[track_caller]
    fn check(each: Duration, lists_max: usize) {
        let keys: Vec<String> = (0..FILES).map(|number| format!("d/{number:05}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let mount = writable(&keys);
        let d = mount.walk("d");
        let handle = now(mount.fs.open_directory(d)).unwrap();
        let names = shown(&mount.list(handle, usize::MAX, true));
        mount.fs.release_directory(handle);
        let listed = mount.clock.now();
        mount.requests();
        for name in &names {
            if mount.clock.now() >= listed + FILE_TTL {
                mount.lookup(d, name).unwrap();
            }
            unlink(&mount, d, name).unwrap();
            mount.clock.advance(each);
        }
        let (heads, lists, deletes) = mount.requests();
        assert_eq!((heads, deletes), (0, FILES));
        assert!(lists <= lists_max, "{lists} LIST with {each:?} a request");
        assert!(mount.bucket.keys().is_empty());
        assert!(matches!(
            mount.lookup(d, &names[FILES - 1]),
            Err(FsError::NotFound)
        ));
    }
    check(Duration::from_millis(1), 12);
    check(Duration::from_millis(20), 60);
}

#[test]
fn a_file_goes_with_one_request_and_is_not_seen_again() {
    let mount = writable(&["a", "d/f"]);
    let a = mount.walk("a");
    assert_eq!(mount.names(ROOT), ["a", "d/"]);
    mount.requests();
    mount.clock.advance(Duration::from_nanos(1));
    unlink(&mount, ROOT, "a").unwrap();
    assert_eq!(mount.requests(), (0, 0, 1));
    assert!(matches!(mount.lookup(ROOT, "a"), Err(FsError::NotFound)));
    assert!(matches!(
        now(mount.fs.attributes(a)),
        Err(FsError::Stale(_))
    ));
    assert_eq!(mount.bucket.keys(), ["d/f"]);
    assert!(matches!(unlink(&mount, ROOT, "a"), Err(FsError::NotFound)));
    mount.walk("d");
    assert!(matches!(
        unlink(&mount, ROOT, "d"),
        Err(FsError::IsADirectory)
    ));
}

#[test]
fn nothing_is_deleted_without_the_flag() {
    let mount = Mount::immediate(&["a", "d/", "e/f"]);
    for name in ["a", "d", "e"] {
        mount.walk(name);
    }
    let error = unlink(&mount, ROOT, "a").unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-delete")));
    let error = rmdir(&mount, ROOT, "d").unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-delete")));
    assert!(matches!(rmdir(&mount, ROOT, "e"), Err(FsError::NotEmpty)));
    // A directory that only this mount knows holds no other client's data.
    mkdir(&mount, ROOT, "n").unwrap();
    rmdir(&mount, ROOT, "n").unwrap();
    assert_eq!(mount.bucket.keys(), ["a", "d/", "e/f"]);

    let read_only = WriteConfig {
        read_only: true,
        allow_delete: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &["a"], read_only);
    mount.walk("a");
    assert!(matches!(unlink(&mount, ROOT, "a"), Err(FsError::ReadOnly)));
    assert!(matches!(mkdir(&mount, ROOT, "n"), Err(FsError::ReadOnly)));
}

#[test]
fn an_emptied_directory_stays_until_it_is_removed() {
    let mount = writable(&["a/b/f", "a/b/g"]);
    let (a, b) = (mount.walk("a"), mount.walk("a/b"));
    for name in ["f", "g"] {
        mount.lookup(b, name).unwrap();
        unlink(&mount, b, name).unwrap();
    }
    mount.clock.advance(Duration::from_secs(60));
    assert_eq!(mount.walk("a/b"), b);
    assert!(now(mount.fs.attributes(b)).is_ok());
    assert!(now(mount.fs.attributes(a)).is_ok());
    assert_eq!(mount.names(ROOT), ["a/"]);
    assert_eq!(mount.names(a), ["b/"]);
    assert!(mount.names(b).is_empty());
    assert!(matches!(rmdir(&mount, ROOT, "a"), Err(FsError::NotEmpty)));
    rmdir(&mount, a, "b").unwrap();
    assert!(mount.names(a).is_empty());
    rmdir(&mount, ROOT, "a").unwrap();
    assert!(mount.names(ROOT).is_empty());
    assert!(matches!(mount.lookup(ROOT, "a"), Err(FsError::NotFound)));
}

#[test]
fn a_kept_directory_that_others_fill_and_empty_goes_as_any_other() {
    let mount = writable(&["d/f"]);
    let d = mount.walk("d");
    mount.lookup(d, "f").unwrap();
    unlink(&mount, d, "f").unwrap();
    mount.bucket.put_object("d/other", "bytes");
    mount.clock.advance(Duration::from_secs(60));
    assert_eq!(mount.walk("d"), d);
    mount.bucket.remove("d/other");
    mount.clock.advance(Duration::from_secs(60));
    assert!(matches!(mount.lookup(ROOT, "d"), Err(FsError::NotFound)));
}

#[test]
fn made_directories_are_there_and_leave_nothing_in_the_bucket() {
    let mount = writable(&["f", "z/g"]);
    let a = mkdir(&mount, ROOT, "a").unwrap();
    let b = mkdir(&mount, a, "b").unwrap();
    assert!(matches!(mkdir(&mount, ROOT, "a"), Err(FsError::Exists)));
    mount.walk("f");
    assert!(matches!(mkdir(&mount, ROOT, "f"), Err(FsError::Exists)));
    assert_eq!(mount.bucket.keys(), ["f", "z/g"]);
    mount.clock.advance(Duration::from_secs(60));
    assert_eq!(mount.walk("a/b"), b);
    assert_eq!(mount.names(ROOT), ["a/", "f", "z/"]);
    assert_eq!(mount.names(a), ["b/"]);
    // The kernel may forget them.
    mount.fs.forget(b, 2);
    assert_eq!(mount.names(a), ["b/"]);
    // Another client's key makes it a normal directory, which is listed once.
    mount.bucket.put_object("a/b/x", "bytes");
    assert_eq!(mount.names(a), ["b/"]);
    // The directory hides a file of its name.
    mount.bucket.put_object("a", "bytes");
    mount.clock.advance(Duration::from_secs(60));
    assert_eq!(mount.walk("a"), a);
    let long = "n".repeat(255);
    let deep = [&long, &long, &long]
        .into_iter()
        .fold(a, |parent, name| mkdir(&mount, parent, name).unwrap());
    assert!(matches!(
        mkdir(&mount, deep, &long),
        Err(FsError::NameTooLong)
    ));
}

#[test]
fn markers_are_made_and_removed() {
    let write = WriteConfig {
        allow_delete: true,
        directory_markers: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "p/", &["p/x/"], write);
    let a = mkdir(&mount, ROOT, "a").unwrap();
    mkdir(&mount, a, "b").unwrap();
    assert_eq!(mount.bucket.keys(), ["p/a/", "p/a/b/", "p/x/"]);
    assert_eq!(mount.names(ROOT), ["a/", "x/"]);
    assert!(matches!(rmdir(&mount, ROOT, "a"), Err(FsError::NotEmpty)));
    rmdir(&mount, a, "b").unwrap();
    rmdir(&mount, ROOT, "a").unwrap();
    assert_eq!(mount.bucket.keys(), ["p/x/"]);
    assert_eq!(mount.names(ROOT), ["x/"]);
    // Another client was faster.
    assert!(matches!(mount.lookup(ROOT, "y"), Err(FsError::NotFound)));
    mount.bucket.put_object("p/y/", "");
    assert!(matches!(mkdir(&mount, ROOT, "y"), Err(FsError::Exists)));
}

#[test]
fn an_answer_from_before_a_change_is_not_believed() {
    let mount = Mount::with_write(
        SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        },
        "",
        &["d/a", "d/b"],
        WriteConfig {
            allow_delete: true,
            ..WriteConfig::default()
        },
    );
    let d = drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let d = d.attributes.ino;
    drive(&mount, mount.fs.lookup(d, OsStr::new("a"))).unwrap();

    // A listing and a lookup see the file, the file is deleted, and only then their answers are
    // read.
    mount.clock.advance(Duration::from_secs(2));
    let handle = now(mount.fs.open_directory(d)).unwrap();
    let mut sink = Sink::new(100);
    let mut reading = Box::pin(mount.fs.read_directory(handle, 0, true, &mut sink));
    waits(&mut reading);
    let mut looking = Box::pin(mount.fs.lookup(d, OsStr::new("a")));
    waits(&mut looking);
    mount.bucket.deliver_all();
    mount.clock.advance(Duration::from_millis(5));
    drive(&mount, mount.fs.unlink(d, OsStr::new("a"))).unwrap();
    waits(&mut looking);
    assert!(matches!(drive(&mount, looking), Err(FsError::NotFound)));
    now(reading).unwrap();
    assert_eq!(shown(&sink.entries), ["b"]);
    let looking = mount.fs.lookup(d, OsStr::new("a"));
    assert!(matches!(drive(&mount, looking), Err(FsError::NotFound)));
}

#[test]
fn a_failed_deletion_says_so_and_is_looked_at_again() {
    let mount = writable(&["a"]);
    mount.walk("a");
    mount
        .bucket
        .fail_next(Operation::DeleteObject, 1, ErrorKind::Denied);
    let error = unlink(&mount, ROOT, "a").unwrap_err();
    assert!(matches!(&error, FsError::Denied(text) if text.contains("s3:DeleteObject")));
    mount.requests();
    mount.walk("a");
    assert_eq!(mount.requests(), (0, 1, 0), "the name is asked for again");
    unlink(&mount, ROOT, "a").unwrap();
    assert!(mount.bucket.keys().is_empty());
}

#[test]
fn what_was_opened_is_read_or_is_stale() {
    let mount = writable(&["a"]);
    let a = mount.walk("a");
    let (read, unread) = (
        now(mount.fs.open(a, READ)).unwrap(),
        now(mount.fs.open(a, READ)).unwrap(),
    );
    now(mount.fs.read(read.handle, 0, 4, false)).unwrap();
    unlink(&mount, ROOT, "a").unwrap();
    // Open files are still served; unopened ones are gone.
    assert_eq!(
        now(mount.fs.read(read.handle, 4, 100, false))
            .unwrap()
            .len(),
        8
    );
    let gone = now(mount.fs.read(unread.handle, 0, 100, false));
    assert!(matches!(gone, Err(FsError::Stale(_))), "{gone:?}");
    assert!(now(mount.fs.attributes(a)).is_ok());
    mount.fs.release(read.handle);
    mount.fs.release(unread.handle);
}

/// A copy of an object that was made of parts has another ETag.
#[test]
fn touch_leaves_the_writer_of_a_synchronised_file_unharmed() {
    use crate::operation::{AttributeChange, TimeChange};
    let mount = writable(&[]);
    let (ino, log) = create(&mount, ROOT, "log");
    let line = vec![b'x'; 1 << 20];
    for offset in 0..9 {
        now(mount.fs.write(log, offset << 20, &line)).unwrap();
    }
    now(mount.fs.sync(log)).unwrap();
    let touch = AttributeChange {
        mtime: Some(TimeChange::Now),
        ..AttributeChange::default()
    };
    let before = mount.bucket.object("log").unwrap().etag;
    now(mount.fs.set_attributes(ino, touch)).unwrap();
    assert_ne!(mount.bucket.object("log").unwrap().etag, before);
    now(mount.fs.write(log, 9 << 20, b"more")).unwrap();
    now(mount.fs.sync(log)).unwrap();
    let stored = mount.bucket.object("log").unwrap();
    assert_eq!(stored.content.size(), (9 << 20) + 4);
}

#[test]
fn touch_and_truncate_make_a_new_version_of_the_same_inode() {
    use crate::operation::{AttributeChange, TimeChange};
    let mount = writable(&["a"]);
    let a = mount.walk("a");
    let before = now(mount.fs.attributes(a)).unwrap();
    let set = |change| now(mount.fs.set_attributes(a, change));
    let touch = AttributeChange {
        mtime: Some(TimeChange::Now),
        ..AttributeChange::default()
    };
    let touched = set(touch).unwrap();
    assert_eq!(touched.ino, a);
    mount.clock.advance(Duration::from_secs(2));
    assert!(now(mount.fs.attributes(a)).unwrap().mtime > before.mtime);
    for size in [7, 3, 0] {
        let shorten = AttributeChange {
            size: Some(size),
            ..AttributeChange::default()
        };
        assert_eq!(set(shorten).unwrap().size, size);
        let stored = mount.bucket.object("a").unwrap().content.to_vec();
        assert_eq!(stored, b"content of a"[..usize::try_from(size).unwrap()]);
        assert_eq!(mount.walk("a"), a);
    }
    // Without the flag to overwrite, bytes and time stay.
    let mount = Mount::immediate(&["a"]);
    let a = mount.walk("a");
    let error = now(mount.fs.set_attributes(a, touch)).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--allow-overwrite")));
    assert_eq!(mount.bucket.log().count(Operation::CopyObject), 0);
}
