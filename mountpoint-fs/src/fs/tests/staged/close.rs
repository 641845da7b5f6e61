//! Closing, synchronising and the end of the mount: which of them store.

use super::{ROOT, Staged, WRITE, all_changes, in_both, wait};
use crate::config::{ConflictPolicy, WriteConfig};
use crate::fs::tests::{CHILD, MOVES, OPENER, READ};
use crate::operation::{
    AllocateMode, AttributeChange, FsError, OpenOptions, TimeChange, WriteOptions,
};

#[test]
fn a_new_file_is_stored_by_its_close_and_is_there_before() {
    in_both(|| {
        let mount = Staged::new(&[]);
        let (ino, handle) = mount.create(ROOT, "f");
        mount.write(handle, 3, "d").unwrap();
        mount.write(handle, 0, "abc").unwrap();
        assert_eq!((mount.size(ino), mount.walk("f")), (4, ino));
        assert_eq!(mount.stored("f"), None);
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "abcd");
        assert_eq!(mount.size(mount.walk("f")), 4);
    });
}

#[test]
fn a_file_whose_metadata_have_no_room_for_a_time_is_stored_without() {
    let write = WriteConfig {
        posix_metadata: true,
        ..all_changes()
    };
    let mount = Staged::with(&["f"], write, ConflictPolicy::Fail);
    let full = vec![("a+b".to_owned(), "\u{fc}".repeat(1022))];
    let mut object = mount.bucket.object("f").unwrap();
    object.headers.metadata.clone_from(&full);
    mount.bucket.insert(object);
    let handle = mount.open("f");
    mount.write(handle, 0, "C").unwrap();
    mount.close(handle).unwrap();
    let stored = mount.bucket.object("f").unwrap();
    assert_eq!(mount.stored("f").unwrap(), "Content of f");
    assert_eq!(stored.headers.metadata, full);
}

/// The kernel has what was written, but for a last page that is not whole.
#[test]
fn what_was_just_stored_is_read_without_a_request() {
    in_both(|| {
        let mount = Staged::new(&[]);
        let (_, handle) = mount.create(ROOT, "f");
        mount.write(handle, 0, "abc").unwrap();
        mount.close(handle).unwrap();
        wait(mount.fs.drained());
        let reader = mount.open_to_read("f");
        mount.requests();
        assert_eq!(mount.read(reader).unwrap(), "abc");
        assert_eq!(mount.requests(), 0);
        mount.fs.release(reader);
        let handle = mount.open("f");
        mount.write(handle, 1, "B").unwrap();
        mount.close(handle).unwrap();
        wait(mount.fs.drained());
        mount.bucket.put_object("f", "theirs");
        let reader = mount.open_to_read("f");
        assert_eq!(mount.read(reader).unwrap(), "theirs");
    });
}

/// The answer to a GET proves the version there.
#[test]
fn what_was_just_stored_is_no_proof_of_the_newest_version() {
    in_both(|| {
        let mount = Staged::new(&[]);
        let (ino, handle) = mount.create(ROOT, "f");
        mount.write(handle, 0, "abc").unwrap();
        mount.close(handle).unwrap();
        mount.bucket.put_object("f", "theirs");
        let direct = OpenOptions {
            direct: true,
            ..READ
        };
        let opened = wait(mount.fs.open(ino, direct));
        assert!(matches!(opened, Err(FsError::Stale(_))), "{opened:?}");
    });
}

#[test]
fn each_synchronisation_stores_what_changed() {
    in_both(|| {
        let mount = Staged::new(&[]);
        let (_, handle) = mount.create(ROOT, "f");
        for (data, expected) in [("a", "a"), ("b", "b"), ("b", "b")] {
            mount.write(handle, 0, data).unwrap();
            wait(mount.fs.sync(handle)).unwrap();
            assert_eq!(mount.stored("f").unwrap(), expected);
        }
        mount.requests();
        wait(mount.fs.sync(handle)).unwrap();
        mount.close(handle).unwrap();
        assert_eq!(mount.requests(), 0, "nothing has changed");
    });
}

#[test]
fn closes_before_the_first_write_store_nothing_that_another_close_will() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let truncate = WriteOptions {
            truncate: true,
            ..WRITE
        };
        let handle = mount.open_with("f", truncate).unwrap().handle;
        wait(mount.fs.flush(handle, &MOVES)).unwrap();
        wait(mount.fs.flush(handle, &CHILD)).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "content of f");
        mount.write(handle, 0, "new").unwrap();
        wait(mount.fs.flush(handle, &CHILD)).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "content of f");
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "new");
        let handle = mount.open_with("f", truncate).unwrap().handle;
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "");
    });
}

#[test]
fn a_change_behind_the_last_close_is_stored_by_the_release() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let handle = mount.open("f");
        wait(mount.fs.flush(handle, &OPENER)).unwrap();
        // The page of a mapping.
        mount.write(handle, 0, "C").unwrap();
        mount.fs.release(handle);
        wait(mount.fs.drained());
        assert_eq!(mount.stored("f").unwrap(), "Content of f");
    });
}

#[test]
fn a_conflict_fails_the_close_and_the_name_means_the_other_version() {
    let mount = Staged::new(&["f"]);
    let handle = mount.open("f");
    mount.write(handle, 0, "C").unwrap();
    mount.bucket.put_object("f", "theirs");
    let closed = mount.close(handle);
    assert!(matches!(&closed, Err(FsError::Stale(text)) if text.contains("staged list")));
    let reader = mount.open_to_read("f");
    assert_eq!(mount.read(reader).unwrap(), "theirs");
    assert_eq!(mount.kept(), 2, "its bytes and their description");
}

#[test]
fn a_conflict_is_solved_as_the_user_wants() {
    let both = Staged::with(&["f"], all_changes(), ConflictPolicy::KeepBoth);
    let ours = Staged::with(&["f"], all_changes(), ConflictPolicy::Overwrite);
    for mount in [&both, &ours] {
        let handle = mount.open("f");
        // All its bytes: those of the replaced object are gone.
        mount.write(handle, 0, "Content of f").unwrap();
        mount.bucket.put_object("f", "theirs");
        wait(mount.fs.flush(handle, &OPENER)).unwrap();
        mount.fs.release(handle);
        wait(mount.fs.drained());
    }
    assert_eq!(both.stored("f").unwrap(), "theirs");
    assert_eq!(ours.stored("f").unwrap(), "Content of f");
    let keys = both.fs.key_text(both.walk("f"), None);
    assert_eq!(keys.as_deref(), Some("f"));
}

#[test]
fn lengths_and_ranges_change() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let handle = mount.open("f");
        let ino = mount.walk("f");
        let allocate = |range, mode| wait(mount.fs.allocate(handle, range, mode));
        mount.set_len(handle, ino, 4).unwrap();
        mount.set_len(handle, ino, 6).unwrap();
        assert_eq!(mount.read(handle).unwrap(), "cont\0\0");
        let keeps_size = true;
        allocate(1..2, AllocateMode::Zero { keeps_size }).unwrap();
        allocate(9..12, AllocateMode::Reserve { keeps_size }).unwrap();
        assert_eq!(mount.read(handle).unwrap(), "c\0nt\0\0");
        let keeps_size = false;
        allocate(3..7, AllocateMode::Zero { keeps_size }).unwrap();
        allocate(0..8, AllocateMode::Reserve { keeps_size }).unwrap();
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "c\0n\0\0\0\0\0");
    });
}

#[test]
fn an_open_that_empties_an_empty_file_stores_it_and_an_unchanged_length_does_not() {
    in_both(|| {
        let mount = Staged::new(&[]);
        mount.bucket.put_object("f", "");
        let handle = mount.open("f");
        let ino = mount.walk("f");
        mount.requests();
        mount.set_len(handle, ino, 0).unwrap();
        let keeps_size = true;
        let zero = AllocateMode::Zero { keeps_size };
        wait(mount.fs.allocate(handle, 3..9, zero)).unwrap();
        mount.close(handle).unwrap();
        assert_eq!(mount.requests(), 0);
        let truncate = WriteOptions {
            truncate: true,
            ..WRITE
        };
        let handle = mount.open_with("f", truncate).unwrap().handle;
        mount.requests();
        mount.close(handle).unwrap();
        assert!(mount.requests() > 0);
    });
}

#[test]
fn a_truncation_by_path_is_stored_when_it_returns() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let ino = mount.walk("f");
        for (len, expected) in [(7, "content"), (8, "content\0"), (0, "")] {
            let change = AttributeChange {
                size: Some(len),
                ..AttributeChange::default()
            };
            let changed = wait(mount.fs.set_attributes(ino, change)).unwrap();
            assert_eq!(changed.size, len);
            assert_eq!(mount.stored("f").unwrap(), expected);
        }
    });
}

#[test]
fn a_written_file_that_was_removed_shows_the_time_that_it_gets() {
    in_both(|| {
        let mount = Staged::new(&[]);
        let (ino, handle) = mount.create(ROOT, "f");
        mount.write(handle, 0, "abc").unwrap();
        mount.unlink(ROOT, "f").unwrap();
        let change = AttributeChange {
            mtime: Some(TimeChange::At {
                seconds: 1_000_000_000,
                nanos: 0,
            }),
            ..AttributeChange::default()
        };
        let shown = wait(mount.fs.set_attributes(ino, change)).unwrap();
        assert!(change.mtime.unwrap().is(shown.mtime), "{shown:?}");
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f"), None);
    });
}

#[test]
fn touching_an_open_file_makes_a_new_version() {
    in_both(|| {
        let mount = Staged::new(&["f"]);
        let handle = mount.open("f");
        let before = mount.bucket.object("f").unwrap().last_modified;
        let change = AttributeChange {
            mtime: Some(TimeChange::Now),
            ..AttributeChange::default()
        };
        mount.requests();
        wait(mount.fs.set_attributes(mount.walk("f"), change)).unwrap();
        let log = mount.bucket.take_log();
        assert!(
            log.records()
                .iter()
                .any(|it| format!("{it:?}").contains("Copy")),
            "{log:?} {before:?}"
        );
        mount.write(handle, 0, "C").unwrap();
        mount.close(handle).unwrap();
        assert_eq!(mount.stored("f").unwrap(), "Content of f");
    });
}

#[test]
fn the_end_of_the_mount_stores_what_it_can_and_keeps_the_rest() {
    let mount = Staged::new(&["f", "g"]);
    let (first, second) = (mount.open("f"), mount.open("g"));
    mount.write(first, 0, "C").unwrap();
    mount.write(second, 0, "C").unwrap();
    assert!(mount.fs.is_writing());
    mount.bucket.put_object("g", "theirs");
    wait(mount.fs.commit_staged());
    assert_eq!(mount.stored("f").unwrap(), "Content of f");
    mount.write(first, 1, "O").unwrap();
    wait(mount.fs.keep_staged());
    assert!(!mount.fs.is_writing());
    assert_eq!(mount.kept(), 4);
    assert_eq!(mount.stored("f").unwrap(), "Content of f");
}
