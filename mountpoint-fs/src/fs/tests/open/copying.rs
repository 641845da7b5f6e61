//! `copy_file_range`: server-side copies, read and written bytes, and the headers of the copy.

use mountpoint_client::testing::sim::{Content, SimObject};
use mountpoint_client::types::{ETag, Key, ObjectHeaders};

use super::*;
use crate::config::{CopyLimits, WriteConfig};
use crate::operation::{AttributeChange, TimeChange, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;
const MIB: usize = 1 << 20;

fn pattern(len: usize) -> Vec<u8> {
    let mut bytes = (0..=250).collect::<Vec<u8>>().repeat(len / 251 + 1);
    bytes.truncate(len);
    bytes
}

struct Copying {
    mount: Mount,
    from: HandleNo,
    to: HandleNo,
    content: Vec<u8>,
    written: Vec<u8>,
}

/// Pieces of the new file, in order.
#[derive(Clone, Copy, Debug)]
enum Step {
    /// Bytes of the old file, which the server copies.
    Copied(usize, usize),
    /// Bytes of the old file, which the server cannot copy.
    Refused(usize, usize),
    /// Other bytes.
    Write(usize),
}
use Step::{Copied, Refused, Write};

impl Copying {
    fn new(size: usize) -> Self {
        let write = WriteConfig {
            part_size: Some(5 << 20),
            copy_limits: CopyLimits {
                whole_max: 64 << 20,
                part_max: 8 << 20,
            },
            allow_overwrite: true,
            ..WriteConfig::default()
        };
        let mount = Mount::with_write(SimOptions::default(), "", &[], write);
        let content = pattern(size);
        mount.bucket.put_object("old", content.clone());
        let old = mount.walk("old");
        let from = now(mount.fs.open(old, READ)).unwrap().handle;
        let created = mount.fs.create(
            ROOT,
            OsStr::new("new"),
            WriteOptions::default(),
            Opener::UNSEEN,
        );
        let to = created.unwrap().1.handle;
        drop(mount.bucket.take_log());
        Self {
            mount,
            from,
            to,
            content,
            written: Vec::new(),
        }
    }

    fn step(&mut self, step: Step) {
        let at = self.written.len() as u64;
        match step {
            Copied(start, len) | Refused(start, len) => {
                let (from, to) = ((self.from, start as u64), (self.to, at));
                let copied = now(self.mount.fs.copy_range(from, to, len as u64));
                let end = self.content.len().min(start + len);
                if matches!(step, Copied(..)) {
                    assert_eq!(copied.unwrap(), (end - start) as u64);
                    self.written.extend_from_slice(&self.content[start..end]);
                } else {
                    assert!(matches!(copied, Err(FsError::Unsupported(_))), "{copied:?}");
                }
            }
            Write(len) => {
                let mut rest = vec![7; len];
                while !rest.is_empty() {
                    let piece: Vec<u8> = rest.drain(..rest.len().min(MIB)).collect();
                    let at = self.written.len() as u64;
                    now(self.mount.fs.write(self.to, at, &piece)).unwrap();
                    self.written.extend_from_slice(&piece);
                }
            }
        }
    }
}

/// Checks the requests besides HEADs that `steps` and the close take.
#[track_caller]
fn check(size: usize, steps: &[Step], expected: &[(Operation, usize)]) {
    let mut copying = Copying::new(size);
    for step in steps {
        copying.step(*step);
    }
    let Copying {
        mount, to, written, ..
    } = copying;
    assert_eq!(
        now(mount.fs.attributes(mount.walk("new"))).unwrap().size,
        written.len() as u64
    );
    now(mount.fs.sync(to)).unwrap();
    mount.fs.release(to);
    let object = mount.bucket.object("new").unwrap();
    assert!(object.content.to_vec() == written, "{steps:?}");
    let log = mount.bucket.take_log();
    let data = [
        Operation::GetObject,
        Operation::PutObject,
        Operation::CopyObject,
        Operation::CreateMultipartUpload,
        Operation::UploadPart,
        Operation::UploadPartCopy,
        Operation::CompleteMultipartUpload,
    ];
    for operation in data {
        let named = expected.iter().find(|(named, _)| *named == operation);
        let count = named.map_or(0, |(_, count)| *count);
        assert_eq!(log.count(operation), count, "{steps:?}: {operation:?}");
    }
}

fn multipart(copies: usize, puts: usize) -> [(Operation, usize); 4] {
    [
        (Operation::CreateMultipartUpload, 1),
        (Operation::UploadPartCopy, copies),
        (Operation::UploadPart, puts),
        (Operation::CompleteMultipartUpload, 1),
    ]
}

#[test]
fn ranges_become_parts() {
    check(8 * MIB, &[Copied(0, 8 * MIB)], &multipart(1, 0));
    check(20 * MIB + 1, &[Copied(0, 64 * MIB)], &multipart(3, 0));
    check(8 * MIB, &[Copied(0, 1 << 40)], &multipart(1, 0));
    // Two parts would be too small.
    check(9 * MIB, &[Copied(0, 9 * MIB)], &multipart(1, 0));
    check(12 * MIB, &[Copied(1, 6 * MIB)], &multipart(1, 0));
    check(
        12 * MIB,
        &[Copied(0, 5 * MIB), Copied(6 * MIB, 6 * MIB)],
        &multipart(2, 0),
    );
    check(12 * MIB, &[Copied(0, 6 * MIB), Write(3)], &multipart(1, 1));
    check(
        12 * MIB,
        &[Copied(0, 8 * MIB), Write(5 * MIB), Copied(0, 8 * MIB)],
        &multipart(2, 1),
    );
    // An empty range, at the end of the source.
    check(10, &[Copied(10, 5), Write(1)], &[(Operation::PutObject, 1)]);
}

#[test]
fn what_s3_takes_no_part_of_is_left_to_the_kernel() {
    let put = [(Operation::PutObject, 1)];
    check(10, &[Refused(0, 10), Write(10)], &put);
    check(10, &[Write(5), Refused(0, 10), Write(2)], &put);
    check(12 * MIB, &[Write(5), Refused(0, 10 * MIB)], &put);
    check(
        12 * MIB,
        &[Copied(0, 6 * MIB), Refused(6 * MIB, MIB), Write(MIB)],
        &multipart(1, 1),
    );
    check(
        12 * MIB,
        &[Copied(0, 6 * MIB), Write(3), Refused(0, 8 * MIB)],
        &multipart(1, 1),
    );
    // A part was sent with a checksum, and copies have none.
    check(
        12 * MIB,
        &[Write(14 * MIB), Refused(0, 8 * MIB)],
        &multipart(0, 3),
    );
}

#[test]
fn a_copied_file_may_go_on() {
    let mut copying = Copying::new(12 * MIB);
    copying.step(Copied(0, 12 * MIB));
    now(copying.mount.fs.sync(copying.to)).unwrap();
    copying.step(Copied(0, 12 * MIB));
    copying.step(Write(3));
    now(copying.mount.fs.sync(copying.to)).unwrap();
    let object = copying.mount.bucket.object("new").unwrap();
    assert!(object.content.to_vec() == copying.written);
}

#[test]
fn a_source_that_is_removed_behind_the_copy_is_in_it() {
    let mut copying = Copying::new(12 * MIB);
    copying.step(Copied(0, 12 * MIB));
    copying.mount.bucket.remove("old");
    copying.step(Write(3));
    now(copying.mount.fs.sync(copying.to)).unwrap();
    assert_eq!(copying.mount.bucket.keys(), ["new"]);
    let object = copying.mount.bucket.object("new").unwrap();
    assert!(object.content.to_vec() == copying.written);
}

#[test]
fn a_source_that_was_replaced_is_not_copied() {
    let copying = Copying::new(12 * MIB);
    copying.mount.bucket.put_object("old", pattern(13 * MIB));
    let (from, to) = ((copying.from, 0), (copying.to, 0));
    let copied = now(copying.mount.fs.copy_range(from, to, 12 << 20));
    assert!(matches!(copied, Err(FsError::Stale(_))), "{copied:?}");
    now(copying.mount.fs.sync(copying.to)).unwrap();
    let stored = copying.mount.bucket.object("new").unwrap();
    assert_eq!(stored.content.size(), 0);
}

/// The source is open, and this mount changes its headers: the copy has its bytes.
#[test]
fn a_source_whose_headers_were_changed_is_copied() {
    let mut copying = Copying::new(12 * MIB);
    let key = Key::parse("old").unwrap();
    let content = Content::bytes(copying.content.clone());
    copying.mount.bucket.insert(SimObject {
        etag: ETag::from_header("\"11111111111111111111111111111111-2\""),
        ..SimObject::new(key, content)
    });
    let old = copying.mount.walk("old");
    copying.from = now(copying.mount.fs.open(old, READ)).unwrap().handle;
    let touch = AttributeChange {
        mtime: Some(TimeChange::Now),
        ..AttributeChange::default()
    };
    now(copying.mount.fs.set_attributes(old, touch)).unwrap();
    copying.step(Copied(0, 12 * MIB));
    now(copying.mount.fs.sync(copying.to)).unwrap();
    let object = copying.mount.bucket.object("new").unwrap();
    assert!(object.content.to_vec() == copying.written);
}

#[test]
fn nothing_of_others_is_replaced_by_a_copy() {
    let mut copying = Copying::new(12 * MIB);
    copying.step(Copied(0, 12 * MIB));
    copying.mount.bucket.put_object("new", "theirs");
    let stored = now(copying.mount.fs.sync(copying.to));
    assert!(matches!(stored, Err(FsError::Exists)), "{stored:?}");
    let theirs = copying.mount.bucket.object("new").unwrap();
    assert_eq!(theirs.content.to_vec(), b"theirs");
}

#[test]
fn only_what_is_open_that_way_is_copied() {
    let copying = Copying::new(12 * MIB);
    let (from, to) = ((copying.from, 0), (copying.to, 0));
    let fs = &copying.mount.fs;
    for from in [to, from] {
        let copied = now(fs.copy_range(from, (copying.from, 0), 5));
        let is_told = matches!(copied, Err(FsError::OneWay(_) | FsError::Unsupported(_)));
        assert!(is_told, "{copied:?}");
    }
    // A copy behind the end of the written bytes is refused.
    let copied = now(fs.copy_range(from, (copying.to, 1), 6 << 20));
    assert!(matches!(copied, Err(FsError::Unsupported(_))), "{copied:?}");
    assert!(copying.mount.bucket.take_log().records().is_empty());
}

#[test]
fn a_copy_carries_what_a_new_file_carries() {
    let len = 12 * MIB;
    let mut copying = Copying::new(len);
    let key = Key::parse("old").unwrap();
    let headers = ObjectHeaders {
        content_type: Some("text/plain".to_owned()),
        metadata: vec![("owner".to_owned(), "me".to_owned())],
        ..ObjectHeaders::default()
    };
    copying.mount.bucket.insert(SimObject {
        headers,
        ..SimObject::new(key, Content::bytes(copying.content.clone()))
    });
    copying
        .mount
        .clock
        .advance(std::time::Duration::from_secs(10));
    let old = copying.mount.walk("old");
    copying.from = now(copying.mount.fs.open(old, READ)).unwrap().handle;
    copying.step(Copied(0, len));
    now(copying.mount.fs.sync(copying.to)).unwrap();
    let carried = copying.mount.bucket.object("new").unwrap().headers;
    assert_eq!(carried.metadata, []);
    assert_ne!(carried.content_type.as_deref(), Some("text/plain"));
}
