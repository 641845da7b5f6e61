//! Notices of the client and the caches to a fetch. Runs on the threads that bring its bytes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use mountpoint_client::types::GetOutput;
use mountpoint_client::{ClientError, GetObserver, PauseReason};

use super::fetch::Fetch;
use crate::cache::FillObserver;
use crate::metrics::trace::WaitCause;

/// Observes the first GET.
impl GetObserver for Fetch {
    fn progressed(&self) {
        self.count_first_byte();
        self.advanced();
    }

    fn sent_over(&self, interface: usize) {
        self.enters(WaitCause::FirstByte);
        self.interface.store(interface, Ordering::Relaxed);
    }

    fn paused(&self, reason: PauseReason) {
        self.enters(match reason {
            PauseReason::Throttled => WaitCause::Throttling,
            PauseReason::Failed => WaitCause::Retry,
        });
    }

    fn is_wanted(&self) -> bool {
        self.is_running()
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        self.count_first_byte();
        if outcome.is_ok() {
            self.metrics.last_byte(self.len() as u64, self.began);
        }
        self.ended(outcome.map(drop));
    }
}

/// Observes the bytes of the shared bucket.
impl FillObserver for Fetch {
    fn filled_more(&self) {
        self.count_first_shared_byte();
        self.advanced();
    }

    fn is_awaited_here(&self) -> bool {
        self.is_running()
    }

    fn is_late(&self) -> bool {
        self.has_second()
    }
}

/// Observes the second GET.
#[derive(Debug)]
pub(super) struct SecondGet(pub(super) Arc<Fetch>);

impl GetObserver for SecondGet {
    fn progressed(&self) {
        self.0.advanced();
    }

    fn is_wanted(&self) -> bool {
        self.0.is_running()
    }

    fn finished(&self, outcome: Result<GetOutput, ClientError>) {
        if outcome.is_ok() && self.0.is_running() {
            self.0.metrics.hedge_won();
        }
        self.0.ended(outcome.map(drop));
    }
}
