//! Ranges cut into parts, joined, and kept apart.
//!
//! Pure: knows neither reads nor blocks.

use std::ops::Range;

use super::block_map::without;
use crate::config::limits::READ_SIZE_MAX;

/// `ranges` without what overlaps another or is asked for already, cut at multiples of `part`.
pub(super) fn apart(
    ranges: impl Iterator<Item = Range<u64>>,
    mut asked: Vec<Range<u64>>,
    part: u64,
) -> Vec<Range<u64>> {
    asked.sort_unstable_by_key(|range| range.start);
    let mut rests = Vec::new();
    for range in ranges {
        for rest in without(range, asked.clone().into_iter()) {
            rests.extend(cut(rest.clone(), part));
            let place = asked.partition_point(|before| before.start < rest.start);
            asked.insert(place, rest);
        }
    }
    rests
}

/// Cuts a range at multiples of `part`. A last piece shorter than a quarter of a part stays with
/// the one before.
pub(super) fn cut(range: Range<u64>, part: u64) -> impl Iterator<Item = Range<u64>> {
    let mut from = range.start;
    std::iter::from_fn(move || {
        if from >= range.end {
            return None;
        }
        let mut until = (from / part + 1) * part;
        if range.end < until + part / 4 {
            until = range.end;
        }
        let piece = from..until;
        from = until;
        Some(piece)
    })
}

/// Lets the read's own GET run on over the next part if that is short: one request instead of two.
pub(super) fn join(
    demand: &mut [Range<u64>],
    ahead: &mut Vec<Range<u64>>,
    read_end: u64,
    join_max: u64,
) {
    let (Some(last), Some(next)) = (demand.last_mut(), ahead.first()) else {
        return;
    };
    if last.end == read_end && next.start == read_end && next.end - last.start <= join_max {
        last.end = next.end;
        ahead.remove(0);
    }
}

/// End of what a window asks for that is to reach `target` in multiples of `part`, but not beyond
/// `limit`. A short last piece of the object is asked for with the one before.
pub(super) fn end_of_window(target: u64, part: u64, limit: u64, size: u64) -> u64 {
    if target >= limit || (limit == size && limit - target < part / 4) {
        limit
    } else {
        target - target % part
    }
}

/// Where a read that the kernel has cut likely ends. It cuts at so many pages of the application's
/// buffer, so that what does not begin with a page loses less than a page of the largest read to a
/// second one.
pub(super) fn end_of_cut(range: &Range<u64>, size: u64) -> Option<u64> {
    let len = range.end - range.start;
    let is_cut =
        READ_SIZE_MAX as u64 - PAGE < len && len < READ_SIZE_MAX as u64 && range.end < size;
    let end = range.end.next_multiple_of(PAGE).min(size);
    (is_cut && range.end < end).then_some(end)
}

/// Bytes of a page of the application's memory, the smallest that there are.
const PAGE: u64 = 4 << 10;
