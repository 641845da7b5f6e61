//! Operations on ranges: cutting into parts, joining, removing overlaps.
//!
//! Pure: knows neither reads nor blocks.

use std::ops::Range;

use super::block_map::without;
use crate::config::limits::READ_SIZE_MAX;

/// `ranges` without mutual overlaps and without the `asked` ranges, cut at multiples of `part`.
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

/// Cuts a range at multiples of `part`. A last piece shorter than a quarter of a part is joined to
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

/// Extends the read's own GET over the next part if both are short: one request instead of two.
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

/// End of a request for a window that should reach `target`: a multiple of `part`, at most `limit`.
/// A short last piece of the object is included.
pub(super) fn end_of_window(target: u64, part: u64, limit: u64, size: u64) -> u64 {
    if target >= limit || (limit == size && limit - target < part / 4) {
        limit
    } else {
        target - target % part
    }
}

/// The likely end of a read that the kernel has cut in two.
///
/// The kernel limits a read to a number of pages of the application's buffer. A buffer that does
/// not begin at a page boundary then loses less than a page of the largest read to a second one.
pub(super) fn end_of_cut(range: &Range<u64>, size: u64) -> Option<u64> {
    let len = range.end - range.start;
    let is_cut =
        READ_SIZE_MAX as u64 - PAGE < len && len < READ_SIZE_MAX as u64 && range.end < size;
    let end = range.end.next_multiple_of(PAGE).min(size);
    (is_cut && range.end < end).then_some(end)
}

/// Size of a page of the application's memory: the smallest of any machine.
const PAGE: u64 = 4 << 10;
