//! Symbolic links that wait for their upload, and hard links to files that do.

use std::ffi::OsStr;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::Operation;

use super::{ROOT, Staged, all_changes, wait};
use crate::config::WriteConfig;
use crate::fs::opening::{begin_new, unmake};
use crate::operation::{AttributeChange, FileKind, FsError, PosixAttributes, Stop, TimeChange};

fn mount() -> Staged {
    Staged::write_back_with(WriteConfig {
        posix_metadata: true,
        ..all_changes()
    })
}

impl Staged {
    fn link(&self, name: &str, target: &str) -> Result<(), FsError> {
        let (name, target) = (OsStr::new(name), OsStr::new(target));
        let made = wait(self.fs.symbolic_link(ROOT, name, target))?.attributes;
        assert_eq!((made.kind, made.mode), (FileKind::SymbolicLink, 0o777));
        assert_eq!(made.size, target.len() as u64);
        self.fs.forget(made.ino, 1);
        wait(self.fs.drained());
        Ok(())
    }

    #[track_caller]
    fn check_link(&self, path: &str, target: &str) {
        let ino = self.walk(path);
        let shown = wait(self.fs.attributes(ino)).unwrap();
        assert_eq!(shown.kind, FileKind::SymbolicLink);
        assert_eq!(shown.size, target.len() as u64);
        let read = wait(self.fs.read_link(ino)).unwrap();
        assert_eq!(read.to_vec(), target.as_bytes());
    }

    #[track_caller]
    fn check_stored(&self, key: &str, target: &str) {
        assert_eq!(self.stored(key).unwrap(), target);
        let headers = self.bucket.object(key).unwrap().headers;
        let special = PosixAttributes::of(&headers.metadata).special;
        assert_eq!(special, Some(FileKind::SymbolicLink), "{key}");
    }
}

#[test]
fn a_link_is_uploaded_later_and_leads_where_it_should_all_the_while() {
    let mount = mount();
    mount.link("l", "d/target").unwrap();
    assert!(mount.bucket.keys().is_empty());
    mount.check_link("l", "d/target");
    let again = mount.link("l", "other");
    assert!(matches!(again, Err(FsError::Exists)), "{again:?}");
    let mount = mount.killed();
    mount.check_link("l", "d/target");
    mount.upload();
    mount.check_stored("l", "d/target");
    mount.check_link("l", "d/target");
    mount.killed().check_link("l", "d/target");
}

#[test]
fn a_link_is_renamed_and_removed_before_its_upload() {
    let mount = mount();
    for name in ["l", "m", "n"] {
        mount.link(name, &format!("target of {name}")).unwrap();
    }
    mount.rename((ROOT, "l"), (ROOT, "m")).unwrap();
    mount.unlink(ROOT, "n").unwrap();
    let mount = mount.killed();
    mount.check_link("m", "target of l");
    mount.upload();
    assert_eq!(mount.bucket.keys(), ["m"]);
    mount.check_stored("m", "target of l");
    assert_eq!(mount.kept(), 0);
}

#[test]
fn a_link_keeps_its_kind_when_its_time_is_set() {
    let mount = mount();
    mount.link("l", "target").unwrap();
    let change = AttributeChange {
        mtime: Some(TimeChange::At {
            seconds: 1_000,
            nanos: 0,
        }),
        ..AttributeChange::default()
    };
    for _ in 0..2 {
        let ino = mount.walk("l");
        wait(mount.fs.set_attributes(ino, change)).unwrap();
        mount.check_link("l", "target");
        mount.upload();
        mount.check_stored("l", "target");
    }
}

#[test]
fn a_name_that_another_host_has_made_meanwhile_is_theirs() {
    let mount = mount();
    mount.link("l", "target").unwrap();
    mount.bucket.put_object("l", "theirs");
    mount.upload();
    assert_eq!(mount.stored("l").unwrap(), "theirs");
    assert_eq!(mount.kept(), 2, "its bytes, and what is said of them");
}

/// What `symlink` does when the directory is full.
#[test]
fn a_link_that_could_not_be_made_is_not_there() {
    let mount = mount();
    let (fs, name) = (&mount.fs, OsStr::new("l"));
    let parts = &fs.parts;
    let begun = begin_new(parts, (ROOT, name), (FileKind::SymbolicLink, None));
    let (entry, opening) = begun.unwrap();
    wait(opening.open().file.write(0, "target".into())).unwrap();
    wait(unmake(parts, (ROOT, name), entry.attributes.ino));
    drop(opening);
    wait(fs.drained());
    let found = wait(fs.lookup(ROOT, name));
    assert!(matches!(found, Err(FsError::NotFound)), "{found:?}");
    mount.upload();
    assert!(mount.bucket.keys().is_empty());
    assert_eq!(mount.kept(), 0);
    mount.link("l", "again").unwrap();
    mount.check_link("l", "again");
}

fn link_to(mount: &Staged, name: &str, to: &str) -> Result<(), FsError> {
    let (ino, to) = (mount.walk(name), (ROOT, OsStr::new(to)));
    let stop = Stop::never();
    wait(mount.fs.link(ino, to, &stop)).map(drop)
}

/// The link is of the bytes as they are: the file goes on without it.
#[test]
fn a_staged_file_is_stored_before_it_is_linked() {
    for mount in [Staged::new(&["old"]), Staged::write_back()] {
        let (_, handle) = mount.create(ROOT, "a");
        mount.write(handle, 0, "bytes").unwrap();
        link_to(&mount, "a", "b").unwrap();
        assert_eq!(mount.stored("a").unwrap(), "bytes");
        mount.write(handle, 5, " and more").unwrap();
        assert_eq!(mount.stored("b").unwrap(), "bytes");
        let again = link_to(&mount, "a", "b");
        assert!(matches!(again, Err(FsError::Exists)), "{again:?}");
        mount.unlink(ROOT, "a").unwrap();
        mount.close(handle).unwrap();
        assert!(mount.stored("a").is_none());
        assert_eq!(mount.read(mount.open_to_read("b")).unwrap(), "bytes");
    }
}

/// With write-back, too, only the bucket can tell whether another host has the name.
#[test]
fn a_link_is_there_when_it_is_acknowledged() {
    let mount = Staged::write_back();
    let (_, handle) = mount.create(ROOT, "a");
    mount.write(handle, 0, "bytes").unwrap();
    mount.close(handle).unwrap();
    mount.bucket.put_object("theirs", "of another host");
    let refused = link_to(&mount, "a", "theirs");
    assert!(matches!(refused, Err(FsError::Exists)), "{refused:?}");
    mount
        .bucket
        .fail_next(Operation::CopyObject, 100, ErrorKind::Unreachable);
    link_to(&mount, "a", "b").unwrap_err();
    mount.bucket.clear_faults();
    link_to(&mount, "a", "b").unwrap();
    let mount = mount.killed();
    assert_eq!(mount.stored("b").unwrap(), "bytes");
    assert_eq!(mount.stored("theirs").unwrap(), "of another host");
    assert_eq!(mount.kept(), 0);
}
