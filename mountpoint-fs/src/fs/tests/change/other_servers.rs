//! Servers that differ from S3. Uncopied bytes go through this machine, and false answers are
//! reported.

use mountpoint_client::testing::sim::{Content, Fault, FaultRule, SimObject, When};
use mountpoint_client::types::{ETag, Key};
use mountpoint_client::{ErrorKind, ObjectClient as _};

use super::*;
use crate::operation::{AttributeChange, RenameMode, TimeChange, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;
const MIB: usize = 1 << 20;
const LEN: usize = 12 * MIB + 5;

/// A mount with `f`, whose bytes encode their offsets. Objects from 5 MiB on are copied in parts.
fn mount() -> (Mount, Vec<u8>) {
    mount_in(Time::Immediate)
}

fn mount_in(time: Time) -> (Mount, Vec<u8>) {
    let options = SimOptions {
        time,
        ..SimOptions::default()
    };
    let mount = Mount::with_write(options, "", &[], all_changes_in_parts());
    let bytes: Vec<u8> = (0..LEN as u64 / 8 + 1).flat_map(u64::to_le_bytes).collect();
    let bytes = bytes[..LEN].to_vec();
    let object = SimObject::new(Key::parse("f").unwrap(), Content::bytes(bytes.clone()));
    mount.bucket.insert(object);
    (mount, bytes)
}

fn refuse(mount: &Mount, operation: Operation, when: When, kind: ErrorKind) {
    mount.bucket.add_fault(FaultRule {
        operation: Some(operation),
        when,
        fault: Fault::Fail(kind),
    });
}

fn append(mount: &Mount, name: &str, bytes: &[u8]) {
    let ino = mount.walk(name);
    let at = now(mount.fs.attributes(ino)).unwrap().size;
    let options = WriteOptions {
        append: true,
        ..WriteOptions::default()
    };
    let opened = now(mount.fs.open_for_writing(ino, options, Opener::UNSEEN)).unwrap();
    now(mount.fs.write(opened.handle, at, bytes)).unwrap();
    assert_eq!(
        now(mount.fs.attributes(ino)).unwrap().size,
        at + bytes.len() as u64
    );
    now(mount.fs.sync(opened.handle)).unwrap();
    // The write continues behind the stored bytes.
    now(mount
        .fs
        .write(opened.handle, at + bytes.len() as u64, bytes))
    .unwrap();
    now(mount.fs.sync(opened.handle)).unwrap();
    mount.fs.release(opened.handle);
}

fn stored(mount: &Mount, key: &str) -> Vec<u8> {
    mount.bucket.object(key).unwrap().content.to_vec().to_vec()
}

#[test]
fn what_a_server_does_not_copy_is_read_and_sent() {
    for kind in [
        ErrorKind::Unsupported,
        ErrorKind::InvalidRequest,
        ErrorKind::InvalidResponse,
    ] {
        let (mount, mut bytes) = mount();
        refuse(
            &mount,
            Operation::UploadPartCopy,
            When::From(1),
            kind.clone(),
        );
        append(&mount, "f", b"more");
        bytes.extend_from_slice(b"moremore");
        assert!(stored(&mount, "f") == bytes, "append, {kind:?}");
        let asked = mount.bucket.take_log().count(Operation::UploadPartCopy);
        assert_eq!(asked, 1, "it is asked once");
        append(&mount, "f", b"!");
        bytes.extend_from_slice(b"!!");
        assert!(stored(&mount, "f") == bytes, "append again, {kind:?}");
        assert_eq!(mount.bucket.take_log().count(Operation::UploadPartCopy), 0);
        let touch = AttributeChange {
            mtime: Some(TimeChange::Now),
            ..AttributeChange::default()
        };
        now(mount.fs.set_attributes(mount.walk("f"), touch)).unwrap();
        assert!(stored(&mount, "f") == bytes, "touch, {kind:?}");
        let shorter = AttributeChange {
            size: Some(11 * MIB as u64),
            ..AttributeChange::default()
        };
        now(mount.fs.set_attributes(mount.walk("f"), shorter)).unwrap();
        bytes.truncate(11 * MIB);
        assert!(stored(&mount, "f") == bytes, "truncate, {kind:?}");
        mount.walk("f");
        rename(&mount, (ROOT, "f"), (ROOT, "g"), RenameMode::Replace).unwrap();
        assert!(stored(&mount, "g") == bytes, "rename, {kind:?}");
        assert_eq!(mount.bucket.keys(), ["g"]);
        assert!(now(mount.bucket.list_uploads("")).unwrap().is_empty());
    }
}

/// The object has another version when it is read.
#[test]
fn what_is_read_and_sent_is_the_version_that_was_opened() {
    let (mount, _) = mount();
    let ino = mount.walk("f");
    let options = WriteOptions {
        append: true,
        ..WriteOptions::default()
    };
    let opened = now(mount.fs.open_for_writing(ino, options, Opener::UNSEEN)).unwrap();
    refuse(
        &mount,
        Operation::UploadPartCopy,
        When::From(1),
        ErrorKind::Unsupported,
    );
    mount.bucket.put_object("f", vec![7; LEN]);
    now(mount.fs.write(opened.handle, LEN as u64, b"more")).unwrap();
    let closed = now(mount.fs.flush(opened.handle, &OPENER));
    assert!(matches!(closed, Err(FsError::Stale(_))), "{closed:?}");
    assert!(stored(&mount, "f") == vec![7; LEN]);
    mount.fs.release(opened.handle);
}

/// s3proxy: HEAD of a marker has no ETag.
#[test]
fn a_directory_whose_marker_cannot_be_read_is_one() {
    let (mount, _) = mount();
    mount.bucket.put_object("d/", "");
    mount.bucket.put_object("d/x", "x");
    refuse(
        &mount,
        Operation::HeadObject,
        When::From(1),
        ErrorKind::InvalidResponse,
    );
    let d = mount.lookup(ROOT, "d").unwrap().attributes;
    assert_eq!(d.kind, FileKind::Directory);
    let none = now(mount.fs.extended_attributes(d.ino)).unwrap();
    assert!(none.is_empty(), "{none:?}");
    assert_eq!(mount.names(d.ino), ["x"]);
}

/// s3proxy lists the marker without ETag, too.
#[test]
fn a_directory_whose_marker_has_no_version_is_renamed() {
    let (mount, _) = mount();
    for key in ["d/", "d/s/"] {
        mount.bucket.insert(SimObject {
            etag: ETag::from_header(""),
            ..SimObject::new(Key::parse(key).unwrap(), Content::bytes(""))
        });
    }
    mount.bucket.put_object("d/s/x", "x");
    mount.walk("d");
    rename(&mount, (ROOT, "d"), (ROOT, "e"), RenameMode::Replace).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/", "e/s/", "e/s/x", "f"]);
}

/// versitygw refuses to copy the marker, and to remove a directory before its entries.
#[test]
fn a_directory_whose_marker_is_not_copied_is_renamed() {
    let (mount, _) = mount();
    mount.bucket.put_object("d/", "");
    refuse(
        &mount,
        Operation::CopyObject,
        When::From(1),
        ErrorKind::InvalidRequest,
    );
    mount.walk("d");
    rename(&mount, (ROOT, "d"), (ROOT, "e"), RenameMode::Replace).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/", "f"]);
}

/// A server may list `a%2Fb` for the stored key `a/b`: no client has written meanwhile.
#[test]
fn a_key_that_the_server_changes_in_its_listing_is_named() {
    let (mount, _) = mount();
    mount.bucket.put_object("d/a", "a");
    mount.walk("d");
    // In between, the claim of the new name is looked at. A rule counts what reaches it.
    for nth in [1, 2] {
        let when = When::Nth(nth);
        refuse(&mount, Operation::HeadObject, when, ErrorKind::NotFound);
    }
    let outcome = rename(&mount, (ROOT, "d"), (ROOT, "e"), RenameMode::Replace);
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, FsError::Client(error) if error.message.contains("changes keys in its listings")),
        "{error:?}"
    );
    assert_eq!(mount.bucket.keys(), ["d/a", "f"]);
}
