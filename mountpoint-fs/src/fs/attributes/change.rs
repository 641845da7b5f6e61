//! chmod, chown and utimes.
//!
//! S3 itself keeps a file's size and its time of writing. A change that leaves an attribute as it
//! is succeeds; one that cannot be kept fails, and the error names the flag that would keep it.

use std::time::SystemTime;

use super::headers::{change_headers, object, replace_headers, stat};
use crate::fs::parts::Parts;
use crate::fs::permission::{Change, not_kept, permit};
use crate::operation::{
    AttributeChange, Attributes, FileKind, FsError, InodeNo, PosixAttributes, Progress, TimeChange,
};

/// Changes attributes but the size; all of them or none.
pub(in crate::fs) async fn set(
    parts: &Parts,
    ino: InodeNo,
    change: AttributeChange,
) -> Result<Attributes, FsError> {
    let now = stat(parts, ino).await?;
    if parts.config.posix_metadata {
        return set_stored(parts, ino, change, now).await;
    }
    let is_stored = || parts.staged.of(ino).is_some_and(|it| !it.file.is_changed());
    if let Some(progress) = parts.namespace.progress(ino)
        && (parts.namespace.is_removed(ino) || !is_stored())
    {
        return set_while_written(parts, ino, &change, &progress).await;
    }
    if !touches(&change, &now)? {
        return Ok(now);
    }
    permit(&parts.config, Change::Overwrite)?;
    let name = parts.namespace.change_inode(ino)?;
    let object = object(parts, &name).await?;
    let _held = replace_headers(parts, name, &object).await?;
    if let Some(progress) = parts.namespace.progress(ino) {
        progress.advance(progress.size(), parts.wall_now());
    }
    stat(parts, ino).await
}

/// Whether the file has set-ID bits that a change of its content or owner takes from it.
pub(in crate::fs) fn has_set_id(parts: &Parts, ino: InodeNo) -> bool {
    let mode = || parts.namespace.stored_mode(ino);
    parts.config.posix_metadata && mode().is_some_and(|mode| without_set_id(mode) != mode)
}

/// Takes those bits from the file.
pub(in crate::fs) async fn drop_set_id(parts: &Parts, ino: InodeNo) -> Result<(), FsError> {
    let change = AttributeChange {
        drops_set_id: true,
        ..AttributeChange::default()
    };
    let now = stat(parts, ino).await?;
    set_stored(parts, ino, change, now).await.map(drop)
}

/// Stores the attributes in metadata (`--posix-metadata`): of the object, or of a directory's
/// marker.
async fn set_stored(
    parts: &Parts,
    ino: InodeNo,
    change: AttributeChange,
    now: Attributes,
) -> Result<Attributes, FsError> {
    let progress = parts.namespace.progress(ino);
    let mut posix = PosixAttributes::of_attributes(&now);
    let wall = parts.wall_now();
    apply(&change, wall, &mut posix);
    let is_owner_set = change.uid.is_some() || change.gid.is_some();
    if now.kind == FileKind::File && (change.drops_set_id || is_owner_set) {
        posix.mode = posix.mode.map(without_set_id);
    }
    if posix == PosixAttributes::of_attributes(&now) {
        return Ok(now);
    }
    // The object of a written file gets the time of its writing, unless an application sets
    // another one.
    let told = PosixAttributes {
        mtime: posix
            .mtime
            .filter(|_| progress.is_none() || change.mtime.is_some()),
        ..posix
    };
    // A record of the change has the time as well.
    let written = progress.as_ref().map(|progress| progress.mtime());
    if let (Some(progress), Some(mtime)) = (&progress, told.mtime) {
        progress.set_mtime(mtime);
    }
    let change_object = change_headers(parts, ino, |headers| {
        told.store(now.kind, wall, &mut headers.metadata);
        Ok(())
    });
    let changed = match parts.namespace.is_removed(ino) {
        // No object will have them: they go with the open file.
        true => Ok(None),
        false => change_object.await,
    };
    if let (Err(_), Some(progress), Some(written)) = (&changed, &progress, written) {
        progress.set_mtime(written);
    }
    let _held = changed?;
    parts.namespace.set_posix(
        ino,
        PosixAttributes {
            mtime: posix.mtime.filter(|_| progress.is_none()),
            ..posix
        },
    );
    if change.mtime.is_some() {
        parts.namespace.set_directory_time(ino);
    }
    stat(parts, ino).await
}

/// Sets the time that a written file shows until it is stored, as in mountpoint-s3.
///
/// Programs that copy files set it before they close them.
async fn set_while_written(
    parts: &Parts,
    ino: InodeNo,
    change: &AttributeChange,
    progress: &Progress,
) -> Result<Attributes, FsError> {
    let now = stat(parts, ino).await?;
    let without_times = AttributeChange {
        atime: None,
        mtime: None,
        ..*change
    };
    touches(&without_times, &now)?;
    let mut posix = PosixAttributes::of_attributes(&now);
    apply(change, parts.wall_now(), &mut posix);
    if let Some(mtime) = posix.mtime {
        progress.set_mtime(mtime);
    }
    stat(parts, ino).await
}

/// Applies `change` to the POSIX attributes of an object. The time of the last access is not kept.
fn apply(change: &AttributeChange, now: SystemTime, posix: &mut PosixAttributes) {
    posix.mode = change.mode.or(posix.mode);
    posix.uid = change.uid.or(posix.uid);
    posix.gid = change.gid.or(posix.gid);
    if let Some(time) = change.mtime {
        posix.mtime = time.time(now);
    }
}

/// A mode without the bits that Linux takes from a file when a user without privileges changes it,
/// and with its owner: set-user-ID, and set-group-ID where the group may execute it.
fn without_set_id(mode: u16) -> u16 {
    let group = match mode & 0o010 {
        0 => 0,
        _ => 0o2000,
    };
    mode & !(0o4000 | group)
}

/// Whether the time of the last change is to become now, where attributes are not stored.
///
/// # Errors
/// The change cannot be kept.
fn touches(change: &AttributeChange, now: &Attributes) -> Result<bool, FsError> {
    let differs = |wanted: Option<u32>, is: u32| wanted.is_some_and(|wanted| wanted != is);
    if change.mode.is_some_and(|mode| mode != now.mode) {
        return Err(not_kept(
            "the mode (--file-mode and --dir-mode set it for all)",
        ));
    }
    if differs(change.uid, now.uid) || differs(change.gid, now.gid) {
        return Err(not_kept("the owner (--uid and --gid set it for all)"));
    }
    match (change.mtime, change.atime) {
        (None, None) => Ok(false),
        (Some(TimeChange::Now), _) if now.kind == FileKind::File => Ok(true),
        (Some(time), _) if time.is(now.mtime) => Ok(false),
        // The kernel shows the time of the last change as that of the last access.
        (None, Some(time)) if time.is(now.mtime) => Ok(false),
        _ => Err(not_kept("the time")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_a_change_comes_to() {
        let now = Attributes {
            ino: InodeNo(2),
            kind: FileKind::File,
            size: 100,
            mtime: SystemTime::UNIX_EPOCH + Duration::new(50, 7),
            mode: 0o644,
            nlink: 1,
            uid: 10,
            gid: 20,
            ttl: Duration::ZERO,
        };
        let none = AttributeChange::default();
        #[track_caller]
        fn check(change: AttributeChange, now: &Attributes, expected: Result<bool, &str>) {
            match (touches(&change, now), expected) {
                (Ok(wanted), Ok(expected)) => assert_eq!(wanted, expected, "{change:?}"),
                (Err(FsError::NotPermitted(text)), Err(part)) => {
                    assert!(text.contains(part), "{change:?}: {text}");
                }
                (other, expected) => panic!("{change:?}: {other:?}, not {expected:?}"),
            }
        }
        let mode = |mode| AttributeChange {
            mode: Some(mode),
            ..none
        };
        let mtime = |mtime| AttributeChange {
            mtime: Some(mtime),
            ..none
        };
        let owner = |uid, gid| AttributeChange { uid, gid, ..none };
        let at = |seconds, nanos| TimeChange::At { seconds, nanos };
        check(none, &now, Ok(false));
        check(mode(0o644), &now, Ok(false));
        check(mode(0o600), &now, Err("--posix-metadata"));
        check(owner(Some(10), Some(20)), &now, Ok(false));
        check(owner(Some(11), None), &now, Err("--posix-metadata"));
        check(owner(None, Some(21)), &now, Err("--uid and --gid"));
        check(mtime(TimeChange::Now), &now, Ok(true));
        check(mtime(at(50, 7)), &now, Ok(false));
        check(mtime(at(50, 8)), &now, Err("--posix-metadata"));
        check(mtime(at(-50, 7)), &now, Err("--posix-metadata"));
        let accessed = AttributeChange {
            atime: Some(TimeChange::Now),
            ..none
        };
        check(accessed, &now, Err("--posix-metadata"));
        let directory = Attributes {
            kind: FileKind::Directory,
            ..now
        };
        check(mtime(TimeChange::Now), &directory, Err("--posix-metadata"));
    }
}
