//! A bounded wait for a mount that starts or ends.

use std::thread;
use std::time::Duration;

use super::report::tell;
use crate::clock::Clock;
use crate::file::directory::Holder;

/// A bounded wait for a process that has the directory and does not answer.
#[derive(Debug)]
pub(super) struct AnswerWait {
    clock: Clock,
    has_told: bool,
}

impl AnswerWait {
    pub(super) fn new() -> Self {
        Self {
            clock: Clock::monotonic(),
            has_told: false,
        }
    }

    /// Waits a moment for `holder`.
    ///
    /// # Errors
    /// A text for the user, when it has taken too long.
    pub(super) fn wait(&mut self, holder: &Holder) -> Result<(), String> {
        let waited = self.clock.now();
        if waited >= WAIT_MAX {
            let seconds = WAIT_MAX.as_secs();
            return Err(format!(
                "the directory is in use{holder}, which has not answered for {seconds} seconds: what is pending is \
                 unknown; try again when the mount has started or ended"
            ));
        }
        if waited >= TELL_AFTER && !std::mem::replace(&mut self.has_told, true) {
            tell(&format!(
                "the directory is in use{holder}, which starts or ends and does not know yet what is pending: waiting \
                 for its answer"
            ));
        }
        thread::sleep(POLL);
        Ok(())
    }
}

/// How long a command waits for an answer. A mount reads some 100,000 records a second.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// A wait of this length is explained.
const TELL_AFTER: Duration = Duration::from_millis(500);

/// Interval of questions.
const POLL: Duration = Duration::from_millis(20);
