//! The state of a GET: its phase, and the findings of its attempts.

use std::ops::Range;

use mountpoint_crt_sys::Cancel;
use mountpoint_crt_sys::block::BlockFill;

use super::answer_head::Refusal;
use super::read_checksum::Expected;
use crate::crt_client::core::{Asking, Attempts, Ticket};
use crate::crt_client::lanes::Lane;
use crate::crt_client::request_log::SentRequest;
use crate::types::{ETag, GetOutput};

pub(super) struct GetState {
    pub(super) phase: Phase,
    pub(super) attempts: Attempts,
    /// The version that all bytes come from: the caller's, or that of the first answer.
    pub(super) version: Option<ETag>,
    pub(super) output: Option<GetOutput>,
    /// Why the head of the current answer was refused.
    pub(super) refusal: Option<Refusal>,
    /// The checksum of the whole block, if S3 has sent one. No byte is shown before the comparison.
    pub(super) expected: Option<Expected>,
    /// Answers whose bytes did not match the checksum.
    pub(super) corrupt: u32,
    pub(super) checksum_mode: Asking,
    /// Whether the current attempt asks for the whole object without a Range.
    pub(super) is_whole: bool,
    /// The right of a read-ahead to be in flight.
    pub(super) ticket: Option<Ticket>,
    pub(super) is_cancelled: bool,
    /// An attempt stalled: the next one gives the server more time.
    pub(super) is_patient: bool,
    /// The network interface that failed the last attempt, or that carries the late GET for these
    /// bytes.
    pub(super) avoided: Option<usize>,
}

pub(super) enum Phase {
    /// Not with the CRT: queued, paced, or between two attempts.
    Waiting(BlockFill),
    /// With the CRT, which has the right to fill the block.
    Sent(SentAttempt),
    /// The observer knows the outcome, or is about to.
    Done,
}

/// An attempt that the CRT works on.
pub(super) struct SentAttempt {
    pub(super) asked: Range<u64>,
    /// Counts as outstanding on its interface until it is dropped.
    pub(super) lane: Lane,
    pub(super) logged: SentRequest,
    pub(super) cancel: Option<Cancel>,
}

impl GetState {
    pub(super) fn new(
        into: BlockFill,
        attempts: Attempts,
        version: Option<ETag>,
        avoided: Option<usize>,
    ) -> Self {
        Self {
            phase: Phase::Waiting(into),
            attempts,
            version,
            output: None,
            refusal: None,
            expected: None,
            corrupt: 0,
            checksum_mode: Asking::default(),
            is_whole: false,
            ticket: None,
            is_cancelled: false,
            is_patient: false,
            avoided,
        }
    }

    /// Bytes that the block lacks, while no attempt is with the CRT.
    pub(super) fn missing(&self) -> Option<u64> {
        match &self.phase {
            Phase::Waiting(fill) => Some(missing(fill)),
            Phase::Sent(_) | Phase::Done => None,
        }
    }

    /// The attempt that the CRT has finished.
    pub(super) fn take_sent(&mut self) -> SentAttempt {
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Sent(sent) => sent,
            Phase::Waiting(_) | Phase::Done => {
                unreachable!("an attempt finishes once, and nothing else ends it")
            }
        }
    }
}

/// Bytes that the block lacks.
pub(super) fn missing(fill: &BlockFill) -> u64 {
    (fill.capacity() - fill.filled()) as u64
}
