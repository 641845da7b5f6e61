//! Writers in a closed loop: each thread has its next record ready when the last one is durable.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use futures::executor::block_on;
use mountpoint_fs::staging::disk::Disk;
use mountpoint_fs::staging::journal::{Journal, RecordKey};

use super::types::{Figures, Load};
use crate::clock::Stopwatch;
use crate::engine::Histogram;

/// Share of a run at its beginning that does not count: the policy learns, files are made.
const WARM_UP: f64 = 0.2;

/// Writers append to the journal.
pub(super) fn run_journal(journal: &Journal, load: Load, time: Duration) -> Result<Figures> {
    run(load, time, &|writer, payload| {
        let commit = block_on(journal.append(RecordKey(writer), &[payload]))?;
        block_on(commit)?;
        Ok(())
    })
}

/// Writers write into one file, and sync it, each for itself.
pub(super) fn run_each(disk: &dyn Disk, load: Load, time: Duration) -> Result<Figures> {
    let file = disk.create("file")?;
    file.allocate(FILE_LEN)?;
    file.sync_data()?;
    disk.sync()?;
    let next = AtomicU64::new(0);
    run(load, time, &|_, payload| {
        let len = payload.len() as u64;
        let slots = FILE_LEN / len;
        let offset = next.fetch_add(1, Ordering::Relaxed) % slots * len;
        file.write_at(payload, offset)?;
        Ok(file.sync_data()?)
    })
}

fn run(
    load: Load,
    time: Duration,
    commit: &(dyn Fn(u64, &[u8]) -> Result<()> + Sync),
) -> Result<Figures> {
    let clock = Stopwatch::start();
    let warm = time.mul_f64(WARM_UP);
    let histograms: Vec<Result<Histogram>> = thread::scope(|scope| {
        let writers = (0..load.writers as u64).map(|writer| {
            scope.spawn(move || {
                let payload = vec![writer.to_le_bytes()[0]; load.bytes];
                let mut durations = Histogram::default();
                while clock.elapsed() < warm + time {
                    let began = clock.elapsed();
                    commit(writer, &payload)?;
                    let ended = clock.elapsed();
                    if began >= warm && ended < warm + time {
                        durations.record(ended - began);
                    }
                }
                Ok(durations)
            })
        });
        let writers: Vec<_> = writers.collect();
        let joined = writers.into_iter().map(thread::ScopedJoinHandle::join);
        joined
            .map(|it| it.unwrap_or_else(|_| Err(anyhow::anyhow!("a writer panicked"))))
            .collect()
    });
    let mut all = Histogram::default();
    for durations in histograms {
        all.merge(&durations?);
    }
    ensure!(all.total() > 0, "no commit ended in time: use --seconds");
    let quantile = |share| all.quantile(share).context("nothing was recorded");
    Ok(Figures {
        per_second: all.total() as f64 / time.as_secs_f64(),
        p50: quantile(0.5)?,
        p99: quantile(0.99)?,
    })
}

/// As long as a segment of the journal.
const FILE_LEN: u64 = 64 << 20;
