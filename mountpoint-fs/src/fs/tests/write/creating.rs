//! The mount's knowledge of created names: a name created here is never absent.

use std::time::Duration;

use futures::future::BoxFuture;
use mountpoint_client::testing::sim::{Fault, FaultRule, When};
use mountpoint_client::types::Key;

use super::*;
use crate::operation::{Purpose, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

/// Creates a file, and stores it with its bytes.
fn made(mount: &Mount, directory: InodeNo, name: &str) -> InodeNo {
    let (ino, handle) = create(mount, directory, name);
    write(mount, handle, 0, b"new");
    now(mount.fs.sync(handle)).unwrap();
    mount.fs.release(handle);
    ino
}

/// The kernel forgets a directory and looks it up again.
///
/// The directory gets a new inode, and the listed pages stay.
#[test]
fn what_was_made_here_is_there_when_its_directory_is_forgotten() {
    let names = NamesConfig {
        negative_ttl: Duration::from_secs(60),
        ..NamesConfig::default()
    };
    // The directory has more keys than its lookup shows.
    let keys: Vec<String> = (0..150).map(|number| format!("d/a{number:03}")).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mount = Mount::with_names(names, &keys);
    let directory = mount.walk("d");
    assert_eq!(mount.names(directory).len(), 150);
    mount.clock.advance(Duration::from_millis(1));
    let ino = made(&mount, directory, "new");
    mount.fs.forget(ino, 1);
    mount.fs.forget(directory, 1);
    let again = mount.walk("d");
    assert_ne!(again, directory, "it was forgotten");
    let entry = mount.lookup(again, "new").unwrap();
    assert_eq!(entry.attributes.size, 3);
}

/// A removed file stays absent when its directory is forgotten. That holds even with a listing in
/// flight.
#[test]
fn what_was_removed_here_is_gone_when_its_directory_is_forgotten() {
    let write = WriteConfig {
        allow_delete: true,
        ..WriteConfig::default()
    };
    let mount = manual(&["d/a", "d/b"], write);
    let answered = |future: &mut (dyn Future<Output = ()> + Unpin)| {
        while future.now_or_never().is_none() {
            mount.bucket.deliver_all();
        }
    };
    let found = |parent: InodeNo, name: &'static str| {
        let mut ino = None;
        let mut look = Box::pin(async {
            let entry = mount.fs.lookup(parent, OsStr::new(name)).await;
            ino = entry.ok().map(|entry| entry.attributes.ino);
        });
        answered(&mut look);
        drop(look);
        ino
    };
    let directory = found(ROOT, "d").unwrap();
    let file = found(directory, "a").unwrap();
    // The listing's descriptor keeps the page, but not the inode.
    let handle = now(mount.fs.open_directory(directory)).unwrap();
    let mut sink = Sink::new(9);
    let mut read = Box::pin(mount.fs.read_directory(handle, 0, false, &mut sink));
    waits(&mut read);
    mount.clock.advance(Duration::from_millis(1));
    let mut unlink = Box::pin(async {
        mount.fs.unlink(directory, OsStr::new("a")).await.unwrap();
    });
    answered(&mut unlink);
    now(read).unwrap();
    mount.fs.release_directory(handle);
    mount.fs.forget(file, 1);
    mount.fs.forget(directory, 1);
    let again = found(ROOT, "d").unwrap();
    assert_eq!(found(again, "a"), None, "it was removed");
    assert!(found(again, "b").is_some());
}

/// The purpose of a lookup before a creation.
struct Making;

impl Purpose for Making {
    fn made_kind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Option<FileKind>> {
        Box::pin(std::future::ready(Some(FileKind::File)))
    }
}

/// A mount that writes and deletes, whose bucket answers at once. The test controls the clock.
fn mount(keys: &[&str]) -> Mount {
    with(NamesConfig::default(), keys)
}

fn with(names: NamesConfig, keys: &[&str]) -> Mount {
    let write = WriteConfig {
        allow_delete: true,
        allow_overwrite: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_all(SimOptions::default(), names, write, "", keys);
    mount.clock.advance(Duration::from_millis(1));
    mount
}

impl Mount {
    /// A program opens a new file: the kernel looks it up and creates it.
    fn open_new(&self, directory: InodeNo, name: &str) -> HandleNo {
        let found = now(self.fs.lookup_for(directory, OsStr::new(name), &Making));
        assert!(matches!(found, Err(FsError::NotFound)), "{name}: {found:?}");
        self.clock.advance(Duration::from_micros(50));
        let (_, handle) = create(self, directory, name);
        write(self, handle, 0, b"mine");
        handle
    }

    /// Creates a file and closes it, which takes `millis` by the clock.
    fn make(&self, directory: InodeNo, name: &str, millis: u64) {
        let handle = self.open_new(directory, name);
        now(self.fs.sync(handle)).unwrap();
        self.fs.release(handle);
        self.clock.advance(Duration::from_millis(millis));
    }

    /// A program makes a directory: the kernel looks it up and makes it.
    fn make_new_directory(&self, parent: InodeNo, name: &str) -> Result<(), FsError> {
        let found = now(self.fs.lookup_for(parent, OsStr::new(name), &Making));
        assert!(matches!(found, Err(FsError::NotFound)), "{name}: {found:?}");
        self.clock.advance(Duration::from_micros(50));
        let made = now(self.fs.make_directory(parent, OsStr::new(name), 0o755));
        made.map(drop)
    }

    /// LISTs, PUTs and other requests since the last call.
    fn lists_and_puts(&self) -> (usize, usize, usize) {
        let log = self.bucket.take_log();
        let list = log.count(Operation::ListObjectsV2);
        let put = log.count(Operation::PutObject);
        (list, put, log.records().len() - list - put)
    }
}

/// Two names are looked up singly. The third lookup lists its neighbours, and again once a second.
///
/// The first file without a lookup is looked up before it is stored, and is sent twice.
#[test]
fn files_that_are_made_one_after_the_other_take_a_request_each() {
    for keys in [&[][..], &["d/a", "d/b"], &["d/z/1", "d/z/2"]] {
        let mount = mount(keys);
        let directory = if keys.is_empty() {
            ROOT
        } else {
            mount.walk("d")
        };
        mount.lists_and_puts();
        for number in 0..200 {
            mount.make(directory, &format!("f{number:03}"), 20);
        }
        // 200 files of 20 ms are 4 s.
        let (lists, puts, others) = mount.lists_and_puts();
        assert!((3..=7).contains(&lists), "{lists} {keys:?}");
        assert_eq!((puts, others), (201, 1), "{keys:?}");
    }
}

#[test]
fn directories_that_are_made_one_after_the_other_take_no_request_each() {
    for keys in [&["d/a", "d/b"], &["d/z/1", "d/z/2"]] {
        let mount = mount(keys);
        let directory = mount.walk("d");
        mount.lists_and_puts();
        for number in 0..200 {
            let name = format!("f{number:03}");
            mount.make_new_directory(directory, &name).unwrap();
            mount.clock.advance(Duration::from_millis(20));
        }
        let (lists, puts, others) = mount.lists_and_puts();
        assert!((3..=7).contains(&lists), "{lists} {keys:?}");
        assert_eq!((puts, others), (0, 0), "{keys:?}");
    }
}

/// A marker tells which of two hosts has made a directory, whatever the look-up believed.
#[test]
fn a_directory_that_another_host_has_made_meanwhile_is_not_made_again() {
    let write = WriteConfig {
        directory_markers: true,
        ..WriteConfig::default()
    };
    let names = NamesConfig::default();
    let mount = Mount::with_all(SimOptions::default(), names, write, "", &["d/a"]);
    mount.clock.advance(Duration::from_millis(1));
    let directory = mount.walk("d");
    for name in ["b", "c", "e"] {
        mount.make_new_directory(directory, name).unwrap();
    }
    mount.bucket.put_object("d/f/", "");
    mount.lists_and_puts();
    let again = mount.make_new_directory(directory, "f");
    assert!(matches!(again, Err(FsError::Exists)), "{again:?}");
    assert_eq!(mount.lists_and_puts(), (0, 0, 1), "a HEAD");
}

#[test]
fn names_in_any_order_are_known_as_well() {
    let mount = mount(&[]);
    let mut number = 7;
    for _ in 0..500 {
        number = number * 377 % 100_003;
        mount.make(ROOT, &format!("{number:06}"), 20);
    }
    // Each second has some LISTs around a name, later one of the whole directory.
    let (lists, puts, others) = mount.lists_and_puts();
    assert!(lists < 100, "{lists}");
    assert_eq!((puts, others), (501, 1));
}

/// A large directory where a name does not predict the next one. Few more LISTs than names.
#[test]
fn a_large_directory_is_not_listed_for_names_that_are_far_apart() {
    let mount = mount(&[]);
    for number in 0..20_000 {
        mount.bucket.put_pattern(&format!("d/{number:08}"), 1, 0);
    }
    let directory = mount.walk("d");
    mount.lists_and_puts();
    let mut number = 7;
    for _ in 0..100 {
        number = number * 377 % 19_997;
        mount.make(directory, &format!("{number:08}-new"), 20);
    }
    let log = mount.bucket.take_log();
    let lists = log.count(Operation::ListObjectsV2);
    assert!(lists <= 106, "{lists}");
    // Names in order are predictable.
    for number in 0..100 {
        mount.make(directory, &format!("a{number:03}"), 10);
    }
    let (lists, puts, _) = mount.lists_and_puts();
    assert!(lists < 40, "{lists}, although it was of no use before");
    assert_eq!(puts, 100);
}

/// A directory that was created here was absent before, as its lookup has shown.
#[test]
fn a_new_directory_is_known_to_be_empty() {
    let mount = mount(&["d/a"]);
    let directory = mount.walk("d");
    mount.lists_and_puts();
    for name in ["new", "newer", "newest"] {
        assert!(mount.lookup(directory, name).is_err());
        let made = now(mount.fs.make_directory(directory, OsStr::new(name), 0o755));
        let made = made.unwrap().attributes.ino;
        mount.lists_and_puts();
        for file in ["x", "y", "a"] {
            mount.make(made, file, 20);
        }
        let is_first = name == "new";
        let expected = if is_first { (0, 4, 1) } else { (0, 3, 0) };
        assert_eq!(mount.lists_and_puts(), expected, "{name}");
    }
    // Another client was faster, and wrote into it.
    assert!(mount.lookup(ROOT, "e").is_err());
    mount.clock.advance(Duration::from_millis(1));
    mount.bucket.put_object("e/x", "theirs");
    let made = now(mount.fs.make_directory(ROOT, OsStr::new("e"), 0o755)).unwrap();
    let handle = mount.open_new(made.attributes.ino, "x");
    assert!(matches!(now(mount.fs.sync(handle)), Err(FsError::Exists)));
    assert_eq!(
        mount.bucket.object("e/x").unwrap().content.to_vec(),
        b"theirs"
    );
}

/// `cp` looks the name up before it creates the file.
#[test]
fn a_name_that_was_just_absent_is_not_asked_for_again() {
    let mount = mount(&["z"]);
    assert!(mount.lookup(ROOT, "a").is_err());
    mount.lists_and_puts();
    mount.make(ROOT, "a", 0);
    assert_eq!(
        mount.lists_and_puts(),
        (0, 2, 1),
        "before the first is stored, and that it is refused"
    );
    for (age, lists) in [(999, 0), (1_001, 1)] {
        let name = format!("b{age}");
        assert!(mount.lookup(ROOT, &name).is_err());
        mount.clock.advance(Duration::from_millis(age));
        mount.lists_and_puts();
        mount.make(ROOT, &name, 0);
        let (listed, puts, _) = mount.lists_and_puts();
        assert_eq!((listed, puts), (lists, 1), "{age} ms");
    }
}

/// A plain lookup asks S3, even in a directory where files are being created.
#[test]
fn who_only_looks_asks() {
    let mount = mount(&[]);
    for number in 0..9 {
        mount.make(ROOT, &format!("f{number}"), 20);
    }
    assert!(matches!(mount.lookup(ROOT, "g"), Err(FsError::NotFound)));
    mount.bucket.put_object("g", "theirs");
    mount.bucket.put_object("h/x", "theirs");
    mount.clock.advance(Duration::from_micros(1));
    assert_eq!(mount.lookup(ROOT, "g").unwrap().attributes.size, 6);
    assert_eq!(
        mount.lookup(ROOT, "h").unwrap().attributes.kind,
        FileKind::Directory
    );
    let opened = now(mount.fs.lookup_for(ROOT, OsStr::new("g"), &Making));
    assert_eq!(
        opened.unwrap().attributes.size,
        6,
        "what is known to be there"
    );
}

/// Another host's new file, unseen by an equal creation for a second, is not replaced.
#[test]
fn what_another_host_makes_meanwhile_stays() {
    for is_proven in [false, true] {
        let mount = mount(&["d/a"]);
        let directory = mount.walk("d");
        let absent = mount.lookup(directory, "theirs");
        assert!(matches!(absent, Err(FsError::NotFound)));
        if is_proven {
            assert!(mount.lookup(directory, "b").is_err());
            mount.make(directory, "b", 0);
        }
        mount.clock.advance(Duration::from_millis(100));
        mount.bucket.put_object("d/theirs", "theirs");
        let handle = mount.open_new(directory, "theirs");
        assert!(matches!(now(mount.fs.sync(handle)), Err(FsError::Exists)));
        mount.fs.release(handle);
        let key = "d/theirs";
        assert_eq!(
            mount.bucket.object(key).unwrap().content.to_vec(),
            b"theirs"
        );
        // From then on the file is visible.
        let found = now(mount
            .fs
            .lookup_for(directory, OsStr::new("theirs"), &Making));
        assert_eq!(found.unwrap().attributes.size, 6);
    }
}

/// `touch` of a file that another host has just made succeeds and changes nothing.
///
/// A write through the same handle would change the other host's object and fails.
#[test]
fn a_new_file_without_bytes_is_what_another_host_has_made() {
    for is_proven in [false, true] {
        let mount = mount(&["z"]);
        if is_proven {
            assert!(mount.lookup(ROOT, "b").is_err());
            mount.make(ROOT, "b", 0);
        }
        assert!(mount.lookup(ROOT, "f").is_err());
        mount.clock.advance(Duration::from_millis(100));
        mount.bucket.put_object("f", "theirs");
        let theirs = mount.bucket.object("f").unwrap();
        let making = || now(mount.fs.lookup_for(ROOT, OsStr::new("f"), &Making));
        assert!(matches!(making(), Err(FsError::NotFound)));
        let (file, handle) = create(&mount, ROOT, "f");
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        now(mount.fs.sync(handle)).unwrap();
        let stale = mount.fs.take_stale_names().unwrap();
        let told = stale.try_recv().expect("the kernel is told");
        assert_eq!((told.directory, &*told.name), (ROOT, "f"));
        // The file is opened by its inode number, then by its name.
        let read = now(mount.fs.open(file, READ));
        assert!(matches!(read, Err(FsError::Stale(_))), "{read:?}");
        let found = making().unwrap().attributes;
        assert_eq!(found.size, 6);
        assert_ne!(found.ino, file);
        let opened = now(mount.fs.open(found.ino, READ)).unwrap();
        let read = now(mount.fs.read(opened.handle, 0, 100, false)).unwrap();
        assert_eq!(read.to_vec(), b"theirs");
        mount.fs.release(opened.handle);
        let written = now(mount.fs.write(handle, 0, b"mine"));
        assert!(matches!(written, Err(FsError::Stale(_))), "{written:?}");
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        mount.fs.release(handle);
        let there = mount.bucket.object("f").unwrap();
        assert_eq!(there.etag, theirs.etag);
        mount.fs.forget(file, 1);
    }
}

/// `O_EXCL` and `mknod` need a file of their own, `O_TRUNC` one without bytes.
#[test]
fn who_asks_for_a_file_of_its_own_is_told_of_another_hosts() {
    for (exclusive, truncate, theirs, is_told) in [
        (false, false, "theirs", false),
        (false, true, "", false),
        (false, true, "theirs", true),
        (true, false, "", true),
        (true, true, "", true),
    ] {
        let mount = mount(&["z"]);
        let options = WriteOptions {
            exclusive,
            truncate,
            ..WriteOptions::default()
        };
        let created = mount
            .fs
            .create(ROOT, OsStr::new("f"), options, Opener::UNSEEN);
        let handle = created.unwrap().1.handle;
        mount.bucket.put_object("f", theirs);
        let closed = now(mount.fs.flush(handle, &OPENER));
        mount.fs.release(handle);
        assert_eq!(closed.is_err(), is_told, "{options:?}: {closed:?}");
        let is_exists = matches!(closed, Ok(()) | Err(FsError::Exists));
        assert!(is_exists, "{options:?}: {closed:?}");
        let there = mount.bucket.object("f").unwrap().content;
        assert_eq!(there.to_vec(), theirs.as_bytes());
    }
    let mount = mount(&["z"]);
    mount.bucket.put_object("f", "theirs");
    let options = WriteOptions::default();
    let made = now(mount.fs.make_file(ROOT, OsStr::new("f"), options));
    assert!(matches!(made, Err(FsError::Exists)), "{made:?}");
}

/// Before the kernel's release an open of a failed file gets the name's new meaning.
///
/// The error is for the openers of the failed file alone.
#[test]
fn a_file_that_could_not_be_stored_is_not_opened_any_more() {
    let mount = mount(&[]);
    let (file, handle) = create(&mount, ROOT, "theirs");
    write(&mount, handle, 0, b"mine");
    mount.bucket.put_object("theirs", "theirs");
    let closed = now(mount.fs.flush(handle, &OPENER));
    assert!(matches!(closed, Err(FsError::Exists)), "{closed:?}");
    let read = now(mount.fs.open(file, READ));
    assert!(matches!(read, Err(FsError::Stale(_))), "{read:?}");
    let replace = WriteOptions {
        truncate: true,
        ..WriteOptions::default()
    };
    let written = now(mount.fs.open_for_writing(file, replace, Opener::UNSEEN));
    assert!(matches!(written, Err(FsError::Stale(_))), "{written:?}");
    mount.fs.release(handle);
    assert_eq!(mount.lookup(ROOT, "theirs").unwrap().attributes.size, 6);
}

/// Names that this mount has removed, or could not store, are looked up again.
#[test]
fn changes_of_this_mount_keep_what_is_known_true() {
    let mount = mount(&["d/a"]);
    let directory = mount.walk("d");
    for number in 0..5 {
        mount.make(directory, &format!("f{number}"), 1);
    }
    mount.lists_and_puts();
    let look = |name: &str| now(mount.fs.lookup_for(directory, OsStr::new(name), &Making));
    assert!(look("f9").is_err());
    assert_eq!(mount.lists_and_puts(), (0, 0, 0));
    assert!(look("f3").is_ok());
    mount.clock.advance(Duration::from_nanos(1));
    now(mount.fs.unlink(directory, OsStr::new("f3"))).unwrap();
    mount.lists_and_puts();
    assert!(matches!(look("f3"), Err(FsError::NotFound)));
    assert_eq!(mount.lists_and_puts(), (1, 0, 0));
    let handle = mount.open_new(directory, "f9");
    let denied = mountpoint_client::ErrorKind::Denied;
    mount
        .bucket
        .fail_next(Operation::PutObject, 1, denied.clone());
    now(mount.fs.sync(handle)).unwrap_err();
    mount.fs.release(handle);
    mount.lists_and_puts();
    assert!(matches!(look("f9"), Err(FsError::NotFound)));
    assert_eq!(mount.lists_and_puts().0, 1);
}

/// `--negative-metadata-ttl minimal`: absence is never remembered.
///
/// Absence is not remembered in a bucket without an order of keys either.
#[test]
fn can_be_switched_off() {
    let off = NamesConfig {
        create_ttl: Duration::ZERO,
        ..NamesConfig::default()
    };
    let unordered = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    let unordered = Mount::with_write(unordered, "", &[], WriteConfig::default());
    for mount in [with(off, &[]), unordered] {
        for number in 0..30 {
            mount.requests();
            let name = format!("f{number}");
            assert!(mount.lookup(ROOT, &name).is_err());
            mount.make(ROOT, &name, 1);
            let (_, lists, _) = mount.requests();
            assert!(lists >= 2, "{lists} for {name}");
        }
    }
}

/// Creations with `--posix-metadata` take one request each, although no listing shows metadata.
#[test]
fn files_with_posix_metadata_take_a_request_each() {
    let write = WriteConfig {
        posix_metadata: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &["d/a"], write);
    mount.clock.advance(Duration::from_millis(1));
    let directory = mount.walk("d");
    mount.lists_and_puts();
    for number in 0..50 {
        mount.make(directory, &format!("f{number:02}"), 5);
    }
    let (lists, puts, others) = mount.lists_and_puts();
    assert!(lists <= 5, "{lists}");
    assert_eq!((puts, others), (51, 1));
    // An entry of such a listing needs a HEAD for its metadata.
    assert!(mount.lookup(directory, "a").is_ok());
    assert_eq!(mount.lists_and_puts(), (1, 0, 1));
}

/// A large file's completion has a condition, even on a server proven by small ones.
#[test]
fn a_large_file_replaces_nothing() {
    for is_proven in [false, true] {
        let mount = mount(&["z"]);
        if is_proven {
            assert!(mount.lookup(ROOT, "small").is_err());
            mount.make(ROOT, "small", 1);
        }
        assert!(mount.lookup(ROOT, "large").is_err());
        mount.clock.advance(Duration::from_millis(1));
        let handle = mount.open_new(ROOT, "large");
        let piece = vec![7; 1 << 20];
        for number in 0..20 {
            write(&mount, handle, 4 + (number << 20), &piece);
        }
        mount.bucket.put_object("large", "theirs");
        assert!(matches!(now(mount.fs.sync(handle)), Err(FsError::Exists)));
        mount.fs.release(handle);
        assert_eq!(
            mount.bucket.object("large").unwrap().content.to_vec(),
            b"theirs"
        );
        let log = mount.bucket.take_log();
        assert_eq!(log.count(Operation::CompleteMultipartUpload), 0);
        assert_eq!(log.count(Operation::AbortMultipartUpload), 1);
    }
}

/// A directory bucket lists directories only, so the object is looked up.
#[test]
fn a_directory_bucket_that_remembers_absence_takes_new_files() {
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    let names = NamesConfig {
        negative_ttl: Duration::from_secs(60),
        ..NamesConfig::default()
    };
    let write = WriteConfig::default();
    let mount = Mount::with_all(options, names, write, "", &["d/a"]);
    mount.clock.advance(Duration::from_millis(1));
    let directory = mount.walk("d");
    assert_eq!(mount.names(directory), ["a"]);
    mount.lists_and_puts();
    mount.make(directory, "new", 0);
    assert_eq!(mount.lists_and_puts(), (0, 2, 1));
    assert_eq!(
        mount.bucket.object("d/new").unwrap().content.to_vec(),
        b"mine"
    );
}

/// A mount without the permission to read creates files as well.
#[test]
fn who_may_not_read_asks_by_listing() {
    let mount = mount(&["z"]);
    let denied = mountpoint_client::ErrorKind::Denied;
    for (name, is_there) in [("a", false), ("b", true)] {
        mount.fs.parts.writing.believe();
        assert!(mount.lookup(ROOT, name).is_err());
        if is_there {
            mount.bucket.put_object(name, "theirs");
        }
        mount
            .bucket
            .fail_next(Operation::HeadObject, 1, denied.clone());
        mount
            .bucket
            .fail_next(Operation::PutObject, 1, denied.clone());
        let handle = mount.open_new(ROOT, name);
        mount.lists_and_puts();
        let outcome = now(mount.fs.sync(handle));
        mount.fs.release(handle);
        if is_there {
            assert!(matches!(outcome, Err(FsError::Exists)), "{outcome:?}");
            // One more HEAD bears out the conflict.
            assert_eq!(mount.lists_and_puts(), (1, 0, 2));
        } else {
            // The PUT is denied.
            assert!(outcome.is_err());
            assert_eq!(mount.lists_and_puts(), (1, 1, 1));
        }
        mount.bucket.clear_faults();
    }
}

/// A busy server's answer to the second PUT proves nothing. The next file is sent twice as well.
#[test]
fn a_proof_that_was_interrupted_is_made_again() {
    let mount = mount(&["z"]);
    for (name, puts, asks) in [("a", 2, 1), ("b", 2, 1), ("c", 1, 0)] {
        assert!(mount.lookup(ROOT, name).is_err());
        if name == "a" {
            mount.bucket.add_fault(FaultRule {
                operation: Some(Operation::PutObject),
                when: When::Nth(2),
                fault: Fault::Fail(mountpoint_client::ErrorKind::Transient),
            });
        }
        mount.lists_and_puts();
        mount.make(ROOT, name, 0);
        assert_eq!(mount.lists_and_puts(), (0, puts, asks), "{name}");
    }
}

/// The kernel keeps a remembered absence for the rest of its validity.
#[test]
fn a_remembered_absence_is_kept_for_what_is_left() {
    let names = NamesConfig {
        negative_ttl: Duration::from_secs(60),
        ..NamesConfig::default()
    };
    let mount = with(names, &["z"]);
    assert!(mount.lookup(ROOT, "a").is_err());
    let left = || mount.fs.negative_ttl(ROOT, OsStr::new("a"));
    assert_eq!(left(), Duration::from_secs(60));
    mount.clock.advance(Duration::from_millis(900));
    let made = now(mount.fs.lookup_for(ROOT, OsStr::new("a"), &Making));
    assert!(matches!(made, Err(FsError::NotFound)));
    assert_eq!(left(), Duration::from_millis(59_100));
}

/// A way for a mount to learn a directory's entries. Returns the directory.
type Tell = fn(&Mount) -> InodeNo;

/// An object without an ETag is hidden, and no file is created in its place.
///
/// That holds however the mount has learnt of the object.
#[test]
fn nothing_is_made_in_the_place_of_an_object_without_an_etag() {
    let (nested, at_root) = (format!("d/f{}", Key::NO_ETAG), format!("f{}", Key::NO_ETAG));
    let tell: [(&str, Tell); 3] = [
        (&at_root, |mount| {
            let looked = mount.lookup(ROOT, "f");
            assert!(matches!(looked, Err(FsError::NotFound)), "{looked:?}");
            ROOT
        }),
        // The lookup of the directory shows the object.
        (&nested, |mount| mount.walk("d")),
        (&nested, |mount| {
            let directory = mount.walk("d");
            assert_eq!(mount.names(directory), ["a"]);
            directory
        }),
    ];
    for (key, tell) in tell {
        let mount = Mount::immediate(&["d/a", key]);
        let directory = tell(&mount);
        let make = || {
            let (name, how) = (OsStr::new("f"), WriteOptions::default());
            mount.fs.create(directory, name, how, Opener::UNSEEN)
        };
        let refused = make();
        assert!(
            matches!(&refused, Err(FsError::NotPermitted(text)) if text.contains("ETag")),
            "{key:?}: {refused:?}"
        );
        // Another client has removed the object, and S3 reports that.
        mount.bucket.remove(key);
        mount.clock.advance(Duration::from_secs(2));
        let looked = mount.lookup(directory, "f");
        assert!(matches!(looked, Err(FsError::NotFound)), "{looked:?}");
        let (entry, opened) = make().unwrap();
        mount.fs.release(opened.handle);
        mount.fs.forget(entry.attributes.ino, 1);
    }
}
