//! The client with no FUSE before it: the GETs that a workload needs, into blocks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::join_all;
use mountpoint_client::ObjectClient;
use mountpoint_crt_sys::block::BlockPool;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use crate::clock::Stopwatch;
use crate::dataset::{Dataset, FileSet, MIB};
use crate::engine::{Outcome, Tally};
use crate::process;
use crate::store_client::{StoreClient, get};
use crate::workload::{self, Action};

/// The client alone; the benchmark starts it itself.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct ClientLimit {
    /// Address of the server
    url: String,
    /// The bucket that holds the objects
    bucket: String,
    /// Name of the workload
    workload: String,
    /// Time after which it ends, in seconds
    seconds: f64,
    /// As in the server's data set
    #[arg(long)]
    quick: bool,
}

/// The child's report to its parent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Found {
    pub(crate) outcome: Outcome,
    pub(crate) cpu_s: f64,
    pub(crate) memory_peak_bytes: u64,
}

/// Bytes of one GET of a sequential workload, and their number in flight: the fastest combination
/// here.
const PART: u64 = MIB;
const SEQUENTIAL_DEPTH_MIN: u64 = 16;

/// Whether the client alone can carry `action` out.
pub(crate) fn takes(action: Action) -> bool {
    Gets::of(action).is_some()
}

/// Carries the workload out and returns its figures.
pub(crate) fn run(options: &ClientLimit) -> Result<Found> {
    let all = workload::all(&Dataset::new(options.quick));
    let workload = all
        .iter()
        .find(|workload| workload.name == options.workload);
    let action = workload.context("there is no such workload")?.action;
    let gets = Gets::of(action).context("the client alone cannot do this workload")?;
    let store = StoreClient::connect(&options.url, &options.bucket)?;
    let limit = Duration::from_secs_f64(options.seconds);
    let cpu_before = process::own_cpu_time()?;
    let outcome = carry_out(&gets, &store.client, &store.pool, limit)?;
    let cpu_s = (process::own_cpu_time()? - cpu_before).as_secs_f64();
    let memory_peak_bytes = process::memory_peak(std::process::id())?;
    Ok(Found {
        outcome,
        cpu_s,
        memory_peak_bytes,
    })
}

/// The GETs of a workload.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Gets {
    files: FileSet,
    part: u64,
    depth: u64,
    order: Order,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Order {
    Sequential,
    Random,
    /// Each file once, as a whole.
    Files,
}

impl Gets {
    /// `None` if the workload is more than GETs, or none.
    fn of(action: Action) -> Option<Self> {
        let (files, part, depth, order) = match action {
            Action::Sequential { files, .. } => {
                let depth = SEQUENTIAL_DEPTH_MIN.max(2 * files.count);
                (files, PART, depth, Order::Sequential)
            }
            Action::Random {
                files,
                block,
                threads,
                ..
            } => (files, block, threads, Order::Random),
            Action::Fio { files, job } if job.random => {
                (files, job.block, job.depth, Order::Random)
            }
            Action::Whole { files, threads } => (files, files.size, threads, Order::Files),
            _ => return None,
        };
        Some(Self {
            files,
            part,
            depth,
            order,
        })
    }
}

fn carry_out(
    gets: &Gets,
    client: &Arc<dyn ObjectClient>,
    pool: &BlockPool,
    limit: Duration,
) -> Result<Outcome> {
    let clock = Stopwatch::start();
    let next: Vec<AtomicU64> = (0..gets.files.count).map(|_| AtomicU64::new(0)).collect();
    let next_file = AtomicU64::new(0);
    let lanes = (0..gets.depth).map(|lane| {
        let (next, next_file) = (&next, &next_file);
        async move {
            let mut random = StdRng::seed_from_u64(lane);
            let mut tally = Tally::default();
            while clock.elapsed() < limit {
                let files = gets.files;
                let (file, offset) = match gets.order {
                    Order::Sequential => {
                        let file = lane % files.count;
                        let cursor = &next[usize::try_from(file)?];
                        (file, cursor.fetch_add(gets.part, Ordering::Relaxed))
                    }
                    Order::Random => (
                        0,
                        random.random_range(0..files.size / gets.part) * gets.part,
                    ),
                    Order::Files => (next_file.fetch_add(1, Ordering::Relaxed), 0),
                };
                if file >= files.count || offset >= files.size {
                    break;
                }
                let started = Stopwatch::start();
                let range = offset..(offset + gets.part).min(files.size);
                let block = get(client, pool, &files.key(file), range).await?;
                tally.record(block.capacity() as u64, started.elapsed());
            }
            anyhow::Ok(tally)
        }
    });
    let mut sum = Tally::default();
    for tally in futures::executor::block_on(join_all(lanes)) {
        sum.add(&tally?);
    }
    ensure!(sum.operations > 0, "nothing was read");
    Ok(sum.outcome(clock.elapsed()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mountpoint_client::SimClient;
    use mountpoint_client::testing::sim::SimOptions;

    fn all() -> Vec<workload::Workload> {
        workload::all(&Dataset::new(true))
    }

    fn gets(name: &str) -> Option<Gets> {
        let all = all();
        Gets::of(all.iter().find(|row| row.name == name).unwrap().action)
    }

    #[test]
    fn random_workloads_keep_their_block_and_depth() {
        for (name, part, depth) in [
            ("rand-4k-1t", 4096, 1),
            ("rand-128k-16t", 131_072, 16),
            ("rand-4k-aio128", 4096, 128),
        ] {
            let gets = gets(name).unwrap();
            assert_eq!((gets.part, gets.depth), (part, depth), "{name}");
            assert_eq!(gets.order, Order::Random);
        }
    }

    #[test]
    fn streams_share_the_depth() {
        assert_eq!(gets("seq-1x256k").unwrap().depth, 16);
        assert_eq!(gets("seq-32x1m-direct").unwrap().depth, 64);
        assert_eq!(gets("mmap-seq"), None);
    }

    #[test]
    fn a_file_is_read_to_its_end_and_once() {
        let client = SimClient::new(SimOptions::default());
        let files = FileSet {
            count: 2,
            size: 3 * PART - 5,
            ..Dataset::new(true).epoch
        };
        for index in 0..files.count {
            client.put_pattern(&files.key(index), files.size, index);
        }
        let client: Arc<dyn ObjectClient> = Arc::new(client);
        for order in [Order::Sequential, Order::Files] {
            let gets = Gets {
                files,
                part: if order == Order::Files {
                    files.size
                } else {
                    PART
                },
                depth: 4,
                order,
            };
            let pool = BlockPool::new(0);
            let outcome = carry_out(&gets, &client, &pool, Duration::from_secs(60)).unwrap();
            assert_eq!(outcome.bytes, files.count * files.size, "{order:?}");
        }
    }
}
