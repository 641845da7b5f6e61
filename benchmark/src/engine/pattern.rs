//! Orders in which programs read one file that are neither sequential nor random. Pure.

use crate::dataset::{KIB, MIB};
use crate::workload::Pattern;

/// The offsets and lengths that `pattern` reads of a file of `size` bytes, in order.
pub(super) fn reads(pattern: Pattern, size: u64) -> Box<dyn Iterator<Item = (u64, u64)>> {
    match pattern {
        // 64 KiB of every MiB, as one column of a table of rows.
        Pattern::Strided => Box::new((0..size / MIB).map(|index| (index * MIB, 64 * KIB))),
        // Four streams on one descriptor, each in its quarter, taking turns.
        Pattern::Interleaved => {
            let quarter = size / 4;
            let block = 128 * KIB;
            let turns = 0..quarter / block;
            Box::new(turns.flat_map(move |turn| {
                (0..4).map(move |stream| (stream * quarter + turn * block, block))
            }))
        }
        Pattern::Backward => {
            let block = 128 * KIB;
            Box::new(
                (0..size / block)
                    .rev()
                    .map(move |index| (index * block, block)),
            )
        }
        // Reads 256 KiB, leaves 256 KiB out.
        Pattern::Skip => {
            let block = 256 * KIB;
            let indices = (0..size / block).step_by(2);
            Box::new(indices.map(move |index| (index * block, block)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_stay_inside_and_do_not_repeat() {
        let size = 64 * MIB;
        for (pattern, share) in [
            (Pattern::Strided, 16),
            (Pattern::Interleaved, 1),
            (Pattern::Backward, 1),
            (Pattern::Skip, 2),
        ] {
            let mut reads: Vec<_> = reads(pattern, size).collect();
            assert_eq!(reads.iter().map(|(_, len)| len).sum::<u64>(), size / share);
            reads.sort_unstable();
            assert!(
                reads
                    .windows(2)
                    .all(|pair| pair[0].0 + pair[0].1 <= pair[1].0)
            );
            let (offset, len) = reads[reads.len() - 1];
            assert!(offset + len <= size, "{pattern:?}");
        }
    }

    #[test]
    fn streams_take_turns() {
        let offsets: Vec<_> = reads(Pattern::Interleaved, 4 * MIB).take(5).collect();
        let starts: Vec<_> = offsets.iter().map(|(offset, _)| *offset).collect();
        assert_eq!(starts, [0, MIB, 2 * MIB, 3 * MIB, 128 * KIB]);
    }
}
