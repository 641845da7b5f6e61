//! Changes of the bytes of staged files.

use std::ops::Range;

use bytes::Bytes;

use crate::fs::FileSystem;
use crate::fs::permission::{Change, permit};
use crate::handle::{OpenStaged, StagedFiles, StagedHandle};
use crate::operation::{AllocateMode, AttributeChange, FsError, InodeNo};
use crate::write::CopiedRange;

impl FileSystem {
    /// Writes `data` at `offset`.
    pub(in crate::fs) async fn write_staged(
        &self,
        handle: &StagedHandle,
        offset: u64,
        data: Bytes,
    ) -> Result<(), FsError> {
        let open = &handle.open;
        if !handle.writes {
            return Err(FsError::BadHandle);
        }
        if offset < open.file.size() {
            self.permit_change_of(open)?;
        }
        open.written();
        let written = open.file.write(offset, data).await;
        if written.is_err() {
            // The kernel may keep the page of a mapping as the application wrote it.
            self.namespace.write_refused(open.ino);
        }
        written?;
        match handle.is_synchronous {
            true => open.file.commit().await,
            false => Ok(()),
        }
    }

    /// As [`Self::write_staged`], if that needs no waiting; `None` otherwise, and then nothing has
    /// changed.
    pub(in crate::fs) fn write_staged_now(
        &self,
        handle: &StagedHandle,
        offset: u64,
        data: &[u8],
    ) -> Option<Result<(), FsError>> {
        let open = &handle.open;
        if !handle.writes {
            return Some(Err(FsError::BadHandle));
        }
        if handle.is_synchronous {
            return None;
        }
        if offset < open.file.size()
            && let Err(error) = self.permit_change_of(open)
        {
            return Some(Err(error));
        }
        let written = open.file.write_now(offset, data)?;
        open.written();
        if written.is_err() {
            self.namespace.write_refused(open.ino);
        }
        Some(written)
    }

    /// Has the server copy `source` to the end of a file, which is at `offset`. Returns the number
    /// of copied bytes.
    pub(in crate::fs) async fn copy_staged(
        &self,
        handle: &StagedHandle,
        offset: u64,
        source: CopiedRange,
    ) -> Result<u64, FsError> {
        let open = &handle.open;
        if !handle.writes {
            return Err(FsError::BadHandle);
        }
        let copied = open.file.copy(offset, source).await?;
        open.written();
        Ok(copied)
    }

    /// Sets the length of the file `ino` to `len`, as a `change` of its attributes asks: by an open
    /// handle, or by its path. Then the change is stored, or durable with write-back, when this
    /// returns.
    pub(in crate::fs) async fn set_staged_len(
        &self,
        files: &StagedFiles,
        ino: InodeNo,
        (len, change): (u64, &AttributeChange),
    ) -> Result<(), FsError> {
        if let Some(handle) = change.handle {
            let file = self.files.get(handle)?;
            let handle = file.staged().filter(|handle| handle.writes);
            let open = &handle.ok_or(FsError::BadHandle)?.open;
            self.permit_change_of(open)?;
            open.written();
            return open.file.set_len(len).await;
        }
        permit(&self.write, Change::Overwrite)?;
        let opening = match self.share_staged(files, ino).await? {
            Some(opening) => opening,
            None => {
                // A rename or a removal of the name waits until the file has it.
                let _name = self.namespace.change_inode(ino)?;
                self.begin_staged(files, ino, len == 0).await?
            }
        };
        let open = opening.open();
        open.file.set_len(len).await?;
        if change.drops_set_id && self.has_set_id(ino) {
            self.drop_set_id(ino).await?;
        }
        open.file.commit().await
    }

    /// `fallocate` of a staged file.
    pub(in crate::fs) async fn allocate_staged(
        &self,
        handle: &StagedHandle,
        range: Range<u64>,
        mode: AllocateMode,
    ) -> Result<(), FsError> {
        let open = &handle.open;
        if !handle.writes {
            return Err(FsError::BadHandle);
        }
        match mode {
            AllocateMode::Reserve { keeps_size } => {
                open.written();
                open.file.allocate(range, keeps_size).await
            }
            AllocateMode::Zero { keeps_size } => {
                self.permit_change_of(open)?;
                open.written();
                open.file.zero(range, keeps_size).await
            }
        }
    }

    /// Whether bytes that the file has may be changed.
    fn permit_change_of(&self, open: &OpenStaged) -> Result<(), FsError> {
        match open.is_new {
            true => Ok(()),
            false => permit(&self.write, Change::Overwrite),
        }
    }
}
