//! Modes, times and extended attributes of written objects: none is lost.

use std::time::{Duration, SystemTime};

use mountpoint_client::testing::sim::{Content, SimObject};
use mountpoint_client::types::{Key, KmsEncryption, ObjectHeaders};

use super::*;
use crate::config::WriteConfig;
use crate::operation::{AttributeChange, Opened, RenameMode, SetMode, TimeChange, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;
const MIB: usize = 1 << 20;

fn mount(posix: bool) -> Mount {
    let write = WriteConfig {
        allow_overwrite: true,
        allow_append: true,
        posix_metadata: posix,
        part_size: Some(5 << 20),
        ..WriteConfig::default()
    };
    Mount::with_write(SimOptions::default(), "", &[], write)
}

fn insert(mount: &Mount, key: &str, content: Vec<u8>, metadata: &[(&str, &str)]) {
    let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    let headers = ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        storage_class: Some("STANDARD_IA".to_owned()),
        cache_control: Some("no-cache".to_owned()),
        metadata: metadata.iter().map(owned).collect(),
        ..ObjectHeaders::default()
    };
    mount.bucket.insert(SimObject {
        headers,
        ..SimObject::new(Key::parse(key).unwrap(), Content::bytes(content))
    });
}

fn headers(mount: &Mount, key: &str) -> ObjectHeaders {
    mount.bucket.object(key).unwrap().headers
}

fn metadata(mount: &Mount, key: &str, name: &str) -> Option<String> {
    let metadata = headers(mount, key).metadata;
    let mut named = metadata.into_iter().filter(|(known, _)| known == name);
    named.next().map(|(_, value)| value)
}

fn create(mount: &Mount, name: &str, mode: u16) -> (InodeNo, HandleNo) {
    let options = WriteOptions {
        mode: Some(mode),
        ..WriteOptions::default()
    };
    let (entry, opened) = mount
        .fs
        .create(ROOT, OsStr::new(name), options, Opener::UNSEEN)
        .unwrap();
    (entry.attributes.ino, opened.handle)
}

fn write(mount: &Mount, handle: HandleNo, mut at: usize, len: usize) {
    let end = at + len;
    while at < end {
        let piece = vec![9; MIB.min(end - at)];
        now(mount.fs.write(handle, at as u64, &piece)).unwrap();
        at += piece.len();
    }
}

fn close(mount: &Mount, handle: HandleNo) {
    now(mount.fs.sync(handle)).unwrap();
    mount.fs.release(handle);
}

fn change(mount: &Mount, ino: InodeNo, mode: u16, seconds: i64) {
    let time = TimeChange::At { seconds, nanos: 0 };
    let change = AttributeChange {
        mode: Some(mode),
        mtime: Some(time),
        atime: Some(time),
        ..AttributeChange::default()
    };
    let shown = now(mount.fs.set_attributes(ino, change)).unwrap();
    assert_eq!(shown.mode, mode);
    assert!(time.is(shown.mtime));
}

fn open(mount: &Mount, name: &str, truncate: bool) -> Result<Opened, FsError> {
    let options = WriteOptions {
        truncate,
        append: !truncate,
        ..WriteOptions::default()
    };
    let ino = mount.walk(name);
    now(mount.fs.open_for_writing(ino, options, Opener::UNSEEN))
}

#[test]
fn a_new_file_is_stored_with_its_mode_in_the_request_that_stores_it() {
    for len in [0, 10, 11 * MIB] {
        let mount = mount(true);
        let (ino, handle) = create(&mount, "f", 0o750);
        write(&mount, handle, 0, len);
        assert_eq!(now(mount.fs.attributes(ino)).unwrap().mode, 0o750);
        close(&mount, handle);
        assert_eq!(metadata(&mount, "f", "mode").unwrap(), "33256");
        assert_eq!(metadata(&mount, "f", "uid").unwrap(), "10");
        assert_eq!(metadata(&mount, "f", "mtime"), None);
        let log = mount.bucket.take_log();
        assert_eq!(log.count(Operation::CopyObject), 0);
        // An object in parts needs a check whether another host has made it, and the first one a
        // comparison of its ETag.
        let asks = if len > 5 * MIB { 2 } else { 0 };
        assert_eq!(log.count(Operation::HeadObject), asks);
        assert_eq!(mount.lookup(ROOT, "f").unwrap().attributes.mode, 0o750);
    }
    // Without the flag no attribute is stored.
    let mount = mount(false);
    let (_, handle) = create(&mount, "f", 0o750);
    close(&mount, handle);
    assert!(headers(&mount, "f").metadata.is_empty());
}

#[test]
fn what_is_changed_while_a_file_is_written_is_stored_with_it() {
    // Lengths written before the change and after it.
    for (before, behind) in [
        (0, 0),
        (10, 0),
        (0, 10),
        (10, 10),
        (11 * MIB, 0),
        (20 * MIB, 0),
        (20 * MIB, 10),
        (0, 11 * MIB),
    ] {
        let mount = mount(true);
        let (ino, handle) = create(&mount, "f", 0o644);
        write(&mount, handle, 0, before);
        change(&mount, ino, 0o600, 1_000_000_000);
        let name = OsStr::new("user.colour");
        now(mount
            .fs
            .set_extended_attribute(ino, name, b"blue", SetMode::Any))
        .unwrap();
        assert_eq!(
            now(mount.fs.extended_attribute(ino, name))
                .unwrap()
                .unwrap(),
            b"blue"
        );
        assert_eq!(
            now(mount.fs.extended_attributes(ino)).unwrap(),
            b"user.colour\0"
        );
        write(&mount, handle, before, behind);
        close(&mount, handle);
        let case = format!("{before} + {behind}");
        assert_eq!(metadata(&mount, "f", "mode").unwrap(), "33152", "{case}");
        // The last write is newer than the set time.
        let time = (behind == 0).then(|| "1000000000".to_owned());
        assert_eq!(metadata(&mount, "f", "mtime"), time, "{case}");
        // An open asks S3 for the time of storing, which is not the set time.
        let direct = OpenOptions {
            direct: true,
            ..READ
        };
        let opened = now(mount.fs.open(ino, direct)).unwrap();
        let shown = now(mount.fs.attributes(ino)).unwrap().mtime;
        let given = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
        assert_eq!(shown == given, behind == 0, "{case}: {shown:?}");
        mount.fs.release(opened.handle);
        assert_eq!(
            mount.bucket.object("f").unwrap().content.size(),
            (before + behind) as u64
        );
        assert_eq!(mount.lookup(ROOT, "f").unwrap().attributes.mode, 0o600);
        assert_eq!(
            now(mount.fs.extended_attribute(ino, name))
                .unwrap()
                .unwrap(),
            b"blue"
        );
    }
}

#[test]
fn a_file_goes_on_after_it_was_stored_and_changed() {
    for len in [10, 6 * MIB] {
        let mount = mount(true);
        let (ino, handle) = create(&mount, "f", 0o644);
        write(&mount, handle, 0, len);
        now(mount.fs.sync(handle)).unwrap();
        change(&mount, ino, 0o600, 1_000_000_000);
        assert_eq!(
            metadata(&mount, "f", "mode").unwrap(),
            "33152",
            "{len}: stored already"
        );
        assert_eq!(metadata(&mount, "f", "mtime").unwrap(), "1000000000");
        let given = now(mount.fs.attributes(ino)).unwrap().mtime;
        write(&mount, handle, len, 10);
        let shown = now(mount.fs.attributes(ino)).unwrap().mtime;
        assert_ne!(shown, given, "{len}: it was written to since");
        close(&mount, handle);
        assert_eq!(metadata(&mount, "f", "mode").unwrap(), "33152", "{len}");
        assert_eq!(metadata(&mount, "f", "mtime"), None, "{len}");
        assert_eq!(
            mount.bucket.object("f").unwrap().content.size(),
            (len + 10) as u64
        );
    }
}

#[test]
fn appending_keeps_what_the_object_carries() {
    for posix in [false, true] {
        for len in [0, 10, 6 * MIB] {
            let mount = mount(posix);
            let stored = [("owner", "me"), ("mtime", "1000000000"), ("mode", "33152")];
            insert(&mount, "f", vec![1; len], &stored);
            let before = headers(&mount, "f");
            let handle = open(&mount, "f", false).unwrap().handle;
            write(&mount, handle, len, 10);
            close(&mount, handle);
            let after = headers(&mount, "f");
            assert_eq!(after.content_type, before.content_type, "{len}");
            assert_eq!(after.storage_class, before.storage_class, "{len}");
            assert_eq!(after.cache_control, before.cache_control, "{len}");
            assert_eq!(metadata(&mount, "f", "owner").unwrap(), "me");
            assert_eq!(metadata(&mount, "f", "mode").unwrap(), "33152");
            assert_eq!(metadata(&mount, "f", "mtime"), None);
            assert_eq!(
                mount.bucket.object("f").unwrap().content.size(),
                (len + 10) as u64
            );
        }
    }
}

/// A mount with `d/f` of `len` bytes, and that object's headers. Every change is permitted, and
/// objects from 5 MiB on are copied in parts.
fn mount_with_all_changes(len: usize) -> (Mount, ObjectHeaders) {
    let mount = Mount::with_write(SimOptions::default(), "", &[], all_changes_in_parts());
    insert(&mount, "d/f", vec![1; len], &[("owner", "me")]);
    let mut object = mount.bucket.object("d/f").unwrap();
    object.headers.expires = Some("0".to_owned());
    object.headers.website_redirect = Some("/there".to_owned());
    object.headers.encryption = Some(KmsEncryption {
        algorithm: "aws:kms".to_owned(),
        key_id: Some("its own".to_owned()),
        bucket_key: true,
    });
    let headers = object.headers.clone();
    mount.bucket.insert(object);
    (mount, headers)
}

/// No change of a file loses its encryption, expiry time or website redirection.
#[test]
fn nothing_that_an_object_carries_is_lost_by_a_change() {
    type Made = Result<(), FsError>;
    let touch = |mount: &Mount| -> Made {
        let touched = AttributeChange {
            mtime: Some(TimeChange::Now),
            atime: Some(TimeChange::Now),
            ..AttributeChange::default()
        };
        now(mount.fs.set_attributes(mount.walk("d/f"), touched)).map(drop)
    };
    let chmod = |mount: &Mount| -> Made {
        let mode = AttributeChange {
            mode: Some(0o600),
            ..AttributeChange::default()
        };
        now(mount.fs.set_attributes(mount.walk("d/f"), mode)).map(drop)
    };
    let shorten = |mount: &Mount| -> Made {
        let size = AttributeChange {
            size: Some(5),
            ..AttributeChange::default()
        };
        now(mount.fs.set_attributes(mount.walk("d/f"), size)).map(drop)
    };
    let append = |mount: &Mount| -> Made {
        let len = now(mount.fs.attributes(mount.walk("d/f")))?.size;
        let handle = open(mount, "d/f", false)?.handle;
        write(mount, handle, usize::try_from(len).unwrap(), 10);
        close(mount, handle);
        Ok(())
    };
    let rename_file = |mount: &Mount| -> Made {
        let d = mount.walk("d");
        mount.walk("d/f");
        rename(mount, (d, "f"), (ROOT, "g"), RenameMode::Replace)
    };
    let rename_directory = |mount: &Mount| -> Made {
        mount.walk("d");
        rename(mount, (ROOT, "d"), (ROOT, "e"), RenameMode::Replace)
    };
    type Change<'a> = &'a dyn Fn(&Mount) -> Made;
    let changes: [(&str, &str, Change<'_>); 6] = [
        ("touch", "d/f", &touch),
        ("chmod", "d/f", &chmod),
        ("truncate", "d/f", &shorten),
        ("append", "d/f", &append),
        ("mv", "g", &rename_file),
        ("mv of the directory", "e/f", &rename_directory),
    ];
    for len in [10, 6 * MIB] {
        for (what, key, change) in &changes {
            let (mount, expected) = mount_with_all_changes(len);
            change(&mount).unwrap();
            let mut found = headers(&mount, key);
            found.metadata.retain(|(name, _)| name == "owner");
            found.token = None;
            assert_eq!(found, expected, "{what} of {len} bytes");
        }
    }
}

#[test]
fn a_file_that_is_replaced_stays_what_it_was_with_the_flag() {
    for (posix, mode) in [(true, Some("33152")), (false, None)] {
        let mount = mount(posix);
        insert(
            &mount,
            "f",
            vec![1; 10],
            &[("mode", "33152"), ("mtime", "1000000000")],
        );
        let handle = open(&mount, "f", true).unwrap().handle;
        write(&mount, handle, 0, 10);
        close(&mount, handle);
        assert_eq!(metadata(&mount, "f", "mode").as_deref(), mode);
        assert_eq!(metadata(&mount, "f", "mtime"), None);
    }
}

#[test]
fn extended_attributes_are_stored_as_s3fs_does() {
    let mount = mount(true);
    insert(
        &mount,
        "f",
        b"bytes".to_vec(),
        &[
            ("owner", "me"),
            ("xattr", "%7B%22user.a%22%3A%22MQ%3D%3D%22%7D"),
        ],
    );
    mount.bucket.put_object("d/x", "x");
    let (a, b) = (OsStr::new("user.a"), OsStr::new("user.b"));
    let f = mount.walk("f");
    let get = |ino, name| now(mount.fs.extended_attribute(ino, name)).unwrap();
    let set = |ino, name, value: &[u8], mode| {
        now(mount.fs.set_extended_attribute(ino, name, value, mode))
    };
    let remove = |ino, name| now(mount.fs.remove_extended_attribute(ino, name));
    assert_eq!(get(f, a).unwrap(), b"1");
    assert!(matches!(
        set(f, a, b"2", SetMode::Create),
        Err(FsError::Exists)
    ));
    assert!(matches!(
        set(f, b, b"2", SetMode::Replace),
        Err(FsError::NoAttribute)
    ));
    set(f, a, b"3", SetMode::Replace).unwrap();
    set(f, b, b"\0\xff", SetMode::Create).unwrap();
    assert_eq!(
        (get(f, a).unwrap(), get(f, b).unwrap()),
        (b"3".to_vec(), b"\0\xff".to_vec())
    );
    let names = now(mount.fs.extended_attributes(f)).unwrap();
    assert_eq!(names, b"user.a\0user.b\0", "what can be copied");
    let stored = metadata(&mount, "f", "xattr").unwrap();
    assert_eq!(
        stored,
        "%7B%22user.a%22%3A%22Mw%3D%3D%22%2C%22user.b%22%3A%22AP8%3D%22%7D"
    );
    assert_eq!(metadata(&mount, "f", "owner").unwrap(), "me");
    assert_eq!(
        headers(&mount, "f").content_type.as_deref(),
        Some("text/plain")
    );
    remove(f, a).unwrap();
    assert!(matches!(remove(f, a), Err(FsError::NoAttribute)));
    assert_eq!((get(f, a), get(f, b).is_some()), (None, true));
    // A directory's attributes are in its marker, which is created.
    let d = mount.walk("d");
    assert_eq!(get(d, a), None);
    set(d, a, b"4", SetMode::Any).unwrap();
    assert_eq!(get(d, a).unwrap(), b"4");
    assert_eq!(mount.bucket.keys(), ["d/", "d/x", "f"]);
    assert_eq!(now(mount.fs.extended_attributes(d)).unwrap(), b"user.a\0");
}

#[test]
fn what_cannot_be_an_extended_attribute_is_refused() {
    let mount = mount(true);
    insert(&mount, "f", b"bytes".to_vec(), &[("owner", "me")]);
    let f = mount.walk("f");
    let set = |name: &str, value: &[u8]| {
        now(mount
            .fs
            .set_extended_attribute(f, OsStr::new(name), value, SetMode::Any))
    };
    let before = mount.bucket.object("f").unwrap().etag;
    assert!(matches!(
        set("user.s3.etag", b"x"),
        Err(FsError::NotPermitted(_))
    ));
    assert!(matches!(
        set("trusted.x", b"x"),
        Err(FsError::Unsupported(_))
    ));
    let full = set("user.large", &[0; 1600]);
    assert!(
        matches!(&full, Err(FsError::NoSpace(text)) if text.contains("1991")),
        "{full:?}"
    );
    assert_eq!(mount.bucket.object("f").unwrap().etag, before);
    set("user.large", &[0; 1000]).unwrap();
    let plain = Mount::immediate(&["f"]);
    let f = plain.walk("f");
    let refused = now(plain
        .fs
        .set_extended_attribute(f, OsStr::new("user.a"), b"", SetMode::Any));
    assert!(
        matches!(refused, Err(FsError::Unsupported(text)) if text.contains("--posix-metadata"))
    );
}
