//! Time of a read's answer: as soon as its own bytes have arrived, on any thread.

use super::*;

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
fn threads_read_the_right_bytes() {
    // All bytes at once; then 64 KiB at a time, so that blocks answer reads while they fill.
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
