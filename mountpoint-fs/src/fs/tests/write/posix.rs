//! Mode, owner, times and links in the metadata of objects.

use std::time::{Duration, UNIX_EPOCH};

use mountpoint_client::testing::sim::{Content, SimObject, Time};
use mountpoint_client::types::{Key, ObjectHeaders};

use super::*;
use crate::config::WriteConfig;
use crate::config::limits::FILE_TTL;
use crate::operation::{AttributeChange, Attributes, EntryDetail, TimeChange, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

/// Key, content and metadata of an object.
type Carrying<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

fn mount(objects: &[Carrying<'_>]) -> Mount {
    let write = WriteConfig {
        allow_delete: true,
        allow_overwrite: true,
        allow_rename: true,
        posix_metadata: true,
        ..WriteConfig::default()
    };
    let mount = Mount::with_write(SimOptions::default(), "", &[], write);
    for (key, content, metadata) in objects {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers = ObjectHeaders {
            metadata: metadata.iter().map(owned).collect(),
            content_type: Some("text/plain".to_owned()),
            ..ObjectHeaders::default()
        };
        let content = Content::bytes((*content).to_owned());
        mount.bucket.insert(SimObject {
            headers,
            ..SimObject::new(Key::parse(key).unwrap(), content)
        });
    }
    mount
}

fn metadata(mount: &Mount, key: &str, name: &str) -> Option<String> {
    let headers = mount.bucket.object(key)?.headers;
    let mut named = headers
        .metadata
        .into_iter()
        .filter(|(known, _)| known == name);
    named.next().map(|(_, value)| value)
}

#[track_caller]
fn set(mount: &Mount, ino: InodeNo, change: AttributeChange) -> Result<Attributes, FsError> {
    now(mount.fs.set_attributes(ino, change))
}

const NONE: AttributeChange = AttributeChange {
    mode: None,
    uid: None,
    gid: None,
    size: None,
    atime: None,
    mtime: None,
    handle: None,
    drops_set_id: false,
};

#[test]
fn what_s3fs_stored_is_shown() {
    let file = [
        ("mode", "33152"),
        ("uid", "7"),
        ("gid", "8"),
        ("mtime", "1000000000"),
    ];
    let mount = mount(&[
        ("d/", "", &[("mode", "16832"), ("uid", "5")]),
        ("d/f", "bytes", &file),
        ("d/link", "../else where", &[("mode", "41471")]),
        ("plain", "x", &[]),
    ]);
    let d = mount.lookup(ROOT, "d").unwrap().attributes;
    assert_eq!(
        (d.kind, d.mode, d.uid, d.gid),
        (FileKind::Directory, 0o700, 5, 20)
    );
    let f = mount.lookup(d.ino, "f").unwrap().attributes;
    assert_eq!(
        (f.kind, f.mode, f.uid, f.gid),
        (FileKind::File, 0o600, 7, 8)
    );
    assert_eq!(f.mtime, UNIX_EPOCH + Duration::from_secs(1_000_000_000));
    assert_eq!(now(mount.fs.attributes(f.ino)).unwrap().mode, 0o600);
    let link = mount.lookup(d.ino, "link").unwrap().attributes;
    assert_eq!((link.kind, link.size), (FileKind::SymbolicLink, 13));
    let target = now(mount.fs.read_link(link.ino)).unwrap();
    assert_eq!(target.to_vec(), b"../else where");
    let refused = now(mount.fs.read_link(f.ino));
    assert!(matches!(refused, Err(FsError::InvalidArgument(_))));
    let plain = mount.lookup(ROOT, "plain").unwrap().attributes;
    assert_eq!(
        (plain.kind, plain.mode, plain.uid),
        (FileKind::File, 0o644, 10)
    );
    // A listing does not contain metadata, so no attributes are returned from it.
    let handle = now(mount.fs.open_directory(d.ino)).unwrap();
    for entry in mount.list(handle, 10, true) {
        assert_ne!(entry.detail, EntryDetail::Attributes, "{}", entry.name);
    }
    mount.fs.release_directory(handle);
    let without = Mount::immediate(&["l"]);
    assert_eq!(
        without.lookup(ROOT, "l").unwrap().attributes.kind,
        FileKind::File
    );
}

#[test]
fn changes_are_stored_and_leave_the_rest() {
    let mount = mount(&[("f", "bytes", &[("owner", "me"), ("mode", "33152")])]);
    let f = mount.walk("f");
    let before = mount.bucket.object("f").unwrap();
    let mode = AttributeChange {
        mode: Some(0o640),
        ..NONE
    };
    let shown = set(&mount, f, mode).unwrap();
    assert_eq!(
        (shown.ino, shown.mode, shown.kind),
        (f, 0o640, FileKind::File)
    );
    assert_eq!(metadata(&mount, "f", "mode").unwrap(), "33184");
    assert_eq!(metadata(&mount, "f", "owner").unwrap(), "me");
    let owner = AttributeChange {
        uid: Some(3),
        gid: Some(4),
        ..NONE
    };
    let shown = set(&mount, f, owner).unwrap();
    assert_eq!((shown.uid, shown.gid, shown.mode), (3, 4, 0o640));
    let time = TimeChange::At {
        seconds: 1_234_567_890,
        nanos: 5,
    };
    let times = AttributeChange {
        mtime: Some(time),
        atime: Some(time),
        ..NONE
    };
    let shown = set(&mount, f, times).unwrap();
    assert!(time.is(shown.mtime));
    let stored = metadata(&mount, "f", "mtime").unwrap();
    assert_eq!(stored, "1234567890.000000005");
    let after = mount.bucket.object("f").unwrap();
    assert_eq!(after.headers.content_type, before.headers.content_type);
    assert_eq!(after.content.to_vec(), before.content.to_vec());
    // Shortening keeps all attributes.
    let size = AttributeChange {
        size: Some(2),
        ..NONE
    };
    let shown = set(&mount, f, size).unwrap();
    assert_eq!((shown.size, shown.mode, shown.uid), (2, 0o640, 3));
    assert_eq!(metadata(&mount, "f", "owner").unwrap(), "me");
    // A change without effect sends no request.
    mount.requests();
    set(&mount, f, mode).unwrap();
    assert_eq!(mount.requests().2, 0);
    // Another mount sees equal attributes.
    now(mount.fs.rename(
        (ROOT, OsStr::new("f")),
        (ROOT, OsStr::new("g")),
        RenameMode::Replace,
        &Stop::never(),
    ))
    .unwrap();
    assert_eq!(metadata(&mount, "g", "uid").unwrap(), "3");
    assert_eq!(mount.lookup(ROOT, "g").unwrap().attributes.uid, 3);
}

/// A known file is probably still a file: its object is requested together with the listing.
#[test]
fn a_known_file_is_looked_up_in_one_step() {
    let mount = Mount::with_write(
        SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        },
        "",
        &["f", "d/f", "e/", "e/f"],
        WriteConfig {
            posix_metadata: true,
            ..WriteConfig::default()
        },
    );
    #[track_caller]
    fn check(mount: &Mount, name: &str, steps: usize, requests: (usize, usize, usize)) {
        mount.clock.advance(FILE_TTL);
        mount.requests();
        let mut lookup = Box::pin(mount.fs.lookup(ROOT, OsStr::new(name)));
        let mut taken = 0;
        let outcome = loop {
            if let Some(outcome) = (&mut lookup).now_or_never() {
                break outcome;
            }
            mount.deliver_step();
            taken += 1;
        };
        let is_there = mount.bucket.keys().iter().any(|key| key.starts_with(name));
        assert_eq!(outcome.is_ok(), is_there, "{name}");
        assert_eq!((taken, mount.requests()), (steps, requests), "{name}");
    }
    check(&mount, "f", 2, (1, 1, 0));
    check(&mount, "f", 1, (1, 1, 0));
    // The listing shows whether a directory has a marker, which may say more of it.
    check(&mount, "d", 1, (0, 1, 0));
    check(&mount, "e", 2, (1, 1, 0));
    mount.bucket.remove("f");
    check(&mount, "f", 1, (1, 1, 0));
}

#[test]
fn what_is_cut_by_its_descriptor_shows_it_at_once() {
    let how = WriteOptions::default();
    for reads in [false, true] {
        let mount = mount(&[("f", "bytes", &[("mode", "33152")])]);
        let f = mount.walk("f");
        let opened = if reads {
            now(mount.fs.open_for_both(f, READ, how, Opener::UNSEEN))
        } else {
            now(mount.fs.open_for_writing(f, how, Opener::UNSEEN))
        };
        let handle = opened.unwrap().handle;
        let cut = AttributeChange {
            size: Some(0),
            handle: Some(handle),
            ..NONE
        };
        let shown = set(&mount, f, cut).unwrap();
        assert_eq!((shown.size, shown.mode), (0, 0o600), "the kernel keeps it");
        now(mount.fs.flush(handle, &OPENER)).unwrap();
        mount.fs.release(handle);
        assert_eq!(now(mount.fs.attributes(f)).unwrap().size, 0);
        assert_eq!(metadata(&mount, "f", "mode").unwrap(), "33152");
    }
}

#[test]
fn directories_carry_theirs_in_a_marker() {
    let mount = mount(&[("d/f", "x", &[]), ("m/", "", &[("mode", "16832")])]);
    for (name, key) in [("d", "d/"), ("m", "m/")] {
        let ino = mount.walk(name);
        let change = AttributeChange {
            mode: Some(0o750),
            mtime: Some(TimeChange::At {
                seconds: 77,
                nanos: 0,
            }),
            ..NONE
        };
        let shown = set(&mount, ino, change).unwrap();
        assert_eq!((shown.kind, shown.mode), (FileKind::Directory, 0o750));
        assert_eq!(shown.mtime, UNIX_EPOCH + Duration::from_secs(77));
        assert_eq!(metadata(&mount, key, "mode").unwrap(), "16872");
        assert_eq!(mount.lookup(ROOT, name).unwrap().attributes, shown);
    }
    // A mode that differs from the default is stored at once.
    for (name, mode, keys) in [("p", 0o700, 1), ("q", 0o755, 0)] {
        let before = mount.bucket.keys().len();
        let made = now(mount.fs.make_directory(ROOT, OsStr::new(name), mode)).unwrap();
        assert_eq!(made.attributes.mode, mode);
        assert_eq!(mount.lookup(ROOT, name).unwrap().attributes.mode, mode);
        assert_eq!(mount.bucket.keys().len(), before + keys, "{name}");
    }
    assert_eq!(metadata(&mount, "p/", "mode").unwrap(), "16832");
    let made = now(mount.fs.make_directory(ROOT, OsStr::new("n"), 0o711)).unwrap();
    let change = AttributeChange {
        mode: Some(0o700),
        ..NONE
    };
    let shown = set(&mount, made.attributes.ino, change).unwrap();
    assert_eq!((shown.ino, shown.mode), (made.attributes.ino, 0o700));
    assert_eq!(mount.bucket.keys(), ["d/", "d/f", "m/", "n/", "p/"]);
    let root = set(&mount, ROOT, change);
    assert!(matches!(root, Err(FsError::NotPermitted(_))));
}

#[test]
fn links_are_made_and_lead_where_they_should() {
    let mount = mount(&[("f", "x", &[])]);
    let (name, target) = (OsStr::new("l"), OsStr::new("f"));
    mount.requests();
    let link = now(mount.fs.symbolic_link(ROOT, name, target)).unwrap();
    let shown = now(mount.fs.attributes(link.attributes.ino)).unwrap();
    assert_eq!(mount.requests(), (0, 0, 1), "what was stored is known");
    mount.clock.advance(FILE_TTL * 2);
    let asked = now(mount.fs.attributes(link.attributes.ino)).unwrap();
    let said = |of: &Attributes| (of.kind, of.mode, of.size, of.uid, of.mtime);
    assert_eq!(said(&shown), said(&asked));
    assert_eq!(link.attributes.kind, FileKind::SymbolicLink);
    assert_eq!(link.attributes.mode, 0o777);
    assert_eq!(metadata(&mount, "l", "mode").unwrap(), "41471");
    assert_eq!(
        now(mount.fs.read_link(link.attributes.ino)).unwrap().len(),
        1
    );
    let again = now(mount.fs.symbolic_link(ROOT, name, target));
    assert!(matches!(again, Err(FsError::Exists)));
    now(mount.fs.unlink(ROOT, name)).unwrap();
    assert_eq!(mount.bucket.keys(), ["f"]);
    let plain = Mount::immediate(&[]);
    let error = now(plain.fs.symbolic_link(ROOT, name, target)).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--posix-metadata")));
}

#[test]
fn pipes_and_sockets_are_what_s3fs_would_show() {
    let mount = mount(&[("theirs", "", &[("mode", "4516")])]);
    let theirs = mount.lookup(ROOT, "theirs").unwrap().attributes;
    assert_eq!((theirs.kind, theirs.mode), (FileKind::Pipe, 0o644));
    for (name, special, stored) in [
        ("pipe", FileKind::Pipe, "4480"),
        ("socket", FileKind::Socket, "49536"),
    ] {
        let how = WriteOptions {
            mode: Some(0o600),
            ..WriteOptions::default()
        };
        let make = || now(mount.fs.make_special(ROOT, OsStr::new(name), special, how));
        let made = make().unwrap().attributes;
        assert_eq!((made.kind, made.mode, made.size), (special, 0o600, 0));
        assert_eq!(metadata(&mount, name, "mode").unwrap(), stored);
        assert!(matches!(make(), Err(FsError::Exists)));
        mount.clock.advance(FILE_TTL * 2);
        let found = mount.lookup(ROOT, name).unwrap().attributes;
        // The kernel finds a socket by its inode.
        assert_eq!((found.ino, found.kind), (made.ino, special));
        let mode = AttributeChange {
            mode: Some(0o644),
            ..NONE
        };
        let shown = set(&mount, made.ino, mode).unwrap();
        assert_eq!(
            (shown.ino, shown.kind, shown.mode),
            (made.ino, special, 0o644)
        );
        let to = format!("{name}.new");
        rename(&mount, (ROOT, name), (ROOT, &to), RenameMode::Replace).unwrap();
        let found = mount.lookup(ROOT, &to).unwrap().attributes;
        assert_eq!((found.kind, found.mode), (special, 0o644));
        now(mount.fs.unlink(ROOT, OsStr::new(&to))).unwrap();
    }
    assert_eq!(mount.bucket.keys(), ["theirs"]);
    let plain = Mount::immediate(&[]);
    let (name, how) = (OsStr::new("p"), WriteOptions::default());
    let error = now(plain.fs.make_special(ROOT, name, FileKind::Pipe, how)).unwrap_err();
    assert!(matches!(&error, FsError::NotPermitted(text) if text.contains("--posix-metadata")));
}

#[test]
fn an_open_file_without_a_name_has_attributes_of_its_own() {
    let mount = mount(&[("f", "bytes", &[("mode", "33152")]), ("other", "x", &[])]);
    let f = mount.walk("f");
    let opened = now(mount.fs.open(f, READ)).unwrap();
    now(mount.fs.unlink(ROOT, OsStr::new("f"))).unwrap();
    mount.requests();
    let change = AttributeChange {
        mode: Some(0o640),
        mtime: Some(TimeChange::At {
            seconds: 1_000_000_000,
            nanos: 0,
        }),
        ..NONE
    };
    let shown = set(&mount, f, change).unwrap();
    assert_eq!((shown.mode, shown.nlink), (0o640, 0));
    let again = now(mount.fs.attributes(f)).unwrap();
    assert_eq!((again.mode, again.mtime), (0o640, shown.mtime));
    assert_eq!(mount.requests(), (0, 0, 0));
    assert_eq!(mount.bucket.keys(), ["other"]);
    mount.fs.release(opened.handle);
    // An object that another client replaced would lose the change.
    let other = mount.walk("other");
    let opened = now(mount.fs.open(other, READ)).unwrap();
    mount.bucket.put_object("other", "new");
    mount.clock.advance(FILE_TTL);
    assert_ne!(mount.walk("other"), other);
    let refused = set(&mount, other, change);
    assert!(matches!(refused, Err(FsError::Stale(_))), "{refused:?}");
    mount.fs.release(opened.handle);
}
