//! Requested ranges: each byte once, and few bytes that are not read.

use super::*;

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
fn parallel_random_reads_are_all_in_flight_and_exact() {
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
fn the_window_is_in_flight_before_the_first_byte_is_consumed() {
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

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Any reads of any object return its bytes within the budget, and release all memory.
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

    /// Random reads fetch few bytes beyond their own.
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
        // A pair of adjacent reads looks like a stream once.
        prop_assert!(bucket.bytes_requested() <= asked + 4 * MIB);
    }
}
