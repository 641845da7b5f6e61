//! The zeros of a [`Writer`]: gaps in front of a write, and a length set by the application.
//!
//! S3 stores no holes. Zeros are taken as if the application had written them, piece by piece and
//! with the same memory, so a gap costs what its bytes cost; [`GAP_BYTES_MAX`] bounds that. A
//! length is only remembered: bytes may still be written below it, and the rest is filled when the
//! file is closed. A file with an interrupted write in a gap is not stored: its bytes are not those
//! of the application.
//!
//! Files that are appended to have no gaps: their writes begin where the kernel believes the end to
//! be, which may be another one than the object's.

#[cfg(test)]
mod tests;

use super::state::FileState;
use super::writer::Writer;
use crate::config::limits::{GAP_BYTES_MAX, WRITE_SIZE_MAX};
use crate::operation::FsError;
use crate::write::types::Stored;

impl Writer {
    /// Sets the least length, with zeros in unwritten ranges (`ftruncate`, `fallocate`).
    ///
    /// `len` may be less than an earlier length, but not less than the written bytes.
    pub async fn set_len(&self, len: u64) -> Result<(), FsError> {
        let mut state = self.state.lock().await;
        self.settled(&mut state).await?;
        if let Err(error) = self.check_len(&state, len) {
            state.extent.refused_len = Some(error.clone());
            return Err(error);
        }
        if len == state.extent.len() {
            return Ok(());
        }
        self.resume(&mut state)?;
        state.extent.refused_len = None;
        state.extent.len_set = len;
        self.progress
            .advance(state.extent.len(), self.context.clock.wall());
        Ok(())
    }

    fn check_len(&self, state: &FileState, len: u64) -> Result<(), FsError> {
        if len < state.extent.end {
            return Err(FsError::NotPermitted(
                "a file cannot be cut while it is being written".to_owned(),
            ));
        }
        if len > state.extent.end && !state.extent.takes_gaps {
            return Err(FsError::NotPermitted(
                "a file that is appended to grows by writes alone".to_owned(),
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

    /// Fills the file up to its set length, and stores it. Returns when the bucket holds it.
    pub async fn finish(&self) -> Result<Stored, FsError> {
        {
            let mut state = self.state.lock().await;
            if state.extent.end < state.extent.len_set && self.failure.get().is_none() {
                let len = state.extent.len_set;
                self.fill_to(&mut state, len).await?;
            }
        }
        self.store().await
    }

    /// Takes zeros up to `to`.
    pub(in crate::write) async fn fill_to(
        &self,
        state: &mut FileState,
        to: u64,
    ) -> Result<(), FsError> {
        let gap = to - state.extent.end;
        if state.extent.zeros + gap > GAP_BYTES_MAX {
            let error = FsError::TooLarge(format!(
                "{}: a gap of {gap} bytes behind {} would be stored as zeros, and a file may have {} GiB of those",
                self.key,
                state.extent.end,
                GAP_BYTES_MAX >> 30
            ));
            self.fail(state, &error);
            return Err(error);
        }
        if state.extent.zeros < GAP_NOTED && state.extent.zeros + gap >= GAP_NOTED {
            tracing::warn!(key = %self.key, offset = state.extent.end, len = gap, "{GAP}");
        } else if state.extent.zeros == 0 {
            tracing::info!(key = %self.key, offset = state.extent.end, len = gap, "{GAP}");
        }
        while state.extent.end < to {
            let written = state.extent.written;
            let len = (to - state.extent.end).min(ZEROS.len() as u64);
            let zeros = &ZEROS[..usize::try_from(len).expect("it is a piece")];
            let taken = self.take_in_turn(state, state.extent.end, zeros).await;
            state.extent.written = written;
            taken?;
            state.extent.zeros += len;
        }
        Ok(())
    }

    /// The reason why a file without a gap must not be stored, if there is one.
    pub(in crate::write) fn check_whole(&self, state: &mut FileState) -> Result<(), FsError> {
        let is_empty_and_new = state.adopts.is_some() && state.extent.len() == 0;
        let refused = state.extent.refused_len.take().filter(|_| is_empty_and_new);
        let error = if state.extent.end > state.extent.written.max(state.extent.len_set) {
            FsError::NotSequential(format!(
                "{}: a write behind a gap at {} was interrupted: the file would end with zeros that no application wrote",
                self.key, state.extent.written
            ))
        } else if let Some(refused) = refused {
            // An empty object instead of a file with bytes would block the next attempt.
            refused
        } else {
            return Ok(());
        };
        self.fail(state, &error);
        Err(error)
    }
}

const GAP: &str = "a gap is filled with zeros, which are stored as any bytes: S3 has no holes";

/// Zeros of a file that deserve a warning: they take time and money.
const GAP_NOTED: u64 = 64 << 20;

/// The content of a gap, a piece at a time.
static ZEROS: [u8; WRITE_SIZE_MAX] = [0; WRITE_SIZE_MAX];
