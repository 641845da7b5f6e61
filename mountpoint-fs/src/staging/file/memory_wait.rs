//! What a write to memory alone waits for: memory, and the proof of the permission to store the
//! file.

use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::select;

use super::life::{Awake, FileParts, RETAINED_MAX};
use super::sending_ahead::send_ahead;
use crate::metrics::trace::{WaitCause, waits};
use crate::operation::FsError;

/// Whether the file holds as much as it may while parts of it are on their way.
pub(super) fn is_throttled(file: &FileParts) -> bool {
    if !file.files.have_no_disk() || !file.state.lock().ahead.is_moving() {
        return false;
    }
    let in_flight = file.context.writing.parts_in_flight_bytes();
    file.files.chunk_bytes() > RETAINED_MAX.max(in_flight)
}

/// A bounded wait for memory.
#[derive(Debug, Default)]
pub(super) struct MemoryWait {
    /// The time since which nothing moves.
    since: Option<Duration>,
}

impl MemoryWait {
    /// Waits until memory may have become free, or the file [`is_throttled`] no longer. The write
    /// is to be tried again.
    ///
    /// # Errors
    /// None will.
    pub(super) async fn wait(&mut self, file: &Awake, is_throttled: bool) -> Result<(), FsError> {
        let context = &file.context;
        let memory = &context.chunks.memory;
        let freed = memory.freed();
        if is_throttled != self::is_throttled(file) {
            return Ok(());
        }
        send_ahead(file, true);
        context.make_room();
        context.room_holders.give_back();
        let now = context.clock.now();
        if file.state.lock().ahead.is_moving() {
            self.since = None;
        }
        let waited = now - *self.since.get_or_insert(now);
        if waited >= MEMORY_WAIT_MAX {
            return Err(file.files.error(&io::ErrorKind::StorageFull.into()));
        }
        // Reads tell nobody that they gave some back.
        let (freed, tick) = (pin!(freed), pin!(context.writing.tick()));
        waits(WaitCause::Memory, select(freed, tick), |_| ()).await;
        Ok(())
    }
}

/// Whether the first write of the file has to wait for [`prove`].
pub(super) fn is_in_doubt(file: &FileParts) -> bool {
    if file.is_permitted.load(Ordering::Relaxed) {
        return false;
    }
    let key = file.key();
    let is_in_doubt = file.files.have_no_disk() && file.context.writing.is_doubted(&key);
    if !is_in_doubt {
        // After this file's first write, refusals of other files do not count.
        file.is_permitted.store(true, Ordering::Relaxed);
    }
    is_in_doubt
}

/// Probes the permission to store the file, if it is in doubt: once, before the first write. A
/// refusal fails the file.
pub(super) async fn prove(file: &Awake) -> Result<(), FsError> {
    if !is_in_doubt(file) {
        return Ok(());
    }
    let (key, headers) = {
        let state = file.state.lock();
        state.check()?;
        (state.key.clone(), state.headers.clone())
    };
    if let Err(error) = file.context.writing.prove(&key, &headers).await {
        file.state.lock().fail(error.clone());
        file.tell(|observer, file| observer.failed(file, &error));
        return Err(error);
    }
    file.is_permitted.store(true, Ordering::Relaxed);
    Ok(())
}

/// Longest wait of a write for memory while no part of its file is on its way.
const MEMORY_WAIT_MAX: Duration = Duration::from_secs(60);
