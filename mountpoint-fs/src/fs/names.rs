//! Operations that change names: unlink, rmdir, mkdir, rename.
//!
//! Each checks its permission, changes the bucket, and updates the names. A future that is dropped
//! while it waits may have changed the bucket; the names are then looked up again.

use std::ffi::OsStr;

use mountpoint_client::types::{ETag, ObjectHeaders};

use super::FileSystem;
use super::permission::{Change, permit};
use super::staged::{HeldFile, VAIN, renamed_key};
use crate::mutate::{Removal, Target, marker};
use crate::namespace::{DirectoryMarker, Found, NameChange, Version};
use crate::operation::{
    Entry, FileKind, FsError, InodeNo, Maker, PosixAttributes, RenameMode, Stop,
};
use crate::write::Adopts;

impl FileSystem {
    /// Removes a file.
    pub async fn unlink(&self, directory: InodeNo, name: &OsStr) -> Result<(), FsError> {
        permit(&self.write, Change::Delete)?;
        let change = self.namespace.removal(directory, name)?;
        let (ino, _) = change.file()?;
        let staged = self.hold_staged(Some(ino), VAIN).await;
        let noted = match &staged {
            // Nothing was sent, so there is nothing to delete.
            Some(file) if !file.may_have_object() => {
                file.remove().await?;
                Ok(())
            }
            Some(file) => {
                file.outlive_object().await;
                self.mutator.delete(change.key()).await?;
                file.removed().await
            }
            None => {
                self.mutator.delete(change.key()).await?;
                Ok(())
            }
        };
        change.removed();
        self.end_staged(ino);
        noted
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, directory: InodeNo, name: &OsStr) -> Result<(), FsError> {
        permit(&self.write, Change::MakeDirectory)?;
        let change = self.namespace.change(directory, name)?;
        match change.known() {
            Some((_, Found::Directory)) => {}
            Some((_, Found::File(_))) => return Err(FsError::NotADirectory),
            None => return Err(FsError::NotFound),
        }
        if !change.seems_empty() {
            return Err(FsError::NotEmpty);
        }
        if let Some((ino, _)) = change.known()
            && !self.namespace.written_below(*ino).is_empty()
        {
            return Err(FsError::NotEmpty);
        }
        let prefix = change.prefix()?;
        let staged = self.hold_marker(&prefix).await;
        // A removal that had emptied a directory below this one has updated the names by now, or is
        // still in flight.
        let may_remove = |has_marker| match (change.seems_empty(), has_marker || staged.is_some()) {
            (false, _) => Err(FsError::NotEmpty),
            (true, true) => permit(&self.write, Change::RemoveDirectory),
            (true, false) => Ok(()),
        };
        let removal = self.mutator.remove_directory(&prefix, may_remove);
        if let Removal::Holds(key) = removal.await? {
            change.tell_of_unseen(&key);
            return Err(FsError::NotEmpty);
        }
        self.mutator.forget_renames_of(&prefix).await;
        let noted = match &staged {
            Some(marker) => self.removed_marker(&prefix, marker).await,
            None => Ok(()),
        };
        change.removed();
        noted
    }

    /// Makes a directory. A marker object, or an entry that this mount remembers until the
    /// directory has a file.
    pub async fn make_directory(
        &self,
        directory: InodeNo,
        name: &OsStr,
        mode: u16,
    ) -> Result<Entry, FsError> {
        self.make_directory_for(directory, name, mode, None).await
    }

    /// As [`Self::make_directory`], for `maker` if that is not the mount's user.
    pub async fn make_directory_for(
        &self,
        directory: InodeNo,
        name: &OsStr,
        mode: u16,
        maker: Option<Maker>,
    ) -> Result<Entry, FsError> {
        permit(&self.write, Change::MakeDirectory)?;
        let change = self.namespace.change(directory, name)?;
        let prefix = change.prefix()?;
        if change.known().is_some() {
            return Err(FsError::Exists);
        }
        self.mutator.forget_renames_of(&prefix).await;
        let posix = self.posix_of_directory(directory, mode, maker);
        // The mode is stored at once: a directory of `mkdtemp` belongs to its creator alone.
        let is_usual = posix.mode == Some(self.dir_mode)
            && (posix.uid, posix.gid) == (Some(self.owner.0), Some(self.owner.1));
        let has_own_mode = self.write.posix_metadata && !is_usual;
        // Of two hosts that make the directory, the marker is that of one.
        let is_exclusive = self.exclusive_files().is_some();
        let is_marked = self.mutator.makes_markers() || has_own_mode || is_exclusive;
        if !is_marked {
            let (entry, _) = change.made_directory(DirectoryMarker::None, None)?;
            return Ok(entry);
        }
        let (headers, carried) = self.new_directory(posix);
        // With markers, `mkdir` tells which of two hosts has made the directory.
        let may_wait = !is_exclusive && (change.is_own() || !self.mutator.makes_markers());
        if let Some(files) = self.marker_staging(may_wait) {
            // Another host's directory does not have the mode.
            let adopts = match has_own_mode {
                true => Adopts::Nothing,
                false => Adopts::Any,
            };
            let marker = (headers, carried);
            return self
                .make_staged_directory(files, change, marker, adopts)
                .await;
        }
        if change.is_unasked() {
            self.writing.check_absent(&marker(&prefix)?).await?;
        }
        self.mutator.make_marker(&prefix, headers).await?;
        let (entry, _) = change.made_directory(DirectoryMarker::Stored, carried)?;
        Ok(entry)
    }

    /// The attributes of a directory that `maker` makes in `parent`. The set-group-ID bit is passed
    /// on.
    fn posix_of_directory(
        &self,
        parent: InodeNo,
        mode: u16,
        maker: Option<Maker>,
    ) -> PosixAttributes {
        let passed = match self.namespace.passed_group(parent) {
            Some(_) => 0o2000,
            None => 0,
        };
        self.posix_in(parent, Some(mode | passed), maker)
    }

    /// The headers of a new directory's marker, and what they say of it with `--posix-metadata`.
    fn new_directory(&self, posix: PosixAttributes) -> (ObjectHeaders, Option<PosixAttributes>) {
        let mut headers = ObjectHeaders::default();
        if !self.write.posix_metadata {
            return (headers, None);
        }
        let now = self.wall_now();
        let posix = PosixAttributes {
            mtime: Some(now),
            ..posix
        };
        posix.store(FileKind::Directory, now, &mut headers.metadata);
        headers.content_type = Some("application/x-directory".to_owned());
        (headers, Some(posix))
    }

    /// Gives a file or a directory another name.
    ///
    /// [`FsError::Interrupted`] if `stop` was asked for before the end; then none of its requests
    /// is in flight.
    pub async fn rename(
        &self,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        mode: RenameMode,
        stop: &Stop,
    ) -> Result<(), FsError> {
        permit(&self.write, Change::Rename)?;
        if mode == RenameMode::KeepExisting {
            self.store_to_claim(from, stop).await?;
        }
        // Taken before the check for writers: no writer begins there from now on.
        let _taken = self.namespace.taken_by_rename(from, to, stop).await?;
        let child = |(directory, name)| self.namespace.known_child(directory, name);
        let held = self.hold_both((child(from), child(to)), stop).await?;
        let from = self.namespace.change_locked(from.0, from.1)?;
        let to = self.namespace.change_locked(to.0, to.1)?;
        if from.key() == to.key() {
            return Ok(());
        }
        match from.known().cloned() {
            Some((_, Found::File(version))) => {
                self.rename_file(from, to, (version, mode), (stop, held))
                    .await
            }
            Some((_, Found::Directory)) => self.rename_directory(from, to, mode, stop).await,
            None => Err(FsError::NotFound),
        }
    }

    async fn rename_file(
        &self,
        from: NameChange<'_>,
        to: NameChange<'_>,
        (version, mode): (Version, RenameMode),
        (stop, (source, replaced)): (&Stop, (Option<HeldFile>, Option<HeldFile>)),
    ) -> Result<(), FsError> {
        let may_replace = permit(&self.write, Change::Overwrite);
        let target = match (to.known(), mode) {
            (Some((_, Found::Directory)), _) => return Err(FsError::IsADirectory),
            (Some(_), RenameMode::KeepExisting) => return Err(FsError::Exists),
            (Some(_), RenameMode::Replace) => {
                may_replace.clone()?;
                Target::Any
            }
            (None, RenameMode::Replace) if may_replace.is_ok() => Target::Any,
            (None, _) => Target::Absent,
        };
        self.mutator.forget_renames_from_above(to.key()).await;
        if let Some(replaced) = &replaced {
            replaced.outlive_object().await;
        }
        if let Some(file) = source.as_ref().filter(|file| file.base().is_none()) {
            self.rename_unstored(file, (&to, &target), replaced.as_ref())
                .await?;
            from.moved(to, Some(version))?;
            self.end_replaced(replaced).await;
            return Ok(());
        }
        // S3 was not asked for this name just now.
        let is_unasked = to.known().is_none() && to.is_own();
        let target = match is_unasked {
            true => Target::Absent,
            false => target,
        };
        let moved = self
            .mutator
            .rename(from.key(), to.key(), &target, stop)
            .await;
        let moved = match moved {
            // Another client has made it meanwhile.
            Err(FsError::Exists) if mode == RenameMode::Replace => {
                may_replace?;
                return Err(FsError::Exists);
            }
            moved => moved?,
        };
        let is_known = |source: &ETag| source.matches(&version.etag);
        if !moved.source.as_ref().is_none_or(is_known) {
            for file in source.iter().chain(&replaced) {
                file.lost("another client changed the object during its rename")
                    .await;
            }
            from.moved_unseen(to);
            return Ok(());
        }
        let version = Version {
            etag: moved.etag.unwrap_or(version.etag),
            size: moved.size.unwrap_or(version.size),
            ..version
        };
        let noted = match &source {
            Some(file) => file.renamed(to.key(), &version).await,
            None => Ok(()),
        };
        from.moved(to, Some(version))?;
        self.end_replaced(replaced).await;
        noted
    }

    /// Ends the staged file whose name another one has now.
    async fn end_replaced(&self, file: Option<HeldFile>) {
        if let Some(file) = file {
            file.replaced().await;
            self.end_staged(file.open.ino);
        }
    }

    async fn rename_directory(
        &self,
        from: NameChange<'_>,
        to: NameChange<'_>,
        mode: RenameMode,
        stop: &Stop,
    ) -> Result<(), FsError> {
        match (to.known(), mode) {
            (Some((_, Found::File(_))), _) => return Err(FsError::NotADirectory),
            (Some(_), RenameMode::KeepExisting) => return Err(FsError::Exists),
            _ if to.has_kept_children() => return Err(FsError::NotEmpty),
            _ => {}
        }
        let mut below = Vec::new();
        for change in [&from, &to] {
            if let Some((ino, _)) = change.known() {
                below.push(self.hold_below(*ino, stop).await?);
            }
        }
        if below.get(1).is_some_and(|files| !files.is_empty()) {
            return Err(FsError::NotEmpty);
        }
        let (old, new) = (from.prefix()?, to.prefix()?);
        for file in below.iter().flatten() {
            // The bucket may lack the file, and with it the name that is too long.
            renamed_key(&file.open.file.key(), &old, &new).ok_or(FsError::NameTooLong)?;
        }
        for prefix in [&old, &new] {
            self.settle_markers(prefix, stop).await?;
        }
        let seems_new = to.known().is_none();
        let moved = self.mutator.rename_directory((&old, &new), seems_new, stop);
        let renamed = moved.await?;
        let noted = match below.first() {
            Some(files) => self.renamed_above(files, &old, &new).await,
            None => Ok(()),
        };
        from.moved(to, None)?;
        for one in renamed {
            self.namespace
                .renamed_version(&one.key, &one.before, &one.now);
        }
        noted
    }
}
