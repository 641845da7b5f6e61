//! `open` and `release`.

use std::fs::File;
use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::Operation;
use mountpoint_client::types::{ETag, Key};

use super::*;
use crate::config::limits::FILE_TTL;
use crate::namespace::bounds::OPEN_FETCH_MAX;
use crate::operation::{LocalFiles, Opened, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

/// An operation that waits for S3.
type Answer<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, FsError>> + 'a>>;

#[test]
fn an_open_behind_its_lookup_asks_nothing() {
    let mount = Mount::immediate(&["a"]);
    let found = now(mount.fs.lookup_for(ROOT, OsStr::new("a"), &Call(1)));
    let ino = found.unwrap().attributes.ino;
    mount.requests();
    let opened = now(mount.fs.open(ino, mount.read_by(ino, Call(1)))).unwrap();
    assert_eq!(mount.requests(), (0, 0, 0));
    assert!(!opened.keep_cache && !opened.direct_io);
    // A lookup is valid for one open.
    let direct = now(mount.fs.open(
        ino,
        OpenOptions {
            direct: true,
            ..READ
        },
    ))
    .unwrap();
    // A read past the page cache is fetched, and the GET proves its version the newest.
    assert_eq!(mount.requests(), (0, 0, 1));
    assert!(direct.direct_io);
    assert_ne!(opened.handle, direct.handle);
}

/// The kernel sends writes to a shared mapping. Its pages then hold bytes of no object.
#[test]
fn pages_that_were_written_to_in_vain_are_not_kept() {
    let mount = Mount::immediate(&["a"]);
    let ino = mount.walk("a");
    let open = || now(mount.fs.open(ino, READ)).unwrap();
    open();
    let opened = open();
    assert!(opened.keep_cache);
    let refused = mount.fs.write_now(opened.handle, 0, b"x");
    assert!(
        matches!(refused, Some(Err(FsError::OneWay(_)))),
        "{refused:?}"
    );
    assert!(!open().keep_cache);
    assert!(open().keep_cache);
}

/// A cache that holds every object.
struct Everything;

impl LocalFiles for Everything {
    fn whole(&self, _: &Key, _: &ETag, _: u64) -> Option<Arc<File>> {
        Some(Arc::new(tempfile::tempfile().unwrap()))
    }
}

/// A file that may change is never read from a local file.
///
/// Nor is one whose bytes must come from S3.
#[test]
fn opens_that_a_local_file_may_stand_for() {
    let write = WriteConfig {
        allow_overwrite: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(
        SimOptions {
            time: Time::Immediate,
            ..SimOptions::default()
        },
        "",
        &["a"],
        write,
    );
    mount.bucket.put_object("empty", "");
    mount.fs.set_local_files(Arc::new(Everything));
    let (ino, empty) = (mount.walk("a"), mount.walk("empty"));
    let has_file = |opened: Result<Opened, FsError>| {
        let opened = opened.unwrap();
        mount.fs.release(opened.handle);
        opened.local.is_some_and(|local| local.file.is_some())
    };
    assert!(!has_file(now(mount.fs.open(ino, READ))), "none is used");
    assert!(mount.fs.use_local_files(true));
    assert!(has_file(now(mount.fs.open(ino, READ))));
    let direct = OpenOptions {
        direct: true,
        ..READ
    };
    assert!(!has_file(now(mount.fs.open(ino, direct))));
    assert!(
        !has_file(now(mount.fs.open(empty, READ))),
        "it may be written"
    );
    let (how, opener) = (WriteOptions::default(), Opener::UNSEEN);
    let both = mount.fs.open_for_both(ino, READ, how, opener);
    assert!(!has_file(now(both)));
    let written = mount.fs.open_for_writing(ino, how, opener);
    assert!(!has_file(now(written)));
    let stale = mount.fs.open_afresh(ino);
    assert!(matches!(stale, FsError::Stale(_)));
    assert!(matches!(
        now(mount.fs.open(ino, READ)),
        Err(FsError::Stale(_))
    ));
    let again = mount.walk("a");
    assert_ne!(again, ino);
    assert!(
        !has_file(now(mount.fs.open(again, READ))),
        "the other open comes first"
    );
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overtaking {
    WasOpen,
    IsOpen,
    HasClosed,
}

/// Runs an operation that waits for S3, with all answers.
#[track_caller]
fn answered<T>(mount: &Mount, mut future: Answer<'_, T>) -> Result<T, FsError> {
    let ready = (&mut future).now_or_never();
    mount.bucket.deliver_all();
    ready.unwrap_or_else(|| now(future))
}

/// This mount may write the file while the answer to an open is in flight.
///
/// The kernel's pages are of one version nevertheless: the open asks again, and opens the current
/// version.
#[test]
fn an_open_that_a_writer_has_overtaken_opens_what_was_written() {
    let large = usize::try_from(OPEN_FETCH_MAX + 1).unwrap();
    for len in [12, large] {
        for writer in [
            Overtaking::WasOpen,
            Overtaking::IsOpen,
            Overtaking::HasClosed,
        ] {
            let config = WriteConfig {
                allow_overwrite: true,
                ..WriteConfig::default()
            };
            let mount = manual(&[], config);
            mount.bucket.put_object("a", vec![b'o'; len]);
            let lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
            let ino = answered(&mount, lookup).unwrap().attributes.ino;
            mount.clock.advance(Duration::from_millis(1));
            let mut opening = Box::pin(mount.fs.open(ino, READ));
            waits(&mut opening);
            if writer != Overtaking::WasOpen {
                // The request is answered, and the answer is not read yet.
                mount.bucket.deliver_all();
            }
            mount.clock.advance(Duration::from_millis(1));
            let truncate = WriteOptions {
                truncate: true,
                ..WriteOptions::default()
            };
            let open = now(mount.fs.open_for_writing(ino, truncate, Opener::UNSEEN));
            let handle = open.unwrap().handle;
            mount.fs.write_now(handle, 0, b"new").unwrap().unwrap();
            let close = || {
                let close = Box::pin(mount.fs.flush(handle, &OPENER));
                answered(&mount, close).unwrap();
                mount.fs.release(handle);
            };
            if writer == Overtaking::HasClosed {
                close();
            }
            mount.bucket.deliver_all();
            let overtaken = now(opening);
            let was_opened = match (writer, &overtaken) {
                // The answer of a HEAD is compared with the writes since.
                (Overtaking::HasClosed, Ok(opened)) if len == large => !opened.keep_cache,
                (Overtaking::HasClosed, Err(FsError::Stale(_))) => false,
                (Overtaking::WasOpen | Overtaking::IsOpen, Ok(_)) => true,
                _ => panic!("{len} {writer:?}: {overtaken:?}"),
            };
            if writer != Overtaking::HasClosed {
                close();
            }
            reads_new(&mount, ino, was_opened);
        }
    }
}

/// Checks that two opens in succession read the new bytes.
///
/// The kernel keeps its pages from the first open on, or from before it.
#[track_caller]
fn reads_new(mount: &Mount, ino: InodeNo, was_opened: bool) {
    for keeps in [was_opened, true] {
        let opened = answered(mount, Box::pin(mount.fs.open(ino, READ))).unwrap();
        assert_eq!(opened.keep_cache, keeps);
        let read = Box::pin(mount.fs.read(opened.handle, 0, 100, true));
        assert_eq!(answered(mount, read).unwrap().to_vec(), b"new");
    }
}

/// Another client may have written the file since another call's lookup.
#[test]
fn a_lookup_vouches_for_an_open_of_its_own_call() {
    const SELF: Call = Call(1);
    let old = |mount: &Mount| mount.bucket.put_object("a", "old");
    for (opens, requests) in [
        (&[(SELF, 0)][..], 0),
        // Once.
        (&[(SELF, 0), (SELF, 1)], 0),
        (&[(Call(2), 1)], 1),
        (&[(Call(2), 1), (SELF, 1)], 1),
    ] {
        let mount = Mount::manual(&[]);
        old(&mount);
        let mut lookup = Box::pin(mount.fs.lookup_for(ROOT, OsStr::new("a"), &SELF));
        waits(&mut lookup);
        mount.clock.advance(Duration::from_millis(20));
        mount.bucket.deliver_all();
        let ino = now(lookup).unwrap().attributes.ino;
        mount.requests();
        if requests > 0 {
            mount.bucket.put_object("a", "new");
        }
        for (call, asked) in opens {
            let options = mount.read_by(ino, *call);
            let opened = answered(&mount, Box::pin(mount.fs.open(ino, options)));
            let asks = mount.requests();
            assert_eq!(asks.0 + asks.2, *asked, "{asks:?}");
            let is_seen = matches!(opened, Err(FsError::Stale(_)));
            assert_eq!(is_seen, requests > 0);
            if is_seen {
                break;
            }
        }
    }
}

/// A lookup that joins another one may miss writes since that began.
#[test]
fn a_lookup_that_others_began_vouches_for_no_open() {
    for is_joined in [false, true] {
        let mount = Mount::manual(&["a"]);
        let look = |call| Box::pin(mount.fs.lookup_for(ROOT, OsStr::new("a"), call));
        let (mut first, mut second) = (look(&Call(1)), look(&Call(2)));
        waits(&mut first);
        waits(&mut second);
        mount.clock.advance(Duration::from_millis(20));
        mount.bucket.deliver_all();
        let (looked, call) = match is_joined {
            true => (second, Call(2)),
            false => (first, Call(1)),
        };
        let ino = now(looked).unwrap().attributes.ino;
        assert_eq!(mount.fs.vouches(ino, &call), !is_joined);
    }
}

/// A HEAD shows the version, and no directory of that name.
#[test]
fn an_open_hides_no_directory() {
    let mount = Mount::manual(&[]);
    let large = usize::try_from(OPEN_FETCH_MAX + 1).unwrap();
    mount.bucket.put_object("a", vec![b'x'; large]);
    let look = || Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
    let mut lookup = look();
    waits(&mut lookup);
    mount.bucket.deliver_all();
    let ino = now(lookup).unwrap().attributes.ino;
    let valid_until = mount.clock.now() + FILE_TTL;
    mount.clock.advance(Duration::from_millis(1));
    mount.bucket.put_object("a/b", "b");
    let mut slow = look();
    waits(&mut slow);
    mount.bucket.deliver_all();
    mount.clock.advance(Duration::from_millis(1));
    let mut open = Box::pin(mount.fs.open(ino, READ));
    waits(&mut open);
    mount.bucket.deliver_all();
    let opened = now(open).unwrap();
    mount.fs.release(opened.handle);
    let left = now(mount.fs.attributes(ino)).unwrap().ttl;
    assert_eq!(left, valid_until - mount.clock.now(), "as before the open");
    let found = now(slow).unwrap().attributes;
    assert_eq!(found.kind, FileKind::Directory);
}

/// Some servers have one tag for several contents.
#[test]
fn first_bytes_of_another_content_with_the_same_tag() {
    use mountpoint_client::testing::sim::{Content, SimObject};
    use mountpoint_client::types::{ETag, Key};
    let keys: Vec<String> = (0..1_200).map(|n| format!("d/{n:04}.txt")).collect();
    let mount = Mount::immediate(&keys.iter().map(String::as_str).collect::<Vec<_>>());
    let put = |content: &'static str| {
        let key = Key::parse("d/1100.txt").unwrap();
        let object = SimObject::new(key, Content::bytes(content));
        let etag = ETag::from_header("\"same\"");
        mount.bucket.insert(SimObject { etag, ..object });
    };
    put("long content");
    let d = mount.walk("d");
    mount.requests();
    let ino = mount.lookup(d, "1100.txt").unwrap().attributes.ino;
    assert_eq!(mount.requests(), (0, 1, 1), "its first bytes came along");
    put("short");
    let outcome = now(mount.fs.open(ino, READ));
    let found = mount.lookup(d, "1100.txt").unwrap().attributes;
    let opened = now(mount.fs.open(found.ino, READ)).unwrap();
    let block = now(mount.fs.read(opened.handle, 0, 100, true)).unwrap();
    assert_eq!((found.size, block.len()), (5, 5), "{outcome:?}");
}

#[test]
fn stat_and_listing_vouch_for_no_open() {
    let mount = Mount::immediate(&["a"]);
    let handle = now(mount.fs.open_directory(ROOT)).unwrap();
    let ino = mount.list(handle, 100, true)[2].entry.attributes.ino;
    mount.requests();
    let opened = now(mount.fs.open(ino, READ)).unwrap();
    assert_eq!(mount.requests(), (0, 0, 1));
    // The bytes came with the open's request.
    assert_eq!(
        now(mount.fs.read(opened.handle, 0, 100, true))
            .unwrap()
            .len(),
        12
    );
    assert_eq!(mount.requests(), (0, 0, 0));
    // A listing answers this lookup. The kernel has the pages of the first open.
    assert_eq!(mount.walk("a"), ino);
    assert_eq!(mount.requests(), (0, 0, 0));
    now(mount.fs.open(ino, READ)).unwrap();
    assert_eq!(mount.requests(), (1, 0, 0));
    let fresh = Mount::immediate(&["a"]);
    let ino = fresh.walk("a");
    fresh.clock.advance(FILE_TTL);
    now(fresh.fs.attributes(ino)).unwrap();
    fresh.requests();
    now(fresh.fs.open(ino, READ)).unwrap();
    assert_eq!(fresh.requests(), (0, 0, 1));
}

#[test]
fn a_file_that_is_large_or_empty_is_asked_for_its_version() {
    let mount = Mount::immediate(&[]);
    let large = usize::try_from(OPEN_FETCH_MAX + 1).unwrap();
    for (name, content, requests) in [
        ("empty", Vec::new(), (1, 0, 0)),
        ("small", vec![1; large - 1], (0, 0, 1)),
        ("large", vec![1; large], (1, 0, 0)),
    ] {
        mount.bucket.put_object(name, content);
        let ino = mount.walk(name);
        mount.clock.advance(FILE_TTL);
        mount.requests();
        now(mount.fs.open(ino, READ)).unwrap();
        assert_eq!(mount.requests(), requests, "{name}");
    }
}

#[test]
fn attributes_that_are_trusted_open_a_file() {
    let names = NamesConfig {
        ttl: Duration::from_secs(60),
        negative_ttl: Duration::from_secs(60),
        opens_unasked: true,
        ..NamesConfig::default()
    };
    let mount = Mount::with_names(names, &["a"]);
    let ino = mount.walk("a");
    mount.requests();
    for _ in 0..3 {
        now(mount.fs.open(ino, READ)).unwrap();
        mount.clock.advance(Duration::from_secs(19));
        mount.lookup(ROOT, "a").unwrap();
    }
    mount.requests();
    mount.bucket.put_object("a", "new");
    let opened = now(mount.fs.open(ino, READ)).unwrap();
    assert_eq!(mount.requests(), (0, 0, 0));
    // The read notices the replacement, and from then on the name is looked up.
    assert!(matches!(
        now(mount.fs.read(opened.handle, 0, 1, true)),
        Err(FsError::Stale(_))
    ));
    assert!(matches!(
        now(mount.fs.open(ino, READ)),
        Err(FsError::Stale(_))
    ));
    assert_eq!(mount.lookup(ROOT, "a").unwrap().attributes.size, 3);
}

#[test]
fn an_open_whose_fetch_fails_leaves_nothing() {
    for (kind, is_denied) in [(ErrorKind::Denied, true), (ErrorKind::Transient, false)] {
        let mount = Mount::immediate(&["a"]);
        let ino = mount.walk("a");
        mount.clock.advance(FILE_TTL);
        mount.bucket.fail_next(Operation::GetObject, 1, kind);
        let outcome = now(mount.fs.open(ino, READ));
        assert!(if is_denied {
            matches!(outcome, Err(FsError::Denied(_)))
        } else {
            matches!(outcome, Err(FsError::Client(_)))
        });
        mount.fs.forget(ino, 1);
        assert_eq!(mount.fs.inode_count(), 0);
    }
}

#[test]
fn an_open_sees_the_newest_version() {
    #[track_caller]
    fn check(listed: bool, change: impl Fn(&SimClient), found: Result<u64, ()>) {
        let mount = Mount::immediate(&["a"]);
        let ino = if listed {
            let handle = now(mount.fs.open_directory(ROOT)).unwrap();
            mount.list(handle, 100, true)[2].entry.attributes.ino
        } else {
            mount.walk("a")
        };
        // The lookup's own open.
        mount
            .fs
            .release(now(mount.fs.open(ino, READ)).unwrap().handle);
        change(&mount.bucket);
        let outcome = now(mount.fs.open(ino, READ));
        assert!(matches!(outcome, Err(FsError::Stale(_))), "{outcome:?}");
        // Linux then looks the name up again.
        let again = now(mount.fs.lookup_for(ROOT, OsStr::new("a"), &Call(1)));
        assert_eq!(
            again
                .as_ref()
                .map(|entry| entry.attributes.size)
                .map_err(|_| ()),
            found
        );
        if let Ok(entry) = again {
            mount.requests();
            let ino = entry.attributes.ino;
            let opened = now(mount.fs.open(ino, mount.read_by(ino, Call(1))));
            assert_eq!(mount.requests(), (0, 0, 0));
            assert_eq!(opened.is_ok(), entry.attributes.kind == FileKind::File);
        }
    }
    for listed in [false, true] {
        check(listed, |bucket| drop(bucket.put_object("a", "new")), Ok(3));
        check(
            listed,
            |bucket| drop(bucket.put_object("a", "another one!")),
            Ok(12),
        );
        check(listed, |bucket| assert!(bucket.remove("a")), Err(()));
        check(
            listed,
            |bucket| {
                bucket.remove("a");
                bucket.put_object("a/b", "b");
            },
            Ok(0),
        );
    }
}

#[test]
fn opens_that_are_refused() {
    let mount = Mount::immediate(&["a", "d/b"]);
    let (file, directory) = (mount.walk("a"), mount.walk("d"));
    let write = WriteOptions::default();
    assert!(matches!(
        now(mount.fs.open_for_writing(file, write, Opener::UNSEEN)),
        Err(FsError::NotPermitted(_))
    ));
    assert!(matches!(
        now(mount.fs.open(directory, READ)),
        Err(FsError::IsADirectory)
    ));
    assert!(matches!(
        now(mount.fs.open_directory(file)),
        Err(FsError::NotADirectory)
    ));
    assert!(matches!(
        now(mount.fs.open(InodeNo(99), READ)),
        Err(FsError::Stale(_))
    ));
    assert!(matches!(
        now(mount.fs.open_directory(InodeNo(99))),
        Err(FsError::Stale(_))
    ));
    assert!(now(mount.fs.open(file, READ)).is_ok());
    for (kind, is_denied) in [(ErrorKind::Denied, true), (ErrorKind::Transient, false)] {
        mount.bucket.fail_next(Operation::HeadObject, 1, kind);
        let outcome = now(mount.fs.open(file, READ));
        assert!(if is_denied {
            matches!(outcome, Err(FsError::Denied(_)))
        } else {
            matches!(outcome, Err(FsError::Client(_)))
        });
    }
    assert!(matches!(
        now(mount.fs.read(HandleNo(77), 0, 1, true)),
        Err(FsError::BadHandle)
    ));
    let mut sink = Sink::new(1);
    assert!(matches!(
        now(mount.fs.read_directory(HandleNo(77), 0, true, &mut sink)),
        Err(FsError::BadHandle)
    ));
}

#[test]
fn an_open_file_keeps_its_attributes() {
    let mount = Mount::immediate(&["a"]);
    let ino = mount.walk("a");
    let opened = now(mount.fs.open(ino, READ)).unwrap();
    mount.bucket.put_object("a", "new");
    mount.clock.advance(FILE_TTL);
    mount.requests();
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 12);
    assert_eq!(mount.requests(), (0, 0, 0));
    let newer = mount.lookup(ROOT, "a").unwrap().attributes;
    assert_eq!(newer.size, 3);
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 12);
    // The inode stays while it is open, known or not.
    mount.fs.forget(ino, 1);
    assert_eq!(now(mount.fs.attributes(ino)).unwrap().size, 12);
    mount.fs.forget(newer.ino, 1);
    assert_eq!(mount.fs.inode_count(), 1);
    mount.fs.release(opened.handle);
    mount.fs.release(opened.handle);
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn an_open_that_is_dropped_leaves_nothing() {
    let mount = Mount::manual(&["a"]);
    let mut lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new("a")));
    waits(&mut lookup);
    mount.bucket.deliver_all();
    let ino = now(lookup).unwrap().attributes.ino;
    mount.clock.advance(FILE_TTL);
    let mut open = Box::pin(mount.fs.open(ino, READ));
    waits(&mut open);
    mount.bucket.deliver_all();
    drop(open);
    mount.fs.forget(ino, 1);
    assert_eq!(mount.fs.inode_count(), 0);
}

#[test]
fn opens_of_different_files_do_not_wait_for_each_other() {
    let mount = Mount::manual(&["a", "b"]);
    let mut lookups = ["a", "b"].map(|name| Box::pin(mount.fs.lookup(ROOT, OsStr::new(name))));
    lookups.iter_mut().for_each(waits);
    mount.bucket.deliver_all();
    let inos = lookups.map(|lookup| now(lookup).unwrap().attributes.ino);
    mount.clock.advance(FILE_TTL);
    let mut opens = inos.map(|ino| Box::pin(mount.fs.open(ino, READ)));
    opens.iter_mut().for_each(waits);
    assert_eq!(mount.bucket.pending_gets().len(), 2);
    mount.bucket.deliver_all();
    for open in opens {
        now(open).unwrap();
    }
}
