//! Weights of models, loaded as programs do: out of mappings, by reads, by readers that run
//! ahead of a mapping.

use super::networks;
use crate::dataset::{Dataset, FileSet};
use crate::workload::{Action, Group, Script, Unit, Workload};

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let (model, shards) = (data.model, data.tensors.first(2));
    let near = [
        row(
            "mmap-load",
            model,
            Script::MappedLoad,
            "one file of weights, mapped by 4 processes that copy its tensors in a shuffled order",
        ),
        row(
            "read-load",
            model,
            Script::ReadLoad,
            "the same tensors in the same order by reads, each of a whole tensor",
        ),
        row(
            "streamer-load",
            model,
            Script::Streamer,
            "one file of weights by 16 threads, each its part in chunks of 2 MiB, as Run:ai's streamer",
        ),
        row(
            "prefetch-load",
            shards,
            Script::Prefetch,
            "tensors out of mapped shards, which threads read into the page cache meanwhile, as vLLM's prefetch",
        ),
    ];
    let far = near.clone().map(as_far_as_s3);
    near.into_iter().chain(far).collect()
}

fn as_far_as_s3(row: Workload) -> Workload {
    Workload {
        name: format!("{}-far", row.name),
        conditions: Some(networks::CONDITIONS),
        description: format!("{}; as far as s3-*", row.description),
        ..row
    }
}

fn row(name: &str, files: FileSet, script: Script, description: &str) -> Workload {
    let action = Action::Script { files, script };
    let unit = Unit::GigabytesPerSecond;
    Workload::new(Group::Loading, name, action, unit, description)
}
