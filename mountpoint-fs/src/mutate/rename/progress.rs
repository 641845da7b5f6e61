//! The course of a directory's rename: its log lines and its stop.

use std::time::Duration;

use crate::clock::Clock;
use crate::operation::{FsError, Stop};

/// Logs the progress of a rename.
#[derive(Debug)]
pub(super) struct Progress<'a> {
    clock: Clock,
    pub(super) stop: &'a Stop,
    from: &'a str,
    objects: usize,
    done: usize,
    told: Duration,
}

impl<'a> Progress<'a> {
    pub(super) fn new(clock: Clock, from: &'a str, objects: usize, stop: &'a Stop) -> Self {
        let told = clock.now();
        Self {
            clock,
            stop,
            from,
            objects,
            done: 0,
            told,
        }
    }

    /// Checks that no stop was asked for.
    pub(super) fn check(&self) -> Result<(), FsError> {
        self.stop.check().map_err(|error| self.failed(error))
    }

    /// The outcome of requests side by side, also where a stop came behind the last of them.
    pub(super) fn end(&self, outcome: Result<bool, FsError>) -> Result<(), FsError> {
        outcome.map_err(|error| self.failed(error))?;
        self.check()
    }

    pub(super) fn step(&mut self, what: &str) {
        self.steps(what, 1);
    }

    pub(super) fn steps(&mut self, what: &str, count: usize) {
        self.done += count;
        let now = self.clock.now();
        if now.saturating_sub(self.told) >= RENAME_PROGRESS {
            self.told = now;
            let Self {
                from,
                objects,
                done,
                ..
            } = *self;
            tracing::info!(from, objects, done, "renaming a directory: {what}");
        }
    }

    pub(super) fn failed(&self, error: FsError) -> FsError {
        let Self { from, done, .. } = *self;
        tracing::warn!(
            from,
            done,
            "renaming a directory stopped; every object has its old or its new name or both, and the same rename \
             (mv -T) goes on from here"
        );
        error
    }
}

/// How often the log shows the progress of a directory's rename.
const RENAME_PROGRESS: Duration = Duration::from_secs(10);
