//! The sizes of an upload's parts.
//!
//! Pure. Parts begin small, so that many files can be written in little memory, and grow with the
//! file, because S3 takes no more than 10,000 of them. A part stays in memory as a whole until S3
//! has it: its length must be sent before its first byte, and the file may end at any time. So
//! memory bounds the size of parts, and with it that of files. All parts of one step are equally
//! large: some servers demand that.

use std::ops::Range;

use crate::config::limits::{UPLOAD_PART_MAX, UPLOAD_PARTS_MAX, WRITE_PART_DEFAULT};

/// Sizes of the parts of every upload of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::write) struct PartPlan {
    first: u64,
    largest: u64,
    is_fixed: bool,
    /// Bytes of all parts: each write asks for it.
    total: u64,
}

impl PartPlan {
    /// Parts of `fixed` bytes; without it, parts that grow up to `part_max` bytes.
    pub(in crate::write) fn new(fixed: Option<u64>, part_max: u64) -> Self {
        let first = fixed.unwrap_or(WRITE_PART_DEFAULT);
        let largest = match fixed {
            Some(size) => size,
            None => part_max.clamp(first, UPLOAD_PART_MAX),
        };
        let mut plan = Self {
            first,
            largest,
            is_fixed: fixed.is_some(),
            total: 0,
        };
        let sizes = (1..=UPLOAD_PARTS_MAX).filter_map(|number| plan.size(number));
        plan.total = sizes.sum();
        plan
    }

    /// Whether every part but the last has the chosen size: some servers take no others.
    pub(in crate::write) fn is_fixed(&self) -> bool {
        self.is_fixed
    }

    /// Bytes of the first part.
    pub(in crate::write) fn first(&self) -> u64 {
        self.first
    }

    /// Bytes of part `number`, which counts from 1; `None` behind the last part that S3 takes.
    pub(in crate::write) fn size(&self, number: u16) -> Option<u64> {
        assert!(number > 0, "parts count from 1");
        if number > UPLOAD_PARTS_MAX {
            return None;
        }
        let doublings = match (number - 1).checked_sub(UPLOAD_PARTS_FIRST) {
            None => 0,
            Some(behind) => 1 + u32::from(behind / UPLOAD_PARTS_STEP),
        };
        let size = self.first.saturating_mul(1 << doublings);
        Some(size.min(self.largest))
    }

    /// The bytes of the part that has the one at `offset`, where all parts are whole; `None` behind
    /// the last one.
    pub(in crate::write) fn range_at(&self, offset: u64) -> Option<Range<u64>> {
        let (mut start, mut number, mut count) = (0, 1, UPLOAD_PARTS_FIRST);
        loop {
            let size = self.size(number)?;
            let end = start + size * u64::from(count);
            if offset < end {
                let start = offset - (offset - start) % size;
                return Some(start..start + size);
            }
            (start, number, count) = (end, number + count, UPLOAD_PARTS_STEP);
        }
    }

    /// Largest file that can be written, in bytes.
    pub(in crate::write) fn total(&self) -> u64 {
        self.total
    }
}

/// Parts of the first size. The first 7.8 GiB are sent in parts of 8 MiB, many of them in parallel.
const UPLOAD_PARTS_FIRST: u16 = 1000;

/// After those parts the size doubles every so many parts. Most of the 10,000 may then have the
/// largest size.
const UPLOAD_PARTS_STEP: u16 = 250;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;

    #[test]
    fn sizes() {
        let plan = PartPlan::new(None, u64::MAX);
        for (number, size) in [
            (1, Some(8 * MIB)),
            (1000, Some(8 * MIB)),
            (1001, Some(16 * MIB)),
            (1250, Some(16 * MIB)),
            (1251, Some(32 * MIB)),
            (3250, Some(4096 * MIB)),
            (3251, Some(5120 * MIB)),
            (10_000, Some(5120 * MIB)),
            (10_001, None),
        ] {
            assert_eq!(plan.size(number), size, "{number}");
        }
        assert_eq!(plan.total() / TIB, 34);
        let fixed = PartPlan::new(Some(5 << 30), 64 * MIB);
        assert_eq!(
            (fixed.size(1), fixed.size(10_000)),
            (Some(5 << 30), Some(5 << 30))
        );
        assert_eq!(fixed.total(), 10_000 * (5 << 30), "S3's largest object");
    }

    #[test]
    fn the_largest_file_follows_the_memory() {
        // Memory of a mount for reads and writes together, in MiB; a quarter of it is the largest
        // part and one write.
        for (memory, gib) in [
            (512, 1058),
            (1 << 10, 2058),
            (2 << 10, 3996),
            (8 << 10, 14_996),
            (24 << 10, 35_753),
        ] {
            let plan = PartPlan::new(None, memory * MIB / 4 - MIB);
            assert_eq!(plan.total() >> 30, gib, "{memory} MiB");
        }
    }

    #[test]
    fn each_byte_has_its_part() {
        let plan = PartPlan::new(None, 64 * MIB);
        let mut start = 0;
        for number in 1..=UPLOAD_PARTS_MAX {
            let range = start..start + plan.size(number).unwrap();
            for offset in [range.start, range.end - 1] {
                assert_eq!(plan.range_at(offset), Some(range.clone()), "{number}");
            }
            start = range.end;
        }
        assert_eq!(plan.range_at(start), None);
    }

    proptest! {
        #[test]
        fn parts_never_shrink_and_never_leave_the_bounds_of_s3(part_max in 1_u64..1 << 40, number in 1_u16..10_000) {
            let plan = PartPlan::new(None, part_max);
            let (size, next) = (plan.size(number).unwrap(), plan.size(number + 1).unwrap());
            prop_assert!(size <= next);
            prop_assert!(((5 * MIB)..=(5 << 30)).contains(&size));
            prop_assert!(next <= part_max.max(8 * MIB));
        }
    }
}
