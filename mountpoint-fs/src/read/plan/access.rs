//! One read as the planner sees it, and the bounds of what it may ask for.

use std::ops::Range;
use std::time::Duration;

use super::latency::MinLatencies;
use super::proven_window::ProvenWindow;

/// One read.
#[derive(Clone, Debug)]
pub(in crate::read) struct Access {
    /// Bytes of the object; not empty, within its size.
    pub(in crate::read) range: Range<u64>,
    /// Whether some of its bytes have not arrived yet.
    pub(in crate::read) waits: bool,
    /// Whether no other read of the file is waiting for its bytes.
    pub(in crate::read) is_alone: bool,
    /// Now.
    pub(in crate::read) now: Duration,
    /// Bytes that all readers of the mount have read so far.
    pub(in crate::read) consumed: u64,
}

/// How a read relates to the reads before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum AccessKind {
    /// No read came before.
    First,
    /// The read continues one before it.
    GoesOn,
    /// The read continues none.
    Jump,
    /// The read is the rest of one that the kernel cut in two.
    Rest,
}

/// What a plan must keep to.
#[derive(Clone, Debug)]
pub(in crate::read) struct Bounds<'a> {
    /// Size of the object.
    pub(in crate::read) size: u64,
    /// Largest range of one GET that is not a single read.
    pub(in crate::read) part_max: u64,
    /// Largest window: the setting, or the stream's share of the memory.
    pub(in crate::read) window_max: u64,
    /// Streams of the whole mount.
    pub(in crate::read) streams: usize,
    /// Least latencies of the GETs of this mount.
    pub(in crate::read) min_latencies: &'a MinLatencies,
    /// Windows of this mount that were worth growing to.
    pub(in crate::read) proven_window: &'a ProvenWindow,
}
