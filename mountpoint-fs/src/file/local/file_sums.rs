//! The checksums of the data files of one staged file, and what a record has of them.
//!
//! Files that are sealed have sums in a record: their bytes are compared with them after a kill. A
//! write over such bytes makes the record wrong, so another one without sums comes first.

use std::ops::Range;

use super::sums::{BLOCK_LEN, BlockLook, BlockSum, BlockSums, WriteId};
use crate::file::contents::DataFileNo;
use crate::sync::Mutex;

/// The sums in a record: block, bytes of it, sum.
pub(in crate::file) type NotedSums = Vec<(u64, u64, u32)>;

/// The sums of two data files.
#[derive(Debug)]
pub(super) struct FileSums {
    /// Records may need the files.
    are_kept: bool,
    /// Made with the first byte on the disk: many small files never have one. A leaf.
    state: Mutex<Option<Box<SumsState>>>,
}

#[derive(Debug, Default)]
struct SumsState {
    /// Of each file.
    files: [BlockSums; 2],
    /// In each file, the end of the bytes that have sums in a record.
    sealed_ends: [u64; 2],
    /// Some of the sums are of another process.
    is_noted: bool,
    /// Bytes that a record had were written over since the last close.
    is_rewritten: bool,
    /// The first damage that was found.
    damage: Option<String>,
}

impl FileSums {
    /// None are kept.
    pub(super) fn none() -> Self {
        Self {
            are_kept: false,
            state: Mutex::default(),
        }
    }

    /// Of files that are not there yet.
    pub(super) fn new() -> Self {
        Self {
            are_kept: true,
            state: Mutex::default(),
        }
    }

    /// The sums in a record.
    pub(super) fn noted(noted: [NotedSums; 2]) -> Self {
        let mut state = SumsState {
            is_noted: noted.iter().any(|noted| !noted.is_empty()),
            ..SumsState::default()
        };
        for (place, noted) in noted.into_iter().enumerate() {
            state.sealed_ends[place] = end_of(&noted);
            state.files[place] = BlockSums::noted(noted);
        }
        Self {
            are_kept: true,
            state: Mutex::new(Some(Box::new(state))),
        }
    }

    /// Whether there are none: no byte was on the disk.
    pub(super) fn are_none(&self) -> bool {
        self.state.lock().is_none()
    }

    /// Does `work` with the state; `None` if there is none.
    fn with<T>(&self, work: impl FnOnce(&mut SumsState) -> T) -> Option<T> {
        self.state.lock().as_deref_mut().map(work)
    }

    /// A write begins.
    pub(super) fn begin(&self, file: DataFileNo, range: Range<u64>) -> Option<WriteId> {
        if !self.are_kept {
            return None;
        }
        let mut state = self.state.lock();
        let state = state.get_or_insert_default();
        Some(state.files[index(file)].begin(range))
    }

    /// The write has ended. `data` are its bytes, if all of them were written.
    pub(super) fn end(&self, file: DataFileNo, write: Option<WriteId>, data: Option<&[u8]>) {
        if let Some(id) = write {
            self.with(|state| state.files[index(file)].end(id, data));
        }
    }

    /// Notes that bytes of `range` have changed.
    pub(super) fn changed(&self, file: DataFileNo, range: &Range<u64>) {
        self.with(|state| state.files[index(file)].changed(range));
    }

    /// Whether the sum of a block is known.
    pub(super) fn of_block(&self, file: DataFileNo, block: u64) -> BlockLook {
        let look = self.with(|state| state.files[index(file)].look(block));
        look.unwrap_or(BlockLook::Unknown)
    }

    /// Notes the sum of a block whose bytes were read, while nothing is written.
    pub(super) fn summed(&self, file: DataFileNo, block: u64, bytes: &[u8]) -> BlockSum {
        let sum = BlockSum::of(bytes);
        self.with(|state| state.files[index(file)].summed(block, sum));
        sum
    }

    /// The blocks of `range` to compare with sums of another process, before a read of the range,
    /// or before a write if it `is_written`.
    pub(super) fn unchecked(
        &self,
        file: DataFileNo,
        range: &Range<u64>,
        is_written: bool,
    ) -> Vec<(u64, BlockSum)> {
        let unchecked = self.with(|state| match state.is_noted {
            true => state.files[index(file)].unchecked(range, is_written),
            false => Vec::new(),
        });
        unchecked.unwrap_or_default()
    }

    /// Notes that a block was read, and whether it has the bytes of its sum. `false` for damage: it
    /// has not, and no write has changed it meanwhile.
    pub(super) fn compared(
        &self,
        file: DataFileNo,
        (block, sum): (u64, BlockSum),
        is_right: bool,
    ) -> bool {
        let is_whole = self.with(|state| {
            let sums = &mut state.files[index(file)];
            let is_current = sums.is_current(block, sum);
            if is_current && is_right {
                sums.checked(block, sum);
            }
            is_right || !is_current
        });
        is_whole.unwrap_or(true)
    }

    /// Notes damage.
    pub(super) fn damaged(&self, text: &str) {
        self.with(|state| {
            state.damage.get_or_insert_with(|| text.to_owned());
        });
    }

    /// The damage that was found.
    pub(super) fn damage(&self) -> Option<String> {
        self.with(|state| state.damage.clone()).flatten()
    }

    /// Notes that a record may have the sums `noted`, beside one that it replaces.
    pub(super) fn seal(&self, noted: &[NotedSums; 2]) {
        self.with(|state| {
            for (end, noted) in state.sealed_ends.iter_mut().zip(noted) {
                *end = end_of(noted).max(*end);
            }
        });
    }

    /// Whether a record may have sums of bytes of `file` at `offset` or behind it.
    pub(super) fn is_sealed(&self, file: DataFileNo, offset: u64) -> bool {
        let is_sealed = self.with(|state| offset < state.sealed_ends[index(file)]);
        is_sealed.unwrap_or(false)
    }

    /// Notes whether bytes of a record are written over. Returns whether they were.
    pub(super) fn set_rewritten(&self, is_rewritten: bool) -> bool {
        let before = self.with(|state| std::mem::replace(&mut state.is_rewritten, is_rewritten));
        before.unwrap_or(false)
    }

    /// Whether bytes of a record were written over.
    pub(super) fn is_rewritten(&self) -> bool {
        self.with(|state| state.is_rewritten).unwrap_or(false)
    }

    /// Notes that no record has sums.
    pub(super) fn unseal(&self) {
        self.with(|state| state.sealed_ends = [0; 2]);
    }
}

/// The end of the bytes that have sums.
fn end_of(noted: &NotedSums) -> u64 {
    let last = noted.last();
    last.map_or(0, |(block, len, _)| block * BLOCK_LEN + len)
}

/// The place of a file among both.
pub(super) fn index(file: DataFileNo) -> usize {
    match file {
        DataFileNo::First => 0,
        DataFileNo::Second => 1,
    }
}
