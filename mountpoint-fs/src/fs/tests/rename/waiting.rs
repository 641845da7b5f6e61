//! Operations that wait for a rename of a directory above them.

use std::future::ready;

use super::super::*;
use crate::fs::at_rest::MOTION_WAIT_MAX;
use crate::operation::{AttributeChange, TimeChange};

const ROOT: InodeNo = InodeNo::ROOT;

/// Begins to rename `d` to `e`, which waits for its first request.
fn rename_d(mount: &Mount) -> impl Future<Output = Result<(), FsError>> + Unpin + '_ {
    let never = Stop::never();
    let mut renaming = Box::pin(async move {
        let (from, to) = ((ROOT, OsStr::new("d")), (ROOT, OsStr::new("e")));
        mount.fs.rename(from, to, RenameMode::Replace, &never).await
    });
    waits(&mut renaming);
    renaming
}

#[test]
fn what_meets_a_rename_above_is_done_behind_it_under_the_new_name() {
    let mount = manual(&["d/s/cut", "d/s/gone", "d/s/moved"], all_changes());
    let (fs, never) = (&mount.fs, Stop::never());
    let s = walk(&mount, "d/s");
    let cut = walk(&mount, "d/s/cut");
    for name in ["gone", "moved"] {
        walk(&mount, &format!("d/s/{name}"));
    }
    drive(&mount, fs.make_directory(s, OsStr::new("empty"), 0o755)).unwrap();
    let renaming = rename_d(&mount);
    let how = WriteOptions::default();
    let truncate = WriteOptions {
        truncate: true,
        ..how
    };
    let touch = AttributeChange {
        mtime: Some(TimeChange::Now),
        ..AttributeChange::default()
    };
    let (moved, to) = ((s, OsStr::new("moved")), (s, OsStr::new("there")));
    let new = OsStr::new("new");
    let unlink = || fs.unlink(s, OsStr::new("gone"));
    let rmdir = || fs.remove_directory(s, OsStr::new("empty"));
    let create = || ready(fs.create(s, new, how, Opener::UNSEEN));
    let rename = || fs.rename(moved, to, RenameMode::Replace, &never);
    let touch = || fs.set_attributes(cut, touch);
    let mut unlinking = Box::pin(fs.when_at_rest(&never, unlink));
    let mut removing = Box::pin(fs.when_at_rest(&never, rmdir));
    let mut creating = Box::pin(fs.when_at_rest(&never, create));
    let mut moving = Box::pin(fs.when_at_rest(&never, rename));
    let mut touching = Box::pin(fs.when_at_rest(&never, touch));
    waits(&mut unlinking);
    waits(&mut removing);
    waits(&mut creating);
    waits(&mut moving);
    waits(&mut touching);
    drive(&mount, renaming).unwrap();
    drive(&mount, unlinking).unwrap();
    drive(&mount, removing).unwrap();
    drive(&mount, moving).unwrap();
    drive(&mount, touching).unwrap();
    let (_, opened) = drive(&mount, creating).unwrap();
    drive(&mount, fs.flush(opened.handle, &OPENER)).unwrap();
    fs.release(opened.handle);
    assert_eq!(mount.bucket.keys(), ["e/s/cut", "e/s/new", "e/s/there"]);
    let opening = fs.when_at_rest(&never, || {
        fs.open_for_writing(cut, truncate, Opener::UNSEEN)
    });
    let opened = drive(&mount, opening).unwrap();
    fs.release(opened.handle);
}

#[test]
fn the_wait_ends_with_a_signal_and_has_a_limit() {
    let mount = manual(&["d/s/x"], all_changes());
    let fs = &mount.fs;
    let s = walk(&mount, "d/s");
    walk(&mount, "d/s/x");
    let renaming = rename_d(&mount);
    let unlink = || fs.unlink(s, OsStr::new("x"));
    let (stop, never) = (Stop::default(), Stop::never());
    let mut stopped = Box::pin(fs.when_at_rest(&stop, unlink));
    let mut unlinking = Box::pin(fs.when_at_rest(&never, unlink));
    waits(&mut stopped);
    waits(&mut unlinking);
    stop.ask();
    assert!(matches!(now(stopped), Err(FsError::Interrupted)));
    mount.clock.advance(MOTION_WAIT_MAX);
    waits(&mut unlinking);
    fs.give_back_idle();
    let refused = now(unlinking);
    assert!(
        matches!(&refused, Err(FsError::InMotion(text)) if text.contains('d')),
        "{refused:?}"
    );
    drive(&mount, renaming).unwrap();
    assert_eq!(mount.bucket.keys(), ["e/s/x"]);
}
