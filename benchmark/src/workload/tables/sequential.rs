//! Files read from the beginning to the end, by a program that has read another one so before.

use super::{Action, Group, Mode, Unit, Workload, short};
use crate::dataset::{Dataset, KIB, MIB};

const STREAMS: [u64; 4] = [1, 4, 8, 32];
const BLOCKS: [u64; 2] = [256 * KIB, MIB];
/// Streams of programs that have read nothing before, buffered.
const STREAMS_FIRST: [u64; 2] = [1, 8];

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let mut rows = Vec::new();
    for streams in STREAMS {
        for block in BLOCKS {
            for mode in [Mode::Buffered, Mode::Direct] {
                rows.push(row(data, streams, block, mode));
            }
        }
    }
    for streams in STREAMS_FIRST {
        let row = row(data, streams, 256 * KIB, Mode::Buffered);
        rows.push(Workload {
            name: format!("{}-first", row.name),
            before: None,
            description: format!("{}, the first that the program reads", row.description),
            ..row
        });
    }
    rows
}

fn row(data: &Dataset, streams: u64, block: u64, mode: Mode) -> Workload {
    let files = match streams {
        1 => data.large,
        _ => data.streams.first(streams),
    };
    let files_read = match streams {
        1 => "one file".to_owned(),
        _ => format!("{streams} files at once"),
    };
    Workload {
        name: format!("seq-{streams}x{}{}", short(block), mode.suffix()),
        group: Group::Sequential,
        // A mount learns from the files that a program has read how to answer it on the next ones,
        // and every real job has read some.
        before: Some(Action::Sequential {
            files: data.epoch.first(1),
            block,
            mode,
        }),
        action: Action::Sequential { files, block, mode },
        unit: Unit::GigabytesPerSecond,
        conditions: None,
        link: None,
        description: format!(
            "{files_read}, {} KiB reads, {}",
            block / KIB,
            mode.described()
        ),
    }
}
