//! chmod, chown, utimes and truncate.
//!
//! S3 itself keeps a file's size and its time of writing. A change that leaves an attribute as it
//! is succeeds; one that cannot be kept fails, and the error names the flag that would keep it.

use std::ops::Range;
use std::time::SystemTime;

use crate::fs::FileSystem;
use crate::fs::permission::{Change, not_kept, permit};
use crate::namespace::Version;
use crate::operation::{
    AllocateMode, AttributeChange, Attributes, FileKind, FsError, HandleNo, InodeNo,
    PosixAttributes, Progress, TimeChange,
};

impl FileSystem {
    /// Changes attributes; all of them or none.
    pub async fn set_attributes(
        &self,
        ino: InodeNo,
        change: AttributeChange,
    ) -> Result<Attributes, FsError> {
        permit(&self.write, Change::Attributes)?;
        let mut change = change;
        if self.has_no_writer(ino)
            && let Some(len) = change.size.take()
        {
            self.set_staged_len(&self.staged, ino, (len, &change))
                .await?;
        }
        let mut now = self.attributes(ino).await?;
        if self.set_len(&change, now.size).await? {
            change.size = None;
            now = self.attributes(ino).await?;
        }
        if self.write.posix_metadata {
            return self.set_stored_attributes(ino, change, now).await;
        }
        let is_stored = || {
            self.staged_file(ino)
                .is_some_and(|it| !it.file.is_changed())
        };
        if let Some(progress) = self.namespace.progress(ino)
            && !is_stored()
        {
            return self.set_while_written(ino, &change, &progress).await;
        }
        let wanted = SizeEffect::of(&change, &now)?;
        match wanted {
            SizeEffect::Nothing => return Ok(now),
            SizeEffect::Touch | SizeEffect::Shorten(_) => permit(&self.write, Change::Overwrite)?,
        }
        if let SizeEffect::Shorten(size) = wanted {
            return self.shorten(ino, size, None).await;
        }
        let name = self.namespace.change_inode(ino)?;
        let object = self.object(&name).await?;
        let open = self.writer(ino);
        let _held = self.replace_headers(name, &object, open.as_deref()).await?;
        if let Some(progress) = self.namespace.progress(ino) {
            progress.advance(progress.size(), self.wall_now());
        }
        self.attributes(ino).await
    }

    /// Whether the file has set-ID bits that a change of its content or owner takes from it.
    #[must_use]
    pub fn has_set_id(&self, ino: InodeNo) -> bool {
        let mode = || self.namespace.stored_mode(ino);
        self.write.posix_metadata && mode().is_some_and(|mode| without_set_id(mode) != mode)
    }

    /// Takes those bits from the file.
    pub async fn drop_set_id(&self, ino: InodeNo) -> Result<(), FsError> {
        let change = AttributeChange {
            drops_set_id: true,
            ..AttributeChange::default()
        };
        let now = self.attributes(ino).await?;
        self.set_stored_attributes(ino, change, now).await.map(drop)
    }

    /// `ftruncate` of a written or empty file to at least its length. Returns whether it was that.
    ///
    /// The server cuts a stored file instead.
    async fn set_len(&self, change: &AttributeChange, len_now: u64) -> Result<bool, FsError> {
        let (Some(handle), Some(len)) = (change.handle, change.size) else {
            return Ok(false);
        };
        let file = self.files.get(handle)?;
        let Ok(open) = file.writing() else {
            return Ok(false);
        };
        if len <= len_now && !self.namespace.is_being_written(open.ino) {
            return Ok(false);
        }
        open.writer.set_len(len).await?;
        if len != len_now {
            open.written();
        }
        Ok(true)
    }

    /// Whether no open file is written one byte after the other under this inode.
    fn has_no_writer(&self, ino: InodeNo) -> bool {
        self.staged_file(ino).is_some() || !self.namespace.is_being_written(ino)
    }

    /// `fallocate`. Without flags the file has at least the bytes of `range` then; only a staged
    /// file takes flags.
    ///
    /// [`FsError::Unsupported`] for a stored file with content: S3 cannot reserve space.
    pub async fn allocate(
        &self,
        handle: HandleNo,
        range: Range<u64>,
        mode: AllocateMode,
    ) -> Result<(), FsError> {
        let file = self.files.get(handle)?;
        if let Some(handle) = file.staged() {
            return self.allocate_staged(handle, range, mode).await;
        }
        let end = range.end;
        if mode != (AllocateMode::Reserve { keeps_size: false }) {
            return Err(FsError::Unsupported(
                "a file that is only written is made longer alone; O_RDWR takes zeros within it",
            ));
        }
        let ino = file.writing()?.ino;
        let len_now = self.attributes(ino).await?.size;
        if end <= len_now {
            return Ok(());
        }
        let change = AttributeChange {
            size: Some(end),
            handle: Some(handle),
            ..AttributeChange::default()
        };
        if self.set_len(&change, len_now).await? {
            Ok(())
        } else {
            Err(FsError::Unsupported(
                "nothing can be reserved behind an object's end",
            ))
        }
    }

    /// Stores the attributes in metadata (`--posix-metadata`): of the object, or of a directory's
    /// marker.
    async fn set_stored_attributes(
        &self,
        ino: InodeNo,
        change: AttributeChange,
        now: Attributes,
    ) -> Result<Attributes, FsError> {
        let size = AttributeChange {
            size: change.size,
            ..AttributeChange::default()
        };
        let wanted = SizeEffect::of(&size, &now)?;
        let progress = self.namespace.progress(ino);
        if progress.is_some() && wanted != SizeEffect::Nothing {
            return Err(cut_while_written());
        }
        let mut posix = PosixAttributes::of_attributes(&now);
        let wall = self.wall_now();
        apply(&change, wall, &mut posix);
        let is_owner_set = change.uid.is_some() || change.gid.is_some();
        if now.kind == FileKind::File && (change.drops_set_id || is_owner_set) {
            posix.mode = posix.mode.map(without_set_id);
        }
        let is_same = posix == PosixAttributes::of_attributes(&now);
        if is_same && wanted == SizeEffect::Nothing {
            return Ok(now);
        }
        if let SizeEffect::Shorten(size) = wanted {
            permit(&self.write, Change::Overwrite)?;
            if change.mtime.is_none() {
                posix.mtime = Some(wall);
            }
            return self.shorten(ino, size, Some((now.kind, posix))).await;
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
        let changed = self.change_headers(ino, |headers| {
            told.store(now.kind, wall, &mut headers.metadata);
            Ok(())
        });
        let changed = changed.await;
        if let (Err(_), Some(progress), Some(written)) = (&changed, &progress, written) {
            progress.set_mtime(written);
        }
        let _held = changed?;
        self.namespace.set_posix(
            ino,
            PosixAttributes {
                mtime: posix.mtime.filter(|_| progress.is_none()),
                ..posix
            },
        );
        if change.mtime.is_some() {
            self.namespace.set_directory_time(ino);
        }
        self.attributes(ino).await
    }

    /// Cuts a stored object to `size` bytes, and stores these attributes with it, if any.
    async fn shorten(
        &self,
        ino: InodeNo,
        size: u64,
        posix: Option<(FileKind, PosixAttributes)>,
    ) -> Result<Attributes, FsError> {
        let name = self.namespace.change_inode(ino)?;
        let mut object = self.object(&name).await?;
        if let Some((kind, posix)) = posix {
            posix.store(kind, self.wall_now(), &mut object.headers.metadata);
        }
        let etag = self.mutator.shorten(&object, size).await?;
        if let Some((_, posix)) = posix {
            self.namespace.set_posix(ino, posix);
        }
        let _held = name.replaced_in_place(Version {
            size,
            etag,
            // About that of the object, until S3 is asked.
            mtime: self.wall_now(),
            is_archived: false,
        })?;
        self.attributes(ino).await
    }

    /// Sets the time that a written file shows until it is stored, as in mountpoint-s3.
    ///
    /// Programs that copy files set it before they close them.
    async fn set_while_written(
        &self,
        ino: InodeNo,
        change: &AttributeChange,
        progress: &Progress,
    ) -> Result<Attributes, FsError> {
        let now = self.attributes(ino).await?;
        let without_times = AttributeChange {
            atime: None,
            mtime: None,
            ..*change
        };
        match SizeEffect::of(&without_times, &now)? {
            SizeEffect::Nothing => {}
            SizeEffect::Touch | SizeEffect::Shorten(_) => return Err(cut_while_written()),
        }
        let mut posix = PosixAttributes::of_attributes(&now);
        apply(change, self.wall_now(), &mut posix);
        if let Some(mtime) = posix.mtime {
            progress.set_mtime(mtime);
        }
        self.attributes(ino).await
    }
}

fn cut_while_written() -> FsError {
    FsError::NotPermitted("a file cannot be cut while it is being written".to_owned())
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

/// The effect of a change without stored attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SizeEffect {
    /// No change is needed.
    Nothing,
    /// The time of the last change becomes now.
    Touch,
    /// The file is cut to so many bytes.
    Shorten(u64),
}

impl SizeEffect {
    fn of(change: &AttributeChange, now: &Attributes) -> Result<Self, FsError> {
        let differs = |wanted: Option<u32>, is: u32| wanted.is_some_and(|wanted| wanted != is);
        if change.mode.is_some_and(|mode| mode != now.mode) {
            return Err(not_kept(
                "the mode (--file-mode and --dir-mode set it for all)",
            ));
        }
        if differs(change.uid, now.uid) || differs(change.gid, now.gid) {
            return Err(not_kept("the owner (--uid and --gid set it for all)"));
        }
        match change.size {
            Some(size) if now.kind == FileKind::File && size < now.size => {
                return Ok(Self::Shorten(size));
            }
            Some(size) if size > now.size => {
                return Err(FsError::NotPermitted(
                    "a file cannot be made longer but by writing at its end, when it is made or with --allow-changes, \
                     or --allow-append alone"
                        .to_owned(),
                ));
            }
            Some(_) | None => {}
        }
        match (change.mtime, change.atime) {
            (None, None) => Ok(Self::Nothing),
            (Some(TimeChange::Now), _) if now.kind == FileKind::File => Ok(Self::Touch),
            (Some(time), _) if time.is(now.mtime) => Ok(Self::Nothing),
            // The kernel shows the time of the last change as that of the last access.
            (None, Some(time)) if time.is(now.mtime) => Ok(Self::Nothing),
            _ => Err(not_kept("the time")),
        }
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
        fn check(change: AttributeChange, now: &Attributes, expected: Result<SizeEffect, &str>) {
            match (SizeEffect::of(&change, now), expected) {
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
        let size = |size| AttributeChange {
            size: Some(size),
            ..none
        };
        let mtime = |mtime| AttributeChange {
            mtime: Some(mtime),
            ..none
        };
        let owner = |uid, gid| AttributeChange { uid, gid, ..none };
        let at = |seconds, nanos| TimeChange::At { seconds, nanos };
        check(none, &now, Ok(SizeEffect::Nothing));
        check(mode(0o644), &now, Ok(SizeEffect::Nothing));
        check(mode(0o600), &now, Err("--posix-metadata"));
        check(owner(Some(10), Some(20)), &now, Ok(SizeEffect::Nothing));
        check(owner(Some(11), None), &now, Err("--posix-metadata"));
        check(owner(None, Some(21)), &now, Err("--uid and --gid"));
        check(size(100), &now, Ok(SizeEffect::Nothing));
        check(size(0), &now, Ok(SizeEffect::Shorten(0)));
        check(size(99), &now, Ok(SizeEffect::Shorten(99)));
        check(size(101), &now, Err("--allow-append"));
        check(mtime(TimeChange::Now), &now, Ok(SizeEffect::Touch));
        check(mtime(at(50, 7)), &now, Ok(SizeEffect::Nothing));
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
