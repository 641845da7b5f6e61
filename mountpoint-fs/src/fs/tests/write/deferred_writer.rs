//! Files opened for writing without `O_TRUNC`, by their first operations.

use super::*;
use crate::operation::{AttributeChange, WriteOptions};

/// Mounts `a`, which may be replaced, and appended to if `append` is set.
fn mount(append: bool) -> Mount {
    let write = WriteConfig {
        allow_overwrite: true,
        allow_append: append,
        ..WriteConfig::default()
    };
    let options = SimOptions {
        time: Time::Immediate,
        ..SimOptions::default()
    };
    Mount::with_write(options, "", &["a"], write)
}

/// The mode of the open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    WriteOnly,
    ReadWrite,
}

const MODES: [Mode; 2] = [Mode::WriteOnly, Mode::ReadWrite];

#[track_caller]
fn open(mount: &Mount, mode: Mode) -> (InodeNo, HandleNo) {
    let ino = mount.walk("a");
    let how = WriteOptions::default();
    let opened = match mode {
        Mode::WriteOnly => now(mount.fs.open_for_writing(ino, how, Opener::UNSEEN)),
        Mode::ReadWrite => now(mount.fs.open_for_both(ino, READ, how, Opener::UNSEEN)),
    };
    let opened = opened.unwrap();
    assert!(opened.flush, "its close may have to store it");
    (ino, opened.handle)
}

/// An operation's result, to be compared.
fn said<T>(future: impl Future<Output = Result<T, FsError>>) -> Result<T, String> {
    now(future).map_err(|error| format!("{error:?}"))
}

/// `ftruncate`. Returns the size afterwards.
fn cut(mount: &Mount, ino: InodeNo, handle: HandleNo, size: u64) -> Result<u64, String> {
    let change = AttributeChange {
        size: Some(size),
        handle: Some(handle),
        ..AttributeChange::default()
    };
    said(mount.fs.set_attributes(ino, change)).map(|attributes| attributes.size)
}

#[track_caller]
fn content(mount: &Mount) -> Vec<u8> {
    mount.bucket.object("a").unwrap().content.to_vec()
}

const BEFORE: &[u8] = b"content of a";

fn changes(mount: &Mount) -> usize {
    let log = mount.bucket.take_log();
    log.count(Operation::PutObject) + log.count(Operation::CopyObject)
}

#[test]
fn what_is_closed_unchanged_is_left_alone() {
    for mode in MODES {
        let mount = mount(true);
        let (ino, handle) = open(&mount, mode);
        assert_eq!(
            cut(&mount, ino, handle, 12),
            Ok(12),
            "it is as long already"
        );
        now(mount.fs.sync(handle)).unwrap();
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        mount.fs.release(handle);
        assert_eq!(changes(&mount), 0, "{mode:?}");
        // No handle is open.
        let (ino, handle) = (ino, open(&mount, mode).1);
        assert_eq!(cut(&mount, ino, handle, 0), Ok(0));
    }
}

#[test]
fn cut_to_nothing_it_is_replaced_when_it_is_closed() {
    for mode in MODES {
        let mount = mount(false);
        let (ino, handle) = open(&mount, mode);
        if mode == Mode::ReadWrite {
            assert_eq!(now(mount.fs.read(handle, 0, 100, false)).unwrap().len(), 12);
        }
        assert_eq!(cut(&mount, ino, handle, 0), Ok(0));
        assert_eq!(content(&mount), BEFORE, "until it is closed");
        // The file is empty.
        assert!(
            now(mount.fs.read(handle, 0, 100, false))
                .unwrap()
                .is_empty()
        );
        let other = now(mount.fs.open(ino, READ));
        assert!(matches!(other, Err(FsError::NotPermitted(_))));
        now(mount.fs.write(handle, 0, b"new")).unwrap();
        mount.fs.write_now(handle, 3, b"er").unwrap().unwrap();
        let read = now(mount.fs.read(handle, 4, 100, false)).unwrap();
        assert_eq!(read.to_vec(), b"r", "{mode:?}");
        assert!(
            now(mount.fs.read(handle, 5, 100, false))
                .unwrap()
                .is_empty()
        );
        assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 5);
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        assert_eq!(content(&mount), b"newer");
        mount.fs.release(handle);
        assert_eq!(changes(&mount), 1, "{mode:?}");
        let opened = now(mount.fs.open(mount.walk("a"), READ)).unwrap();
        let read = now(mount.fs.read(opened.handle, 0, 100, false)).unwrap();
        assert_eq!(read.len(), 5);
        mount.fs.release(opened.handle);
        mount.fs.forget(ino, 100);
        assert_eq!(mount.fs.inode_count(), 0);
    }
}

#[test]
fn cut_to_nothing_and_closed_it_is_empty() {
    for mode in MODES {
        let mount = mount(false);
        let (ino, handle) = open(&mount, mode);
        assert_eq!(cut(&mount, ino, handle, 0), Ok(0));
        assert_eq!(cut(&mount, ino, handle, 0), Ok(0));
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        assert_eq!(content(&mount), b"");
        mount.fs.release(handle);
        assert_eq!(changes(&mount), 1, "{mode:?}");
    }
}

#[test]
fn cut_to_fewer_bytes_s3_shortens_it_and_what_follows_is_its_end() {
    let mount = mount(true);
    let (ino, handle) = open(&mount, Mode::WriteOnly);
    assert_eq!(cut(&mount, ino, handle, 7), Ok(7));
    assert_eq!(content(&mount), b"content");
    now(mount.fs.write(handle, 7, b"ed")).unwrap();
    now(mount.fs.flush(handle, &OPENER)).unwrap();
    assert_eq!(content(&mount), b"contented");
    mount.fs.release(handle);
}

/// The opener gives the file to a child and closes it. The child makes the first change and ends.
///
/// An opener that has duplicated its descriptor continues to write.
#[test]
fn a_child_replaces_what_its_opener_has_closed_unchanged() {
    for mode in MODES {
        for (closes, is_stored) in [
            (OPENER, true),
            (UNSEEN, true),
            (MOVES, false),
            (CHILD, false),
        ] {
            let mount = mount(false);
            let (ino, handle) = open(&mount, mode);
            now(mount.fs.flush(handle, &closes)).unwrap();
            assert_eq!(cut(&mount, ino, handle, 0), Ok(0));
            now(mount.fs.write(handle, 0, b"of a child")).unwrap();
            let denied = mountpoint_client::ErrorKind::Denied;
            if is_stored {
                mount.bucket.fail_next(Operation::PutObject, 1, denied);
                let closed = now(mount.fs.flush(handle, &CHILD));
                assert!(closed.is_err(), "{mode:?}: the child is told");
                assert_eq!(content(&mount), BEFORE);
                mount.fs.release(handle);
                let (ino, handle) = open(&mount, mode);
                now(mount.fs.flush(handle, &closes)).unwrap();
                assert_eq!(cut(&mount, ino, handle, 0), Ok(0));
                now(mount.fs.flush(handle, &CHILD)).unwrap();
                assert_eq!(content(&mount), BEFORE, "it has written nothing");
                now(mount.fs.write(handle, 0, b"of a child")).unwrap();
                now(mount.fs.flush(handle, &CHILD)).unwrap();
                assert_eq!(content(&mount), b"of a child", "{mode:?}");
                mount.fs.release(handle);
            } else {
                now(mount.fs.flush(handle, &CHILD)).unwrap();
                assert_eq!(content(&mount), BEFORE, "{mode:?}: its opener goes on");
                now(mount.fs.flush(handle, &OPENER)).unwrap();
                assert_eq!(content(&mount), b"of a child");
                mount.fs.release(handle);
            }
        }
    }
}

/// A write at the end appends, where that is allowed. A write of existing bytes is refused for
/// good.
#[test]
fn a_first_write_at_the_end_appends_and_any_other_is_refused() {
    for mode in MODES {
        for (append, offset, expected) in [
            (true, 12, Some(&b"content of a!"[..])),
            (false, 12, None),
            (true, 0, None),
            (true, 5, None),
            (true, 13, None),
        ] {
            let case = format!("{mode:?} {append} {offset}");
            let mount = mount(append);
            let (ino, handle) = open(&mount, mode);
            assert!(
                mount.fs.write_now(handle, offset, b"!").is_none(),
                "it must ask"
            );
            let written = said(mount.fs.write(handle, offset, b"!"));
            let closed = said(mount.fs.flush(handle, &OPENER));
            match expected {
                Some(expected) => {
                    assert_eq!((&written, &closed), (&Ok(()), &Ok(())), "{case}");
                    assert_eq!(content(&mount), expected, "{case}");
                }
                None => {
                    let text = written.unwrap_err();
                    for part in ["NotSequential", "O_TRUNC", "--allow-append"] {
                        assert!(text.contains(part), "{case}: {text}");
                    }
                    assert_eq!(closed, Err(text.clone()), "{case}");
                    assert_eq!(said(mount.fs.sync(handle)), closed, "{case}");
                    let again = said(mount.fs.write(handle, 12, b"!"));
                    assert_eq!(again, closed, "{case}");
                    assert_eq!(cut(&mount, ino, handle, 0), Err(text), "{case}");
                    assert_eq!((content(&mount), changes(&mount)), (BEFORE.to_vec(), 0));
                }
            }
            mount.fs.release(handle);
            mount.fs.forget(ino, 100);
            assert_eq!(mount.fs.inode_count(), 0, "{case}");
        }
    }
}

#[test]
fn who_reads_it_keeps_it_from_being_changed() {
    for mode in MODES {
        let mount = mount(true);
        let reader = now(mount.fs.open(mount.walk("a"), READ)).unwrap();
        let (ino, handle) = open(&mount, mode);
        let refused = cut(&mount, ino, handle, 0);
        assert!(refused.unwrap_err().contains("open for reading"));
        mount.fs.release(reader.handle);
        assert_eq!(cut(&mount, ino, handle, 0), Ok(0), "{mode:?}");
        // Another process that wants to write it.
        let how = WriteOptions::default();
        let another = Opener {
            process: 8,
            started: 1,
        };
        let refused = now(mount.fs.open_for_writing(ino, how, another));
        assert!(refused.is_err(), "{mode:?}");
        mount.fs.release(handle);
        assert_eq!(content(&mount), b"");
    }
}

#[test]
fn of_two_that_opened_it_the_first_to_change_it_writes_it() {
    let mount = mount(false);
    let (ino, first) = open(&mount, Mode::WriteOnly);
    let (_, second) = open(&mount, Mode::WriteOnly);
    assert_eq!(cut(&mount, ino, second, 0), Ok(0));
    now(mount.fs.write(second, 0, b"second")).unwrap();
    let refused = now(mount.fs.write(first, 0, b"first"));
    assert!(refused.is_err());
    for handle in [second, first] {
        now(mount.fs.flush(handle, &OPENER)).ok();
        mount.fs.release(handle);
    }
    assert_eq!(content(&mount), b"second");
}

/// Another client's bytes are not lost.
#[test]
fn an_object_that_was_replaced_meanwhile_is_not_appended_to() {
    let mount = mount(true);
    let (ino, handle) = open(&mount, Mode::WriteOnly);
    mount.bucket.put_object("a", "another, and longer");
    now(mount.fs.write(handle, 12, b"!")).unwrap_err();
    now(mount.fs.flush(handle, &OPENER)).unwrap_err();
    mount.fs.release(handle);
    mount.fs.forget(ino, 100);
    assert_eq!(mount.fs.inode_count(), 0);
    assert_eq!(content(&mount), b"another, and longer");
}

#[test]
fn what_is_only_read_needs_no_leave() {
    let mount = Mount::immediate(&["a"]);
    let ino = mount.walk("a");
    let how = WriteOptions::default();
    let opened = now(mount.fs.open_for_both(ino, READ, how, Opener::UNSEEN)).unwrap();
    assert!(!opened.flush);
    let written = now(mount.fs.write(opened.handle, 0, b"x"));
    assert!(matches!(written, Err(FsError::OneWay(_))), "{written:?}");
    now(mount.fs.flush(opened.handle, &OPENER)).unwrap();
    let refused = cut(&mount, ino, opened.handle, 0);
    assert!(refused.unwrap_err().contains("--allow-overwrite"));
    mount.fs.release(opened.handle);
}
