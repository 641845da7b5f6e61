//! Files as programs use them: tables, weights, archives, folders of images, a loader's workers.

use crate::dataset::{Dataset, FileSet};
use crate::workload::{Action, Conditions, Group, Script, Unit, Workload};

/// `workload` with 20 ms before each answer.
fn at_20_ms(workload: Workload) -> Workload {
    Workload {
        conditions: Some(Conditions::latency_ms(20)),
        ..workload
    }
}

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let programs = programs(data).into_iter();
    programs.chain([heads(data)]).chain(shared(data)).collect()
}

/// Files of one layout.
fn heads(data: &Dataset) -> Workload {
    let action = Action::Script {
        files: data.cold,
        script: Script::Heads,
    };
    at_20_ms(Workload::new(
        Group::Application,
        "heads-20ms",
        action,
        Unit::FilesPerSecond,
        "4 KiB from 15 places of each of some large files of one layout, 20 ms before each answer",
    ))
}

/// Many readers of one file.
fn shared(data: &Dataset) -> [Workload; 2] {
    let (files, script) = (data.streams.first(1), Script::Shared);
    let row = |name, description| {
        let action = Action::Script { files, script };
        let unit = Unit::GigabytesPerSecond;
        Workload::new(Group::Application, name, action, unit, description)
    };
    let far = row("shared-8-20ms", "the same, 20 ms before each answer");
    [
        row(
            "shared-8",
            "one file from its beginning to its end, 8 processes at once",
        ),
        at_20_ms(far),
    ]
}

fn programs(data: &Dataset) -> Vec<Workload> {
    let row = |name: &str, action, unit, description: &str| {
        Workload::new(Group::Application, name, action, unit, description)
    };
    let (throughput, files) = (Unit::GigabytesPerSecond, Unit::FilesPerSecond);
    let script = |files: FileSet, script| Action::Script { files, script };
    let small = |files, threads| Action::Whole { files, threads };
    let far = row(
        "small-100k-20ms",
        small(data.small.first(data.small.count / 5), 16),
        files,
        "the same, fewer files, 20 ms before each answer",
    );
    let alone = row(
        "small-100k-1t-20ms",
        small(data.small.first(data.small.count / 5), 1),
        files,
        "the same, one thread",
    );
    vec![
        row(
            "parquet",
            script(data.tables, Script::Parquet),
            throughput,
            "footer, then 3 of 12 columns of each row group, 4 processes",
        ),
        row(
            "safetensors",
            script(data.tensors, Script::SafeTensors),
            throughput,
            "shards of weights, each tensor copied out of a mapping, one process",
        ),
        row(
            "tar-images",
            script(data.archives, Script::Archive),
            throughput,
            "headers and images of tar archives in order, 4 processes",
        ),
        row(
            "imagenet",
            script(data.images, Script::Folder),
            files,
            "walk a folder of images, read them whole in random order, 16 processes",
        ),
        row(
            "dataloader",
            script(data.archives, Script::Loader),
            throughput,
            "batches of random 96 KiB records, 8 worker processes (multiprocessing, no torch)",
        ),
        row(
            "torch-dataloader",
            script(data.images, Script::TorchLoader),
            files,
            "PyTorch's DataLoader over a folder of images, 8 workers, shuffled, batches of 32",
        ),
        row(
            "torch-load",
            script(data.checkpoint, Script::TorchLoad),
            throughput,
            "torch.load of a checkpoint of 512 MiB",
        ),
        row(
            "small-100k",
            small(data.small, 16),
            files,
            "open, read and close 100 KiB files, 16 threads",
        ),
        at_20_ms(far),
        at_20_ms(alone),
    ]
}
