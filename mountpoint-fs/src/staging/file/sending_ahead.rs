//! Sending the beginning of a new file while the rest is written: its close waits for the rest
//! alone.
//!
//! Not with write-back, where nothing waits for the upload, and a file that is removed in time is
//! never sent.

use std::sync::Arc;

use super::life::{Awake, FileParts};
use crate::staging::upload::Feed;
use crate::write::background;

/// Sends what is due in the background. Called behind each write.
pub(super) fn send_ahead(file: &Awake) {
    let writing = &file.context.writing;
    // The headers of the object are not known before the last write.
    let has_late_headers = writing.config().posix_metadata;
    if file.is_durable() || has_late_headers || !begin(file) {
        return;
    }
    let (file, work) = (file.clone(), writing.begin_work());
    background::run(async move {
        while step(&file).await {}
        drop((file, work));
    });
}

/// Whether bytes are due, and no other task sends them.
fn begin(file: &FileParts) -> bool {
    let mut state = file.state.lock();
    state.next_ahead().is_some() && state.ahead.run()
}

/// Sends the next bytes. Returns whether there may be more. A store waits for that.
async fn step(file: &Awake) -> bool {
    let _turn = file.storing.lock().await;
    let (request, early, end) = {
        let mut state = file.state.lock();
        let Some(range) = state.next_ahead() else {
            state.ahead.rest();
            return false;
        };
        let snapshot = Arc::new(state.contents.now().clone());
        let request = state.request(file.places(), file.ways(), snapshot);
        (request, state.ahead.sending(range.end), range.end)
    };
    let early = early.unwrap_or_else(|| {
        let begun = request.begin(&file.context, false);
        file.state.lock().ahead.begun(&begun);
        begun
    });
    let feed = Feed {
        snapshot: request.snapshot,
        sources: request.sources,
        copies: false,
    };
    let sent = early.send_parts(&file.context, &feed, end).await;
    let Err(error) = sent else {
        return true;
    };
    // The store tells the application, if it fails as well.
    tracing::debug!(key = %request.key, "nothing is sent before the file is closed: {error}");
    {
        let mut state = file.state.lock();
        state.ahead.end();
        state.ahead.rest();
    }
    early.give_up(&error).await;
    false
}
