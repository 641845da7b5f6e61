//! One look for one extent: ask, claim, wait, or leave it to S3.
//!
//! Pure: the caller does the step and tells what came of it.

use std::time::Duration;

use super::TierPolicy;

/// The next step of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache::shared) enum SearchStep {
    /// Ask the bucket for the extent.
    Ask,
    /// Tell the other nodes that this one fetches the extent, unless another one does.
    Claim,
    /// Wait so long, and ask then.
    Wait(Duration),
    /// Fetch from S3.
    Leave,
}

/// A look for one extent.
#[derive(Debug)]
pub(in crate::cache::shared) struct ExtentSearch {
    directory: u64,
    /// Whether no application waits for the extent.
    may_wait: bool,
    /// When another node turned out to have the claim.
    lost_at: Option<Duration>,
    /// Whether this node has the claim.
    owns: bool,
}

impl ExtentSearch {
    /// Begins a look for an extent of `directory`. Only a reader that is ahead of the application
    /// `may_wait`.
    pub(in crate::cache::shared) fn begin(
        directory: u64,
        may_wait: bool,
        policy: &mut TierPolicy,
        now: Duration,
    ) -> (Self, SearchStep) {
        let search = Self {
            directory,
            may_wait,
            lost_at: None,
            owns: false,
        };
        if !policy.reads.is_on(now) {
            return (search, SearchStep::Leave);
        }
        // Where nodes share their filling, each claims only what it has asked for.
        let shares = may_wait && policy.fleet.is_active(now);
        let step = match shares || policy.misses.asks(directory, now) {
            true => SearchStep::Ask,
            false => SearchStep::Leave,
        };
        (search, step)
    }

    /// The extent is there.
    pub(in crate::cache::shared) fn found(&mut self, policy: &mut TierPolicy, now: Duration) {
        policy.misses.found(self.directory);
        if let Some(lost_at) = self.lost_at {
            policy.fleet.filled_within(now.saturating_sub(lost_at));
            policy.fleet.waited(false, now);
        }
    }

    /// The extent is not there.
    pub(in crate::cache::shared) fn absent(
        &mut self,
        policy: &mut TierPolicy,
        now: Duration,
    ) -> SearchStep {
        let Some(lost_at) = self.lost_at else {
            policy.misses.missed(self.directory);
            return match self.may_wait && policy.fleet.is_active(now) {
                true => SearchStep::Claim,
                false => SearchStep::Leave,
            };
        };
        if now.saturating_sub(lost_at) < policy.fleet.wait_max() {
            return SearchStep::Wait(policy.fleet.next_wait());
        }
        policy.fleet.waited(true, now);
        SearchStep::Leave
    }

    /// This node has the claim, or another one.
    pub(in crate::cache::shared) fn claimed(
        &mut self,
        is_won: bool,
        policy: &mut TierPolicy,
        now: Duration,
    ) -> SearchStep {
        if is_won {
            self.owns = true;
            return SearchStep::Leave;
        }
        policy.fleet.saw_others(now);
        self.lost_at = Some(now);
        SearchStep::Wait(policy.fleet.first_wait())
    }

    /// Whether this node is to store the extent because it said so.
    pub(in crate::cache::shared) fn owns(&self) -> bool {
        self.owns
    }
}
