//! The policy to compare with: a time that is the same for every batch.

use std::time::Duration;

use mountpoint_fs::staging::journal::{CommitPolicy, Decision, FinishedFlush, WaitingBatch};

/// A batch goes so long after its first writer came.
#[derive(Debug)]
pub(super) struct FixedBudget(pub(super) Duration);

impl CommitPolicy for FixedBudget {
    fn arrived(&mut self, _: Duration) {}

    fn decide(&self, now: Duration, batch: WaitingBatch) -> Decision {
        match batch.since + self.0 {
            end if end > now && batch.writers > 0 => Decision::WaitUntil(end),
            _ => Decision::Flush,
        }
    }

    fn flushed(&mut self, _: FinishedFlush) {}
}
