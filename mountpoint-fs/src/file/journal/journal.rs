//! The journal: appends, commits, reads and releases.
//!
//! Any thread appends, without waiting for the disk: a record's bytes are copied into the batch
//! that fills, and its [`Commit`] tells when it is durable. The thread `journal` writes a batch
//! as soon as the disk is idle, while the next one fills.

use std::future::poll_fn;
use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;

use tracing::warn;

use super::batch::Commit;
use super::committer::Shared;
use super::format::{RecordHeader, RecordKind};
use super::log::{self, Log};
use super::recovery;
use super::types::{
    AppendError, JournalError, JournalLimits, RecordId, RecordKey, RecoveredRecord,
};
use crate::clock::Clock;
use crate::local_disk::{Disk, checksum};
use crate::sync::{JoinHandle, spawn};

/// Records that survive a crash from the moment at which their commit says so.
#[derive(Debug)]
pub(crate) struct Journal {
    shared: Arc<Shared>,
    committer: Option<JoinHandle>,
}

impl Journal {
    /// Opens the journal in `disk`, or begins one. Returns what it holds, oldest first.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        limits: JournalLimits,
        clock: Clock,
    ) -> Result<(Self, Vec<RecoveredRecord>), JournalError> {
        let (log, version) = open_log(disk, limits)?;
        let live = log.index().lock().live();
        let recovered = live
            .into_iter()
            .map(|(id, place)| RecoveredRecord { id, len: place.len });
        let shared = Arc::new(Shared::new(&log, limits, clock, version));
        let committing = Arc::clone(&shared);
        let committer = spawn("journal".to_owned(), move || committing.run(log))?;
        let journal = Self {
            shared,
            committer: Some(committer),
        };
        Ok((journal, recovered.collect()))
    }

    /// Appends a record of `key` whose payload is `parts`, one behind the other. From its commit on
    /// it replaces the record that the key had. Waits for room in the batch, never for the disk.
    pub(crate) async fn append(
        &self,
        key: RecordKey,
        parts: &[&[u8]],
    ) -> Result<Commit, AppendError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if len > self.shared.limits().record_len_max() {
            return Err(AppendError::TooLarge { len });
        }
        let header = RecordHeader {
            kind: RecordKind::Data,
            len: u32::try_from(len).map_err(|_| AppendError::TooLarge { len })?,
            key: key.0,
            version: 0,
            payload_sum: checksum(parts),
        };
        poll_fn(|context| self.shared.append(header, parts, context)).await
    }

    /// Ends a record: what it says is done. Needs no room and no wait; the release is durable
    /// within a second, and until then a crash brings the record back.
    pub(crate) fn release(&self, id: RecordId) -> Commit {
        self.shared.release(id)
    }

    /// Reads the payload of a record that is durable; `None` if a newer one replaced it or it was
    /// released. Blocks for as long as the disk takes.
    pub(crate) fn read(&self, id: RecordId) -> io::Result<Option<Vec<u8>>> {
        match self.shared.find(id) {
            None => Ok(None),
            Some((file, place)) => log::read(&*file, &place).map(Some),
        }
    }

    /// Reads the first `len` bytes of a record's payload, or all if it has less; `None` as for
    /// [`Self::read`]. They are compared with no checksum: [`Self::open`] has done that.
    pub(crate) fn read_beginning(&self, id: RecordId, len: usize) -> io::Result<Option<Vec<u8>>> {
        match self.shared.find(id) {
            None => Ok(None),
            Some((file, place)) => log::read_beginning(&*file, &place, len).map(Some),
        }
    }
}

/// Whether a journal was begun in `disk`. Once it was, it has a segment at any time.
pub(crate) fn has_journal(disk: &dyn Disk) -> io::Result<bool> {
    let names = disk.list()?;
    Ok(names.iter().any(|name| log::segment_number(name).is_some()))
}

impl Journal {
    /// Refuses further records and makes those before durable, without waiting for it.
    pub(crate) fn begin_close(&self) {
        self.shared.close();
    }
}

impl Drop for Journal {
    /// Makes appended records durable, and ends the thread.
    fn drop(&mut self) {
        self.begin_close();
        if let Some(committer) = self.committer.take()
            // A task that it woke may have been the last to have the journal.
            && !committer.is_current()
            && committer.join().is_err()
        {
            warn!("the journal's thread has panicked");
        }
    }
}

/// The log of `disk`, behind what it holds, and the highest version in it.
pub(super) fn open_log(
    disk: Arc<dyn Disk>,
    limits: JournalLimits,
) -> Result<(Log, u64), JournalError> {
    let mut found = recovery::scan(&*disk)?;
    if !found.damage.is_empty() {
        return Err(JournalError::Damaged(found.damage.swap_remove(0)));
    }
    for name in disk.list()?.iter().filter(|name| log::is_unfinished(name)) {
        disk.remove(name)?;
    }
    if let Some(batch) = &found.last_batch {
        batch.make_durable()?;
    }
    let identity = found.identity;
    let identity = identity.unwrap_or_else(|| RandomState::new().hash_one(0_u8));
    let mut log = Log::new(disk, found.index, limits, identity, found.end);
    log.remove_dead();
    if let Err(error) = log.begin() {
        // A full disk needs room: the next batch tries again.
        let mib = limits.segment_len >> 20;
        warn!(
            "no file is stored with --write-back until the disk of --staging has {mib} MiB of room for its journal: \
             {error}"
        );
    }
    Ok((log, found.version))
}
