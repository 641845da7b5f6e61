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

/// The process that writes.
const WRITER: Opener = Opener {
    process: 7,
    started: 100,
};

/// `tar cf x.tar .` and wandb open the file that they write once more.
#[test]
fn the_writing_process_reads_what_it_has_written() {
    let mount = Mount::immediate(&[]);
    let (name, options) = (OsStr::new("x.tar"), WriteOptions::default());
    let (entry, writer) = mount.fs.create(ROOT, name, options, WRITER).unwrap();
    let ino = entry.attributes.ino;
    let own = mount.fs.open_own(ino, || WRITER).unwrap();
    assert!(own.direct_io && own.grows && !own.keep_cache && !own.flush);
    let read = |offset, fills_cache| {
        let data = now(mount.fs.read(own.handle, offset, 4, fills_cache));
        data.map(|data| data.to_vec())
    };
    assert_eq!(read(0, false).unwrap(), b"");
    write(&mount, writer.handle, 0, b"header");
    assert_eq!(read(0, false).unwrap(), b"head");
    assert_eq!(read(4, false).unwrap(), b"er");
    assert_eq!(read(6, false).unwrap(), b"");
    // A page would not change when the file grows.
    assert!(matches!(read(0, true), Err(FsError::Busy(_))));
    for other in [
        Opener::UNSEEN,
        Opener {
            started: 101,
            ..WRITER
        },
    ] {
        assert!(mount.fs.open_own(ino, || other).is_none());
    }
    assert!(matches!(
        now(mount.fs.open(ino, READ)),
        Err(FsError::NotPermitted(_))
    ));
    now(mount.fs.flush(own.handle, &OPENER)).unwrap();
    assert!(mount.bucket.keys().is_empty(), "it wrote nothing");
    write(&mount, writer.handle, 6, b" and rest");
    now(mount.fs.flush(writer.handle, &OPENER)).unwrap();
    assert_eq!(content(&mount, "x.tar").unwrap(), "header and rest");
    mount.fs.release(writer.handle);
    assert_eq!(read(11, false).unwrap(), b"rest");
    // It is closed: from now on others read it, too.
    assert!(mount.fs.open_own(ino, || WRITER).is_none());
    let another = now(mount.fs.open(ino, READ)).unwrap();
    mount.fs.release(another.handle);
    mount.fs.release(own.handle);
    mount.fs.forget(ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn the_last_handle_of_the_writing_process_stores_the_file_although_it_only_reads() {
    let mount = Mount::immediate(&[]);
    let (name, options) = (OsStr::new("new"), WriteOptions::default());
    let (entry, writer) = mount.fs.create(ROOT, name, options, WRITER).unwrap();
    write(&mount, writer.handle, 0, b"bytes");
    let own = mount.fs.open_own(entry.attributes.ino, || WRITER).unwrap();
    // The kernel tells of no close: the process was killed.
    mount.fs.release(writer.handle);
    assert!(mount.bucket.keys().is_empty());
    now(mount.fs.sync(own.handle)).unwrap();
    assert_eq!(content(&mount, "new").unwrap(), "bytes");
    mount.fs.release(own.handle);
    mount.fs.forget(entry.attributes.ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

/// A sent part is neither in memory nor an object; the object that is being replaced is no
/// beginning of the file.
#[test]
fn the_writing_process_reads_no_part_that_was_sent_before_the_file_is_stored() {
    const PART: usize = 5 << 20;
    let options = SimOptions::default();
    let mount = Mount::with_write(options, "", &[], all_changes_in_parts());
    mount.bucket.put_object("a", vec![1; 3 * PART]);
    let ino = mount.walk("a");
    let options = WriteOptions {
        truncate: true,
        ..WriteOptions::default()
    };
    let writer = now(mount.fs.open_for_writing(ino, options, WRITER)).unwrap();
    let own = mount.fs.open_own(ino, || WRITER).unwrap();
    let mut written = 0;
    while written < PART + 1000 {
        let piece = vec![2; 1 << 18];
        now(mount.fs.write(writer.handle, written as u64, &piece)).unwrap();
        written += piece.len();
    }
    let read = |handle, offset: usize| {
        let data = now(mount.fs.read(handle, offset as u64, 1000, false));
        data.map(|data| data.to_vec())
    };
    assert!(matches!(read(own.handle, 0), Err(FsError::Busy(_))));
    assert!(matches!(read(writer.handle, 0), Err(FsError::OneWay(_))));
    for handle in [own.handle, writer.handle] {
        assert_eq!(read(handle, written - 500).unwrap(), vec![2; 500]);
        assert_eq!(read(handle, written).unwrap(), b"");
    }
    now(mount.fs.sync(writer.handle)).unwrap();
    assert_eq!(read(own.handle, 0).unwrap(), vec![2; 1000]);
    mount.fs.release(own.handle);
    mount.fs.release(writer.handle);
}

/// The reader of a file that has failed gets the error, too.
#[test]
fn the_writing_process_reads_nothing_of_a_file_that_has_failed() {
    let mount = Mount::immediate(&[]);
    let (name, options) = (OsStr::new("new"), WriteOptions::default());
    let (entry, writer) = mount.fs.create(ROOT, name, options, WRITER).unwrap();
    let own = mount.fs.open_own(entry.attributes.ino, || WRITER).unwrap();
    write(&mount, writer.handle, 0, b"bytes");
    let back = mount.fs.write_now(writer.handle, 1, b"x");
    assert!(matches!(back, Some(Err(FsError::NotSequential(_)))));
    let read = now(mount.fs.read(own.handle, 0, 10, false));
    assert!(matches!(read, Err(FsError::NotSequential(_))), "{read:?}");
    now(mount.fs.flush(writer.handle, &OPENER)).unwrap_err();
    mount.fs.release(own.handle);
    mount.fs.release(writer.handle);
}
