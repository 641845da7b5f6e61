//! The part of a [`Writer`] that fills with zeros: gaps in front of a write, and a length that was
//! set.
//!
//! S3 stores no holes. Zeros are taken as if the application had written them, piece by piece and
//! with the same memory, so a gap costs what its bytes cost; [`GAP_BYTES_MAX`] bounds that. A
//! length that was set is only remembered: bytes may still be written below it, and what nothing
//! was written to is filled when the file is closed. What stands behind a gap whose write was
//! interrupted is not what the application made of the file, so such a file is not stored.
//!
//! Files that are appended to have no gaps: their writes begin where the kernel believes the end to
//! be, which may be another one than the object's.

#[cfg(test)]
mod tests;

use super::state::{Need, Sink, Stage};
use super::writer::Writer;
use crate::config::limits::{GAP_BYTES_MAX, WRITE_SIZE_MAX};
use crate::operation::FsError;
use crate::write::types::Stored;

impl Writer {
    /// The file is to have `len` bytes at least, zeros where nothing is written (`ftruncate`,
    /// `fallocate`). It may be less than a length that was set before, but not than what was
    /// written.
    pub async fn set_len(&self, len: u64) -> Result<(), FsError> {
        let mut sink = self.sink.lock().await;
        loop {
            if let Some(error) = self.failure.get() {
                return Err(error);
            }
            self.look(&mut sink);
            let Stage::Storing(settled) = &sink.stage else {
                break;
            };
            let settled = settled.clone();
            drop(settled.wait().await);
        }
        if let Err(error) = self.check_len(&sink, len) {
            sink.refused_len = Some(error.clone());
            return Err(error);
        }
        if len == sink.len() {
            return Ok(());
        }
        self.resume(&mut sink)?;
        sink.refused_len = None;
        sink.len_set = len;
        self.progress.advance(sink.len(), self.context.clock.wall());
        Ok(())
    }

    fn check_len(&self, sink: &Sink, len: u64) -> Result<(), FsError> {
        if len < sink.end {
            return Err(FsError::NotPermitted(
                "a file cannot be cut while it is being written".to_owned(),
            ));
        }
        if len > sink.end && !sink.takes_gaps {
            return Err(FsError::NotPermitted(
                "a file that is appended to grows by what is written to it alone".to_owned(),
            ));
        }
        let most = self.context.plan.total();
        if len > most {
            return Err(FsError::TooLarge(format!(
                "{}: {len} bytes, where a file can have {} GiB",
                self.key,
                most >> 30
            )));
        }
        Ok(())
    }

    /// The file was opened for reading, too. Called before anything is written.
    pub fn opened_for_both(&self) {
        if let Ok(mut sink) = self.sink.try_lock() {
            sink.is_for_both = true;
        }
    }

    /// Fills the file up to the length that was set, and has the object made of it; returns when
    /// the bucket holds it.
    pub async fn finish(&self) -> Result<Stored, FsError> {
        {
            let mut sink = self.sink.lock().await;
            if sink.end < sink.len_set && self.failure.get().is_none() {
                let len = sink.len_set;
                self.fill_to(&mut sink, len).await?;
            }
        }
        self.store().await
    }

    /// Takes zeros up to `to`.
    pub(in crate::write) async fn fill_to(&self, sink: &mut Sink, to: u64) -> Result<(), FsError> {
        let gap = to - sink.end;
        if sink.zeros + gap > GAP_BYTES_MAX {
            let error = FsError::TooLarge(format!(
                "{}: a gap of {gap} bytes behind {} would be stored as zeros, and a file may have {} GiB of those",
                self.key,
                sink.end,
                GAP_BYTES_MAX >> 30
            ));
            self.fail(sink, &error);
            return Err(error);
        }
        if sink.zeros < GAP_NOTED && sink.zeros + gap >= GAP_NOTED {
            tracing::warn!(key = %self.key, offset = sink.end, len = gap, "{GAP}");
        } else if sink.zeros == 0 {
            tracing::info!(key = %self.key, offset = sink.end, len = gap, "{GAP}");
        }
        while sink.end < to {
            let written = sink.written;
            let len = (to - sink.end).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..usize::try_from(len).expect("it is a piece")];
            let taken = self.take_in_turn(sink, sink.end, zeros).await;
            sink.written = written;
            taken?;
            sink.zeros += len;
        }
        Ok(())
    }

    /// Why a file of which nothing is missing any more must not be stored.
    pub(in crate::write) fn check_whole(&self, sink: &mut Sink) -> Result<(), FsError> {
        let is_empty_and_new = sink.is_new && sink.len() == 0;
        let refused = sink.refused_len.take().filter(|_| is_empty_and_new);
        let error = if sink.end > sink.written.max(sink.len_set) {
            FsError::NotSequential(format!(
                "{}: a write behind a gap at {} was interrupted: the file would end with zeros that nobody wrote",
                self.key, sink.written
            ))
        } else if let Some(refused) = refused {
            // The empty object of a file that was to have bytes would be in the way of the next
            // attempt.
            refused
        } else {
            return Ok(());
        };
        self.fail(sink, &error);
        Err(error)
    }
}

impl Sink {
    /// The length of the file.
    pub(in crate::write) fn len(&self) -> u64 {
        self.end.max(self.len_set)
    }

    /// What a write of `len` bytes at `offset`, ahead of the end, needs first. This alone says what
    /// is a gap.
    pub(in crate::write) fn ahead(&self, offset: u64, len: usize) -> Option<Need> {
        // Who makes a file long by its last byte is about to map it, if it can be read as well
        // (`numpy.memmap`).
        let is_to_be_mapped =
            self.is_for_both && self.end == 0 && offset > self.len_set && len == 1;
        let is_gap = offset > self.end && len > 0 && self.takes_gaps && !is_to_be_mapped;
        is_gap.then_some(Need::Gap)
    }
}

const GAP: &str = "a gap is filled with zeros, which are stored as any bytes: S3 has no holes";

/// Zeros of a file that are worth a warning: they take time and money.
const GAP_NOTED: u64 = 64 << 20;

/// What a gap holds, a piece at a time.
static ZEROS: [u8; WRITE_SIZE_MAX] = [0; WRITE_SIZE_MAX];
