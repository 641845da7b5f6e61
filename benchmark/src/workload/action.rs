//! The action of a workload on its files. Knows not how that is carried out.

use std::time::Duration;

use crate::dataset::{FileSet, Shape};
use crate::recorded::{Pace, REPLAYED, Recorded};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    /// Each file from its beginning to its end, one thread a file.
    Sequential {
        files: FileSet,
        block: u64,
        mode: Mode,
    },
    /// Aligned blocks anywhere in the first file.
    Random {
        files: FileSet,
        block: u64,
        threads: u64,
        descriptors: Descriptors,
        mode: Mode,
    },
    /// Open, read 4 KiB, close; one file after the other.
    FirstBytes { files: FileSet },
    /// Open, read all, close; files shared out among the threads.
    Whole { files: FileSet, threads: u64 },
    /// The first file, read by `fio`.
    Fio { files: FileSet, job: FioJob },
    /// The first file in some other order.
    Pattern { files: FileSet, pattern: Pattern },
    /// A command over the directory of the files.
    Command {
        files: FileSet,
        program: &'static str,
        arguments: &'static [&'static str],
    },
    /// An application in Python.
    Script { files: FileSet, script: Script },
    /// The files, each from its beginning to its end.
    Write {
        files: FileSet,
        block: u64,
        mode: Mode,
        threads: u64,
    },
    /// The files, each in blocks of which each is written once, in random order.
    Shuffled { files: FileSet, block: u64 },
    /// The files out of an archive, with their modes and times or without.
    Untar {
        files: FileSet,
        has_attributes: bool,
    },
    /// The files by `git clone`, from a repository on the local disk that holds them.
    Clone { files: FileSet },
    /// Reads that were recorded.
    Replay {
        recorded: &'static Recorded,
        pace: Pace,
    },
}

impl Action {
    pub(crate) fn files(&self) -> FileSet {
        match *self {
            Self::Sequential { files, .. }
            | Self::Random { files, .. }
            | Self::FirstBytes { files }
            | Self::Whole { files, .. }
            | Self::Fio { files, .. }
            | Self::Pattern { files, .. }
            | Self::Command { files, .. }
            | Self::Script { files, .. }
            | Self::Write { files, .. }
            | Self::Shuffled { files, .. }
            | Self::Untar { files, .. }
            | Self::Clone { files } => files,
            // They are not alike.
            Self::Replay { recorded, .. } => FileSet {
                prefix: REPLAYED,
                shape: Shape::Flat,
                count: recorded.files.len() as u64,
                size: 0,
                seed: 0,
            },
        }
    }

    /// The record whose files are read.
    pub(crate) fn recorded(&self) -> Option<&'static Recorded> {
        match *self {
            Self::Replay { recorded, .. } => Some(recorded),
            _ => None,
        }
    }

    /// How long it may take before it is given up, where that is not the run's limit.
    pub(crate) fn time_max(&self) -> Duration {
        let recorded = self.recorded();
        recorded.map_or(Duration::ZERO, |recorded| {
            TIMES_SLOWER_MAX * recorded.time()
        })
    }

    /// Whether it reads a file that is put there for it, and is not synthetic.
    pub(crate) fn reads_made_file(&self) -> bool {
        matches!(self, Self::Script { script, .. } if script.maker().is_some())
    }

    /// Whether the action makes its files, instead of reading present ones.
    pub(crate) fn writes(&self) -> bool {
        matches!(
            self,
            Self::Write { .. } | Self::Shuffled { .. } | Self::Untar { .. } | Self::Clone { .. }
        )
    }
}

/// A replay on a slow store takes longer than its record.
const TIMES_SLOWER_MAX: u32 = 20;

/// The settings of `fio`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FioJob {
    /// `libaio`, `io_uring`, `mmap`.
    pub(crate) engine: &'static str,
    /// Whether blocks are read anywhere, or from the beginning.
    pub(crate) random: bool,
    pub(crate) block: u64,
    /// Reads in flight.
    pub(crate) depth: u64,
    pub(crate) mode: Mode,
}

/// An order in which one file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Strided,
    Interleaved,
    Backward,
    Skip,
}

/// An application in Python, see `scripts/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Parquet,
    SafeTensors,
    MappedLoad,
    ReadLoad,
    Streamer,
    Prefetch,
    Archive,
    Folder,
    Loader,
    TorchLoader,
    TorchLoad,
    Shared,
    Heads,
    Stat,
}

impl Script {
    pub(crate) fn source(self) -> &'static str {
        match self {
            Self::Parquet => include_str!("../scripts/parquet.py"),
            Self::SafeTensors => include_str!("../scripts/safetensors.py"),
            Self::MappedLoad => concat!("MAPPED = True\n", include_str!("../scripts/load.py")),
            Self::ReadLoad => concat!("MAPPED = False\n", include_str!("../scripts/load.py")),
            Self::Streamer => include_str!("../scripts/streamer.py"),
            Self::Prefetch => include_str!("../scripts/prefetch.py"),
            Self::Archive => include_str!("../scripts/archive.py"),
            Self::Folder => include_str!("../scripts/folder.py"),
            Self::Loader => include_str!("../scripts/loader.py"),
            Self::TorchLoader => include_str!("../scripts/torch_loader.py"),
            Self::TorchLoad => include_str!("../scripts/torch_load.py"),
            Self::Shared => include_str!("../scripts/shared.py"),
            Self::Heads => include_str!("../scripts/heads.py"),
            Self::Stat => include_str!("../scripts/stat.py"),
        }
    }

    /// Whether it imports PyTorch, which is not on every machine that measures.
    pub(crate) fn needs_torch(self) -> bool {
        matches!(self, Self::TorchLoader | Self::TorchLoad)
    }

    /// The script that makes the file it reads, where that is not one of the bucket's own.
    pub(crate) fn maker(self) -> Option<&'static str> {
        (self == Self::TorchLoad).then_some(include_str!("../scripts/torch_save.py"))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Buffered,
    /// `O_DIRECT`.
    Direct,
}

impl Mode {
    /// The mode's part of a workload's name.
    pub(super) fn suffix(self) -> &'static str {
        match self {
            Self::Buffered => "",
            Self::Direct => "-direct",
        }
    }

    pub(super) fn described(self) -> &'static str {
        match self {
            Self::Buffered => "buffered",
            Self::Direct => "O_DIRECT",
        }
    }
}

/// How threads that read one file share it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Descriptors {
    One,
    Each,
}
