//! Reading a journal without opening it: for people, beside no mount.

use std::io;

use super::log::{self, LogIndex};
use super::recovery;
use super::types::{Damage, JournalError, RecordId, RecoveredRecord};
use crate::local_disk::Disk;

/// Reads the records of a journal. Changes nothing on the disk.
#[derive(Debug)]
pub(crate) struct JournalReader {
    index: LogIndex,
    damage: Vec<Damage>,
}

impl JournalReader {
    /// Reads the journal in `disk`, as far as it is valid.
    ///
    /// # Errors
    /// If it has a newer format, or the disk does not work.
    pub(crate) fn open(disk: &dyn Disk) -> Result<Self, JournalError> {
        let found = recovery::scan(disk)?;
        Ok(Self {
            index: found.index,
            damage: found.damage,
        })
    }

    /// The records that an earlier process made durable and did not release, oldest first.
    #[must_use]
    pub(crate) fn records(&self) -> Vec<RecoveredRecord> {
        let live = self.index.live().into_iter();
        live.map(|(id, place)| RecoveredRecord { id, len: place.len })
            .collect()
    }

    /// Parts that were durable once and are not valid.
    #[must_use]
    pub(crate) fn damage(&self) -> &[Damage] {
        &self.damage
    }

    /// The payload of a record; `None` if there is none.
    pub(crate) fn read(&self, id: RecordId) -> io::Result<Option<Vec<u8>>> {
        match self.index.find(id) {
            None => Ok(None),
            Some((file, place)) => log::read(&*file, &place).map(Some),
        }
    }
}
