//! The part of a [`Writer`] that has the server copy, and that says what the object carries.
//!
//! A copy is sent as late as can be: what follows may be part of it, and a file that is one object's copy is one request.
//! What the object is to carry goes with the request that begins it; what was said later is put to it by a copy of it onto
//! itself, so that each is sent once, however often it was changed.

use std::sync::Arc;

use mountpoint_client::types::{ETag, ObjectHeaders, PutCondition};

use super::background::Settled;
use super::checksum::RunningChecksum;
use super::copied::Copied;
use super::front::{Front, Stage};
use super::memory::{Ask, least};
use super::upload::Upload;
use super::writer::{Stored, Writer};
use crate::config::limits::{UPLOAD_PART_MIN, UPLOAD_PARTS_MAX, WRITE_SIZE_MAX};
use crate::operation::{FsError, PosixAttributes};

impl Writer {
    /// Has the server copy `source` behind what was taken so far, which ends at `offset`. Nothing is sent before the file
    /// goes on or is closed.
    ///
    /// [`FsError::Unsupported`] if its bytes had better be read and written.
    pub async fn copy(&self, offset: u64, source: Copied) -> Result<(), FsError> {
        let mut front = self.front.lock().await;
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            front.look(&self.key);
            match &front.stage {
                Stage::Storing(settled) => {
                    let settled = settled.clone();
                    drop(settled.wait().await);
                }
                Stage::Stored(_) => return Err(AS_BYTES),
                Stage::Open if offset != front.end => return Err(AS_BYTES),
                Stage::Open => break,
            }
        }
        let len = source.len();
        let is_next = front.held() == 0;
        let goes_on = match &mut front.base {
            Some(base) => is_next && base.extend(&source),
            None => false,
        };
        if !goes_on {
            self.begin_copying(&mut front, source)?;
        }
        self.untime(&mut front);
        front.end += len;
        self.progress.advance(front.end, self.context.clock.wall());
        Ok(())
    }

    /// Makes `source` what is copied next.
    fn begin_copying(&self, front: &mut Front, source: Copied) -> Result<(), FsError> {
        let held = front.held() as u64;
        let is_a_part = |len| len == 0 || len >= UPLOAD_PART_MIN;
        let has_checksums = front.upload.is_some() && !front.has_copies;
        let begins_whole = front.base.as_ref().is_none_or(Copied::is_a_part);
        let is_small = !source.is_a_part() && front.end > 0;
        let parts = u64::from(front.parts) + u64::from(self.copies(front)) + 2;
        let has_room = parts + self.parts_of(&source) <= u64::from(UPLOAD_PARTS_MAX);
        if has_checksums || !begins_whole || !is_a_part(held) || is_small || !has_room {
            return Err(AS_BYTES);
        }
        if front.end > 0 {
            self.upload(front, true);
            self.send_last_part(front);
        }
        front.base = Some(source);
        Ok(())
    }

    /// Reads what the file begins with, because bytes follow it and S3 takes no part so small. One that is given up while
    /// it waits has changed nothing.
    pub(super) async fn read_base(&self, front: &mut Front, base: &Copied) -> Result<(), FsError> {
        let whole = self.part_size(front)? + WRITE_SIZE_MAX;
        let size = usize::try_from(base.len()).expect("it is smaller than a part");
        let len = match &front.upload {
            None => least(size + WRITE_SIZE_MAX, whole),
            Some(_) => whole,
        };
        let least = len;
        let ask = Ask { len, least, whole };
        let mut fill = self.context.memory_for(&self.key, ask).await?;
        let mut checksum = RunningChecksum::new(self.context.config.checksum);
        let mut start = base.range.start;
        while start < base.range.end {
            let end = base.range.end.min(start + WRITE_SIZE_MAX as u64);
            let block = base.read(&self.context, start..end).await?;
            let bytes = block.bytes(0..usize::try_from(end - start).expect("it is a piece"));
            // A copy of file data: it was never here before.
            fill.append(bytes);
            checksum.update(bytes);
            start = end;
        }
        front.base = None;
        self.install(front, fill);
        if let Some(filling) = &mut front.filling {
            filling.checksum = checksum;
        }
        Ok(())
    }

    /// Changes what the object is to carry. Whether that is sent with it: else the bucket holds it already.
    pub async fn dress(
        &self,
        change: impl FnOnce(&mut ObjectHeaders) -> Result<(), FsError> + Send,
    ) -> Result<bool, FsError> {
        let mut front = self.front.lock().await;
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            front.look(&self.key);
            let Stage::Storing(settled) = &front.stage else {
                break;
            };
            let settled = settled.clone();
            drop(settled.wait().await);
        }
        change(&mut self.headers.lock())?;
        front.is_dressed_late |= front.upload.is_some();
        front.is_timed = true;
        Ok(matches!(front.stage, Stage::Open))
    }

    /// What the object is to carry from the beginning on. Called before anybody else knows the writer.
    pub fn begin_with(&self, mut headers: ObjectHeaders) {
        PosixAttributes::forget_time(&mut headers.metadata);
        *self.headers.lock() = headers;
    }

    /// The file changes now: a time that it was to have before is none any more.
    pub(super) fn untime(&self, front: &mut Front) {
        if std::mem::take(&mut front.is_timed) {
            PosixAttributes::forget_time(&mut self.headers.lock().metadata);
            front.is_dressed_late |= front.upload.is_some();
        }
    }

    /// What the object is to carry.
    #[must_use]
    pub fn headers(&self) -> ObjectHeaders {
        self.headers.lock().clone()
    }

    /// The object was replaced by one of the same bytes, which carries something else.
    pub async fn redressed(&self, etag: &ETag) {
        let mut front = self.front.lock().await;
        front.look(&self.key);
        if let Stage::Stored(stored) = &mut front.stage {
            stored.etag = etag.clone();
            if let Some(base) = &mut front.base {
                base.etag = etag.clone();
            }
        }
    }

    /// The object that the whole file is a copy of, if one request copies it.
    pub(super) fn only_copied(&self, front: &Front) -> Option<Copied> {
        let base = front.base.as_ref()?;
        let limits = self.context.config.copy_limits;
        let is_all = front.upload.is_none() && front.held() == 0 && base.is_whole();
        (is_all && base.len() <= limits.part_max.min(limits.whole_max)).then(|| base.clone())
    }

    /// Completes the upload. What it was to carry from its beginning on and was told later is put to it by a copy.
    pub(super) fn complete(&self, front: &mut Front, settled: Settled<Result<Stored, FsError>>) {
        let upload = self.upload(front, false);
        let condition = front.condition.clone();
        let late = std::mem::take(&mut front.is_dressed_late).then(|| self.headers());
        let (context, key, failure) = (
            Arc::clone(&self.context),
            self.key.clone(),
            Arc::clone(&self.failure),
        );
        self.run(settled, async move {
            let stored = upload.complete(condition).await?;
            let Some(headers) = late else {
                return Ok(stored);
            };
            let unchanged = PutCondition::Match(stored.etag.clone());
            let itself = Copied::whole(&key, stored);
            if itself.len() <= context.config.copy_limits.whole_max {
                return context.copy(&itself, &key, headers, unchanged).await;
            }
            let again = Upload::begin(&context, &key, &failure, true, headers);
            for range in itself.parts(context.config.copy_limits.part_max) {
                let part = itself.clone();
                again.copy(Copied { range, ..part });
            }
            again.complete(unchanged).await
        });
    }

    /// Parts that copying what is to be copied will take.
    pub(super) fn copies(&self, front: &Front) -> u16 {
        let parts = front.base.as_ref().map_or(0, |base| self.parts_of(base));
        u16::try_from(parts).unwrap_or(u16::MAX / 2)
    }

    fn parts_of(&self, copied: &Copied) -> u64 {
        copied
            .parts(self.context.config.copy_limits.part_max)
            .count() as u64
    }
}

/// What is told of a copy that the application, or the kernel for it, makes by reading and writing.
const AS_BYTES: FsError = FsError::Unsupported("this range is not copied on the server");
