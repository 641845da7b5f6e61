//! Commits of the journal of staged writes on a real disk: how many a second, and how long each.
//!
//! Writers in a closed loop append a record and wait until it is durable. Three ways take turns in
//! each round: the adaptive policy, a fixed time budget for each batch, and one `fdatasync` for
//! each write. The fixed budget is the one that does best on this disk over all cells of 8 writers
//! and more; without any, a batch goes as soon as the disk is idle.

mod fixed_budget;
mod slow_disk;
mod table;
mod types;
mod writers;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use mountpoint_fs::clock::Clock;
use mountpoint_fs::staging::disk::{Disk, LocalDisk};
use mountpoint_fs::staging::journal::{AdaptivePolicy, CommitPolicy, Journal, JournalLimits};

use fixed_budget::FixedBudget;
use slow_disk::SlowDisk;
use types::{Figures, Load, Sample, Way};

/// Measures group commit on a disk.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct CommitSweep {
    /// Folder on the disk
    #[arg(long, value_name = "FOLDER", default_value = ".")]
    folder: PathBuf,
    /// How often each policy has each load; they take turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Time of one run, in seconds
    #[arg(long, value_name = "N", default_value_t = 0.3)]
    seconds: f64,
    /// Has each sync take so many microseconds more, as on a slower disk
    #[arg(long, value_name = "N", default_value_t = 0)]
    sync_us: u64,
    /// Writers
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "2,8,16,32,64,128"
    )]
    writers: Vec<usize>,
    /// Bytes of a record
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "100,1000,4000,10000"
    )]
    bytes: Vec<usize>,
    /// Fixed time budgets, in microseconds
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        default_value = "0,50,100,200,500,1000,2000"
    )]
    budgets: Vec<u64>,
}

/// Measures, and prints the table.
pub(crate) fn run(options: &CommitSweep) -> Result<()> {
    let fixed = options.budgets.iter().map(|budget| Way::Fixed(*budget));
    let ways: Vec<Way> = [Way::Adaptive, Way::Each]
        .into_iter()
        .chain(fixed)
        .collect();
    let mut samples = Vec::new();
    for round in 0..options.rounds {
        for writers in &options.writers {
            for bytes in &options.bytes {
                let load = Load {
                    writers: *writers,
                    bytes: *bytes,
                };
                // Each round begins with another one: the first one may find the disk busy.
                for turn in 0..ways.len() {
                    let way = ways[(turn + round as usize) % ways.len()];
                    let figures = measure(options, way, load)?;
                    samples.push(Sample { way, load, figures });
                }
            }
        }
    }
    table::print(&samples, &options.budgets)
}

fn measure(options: &CommitSweep, way: Way, load: Load) -> Result<Figures> {
    let folder = tempfile::tempdir_in(&options.folder)
        .with_context(|| format!("cannot use {}", options.folder.display()))?;
    let local: Arc<dyn Disk> = Arc::new(LocalDisk::open(folder.path())?);
    let disk: Arc<dyn Disk> = match options.sync_us {
        0 => local,
        more => Arc::new(SlowDisk::new(local, Duration::from_micros(more))),
    };
    let time = Duration::from_secs_f64(options.seconds);
    let policy: Box<dyn CommitPolicy> = match way {
        Way::Each => return writers::run_each(&*disk, load, time),
        Way::Adaptive => Box::new(AdaptivePolicy::new()),
        Way::Fixed(budget) => Box::new(FixedBudget(Duration::from_micros(budget))),
    };
    let limits = JournalLimits::default();
    let (journal, _) = Journal::open(disk, limits, policy, Clock::monotonic())?;
    writers::run_journal(&journal, load, time)
}
