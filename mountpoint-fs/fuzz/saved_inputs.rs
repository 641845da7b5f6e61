//! Runs the fuzz targets of a crate over their saved inputs and over variants of these, without a
//! fuzzer. A part of the unit tests of each crate.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rand::prelude::{Rng, SeedableRng as _, StdRng};

use super::TARGETS;

/// Variants of each saved input.
const VARIANTS: usize = 100;

/// Time for the variants of one input: a target that asks a server gets to fewer of them.
const VARIANTS_TIME: Duration = Duration::from_millis(100);

/// The inputs of a target are in the folder of its name beside this file. Their variants are the
/// same in every run.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "the time that this test itself takes"
)]
fn saved_inputs_and_their_variants_find_no_fault() {
    for (name, target) in TARGETS {
        for input in inputs(name) {
            let saved = fs::read(&input).unwrap();
            try_one(&format!("{}", input.display()), *target, &saved);
            let mut random = StdRng::seed_from_u64(saved.len() as u64);
            let begun = Instant::now();
            for number in (0..VARIANTS).take_while(|_| begun.elapsed() < VARIANTS_TIME) {
                let variant = vary(&saved, &mut random);
                let what = format!("variant {number} of {}: {variant:?}", input.display());
                try_one(&what, *target, &variant);
            }
        }
    }
}

/// The saved inputs of a target, in order.
fn inputs(target: &str) -> Vec<PathBuf> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = crates.join("mountpoint-fs/fuzz/corpus").join(target);
    let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut inputs: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{target} has no saved input");
    inputs
}

#[track_caller]
fn try_one(what: &str, target: fn(&[u8]), input: &[u8]) {
    let outcome = catch_unwind(AssertUnwindSafe(|| target(input)));
    assert!(outcome.is_ok(), "{what}");
}

/// One to four changes: a byte, a number of 32 bits, a cut, a repetition, a removal.
fn vary(saved: &[u8], random: &mut StdRng) -> Vec<u8> {
    const NUMBERS: [u32; 6] = [0, 1, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];
    let mut bytes = saved.to_vec();
    for _ in 0..random.random_range(1..5) {
        let at = random.random_range(0..=bytes.len());
        match random.random_range(0..6) {
            0 | 1 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.random_range(0..8);
                }
            }
            2 => {
                let number = NUMBERS[random.random_range(0..NUMBERS.len())].to_le_bytes();
                let len = number.len().min(bytes.len() - at);
                bytes[at..at + len].copy_from_slice(&number[..len]);
            }
            3 => bytes.truncate(at),
            4 => {
                let end = random.random_range(at..=bytes.len().min(at + 64));
                bytes.extend_from_within(at..end);
            }
            _ => {
                let end = random.random_range(at..=bytes.len().min(at + 64));
                drop(bytes.drain(at..end));
            }
        }
    }
    bytes
}
