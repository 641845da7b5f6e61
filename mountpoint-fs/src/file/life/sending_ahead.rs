//! Sending the beginning of a file while the rest is written: its close waits for the rest alone,
//! and a file that is in memory alone may be longer than memory.
//!
//! Not with write-back, where nothing waits for the upload, and a file that is removed in time is
//! never sent.

use std::ops::Range;
use std::sync::Arc;

use super::state::{Awake, FileParts, Haste, RETAINED_MAX};
use crate::file::contents::DataFileNo;
use crate::file::store::{EarlyStore, NewPart, StoreRequest};
use crate::operation::FsError;
use crate::write::{PartOutcome, background};

/// Sends what is due in the background: called behind each write, and where memory is short.
/// Returns whether something is.
pub(super) fn send_ahead(file: &Awake, haste: Haste) -> bool {
    let writing = &file.context.writing;
    // The headers of the object are not known before the last write.
    let has_late_headers = writing.config().posix_metadata && !file.files.have_no_disk();
    if file.is_durable() || has_late_headers || !begin(file, haste) {
        return false;
    }
    let (file, work) = (file.clone(), writing.begin_work());
    background::run(async move {
        while step(&file, haste).await {}
        // A write may wait for the end of that.
        file.moved.notify_waiters();
        drop((file, work));
    });
    true
}

/// Whether bytes are due, and no other task sends them.
fn begin(file: &FileParts, haste: Haste) -> bool {
    let mut state = file.state.lock();
    let next = state.next_ahead((&file.files, &file.context.writing), haste);
    next.is_some() && state.ahead.run()
}

/// Has the server copy the bytes before `until`, the last of which are another object's, and sends
/// those between. Returns when it has them.
///
/// # Errors
/// Some were refused.
pub(super) async fn send_copies(file: &Awake, until: u64) -> Result<(), FsError> {
    let _turn = file.storing.lock().await;
    loop {
        let (request, early) = {
            let mut state = file.state.lock();
            state.check()?;
            if state.ahead.next().is_none_or(|at| at >= until) {
                break;
            }
            let snapshot = Arc::new(state.contents.now().clone());
            let request = state.request(file.places(), file.ways(), snapshot);
            (request, state.ahead.sending(0).0)
        };
        let early = early.unwrap_or_else(|| begin_early(file, &request));
        match send_one(file, (request, &early), until).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                give_up(file, &early, &error).await;
                return Err(error);
            }
        }
    }
    let early = file.state.lock().ahead.sending(0).0;
    match early {
        Some(early) => early.arrived().await,
        None => Ok(()),
    }
}

fn begin_early(file: &FileParts, request: &StoreRequest) -> Arc<EarlyStore> {
    let copies = request.has_copies() && file.context.writing.copies_parts() != Some(false);
    let begun = request.begin(&file.context, copies);
    file.state.lock().ahead.begun(&begun);
    begun
}

/// Sends the next part, if it ends before `limit`. Returns whether it did.
async fn send_one(
    file: &Awake,
    (request, early): (StoreRequest, &Arc<EarlyStore>),
    limit: u64,
) -> Result<bool, FsError> {
    let feed = request.feed(early.has_copies());
    let sent = early.send_next(&file.context, &feed, limit).await;
    {
        let mut state = file.state.lock();
        let is_in_flight = matches!(sent, Ok(Some(NewPart::Sent(..))));
        state.ahead.sent(early.sent_until(), is_in_flight);
    }
    match sent? {
        Some(NewPart::Sent(part, outcome)) => watch(file, part, outcome),
        Some(NewPart::Copied) => {}
        None => return Ok(false),
    }
    Ok(true)
}

/// Sends the next part. Returns whether there may be more. A store waits for that.
async fn step(file: &Awake, haste: Haste) -> bool {
    let _turn = file.storing.lock().await;
    let void = file.state.lock().ahead.take_void();
    if let Some(void) = void {
        void.give_up(&FsError::Interrupted).await;
    }
    let (request, early, cut, limit) = {
        let mut state = file.state.lock();
        let next = state.next_ahead((&file.files, &file.context.writing), haste);
        let Some(limit) = next else {
            state.ahead.rest();
            return false;
        };
        let snapshot = Arc::new(state.contents.now().clone());
        let request = state.request(file.places(), file.ways(), snapshot);
        let at = state.ahead.next().unwrap_or_default();
        if haste == Haste::Everything && file.files.part_end(at).is_none_or(|end| end > limit) {
            file.files.cut_part(at);
        }
        let (early, cut) = state.ahead.sending(limit);
        (request, early, cut, limit)
    };
    let early = early.unwrap_or_else(|| begin_early(file, &request));
    if let Some(len) = cut {
        early.cut(len).await;
    }
    match send_one(file, (request, &early), limit).await {
        Ok(true) => true,
        Ok(false) => {
            file.state.lock().ahead.rest();
            false
        }
        Err(error) => {
            give_up(file, &early, &error).await;
            false
        }
    }
}

/// Ends what is sent ahead behind `error`. The store sends all bytes, and tells the application if
/// it fails as well. A file of which nobody has all bytes has failed.
async fn give_up(file: &Awake, early: &Arc<EarlyStore>, error: &FsError) {
    let key = file.key();
    tracing::debug!(%key, "nothing is sent before the file is closed: {error}");
    let is_lost = {
        let mut state = file.state.lock();
        drop(state.ahead.end());
        state.ahead.stop();
        state.ahead.rest();
        let is_lost = state.contents.now().has_sent();
        if is_lost {
            state.fail(error.clone());
        }
        is_lost
    };
    early.give_up(error).await;
    if is_lost {
        file.tell(|observer, file| observer.failed(file, error));
    }
    file.moved.notify_waiters();
}

/// Gives back what is needed no longer when S3 has a part.
fn watch(file: &Awake, part: Range<u64>, outcome: PartOutcome) {
    let (file, work) = (file.clone(), file.context.writing.begin_work());
    background::run(async move {
        let has_arrived = outcome.has_arrived().await;
        file.state.lock().ahead.answered(part, has_arrived);
        let size = file.state.lock().contents.size();
        if size > RETAINED_MAX || file.context.writing.is_short() {
            give_back_sent(&file, false);
        }
        // Its memory can be written again, whether or not it was given back.
        file.moved.notify_waiters();
        drop((file, work));
    });
}

/// Gives back the memory of parts that S3 has: all but the first part, and that one as well if
/// memory `is_scarce`.
pub(super) fn give_back_sent(file: &FileParts, is_scarce: bool) {
    if !file.files.have_no_disk() {
        return;
    }
    let turn = file.giving_back.write();
    let parts = {
        let mut state = file.state.lock();
        if state.contents.sending().is_some() || state.end.failure().is_some() {
            // The store in progress may have to send them once more.
            return;
        }
        let parts = {
            let written = state.contents.written_until();
            state.ahead.take_arrived(written, is_scarce)
        };
        parts.iter().for_each(|part| state.contents.mark_sent(part));
        // Before the bytes go: a read that has found them local looks again.
        state.given_back += u64::from(!parts.is_empty());
        parts
    };
    let of_part = |part| DataFileNo::ALL.map(|place| file.files.discard(place, part));
    let discarded: Vec<_> = parts.iter().map(of_part).collect();
    drop(turn);
    drop(discarded);
}
