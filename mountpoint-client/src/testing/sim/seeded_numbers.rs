//! Numbers that look random and are the same for the same seed.

/// SplitMix64: one addition and one mix for each number.
#[derive(Clone, Debug)]
pub(super) struct SeededNumbers(u64);

impl SeededNumbers {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `end`; 0 if `end` is 0.
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }
}

/// Where `name` comes in an order that `seed` decides.
pub(super) fn rank(seed: u64, name: &[u8]) -> u64 {
    mix(crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, name) ^ mix(seed))
}

fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
