//! What a mount that answers past the page cache could lose: small buffered reads, files read again, mappings.

use super::{Action, Descriptors, FioJob, Group, Mode, Unit, Workload};
use crate::dataset::{Dataset, FileSet, KIB};

const BUFFERED: Mode = Mode::Buffered;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let row = |name: &str, before, action, unit, description: &str| Workload {
        name: name.to_owned(),
        group: Group::Cached,
        before,
        action,
        unit,
        conditions: None,
        description: description.to_owned(),
    };
    let (large, epoch) = (data.large, data.epoch);
    let images = data.images.first(data.images.count / 4);
    let whole = Action::Whole {
        files: images,
        threads: 8,
    };
    let mapped = |files, random, block| Action::Fio {
        files,
        job: FioJob {
            engine: "mmap",
            random,
            block,
            depth: 1,
            mode: BUFFERED,
        },
    };
    let all_of = |files| Some(sequential(files, 1024 * KIB));
    let (throughput, reads) = (Unit::GigabytesPerSecond, Unit::ReadsPerSecond);
    vec![
        row(
            "seq-1x4k",
            None,
            sequential(large, 4 * KIB),
            throughput,
            "one file, buffered 4 KiB reads",
        ),
        row(
            "seq-8x4k",
            None,
            sequential(data.streams.first(8), 4 * KIB),
            throughput,
            "eight files at once, buffered 4 KiB reads",
        ),
        row(
            "seq-1x16k",
            None,
            sequential(large, 16 * KIB),
            throughput,
            "one file, buffered 16 KiB reads",
        ),
        row(
            "rand-4k-buffered",
            None,
            random(large),
            reads,
            "4 KiB anywhere in one file, buffered, 4 threads on one descriptor",
        ),
        row(
            "epoch2-1x256k",
            all_of(epoch.first(1)),
            sequential(epoch.first(1), 256 * KIB),
            throughput,
            "a file that was read once before, 256 KiB reads",
        ),
        row(
            "epoch2-1x4k",
            all_of(epoch.first(1)),
            sequential(epoch.first(1), 4 * KIB),
            throughput,
            "a file that was read once before, 4 KiB reads",
        ),
        row(
            "epoch2-8x256k",
            all_of(epoch),
            sequential(epoch, 256 * KIB),
            throughput,
            "eight files that were read once before",
        ),
        row(
            "epoch2-rand-4k",
            all_of(epoch.first(1)),
            random(epoch.first(1)),
            reads,
            "4 KiB anywhere in a file that was read once before, 4 threads",
        ),
        row(
            "epoch2-images",
            Some(whole),
            whole,
            Unit::FilesPerSecond,
            "110 KiB files that were read once before, 8 threads",
        ),
        row(
            "mmap-seq",
            None,
            mapped(large, false, 128 * KIB),
            throughput,
            "a mapped file from its beginning (fio)",
        ),
        row(
            "mmap-rand-4k",
            None,
            mapped(large, true, 4 * KIB),
            reads,
            "4 KiB anywhere in a mapped file (fio)",
        ),
        row(
            "mmap-epoch2",
            all_of(epoch.first(1)),
            mapped(epoch.first(1), false, 128 * KIB),
            throughput,
            "a file that was read once before, mapped (fio)",
        ),
    ]
}

fn sequential(files: FileSet, block: u64) -> Action {
    Action::Sequential {
        files,
        block,
        mode: BUFFERED,
    }
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
