//! Files read from the beginning to the end, by a program that has read nothing before, or another
//! file.

use crate::dataset::{Dataset, KIB, MIB};
use crate::workload::{Action, Group, Mode, Unit, Workload, short};

const STREAMS: [u64; 4] = [1, 4, 8, 32];
const BLOCKS: [u64; 2] = [256 * KIB, MIB];
/// Streams of programs that have read another file before, buffered.
const STREAMS_WARM: [u64; 3] = [1, 4, 8];
const BLOCK_WARM: u64 = 256 * KIB;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let mut rows = Vec::new();
    for streams in STREAMS {
        for block in BLOCKS {
            for mode in [Mode::Buffered, Mode::Direct] {
                rows.push(row(data, streams, block, mode));
            }
        }
    }
    let warm = STREAMS_WARM.map(|streams| row(data, streams, BLOCK_WARM, Mode::Buffered));
    rows.extend(warm.into_iter().map(|row| row.warm(data)));
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
    Workload::new(
        Group::Sequential,
        format!("seq-{streams}x{}{}", short(block), mode.suffix()),
        Action::Sequential { files, block, mode },
        Unit::GigabytesPerSecond,
        format!(
            "{files_read}, {} KiB reads, {}",
            block / KIB,
            mode.described()
        ),
    )
}
