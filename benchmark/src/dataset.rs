//! The objects that the workloads read. Their content is synthetic: it costs the server no memory and can
//! be checked at any offset.

use mountpoint_client::server::synthetic_bytes;

/// The bucket that holds every object.
pub(crate) const BUCKET: &str = "benchmark";

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
pub(crate) const GIB: u64 = 1024 * MIB;

/// Objects of one size under one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSet {
    pub(crate) prefix: &'static str,
    pub(crate) count: u64,
    /// In bytes.
    pub(crate) size: u64,
    /// Content seed of the first; the others follow.
    seed: u64,
}

impl FileSet {
    /// Path of a file below the mount point, which is its key.
    pub(crate) fn key(&self, index: u64) -> String {
        format!("{}/{index:05}", self.prefix)
    }

    pub(crate) fn seed(&self, index: u64) -> u64 {
        self.seed + index
    }

    /// What a file holds at `offset`.
    pub(crate) fn content(&self, index: u64, offset: u64, len: u64) -> Vec<u8> {
        synthetic_bytes(self.seed(index), offset..(offset + len).min(self.size))
    }
}

/// Every object of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dataset {
    /// One large file.
    pub(crate) large: FileSet,
    /// Eight files that are read at once.
    pub(crate) eight: FileSet,
    /// Large files of which only the beginning is read.
    pub(crate) cold: FileSet,
    /// A directory to list.
    pub(crate) listed: FileSet,
    /// Small files that are read whole.
    pub(crate) small: FileSet,
}

impl Dataset {
    /// `quick` halves counts and sizes.
    pub(crate) fn new(quick: bool) -> Self {
        let part = if quick { 2 } else { 1 };
        Self {
            large: FileSet {
                prefix: "large",
                count: 1,
                size: 4 * GIB / part,
                seed: 1,
            },
            eight: FileSet {
                prefix: "eight",
                count: 8,
                size: GIB / part,
                seed: 1000,
            },
            cold: FileSet {
                prefix: "cold",
                count: 50 / part,
                size: GIB,
                seed: 2000,
            },
            listed: FileSet {
                prefix: "listed",
                count: 2000 / part,
                size: KIB,
                seed: 3000,
            },
            small: FileSet {
                prefix: "small",
                count: 200 / part,
                size: 100 * KIB,
                seed: 9000,
            },
        }
    }

    pub(crate) fn file_sets(&self) -> [FileSet; 5] {
        [self.large, self.eight, self.cold, self.listed, self.small]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_objects_share_a_seed() {
        for quick in [false, true] {
            let mut seeds = Vec::new();
            for set in Dataset::new(quick).file_sets() {
                seeds.extend((0..set.count).map(|index| set.seed(index)));
            }
            let count = seeds.len();
            seeds.sort_unstable();
            seeds.dedup();
            assert_eq!(seeds.len(), count);
        }
    }
}
