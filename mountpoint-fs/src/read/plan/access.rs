//! One read as the planner sees it, and the bounds of its plan.

use std::ops::Range;
use std::time::Duration;

use super::latency::MinLatencies;
use super::proven_window::ProvenWindow;

/// One read.
#[derive(Clone, Debug)]
pub(in crate::read) struct Access {
    /// Bytes of the object: not empty, within its size.
    pub(in crate::read) range: Range<u64>,
    /// Whether some of the bytes have not arrived yet.
    pub(in crate::read) waits: bool,
    /// Whether no other read of the file waits for its bytes.
    pub(in crate::read) is_alone: bool,
    /// The current time.
    pub(in crate::read) now: Duration,
    /// Bytes that all readers of the mount have read so far.
    pub(in crate::read) consumed: u64,
}

/// How a read relates to the reads before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum AccessKind {
    /// The first read of the file.
    First,
    /// A read that continues an earlier one.
    GoesOn,
    /// A read that continues none.
    Jump,
    /// The second part of a read that the kernel cut in two.
    Rest,
}

/// Bounds of a plan.
#[derive(Clone, Debug)]
pub(in crate::read) struct Bounds<'a> {
    /// Size of the object.
    pub(in crate::read) size: u64,
    /// Longest GET of read-ahead.
    pub(in crate::read) part_max: u64,
    /// Largest window: the setting, or the stream's share of memory if that is less.
    pub(in crate::read) window_max: u64,
    /// Number of streams in the whole mount.
    pub(in crate::read) streams: usize,
    /// Minimum latencies of this mount's GETs from the bucket that serves the object.
    pub(in crate::read) min_latencies: &'a MinLatencies,
    /// Window sizes that have made this mount faster.
    pub(in crate::read) proven_window: &'a ProvenWindow,
}
