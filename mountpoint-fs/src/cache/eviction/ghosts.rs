//! Names of entries that were evicted lately: two filters of bits, of which the older one goes.
//!
//! Pure. May take one name in some hundreds for a ghost that is none; never misses one.

use crate::cache::storage::EntryName;

/// The names of evicted entries.
#[derive(Debug, Default)]
pub(super) struct Ghosts {
    recent: Vec<u64>,
    older: Vec<u64>,
    /// Names in `recent`, and most names that it may have.
    count: u64,
    count_max: u64,
}

impl Ghosts {
    /// Remembers an entry. The cache has so many `entries`.
    pub(super) fn add(&mut self, name: EntryName, entries: u64) {
        if self.count >= self.count_max {
            self.count_max = entries.clamp(GHOSTS_MIN, GHOSTS_MAX);
            let words = usize::try_from(self.count_max * BITS_PER_GHOST / 64).unwrap_or_default();
            self.older = std::mem::replace(&mut self.recent, vec![0; words]);
            self.count = 0;
        }
        self.count += 1;
        for (word, bit) in places(name, self.recent.len()) {
            self.recent[word] |= bit;
        }
    }

    /// Whether an entry of this name was evicted lately.
    pub(super) fn has(&self, name: EntryName) -> bool {
        let is_in = |filter: &Vec<u64>| {
            !filter.is_empty()
                && places(name, filter.len()).all(|(word, bit)| filter[word] & bit != 0)
        };
        is_in(&self.recent) || is_in(&self.older)
    }
}

/// The words and bits of a name, in a filter of so many words.
fn places(name: EntryName, words: usize) -> impl Iterator<Item = (usize, u64)> {
    // The name is a hash already.
    let number = u128::from_le_bytes(name.0);
    (0..4).map(move |part| {
        let number = u64::try_from((number >> (32 * part)) & u128::from(u32::MAX));
        let number = number.unwrap_or_default();
        let word = usize::try_from(number / 64).unwrap_or_default() % words;
        (word, 1 << (number % 64))
    })
}

/// Bits for each name: with four places, one foreign name in 400 has all its bits set.
const BITS_PER_GHOST: u64 = 16;

/// Names that a filter has room for at least, in 2 KiB.
const GHOSTS_MIN: u64 = 1024;

/// Names that a filter has room for at most, in 8 MiB.
const GHOSTS_MAX: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    /// Names whose bytes look random.
    fn name(number: u64) -> EntryName {
        let mix = |number: u64| {
            let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
        };
        let number = u128::from(mix(number)) << 64 | u128::from(mix(!number) ^ mix(number) >> 32);
        EntryName(number.to_be_bytes())
    }

    #[test]
    fn the_latest_are_known_the_oldest_forgotten() {
        let mut ghosts = Ghosts::default();
        assert!(!ghosts.has(name(1)));
        let count = 3 * GHOSTS_MIN;
        for number in 0..count {
            ghosts.add(name(number), 0);
        }
        let known = |numbers: std::ops::Range<u64>| {
            let known = numbers.clone().filter(|it| ghosts.has(name(*it)));
            (known.count() as u64, numbers.end - numbers.start)
        };
        let (latest, all) = known(GHOSTS_MIN..count);
        assert_eq!(latest, all);
        let (oldest, all) = known(0..GHOSTS_MIN);
        assert!(oldest * 50 < all, "{oldest} of {all}");
        let (foreign, all) = known(count..2 * count);
        assert!(foreign * 50 < all, "{foreign} of {all}");
    }
}
