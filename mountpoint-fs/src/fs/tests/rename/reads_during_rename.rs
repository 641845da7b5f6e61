//! A directory that is renamed during a read of it, or a lookup in it.

use std::time::Duration;

use super::*;
use crate::operation::RenameMode::Replace;
use crate::operation::Stop;

const ROOT: InodeNo = InodeNo::ROOT;

fn mount(time: Time, keys: &[&str]) -> Mount {
    let options = SimOptions {
        time,
        ..SimOptions::default()
    };
    let write = all_changes();
    let mount = Mount::with_write(options, "", keys, write);
    mount.clock.advance(Duration::from_millis(1));
    mount
}

impl Mount {
    fn rename_to(&self, from: (InodeNo, &str), to: &str) -> Result<(), FsError> {
        let stop = Stop::never();
        let names = ((from.0, OsStr::new(from.1)), (from.0, OsStr::new(to)));
        let renaming = self.fs.rename(names.0, names.1, Replace, &stop);
        let outcome = drive(self, renaming);
        self.clock.advance(Duration::from_millis(1));
        outcome
    }
}

/// The directory, or a parent, is renamed between two calls of `getdents`.
///
/// No name is lost, except removed ones.
#[test]
fn a_directory_that_is_read_is_renamed() {
    let keys: Vec<_> = (0..300).map(|number| format!("p/d/{number:03}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    for plus in [false, true] {
        for is_above in [false, true] {
            let mount = mount(Time::Immediate, &keys);
            let above = mount.walk("p");
            let directory = mount.walk("p/d");
            let handle = now(mount.fs.open_directory(directory)).unwrap();
            let mut sink = Sink::new(10);
            now(mount.fs.read_directory(handle, 0, plus, &mut sink)).unwrap();
            let offset = sink.entries.last().unwrap().next_offset;
            let seen = sink.entries.len();
            mount.clock.advance(Duration::from_millis(1));
            let remove = |name: &str| {
                mount.lookup(directory, name).unwrap();
                now(mount.fs.unlink(directory, OsStr::new(name))).unwrap();
                mount.clock.advance(Duration::from_millis(1));
            };
            remove("200");
            if is_above {
                mount.rename_to((ROOT, "p"), "q").unwrap();
            } else {
                mount.rename_to((above, "d"), "e").unwrap();
            }
            remove("250");
            let rest = mount.list_from(handle, offset, 50, plus);
            assert_eq!(seen + rest.len(), 300, "two were removed, and two are dots");
            let has = |name: &str| rest.iter().any(|entry| entry.name == name);
            assert!(has("299"));
            assert!(!has("200"));
            assert!(!has("250"));
        }
    }
}

/// A file that is replaced while its directory is read is always listed.
#[test]
fn a_file_that_is_replaced_is_not_missed() {
    let mount = mount(Time::Immediate, &["d/a", "d/b", "d/c", "d/tmp"]);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let mut sink = Sink::new(3);
    now(mount.fs.read_directory(handle, 0, true, &mut sink)).unwrap();
    assert_eq!(shown(&sink.entries), ["a"]);
    let offset = sink.entries.last().unwrap().next_offset;
    mount.clock.advance(Duration::from_millis(1));
    mount.lookup(directory, "tmp").unwrap();
    mount.lookup(directory, "c").unwrap();
    mount.rename_to((directory, "tmp"), "c").unwrap();
    let rest = mount.list_from(handle, offset, 9, true);
    assert_eq!(shown(&rest), ["b", "c"]);
    assert_eq!(
        rest[1].entry.attributes.size,
        "content of d/tmp".len() as u64
    );
}

/// A slow reader of a directory misses nothing, although many changes evict some state.
#[test]
fn a_slow_reader_misses_nothing() {
    let mount = mount(Time::Immediate, &["d/a", "d/b", "d/c", "x", "y"]);
    let directory = mount.walk("d");
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let mut sink = Sink::new(3);
    now(mount.fs.read_directory(handle, 0, false, &mut sink)).unwrap();
    let offset = sink.entries.last().unwrap().next_offset;
    for name in ["x", "y"] {
        mount.clock.advance(Duration::from_secs(20));
        mount.lookup(ROOT, name).unwrap();
        now(mount.fs.unlink(ROOT, OsStr::new(name))).unwrap();
    }
    assert_eq!(
        shown(&mount.list_from(handle, offset, 9, false)),
        ["b", "c"]
    );
}

/// An operation that waits for a name in a renamed directory gets its new state.
#[test]
fn what_is_looked_up_in_a_directory_that_is_renamed_is_found() {
    let mount = mount(Time::Manual, &["d/a", "d/b"]);
    let found = |parent: InodeNo, name: &str| {
        let entry = drive(&mount, mount.fs.lookup(parent, OsStr::new(name)));
        entry.unwrap().attributes.ino
    };
    let directory = found(ROOT, "d");
    let file = found(directory, "b");
    mount.clock.advance(Duration::from_secs(5));
    let mut look = Box::pin(mount.fs.lookup(directory, OsStr::new("a")));
    waits(&mut look);
    let mut stat = Box::pin(mount.fs.attributes(file));
    waits(&mut stat);
    mount.clock.advance(Duration::from_millis(1));
    mount.rename_to((ROOT, "d"), "e").unwrap();
    // Another client makes a new directory of the old name.
    mount.bucket.put_object("d/a", "theirs");
    mount.bucket.put_object("d/b", "theirs");
    let size = "content of d/a".len() as u64;
    assert_eq!(drive(&mount, look).unwrap().attributes.size, size);
    assert_eq!(drive(&mount, stat).unwrap().size, size);
}

/// An operation that waits for a file that is renamed itself finds it.
#[test]
fn a_file_that_is_renamed_is_still_there() {
    let mount = mount(Time::Manual, &["d/a"]);
    let directory = drive(&mount, mount.fs.lookup(ROOT, OsStr::new("d"))).unwrap();
    let directory = directory.attributes.ino;
    let file = drive(&mount, mount.fs.lookup(directory, OsStr::new("a"))).unwrap();
    mount.clock.advance(Duration::from_secs(5));
    let mut stat = Box::pin(mount.fs.attributes(file.attributes.ino));
    waits(&mut stat);
    mount.clock.advance(Duration::from_millis(1));
    mount.rename_to((directory, "a"), "b").unwrap();
    let size = "content of d/a".len() as u64;
    assert_eq!(drive(&mount, stat).unwrap().size, size);
}

/// A rename of a directory to an empty one that was made here stops halfway. Moved files are
/// visible.
#[test]
fn what_half_a_rename_has_moved_is_seen() {
    let options = SimOptions::default();
    let names = NamesConfig {
        negative_ttl: Duration::from_secs(60),
        ..NamesConfig::default()
    };
    let write = WriteConfig {
        allow_rename: true,
        ..WriteConfig::default()
    };
    let keys: Vec<_> = (0..100).map(|number| format!("old/{number:03}")).collect();
    let keys: Vec<_> = keys.iter().map(String::as_str).collect();
    let mount = Mount::with_all(options, names, write, "", &keys);
    mount.clock.advance(Duration::from_millis(1));
    assert!(mount.lookup(ROOT, "new").is_err());
    let made = now(mount.fs.make_directory(ROOT, OsStr::new("new"), 0o755));
    let made = made.unwrap().attributes.ino;
    mount.walk("old");
    mount.clock.advance(Duration::from_millis(1));
    let busy = mountpoint_client::ErrorKind::Denied;
    mount
        .bucket
        .fail_next(Operation::DeleteObjects, 1, busy.clone());
    mount.bucket.fail_next(Operation::DeleteObject, 1, busy);
    mount.rename_to((ROOT, "old"), "new").unwrap_err();
    let keys = mount.bucket.keys();
    let moved: Vec<_> = keys.iter().filter(|key| key.starts_with("new/0")).collect();
    assert!(!moved.is_empty(), "{keys:?}");
    for key in moved {
        let name = key.strip_prefix("new/").unwrap();
        assert!(mount.lookup(made, name).is_ok(), "{key}");
    }
}
