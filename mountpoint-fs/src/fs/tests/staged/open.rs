//! Opening and reading: each open sees the newest bytes of the mount, and reading alone costs what
//! it costs without a staging directory.

use super::{Staged, WRITE, all_changes, in_both, wait};
use crate::config::{ConflictPolicy, WriteConfig};
use crate::fs::tests::{Mount, READ};
use crate::handle::Opener;
use crate::operation::{FsError, WriteOptions};

#[test]
fn a_file_is_written_in_place_and_stored_when_it_is_closed() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let handle = mount.open("f");
        mount.write(handle, 8, "OF").unwrap();
        assert_eq!(mount.read(handle).unwrap(), "content OF f");
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "content OF f");
    });
}

#[test]
fn every_handle_reads_the_newest_bytes() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let before = mount.open_to_read("f");
        let writer = mount.open("f");
        let after = mount.open_to_read("f");
        mount.write(writer, 0, "CON").unwrap();
        for handle in [before, writer, after] {
            assert_eq!(mount.read(handle).unwrap(), "CONtent of f");
        }
        mount.close(after).unwrap();
        mount.close(writer).unwrap();
        assert_eq!(mount.read(before).unwrap(), "CONtent of f", "it was stored");
        let again = mount.open("f");
        mount.write(again, 0, "con").unwrap();
        mount.close(again).unwrap();
        assert_eq!(mount.read(before).unwrap(), "content of f");
        mount.close(before).unwrap();
        let ino = mount.walk("f");
        assert!(mount.fs.parts.staged.of(ino).is_none(), "nobody needs it");
        let last = mount.open_to_read("f");
        assert_eq!(mount.read(last).unwrap(), "content of f");
    });
}

#[test]
fn reading_alone_sends_the_same_requests() {
    in_both(|| {
        let keys = ["f", "g"];
        let staged = Staged::new(&keys);
        let plain = Mount::immediate(&keys);
        for _ in 0..3 {
            let handle = staged.open_to_read("f");
            staged.read(handle).unwrap();
            staged.close(handle).unwrap();
            let ino = plain.walk("f");
            let handle = wait(plain.fs.open(ino, READ)).unwrap().handle;
            wait(plain.fs.read(handle, 0, 1 << 20, true)).unwrap();
            plain.fs.release(handle);
            let expected = plain.bucket.take_log().records().len();
            assert_eq!(staged.requests(), expected);
        }
    });
}

#[test]
fn an_open_without_a_change_stores_nothing() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let before = mount.bucket.object("f").unwrap().etag;
        let handle = mount.open("f");
        assert_eq!(mount.read(handle).unwrap(), "content of f");
        mount.close(handle).unwrap();
        assert_eq!(mount.bucket.object("f").unwrap().etag, before);
    });
}

#[test]
fn an_open_may_empty_the_file() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let reader = mount.open_to_read("f");
        let truncate = WriteOptions {
            truncate: true,
            ..WRITE
        };
        let handle = mount.open_with("f", truncate).unwrap().handle;
        assert_eq!(mount.read(reader).unwrap(), "");
        mount.write(handle, 2, "x").unwrap();
        assert_eq!(mount.read(reader).unwrap(), "\0\0x");
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "\0\0x");
    });
}

#[test]
fn changes_need_their_flags() {
    let none = Staged::with(&["f"], WriteConfig::default(), ConflictPolicy::Fail);
    let refused = none.open_with("f", WRITE);
    assert!(matches!(refused, Err(FsError::NotPermitted(_))));
    let (_, made) = none.create(super::ROOT, "new");
    none.write(made, 0, "abc").unwrap();
    none.write(made, 1, "X").unwrap();
    none.close(made).unwrap();
    assert_eq!(none.stored("new").unwrap(), "aXc");
    let appends = WriteConfig {
        allow_append: true,
        ..WriteConfig::default()
    };
    let appends = Staged::with(&["f"], appends, ConflictPolicy::Fail);
    let append = WriteOptions {
        append: true,
        ..WRITE
    };
    let handle = appends.open_with("f", append).unwrap().handle;
    let ino = appends.walk("f");
    appends.write(handle, 12, "!").unwrap();
    let inside = appends.write(handle, 3, "x");
    assert!(matches!(inside, Err(FsError::NotPermitted(_))));
    let cut = appends.set_len(handle, ino, 1);
    assert!(matches!(cut, Err(FsError::NotPermitted(_))));
    appends.close(handle).unwrap();
    assert_eq!(appends.stored("f").unwrap(), "content of f!");
}

#[test]
fn without_the_flag_a_file_opened_for_both_is_read() {
    let none = Staged::with(&["f"], WriteConfig::default(), ConflictPolicy::Fail);
    let ino = none.walk("f");
    let opened = wait(none.fs.open_for_both(ino, READ, WRITE, Opener::UNSEEN));
    let handle = opened.unwrap().handle;
    assert_eq!(none.read(handle).unwrap(), "content of f");
    assert!(none.write(handle, 0, "x").is_err());
}

#[test]
fn an_open_notices_that_another_client_has_replaced_an_unchanged_file() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let held = mount.open("f");
        mount.bucket.put_object("f", "theirs");
        let ino = mount.walk("f");
        let stale = wait(mount.fs.open(ino, READ));
        assert!(matches!(stale, Err(FsError::Stale(_))), "{stale:?}");
        let reader = mount.open_to_read("f");
        assert_eq!(mount.read(reader).unwrap(), "theirs");
        mount.close(held).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "theirs");
    });
}

#[test]
fn synchronous_writes_are_stored_one_by_one() {
    let mount = Staged::with(&["f"], all_changes(), ConflictPolicy::Fail);
    let synchronous = WriteOptions {
        synchronous: true,
        ..WRITE
    };
    let handle = mount.open_with("f", synchronous).unwrap().handle;
    mount.write(handle, 0, "C").unwrap();
    assert_eq!(mount.stored("f").unwrap(), "Content of f");
    mount.write(handle, 1, "O").unwrap();
    assert_eq!(mount.stored("f").unwrap(), "COntent of f");
    mount.close(handle).unwrap();
}
