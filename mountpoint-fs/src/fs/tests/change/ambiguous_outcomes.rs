//! Changes without an answer, in a bucket that does not tell their outcome.
//!
//! No application is told that another client was first.

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, When};

use super::*;
use crate::config::WriteConfig;
use crate::operation::{AttributeChange, RenameMode, Stop};

const ROOT: InodeNo = InodeNo::ROOT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    MakeDirectory,
    /// A marker without metadata.
    MakeMarker,
    SymbolicLink,
    HardLink,
    Empty,
    RenameNatively,
    RenameDirectoryNatively,
    RenameByCopy,
}

impl Change {
    fn mount(self) -> Mount {
        let natively = [Self::RenameNatively, Self::RenameDirectoryNatively];
        let options = SimOptions {
            directory_bucket: natively.contains(&self),
            ..SimOptions::default()
        };
        let write = WriteConfig {
            allow_delete: true,
            allow_overwrite: true,
            allow_rename: true,
            posix_metadata: self != Self::MakeMarker,
            directory_markers: true,
            ..WriteConfig::default()
        };
        Mount::with_write(options, "", &["f", "d/f"], write)
    }

    /// Makes the change; `ino` is that of `f`.
    fn make(self, mount: &Mount, ino: InodeNo) -> Result<(), FsError> {
        let fs = &mount.fs;
        let (f, new) = (OsStr::new("f"), OsStr::new("new"));
        let rename = |from, mode| {
            let (from, to) = ((ROOT, OsStr::new(from)), (ROOT, new));
            now(fs.rename(from, to, mode, &Stop::never()))
        };
        match self {
            Self::MakeDirectory | Self::MakeMarker => {
                now(fs.make_directory(ROOT, new, 0o700)).map(drop)
            }
            Self::SymbolicLink => now(fs.symbolic_link(ROOT, new, f)).map(drop),
            Self::HardLink => {
                let stop = Stop::never();
                now(fs.link(ino, (ROOT, new), &stop)).map(drop)
            }
            Self::Empty => {
                let empty = AttributeChange {
                    size: Some(0),
                    ..AttributeChange::default()
                };
                now(fs.set_attributes(ino, empty)).map(drop)
            }
            Self::RenameNatively => rename("f", RenameMode::Replace),
            Self::RenameDirectoryNatively => rename("d", RenameMode::Replace),
            Self::RenameByCopy => rename("f", RenameMode::KeepExisting),
        }
    }
}

#[test]
fn what_cannot_be_told_is_not_said_to_be_done_by_somebody_else() {
    use Change::*;
    // The change, its repeated request, and the failing check after it.
    for (change, operation, asked) in [
        (MakeDirectory, Operation::PutObject, 1),
        (MakeMarker, Operation::PutObject, 1),
        (SymbolicLink, Operation::PutObject, 1),
        (HardLink, Operation::CopyObject, 3),
        (Empty, Operation::PutObject, 2),
        (RenameByCopy, Operation::CopyObject, 3),
    ] {
        for kind in [ErrorKind::Transient, ErrorKind::Denied] {
            let case = format!("{change:?}, {kind:?} at HEAD {asked}");
            let mount = change.mount();
            let ino = mount.walk("f");
            mount.walk("d");
            let before = mount.bucket.keys();
            mount.bucket.add_fault(FaultRule {
                operation: Some(operation),
                when: When::Next(1),
                fault: Fault::Repeat,
            });
            mount.bucket.add_fault(FaultRule {
                operation: Some(Operation::HeadObject),
                when: When::From(asked),
                fault: Fault::Fail(kind.clone()),
            });
            let error = change.make(&mount, ino).unwrap_err();
            let is_unknown =
                matches!(&error, FsError::Client(error) if error.kind == ErrorKind::Transient);
            assert!(is_unknown, "{case}: {error:?}");
            let is_done = match change {
                Empty => mount.bucket.object("f").unwrap().content.size() == 0,
                _ => mount.bucket.keys() != before,
            };
            assert!(is_done, "{case}");
        }
    }
}

/// S3 tells a repetition of a rename by its token: no look at the bucket could, where other hosts
/// have equal files.
#[test]
fn a_native_rename_whose_answer_was_lost_is_done_without_a_look() {
    for change in [Change::RenameNatively, Change::RenameDirectoryNatively] {
        let mount = change.mount();
        let ino = mount.walk("f");
        mount.walk("d");
        mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::RenameObject),
            when: When::Next(1),
            fault: Fault::Repeat,
        });
        drop(mount.bucket.take_log());
        change.make(&mount, ino).unwrap();
        let log = mount.bucket.take_log();
        let looks = log.records().iter();
        let looks =
            looks.filter(|it| it.operation == Operation::HeadObject && !it.key.ends_with('/'));
        assert_eq!(looks.count(), 0, "{change:?}");
    }
}
