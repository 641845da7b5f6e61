//! Networks: several interfaces, each shaped; reads from a store as Amazon S3 is seen from the same
//! region: far, and each answer with a bandwidth of its own, so that speed is how much is asked for
//! at once. Then one that answers some requests late, as S3 does under load.

use crate::dataset::{Dataset, KIB, MIB};
use crate::workload::{
    Action, Conditions, Descriptors, Group, Late, Link, Mode, Unit, Workload, short,
};

/// Slow enough that two cores fill four of them.
const MEGABITS_PER_SECOND: u64 = 1000;

const STREAMS: [u64; 4] = [1, 4, 8, 32];
/// Streams of programs that have read another file before.
const STREAMS_WARM: [u64; 2] = [1, 8];
const BLOCK: u64 = 256 * KIB;
pub(super) const CONDITIONS: Conditions = Conditions {
    latency_ms: 20,
    // 90 MB/s, what one connection to S3 gives.
    bandwidth_mbps: 720,
    late: None,
};
const LATE: Late = Late {
    percent: 1,
    by_ms: 2000,
};
const TAIL_BLOCK: u64 = 128 * KIB;
const TAIL_THREADS: u64 = 16;

pub(super) fn table(data: &Dataset) -> Vec<Workload> {
    let interfaces = [1, 2, 4].map(|interfaces| shaped(data, interfaces));
    let streams = STREAMS.map(|streams| stream(data, streams));
    let warm = STREAMS_WARM.map(|streams| stream(data, streams).warm(data));
    let rows = interfaces.into_iter().chain(streams).chain(warm);
    rows.chain([tail(data)]).collect()
}

fn shaped(data: &Dataset, interfaces: u64) -> Workload {
    let action = Action::Sequential {
        files: data.streams.first(8),
        block: MIB,
        mode: Mode::Direct,
    };
    Workload {
        link: Some(Link {
            interfaces,
            megabits_per_second: MEGABITS_PER_SECOND,
        }),
        ..Workload::new(
            Group::Network,
            format!("nic-{interfaces}"),
            action,
            Unit::GigabytesPerSecond,
            format!(
                "eight files at once over {interfaces} interfaces (--bind), each shaped to 1 Gbit/s"
            ),
        )
    }
}

fn stream(data: &Dataset, streams: u64) -> Workload {
    let files = match streams {
        1 => data.large,
        _ => data.streams.first(streams),
    };
    let action = Action::Sequential {
        files,
        block: BLOCK,
        mode: Mode::Buffered,
    };
    let (latency_ms, mb) = (CONDITIONS.latency_ms, CONDITIONS.bandwidth_mbps / 8);
    Workload {
        conditions: Some(CONDITIONS),
        ..Workload::new(
            Group::S3,
            format!("s3-{streams}x{}", short(BLOCK)),
            action,
            Unit::GigabytesPerSecond,
            format!(
                "{streams} streams, {} KiB reads, buffered; {latency_ms} ms before each answer, {mb} MB/s for each",
                BLOCK / KIB
            ),
        )
    }
}

fn tail(data: &Dataset) -> Workload {
    let Late { percent, by_ms } = LATE;
    Workload {
        conditions: Some(Conditions {
            late: Some(LATE),
            ..CONDITIONS
        }),
        ..Workload::new(
            Group::Tail,
            format!("tail-{}-{TAIL_THREADS}t", short(TAIL_BLOCK)),
            Action::Random {
                files: data.large,
                block: TAIL_BLOCK,
                threads: TAIL_THREADS,
                descriptors: Descriptors::One,
                mode: Mode::Direct,
            },
            Unit::MillisecondsP999,
            format!(
                "{} KiB anywhere, O_DIRECT, {TAIL_THREADS} threads; as s3-*, and {percent} % of the answers are {by_ms} ms \
                 late; the figure is what 99.9 % of the reads take at most",
                TAIL_BLOCK / KIB
            ),
        )
    }
}
