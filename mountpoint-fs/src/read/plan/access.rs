//! One read as the planner sees it, and the bounds of what it may ask for.

use std::ops::Range;
use std::time::Duration;

use super::latency::MinLatencies;
use super::proven_window::ProvenWindow;
use crate::read::layout::LayoutLookup;

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
    /// What GETs of this mount take at least.
    pub(in crate::read) min_latencies: &'a MinLatencies,
    /// Windows of this mount that growing to has paid.
    pub(in crate::read) proven_window: &'a ProvenWindow,
    /// Finds where files of its kind were read that were open before.
    pub(in crate::read) layouts: Option<LayoutLookup<'a>>,
}
