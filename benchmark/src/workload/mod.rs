//! Tables of the workloads that are measured. Knows how none of them is carried out.

mod application;
mod cached;
mod first_byte;
mod metadata;
mod network;
mod pattern;
mod random;
mod s3;
mod sequential;
mod write;

use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, FileSet};

/// One row of the benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) group: Group,
    /// An action that comes first and is not measured.
    pub(crate) before: Option<Action>,
    pub(crate) action: Action,
    pub(crate) unit: Unit,
    /// How the server behaves; `None`: as the command line says.
    pub(crate) conditions: Option<Conditions>,
    /// The network between client and server; `None` for the loopback interface.
    pub(crate) link: Option<Link>,
    /// One sentence for the report.
    pub(crate) description: String,
}

impl Workload {
    /// With nothing before it, on a server that behaves as the command line says, over the loopback
    /// interface.
    fn new(
        group: Group,
        name: impl Into<String>,
        action: Action,
        unit: Unit,
        description: impl Into<String>,
    ) -> Self {
        Self {
            name: name.into(),
            group,
            before: None,
            action,
            unit,
            conditions: None,
            link: None,
            description: description.into(),
        }
    }
}

/// How a server behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Conditions {
    /// Time before each answer.
    pub(crate) latency_ms: u64,
    /// Bandwidth of each answer's body; 0 for no limit.
    pub(crate) bandwidth_mbps: u64,
    /// Some answers come much later.
    pub(crate) late: Option<Late>,
}

/// Answers that come later than the others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Late {
    /// Of all.
    pub(crate) percent: u64,
    pub(crate) by_ms: u64,
}

impl Conditions {
    fn latency_ms(latency_ms: u64) -> Self {
        Self {
            latency_ms,
            ..Self::default()
        }
    }
}

/// Network interfaces of their own to a server in a network namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) interfaces: u64,
    /// Of each.
    pub(crate) megabits_per_second: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Sequential,
    Cached,
    Random,
    Pattern,
    Application,
    FirstByte,
    Metadata,
    Write,
    Network,
    /// A store as far away, and answers as wide, as those of Amazon S3.
    S3,
    /// An S3-like store where some answers are late.
    Tail,
}

impl Group {
    pub(crate) const ALL: [Self; 11] = [
        Self::Sequential,
        Self::Cached,
        Self::Random,
        Self::Pattern,
        Self::Application,
        Self::FirstByte,
        Self::Metadata,
        Self::Write,
        Self::Network,
        Self::S3,
        Self::Tail,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "seq",
            Self::Cached => "cached",
            Self::Random => "rand",
            Self::Pattern => "pattern",
            Self::Application => "app",
            Self::FirstByte => "first",
            Self::Metadata => "metadata",
            Self::Write => "write",
            Self::Network => "nic",
            Self::S3 => "s3",
            Self::Tail => "tail",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Sequential => "Sequential reads",
            Self::Cached => "What the page cache is for",
            Self::Random => "Random reads",
            Self::Pattern => "Strided, interleaved, backward and skipping reads",
            Self::Application => "Applications",
            Self::FirstByte => "Time to first byte",
            Self::Metadata => "Names and attributes",
            Self::Write => "Writing",
            Self::Network => "Several network interfaces",
            Self::S3 => "Sequential reads from a store as far away as S3",
            Self::Tail => "Late answers",
        }
    }

    /// Whether FUSE alone and the client alone say anything of it. What waits for a far store is
    /// bounded by how much is asked for at once, and neither of them decides that.
    pub(crate) fn has_limit(self) -> bool {
        !matches!(self, Self::S3 | Self::Tail)
    }
}

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
    /// The files out of an archive.
    Untar { files: FileSet },
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
            | Self::Untar { files } => files,
        }
    }

    /// Whether it reads a file that is put there for it, and is not synthetic.
    pub(crate) fn reads_made_file(&self) -> bool {
        matches!(self, Self::Script { script, .. } if script.maker().is_some())
    }

    /// Whether the action makes its files, instead of reading present ones.
    pub(crate) fn writes(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Untar { .. })
    }
}

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
    fn suffix(self) -> &'static str {
        match self {
            Self::Buffered => "",
            Self::Direct => "-direct",
        }
    }

    fn described(self) -> &'static str {
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

/// The figure a workload is compared by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// 10^9 bytes per second.
    GigabytesPerSecond,
    ReadsPerSecond,
    FilesPerSecond,
    /// Median of the operations' durations.
    Milliseconds,
    /// The time that 999 of 1,000 operations take at most.
    MillisecondsP999,
    /// The whole workload.
    MillisecondsInAll,
}

impl Unit {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::GigabytesPerSecond => "GB/s",
            Self::ReadsPerSecond => "IOPS",
            Self::FilesPerSecond => "files/s",
            Self::Milliseconds | Self::MillisecondsInAll => "ms",
            Self::MillisecondsP999 => "ms p99.9",
        }
    }

    /// Whether a greater value is a better one.
    pub(crate) fn more_is_better(self) -> bool {
        !matches!(
            self,
            Self::Milliseconds | Self::MillisecondsP999 | Self::MillisecondsInAll
        )
    }

    /// How many times as good as `other` the value is.
    pub(crate) fn advantage(self, value: f64, other: f64) -> f64 {
        if self.more_is_better() {
            value / other
        } else {
            other / value
        }
    }
}

/// Every workload.
pub(crate) fn all(data: &Dataset) -> Vec<Workload> {
    let tables = [
        sequential::table,
        cached::table,
        random::table,
        pattern::table,
        application::table,
        first_byte::table,
        metadata::table,
        write::table,
        network::table,
        s3::table,
    ];
    tables.iter().flat_map(|table| table(data)).collect()
}

/// What `fuse` asks for: sequential and random reads, names and attributes, and writes, for which
/// the transports of FUSE differ most.
const FUSE: [&str; 8] = [
    "seq-1x1m",
    "seq-8x256k",
    "rand-4k-1t",
    "rand-4k-16t",
    "metadata-ls-lr",
    "metadata-stat32",
    "write-1x1m",
    "write-4k-16t",
];

/// The workloads that `names` ask for: `all`, a group, [`fuse`](FUSE), a workload, or the beginning
/// of names and a `*`.
///
/// # Errors
/// The first name that is none of them.
pub(crate) fn select(all: &[Workload], names: &[String]) -> Result<Vec<Workload>, String> {
    let asked = |workload: &Workload, name: &str| {
        let begins = name
            .strip_suffix('*')
            .is_some_and(|start| workload.name.starts_with(start));
        let is_of_fuse = name == "fuse" && FUSE.contains(&workload.name.as_str());
        let is_of_group = name == "all" || name == workload.group.name();
        is_of_group || is_of_fuse || name == workload.name || begins
    };
    if let Some(name) = names
        .iter()
        .find(|name| !all.iter().any(|workload| asked(workload, name)))
    {
        return Err(name.clone());
    }
    let chosen = all
        .iter()
        .filter(|workload| names.iter().any(|name| asked(workload, name)));
    Ok(chosen.cloned().collect())
}

/// The files that workloads read, each set once and with as many files as the greediest of them
/// needs.
pub(crate) fn files_read(workloads: &[Workload]) -> Vec<FileSet> {
    let actions = workloads
        .iter()
        .flat_map(|workload| workload.before.into_iter().chain([workload.action]));
    let mut sets: Vec<FileSet> = Vec::new();
    for files in actions
        .filter(|action| !action.writes() && !action.reads_made_file())
        .map(|action| action.files())
    {
        match sets.iter_mut().find(|set| set.prefix == files.prefix) {
            Some(set) => set.count = set.count.max(files.count),
            None => sets.push(files),
        }
    }
    sets
}

/// A size as names have it: `4k`, `1m`.
fn short(bytes: u64) -> String {
    match bytes >> 10 {
        kib if kib >= 1024 => format!("{}m", kib >> 10),
        kib => format!("{kib}k"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[track_caller]
    fn check(names: &[&str], expected: Result<&[&str], &str>) {
        let all = all(&Dataset::new(false));
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let found = select(&all, &names);
        let found = found
            .as_ref()
            .map(|chosen| chosen.iter().map(|row| row.name.as_str()).collect());
        let expected: Result<Vec<_>, _> = expected.map(<[_]>::to_vec);
        assert_eq!(found.map_err(String::as_str), expected, "{names:?}");
    }

    #[test]
    fn workloads_are_chosen_by_name_and_beginning() {
        check(&["seq-1x1m"], Ok(&["seq-1x1m"]));
        check(&["seq-1x1m*"], Ok(&["seq-1x1m", "seq-1x1m-direct"]));
        check(&["seq-1x1m", "seq-1x1m"], Ok(&["seq-1x1m"]));
        check(&["seq", "fast"], Err("fast"));
        check(&["fast*"], Err("fast*"));
    }

    #[test]
    fn workloads_are_chosen_by_group() {
        let all = all(&Dataset::new(false));
        for group in Group::ALL {
            let chosen = select(&all, &[group.name().to_owned()]).unwrap();
            assert!(chosen.iter().all(|workload| workload.group == group));
            assert!(!chosen.is_empty(), "{group:?}");
        }
        assert_eq!(select(&all, &["all".to_owned()]).unwrap().len(), all.len());
    }

    #[test]
    fn workloads_that_compare_transports_are_chosen_together() {
        let all = all(&Dataset::new(false));
        let chosen = select(&all, &["fuse".to_owned()]).unwrap();
        assert_eq!(chosen.len(), FUSE.len());
    }

    #[test]
    fn each_set_that_is_read_is_there_once() {
        let data = Dataset::new(true);
        let all = all(&data);
        let names = ["seq-1x256k", "seq-8x256k", "write-1x1m", "ttfb"].map(str::to_owned);
        let sets = files_read(&select(&all, &names).unwrap());
        let found: Vec<_> = sets.iter().map(|set| (set.prefix, set.count)).collect();
        let streams = (data.streams.prefix, 8);
        let cold = (data.cold.prefix, data.cold.count);
        assert!(
            found.contains(&streams) && found.contains(&cold),
            "{found:?}"
        );
        assert!(!found.iter().any(|(prefix, _)| *prefix == "written"));
    }

    #[test]
    fn names_are_unique() {
        let mut names = HashSet::new();
        for group in Group::ALL {
            assert!(names.insert(group.name().to_owned()));
        }
        for workload in all(&Dataset::new(true)) {
            assert!(names.insert(workload.name.clone()), "{}", workload.name);
        }
    }

    #[test]
    fn blocks_divide_files() {
        for workload in all(&Dataset::new(true)) {
            if let Action::Sequential { files, block, .. } | Action::Random { files, block, .. } =
                workload.action
            {
                assert_eq!(files.size % block, 0, "{}", workload.name);
            }
        }
    }

    #[test]
    fn less_time_and_more_throughput_are_better() {
        assert!(Unit::MillisecondsInAll.advantage(1.0, 2.0) > 1.0);
        assert!(Unit::GigabytesPerSecond.advantage(2.0, 1.0) > 1.0);
    }

    #[test]
    fn sizes_are_short() {
        for (bytes, expected) in [(4096, "4k"), (1 << 18, "256k"), (1 << 20, "1m")] {
            assert_eq!(short(bytes), expected);
        }
    }
}
