//! Workloads that a mount could lose by answering past the page cache: small buffered reads, files
//! read again, mappings.

use crate::dataset::{Dataset, FileSet, KIB, MIB};
use crate::workload::{Action, Descriptors, FioJob, Group, Mode, Unit, Workload};

const BUFFERED: Mode = Mode::Buffered;
const THROUGHPUT: Unit = Unit::GigabytesPerSecond;
const READS: Unit = Unit::ReadsPerSecond;

pub(in crate::workload::tables) fn table(data: &Dataset) -> Vec<Workload> {
    let mut rows = small_reads(data);
    rows.extend(second_epochs(data));
    rows.extend(mapped(data));
    rows
}

#[rustfmt::skip] // A table.
fn small_reads(data: &Dataset) -> Vec<Workload> {
    let (large, eight) = (data.large, data.streams.first(8));
    vec![
        row("seq-1x4k", sequential(large, 4 * KIB), THROUGHPUT, "one file, buffered 4 KiB reads"),
        row("seq-8x4k", sequential(eight, 4 * KIB), THROUGHPUT, "eight files at once, buffered 4 KiB reads"),
        row("seq-1x16k", sequential(large, 16 * KIB), THROUGHPUT, "one file, buffered 16 KiB reads"),
        row("rand-4k-buffered", random(large), READS, "4 KiB anywhere in one file, buffered, 4 threads on one descriptor"),
    ]
}

#[rustfmt::skip] // A table.
fn second_epochs(data: &Dataset) -> Vec<Workload> {
    let (all, one) = (data.epoch, data.epoch.first(1));
    let images = Action::Whole { files: data.images.first(data.images.count / 4), threads: 8 };
    let row = |name, before, action, unit, description| Workload {
        before: Some(before),
        ..row(name, action, unit, description)
    };
    vec![
        row("epoch2-1x256k", whole(one), sequential(one, 256 * KIB), THROUGHPUT, "a file that was read before, 256 KiB reads"),
        row("epoch2-1x4k", whole(one), sequential(one, 4 * KIB), THROUGHPUT, "a file that was read before, 4 KiB reads"),
        row("epoch2-8x256k", whole(all), sequential(all, 256 * KIB), THROUGHPUT, "eight files that were read before"),
        row("epoch2-rand-4k", whole(one), random(one), READS, "4 KiB anywhere in a file that was read before, 4 threads"),
        row("epoch2-images", images, images, Unit::FilesPerSecond, "110 KiB files that were read before, 8 threads"),
        row("mmap-epoch2", whole(one), by_mapping(one, false, 128 * KIB), THROUGHPUT, "a file that was read before, mapped (fio)"),
    ]
}

#[rustfmt::skip] // A table.
fn mapped(data: &Dataset) -> Vec<Workload> {
    let large = data.large;
    vec![
        row("mmap-seq", by_mapping(large, false, 128 * KIB), THROUGHPUT, "a mapped file from its beginning (fio)"),
        row("mmap-rand-4k", by_mapping(large, true, 4 * KIB), READS, "4 KiB anywhere in a mapped file (fio)"),
    ]
}

fn row(name: &str, action: Action, unit: Unit, description: &str) -> Workload {
    Workload::new(Group::Cached, name, action, unit, description)
}

fn whole(files: FileSet) -> Action {
    sequential(files, MIB)
}

fn sequential(files: FileSet, block: u64) -> Action {
    let mode = BUFFERED;
    Action::Sequential { files, block, mode }
}

fn random(files: FileSet) -> Action {
    Action::Random {
        files,
        block: 4 * KIB,
        threads: 4,
        descriptors: Descriptors::One,
        mode: BUFFERED,
    }
}

fn by_mapping(files: FileSet, random: bool, block: u64) -> Action {
    let job = FioJob {
        engine: "mmap",
        random,
        block,
        depth: 1,
        mode: BUFFERED,
    };
    Action::Fio { files, job }
}
