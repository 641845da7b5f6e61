//! Names, lookup counts and the memory of an inode.

use std::time::{Duration, SystemTime};

use mountpoint_client::types::ETag;

use super::*;
use crate::config::limits::INODE_BYTES_MAX;

const ROOT: InodeNo = InodeNo::ROOT;

fn seen(at: u64) -> Observed {
    let moment = |seconds| Moment::from(Duration::from_secs(seconds));
    Observed {
        asked: moment(at),
        valid_until: moment(at + 1),
        call: None,
    }
}

fn version(etag: &str) -> Version {
    Version {
        size: 1,
        etag: ETag::from_header(etag),
        mtime: SystemTime::UNIX_EPOCH,
        is_archived: false,
    }
}

fn file(etag: &str) -> Found {
    Found::File(version(etag))
}

fn admit(table: &InodeTable, directory: InodeNo, name: &str, found: &Found, at: u64) -> InodeNo {
    table.admit(directory, name, found, seen(at)).unwrap().ino
}

#[test]
fn keys_are_built_from_the_names_of_the_parents() {
    let table = InodeTable::new("p/".to_owned());
    let a = admit(&table, ROOT, "a", &Found::Directory, 0);
    let b = admit(&table, a, "b", &Found::Directory, 0);
    let f = admit(&table, b, "f", &file("1"), 0);
    assert_eq!(table.directory_prefix(ROOT).unwrap(), "p/");
    assert_eq!(table.directory_prefix(b).unwrap(), "p/a/b/");
    assert!(matches!(
        table.directory_prefix(f),
        Err(FsError::NotADirectory)
    ));
    // The kernel forgets parents first; they remain.
    table.forget(a, 1);
    table.forget(b, 1);
    assert_eq!(table.directory_prefix(b).unwrap(), "p/a/b/");
    assert_eq!(table.view(f).unwrap().parent, b);
    table.forget(f, 1);
    assert_eq!(table.len(), 0);
}

#[test]
fn what_is_listed_has_the_number_that_it_gets() {
    let table = InodeTable::new(String::new());
    let preview =
        |name: &str, etag: &str, at| table.preview(ROOT, name, &file(etag), seen(at).asked);
    let (a, b) = (preview("a", "1", 1), preview("b", "1", 1));
    assert_ne!(a, b);
    assert_eq!(preview("a", "1", 2), a);
    assert_eq!(table.len(), 0, "no inode is made");
    // Any order of lookups gives the listed numbers.
    assert_eq!(admit(&table, ROOT, "b", &file("1"), 3), b);
    assert_eq!(admit(&table, ROOT, "a", &file("1"), 3), a);
    assert_eq!(preview("a", "1", 4), a);
    // An older listing does not replace a newer answer.
    assert_eq!(preview("a", "0", 2), a);
    // A replaced file gets another inode.
    let replaced = preview("a", "2", 4);
    assert!(replaced > b);
    assert_eq!(admit(&table, ROOT, "a", &file("2"), 5), replaced);
    // A number that was taken is not used twice.
    table.forget(b, 1);
    assert!(preview("b", "1", 6) > replaced);
    let d = table.preview(ROOT, "d", &Found::Directory, seen(6).asked);
    let made = table.make_directory(ROOT, "d", seen(7), false);
    assert_eq!(made.unwrap(), d);
}

#[test]
fn an_older_answer_changes_nothing() {
    let table = InodeTable::new(String::new());
    let new = admit(&table, ROOT, "a", &file("2"), 5);
    assert_eq!(admit(&table, ROOT, "a", &file("1"), 4), new);
    assert_eq!(table.view(new).unwrap().found, file("2"));
    assert_ne!(admit(&table, ROOT, "a", &file("1"), 5), new);
}

#[test]
fn an_older_answer_that_says_otherwise_makes_nothing_valid() {
    let table = InodeTable::new(String::new());
    let valid = |ino| table.view(ino).unwrap().observed.valid_until;
    let late = Observed {
        valid_until: seen(8).valid_until,
        ..seen(4)
    };
    let ino = admit(&table, ROOT, "a", &file("2"), 5);
    let before = valid(ino);
    for (found, expected) in [
        (file("1"), before),
        (Found::Directory, before),
        (file("2"), late.valid_until),
    ] {
        let is_other = found != file("2");
        assert_eq!(
            table.contradicts(ROOT, "a", &found, late.asked),
            is_other,
            "{found:?}"
        );
        assert!(!table.contradicts(ROOT, "a", &found, seen(5).asked));
        assert!(table.observe(ino, &found, late).is_some());
        assert_eq!(valid(ino), expected, "{found:?}");
    }
    assert!(!table.contradicts(ROOT, "b", &file("1"), late.asked));
    let known = table.known(ROOT, "a", None).unwrap();
    assert_eq!(known.asked, seen(5).asked.since_start());
    // A HEAD extends no validity; the time of its request decides whether its version counts.
    let before = table.view(ino).unwrap().observed;
    assert!(table.confirm(ino, &file("2"), seen(9).asked).is_some());
    assert!(table.confirm(ino, &file("1"), seen(4).asked).is_some());
    let after = table.view(ino).unwrap().observed;
    assert_eq!(
        (before.asked, before.valid_until),
        (after.asked, after.valid_until)
    );
    assert!(table.confirm(ino, &file("1"), seen(6).asked).is_none());
    assert_eq!(table.child(ROOT, "a"), None);
}

#[test]
fn a_lookup_vouches_for_one_open() {
    let table = InodeTable::new(String::new());
    let call = Some(CallMark::new(1, "openat"));
    let look = |call| {
        let observed = Observed { call, ..seen(5) };
        let admitted = table.admit(ROOT, "a", &file("1"), observed);
        admitted.unwrap().ino
    };
    let ino = look(call);
    assert_eq!(table.take_call(ino), call);
    assert_eq!(table.take_call(ino), None);
    look(call);
    look(None);
    assert_eq!(table.take_call(ino), None);
    assert_eq!(table.take_call(ROOT), None);
}

#[test]
fn detached_inodes_go_with_their_last_reference() {
    let table = InodeTable::new(String::new());
    let first = admit(&table, ROOT, "a", &file("1"), 1);
    let other = table.open_file(first, &version("2"));
    assert!(matches!(other, Err(FsError::Stale(_))), "{other:?}");
    let opened = table.open_file(first, &version("1")).unwrap();
    assert!(!opened);
    let second = admit(&table, ROOT, "a", &file("2"), 2);
    assert!(!table.view(first).unwrap().is_attached);
    table.forget(first, 1);
    assert_eq!(table.len(), 2);
    table.close(first);
    assert_eq!(table.len(), 1);
    // The name still has the other inode.
    assert_eq!(table.child(ROOT, "a"), Some(second));
    table.detach(second);
    assert_eq!(table.child(ROOT, "a"), None);
    table.forget(second, 1);
    assert_eq!(table.len(), 0);
}

#[test]
fn the_root_stays_and_unknown_inodes_do_no_harm() {
    let table = InodeTable::new(String::new());
    table.forget(ROOT, 1);
    table.forget(InodeNo(9), 1);
    table.close(InodeNo(9));
    table.detach(InodeNo(9));
    table.detach(ROOT);
    assert!(table.view(ROOT).unwrap().is_attached);
    assert!(table.open_file(InodeNo(9), &version("1")).is_err());
    assert!(table.open_directory(InodeNo(9)).is_err());
}

/// All allocations of the table: glibc adds 8 bytes to each and rounds up to 16.
#[test]
fn inodes_are_small() {
    // One more than fits on average before the shards double: half of them have doubled.
    let count = (1 << 16) * 7 / 8 + 1;
    let table = InodeTable::new(String::new());
    let name = |number: usize| format!("file-name-{number:015}.bin");
    for number in 0..count {
        let etag = format!("\"{number:032x}-7\"");
        admit(&table, ROOT, &name(number), &file(&etag), 0);
    }
    let allocation = |bytes: usize| (bytes + 8).next_multiple_of(16);
    let bytes = {
        let table = table.table.lock();
        table.inodes.allocation_size()
            + table.names.allocation_size()
            + count * (allocation(size_of::<Inode>()) + allocation(name(0).len()))
    };
    assert!(
        bytes / count <= INODE_BYTES_MAX,
        "{} bytes each",
        bytes / count
    );
    for number in 0..count as u64 {
        table.forget(InodeNo(number + 2), 1);
    }
    assert_eq!(table.len(), 0);
    let table = table.table.lock();
    let left = table.inodes.allocation_size() + table.names.allocation_size();
    assert!(left <= 256 << 10, "{left} bytes are left");
}
