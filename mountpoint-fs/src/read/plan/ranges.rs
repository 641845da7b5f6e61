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

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_window_ends_at_a_part_or_at_its_limit() {
        // Target, limit and size in MiB, parts of 8.
        let cases = [
            (16, 100, 100, 16),
            (17, 100, 100, 16),
            (23, 100, 100, 16),
            (24, 100, 100, 24),
            (100, 100, 100, 100),
            (120, 100, 100, 100),
            // A rest shorter than a quarter of a part, at the end of the object alone.
            (99, 100, 100, 100),
            (98, 100, 100, 96),
            (99, 100, 200, 96),
            (100, 100, 200, 100),
        ];
        for (target, limit, size, end) in cases {
            let found = end_of_window(target * MIB, 8 * MIB, limit * MIB, size * MIB);
            assert_eq!(found, end * MIB, "{target} of {limit} in {size}");
        }
    }

    #[test]
    fn ranges_apart_are_asked_for_once() {
        let ranges = [0..10, 5..15, 30..40, 31..32, 20..31];
        let asked = vec![8..12, 2..4];
        let apart = apart(ranges.into_iter(), asked, 100);
        assert_eq!(apart, [0..2, 4..8, 12..15, 30..40, 20..30]);
    }

    #[test]
    fn a_read_takes_the_part_behind_it_if_both_are_short() {
        let joined = |demand: Range<u64>, ahead: Range<u64>, read_end: u64| {
            let (mut demand, mut ahead) = (vec![demand], vec![ahead, 90..99]);
            join(&mut demand, &mut ahead, read_end, 20);
            (demand.remove(0), ahead.len())
        };
        assert_eq!(joined(0..10, 10..20, 10), (0..20, 1));
        assert_eq!(joined(0..10, 10..21, 10), (0..10, 2), "too long");
        assert_eq!(joined(0..10, 11..20, 10), (0..10, 2), "not behind it");
        assert_eq!(joined(0..8, 10..18, 10), (0..8, 2), "the read has more");
    }

    #[test]
    fn a_read_that_is_nearly_the_largest_was_cut() {
        let most = READ_SIZE_MAX as u64;
        let end = |start: u64, len: u64, size: u64| end_of_cut(&(start..start + len), size);
        assert_eq!(end(100, most - 100, 9 * most), None, "it ends at a page");
        assert_eq!(end(0, most - 100, 9 * most), Some(most));
        assert_eq!(end(0, most - PAGE + 1, 9 * most), Some(most));
        assert_eq!(end(1, most - PAGE, 9 * most), None, "a page less is no cut");
        assert_eq!(end(1, most, 9 * most), None, "the largest is whole");
        assert_eq!(end(0, most - 100, most - 100), None, "the end of the file");
        assert_eq!(end(0, most - 100, most - 60), Some(most - 60));
    }
}
