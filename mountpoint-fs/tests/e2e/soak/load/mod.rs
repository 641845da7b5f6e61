//! The threads of the load.

pub(super) mod changes;
pub(super) mod hot;
pub(super) mod model;
pub(super) mod passing;
pub(super) mod reader;
pub(super) mod reading;
pub(super) mod writer;

use rand::Rng as _;
use rand::rngs::StdRng;

/// Sizes of files: many small ones, few of several parts, and those at the limits of requests.
pub(super) fn any_size(numbers: &mut StdRng) -> u64 {
    match numbers.random_range(0..100) {
        0..5 => 0,
        5..10 => *pick(numbers, &[1, 4095, 4096, 131_072, 131_073, 1 << 20]),
        10..65 => numbers.random_range(1..64 << 10),
        65..90 => numbers.random_range(64 << 10..1 << 20),
        90..98 => numbers.random_range(1 << 20..6 << 20),
        _ => numbers.random_range(6 << 20..18 << 20),
    }
}

/// One of several.
pub(super) fn pick<'a, T>(numbers: &mut StdRng, of: &'a [T]) -> &'a T {
    &of[numbers.random_range(0..of.len())]
}
