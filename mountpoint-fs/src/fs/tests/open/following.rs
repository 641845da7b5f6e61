//! Reading files that another handle continues to write.

use super::*;
use crate::fs::follow::FOLLOW_TRIES_MAX;
use crate::operation::{RenameMode, Stop, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

/// A log that is synchronised after each line, and a reader that follows it.
#[test]
fn who_follows_a_file_reads_what_is_synchronised_and_hinders_nobody() {
    let mount = Mount::immediate(&[]);
    let (ino, log) = create(&mount, ROOT, "log");
    write(&mount, log, 0, b"one\n");
    now(mount.fs.sync(log)).unwrap();
    let opened = now(mount.fs.open(ino, READ)).unwrap();
    assert!(opened.direct_io && opened.grows && !opened.keep_cache);
    let read = |offset, fills_cache| {
        let data = now(mount.fs.read(opened.handle, offset, 100, fills_cache));
        data.map(|data| data.to_vec())
    };
    assert_eq!(read(0, false).unwrap(), b"one\n");
    write(&mount, log, 4, b"two\n");
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 8);
    // Unstored bytes are not read, and no page is filled before its bytes are stored.
    assert_eq!(read(4, false).unwrap(), b"");
    assert!(matches!(read(4, true), Err(FsError::Stale(_))));
    let another = now(mount.fs.open(ino, READ));
    assert!(matches!(another, Err(FsError::NotPermitted(_))));
    now(mount.fs.sync(log)).unwrap();
    assert_eq!(read(4, false).unwrap(), b"two\n");
    assert_eq!(read(0, true).unwrap(), b"one\ntwo\n");
    let second = now(mount.fs.open(ino, READ)).unwrap();
    write(&mount, log, 8, b"three\n");
    mount.fs.release(second.handle);
    now(mount.fs.flush(log, &OPENER)).unwrap();
    assert_eq!(read(2, false).unwrap(), b"e\ntwo\nthree\n");
    // One descriptor was closed, and another may be open: a new reader does not fail its writes.
    let third = now(mount.fs.open(ino, READ)).unwrap();
    assert!(third.grows && third.direct_io && !third.keep_cache);
    write(&mount, log, 14, b"four");
    now(mount.fs.flush(log, &OPENER)).unwrap();
    let data = now(mount.fs.read(third.handle, 0, 100, false)).unwrap();
    assert_eq!(data.to_vec(), b"one\ntwo\nthree\nfour");
    mount.fs.release(third.handle);
    mount.fs.release(log);
    assert_eq!(read(0, false).unwrap().len(), 18);
    // The last one was closed: a new reader may keep its pages.
    let fourth = now(mount.fs.open(ino, READ)).unwrap();
    assert!(!fourth.grows);
    mount.fs.release(fourth.handle);
    // Another client's object does not continue the followed one.
    mount.bucket.put_object("log", "another's");
    match read(8, false) {
        Ok(newer) => assert_eq!(newer, b"three\n"),
        Err(error) => assert!(matches!(error, FsError::Stale(_)), "{error:?}"),
    }
    mount.fs.release(opened.handle);
    mount.fs.forget(ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

/// The mount knows the newest version before the reader does. A read that finds its version
/// replaced continues there.
#[test]
fn who_follows_a_large_file_goes_on_in_its_next_version() {
    let mount = Mount::immediate(&[]);
    let (ino, log) = create(&mount, ROOT, "log");
    let line = vec![b'x'; 1 << 20];
    for offset in 0..9 {
        now(mount.fs.write(log, offset << 20, &line)).unwrap();
    }
    now(mount.fs.sync(log)).unwrap();
    let reader = now(mount.fs.open(ino, READ)).unwrap();
    let other = now(mount.fs.open(ino, READ)).unwrap();
    for offset in 9..20 {
        now(mount.fs.write(log, offset << 20, &line)).unwrap();
        now(mount.fs.sync(log)).unwrap();
        let data = now(mount.fs.read(reader.handle, offset << 20, 1 << 20, false)).unwrap();
        assert_eq!(data.len(), 1 << 20, "{offset}");
    }
    let data = now(mount.fs.read(other.handle, 3 << 20, 1 << 20, false)).unwrap();
    assert_eq!(data.len(), 1 << 20);
    for handle in [reader.handle, log, other.handle] {
        mount.fs.release(handle);
    }
    mount.fs.forget(ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

/// A reader that begins to follow a file does not follow another writer's replacement.
#[test]
fn who_would_follow_a_writer_does_not_follow_the_next_one() {
    #[derive(Debug, PartialEq, Eq)]
    enum Meanwhile {
        Replaces,
        HasReplaced,
        GoesOn,
    }
    for meanwhile in [
        Meanwhile::Replaces,
        Meanwhile::HasReplaced,
        Meanwhile::GoesOn,
    ] {
        let write_config = WriteConfig {
            allow_overwrite: true,
            ..WriteConfig::default()
        };
        let mount = manual(&[], write_config);
        let store = |handle| {
            let mut sync = Box::pin(mount.fs.sync(handle));
            waits(&mut sync);
            mount.bucket.deliver_all();
            now(sync).unwrap();
        };
        let (ino, log) = create(&mount, ROOT, "log");
        write(&mount, log, 0, b"one\n");
        store(log);
        let mut opening = Box::pin(mount.fs.open(ino, READ));
        waits(&mut opening);
        // The request is answered, and the answer is not read yet.
        mount.bucket.deliver_all();
        let truncate = WriteOptions {
            truncate: true,
            ..WriteOptions::default()
        };
        let replace = || now(mount.fs.open_for_writing(ino, truncate, Opener::UNSEEN));
        match meanwhile {
            Meanwhile::Replaces => {
                replace().unwrap();
            }
            Meanwhile::HasReplaced => {
                let another = replace().unwrap().handle;
                write(&mount, another, 0, b"another's");
                store(another);
            }
            Meanwhile::GoesOn => {
                write(&mount, log, 4, b"two\n");
                store(log);
            }
        }
        let opened = now(opening);
        match (&meanwhile, &opened) {
            (Meanwhile::Replaces, Err(FsError::NotPermitted(_)))
            | (Meanwhile::HasReplaced, Err(FsError::Stale(_))) => {}
            (Meanwhile::GoesOn, Ok(opened)) => {
                assert!(opened.grows);
                let mut read = Box::pin(mount.fs.read(opened.handle, 0, 100, false));
                waits(&mut read);
                mount.bucket.deliver_all();
                assert_eq!(now(read).unwrap().to_vec(), b"one\ntwo\n");
            }
            _ => panic!("{meanwhile:?}: {opened:?}"),
        }
    }
}

/// A read that new versions overtake repeatedly gives up, and keeps its name valid.
#[test]
fn who_follows_a_file_that_is_stored_all_the_time_leaves_it_its_name() {
    let options = SimOptions {
        time: Time::ManualGets,
        ..SimOptions::default()
    };
    let mount = Mount::with_options(options, "", &[]);
    let (ino, log) = create(&mount, ROOT, "log");
    let line = |number| {
        write(&mount, log, number, b"x");
        now(mount.fs.sync(log)).unwrap();
    };
    line(0);
    let mut opening = Box::pin(mount.fs.open(ino, READ));
    waits(&mut opening);
    mount.bucket.deliver_all();
    let follower = now(opening).unwrap().handle;
    line(1);
    let mut reading = Box::pin(mount.fs.read(follower, 0, 100, false));
    for number in 0..u64::from(FOLLOW_TRIES_MAX) {
        waits(&mut reading);
        line(2 + number);
        mount.bucket.deliver_all();
    }
    let read = now(reading);
    assert!(matches!(read, Err(FsError::Stale(_))), "{read:?}");
    let names = mount.fs.take_stale_names().unwrap();
    assert!(names.try_recv().is_err(), "the kernel is not told");
    assert_eq!(mount.lookup(ROOT, "log").unwrap().attributes.ino, ino);
    let mut reading = Box::pin(mount.fs.read(follower, 0, 100, false));
    waits(&mut reading);
    mount.bucket.deliver_all();
    let len = 2 + FOLLOW_TRIES_MAX as usize;
    assert_eq!(now(reading).unwrap().len(), len);
}

/// A directory bucket's rename keeps the version: only the key changes.
#[test]
fn who_follows_a_file_reads_it_under_its_new_name() {
    for directory_bucket in [true, false] {
        let options = SimOptions {
            directory_bucket,
            ..SimOptions::default()
        };
        let config = WriteConfig {
            allow_rename: true,
            ..WriteConfig::default()
        };
        let mount = Mount::with_write(options, "", &[], config);
        let (ino, log) = create(&mount, ROOT, "log");
        write(&mount, log, 0, b"one\n");
        now(mount.fs.sync(log)).unwrap();
        let follower = now(mount.fs.open(ino, READ)).unwrap().handle;
        let read = || {
            let data = now(mount.fs.read(follower, 0, 100, false));
            data.map(|data| data.to_vec())
        };
        assert_eq!(read().unwrap(), b"one\n");
        let (from, to) = (OsStr::new("log"), OsStr::new("log.1"));
        let stop = Stop::never();
        let renamed = mount
            .fs
            .rename((ROOT, from), (ROOT, to), RenameMode::Replace, &stop);
        now(renamed).unwrap();
        assert_eq!(read().unwrap(), b"one\n");
        assert_eq!(mount.lookup(ROOT, "log.1").unwrap().attributes.ino, ino);
    }
}
