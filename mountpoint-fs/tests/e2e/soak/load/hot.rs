//! Objects that another client replaces and deletes while mounts read them.
//!
//! Knows every version that there was, so that a reader can tell which ones it may see.

use std::ops::Range;
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{Server, synthetic_bytes};
use parking_lot::Mutex;
use rand::Rng as _;
use rand::rngs::StdRng;

use super::any_size;
use crate::harness::BUCKET;

/// Objects that change.
const OBJECTS: usize = 24;

/// How long names may be remembered, by `--metadata-ttl` of a mount with a cache, and as much again
/// for a busy machine.
const REMEMBERED: Duration = Duration::from_secs(120);

/// A version of an object: its size, or nothing where it was deleted.
#[derive(Clone, Copy, Debug)]
pub(in crate::soak) struct Version {
    seed: u64,
    size: Option<u64>,
    since: Instant,
}

/// The versions of all objects, each oldest first.
pub(in crate::soak) struct Hot {
    seed: u64,
    versions: Mutex<Vec<Vec<Version>>>,
}

/// What a reader got of one open file.
#[derive(Default)]
pub(in crate::soak) struct Seen {
    pub(in crate::soak) pieces: Vec<(u64, Vec<u8>)>,
    /// The size, if the reader came to the end.
    pub(in crate::soak) size: Option<u64>,
}

impl Hot {
    pub(in crate::soak) fn new(server: &Server, seed: u64, numbers: &mut StdRng) -> Self {
        let hot = Self {
            seed,
            versions: Mutex::new(vec![Vec::new(); OBJECTS]),
        };
        for number in 0..OBJECTS {
            hot.store(server, number, Some(any_size(numbers)));
        }
        hot
    }

    pub(in crate::soak) fn key(number: usize) -> String {
        format!("hot/{number}")
    }

    pub(in crate::soak) fn any(numbers: &mut StdRng) -> usize {
        numbers.random_range(0..OBJECTS)
    }

    /// Replaces or deletes an object behind the mounts.
    pub(in crate::soak) fn change(&self, server: &Server, numbers: &mut StdRng) {
        let is_deleted = numbers.random_ratio(1, 6);
        let size = any_size(numbers);
        self.store(server, Self::any(numbers), (!is_deleted).then_some(size));
    }

    /// The lock is held meanwhile: a reader that has it knows what the bucket has.
    fn store(&self, server: &Server, number: usize, size: Option<u64>) {
        let mut versions = self.versions.lock();
        let count = versions[number].len() as u64;
        let seed = self.seed ^ ((number as u64) << 40) ^ (count << 8) ^ 0x5eed;
        match size {
            Some(size) => drop(server.store().put_synthetic(
                BUCKET,
                &Self::key(number),
                size,
                seed,
            )),
            None => drop(server.store().delete(BUCKET, &Self::key(number))),
        }
        let since = Instant::now();
        versions[number].push(Version { seed, size, since });
    }

    /// The newest version, and the time.
    pub(in crate::soak) fn newest(&self, number: usize) -> (usize, Instant) {
        (self.versions.lock()[number].len() - 1, Instant::now())
    }

    /// The versions that a reader may have seen that began when `first` was the newest.
    pub(in crate::soak) fn visible(
        &self,
        number: usize,
        (mut first, began): (usize, Instant),
        is_fresh: bool,
    ) -> Vec<Version> {
        let versions = self.versions.lock();
        let versions = &versions[number];
        // A version was the newest until the next one came.
        while !is_fresh && first > 0 && versions[first].since + REMEMBERED > began {
            first -= 1;
        }
        versions[first..].to_vec()
    }
}

impl Version {
    pub(in crate::soak) fn is_deleted(&self) -> bool {
        self.size.is_none()
    }

    /// Whether all that a reader got is of this version.
    pub(in crate::soak) fn fits(&self, seen: &Seen) -> bool {
        let Some(size) = self.size else {
            return false;
        };
        let fits = |(at, bytes): &(u64, Vec<u8>)| {
            let range = *at..(at + bytes.len() as u64);
            range.end <= size && equals(self.seed, range, bytes)
        };
        seen.size.is_none_or(|seen| seen == size) && seen.pieces.iter().all(fits)
    }
}

/// Whether these are the bytes of a synthetic object.
pub(in crate::soak) fn equals(seed: u64, range: Range<u64>, bytes: &[u8]) -> bool {
    synthetic_bytes(seed, range) == bytes
}
