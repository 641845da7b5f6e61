//! Workloads of a system's own cache: filling it, and reading out of it in the same mount and in a
//! later one. On disk, but for a few with the cache in a bucket.

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
/// Rows of reads through a cache in a bucket that mounts share.
const SHARED_STREAMS: [u64; 2] = [1, 4];
const SHARED_STATES: [CacheState; 2] = [CacheState::Cold, CacheState::Remounted];
/// Random reads: the block and the threads.
const RANDOM: [(u64, u64); 2] = [(4 * KIB, 16), (128 * KIB, 4)];
/// A cache that its mount empties at the end is only ever warm.
const FILLED: [CacheState; 2] = [CacheState::Warm, CacheState::Remounted];
const BLOCK: u64 = 256 * KIB;

pub(in crate::workload::tables) fn table(data: &Dataset) -> Vec<Workload> {
    let streams = STREAMS.iter().flat_map(|streams| {
        let row = |state: &Option<CacheState>| sequential(data, *streams, *state);
        STATES.iter().map(row).collect::<Vec<_>>()
    });
    let random = RANDOM.iter().flat_map(|(block, threads)| {
        FILLED.map(|state| random(data.large, *block, *threads, state))
    });
    let shared = SHARED_STREAMS.iter().flat_map(|streams| {
        let row = |state: &CacheState| shared(sequential(data, *streams, Some(*state)));
        SHARED_STATES.iter().map(row).collect::<Vec<_>>()
    });
    let on_disk = streams.chain(random).chain(epochs(data));
    on_disk.chain(shared).collect()
}

/// `row` with its cache in a bucket.
fn shared(row: Workload) -> Workload {
    Workload {
        name: row.name.replacen("cache-", "cache-shared-", 1),
        description: row
            .description
            .replace("cache on disk", "cache in a bucket"),
        is_cache_shared: true,
        ..row
    }
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

fn random(files: FileSet, block: u64, threads: u64, state: CacheState) -> Workload {
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
        (whole(files, MIB), Some(state)),
        Unit::ReadsPerSecond,
        &format!(
            "{} KiB anywhere, {threads} threads on one descriptor",
            block / KIB
        ),
    )
}

fn epochs(data: &Dataset) -> [Workload; 3] {
    let images = Action::Whole {
        files: data.images,
        threads: 8,
    };
    // More than the readers' memory cgroup holds.
    let shards = data.tables.first(8);
    let [warm, remounted] = FILLED.map(|state| {
        row(
            "cache-images",
            images,
            (images, Some(state)),
            Unit::FilesPerSecond,
            "110 KiB files, 8 threads",
        )
    });
    [
        warm,
        remounted,
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
