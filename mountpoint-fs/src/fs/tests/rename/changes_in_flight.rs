//! Changes in flight below a directory when its rename begins.
//!
//! The rename waits until they are complete.

use mountpoint_client::testing::sim::RequestId;

use super::*;
use crate::operation::{AttributeChange, PosixAttributes, RenameMode, SetMode, Stop, TimeChange};

const ROOT: InodeNo = InodeNo::ROOT;

/// A change of an entry below `d/s`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    MakeDirectory,
    SymbolicLink,
    Mode,
    ModeOfDirectory,
    Extended,
    Touch,
    Shorten,
    Empty,
    RemoveDirectory,
    Unlink,
}

const CHANGES: [Change; 10] = [
    Change::MakeDirectory,
    Change::SymbolicLink,
    Change::Mode,
    Change::ModeOfDirectory,
    Change::Extended,
    Change::Touch,
    Change::Shorten,
    Change::Empty,
    Change::RemoveDirectory,
    Change::Unlink,
];

struct Tree {
    mount: Mount,
    s: InodeNo,
    x: InodeNo,
    sub: InodeNo,
}

impl Tree {
    /// With `--posix-metadata` and markers, over a bucket that answers on the test's command.
    fn new() -> Self {
        let write = WriteConfig {
            allow_delete: true,
            allow_overwrite: true,
            allow_rename: true,
            posix_metadata: true,
            directory_markers: true,
            ..WriteConfig::default()
        };
        let keys = ["d/s/x", "d/s/sub/", "d/y"];
        let mount = manual(&keys, write);
        let (s, x) = (walk(&mount, "d/s"), walk(&mount, "d/s/x"));
        let sub = walk(&mount, "d/s/sub");
        Self { mount, s, x, sub }
    }

    async fn make(&self, change: Change) -> Result<(), FsError> {
        let (fs, s) = (&self.mount.fs, self.s);
        let (new, x, sub) = (OsStr::new("new"), OsStr::new("x"), OsStr::new("sub"));
        let none = AttributeChange::default();
        let (ino, attributes) = match change {
            Change::MakeDirectory => return fs.make_directory(s, new, 0o700).await.map(drop),
            Change::SymbolicLink => return fs.symbolic_link(s, new, x).await.map(drop),
            Change::RemoveDirectory => return fs.remove_directory(s, sub).await,
            Change::Unlink => return fs.unlink(s, x).await,
            Change::Extended => {
                let name = OsStr::new("user.a");
                let set = fs.set_extended_attribute(self.x, name, b"v", SetMode::Any);
                return set.await;
            }
            Change::Mode | Change::ModeOfDirectory => {
                let mode = Some(0o600);
                let ino = if change == Change::Mode {
                    self.x
                } else {
                    self.sub
                };
                (ino, AttributeChange { mode, ..none })
            }
            Change::Touch => {
                let mtime = Some(TimeChange::At {
                    seconds: 7,
                    nanos: 0,
                });
                (self.x, AttributeChange { mtime, ..none })
            }
            Change::Shorten => (
                self.x,
                AttributeChange {
                    size: Some(3),
                    ..none
                },
            ),
            Change::Empty => (
                self.x,
                AttributeChange {
                    size: Some(0),
                    ..none
                },
            ),
        };
        fs.set_attributes(ino, attributes).await.map(drop)
    }

    /// Checks that the bucket holds only the tree below `e`, with the change if made.
    fn check(&self, change: Change, is_made: bool, case: &str) {
        let bucket = &self.mount.bucket;
        let mut expected = vec!["e/s/sub/", "e/s/x", "e/y"];
        match change {
            _ if !is_made => {}
            Change::MakeDirectory => expected.insert(0, "e/s/new/"),
            Change::SymbolicLink => expected.insert(0, "e/s/new"),
            Change::RemoveDirectory => expected.retain(|key| *key != "e/s/sub/"),
            Change::Unlink => expected.retain(|key| *key != "e/s/x"),
            _ => {}
        }
        assert_eq!(bucket.keys(), expected, "{case}");
        let carried = |key: &str| bucket.object(key).unwrap().headers.metadata;
        let has = |key: &str, name: &str| carried(key).iter().any(|(known, _)| known == name);
        let has_mode = |key: &str| PosixAttributes::of(&carried(key)).mode == Some(0o600);
        let len = || bucket.object("e/s/x").unwrap().content.size();
        let seen = match change {
            Change::Mode => has_mode("e/s/x"),
            Change::ModeOfDirectory => has_mode("e/s/sub/"),
            Change::Extended => has("e/s/x", "xattr"),
            Change::Touch => has("e/s/x", "mtime"),
            Change::Shorten => len() == 3,
            Change::Empty => len() == 0,
            _ => is_made,
        };
        assert_eq!(seen, is_made, "{case}");
    }

    fn finish_next(&self) {
        self.mount.bucket.finish(pending_ids(&self.mount)[0]);
    }
}

/// The requests that wait for an answer, oldest first.
fn pending_ids(mount: &Mount) -> Vec<RequestId> {
    let bucket = &mount.bucket;
    let others = bucket.pending_requests().into_iter().map(|it| it.id);
    let mut all: Vec<_> = others.collect();
    all.extend(bucket.pending_gets().iter().map(|it| it.id));
    all.sort_unstable();
    all
}

/// Any request of a change may be in flight when the rename begins.
///
/// The rename sends no request before the change is made, or the change is refused because it had
/// not begun. A change that succeeded is moved.
#[test]
fn a_rename_waits_for_every_change_below_it() {
    for change in CHANGES {
        let mut waited = 0;
        for answered in 0.. {
            let case = format!("{change:?} after {answered} answers");
            let tree = Tree::new();
            let (mount, never) = (&tree.mount, Stop::never());
            let mut changing = Box::pin(tree.make(change));
            let mut changed = (&mut changing).now_or_never();
            for _ in 0..answered {
                if changed.is_none() {
                    tree.finish_next();
                    changed = (&mut changing).now_or_never();
                }
            }
            let is_over = changed.is_some();
            let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
            let mut renaming = Box::pin(mount.fs.rename(from, to, RenameMode::Replace, &never));
            let before = pending_ids(mount).len();
            waits(&mut renaming);
            let has_waited = pending_ids(mount).len() == before;
            waited += usize::from(has_waited);
            let (changed, renamed) = drive(mount, async {
                let changing = async {
                    match changed {
                        Some(changed) => changed,
                        None => changing.await,
                    }
                };
                futures::join!(changing, renaming)
            });
            renamed.unwrap_or_else(|error| panic!("{case}: {error}"));
            match changed {
                Ok(()) => tree.check(change, true, &case),
                Err(FsError::InMotion(_)) => {
                    assert!(!has_waited, "{case}: what had begun is made");
                    tree.check(change, false, &case);
                }
                Err(error) => panic!("{case}: {error}"),
            }
            if is_over {
                break;
            }
        }
        assert!(waited > 0, "{change:?} was never in flight");
    }
}

/// The rename gets its answers at once, the change as late as possible.
///
/// The change's last request is about a name that still exists.
#[test]
fn a_rename_does_not_overtake_the_last_question_of_a_change() {
    for change in CHANGES {
        let tree = Tree::new();
        let (mount, never) = (&tree.mount, Stop::never());
        let pending = || pending_ids(mount).into_iter();
        let mut changing = Box::pin(tree.make(change));
        waits(&mut changing);
        let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
        let mut renaming = Box::pin(mount.fs.rename(from, to, RenameMode::Replace, &never));
        let mut renamed = None;
        let changed = loop {
            let of_change: Vec<_> = pending().collect();
            while renamed.is_none() {
                renamed = (&mut renaming).now_or_never();
                let of_rename: Vec<_> = pending().filter(|id| !of_change.contains(id)).collect();
                if of_rename.is_empty() {
                    break;
                }
                for id in of_rename {
                    mount.bucket.finish(id);
                }
            }
            mount.bucket.finish(of_change[0]);
            if let Some(changed) = (&mut changing).now_or_never() {
                break changed;
            }
        };
        changed.unwrap_or_else(|error| panic!("{change:?}: {error}"));
        let renamed = renamed.unwrap_or_else(|| drive(mount, renaming));
        renamed.unwrap_or_else(|error| panic!("{change:?}: {error}"));
        tree.check(change, true, &format!("{change:?}"));
    }
}

/// A directory below the removed one is already empty in the bucket. The removal has not yet told
/// the mount that that directory stays.
#[test]
fn a_directory_is_not_empty_while_something_below_is_being_removed() {
    let tree = Tree::new();
    let (mount, fs) = (&tree.mount, &tree.mount.fs);
    walk(mount, "d/y");
    drive(mount, fs.unlink(walk(mount, "d"), OsStr::new("y"))).unwrap();
    drive(mount, fs.remove_directory(tree.s, OsStr::new("sub"))).unwrap();
    let mut removing = Box::pin(fs.unlink(tree.s, OsStr::new("x")));
    waits(&mut removing);
    tree.finish_next();
    assert!(mount.bucket.keys().is_empty());
    let remove = || drive(mount, fs.remove_directory(ROOT, OsStr::new("d")));
    assert!(matches!(remove(), Err(FsError::NotEmpty)));
    drive(mount, removing).unwrap();
    assert!(matches!(remove(), Err(FsError::NotEmpty)), "s is kept");
    drive(
        mount,
        fs.remove_directory(walk(mount, "d"), OsStr::new("s")),
    )
    .unwrap();
    remove().unwrap();
}

/// The kernel prevents this case. The call that has deleted the marker succeeds, whatever follows.
#[test]
fn a_directory_of_which_the_marker_is_deleted_is_removed() {
    let write = WriteConfig {
        allow_delete: true,
        ..WriteConfig::default()
    };
    let mount = manual(&["d/"], write);
    let d = walk(&mount, "d");
    let mut removing = Box::pin(mount.fs.remove_directory(ROOT, OsStr::new("d")));
    waits(&mut removing);
    let deletes = || {
        let pending = mount.bucket.pending_requests();
        pending
            .iter()
            .any(|it| it.operation == Operation::DeleteObject)
    };
    while !deletes() {
        mount.bucket.deliver_all();
        waits(&mut removing);
    }
    now(mount.fs.make_directory(d, OsStr::new("sub"), 0o755)).unwrap();
    drive(&mount, removing).unwrap();
    assert!(mount.bucket.keys().is_empty());
}
