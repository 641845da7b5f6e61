//! Whose a new name is, the times of cut files, and objects that tell nothing of themselves.

use std::time::{Duration, SystemTime};

use mountpoint_client::ErrorKind;

use super::*;
use crate::config::limits::FILE_TTL;
use crate::operation::{AttributeChange, Attributes, Maker, TimeChange};

const ROOT: InodeNo = InodeNo::ROOT;
const OTHER: Maker = Maker { uid: 7, gid: 8 };

fn mount(keys: &[&str]) -> Mount {
    Mount::with_write(SimOptions::default(), "", keys, all_changes_in_parts())
}

fn attributes(mount: &Mount, ino: InodeNo) -> Attributes {
    now(mount.fs.attributes(ino)).unwrap()
}

#[test]
fn what_another_user_makes_belongs_to_that_user() {
    let mount = mount(&[]);
    let maker = Some(OTHER);
    let options = WriteOptions {
        mode: Some(0o600),
        maker,
        ..WriteOptions::default()
    };
    let (fs, name) = (&mount.fs, OsStr::new);
    let (entry, opened) = fs.create(ROOT, name("f"), options, Opener::UNSEEN).unwrap();
    now(fs.flush(opened.handle, &OPENER)).unwrap();
    fs.release(opened.handle);
    let d = now(fs.make_directory_for(ROOT, name("d"), 0o755, maker)).unwrap();
    let l = now(fs.symbolic_link_for(ROOT, name("l"), name("f"), maker)).unwrap();
    let own = now(fs.make_directory_for(ROOT, name("own"), 0o755, None)).unwrap();
    mount.clock.advance(FILE_TTL);
    for made in [entry, d, l] {
        let shown = attributes(&mount, made.attributes.ino);
        assert_eq!((shown.uid, shown.gid), (OTHER.uid, OTHER.gid), "{made:?}");
    }
    let shown = attributes(&mount, own.attributes.ino);
    assert_eq!((shown.uid, shown.gid), (10, 20));
}

#[test]
fn a_directory_with_the_group_bit_passes_its_group_on() {
    let mount = mount(&["d/x"]);
    let d = mount.walk("d");
    let change = AttributeChange {
        mode: Some(0o2775),
        gid: Some(99),
        ..AttributeChange::default()
    };
    now(mount.fs.set_attributes(d, change)).unwrap();
    let fs = &mount.fs;
    let made = now(fs.make_directory_for(d, OsStr::new("sub"), 0o755, Some(OTHER))).unwrap();
    assert_eq!(
        (made.attributes.mode, made.attributes.gid),
        (0o2755, 99),
        "a directory passes the bit on as well"
    );
    let (_, handle) = create(&mount, made.attributes.ino, "f");
    now(fs.flush(handle, &OPENER)).unwrap();
    fs.release(handle);
    mount.clock.advance(FILE_TTL);
    let file = attributes(&mount, mount.walk("d/sub/f"));
    assert_eq!((file.uid, file.gid, file.mode & 0o2000), (10, 99, 0));
}

#[test]
fn a_cut_moves_the_time_of_the_file() {
    for write in [all_changes(), all_changes_in_parts()] {
        let mount = Mount::with_write(SimOptions::default(), "", &["f"], write);
        let f = mount.walk("f");
        let opened = now(mount.fs.open(f, READ)).unwrap();
        mount.clock.advance(Duration::from_secs(50));
        for size in [5, 0] {
            let change = AttributeChange {
                size: Some(size),
                ..AttributeChange::default()
            };
            let shown = now(mount.fs.set_attributes(f, change)).unwrap();
            assert_eq!(shown.size, size);
            assert_eq!(shown.mtime, mount.clock.wall());
        }
        mount.fs.release(opened.handle);
    }
}

#[test]
fn times_before_1970_keep_their_fraction() {
    let mount = mount(&["f"]);
    let f = mount.walk("f");
    let change = AttributeChange {
        mtime: Some(TimeChange::At {
            seconds: -2,
            nanos: 500_000_000,
        }),
        ..AttributeChange::default()
    };
    let told = SystemTime::UNIX_EPOCH - Duration::from_millis(1_500);
    assert_eq!(now(mount.fs.set_attributes(f, change)).unwrap().mtime, told);
    mount.clock.advance(FILE_TTL);
    assert_eq!(attributes(&mount, f).mtime, told);
    mount.requests();
    now(mount.fs.set_attributes(f, change)).unwrap();
    assert_eq!(mount.requests(), (0, 0, 0), "nothing to do");
}

/// Of SSE-C without a key, forbidden by its access control list, or known to the listing alone.
#[test]
fn an_object_that_tells_nothing_has_the_attributes_of_the_flags() {
    for kind in [
        ErrorKind::InvalidRequest,
        ErrorKind::Denied,
        ErrorKind::NotFound,
    ] {
        let mount = mount(&["d/f"]);
        let refuse = || {
            let bucket = &mount.bucket;
            bucket.fail_next(Operation::HeadObject, 100, kind.clone());
        };
        refuse();
        let d = mount.walk("d");
        let shown = mount.lookup(d, "f").unwrap().attributes;
        assert_eq!(
            (shown.kind, shown.mode, shown.uid, shown.gid),
            (FileKind::File, 0o644, 10, 20),
            "{kind:?}"
        );
        now(mount.fs.unlink(d, OsStr::new("f"))).unwrap();
        assert!(mount.bucket.keys().is_empty());
    }
}
