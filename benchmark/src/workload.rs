//! What is measured: a table of workloads. Knows how none of them is carried out.

use crate::dataset::{Dataset, FileSet, KIB, MIB};

/// One row of the benchmark.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(crate) group: Group,
    pub(crate) action: Action,
    pub(crate) unit: Unit,
    /// One sentence for the report.
    pub(crate) description: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Sequential,
    Random,
    Metadata,
}

impl Group {
    pub(crate) const ALL: [Self; 3] = [Self::Sequential, Self::Random, Self::Metadata];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sequential => "seq",
            Self::Random => "rand",
            Self::Metadata => "meta",
        }
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
    /// Aligned blocks anywhere in the first file, all threads on one descriptor.
    Random {
        files: FileSet,
        block: u64,
        threads: u64,
        mode: Mode,
    },
    /// Open, read 4 KiB, close; one file after the other.
    FirstBytes { files: FileSet },
    /// Open, read all, close; files shared out among the threads.
    Whole { files: FileSet, threads: u64 },
    /// A command over the directory of the files.
    Command {
        files: FileSet,
        program: &'static str,
        argument: &'static str,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Buffered,
    /// `O_DIRECT`.
    Direct,
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
        }
    }

    /// How many times as good as `other` the value is.
    pub(crate) fn advantage(self, value: f64, other: f64) -> f64 {
        match self {
            Self::GigabytesPerSecond | Self::ReadsPerSecond | Self::FilesPerSecond => value / other,
            Self::Milliseconds | Self::MillisecondsInAll => other / value,
        }
    }
}

/// Every workload.
pub(crate) fn all(data: &Dataset) -> Vec<Workload> {
    let mut workloads = sequential(data);
    workloads.extend(random(data));
    workloads.extend(metadata(data));
    workloads
}

fn sequential(data: &Dataset) -> Vec<Workload> {
    let row = |name, files, block, mode, description| Workload {
        name,
        group: Group::Sequential,
        action: Action::Sequential { files, block, mode },
        unit: Unit::GigabytesPerSecond,
        description,
    };
    let (large, eight) = (data.large, data.eight);
    vec![
        row(
            "seq-1x256k",
            large,
            256 * KIB,
            Mode::Buffered,
            "one file, 256 KiB reads",
        ),
        row(
            "seq-1x256k-direct",
            large,
            256 * KIB,
            Mode::Direct,
            "the same with O_DIRECT",
        ),
        row(
            "seq-8x256k",
            eight,
            256 * KIB,
            Mode::Buffered,
            "eight files at once, 256 KiB reads",
        ),
        row(
            "seq-8x256k-direct",
            eight,
            256 * KIB,
            Mode::Direct,
            "the same with O_DIRECT",
        ),
        row(
            "seq-1x1m",
            large,
            MIB,
            Mode::Buffered,
            "one file, 1 MiB reads",
        ),
    ]
}

fn random(data: &Dataset) -> Vec<Workload> {
    let row = |name, block, threads, description| Workload {
        name,
        group: Group::Random,
        action: Action::Random {
            files: data.large,
            block,
            threads,
            mode: Mode::Direct,
        },
        unit: Unit::ReadsPerSecond,
        description,
    };
    vec![
        row(
            "rand-4k-1t",
            4 * KIB,
            1,
            "4 KiB anywhere in one file, O_DIRECT, one thread",
        ),
        row(
            "rand-4k-16t",
            4 * KIB,
            16,
            "the same, 16 threads on one descriptor",
        ),
        row(
            "rand-128k-4t",
            128 * KIB,
            4,
            "128 KiB anywhere, O_DIRECT, 4 threads on one descriptor",
        ),
    ]
}

fn metadata(data: &Dataset) -> Vec<Workload> {
    let row = |name, action, unit, description| Workload {
        name,
        group: Group::Metadata,
        action,
        unit,
        description,
    };
    let list = |program, argument| Action::Command {
        files: data.listed,
        program,
        argument,
    };
    vec![
        row(
            "ttfb",
            Action::FirstBytes { files: data.cold },
            Unit::Milliseconds,
            "open, read 4 KiB and close large files never seen before; median of one file",
        ),
        row(
            "ls",
            list("ls", "-l"),
            Unit::MillisecondsInAll,
            "ls -l of a directory never seen before",
        ),
        row(
            "du",
            list("du", "-s"),
            Unit::MillisecondsInAll,
            "du -s of a directory never seen before",
        ),
        row(
            "small-100k",
            Action::Whole {
                files: data.small,
                threads: 8,
            },
            Unit::FilesPerSecond,
            "open, read and close 100 KiB files, 8 threads",
        ),
    ]
}

/// The workloads that `names` ask for: `all`, a group, or a workload.
///
/// # Errors
/// The first name that is none of them.
pub(crate) fn select(all: &[Workload], names: &[String]) -> Result<Vec<Workload>, String> {
    let asked = |workload: &Workload, name: &str| {
        name == "all" || name == workload.group.name() || name == workload.name
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

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(names: &[&str], expected: Result<usize, &str>) {
        let all = all(&Dataset::new(false));
        let names: Vec<_> = names.iter().map(ToString::to_string).collect();
        let found = select(&all, &names).map(|chosen| chosen.len());
        assert_eq!(found, expected.map_err(str::to_owned), "{names:?}");
    }

    #[test]
    fn workloads_are_chosen_by_name_and_group() {
        check(&["all"], Ok(12));
        check(&["seq"], Ok(5));
        check(&["seq", "rand"], Ok(8));
        check(&["ls", "du", "ls"], Ok(2));
        check(&["seq", "fast"], Err("fast"));
    }

    #[test]
    fn names_are_unique() {
        let all = all(&Dataset::new(true));
        let mut names: Vec<_> = all.iter().map(|workload| workload.name).collect();
        names.extend(Group::ALL.map(Group::name));
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
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
}
