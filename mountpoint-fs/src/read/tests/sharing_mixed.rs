//! Open files of one version that are read differently: at other offsets, in other ways, or with
//! too little memory.

use super::*;

/// Readers of one object that share their blocks.
fn open(bucket: &Bucket, size: u64, count: usize) -> Vec<Reader> {
    let object = bucket.client.put_pattern("shared", size, SEED);
    let reader = || Reader::shared(&bucket.context, &object.key, &object.etag, size);
    (0..count).map(|_| reader()).collect()
}

#[test]
fn who_waits_for_memory_has_it_when_those_before_have_read() {
    let bucket = Bucket::with_memory(Time::Manual, 4 * MIB);
    let other = bucket.open(64 * MIB);
    let readers = open(&bucket, 1 << 30, 8);
    // All of the memory is in use when they begin.
    let before: Vec<_> = (0..4)
        .map(|n| Task::start(&other, n * 4 * MIB + 64 * KIB, MIB))
        .collect();
    let mut tasks: Vec<_> = (1..)
        .zip(&readers)
        .map(|(n, reader)| Task::start(reader, n * 100 * MIB, MIB))
        .collect();
    bucket.client.deliver_all();
    for task in before {
        drop(task.finish().unwrap());
    }
    for _ in 0..2 {
        tasks.retain_mut(|task| task.poll().is_pending());
        bucket.client.deliver_all();
        tasks.retain_mut(|task| task.poll().is_pending());
    }
    assert_eq!(tasks.len(), 0, "{:?}", bucket.context.stats());
}

#[track_caller]
fn read_pages(reader: &Reader, offset: u64, len: u64) {
    let size = u32::try_from(len).unwrap();
    let data = reader.read_for(offset, size, true).now_or_never();
    let data = data.expect("nothing to wait for").unwrap();
    assert_bytes(&data, offset..offset + len);
}

/// In the mode `auto`, only the first of two simultaneous opens has direct replies.
#[test]
fn one_with_direct_replies_and_one_that_fills_the_page_cache_share_what_they_fetch() {
    const LEN: u64 = 256 * KIB;
    let direct = |reader: &Reader, step: u64| read(reader, step * LEN, LEN);
    let cached = |reader: &Reader, step: u64| read_pages(reader, step * LEN, LEN);
    for lead in [0, 1, 16] {
        for (first, second) in [
            (direct as fn(&Reader, u64), cached as fn(&Reader, u64)),
            (cached, direct),
        ] {
            let bucket = Bucket::new(Time::Immediate);
            let size = 16 * MIB;
            let readers = open(&bucket, size, 2);
            let steps = size / LEN;
            for step in 0..steps + lead {
                if step < steps {
                    first(&readers[0], step);
                }
                if lead <= step {
                    second(&readers[1], step - lead);
                }
            }
            let asked = bucket.bytes_requested();
            assert!(
                asked <= size + size / 20,
                "{lead} ahead: {} MiB",
                asked / MIB
            );
        }
    }
}

#[test]
fn random_reads_leave_nothing_that_splinters_what_another_reads_in_sequence() {
    let gets = |count: u64| {
        let bucket = Bucket::new(Time::Immediate);
        let size = 32 * MIB;
        let readers = open(&bucket, size, 2);
        let mut places: Vec<_> = (0..count).map(|n| (n * 128 + 4) * KIB).collect();
        places.shuffle(&mut StdRng::seed_from_u64(1));
        for place in places {
            read(&readers[0], place, 4 * KIB);
        }
        let before = bucket.context.stats();
        assert_eq!(before.budget_used, 0);
        for offset in (0..size).step_by(256 << 10) {
            read(&readers[1], offset, 256 * KIB);
        }
        bucket.context.stats().gets - before.gets
    };
    assert_eq!(gets(200), gets(0));
}

#[test]
fn what_stays_for_one_that_rests_goes_though_another_reads_on_at_random() {
    let bucket = Bucket::new(Time::Immediate);
    let readers = open(&bucket, 1 << 30, 2);
    let place = |n: u64| (n * 37 % 64 + 1) * MIB;
    for n in 0..64 {
        read(&readers[0], place(n), 128 * KIB);
    }
    assert!(bucket.context.stats().budget_used > 0, "the other may come");
    for n in 0..12 {
        bucket.clock.advance(Duration::from_secs(1));
        read(&readers[0], place(n) + 512 * KIB, 4 * KIB);
    }
    assert_eq!(bucket.context.stats().budget_used, 0);
}

#[test]
fn nothing_stays_for_who_finds_it_in_the_page_cache() {
    const LEN: u64 = 256 * KIB;
    let held = |count| {
        let bucket = Bucket::new(Time::Immediate);
        let readers = open(&bucket, 1 << 30, count);
        readers.iter().for_each(Reader::expect_pages);
        for step in 0..256 {
            read_pages(&readers[0], step * LEN, LEN);
        }
        bucket.context.stats().budget_used
    };
    assert_eq!(held(8), held(1));
}

#[test]
fn the_stream_of_one_that_ends_is_another_s_whoever_read_last() {
    const LEN: u64 = 256 * KIB;
    for last in [0, 1] {
        let bucket = Bucket::new(Time::Immediate);
        let size = 64 * MIB;
        let mut readers = open(&bucket, size, 2);
        for step in 0..40 {
            read_pages(&readers[step % 2], step as u64 * LEN, LEN);
        }
        read_pages(&readers[last], 40 * LEN, LEN);
        drop(readers.remove(0));
        for step in 41..size / LEN {
            read_pages(&readers[0], step * LEN, LEN);
        }
        assert_eq!(bucket.bytes_requested(), size, "{last}");
    }
}

#[test]
fn who_comes_when_the_page_cache_has_lost_what_others_read_is_read_ahead() {
    const LEN: u64 = 256 * KIB;
    let size = 64 * MIB;
    let bucket = Bucket::new(Time::Manual);
    let readers = open(&bucket, size, 2);
    let pages = |reader: &Reader, step: u64| {
        let mut read = Box::pin(reader.read_for(step * LEN, 256 << 10, true));
        if read.as_mut().now_or_never().is_none() {
            bucket.client.deliver_all();
            drop(read.now_or_never().unwrap().unwrap());
        }
    };
    (0..64).for_each(|step| pages(&readers[0], step));
    (0..8).for_each(|step| pages(&readers[1], step));
    bucket.client.deliver_all();
    let next = readers[1].read_for(8 * LEN, 256 << 10, true);
    assert!(next.now_or_never().is_some(), "it was asked for before");
}
