//! Numbers that differ from node to node, so that nodes do not act at the same moment.

/// A generator of numbers that need not be unpredictable (SplitMix64).
#[derive(Clone, Debug)]
pub(in crate::cache::shared) struct Jitter(u64);

impl Jitter {
    pub(in crate::cache::shared) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(in crate::cache::shared) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// `percent` percent around 100, evenly: 25 gives 75 to 125.
    pub(super) fn around_percent(&mut self, percent: u32) -> u32 {
        let width = u64::from(2 * percent + 1);
        let offset = u32::try_from(self.next() % width).unwrap_or(0);
        100 - percent + offset
    }
}
