//! Names of files that are being written.

use mountpoint_client::ObjectClient as _;

use super::*;
use crate::clock::wait_until;
use crate::operation::WriteOptions;

const ROOT: InodeNo = InodeNo::ROOT;

#[test]
fn a_file_that_is_being_written_has_its_name_and_size() {
    let mount = Mount::immediate(&["d/a", "d/z"]);
    let directory = mount.walk("d");
    mount.requests();
    let (ino, handle) = create(&mount, directory, "new");
    write(&mount, handle, 0, b"hello");
    let entry = mount.lookup(directory, "new").unwrap();
    assert_eq!((entry.attributes.ino, entry.attributes.size), (ino, 5));
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 5);
    assert_eq!(mount.requests(), (0, 0, 0), "S3 has not heard of it");
    for plus in [false, true] {
        let listing = now(mount.fs.open_directory(directory)).unwrap();
        // Also one entry at a time, and once more from the beginning.
        for batch in [1, 100] {
            let entries = mount.list(listing, batch, plus);
            assert_eq!(shown(&entries), ["a", "z", "new"]);
            for entry in entries.iter().filter(|entry| plus && entry.name.len() > 2) {
                assert_eq!(entry.entry.attributes.ino, ino);
                mount.fs.forget(ino, 1);
            }
        }
        mount.fs.release_directory(listing);
    }
    now(mount.fs.sync(handle)).unwrap();
    assert_eq!(mount.names(directory), ["a", "new", "z"]);
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 5);
    let opened = now(mount.fs.open(ino, READ)).unwrap();
    mount.fs.release(opened.handle);
    mount.fs.release(handle);
    assert_eq!(mount.lookup(directory, "new").unwrap().attributes.ino, ino);
}

#[test]
fn what_failed_is_gone() {
    let mount = Mount::immediate(&[]);
    let (ino, handle) = create(&mount, ROOT, "new");
    write(&mount, handle, 0, b"x");
    mount.bucket.fail_next(
        Operation::PutObject,
        1,
        mountpoint_client::ErrorKind::Denied,
    );
    now(mount.fs.sync(handle)).unwrap_err();
    mount.fs.release(handle);
    assert!(matches!(mount.lookup(ROOT, "new"), Err(FsError::NotFound)));
    assert!(mount.names(ROOT).is_empty());
    mount.fs.forget(ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
    mount.fs.parts.writing.believe();
    // A file without a close is given up with the mount.
    let (_, handle) = create(&mount, ROOT, "open");
    write(&mount, handle, 0, b"x");
    now(mount.fs.drained());
    now(mount.fs.keep_staged());
    now(mount.fs.abandon_uploads());
    mount.fs.release(handle);
    assert!(mount.bucket.keys().is_empty());
}

fn content(mount: &Mount, key: &str) -> String {
    let bytes = mount.bucket.object(key).unwrap().content.to_vec();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn an_empty_file_that_somebody_else_filled_is_not_replaced() {
    let mount = writable(&[]);
    for writes in [false, true] {
        mount.bucket.put_object("a", "");
        let ino = mount.walk("a");
        let options = WriteOptions::default();
        let opened = now(mount.fs.open_for_writing(ino, options, Opener::UNSEEN)).unwrap();
        mount.bucket.put_object("a", "theirs");
        if writes {
            write(&mount, opened.handle, 0, b"ours");
            assert!(now(mount.fs.sync(opened.handle)).is_err());
        }
        mount.fs.release(opened.handle);
        assert_eq!(content(&mount, "a"), "theirs", "{writes}");
        mount.fs.forget(ino, 1);
    }
    mount.bucket.put_object("b", "");
    let ino = mount.walk("b");
    let opened = now(mount
        .fs
        .open_for_writing(ino, WriteOptions::default(), Opener::UNSEEN))
    .unwrap();
    write(&mount, opened.handle, 0, b"ours");
    mount.fs.release(opened.handle);
    assert_eq!(content(&mount, "b"), "ours");
}

#[test]
fn a_child_that_ends_does_not_show_half_a_file() {
    let mount = Mount::immediate(&[]);
    let (ino, handle) = create(&mount, ROOT, "new");
    write(&mount, handle, 0, b"half");
    now(mount.fs.flush(handle, &CHILD)).unwrap();
    assert!(mount.bucket.keys().is_empty());
    write(&mount, handle, 4, b" and whole");
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    let opened = now(mount.fs.open(ino, READ)).unwrap();
    mount.fs.release(opened.handle);
    assert_eq!(content(&mount, "new"), "half and whole");
    mount.fs.release(handle);
}

/// Closes of a file without writes, and its stored objects at three times.
///
/// The times are: at once, after a write and a close, and at the kernel's release.
#[test]
fn an_empty_file_is_stored_by_the_close_that_may_be_the_last() {
    for (closes, at_once) in [
        (vec![&OPENER], 1),
        (vec![&MOVES], 0),
        (vec![&MOVES, &OPENER], 1),
        (vec![&MOVES, &CHILD], 0),
        (vec![&UNSEEN], 1),
        (vec![&UNSEEN, &UNSEEN], 1),
        (vec![&CHILD], 0),
    ] {
        let which = closes.iter().map(|it| (it.0, it.1)).collect::<Vec<_>>();
        for writes in [false, true] {
            let mount = Mount::immediate(&[]);
            let (_, handle) = create(&mount, ROOT, "new");
            for closing in &closes {
                now(mount.fs.flush(handle, *closing)).unwrap();
            }
            let puts = || mount.bucket.take_log().count(Operation::PutObject);
            assert_eq!(puts(), at_once, "{which:?}");
            if writes {
                write(&mount, handle, 0, b"hello");
                now(mount.fs.flush(handle, &OPENER)).unwrap();
                assert_eq!(puts(), 1, "{which:?}");
            }
            mount.fs.release(handle);
            let later = if writes { 0 } else { 1 - at_once };
            assert_eq!(puts(), later, "{which:?}");
            assert_eq!(content(&mount, "new"), if writes { "hello" } else { "" });
        }
        // The close that stores it returns the error, and the file is gone.
        if at_once == 1 {
            let mount = Mount::immediate(&[]);
            let (_, handle) = create(&mount, ROOT, "new");
            let denied = mountpoint_client::ErrorKind::Denied;
            mount.bucket.fail_next(Operation::PutObject, 1, denied);
            let outcomes: Vec<_> = closes
                .iter()
                .map(|closing| now(mount.fs.flush(handle, *closing)).is_err())
                .collect();
            assert!(outcomes.contains(&true), "{which:?}");
            mount.fs.release(handle);
            // A later close tries again.
            let is_stored = outcomes.last() == Some(&false);
            assert_eq!(mount.bucket.keys().len(), usize::from(is_stored));
            assert_eq!(mount.lookup(ROOT, "new").is_ok(), is_stored);
        }
    }
}

/// A reader that opens an unwritten file does not make its writer fail.
#[test]
fn a_reader_does_not_hinder_the_writer_of_an_empty_file() {
    let mount = Mount::immediate(&[]);
    let (_, handle) = create(&mount, ROOT, "moved");
    now(mount.fs.flush(handle, &MOVES)).unwrap();
    write(&mount, handle, 0, b"hello");
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    mount.fs.release(handle);
    assert_eq!(content(&mount, "moved"), "hello");

    // A reader opens the empty file and follows the writes.
    for reads_first in [false, true] {
        let name = format!("unseen-{reads_first}");
        let (ino, handle) = create(&mount, ROOT, &name);
        now(mount.fs.flush(handle, &UNSEEN)).unwrap();
        let reader = now(mount.fs.open(ino, READ)).unwrap().handle;
        let read = || now(mount.fs.read(reader, 0, 4096, false));
        if reads_first {
            assert_eq!(read().unwrap().len(), 0);
        }
        write(&mount, handle, 0, b"hello");
        assert_eq!(read().unwrap().to_vec(), b"hello");
        write(&mount, handle, 5, b" world");
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        assert_eq!(read().unwrap().to_vec(), b"hello world");
        mount.fs.release(handle);
        let again = now(mount.fs.open(ino, READ)).unwrap();
        let data = now(mount.fs.read(again.handle, 0, 4096, false)).unwrap();
        assert_eq!(data.len(), 11);
        mount.fs.release(again.handle);
        mount.fs.release(reader);
        assert_eq!(content(&mount, &name), "hello world");
    }
}

/// The opener gives the file to a child and closes it. The child writes and ends.
#[test]
fn a_child_writes_what_its_opener_has_closed() {
    let mount = Mount::immediate(&[]);
    let (_, handle) = create(&mount, ROOT, "new");
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    assert_eq!(content(&mount, "new"), "");
    write(&mount, handle, 0, b"of a child");
    mount.requests();
    now(mount.fs.flush(handle, &CHILD)).unwrap();
    assert_eq!(content(&mount, "new"), "of a child");
    mount.fs.release(handle);
    assert_eq!(mount.bucket.take_log().records().len(), 1);
    // Another client has replaced the empty file meanwhile: its object stays.
    let (_, handle) = create(&mount, ROOT, "other");
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    mount.bucket.put_object("other", "theirs");
    write(&mount, handle, 0, b"ours");
    let outcome = now(mount.fs.flush(handle, &CHILD));
    assert!(matches!(outcome, Err(FsError::Stale(_))), "{outcome:?}");
    mount.fs.release(handle);
    assert_eq!(content(&mount, "other"), "theirs");
}

/// The opener is not visible, so it may have another descriptor.
#[test]
fn a_child_stores_what_an_opener_out_of_sight_has_closed() {
    let mount = Mount::immediate(&[]);
    let (_, handle) = create(&mount, ROOT, "new");
    now(mount.fs.flush(handle, &UNSEEN)).unwrap();
    write(&mount, handle, 0, b"of a child");
    now(mount.fs.flush(handle, &CHILD)).unwrap();
    assert_eq!(content(&mount, "new"), "of a child");
    mount.fs.release(handle);
}

/// The close of one of two handles of a process does not end the other.
#[test]
fn what_is_open_twice_is_stored_by_the_one_that_writes() {
    let mount = Mount::immediate(&[]);
    let me = Opener {
        process: 7,
        started: 1,
    };
    let (name, options) = (OsStr::new("new"), WriteOptions::default());
    let (entry, opened) = mount.fs.create(ROOT, name, options, me).unwrap();
    let (ino, first) = (entry.attributes.ino, opened.handle);
    let second = now(mount.fs.open_for_writing(ino, options, me)).unwrap();
    now(mount.fs.flush(first, &MOVES)).unwrap();
    mount.fs.release(first);
    write(&mount, second.handle, 0, b"by");
    write(&mount, second.handle, 2, b"tes");
    assert!(mount.bucket.object("new").is_none());
    mount.fs.release(second.handle);
    let stored = mount.bucket.object("new").unwrap().content;
    assert_eq!(stored.to_vec(), b"bytes");
}

/// A handle that has stored a file stays open, as until the kernel tells of its last close. Another
/// one goes on behind what was stored, and only then the first one is behind.
#[test]
fn a_file_is_gone_on_with_while_the_handle_that_stored_it_is_open() {
    for len in [0, 5, 6 << 20] {
        let allowed = WriteConfig {
            allow_overwrite: true,
            allow_append: true,
            part_size: Some(5 << 20),
            ..WriteConfig::default()
        };
        let mount = Mount::with_write(SimOptions::default(), "", &[], allowed);
        let (ino, first) = create(&mount, ROOT, "new");
        let mut expected = vec![1; len];
        for (number, piece) in expected.chunks(1 << 20).enumerate() {
            now(mount.fs.write(first, (number as u64) << 20, piece)).unwrap();
        }
        now(mount.fs.flush(first, &UNSEEN)).unwrap();
        let append = WriteOptions {
            append: true,
            ..WriteOptions::default()
        };
        let second = now(mount.fs.open_for_writing(ino, append, Opener::UNSEEN)).unwrap();
        // A duplicate of its descriptor is closed before anything is written.
        now(mount.fs.flush(second.handle, &UNSEEN)).unwrap();
        now(mount.fs.write(second.handle, len as u64, b"and more")).unwrap();
        now(mount.fs.flush(second.handle, &UNSEEN)).unwrap();
        expected.extend_from_slice(b"and more");
        let object = mount.bucket.object("new").unwrap();
        assert!(object.content.to_vec() == expected, "{len}");
        mount.fs.release(second.handle);
        mount.fs.release(first);
        let object = mount.bucket.object("new").unwrap();
        assert!(object.content.to_vec() == expected, "{len}");
    }
}

/// The writer continues by a copy of its stored version. The copy fails if another client has
/// replaced that version.
#[test]
fn a_large_file_that_somebody_else_changed_after_its_fsync_does_not_go_on() {
    const LEN: usize = 6 << 20;
    for (copies_are_known, is_behind_the_copy, more) in [
        (false, false, 1),
        (false, true, 1),
        (true, false, 1),
        (true, false, LEN),
        (true, true, LEN),
    ] {
        for theirs in [Some(6), Some(LEN), Some(LEN + more), Some(0), None] {
            let case = format!("{copies_are_known} {is_behind_the_copy} {more} {theirs:?}");
            let write = WriteConfig {
                part_size: Some(5 << 20),
                ..WriteConfig::default()
            };
            let mount = Mount::with_write(SimOptions::default(), "", &[], write);
            let write_all = |handle, from: usize, len: usize| {
                let pieces = (0..len).step_by(1 << 20);
                let mut outcomes = pieces.map(|at| {
                    let piece = vec![3; (len - at).min(1 << 20)];
                    now(mount.fs.write(handle, (from + at) as u64, &piece))
                });
                outcomes.find(Result::is_err).unwrap_or(Ok(()))
            };
            if copies_are_known {
                let (_, first) = create(&mount, ROOT, "first");
                write_all(first, 0, LEN).unwrap();
                now(mount.fs.sync(first)).unwrap();
                write_all(first, LEN, 1).unwrap();
                mount.fs.release(first);
            }
            let (_, handle) = create(&mount, ROOT, "a");
            write_all(handle, 0, LEN).unwrap();
            now(mount.fs.sync(handle)).unwrap();
            let change = || match theirs {
                Some(len) => drop(mount.bucket.put_object("a", vec![9; len])),
                None => drop(mount.bucket.remove("a")),
            };
            let written = if is_behind_the_copy {
                let written = write_all(handle, LEN, more);
                change();
                written
            } else {
                change();
                write_all(handle, LEN, more)
            };
            written.expect(&case);
            let closed = now(mount.fs.flush(handle, &OPENER));
            assert!(
                matches!(closed, Err(FsError::Stale(_))),
                "{case}: {closed:?}"
            );
            let synchronised = now(mount.fs.sync(handle));
            assert!(matches!(synchronised, Err(FsError::Stale(_))), "{case}");
            mount.fs.release(handle);
            let there = mount.bucket.object("a").map(|it| it.content.to_vec());
            assert!(there == theirs.map(|len| vec![9; len]), "{case}");
            assert!(now(mount.bucket.list_uploads("")).unwrap().is_empty());
            wait_until(&case, || mount.fs.parts.writing.bytes_held() == 0);
        }
    }
}
