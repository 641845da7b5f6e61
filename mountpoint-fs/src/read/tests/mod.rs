//! Readers over a simulated bucket: exact requests, bytes, waiting, memory and failures.

mod failures;
mod hedging;
mod patterns;

mod sharing;
mod sharing_mixed;

use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{
    Fault, FaultRule, Operation, PendingGet, SimClient, SimOptions, Time, When, pattern_bytes,
};
use mountpoint_client::types::Priority;
use mountpoint_client::{ErrorKind, ObjectClient};
use proptest::prelude::*;
use rand::prelude::{IndexedRandom as _, SeedableRng as _, SliceRandom as _, StdRng};

use super::{ReadContext, Reader};
use crate::clock::Clock;
use crate::config::ReadConfig;
use crate::operation::{FsError, ReadData};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const SEED: u64 = 7;

/// A bucket and what readers of it share.
struct Bucket {
    client: Arc<SimClient>,
    context: Arc<ReadContext>,
    clock: Clock,
}

impl Bucket {
    fn new(time: Time) -> Self {
        Self::with(
            SimOptions {
                time,
                ..SimOptions::default()
            },
            ReadConfig::default(),
        )
    }

    fn with(options: SimOptions, config: ReadConfig) -> Self {
        let client = Arc::new(SimClient::new(options));
        let clock = Clock::manual();
        let context = ReadContext::new(
            Arc::clone(&client) as Arc<dyn ObjectClient>,
            config,
            clock.clone(),
        );
        Self {
            client,
            context,
            clock,
        }
    }

    fn with_memory(time: Time, memory_max: u64) -> Self {
        let config = ReadConfig {
            memory_max,
            ..ReadConfig::default()
        };
        Self::with(
            SimOptions {
                time,
                ..SimOptions::default()
            },
            config,
        )
    }

    /// A reader of a new object of `size` bytes of the pattern.
    fn open(&self, size: u64) -> Reader {
        let object = self
            .client
            .put_pattern(&format!("object-{size}"), size, SEED);
        Reader::new(Arc::clone(&self.context), object.key, object.etag, size)
    }

    /// What waits at the store, as ranges in KiB and whether somebody waits for it.
    fn pending(&self) -> Vec<(u64, u64, bool)> {
        let gets = self.client.pending_gets().into_iter();
        let is_foreground = |get: &PendingGet| get.priority == Priority::Foreground;
        gets.map(|get| {
            (
                get.range.start / KIB,
                get.range.end / KIB,
                is_foreground(&get),
            )
        })
        .collect()
    }

    /// Ends the GET that begins at `offset`.
    fn finish(&self, offset: u64) {
        let get = self.get_at(offset);
        assert!(self.client.finish(get.id));
    }

    fn get_at(&self, offset: u64) -> PendingGet {
        let mut gets = self.client.pending_gets().into_iter();
        gets.find(|get| get.range.start == offset)
            .expect("a GET begins there")
    }

    fn bytes_requested(&self) -> u64 {
        self.context.stats().bytes_requested
    }
}

#[track_caller]
fn assert_bytes(data: &ReadData, range: Range<u64>) {
    assert!(
        data.to_vec() == pattern_bytes(SEED, range.clone()),
        "wrong bytes in {range:?}"
    );
}

/// Reads from a store that answers at once, and compares.
#[track_caller]
fn read(reader: &Reader, offset: u64, len: u64) {
    let data = reader
        .read(offset, u32::try_from(len).unwrap())
        .now_or_never()
        .expect("nothing to wait for")
        .unwrap();
    assert_bytes(&data, offset..offset + len);
}

/// A read that is polled by hand.
struct Task<'a> {
    future: Pin<Box<dyn Future<Output = Result<ReadData, FsError>> + Send + 'a>>,
    wakes: Arc<Wakes>,
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl<'a> Task<'a> {
    /// A read that is polled once and has to wait.
    #[track_caller]
    fn start(reader: &'a Reader, offset: u64, len: u64) -> Self {
        let future = Box::pin(reader.read(offset, u32::try_from(len).unwrap()));
        let mut task = Self {
            future,
            wakes: Arc::default(),
        };
        assert!(task.poll().is_pending());
        task
    }

    fn poll(&mut self) -> Poll<Result<ReadData, FsError>> {
        let waker = Waker::from(Arc::clone(&self.wakes));
        self.future.as_mut().poll(&mut Context::from_waker(&waker))
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::Relaxed)
    }

    #[track_caller]
    fn finish(mut self) -> Result<ReadData, FsError> {
        match self.poll() {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("still waiting"),
        }
    }
}

#[test]
fn reads_are_cut_at_the_end_of_the_object() {
    let bucket = Bucket::new(Time::Immediate);
    let reader = bucket.open(1000);
    read(&reader, 0, 1000);
    assert_eq!(
        reader
            .read(900, 4096)
            .now_or_never()
            .unwrap()
            .unwrap()
            .len(),
        100
    );
    for (offset, size) in [(1000, 10), (5000, 10), (u64::MAX, u32::MAX), (10, 0)] {
        assert!(
            reader
                .read(offset, size)
                .now_or_never()
                .unwrap()
                .unwrap()
                .is_empty()
        );
    }
    assert!(
        bucket
            .open(0)
            .read(0, 4096)
            .now_or_never()
            .unwrap()
            .unwrap()
            .is_empty()
    );
}

#[test]
fn sequential_reads_fetch_each_byte_once() {
    for (size, len) in [
        (64 * MIB, 256 * KIB),
        (64 * MIB, MIB),
        (9 * MIB + 5, 100_000),
        (100 * KIB, 4 * KIB),
    ] {
        let bucket = Bucket::new(Time::Immediate);
        let reader = bucket.open(size);
        for offset in (0..size).step_by(usize::try_from(len).unwrap()) {
            read(&reader, offset, len.min(size - offset));
        }
        let stats = bucket.context.stats();
        assert_eq!(
            (stats.bytes_requested, stats.budget_used, stats.block_bytes),
            (size, 0, 0),
            "{size} by {len}"
        );
    }
}

#[test]
fn parallel_random_reads_are_all_in_the_air_and_exact() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(1 << 30);
    let mut tasks: Vec<_> = (0..64)
        .map(|n| Task::start(&reader, (n * 37 % 64) * 16 * MIB + 4 * KIB, 4 * KIB))
        .collect();
    assert_eq!(bucket.client.gets_in_flight(), 64);
    assert_eq!(bucket.bytes_requested(), 64 * 4 * KIB);
    bucket.client.deliver_all();
    for (n, task) in tasks.drain(..).enumerate() {
        let offset = (n as u64 * 37 % 64) * 16 * MIB + 4 * KIB;
        assert_eq!(task.wakes(), 1);
        assert_bytes(&task.finish().unwrap(), offset..offset + 4 * KIB);
    }
    assert_eq!(bucket.context.stats().budget_used, 0);
}

#[test]
fn the_window_is_in_the_air_before_the_first_byte_is_consumed() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(64 * MIB);
    let task = Task::start(&reader, 0, 256 * KIB);
    assert_eq!(
        bucket.pending(),
        [
            (0, 256, true),
            (256, 512, false),
            (512, 1024, false),
            (1024, 1536, false),
            (1536, 2048, false),
        ]
    );
    bucket.finish(0);
    assert_bytes(&task.finish().unwrap(), 0..256 * KIB);
}

#[test]
fn a_read_is_answered_before_its_block_is_full() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(MIB);
    let task = Task::start(&reader, 0, 4 * KIB);
    let second = Task::start(&reader, 100 * KIB, 4 * KIB);
    let get = bucket.get_at(0);
    assert_eq!(get.range, 0..MIB);
    assert!(bucket.client.deliver(get.id, 4 * KIB - 1));
    assert_eq!(task.wakes(), 0);
    assert!(bucket.client.deliver(get.id, 1));
    assert_eq!((task.wakes(), second.wakes()), (1, 0));
    assert_bytes(&task.finish().unwrap(), 0..4 * KIB);
    assert!(bucket.client.deliver(get.id, 100 * KIB));
    assert_bytes(&second.finish().unwrap(), 100 * KIB..104 * KIB);
    assert!(bucket.client.finish(get.id));
    read(&reader, 104 * KIB, 900 * KIB);
    assert_eq!(bucket.context.stats().gets, 1);
}

#[test]
fn a_read_over_several_blocks_waits_for_all() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(64 * MIB);
    let mut first = Task::start(&reader, 0, 128 * KIB);
    let mut task = Task::start(&reader, 128 * KIB, 1000 * KIB);
    for offset in [768, 512, 0, 256] {
        assert!(task.poll().is_pending());
        bucket.finish(offset * KIB);
    }
    assert!(first.poll().is_ready());
    bucket.client.deliver_all();
    let data = task.finish().unwrap();
    assert!(data.slices.len() > 1);
    assert_bytes(&data, 128 * KIB..1128 * KIB);
}

#[test]
fn dropped_reads_leave_no_waiter_and_lose_no_bytes() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(MIB);
    let dropped = Task::start(&reader, 0, 4 * KIB);
    let wakes = Arc::clone(&dropped.wakes);
    let kept = Task::start(&reader, 8 * KIB, 4 * KIB);
    drop(dropped);
    assert_eq!(Arc::strong_count(&wakes), 1, "no waker is left behind");
    bucket.client.deliver_all();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    assert_bytes(&kept.finish().unwrap(), 8 * KIB..12 * KIB);
    read(&reader, 0, 4 * KIB);
}

#[test]
fn a_dropped_reader_gives_back_everything() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(64 * MIB);
    drop(Task::start(&reader, 0, 256 * KIB));
    drop(reader);
    let stats = bucket.context.stats();
    assert_eq!((stats.streams, stats.readers_holding), (0, 0));
    assert!(stats.budget_used > 0, "GETs in flight keep their blocks");
    bucket.client.deliver_all();
    assert_eq!(
        (
            bucket.context.stats().budget_used,
            bucket.context.stats().block_bytes
        ),
        (0, 0)
    );
}

#[test]
fn replies_keep_their_share_of_the_memory() {
    let bucket = Bucket::new(Time::Immediate);
    let reader = bucket.open(64 * KIB);
    let data = reader.read(0, 64 * 1024).now_or_never().unwrap().unwrap();
    drop(reader);
    assert_eq!(bucket.context.stats().budget_used, 64 * KIB);
    assert_bytes(&data, 0..64 * KIB);
    drop(data);
    assert_eq!(bucket.context.stats().budget_used, 0);
}

#[test]
fn interleaved_and_reordered_streams_waste_nothing() {
    let mut random = StdRng::seed_from_u64(1);
    for streams in [1, 2, 4] {
        for depth in [1, 8] {
            let bucket = Bucket::new(Time::Immediate);
            let reader = bucket.open(16 * MIB);
            let length = 16 * MIB / streams;
            let mut order: Vec<u64> = (0..length / (128 * KIB)).collect();
            order
                .chunks_mut(depth)
                .for_each(|chunk| chunk.shuffle(&mut random));
            for step in order {
                (0..streams).for_each(|stream| {
                    read(&reader, stream * length + step * 128 * KIB, 128 * KIB);
                });
            }
            let stats = bucket.context.stats();
            assert_eq!(
                (stats.bytes_requested, stats.budget_used),
                (16 * MIB, 0),
                "{streams} streams, depth {depth}"
            );
        }
    }
}

#[test]
fn concurrent_reads_in_any_order_waste_nothing() {
    for seed in 0..20 {
        let mut random = StdRng::seed_from_u64(seed);
        let bucket = Bucket::new(Time::Manual);
        let reader = bucket.open(16 * MIB);
        for batch in 0..16 {
            let mut order: Vec<u64> = (0..8).collect();
            order.shuffle(&mut random);
            let offset = |n: u64| batch * MIB + n * 128 * KIB;
            let mut waiting: Vec<_> = order
                .iter()
                .map(|&n| (n, reader.read(offset(n), 128 * 1024).boxed()))
                .collect();
            waiting.retain_mut(|(_, read)| read.now_or_never().is_none());
            bucket.client.deliver_all();
            for (n, read) in waiting {
                assert_bytes(
                    &read.now_or_never().unwrap().unwrap(),
                    offset(n)..offset(n) + 128 * KIB,
                );
            }
        }
        assert_eq!(bucket.bytes_requested(), 16 * MIB, "seed {seed}");
    }
}

#[test]
fn the_budget_holds_with_many_streams() {
    let bucket = Bucket::with_memory(Time::Manual, 16 * MIB);
    let readers: Vec<_> = (0..100).map(|n| bucket.open(2 * MIB + n)).collect();
    for step in 0..4 {
        let (offset, len) = (step * 256 * KIB, 256 * 1024);
        let mut reads: Vec<_> = readers
            .iter()
            .map(|reader| reader.read(offset, len).boxed())
            .collect();
        while !reads.is_empty() {
            let before = reads.len();
            reads.retain_mut(|read| match read.now_or_never() {
                Some(outcome) => {
                    assert_bytes(&outcome.unwrap(), offset..offset + u64::from(len));
                    false
                }
                None => true,
            });
            let delivered = bucket.client.deliver_all();
            assert!(
                delivered > 0 || reads.len() < before,
                "{} reads wait for ever",
                reads.len()
            );
        }
        bucket.clock.advance(Duration::from_millis(20));
    }
    let stats = bucket.context.stats();
    assert!(stats.budget_peak <= 16 * MIB, "{stats:?}");
    drop(readers);
    assert_eq!(bucket.context.stats().budget_used, 0);
}

#[test]
fn read_ahead_leaves_memory_for_demand() {
    let bucket = Bucket::with_memory(Time::Manual, 16 * MIB);
    let streams: Vec<_> = (0..64).map(|n| bucket.open(64 * MIB + n)).collect();
    let mut tasks: Vec<_> = Vec::new();
    for reader in &streams {
        tasks.push(reader.read(0, 128 * 1024).boxed());
        assert!(tasks.last_mut().unwrap().now_or_never().is_none());
    }
    let ahead: u64 = bucket
        .pending()
        .iter()
        .filter(|get| !get.2)
        .map(|get| get.1 - get.0)
        .sum();
    assert!(ahead * KIB <= 12 * MIB, "{ahead}");
    let foreground = bucket.pending().iter().filter(|get| get.2).count();
    assert!(foreground >= 15, "{foreground} of 64 reads at once");
    while !tasks.is_empty() {
        let before = tasks.len();
        let delivered = bucket.client.deliver_all();
        tasks.retain_mut(|task| task.now_or_never().is_none());
        assert!(
            delivered > 0 || tasks.len() < before,
            "{} reads wait for ever",
            tasks.len()
        );
    }
}

#[test]
fn idle_files_give_way_and_go_after_a_while() {
    let bucket = Bucket::with_memory(Time::Immediate, 16 * MIB);
    let idle: Vec<_> = (0..100).map(|n| bucket.open(64 * MIB + n)).collect();
    idle.iter().for_each(|reader| read(reader, 0, 4 * KIB));
    assert!(bucket.context.stats().budget_used > 12 * MIB);
    bucket.clock.advance(Duration::from_secs(1));
    // More than is free: the longest idle give way, and come back without harm.
    let active = bucket.open(32 * MIB);
    for step in 0..32 {
        read(&active, step * MIB, MIB);
    }
    idle.iter()
        .for_each(|reader| read(reader, 4 * KIB, 4 * KIB));
    assert!(bucket.context.stats().budget_peak <= 16 * MIB);
    bucket.clock.advance(Duration::from_secs(11));
    bucket.context.give_back_idle();
    let stats = bucket.context.stats();
    assert_eq!(
        (stats.budget_used, stats.readers_holding, stats.streams),
        (0, 0, 0)
    );
    read(&active, 0, 4 * KIB);
}

#[test]
fn an_idle_reader_is_small() {
    assert!(super::reader::idle_size() <= 400);
}

#[test]
fn threads_read_the_right_bytes() {
    // All bytes at once; then 64 KiB at a time, so that reads are answered from blocks that are
    // filling.
    for throughput in [None, Some(500_000_000)] {
        read_by_threads(throughput);
    }
}

fn read_by_threads(throughput: Option<u64>) {
    let options = SimOptions {
        time: Time::Threaded,
        throughput,
        latency: Duration::ZERO..Duration::from_millis(1),
        ..SimOptions::default()
    };
    let bucket = Bucket::with(
        options,
        ReadConfig {
            memory_max: 32 * MIB,
            ..ReadConfig::default()
        },
    );
    let size = 12 * MIB + 321;
    let reader = bucket.open(size);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let reader = &reader;
            scope.spawn(move || {
                let mut random = StdRng::seed_from_u64(thread);
                let mut offset = thread * MIB;
                for _ in 0..60 {
                    if thread % 2 == 0 {
                        offset = rand::Rng::random_range(&mut random, 0..size);
                    } else if offset >= size {
                        offset = 0;
                    }
                    let len: u64 = *[4 * KIB, 100_000, 128 * KIB, MIB]
                        .choose(&mut random)
                        .unwrap();
                    let data = futures::executor::block_on(
                        reader.read(offset, u32::try_from(len).unwrap()),
                    )
                    .unwrap();
                    let end = (offset + len).min(size);
                    assert_bytes(&data, offset..end);
                    offset = end;
                }
            });
        }
    });
    drop(reader);
    while bucket.client.gets_in_flight() > 0 {
        std::thread::yield_now();
    }
    assert!(bucket.context.stats().budget_peak <= 32 * MIB);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any reads of any object return its bytes, within the budget, and give everything back.
    #[test]
    fn any_reads_return_the_objects_bytes(
        size in 1u64..3_000_000,
        reads in proptest::collection::vec((0u64..3_000_000, 1u32..400_000, 0u8..4), 1..60),
        part_size in 100_000u64..1_000_000,
        fail_every in 3u32..50,
    ) {
        let config = ReadConfig { memory_max: 4 * MIB, part_size, window_max: 2 * MIB, ..ReadConfig::default() };
        let bucket = Bucket::with(SimOptions::default(), config);
        bucket.client.add_fault(FaultRule {
            operation: Some(Operation::GetObject),
            when: When::Every(fail_every),
            fault: Fault::StopAfter(1000),
        });
        let reader = bucket.open(size);
        let mut next = 0;
        for (offset, len, mode) in reads {
            let offset = if mode == 0 { offset } else { next };
            let outcome = reader.read(offset, len).now_or_never().expect("nothing to wait for");
            let end = (offset + u64::from(len)).min(size);
            if let Ok(data) = outcome {
                prop_assert!(data.to_vec() == pattern_bytes(SEED, offset.min(end)..end));
            }
            next = if end < size { end } else { 0 };
        }
        prop_assert!(bucket.context.stats().budget_peak <= 4 * MIB);
        drop(reader);
        prop_assert_eq!(bucket.context.stats().budget_used, 0);
    }

    /// Reads that hop about fetch what they ask for and little more.
    #[test]
    fn random_reads_are_not_amplified(
        offsets in proptest::collection::vec(0u64..(1 << 20), 20..100),
        len in prop::sample::select(vec![4096u32, 65536, 131_072]),
    ) {
        let bucket = Bucket::new(Time::Immediate);
        let reader = bucket.open(64 << 30);
        for page in &offsets {
            reader.read((page + 1) * 65536, len).now_or_never().unwrap().unwrap();
        }
        let asked = offsets.len() as u64 * u64::from(len);
        // A pair of neighbours among them looks like a stream for once.
        prop_assert!(bucket.bytes_requested() <= asked + 4 * MIB);
    }
}
