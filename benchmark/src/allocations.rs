//! Allocations of a file that is written, and the memory that its data takes.
//!
//! The file system in this process, over a bucket in memory: a file is made, written, closed and
//! stored by this thread, so all allocations meanwhile are the file's, with those of the simulated
//! bucket for itself and its copy. Buffers above 64 KiB are mapped and not allocated; they are seen
//! in the memory that is held for data.

use std::ffi::OsStr;
use std::io::{self, Write as _};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, ensure};
use futures::FutureExt as _;
use mountpoint_client::testing::sim::{SimClient, SimOptions};
use mountpoint_fs::clock::Clock;
use mountpoint_fs::config::FsConfig;
use mountpoint_fs::fs::FileSystem;
use mountpoint_fs::handle::Opener;
use mountpoint_fs::operation::{InodeNo, WriteOptions};

const SIZES: [usize; 3] = [1 << 10, 64 << 10, 1 << 20];

/// One write, as `cp` makes it.
const WRITE: usize = 128 << 10;

/// Most bytes that one file of 1 KiB may allocate in all.
const SMALL_MAX: u64 = 36_000;

struct Cost {
    allocations: u64,
    allocated: u64,
    most: u64,
    data: u64,
}

/// Prints a table of the costs. An error if a small file costs more than it may.
pub(crate) fn run() -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "| file | allocations | allocated in all, bytes | most at once, bytes | most memory for data, bytes |"
    )?;
    writeln!(out, "|---|---|---|---|---|")?;
    for size in SIZES {
        let cost = cost_of(size)?;
        let Cost {
            allocations,
            allocated,
            most,
            data,
        } = cost;
        let kib = size >> 10;
        writeln!(
            out,
            "| {kib} KiB | {allocations} | {allocated} | {most} | {data} |"
        )?;
        ensure!(
            size > SIZES[0] || allocated <= SMALL_MAX,
            "a file of {kib} KiB allocates {allocated} bytes, more than {SMALL_MAX}"
        );
    }
    Ok(())
}

fn cost_of(size: usize) -> Result<Cost> {
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let fs = FileSystem::new(
        Arc::clone(&client) as _,
        FsConfig::default(),
        Clock::manual(),
    );
    // Tables take their first room.
    write(&fs, "first", &[7])?;
    let content = vec![7; size];
    let mut outcome = Ok(());
    let counted = allocation_counter::measure(|| outcome = write(&fs, "counted", &content));
    outcome?;
    ensure!(client.keys().len() == 2, "the bucket holds both");
    let copied = size as u64;
    ensure!(
        counted.bytes_total > copied,
        "the bucket's copy is allocated, so more than {copied} bytes are counted, and not {}",
        counted.bytes_total
    );
    Ok(Cost {
        allocations: counted.count_total,
        allocated: counted.bytes_total,
        most: counted.bytes_max,
        data: fs.memory_peak(),
    })
}

fn write(fs: &FileSystem, name: &str, content: &[u8]) -> Result<()> {
    let name = OsStr::new(name);
    let created = fs.create_for(InodeNo::ROOT, name, WriteOptions::default(), Opener::UNSEEN);
    let created = created.now_or_never().context("no request is sent")?;
    let (_, opened) = created.map_err(|error| anyhow!("create: {error}"))?;
    for (index, piece) in content.chunks(WRITE).enumerate() {
        let offset = (index * WRITE) as u64;
        let written = fs.write_now(opened.handle, offset, piece);
        // The first write of a mount asks the bucket whether it may.
        let written = written.or_else(|| fs.write(opened.handle, offset, piece).now_or_never());
        let written = written.context("there is memory, and the bucket answers at once")?;
        written.map_err(|error| anyhow!("write: {error}"))?;
    }
    let stored = fs.sync(opened.handle).now_or_never();
    let stored = stored.context("the bucket answers at once")?;
    stored.map_err(|error| anyhow!("store: {error}"))?;
    fs.release(opened.handle);
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_small_file_costs_little() {
        super::run().unwrap();
    }
}
