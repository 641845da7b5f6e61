//! Workloads of a cache on disk: filling it, and reading out of it in the same mount and in a later
//! one.

use crate::dataset::{Dataset, FileSet, KIB, MIB};
use crate::workload::{Action, CacheState, Descriptors, Group, Mode, Unit, Workload, short};

const MODE: Mode = Mode::Buffered;
const STREAMS: [u64; 3] = [1, 4, 8];
/// Each number of streams without a cache, and with one in each state.
const STATES: [Option<CacheState>; 4] = [
    None,
    Some(CacheState::Cold),
    Some(CacheState::Warm),
    Some(CacheState::Remounted),
];
/// Random reads: the block and the threads.
const RANDOM: [(u64, u64); 2] = [(4 * KIB, 16), (128 * KIB, 4)];
const BLOCK: u64 = 256 * KIB;

pub(in crate::workload::tables) fn table(data: &Dataset) -> Vec<Workload> {
    let streams = STREAMS.iter().flat_map(|streams| {
        let row = |state: &Option<CacheState>| sequential(data, *streams, *state);
        STATES.iter().map(row).collect::<Vec<_>>()
    });
    let random = RANDOM.map(|(block, threads)| random(data.large, block, threads));
    streams.chain(random).chain(epochs(data)).collect()
}

fn sequential(data: &Dataset, streams: u64, state: Option<CacheState>) -> Workload {
    let (files, files_read) = match streams {
        1 => (data.large, "one file".to_owned()),
        _ => (
            data.streams.first(streams),
            format!("{streams} files at once"),
        ),
    };
    let name = format!("cache-{streams}x{}", short(BLOCK));
    let description = format!("{files_read}, {} KiB reads", BLOCK / KIB);
    row(
        &name,
        whole(files, BLOCK),
        (whole(files, MIB), state),
        Unit::GigabytesPerSecond,
        &description,
    )
}

fn random(files: FileSet, block: u64, threads: u64) -> Workload {
    let action = Action::Random {
        files,
        block,
        threads,
        descriptors: Descriptors::One,
        mode: MODE,
    };
    row(
        &format!("cache-rand-{}-{threads}t", short(block)),
        action,
        (whole(files, MIB), Some(CacheState::Remounted)),
        Unit::ReadsPerSecond,
        &format!(
            "{} KiB anywhere, {threads} threads on one descriptor",
            block / KIB
        ),
    )
}

fn epochs(data: &Dataset) -> [Workload; 2] {
    let images = Action::Whole {
        files: data.images,
        threads: 8,
    };
    // More than the readers' memory cgroup holds.
    let shards = data.tables.first(8);
    [
        row(
            "cache-images",
            images,
            (images, Some(CacheState::Remounted)),
            Unit::FilesPerSecond,
            "110 KiB files, 8 threads",
        ),
        row(
            "cache-epoch2",
            whole(shards, MIB),
            (whole(shards, MIB), Some(CacheState::Warm)),
            Unit::GigabytesPerSecond,
            "8 files of 256 MiB at once, more than the readers' memory, MiB reads",
        ),
    ]
}

/// The state ends name and description; with a warm cache, `fill` has been read before.
fn row(
    name: &str,
    action: Action,
    (fill, state): (Action, Option<CacheState>),
    unit: Unit,
    description: &str,
) -> Workload {
    let (suffix, described) = match state {
        None => ("off", "no cache on disk"),
        Some(CacheState::Cold) => ("cold", "an empty cache on disk"),
        Some(CacheState::Warm) => ("warm", "read before in this mount"),
        Some(CacheState::Remounted) => ("remounted", "read before in an earlier mount"),
    };
    let is_filled = state.is_some_and(CacheState::is_filled);
    Workload {
        before: is_filled.then_some(fill),
        cache: state,
        ..Workload::new(
            Group::DiskCache,
            format!("{name}-{suffix}"),
            action,
            unit,
            format!("{description}, buffered; {described}"),
        )
    }
}

fn whole(files: FileSet, block: u64) -> Action {
    Action::Sequential {
        files,
        block,
        mode: MODE,
    }
}
