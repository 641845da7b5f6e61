//! `opendir`, `readdir` and `readdirplus`.

use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Operation, Time};

use super::*;
use crate::config::limits::FILE_TTL;
use crate::namespace::bounds::LISTING_AGE_MAX;

const ROOT: InodeNo = InodeNo::ROOT;

/// Keys `n0000`… in a directory of a bucket.
fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("d/n{number:04}")).collect()
}

fn mount_numbered(count: usize) -> Mount {
    let keys = numbered(count);
    Mount::immediate(&keys.iter().map(String::as_str).collect::<Vec<_>>())
}

fn names_only(count: usize) -> Vec<String> {
    numbered(count)
        .into_iter()
        .map(|key| key[2..].to_owned())
        .collect()
}

#[test]
fn every_key_is_listed_once_whatever_fits_into_a_reply() {
    let mount = mount_numbered(2500);
    let directory = mount.walk("d");
    for batch in [1, 2, 3, 7, 50, 999, 1000, 1001, 5000] {
        for plus in [false, true] {
            let handle = now(mount.fs.open_directory(directory)).unwrap();
            mount.requests();
            let entries = mount.list(handle, batch, plus);
            assert_eq!(mount.requests(), (0, 3, 0), "batches of {batch}");
            assert_eq!([&*entries[0].name, &*entries[1].name], [".", ".."]);
            assert_eq!(entries[0].entry.attributes.ino, directory);
            assert_eq!(entries[1].entry.attributes.ino, ROOT);
            assert_eq!(shown(&entries), names_only(2500), "batches of {batch}");
            if plus {
                assert_eq!(mount.fs.inode_count(), 2501);
                entries[2..]
                    .iter()
                    .for_each(|entry| mount.fs.forget(entry.entry.attributes.ino, 1));
            }
            assert_eq!(mount.fs.inode_count(), 1);
            mount.fs.release_directory(handle);
        }
    }
    mount.fs.forget(directory, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

/// Some programs compare the listed inode number with that of `stat`.
///
/// `find -inum`, `ls -i`, git and tar do so even if the listing returns no attributes.
#[test]
fn listed_numbers_are_those_of_the_files() {
    for posix_metadata in [false, true] {
        let write = WriteConfig {
            posix_metadata,
            ..WriteConfig::default()
        };
        let keys = numbered(100);
        let mut keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        keys.push("d/sub/f");
        let mount = Mount::with_write(SimOptions::default(), "", &keys, write);
        let directory = mount.walk("d");
        let ino_of = |name: &str| mount.lookup(directory, name).unwrap().attributes.ino;
        let known = ino_of("n0050");
        let handle = now(mount.fs.open_directory(directory)).unwrap();
        let entries = mount.list(handle, 7, false);
        assert_eq!(entries.len(), 2 + 101);
        for entry in entries[2..].iter().rev() {
            let listed = entry.entry.attributes.ino;
            assert_eq!(listed, ino_of(&entry.name), "{}", entry.name);
        }
        assert_eq!(ino_of("n0050"), known);
        mount.fs.release_directory(handle);
    }
}

#[test]
fn empty_directories() {
    let mount = Mount::immediate(&["d/"]);
    assert_eq!(mount.names(mount.walk("d")), [""; 0]);
    let empty = Mount::immediate(&[]);
    let handle = now(empty.fs.open_directory(ROOT)).unwrap();
    let dots = empty.list(handle, 100, true);
    assert_eq!(
        dots.iter()
            .map(|entry| entry.entry.attributes.ino)
            .collect::<Vec<_>>(),
        [ROOT, ROOT]
    );
    assert_eq!(empty.requests(), (0, 1, 0));
}

#[test]
fn hidden_keys_are_not_listed() {
    let mount = Mount::immediate(&[
        "d/", "d//x", "d/./x", "d/../x", "d/.", "d/..", "d/ok", "d/sub/", "d/s2//x", "/y",
    ]);
    assert_eq!(mount.names(mount.walk("d")), ["ok", "s2/", "sub/"]);
    assert_eq!(mount.names(mount.walk("d/s2")), [""; 0]);
    assert_eq!(mount.names(ROOT), ["d/"]);
}

#[test]
fn pages_of_nothing_but_hidden_keys() {
    let mut keys: Vec<String> = (0..2500)
        .map(|number| format!("{}{number:04}", "h".repeat(256)))
        .collect();
    keys.extend(["a".to_owned(), "z".to_owned()]);
    let mount = Mount::immediate(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    for batch in [1, 3, 100] {
        let handle = now(mount.fs.open_directory(ROOT)).unwrap();
        assert_eq!(shown(&mount.list(handle, batch, false)), ["a", "z"]);
    }
    assert!(mount.fs.hidden_keys() >= 3 * 2500);
}

#[test]
fn long_listing_of_2000_files_is_two_requests() {
    let mount = mount_numbered(2000);
    let directory = mount.walk("d");
    mount.requests();
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let entries = mount.list(handle, 180, true);
    mount.fs.release_directory(handle);
    mount.clock.advance(FILE_TTL / 2);
    for entry in &entries[2..] {
        let attributes = now(mount.fs.attributes(entry.entry.attributes.ino)).unwrap();
        assert_eq!(attributes.size, 18);
        assert_eq!(
            mount.lookup(directory, &entry.name).unwrap().ttl,
            FILE_TTL / 2
        );
    }
    assert_eq!(mount.requests(), (0, 2, 0));
}

/// `du` reads all names before it looks at the first.
#[test]
fn lookups_behind_a_plain_listing_ask_nothing() {
    let mount = mount_numbered(2000);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let names = shown(&mount.list(handle, 180, false));
    mount.fs.release_directory(handle);
    mount.requests();
    for name in &names {
        assert_eq!(mount.lookup(directory, name).unwrap().attributes.size, 18);
    }
    assert_eq!(mount.requests(), (0, 0, 0));
    // An unlisted name may have been created since.
    mount.bucket.put_object("d/new", "new");
    assert_eq!(mount.lookup(directory, "new").unwrap().attributes.size, 3);
    assert_eq!(mount.requests(), (0, 1, 0));
    mount.clock.advance(FILE_TTL);
    mount.lookup(directory, &names[0]).unwrap();
    assert_eq!(mount.requests(), (0, 1, 0));
}

#[test]
fn attributes_are_valid_from_when_they_are_handed_out() {
    #[track_caller]
    fn check(age: Duration, ttl: Duration) {
        let mount = mount_numbered(10);
        let directory = mount.walk("d");
        let handle = now(mount.fs.open_directory(directory)).unwrap();
        let mut sink = Sink::new(5);
        now(mount.fs.read_directory(handle, 0, true, &mut sink)).unwrap();
        mount.clock.advance(age);
        let rest = mount.list_from(handle, sink.entries[4].next_offset, 100, true);
        assert_eq!(rest.len(), 7);
        mount.requests();
        for entry in rest {
            assert_eq!((entry.entry.ttl, entry.entry.attributes.ttl), (ttl, ttl));
            now(mount.fs.attributes(entry.entry.attributes.ino)).unwrap();
        }
        assert_eq!(mount.requests() == (0, 0, 0), !ttl.is_zero());
    }
    check(Duration::ZERO, FILE_TTL);
    check(LISTING_AGE_MAX, FILE_TTL);
    check(LISTING_AGE_MAX + Duration::from_millis(1), Duration::ZERO);
}

#[test]
fn the_next_page_is_asked_for_ahead_and_nothing_is_waited_for_in_the_middle() {
    let keys = numbered(2500);
    let mount = Mount::manual(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let mut lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new("d")));
    waits(&mut lookup);
    mount.bucket.deliver_all();
    let directory = now(lookup).unwrap().attributes.ino;
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    mount.requests();

    let mut sink = Sink::new(5000);
    let mut read = Box::pin(mount.fs.read_directory(handle, 0, true, &mut sink));
    waits(&mut read);
    assert_eq!(mount.requests(), (0, 1, 0));
    assert!(mount.bucket.finish(mount.bucket.pending_requests()[0].id));
    now(read).unwrap();
    // The first page alone, although there was room; the second is in flight.
    assert_eq!(
        sink.entries.len(),
        1001,
        "the last key is held back: it might be shadowed"
    );
    assert_eq!(mount.requests(), (0, 1, 0));

    // A reader that is interrupted while it waits loses nothing and repeats no request.
    let offset = sink.entries[1000].next_offset;
    let mut sink = Sink::new(5000);
    let mut read = Box::pin(mount.fs.read_directory(handle, offset, true, &mut sink));
    waits(&mut read);
    drop(read);
    assert_eq!(mount.fs.inode_count(), 1000);
    let mut read = Box::pin(mount.fs.read_directory(handle, offset, true, &mut sink));
    waits(&mut read);
    assert_eq!(mount.requests(), (0, 0, 0));
    assert_eq!(mount.bucket.pending_requests().len(), 1);
    mount.bucket.deliver_all();
    now(read).unwrap();
    assert_eq!(sink.entries.len(), 1000);
    // The third page came meanwhile.
    mount.bucket.deliver_all();
    let rest = mount.list_from(handle, sink.entries[999].next_offset, 5000, true);
    assert_eq!(rest.len(), 501);
    assert_eq!(mount.requests(), (0, 1, 0));
}

#[test]
fn any_offset_can_be_continued_from() {
    let mount = mount_numbered(3500);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let entries = mount.list(handle, 100, false);
    for index in [3501, 0, 2600, 1001, 1002, 1003, 2, 1, 999, 3000] {
        let rest = mount.list_from(handle, entries[index].next_offset, 777, false);
        let expected: Vec<&str> = entries[index + 1..]
            .iter()
            .map(|entry| &*entry.name)
            .collect();
        assert_eq!(
            rest.iter().map(|entry| &*entry.name).collect::<Vec<_>>(),
            expected,
            "behind {index}"
        );
    }
    for offset in [5, u64::MAX, 1 << 62] {
        let mut sink = Sink::new(1);
        let outcome = now(mount.fs.read_directory(handle, offset, false, &mut sink));
        assert!(sink.entries.is_empty());
        assert_eq!(outcome.is_err(), offset == 5);
    }
}

#[test]
fn rewinding_shows_the_directory_as_it_is_now() {
    let mount = mount_numbered(1500);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    assert_eq!(shown(&mount.list(handle, 100, false)), names_only(1500));
    mount.bucket.remove("d/n0000");
    mount.bucket.put_object("d/a", "a");
    let names = shown(&mount.list(handle, 100, false));
    assert_eq!(names.len(), 1500);
    assert_eq!(names[..2], ["a", "n0001"]);
}

#[test]
fn what_does_not_change_is_listed_once_while_other_keys_come_and_go() {
    let mount = mount_numbered(3000);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let mut offset = 0;
    let mut names = Vec::new();
    for round in 0.. {
        let mut sink = Sink::new(10);
        now(mount.fs.read_directory(handle, offset, true, &mut sink)).unwrap();
        let Some(last) = sink.entries.last() else {
            break;
        };
        offset = last.next_offset;
        names.extend(shown(&sink.entries));
        mount
            .bucket
            .put_object(&format!("d/n{:04}x", (round * 1237) % 3000), "new");
        mount
            .bucket
            .remove(&format!("d/n{:04}x", (round * 739) % 3000));
    }
    names.retain(|name| !name.ends_with('x'));
    assert_eq!(names, names_only(3000));
}

#[test]
fn a_directory_shadows_the_file_of_its_name_also_across_pages() {
    let mut keys = vec![
        "a".to_owned(),
        "b".to_owned(),
        "b/x".to_owned(),
        "a/x".to_owned(),
    ];
    keys.extend((0..2200).map(|number| format!("a-{number:04}")));
    let mount = Mount::immediate(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    for batch in [1, 100, 5000] {
        let handle = now(mount.fs.open_directory(ROOT)).unwrap();
        let entries = mount.list(handle, batch, true);
        let names = shown(&entries);
        assert_eq!(names.len(), 2202, "each name once");
        assert!(names.contains(&"a/".to_owned()) && names.contains(&"b/".to_owned()));
        assert!(entries[2..].iter().all(|entry| entry.entry.ttl == FILE_TTL));
        assert_eq!(
            mount.lookup(ROOT, "a").unwrap().attributes.kind,
            FileKind::Directory
        );
        // A return to a page shows its old content.
        let rest = mount.list_from(handle, entries[2150].next_offset, batch, false);
        assert_eq!(shown(&rest), names[2149..]);
        mount.fs.release_directory(handle);
    }
}

#[test]
fn a_shadowed_file_is_not_listed_on_the_page_of_its_directory() {
    let mount = Mount::immediate(&["a", "a!", "a-b", "a/x", "a0", "a0/y", "b"]);
    assert_eq!(mount.names(ROOT), ["a/", "a!", "a-b", "a0/", "b"]);
}

#[test]
fn an_error_is_returned_once_and_the_listing_goes_on() {
    let mount = mount_numbered(2500);
    let directory = mount.walk("d");
    for failing in 0..3 {
        let handle = now(mount.fs.open_directory(directory)).unwrap();
        let (mut offset, mut names, mut errors) = (0, Vec::new(), 0);
        let mut failures = 0;
        loop {
            if names.len() >= failing * 900 && failures == 0 {
                // Strikes at the next requested page: each is requested at the first read of the
                // one before it.
                mount
                    .bucket
                    .fail_next(Operation::ListObjectsV2, 1, ErrorKind::Transient);
                failures += 1;
            }
            let mut sink = Sink::new(100);
            match now(mount.fs.read_directory(handle, offset, false, &mut sink)) {
                Ok(()) if sink.entries.is_empty() => break,
                Ok(()) => {
                    offset = sink.entries.last().unwrap().next_offset;
                    names.extend(shown(&sink.entries));
                }
                Err(error) => {
                    assert!(matches!(error, FsError::Client(_)) && sink.entries.is_empty());
                    errors += 1;
                }
            }
        }
        assert_eq!(names, names_only(2500), "failing {failing}");
        assert_eq!(errors, usize::from(failing < 2), "failing {failing}");
        mount.bucket.clear_faults();
    }
}

#[test]
fn two_handles_do_not_know_each_other_and_two_readers_of_one_take_turns() {
    let mount = mount_numbered(1200);
    let directory = mount.walk("d");
    let [first, second] = [(); 2].map(|()| now(mount.fs.open_directory(directory)).unwrap());
    let mut sink = Sink::new(700);
    now(mount.fs.read_directory(first, 0, false, &mut sink)).unwrap();
    assert_eq!(shown(&mount.list(second, 100, false)), names_only(1200));
    let rest = mount.list_from(first, sink.entries[699].next_offset, 100, false);
    assert_eq!(rest.len(), 502);

    let manual = Mount::manual(&["a"]);
    let handle = now(manual.fs.open_directory(ROOT)).unwrap();
    let (mut one, mut other) = (Sink::new(10), Sink::new(10));
    let mut reads = Box::pin(futures::future::join(
        manual.fs.read_directory(handle, 0, false, &mut one),
        manual.fs.read_directory(handle, 2, false, &mut other),
    ));
    waits(&mut reads);
    assert_eq!(manual.requests(), (0, 1, 0));
    manual.bucket.deliver_all();
    let outcomes = now(reads);
    assert!(outcomes.0.is_ok() && outcomes.1.is_ok());
    assert_eq!((one.entries.len(), other.entries.len()), (3, 1));
}

#[test]
fn plain_listings_make_no_inodes() {
    let mount = Mount::immediate(&["a", "b"]);
    let known = mount.walk("a");
    let handle = now(mount.fs.open_directory(ROOT)).unwrap();
    let inos: Vec<InodeNo> = mount.list(handle, 9, false)[2..]
        .iter()
        .map(|entry| entry.entry.attributes.ino)
        .collect();
    assert_eq!(inos[0], known);
    assert!(inos[1] > known, "it is reserved");
    assert_eq!(mount.fs.inode_count(), 1);
}

#[test]
fn an_open_directory_keeps_its_inode() {
    let mount = mount_numbered(10);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    mount.fs.forget(directory, 1);
    let entries = mount.list(handle, 100, true);
    assert_eq!(entries.len(), 12);
    mount.fs.release_directory(handle);
    assert_eq!(mount.fs.inode_count(), 11, "its children keep it");
    entries[2..]
        .iter()
        .for_each(|entry| mount.fs.forget(entry.entry.attributes.ino, 1));
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn a_directory_bucket_lists_in_any_order() {
    let keys = numbered(2500);
    let options = SimOptions {
        directory_bucket: true,
        seed: 3,
        time: Time::Immediate,
        ..SimOptions::default()
    };
    let keys: Vec<&str> = keys
        .iter()
        .map(String::as_str)
        .chain(["d/sub/x", "d/other/y"])
        .collect();
    let mount = Mount::with_options(options, "", &keys);
    let handle = now(mount.fs.open_directory(mount.walk("d"))).unwrap();
    let mut names = shown(&mount.list(handle, 100, true));
    names.sort();
    let mut expected = names_only(2500);
    expected.extend(["other/".to_owned(), "sub/".to_owned()]);
    expected.sort();
    assert_eq!(names, expected);
}
