//! Every fault at every request of a change of names or attributes.
//!
//! A change that succeeded is done, nothing is lost whatever the answer, and an equal change again
//! ends equally.

use std::collections::BTreeMap;

use mountpoint_client::testing::sim::{Fault, FaultRule, When};
use mountpoint_client::{ErrorKind, ObjectClient as _};

use super::*;
use crate::config::CopyLimits;
use crate::operation::{AttributeChange, RenameMode, Stop, TimeChange};

const ROOT: InodeNo = InodeNo::ROOT;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    MakeDirectory,
    SymbolicLink,
    HardLink,
    HardLinkLarge,
    Unlink,
    RemoveDirectory,
    Mode,
    ModeOfDirectory,
    Touch,
    Shorten,
    Empty,
    Rename,
    RenameOver,
    RenameLarge,
    RenameDirectory,
    RenameNatively,
}

const CHANGES: [Change; 16] = [
    Change::MakeDirectory,
    Change::SymbolicLink,
    Change::HardLink,
    Change::HardLinkLarge,
    Change::Unlink,
    Change::RemoveDirectory,
    Change::Mode,
    Change::ModeOfDirectory,
    Change::Touch,
    Change::Shorten,
    Change::Empty,
    Change::Rename,
    Change::RenameOver,
    Change::RenameLarge,
    Change::RenameDirectory,
    Change::RenameNatively,
];

/// Keys and their bytes.
type Contents = BTreeMap<String, Vec<u8>>;

impl Change {
    fn before(self) -> Contents {
        let objects: &[(&str, &[u8])] = match self {
            Self::MakeDirectory | Self::SymbolicLink => &[("other", b"other")],
            Self::RemoveDirectory => &[("d/", b""), ("other", b"other")],
            Self::ModeOfDirectory => &[("d/f", b"f")],
            Self::RenameOver => &[("f", b"file"), ("g", b"old")],
            Self::RenameDirectory | Self::RenameNatively => {
                &[("d/", b""), ("d/a", b"a"), ("d/s/b", b"bb"), ("d/s/c", b"")]
            }
            _ => &[("f", b"file"), ("other", b"other")],
        };
        let owned = |(key, content): &(&str, &[u8])| ((*key).to_owned(), content.to_vec());
        objects.iter().map(owned).collect()
    }

    fn after(self) -> Contents {
        let mut objects = self.before();
        let moved = |objects: &Contents, from: &str, to: &str| {
            let moved = objects.iter().map(|(key, content)| {
                let rest = key.strip_prefix(from);
                let key = rest.map_or_else(|| key.clone(), |rest| format!("{to}{rest}"));
                (key, content.clone())
            });
            moved.collect::<Contents>()
        };
        match self {
            Self::MakeDirectory => drop(objects.insert("d/".to_owned(), Vec::new())),
            Self::SymbolicLink => drop(objects.insert("g".to_owned(), b"other".to_vec())),
            Self::HardLink | Self::HardLinkLarge => {
                objects.insert("g".to_owned(), b"file".to_vec());
            }
            Self::Unlink => drop(objects.remove("f")),
            Self::RemoveDirectory => drop(objects.remove("d/")),
            Self::ModeOfDirectory => drop(objects.insert("d/".to_owned(), Vec::new())),
            Self::Shorten => drop(objects.insert("f".to_owned(), b"fi".to_vec())),
            Self::Empty => drop(objects.insert("f".to_owned(), Vec::new())),
            Self::RenameOver => {
                objects.remove("g");
                objects = moved(&objects, "f", "g");
            }
            Self::Rename | Self::RenameLarge => objects = moved(&objects, "f", "g"),
            Self::RenameDirectory | Self::RenameNatively => objects = moved(&objects, "d/", "e/"),
            Self::Mode | Self::Touch => {}
        }
        objects
    }

    fn mount(self) -> Mount {
        let write = WriteConfig {
            allow_delete: true,
            allow_overwrite: self != Self::Rename,
            allow_rename: true,
            posix_metadata: true,
            directory_markers: true,
            copy_limits: match self {
                // Too large for one copy.
                Self::RenameLarge | Self::HardLinkLarge => CopyLimits {
                    whole_max: 3,
                    part_max: 5 << 20,
                },
                _ => CopyLimits::default(),
            },
            ..WriteConfig::default()
        };
        let options = SimOptions {
            directory_bucket: self == Self::RenameNatively,
            ..SimOptions::default()
        };
        let mount = Mount::with_write(options, "", &[], write);
        for (key, content) in self.before() {
            mount.bucket.put_object(&key, content);
        }
        mount
    }

    /// Looks up the names of the change, as the kernel does, and makes it.
    fn make(self, mount: &Mount, inodes: &[Option<InodeNo>; 2]) -> Result<(), FsError> {
        let (fs, [f, d]) = (&mount.fs, *inodes);
        let (old, new) = (OsStr::new("f"), OsStr::new("g"));
        let none = AttributeChange::default();
        let set = |ino: Option<InodeNo>, change| {
            now(fs.set_attributes(ino.ok_or(FsError::NotFound)?, change)).map(drop)
        };
        let rename = |from, to| {
            let (from, to) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
            now(fs.rename(from, to, RenameMode::Replace, &Stop::never()))
        };
        let mode = AttributeChange {
            mode: Some(0o700),
            ..none
        };
        let size = |size| AttributeChange {
            size: Some(size),
            ..none
        };
        match self {
            Self::MakeDirectory => now(fs.make_directory(ROOT, OsStr::new("d"), 0o755)).map(drop),
            Self::SymbolicLink => now(fs.symbolic_link(ROOT, new, OsStr::new("other"))).map(drop),
            Self::HardLink | Self::HardLinkLarge => {
                let ino = f.ok_or(FsError::NotFound)?;
                let stop = Stop::never();
                now(fs.link(ino, (ROOT, new), &stop)).map(drop)
            }
            Self::Unlink => now(fs.unlink(ROOT, old)),
            Self::RemoveDirectory => now(fs.remove_directory(ROOT, OsStr::new("d"))),
            Self::Mode => set(f, mode),
            Self::ModeOfDirectory => set(d, mode),
            Self::Touch => {
                let mtime = Some(TimeChange::Now);
                set(f, AttributeChange { mtime, ..none })
            }
            Self::Shorten => set(f, size(2)),
            Self::Empty => set(f, size(0)),
            Self::Rename | Self::RenameOver | Self::RenameLarge => rename("f", "g"),
            Self::RenameDirectory | Self::RenameNatively => rename("d", "e"),
        }
    }

    /// Whether a repeated change may fail with this `error`.
    ///
    /// The error must report that the change was made, or that half of it was, and the remedy.
    fn may_be_told(self, error: &FsError, was_made: bool) -> bool {
        match self {
            Self::MakeDirectory | Self::SymbolicLink | Self::HardLink | Self::HardLinkLarge => {
                was_made && matches!(error, FsError::Exists)
            }
            Self::Mode | Self::ModeOfDirectory | Self::Touch | Self::Shorten | Self::Empty => false,
            // The copy of the first attempt exists, and without the flag nothing is replaced.
            Self::Rename if !was_made => matches!(error, FsError::NotPermitted(_)),
            // An object was gone when it was to be copied, and came back.
            Self::RenameDirectory if !was_made => matches!(error, FsError::NotEmpty),
            _ => was_made && matches!(error, FsError::NotFound),
        }
    }
}

fn inodes(mount: &Mount) -> [Option<InodeNo>; 2] {
    let of = |name| mount.lookup(ROOT, name).ok().map(|it| it.attributes.ino);
    let inodes = [of("f"), of("d")];
    of("g");
    of("e");
    inodes
}

/// All objects but the claim of a directory's rename, which may stay if all requests fail.
fn contents(mount: &Mount) -> Contents {
    let content = |key: String| {
        let object = mount.bucket.object(&key).unwrap();
        let mut metadata = object.headers.metadata.iter();
        let is_claim = metadata.any(|(name, _)| name == "mount-s3-claim");
        (!is_claim).then(|| (key, object.content.to_vec()))
    };
    mount
        .bucket
        .keys()
        .into_iter()
        .filter_map(content)
        .collect()
}

/// Checks that every initial object is complete under one of its names, old or new.
fn check_nothing_lost(change: Change, now: &Contents, case: &str) {
    let (before, after) = (change.before(), change.after());
    for (key, content) in now {
        let is_known = [&before, &after]
            .iter()
            .any(|all| all.get(key) == Some(content));
        assert!(is_known, "{case}: {key} holds something else");
    }
    // A key with two names or none exists in either state.
    for (key, content) in &before {
        if after.get(key) == Some(content) {
            assert_eq!(now.get(key), Some(content), "{case}: {key}");
        }
    }
    let is_move = |key: &str| key.starts_with("d/") && !matches!(change, Change::RemoveDirectory);
    for key in before.keys().filter(|key| *key == "f" || is_move(key)) {
        let to = match key.strip_prefix("d/") {
            Some(rest) => format!("e/{rest}"),
            None => "g".to_owned(),
        };
        let has_moved = after.contains_key(&to) && now.get(&to) == after.get(&to);
        let is_there = now.contains_key(key) || has_moved || change == Change::Unlink;
        assert!(is_there, "{case}: {key} is lost");
    }
}

/// Runs one case; `false` if the change takes fewer requests.
fn check(change: Change, fault: &Fault, hit: u32, is_lasting: bool) -> bool {
    let case = format!("{change:?}, {fault:?} at {hit}, for ever: {is_lasting}");
    let mount = change.mount();
    let known = inodes(&mount);
    mount.requests();
    let when = if is_lasting {
        When::From(hit)
    } else {
        When::Nth(hit)
    };
    mount.bucket.add_fault(FaultRule {
        operation: None,
        when,
        fault: fault.clone(),
    });
    let outcome = change.make(&mount, &known);
    let was_hit = mount.bucket.take_log().records().len() >= hit as usize;
    mount.bucket.clear_faults();
    let there = contents(&mount);
    match &outcome {
        Ok(()) => assert!(there == change.after(), "{case}: {:?}", there.keys()),
        Err(error) => {
            assert!(was_hit, "{case}: {error}");
            // A request that was sent twice is no failure.
            assert_ne!(fault, &Fault::Repeat, "{case}: {error}");
            check_nothing_lost(change, &there, &case);
        }
    }
    // A user repeats the change: it was made before, or is made now.
    mount.clock.advance(std::time::Duration::from_secs(60));
    let known = inodes(&mount);
    let was_made = there == change.after();
    let again = change.make(&mount, &known);
    let there = contents(&mount);
    match again {
        Ok(()) => assert!(there == change.after(), "{case}: again: {:?}", there.keys()),
        Err(error) => {
            let is_told = change.may_be_told(&error, was_made);
            assert!(is_told, "{case}: again: {error}");
            check_nothing_lost(change, &there, &case);
        }
    }
    let uploads = now(mount.bucket.list_uploads("")).unwrap().len();
    // Only an upload that was begun without an answer, or could not be aborted, may stay.
    let may_stay = is_lasting || matches!(fault, Fault::FailAfterwards(_) | Fault::Repeat);
    assert!(may_stay || uploads <= 1, "{case}: {uploads} uploads");
    was_hit
}

#[test]
fn every_fault_at_every_request_of_a_change_loses_nothing() {
    let faults = [
        Fault::Fail(ErrorKind::Denied),
        Fault::Fail(ErrorKind::InvalidRequest),
        Fault::Fail(ErrorKind::InvalidResponse),
        Fault::Fail(ErrorKind::NotFound),
        Fault::Fail(ErrorKind::PreconditionFailed),
        Fault::Fail(ErrorKind::Transient),
        Fault::Fail(ErrorKind::Unsupported),
        Fault::FailAfterwards(ErrorKind::InvalidResponse),
        Fault::FailAfterwards(ErrorKind::Transient),
        Fault::Repeat,
    ];
    let mut cases = 0;
    for change in CHANGES {
        for fault in &faults {
            for is_lasting in [false, true] {
                // A server that reports for ever that nothing exists is believed.
                if is_lasting && *fault == Fault::Fail(ErrorKind::NotFound) {
                    continue;
                }
                let mut hits = 1..;
                while check(change, fault, hits.next().unwrap(), is_lasting) {
                    cases += 1;
                }
            }
        }
    }
    assert!(cases > 500, "{cases} cases are not all");
}
