//! Tables of the workloads that are measured. Knows how none of them is carried out.

mod action;
mod replayed;
mod tables;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

use crate::dataset::{Dataset, FileSet};

pub(crate) use action::{Action, Descriptors, FioJob, Mode, Pattern, Script};
pub(crate) use replayed::replayed;

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
    /// Content of the system's own cache; `None`: it has no such cache.
    pub(crate) cache: Option<CacheState>,
    /// Whether that cache is a bucket that mounts share, in place of a folder of the disk.
    pub(crate) is_cache_shared: bool,
    /// Whether files are written in place on a local disk, from where they go to the bucket.
    pub(crate) is_staged: bool,
    /// The network between client and server; `None` for the loopback interface.
    pub(crate) link: Option<Link>,
    pub(crate) is_over_tls: bool,
    /// One sentence for the report.
    pub(crate) description: String,
}

impl Workload {
    /// With nothing before it, on a server that behaves as the command line says, over plain HTTP
    /// and the loopback interface.
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
            cache: None,
            is_cache_shared: false,
            is_staged: false,
            link: None,
            is_over_tls: false,
            description: description.into(),
        }
    }

    /// This workload by a program that has read another file so before: a mount learns from the
    /// files that a program has read how to answer it on the next ones.
    fn warm(self, data: &Dataset) -> Self {
        let Action::Sequential { block, mode, .. } = self.action else {
            unreachable!("{} is no sequential read", self.name);
        };
        let files = data.epoch.first(1);
        Self {
            name: format!("{}-warm", self.name),
            before: Some(Action::Sequential { files, block, mode }),
            description: format!(
                "{}, by a program that has read a file before",
                self.description
            ),
            ..self
        }
    }
}

/// Content of a system's own cache when a workload begins. The page cache holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CacheState {
    /// Nothing.
    Cold,
    /// The files that [`Workload::before`] has read in the same mount.
    Warm,
    /// Everything was read in a mount that has ended.
    Remounted,
}

impl CacheState {
    pub(crate) fn is_filled(self) -> bool {
        self != Self::Cold
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
    /// The kernel's page cache.
    Cached,
    /// A system's own cache.
    DiskCache,
    Random,
    Pattern,
    Application,
    /// Weights of models.
    Loading,
    FirstByte,
    Metadata,
    Write,
    /// Writing by way of a local disk.
    Staged,
    /// Rows of other groups over TLS.
    Tls,
    Network,
    /// A store as far away, and answers as wide, as those of Amazon S3.
    S3,
    /// An S3-like store where some answers are late.
    Tail,
    /// A pattern that a person has recorded.
    Replay,
}

impl Group {
    pub(crate) const ALL: [Self; 16] = [
        Self::Sequential,
        Self::Cached,
        Self::DiskCache,
        Self::Random,
        Self::Pattern,
        Self::Application,
        Self::Loading,
        Self::FirstByte,
        Self::Metadata,
        Self::Write,
        Self::Staged,
        Self::Tls,
        Self::Network,
        Self::S3,
        Self::Tail,
        Self::Replay,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "seq",
            Self::Cached => "cached",
            Self::DiskCache => "disk-cache",
            Self::Random => "rand",
            Self::Pattern => "pattern",
            Self::Application => "app",
            Self::Loading => "load",
            Self::FirstByte => "first",
            Self::Metadata => "metadata",
            Self::Write => "write",
            Self::Staged => "staged",
            Self::Tls => "tls",
            Self::Network => "nic",
            Self::S3 => "s3",
            Self::Tail => "tail",
            Self::Replay => "replay",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Sequential => "Sequential reads",
            Self::Cached => "What the page cache is for",
            Self::DiskCache => "Caches on disk",
            Self::Random => "Random reads",
            Self::Pattern => "Strided, interleaved, backward and skipping reads",
            Self::Application => "Applications",
            Self::Loading => "Loading models",
            Self::FirstByte => "Time to first byte",
            Self::Metadata => "Names and attributes",
            Self::Write => "Writing",
            Self::Staged => "Staged writes",
            Self::Tls => "Over TLS",
            Self::Network => "Several network interfaces",
            Self::S3 => "Sequential reads from a store as far away as S3",
            Self::Tail => "Late answers",
            Self::Replay => "A recorded pattern",
        }
    }

    /// Whether FUSE alone and the client alone say anything of it. What waits for a far store is
    /// bounded by how much is asked for at once, what loads weights by copies of its own, what a
    /// cache holds by the disk, a recorded pattern by its programs, and neither of the two decides
    /// that.
    pub(crate) fn has_limit(self) -> bool {
        !matches!(
            self,
            Self::DiskCache | Self::Staged | Self::S3 | Self::Loading | Self::Tail | Self::Replay
        )
    }
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
    tables::all(data)
}

/// The workloads of `fuse`: those for which the transports of FUSE differ most.
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
        .filter(|action| action.recorded().is_none())
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
