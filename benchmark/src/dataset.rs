//! The objects that the workloads read. Their content is synthetic: it costs the server no memory
//! and can be checked at any offset.

use mountpoint_client::testing::server::synthetic_bytes;

/// The bucket that holds every object.
pub(crate) const BUCKET: &str = "benchmark";
/// The bucket of a cache that mounts share. A mount refuses such a cache within what it shows.
pub(crate) const CACHE_BUCKET: &str = "benchmark-cache";

pub(crate) const KIB: u64 = 1024;
pub(crate) const MIB: u64 = 1024 * KIB;
pub(crate) const GIB: u64 = 1024 * MIB;

/// Objects of one size under one prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileSet {
    pub(crate) prefix: &'static str,
    pub(crate) shape: Shape,
    pub(crate) count: u64,
    /// In bytes.
    pub(crate) size: u64,
    /// Content seed of the first; the others follow.
    pub(crate) seed: u64,
}

/// How the names of a set are laid out below its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// All in one directory.
    Flat,
    /// [`FILES_PER_DIRECTORY`] in a directory, [`DIRECTORIES_PER_DIRECTORY`] of those in another.
    Tree,
    /// Each alone, two directories down: `a/b/c.txt`.
    Deep,
}

pub(crate) const FILES_PER_DIRECTORY: u64 = 50;
pub(crate) const DIRECTORIES_PER_DIRECTORY: u64 = 5;

impl FileSet {
    /// Path of a file below the mount point, which is its key.
    pub(crate) fn key(&self, index: u64) -> String {
        let prefix = self.prefix;
        match self.shape {
            Shape::Flat => format!("{prefix}/{index:06}"),
            Shape::Tree => {
                let directory = index / FILES_PER_DIRECTORY;
                let (outer, inner) = (
                    directory / DIRECTORIES_PER_DIRECTORY,
                    directory % DIRECTORIES_PER_DIRECTORY,
                );
                format!("{prefix}/{outer:03}/{inner}/{index:06}")
            }
            Shape::Deep => format!("{prefix}/a{index:03}/b/c.txt"),
        }
    }

    pub(crate) fn seed(&self, index: u64) -> u64 {
        self.seed + index
    }

    /// The bytes of a file at `offset`.
    pub(crate) fn content(&self, index: u64, offset: u64, len: u64) -> Vec<u8> {
        synthetic_bytes(self.seed(index), offset..(offset + len).min(self.size))
    }

    /// The first `count` of these files.
    pub(crate) fn first(self, count: u64) -> Self {
        assert!(count <= self.count, "{} has fewer files", self.prefix);
        Self { count, ..self }
    }
}

/// Every object of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dataset {
    /// One large file.
    pub(crate) large: FileSet,
    /// Files that are read at once, a stream each.
    pub(crate) streams: FileSet,
    /// Files that fit into memory together and are read twice.
    pub(crate) epoch: FileSet,
    /// Large files of which only the beginning is read.
    pub(crate) cold: FileSet,
    /// A directory to list.
    pub(crate) listed: FileSet,
    /// A tree to walk.
    pub(crate) tree: FileSet,
    /// Files two directories down.
    pub(crate) deep: FileSet,
    /// A directory with very many files.
    pub(crate) crowd: FileSet,
    /// Small files that are read whole.
    pub(crate) small: FileSet,
    /// A folder of images in directories, one for each class.
    pub(crate) images: FileSet,
    /// Tables of row groups and columns.
    pub(crate) tables: FileSet,
    /// Archives of images.
    pub(crate) archives: FileSet,
    /// Weights of a model, in shards.
    pub(crate) tensors: FileSet,
    /// Weights of a model in one file.
    pub(crate) model: FileSet,
    /// Files that are listed or walked where each request takes time: fewer, so that slow peers
    /// end.
    pub(crate) listed_far: FileSet,
    pub(crate) tree_far: FileSet,
    /// A tree of 300 directories, far away.
    pub(crate) tree_wide: FileSet,
    /// Files that workloads write. The bucket holds none of them.
    pub(crate) written_large: FileSet,
    pub(crate) written_four: FileSet,
    pub(crate) written_small: FileSet,
    pub(crate) written_tree: FileSet,
    pub(crate) written_checkpoint: FileSet,
    /// Trees that workloads write by way of a local disk.
    pub(crate) staged_tree: FileSet,
    pub(crate) staged_tree_far: FileSet,
    /// Each file has two directories of its own.
    pub(crate) staged_directories: FileSet,
    pub(crate) staged_repository: FileSet,
    pub(crate) staged_repository_far: FileSet,
    /// The checkpoint that PyTorch loads: not synthetic, stored only for its workload. The size is
    /// that of its tensors.
    pub(crate) checkpoint: FileSet,
}

/// Where everything goes that is written.
pub(crate) const WRITTEN: &str = "written";

/// Where a repository is cloned: a folder that is not there before, as [`WRITTEN`] is not empty.
const CLONED: &str = "written/clone";

/// Seeds of two sets are this far apart, which is more than any set has files.
const SEEDS_PER_SET: u64 = 1_000_000;

impl Dataset {
    /// `quick` halves counts and sizes.
    pub(crate) fn new(quick: bool) -> Self {
        let part = if quick { 2 } else { 1 };
        let mut sets = 0;
        let mut set = |prefix, shape, count, size| {
            sets += 1;
            FileSet {
                prefix,
                shape,
                count,
                size,
                seed: sets * SEEDS_PER_SET,
            }
        };
        Self {
            large: set("large", Shape::Flat, 1, 4 * GIB / part),
            streams: set("streams", Shape::Flat, STREAMS_MAX, GIB / part),
            epoch: set("epoch", Shape::Flat, 8, 128 * MIB / part),
            cold: set("cold", Shape::Flat, 50 / part, GIB),
            listed: set("listed", Shape::Flat, 2000 / part, KIB),
            tree: set("tree", Shape::Tree, 2000 / part, KIB),
            deep: set("deep", Shape::Deep, 20 / part, KIB),
            crowd: set("crowd", Shape::Flat, 100_000 / part, KIB),
            small: set("small", Shape::Flat, 10_000 / part, 100 * KIB),
            images: set("images", Shape::Tree, 4000 / part, 110 * KIB),
            tables: set("tables", Shape::Flat, 16 / part, 256 * MIB),
            archives: set("archives", Shape::Flat, 8 / part, 256 * MIB),
            tensors: set("tensors", Shape::Flat, 4, 512 * MIB / part),
            listed_far: set("listed-far", Shape::Flat, 500 / part, KIB),
            tree_far: set("tree-far", Shape::Tree, 500 / part, KIB),
            tree_wide: set("tree-wide", Shape::Tree, 12_500, KIB),
            written_large: set(WRITTEN, Shape::Flat, 1, GIB / part),
            written_four: set(WRITTEN, Shape::Flat, 4, 512 * MIB / part),
            written_small: set(WRITTEN, Shape::Flat, 1000 / part, 4 * KIB),
            written_tree: set(WRITTEN, Shape::Tree, 500 / part, 8 * KIB),
            written_checkpoint: set(WRITTEN, Shape::Flat, 1, 3 * GIB / part),
            checkpoint: set(WRITTEN, Shape::Flat, 1, 512 * MIB / part),
            model: set("model", Shape::Flat, 1, 8 * GIB / part),
            staged_tree: set(WRITTEN, Shape::Tree, 10_000 / part, 8 * KIB),
            staged_tree_far: set(WRITTEN, Shape::Tree, 1000 / part, 8 * KIB),
            staged_directories: set(WRITTEN, Shape::Deep, 200 / part, 8 * KIB),
            staged_repository: set(CLONED, Shape::Tree, 2000 / part, 8 * KIB),
            staged_repository_far: set(CLONED, Shape::Tree, 500 / part, 8 * KIB),
        }
    }

    /// Every set that the bucket holds.
    pub(crate) fn file_sets(&self) -> [FileSet; 17] {
        [
            self.large,
            self.streams,
            self.epoch,
            self.cold,
            self.listed,
            self.tree,
            self.deep,
            self.crowd,
            self.small,
            self.images,
            self.tables,
            self.archives,
            self.tensors,
            self.model,
            self.listed_far,
            self.tree_far,
            self.tree_wide,
        ]
    }

    /// Every set that is written.
    pub(crate) fn written_sets(&self) -> [FileSet; 10] {
        [
            self.written_large,
            self.written_four,
            self.written_small,
            self.written_tree,
            self.written_checkpoint,
            self.staged_tree,
            self.staged_tree_far,
            self.staged_directories,
            self.staged_repository,
            self.staged_repository_far,
        ]
    }
}

/// Most streams that a workload reads at once.
const STREAMS_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_objects_share_a_seed_or_a_key() {
        for quick in [false, true] {
            let (mut seeds, mut keys, mut count) = (HashSet::new(), HashSet::new(), 0);
            for set in Dataset::new(quick).file_sets() {
                count += usize::try_from(set.count).unwrap();
                seeds.extend((0..set.count).map(|index| set.seed(index)));
                keys.extend((0..set.count).map(|index| set.key(index)));
            }
            assert_eq!((seeds.len(), keys.len()), (count, count));
        }
    }

    #[test]
    fn names_follow_the_shape() {
        let data = Dataset::new(false);
        assert_eq!(data.listed.key(7), "listed/000007");
        assert_eq!(data.tree.key(299), "tree/001/0/000299");
        assert_eq!(data.deep.key(3), "deep/a003/b/c.txt");
    }
}
