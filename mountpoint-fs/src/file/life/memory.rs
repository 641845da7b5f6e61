//! The memory of a file without a disk: what its writes wait for, and what it gives back where
//! memory is short. A first write waits for the proof of the permission to store the file, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::releasing::give_back;
use super::sending_ahead::give_back_sent;
use super::state::{Awake, FileLife, FileParts, Haste, RETAINED_MAX};
use super::storing::send_due;
use crate::memory::BufferRequest;
use crate::metrics::trace::{WaitCause, waits};
use crate::operation::FsError;
use crate::write::{Grant, Reclaim};

/// Whether the file holds as much as it may while parts of it are on their way.
pub(super) fn is_throttled(file: &FileParts) -> bool {
    if !file.files.have_no_disk() {
        return false;
    }
    let size = {
        let state = file.state.lock();
        if !state.ahead.is_moving() {
            return false;
        }
        state.contents.size()
    };
    // One part is filled while others are sent.
    let part = file.context.writing.part_at(size);
    let parts = part.map_or(0, |part| PARTS_HELD * (part.end - part.start));
    file.files.chunk_bytes() > RETAINED_MAX.max(parts)
}

/// Returns when the file may hold more.
pub(super) async fn unthrottled(file: &FileParts) {
    let wait = async {
        loop {
            let moved = file.moved.notified();
            if !is_throttled(file) {
                return;
            }
            moved.await;
        }
    };
    waits(WaitCause::Memory, wait, |_| ()).await;
}

/// Waits for the memory that a write needs. This file and others send what they can meanwhile.
///
/// # Errors
/// There will be none.
pub(super) async fn memory_for(file: &Awake, request: BufferRequest) -> Result<Grant, FsError> {
    let (key, size) = {
        let state = file.state.lock();
        (state.key.clone(), state.contents.size())
    };
    let writing = &file.context.writing;
    writing.memory_for(&key, request, size).await
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

impl Reclaim for FileLife {
    fn give_back_sent(self: Arc<Self>, is_scarce: bool) {
        let file = self.wake();
        give_back_sent(&file, is_scarce);
        send_due(&file, Haste::Parts);
        if let Ok(_turn) = file.gate.try_read() {
            give_back(&file);
        }
    }

    /// A file without a write for a while gives back the unfilled rest of a part, and so does one
    /// that fills its part slowly, if nothing else gives memory back.
    fn give_back_idle(self: Arc<Self>, now: Duration, is_stuck: bool) {
        let file = self.wake();
        Arc::clone(&self).give_back_sent(true);
        let is_idle = now >= file.last_write().1 + BUFFER_IDLE;
        if is_idle || is_stuck {
            drop(file.files.shrink_parts());
        }
    }

    fn can_send_since(self: Arc<Self>) -> Option<u64> {
        let file = self.wake();
        let ways = (&*file.files, &*file.context.writing);
        let state = file.state.lock();
        let growth = || state.next_growth(ways, Some(Haste::Everything));
        let next = state.next_ahead(ways, Haste::Everything).or_else(growth);
        next.map(|_| file.last_write().0)
    }

    fn send_early(self: Arc<Self>) -> bool {
        send_due(&self.wake(), Haste::Everything)
    }
}

/// Time without a write after which a file gives the unfilled rest of its part to those that wait
/// for memory. A program that fills one file writes far more often.
const BUFFER_IDLE: Duration = Duration::from_secs(1);

/// Parts that a file may hold while some are on their way, if they are more than it keeps.
const PARTS_HELD: u64 = 3;
