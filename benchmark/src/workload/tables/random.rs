//! Blocks read anywhere in a file, at several depths and by several ways.

use crate::dataset::{Dataset, KIB, MIB};
use crate::workload::{
    Action, Conditions, Descriptors, FioJob, Group, Mode, Unit, Workload, short,
};

/// Threads on one descriptor: the block and the depths.
const THREADS: [(u64, &[u64]); 6] = [
    (4 * KIB, &[1, 4, 16, 64, 128]),
    (16 * KIB, &[16]),
    (64 * KIB, &[1, 16]),
    (128 * KIB, &[1, 4, 16]),
    (256 * KIB, &[4]),
    (MIB, &[1, 4]),
];
/// A descriptor for each thread.
const DESCRIPTORS: [(u64, u64); 2] = [(4 * KIB, 16), (128 * KIB, 4)];
/// One thread that has several reads in flight.
const ENGINES: [(&str, &str); 2] = [("libaio", "aio"), ("io_uring", "uring")];
const ENGINE_DEPTHS: [(u64, u64); 5] = [
    (4 * KIB, 1),
    (4 * KIB, 16),
    (4 * KIB, 128),
    (128 * KIB, 16),
    (MIB, 8),
];
/// With [`LATENCY_MS`] at the server, the number of requests in flight decides.
const LATENCY_DEPTHS: [u64; 4] = [1, 16, 64, 128];
const LATENCY_MS: u64 = 20;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let mut rows = Vec::new();
    for (block, depths) in THREADS {
        let row = |depth: &u64| threads(data, block, *depth, Descriptors::One);
        rows.extend(depths.iter().map(row));
    }
    for (block, depth) in DESCRIPTORS {
        rows.push(threads(data, block, depth, Descriptors::Each));
    }
    for (engine, short_name) in ENGINES {
        for (block, depth) in ENGINE_DEPTHS {
            rows.push(fio(data, engine, short_name, block, depth));
        }
    }
    for depth in LATENCY_DEPTHS {
        let row = threads(data, 4 * KIB, depth, Descriptors::One);
        rows.push(Workload {
            name: format!("{}-{LATENCY_MS}ms", row.name),
            conditions: Some(Conditions::latency_ms(LATENCY_MS)),
            description: format!("{}, {LATENCY_MS} ms before each answer", row.description),
            ..row
        });
    }
    rows
}

fn threads(data: &Dataset, block: u64, threads: u64, descriptors: Descriptors) -> Workload {
    let (suffix, on) = match descriptors {
        Descriptors::One => ("t", "on one descriptor"),
        Descriptors::Each => ("d", "on a descriptor each"),
    };
    row(
        format!("rand-{}-{threads}{suffix}", short(block)),
        Action::Random {
            files: data.large,
            block,
            threads,
            descriptors,
            mode: Mode::Direct,
        },
        format!(
            "{} KiB anywhere, O_DIRECT, {threads} threads {on}",
            block / KIB
        ),
    )
}

fn fio(data: &Dataset, engine: &'static str, short_name: &str, block: u64, depth: u64) -> Workload {
    let job = FioJob {
        engine,
        random: true,
        block,
        depth,
        mode: Mode::Direct,
    };
    row(
        format!("rand-{}-{short_name}{depth}", short(block)),
        Action::Fio {
            files: data.large,
            job,
        },
        format!(
            "{} KiB anywhere, O_DIRECT, {depth} in flight by {engine} (fio)",
            block / KIB
        ),
    )
}

fn row(name: String, action: Action, description: String) -> Workload {
    Workload::new(
        Group::Random,
        name,
        action,
        Unit::ReadsPerSecond,
        description,
    )
}
