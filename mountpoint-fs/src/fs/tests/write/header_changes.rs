//! Copies of an object onto itself that change its headers, by all operations that need them.

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Content, Fault, FaultRule, SimObject, When};
use mountpoint_client::types::{ETag, Key};

use super::*;
use crate::config::CopyLimits;
use crate::operation::{AttributeChange, SetMode, TimeChange};

const ROOT: InodeNo = InodeNo::ROOT;
const MIB: usize = 1 << 20;

/// An operation that copies an object onto itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Touch,
    /// A touch of an object too large for one request.
    TouchInParts,
    Extended,
}

const WAYS: [Way; 3] = [Way::Touch, Way::TouchInParts, Way::Extended];

impl Way {
    fn mount(self) -> Mount {
        let config = WriteConfig {
            allow_overwrite: true,
            posix_metadata: self == Self::Extended,
            part_size: Some(5 << 20),
            copy_limits: match self {
                Self::TouchInParts => CopyLimits {
                    whole_max: 1 << 20,
                    part_max: 5 << 20,
                },
                Self::Touch | Self::Extended => CopyLimits::default(),
            },
            ..WriteConfig::default()
        };
        let mount = Mount::with_write(SimOptions::default(), "", &[], config);
        mount.bucket.put_object("a", vec![b'x'; 6 * MIB]);
        mount
    }

    /// The request that makes the copy the object.
    fn operation(self) -> Operation {
        match self {
            Self::TouchInParts => Operation::CompleteMultipartUpload,
            Self::Touch | Self::Extended => Operation::CopyObject,
        }
    }

    fn run(self, mount: &Mount) -> Result<(), FsError> {
        match self {
            Self::Touch | Self::TouchInParts => {
                let change = AttributeChange {
                    mtime: Some(TimeChange::Now),
                    ..AttributeChange::default()
                };
                now(mount.fs.set_attributes(mount.walk("a"), change)).map(drop)
            }
            Self::Extended => {
                let (ino, name) = (mount.walk("a"), OsStr::new("user.colour"));
                let set = mount
                    .fs
                    .set_extended_attribute(ino, name, b"blue", SetMode::Any);
                now(set)
            }
        }
    }
}

#[test]
fn a_copy_onto_itself_is_told_of_alike_whoever_asks_for_it() {
    #[derive(Clone, Copy, Debug)]
    enum Expected {
        Done,
        Stale,
        Denied,
    }
    for (fault, told) in [
        (Fault::Fail(ErrorKind::NotFound), Expected::Stale),
        (Fault::Fail(ErrorKind::PreconditionFailed), Expected::Stale),
        (Fault::Fail(ErrorKind::Unsupported), Expected::Done),
        (Fault::Fail(ErrorKind::Denied), Expected::Denied),
        (Fault::Repeat, Expected::Done),
    ] {
        for way in WAYS {
            let mount = way.mount();
            mount.walk("a");
            mount.bucket.add_fault(FaultRule {
                operation: Some(way.operation()),
                when: When::Next(1),
                fault: fault.clone(),
            });
            let outcome = way.run(&mount);
            let case = format!("{way:?} {fault:?} {outcome:?}");
            match told {
                Expected::Done => assert!(outcome.is_ok(), "{case}"),
                Expected::Stale => assert!(matches!(outcome, Err(FsError::Stale(_))), "{case}"),
                Expected::Denied => assert!(matches!(outcome, Err(FsError::Denied(_))), "{case}"),
            }
            let uploads = now(mountpoint_client::ObjectClient::list_uploads(
                &*mount.bucket,
                "",
            ));
            assert!(uploads.unwrap().is_empty(), "{case}");
        }
    }
}

/// Only a completion may have lost its answer. An upload that is gone before it has become nothing.
#[test]
fn an_upload_that_vanished_before_its_end_is_no_copy() {
    let mount = Way::TouchInParts.mount();
    let before = mount.bucket.object("a").unwrap().etag;
    mount.walk("a");
    for operation in [Operation::UploadPartCopy, Operation::AbortMultipartUpload] {
        mount.bucket.add_fault(FaultRule {
            operation: Some(operation),
            when: When::Next(1),
            fault: Fault::FailAfterwards(ErrorKind::NoSuchUpload),
        });
    }
    let outcome = Way::TouchInParts.run(&mount);
    assert!(outcome.is_err(), "{outcome:?}");
    assert_eq!(mount.bucket.object("a").unwrap().etag, before);
}

/// The server's lack is found once, by whichever operation needs it first.
#[test]
fn that_a_server_takes_no_conditions_of_copies_is_remembered() {
    let mount = Way::Extended.mount();
    mount
        .bucket
        .fail_next(Operation::CopyObject, 1, ErrorKind::Unsupported);
    Way::Extended.run(&mount).unwrap();
    drop(mount.bucket.take_log());
    Way::Extended.run(&mount).unwrap();
    let log = mount.bucket.take_log();
    // Uploads keep theirs.
    assert_eq!(log.count(Operation::CopyObject), 0);
}

/// The object is gone when the mount examines it. A descriptor and a copy see a stale object.
#[test]
fn what_was_deleted_by_others_is_stale() {
    for way in [Way::Touch, Way::Extended] {
        let mount = way.mount();
        let ino = mount.walk("a");
        mount.bucket.remove("a");
        let outcome = match way {
            Way::Extended => {
                let name = OsStr::new("user.colour");
                let set = mount
                    .fs
                    .set_extended_attribute(ino, name, b"blue", SetMode::Any);
                now(set)
            }
            Way::Touch | Way::TouchInParts => {
                let change = AttributeChange {
                    mtime: Some(TimeChange::Now),
                    ..AttributeChange::default()
                };
                now(mount.fs.set_attributes(ino, change)).map(drop)
            }
        };
        assert!(
            matches!(outcome, Err(FsError::Stale(_))),
            "{way:?} {outcome:?}"
        );
        // The kernel then looks the path up again.
        assert!(matches!(mount.lookup(ROOT, "a"), Err(FsError::NotFound)));
    }
}

/// An open writer of the file continues behind the copy, in every way of writing.
#[test]
fn who_writes_a_file_that_was_touched_goes_on() {
    for (directory_bucket, incremental_upload) in [(false, false), (true, false), (true, true)] {
        for len in [0, 3] {
            let options = SimOptions {
                directory_bucket,
                ..SimOptions::default()
            };
            let config = WriteConfig {
                allow_overwrite: true,
                allow_append: true,
                incremental_upload,
                ..WriteConfig::default()
            };
            let mount = Mount::with_write(options, "", &[], config);
            let (ino, handle) = create(&mount, ROOT, "log");
            now(mount.fs.write(handle, 0, &b"one"[..len])).unwrap();
            now(mount.fs.sync(handle)).unwrap();
            let touch = AttributeChange {
                mtime: Some(TimeChange::Now),
                ..AttributeChange::default()
            };
            now(mount.fs.set_attributes(ino, touch)).unwrap();
            now(mount.fs.write(handle, len as u64, b"two")).unwrap();
            let case = format!("{directory_bucket} {incremental_upload} {len}");
            let closed = now(mount.fs.flush(handle, &OPENER));
            assert!(closed.is_ok(), "{case}: {closed:?}");
            mount.fs.release(handle);
            let content = mount.bucket.object("log").unwrap().content.to_vec();
            assert_eq!(content, [&b"one"[..len], b"two"].concat(), "{case}");
        }
    }
}

/// Has an object that was uploaded in parts, so that its copy has another ETag. Returns a handle of
/// it, and its bytes.
fn opened_parts(mount: &Mount) -> (HandleNo, Vec<u8>) {
    let etag = ETag::from_header("\"11111111111111111111111111111111-2\"");
    let bytes: Vec<u8> = (0..8_u32 << 20).map(|at| at.to_le_bytes()[1]).collect();
    mount.bucket.insert(SimObject {
        etag,
        ..SimObject::new(Key::parse("a").unwrap(), Content::bytes(bytes.clone()))
    });
    let handle = now(mount.fs.open(mount.walk("a"), READ)).unwrap().handle;
    (handle, bytes)
}

#[test]
fn an_open_file_is_read_on_behind_a_change_of_its_headers() {
    for way in [Way::Touch, Way::TouchInParts, Way::Extended] {
        let mount = way.mount();
        let (handle, bytes) = opened_parts(&mount);
        let read = |at: usize| {
            let read = now(mount.fs.read(handle, at as u64, 100, true));
            read.map(|data| data.to_vec() == bytes[at..at + 100])
        };
        let opened = mount.bucket.object("a").unwrap().etag;
        for at in [0, 3 << 20, 6 << 20] {
            way.run(&mount).unwrap();
            assert_ne!(mount.bucket.object("a").unwrap().etag, opened);
            assert!(read(at).unwrap(), "{way:?} {at}");
        }
        // What another client puts there is another file.
        mount.bucket.put_object("a", "theirs");
        let stale = read(7 << 20);
        assert!(matches!(stale, Err(FsError::Stale(_))), "{way:?} {stale:?}");
    }
}

/// Nothing tells then whose object is there.
#[test]
fn an_open_file_is_stale_behind_a_change_whose_answer_was_lost() {
    for (asked, is_told) in [
        (Fault::Repeat, true),
        (Fault::Fail(ErrorKind::Denied), false),
    ] {
        let mount = Way::Extended.mount();
        let (handle, _) = opened_parts(&mount);
        mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::CopyObject),
            when: When::Next(1),
            fault: Fault::FailAfterwards(ErrorKind::Transient),
        });
        mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::HeadObject),
            // The ones before tell the name and the headers.
            when: When::From(3),
            fault: asked,
        });
        let opened = mount.bucket.object("a").unwrap().etag;
        let outcome = Way::Extended.run(&mount);
        assert_eq!(outcome.is_ok(), is_told, "{outcome:?}");
        assert_ne!(mount.bucket.object("a").unwrap().etag, opened);
        let read = now(mount.fs.read(handle, 0, 100, true));
        assert_eq!(read.is_ok(), is_told, "{read:?}");
        if let Err(error) = read {
            assert!(matches!(error, FsError::Stale(_)), "{error}");
        }
    }
}
