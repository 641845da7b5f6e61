//! Several open files of one version share their fetched blocks.

use super::*;
use crate::config::limits::READER_IDLE;
use crate::read::object::SHARERS_MAX;

impl Bucket {
    /// Readers of one object that share their blocks.
    fn open_shared(&self, size: u64, count: usize) -> Vec<Reader> {
        let key = format!("object-{size}");
        let object = self.client.put_pattern(&key, size, SEED);
        let open = || Reader::shared(&self.context, &object.key, &object.etag, size);
        (0..count).map(|_| open()).collect()
    }

    /// Asserts that no state of closed files is left.
    #[track_caller]
    fn assert_empty(&self) {
        let stats = self.context.stats();
        let left = (stats.budget_used, stats.streams, stats.versions_shared);
        assert_eq!(left, (0, 0, 0));
    }
}

/// The kernel's page cache for some open files: it reads the pages that it lacks.
struct Pages<'a> {
    readers: &'a [Reader],
    is_cached: Vec<bool>,
}

const PAGES: u64 = 256 * KIB;

impl Pages<'_> {
    /// One of the processes reads at `offset`.
    fn read(&mut self, reader: usize, offset: u64) {
        let page = usize::try_from(offset / PAGES).unwrap();
        if std::mem::replace(&mut self.is_cached[page], true) {
            return;
        }
        let size = u32::try_from(PAGES).unwrap();
        let read = self.readers[reader].read_for(offset, size, true);
        let data = read.now_or_never().expect("nothing to wait for").unwrap();
        assert_bytes(&data, offset..offset + PAGES);
    }
}

#[test]
fn readers_that_begin_together_fetch_each_byte_once() {
    for (count, len) in [(2, 256 * KIB), (8, 256 * KIB), (8, MIB), (32, 64 * KIB)] {
        let bucket = Bucket::new(Time::Immediate);
        let size = 8 * MIB;
        let readers = bucket.open_shared(size, count);
        for offset in (0..size).step_by(usize::try_from(len).unwrap()) {
            for reader in &readers {
                read(reader, offset, len);
            }
        }
        assert_eq!(bucket.bytes_requested(), size, "{count} by {len}");
        drop(readers);
        bucket.assert_empty();
    }
}

#[test]
fn readers_that_drift_apart_fetch_each_byte_once() {
    for seed in 0..5 {
        let mut random = StdRng::seed_from_u64(seed);
        let bucket = Bucket::new(Time::Immediate);
        let size = 8 * MIB;
        let readers = bucket.open_shared(size, 4);
        let mut left: Vec<_> = readers.iter().map(|reader| (reader, 0)).collect();
        while !left.is_empty() {
            let at = *(0..left.len())
                .collect::<Vec<_>>()
                .choose(&mut random)
                .unwrap();
            let (reader, offset) = &mut left[at];
            read(reader, *offset, 128 * KIB);
            *offset += 128 * KIB;
            if *offset == size {
                left.swap_remove(at);
            }
        }
        assert_eq!(bucket.bytes_requested(), size, "seed {seed}");
        drop(readers);
        bucket.assert_empty();
    }
}

#[test]
fn who_begins_later_fetches_what_is_gone_and_shares_the_rest() {
    let bucket = Bucket::new(Time::Immediate);
    let (size, lead) = (64 * MIB, 8 * MIB);
    let readers = bucket.open_shared(size, 1);
    let len = 256 * KIB;
    for offset in (0..lead).step_by(256 << 10) {
        read(&readers[0], offset, len);
    }
    let late = bucket.open_shared(size, 1);
    for offset in (lead..size).step_by(256 << 10) {
        read(&readers[0], offset, len);
        read(&late[0], offset - lead, len);
    }
    for offset in (size - lead..size).step_by(256 << 10) {
        read(&late[0], offset, len);
    }
    // Fetched twice: the bytes read before the late reader came, and that reader's own read-ahead.
    let asked = bucket.bytes_requested();
    assert!((size..=size + lead + 4 * MIB).contains(&asked), "{asked}");
    drop((readers, late));
    bucket.assert_empty();
}

#[test]
fn processes_behind_one_page_cache_are_one_stream() {
    let gets = |count: usize, turn: &dyn Fn(usize) -> usize| {
        let bucket = Bucket::new(Time::Immediate);
        let size = 64 * MIB;
        let readers = bucket.open_shared(size, count);
        let mut pages = Pages {
            readers: &readers,
            is_cached: vec![false; usize::try_from(size / PAGES).unwrap()],
        };
        // The first reader of a page fetches it; the others find it in the page cache.
        for step in 0..pages.is_cached.len() {
            let offset = step as u64 * PAGES;
            pages.read(turn(step), offset);
            (0..count).for_each(|reader| pages.read(reader, offset));
        }
        let stats = bucket.context.stats();
        assert_eq!((stats.bytes_requested, stats.budget_used), (size, 0));
        stats.gets
    };
    let alone = gets(1, &|_| 0);
    assert_eq!(gets(2, &|step| step % 2), alone);
    assert_eq!(gets(8, &|step| step * 5 % 8), alone);
    assert_eq!(gets(8, &|step| step / 7 % 8), alone);
}

#[test]
fn who_reads_on_behind_pages_of_one_that_ends_takes_over_its_stream() {
    let bucket = Bucket::new(Time::Manual);
    let readers = bucket.open_shared(64 * MIB, 2);
    let [first, second] = <[Reader; 2]>::try_from(readers).unwrap();
    let pages = |reader: &Reader, offset: u64| {
        let mut read = Box::pin(reader.read_for(offset, 256 << 10, true));
        if read.as_mut().now_or_never().is_none() {
            bucket.client.deliver_all();
            drop(read.now_or_never().unwrap().unwrap());
        }
    };
    for step in 0..40 {
        pages(&first, step * 256 * KIB);
    }
    pages(&second, 40 * 256 * KIB);
    drop(first);
    bucket.client.deliver_all();
    let streams = bucket.context.stats().streams;
    let read = second.read_for(41 * 256 * KIB, 256 << 10, true);
    assert!(read.now_or_never().is_some(), "it was asked for before");
    assert_eq!(streams, 1);
}

#[test]
fn one_that_stops_holds_no_more_than_its_share_and_not_for_long() {
    let memory = 64 * MIB;
    let bucket = Bucket::with_memory(Time::Immediate, memory);
    let readers = bucket.open_shared(1 << 30, 2);
    let len = 256 * KIB;
    for offset in (0..4 * MIB).step_by(256 << 10) {
        readers.iter().for_each(|reader| read(reader, offset, len));
    }
    let mut most = 0;
    for offset in (4 * MIB..128 * MIB).step_by(256 << 10) {
        read(&readers[0], offset, len);
        most = most.max(bucket.context.stats().budget_used);
    }
    assert!(most > 4 * MIB, "something stays for it: {most}");
    assert!(most <= memory / 2, "{most}");
    // The reader comes back: kept blocks are right, and dropped ones are fetched again.
    for offset in (4 * MIB..8 * MIB).step_by(256 << 10) {
        read(&readers[1], offset, len);
    }
    bucket.clock.advance(READER_IDLE + Duration::from_secs(1));
    for offset in (128 * MIB..140 * MIB).step_by(256 << 10) {
        read(&readers[0], offset, len);
    }
    let (alone, reader) = (Bucket::with_memory(Time::Immediate, memory), 0);
    let other = alone.open_shared(1 << 30, 1);
    for offset in (0..140 * MIB).step_by(256 << 10) {
        read(&other[reader], offset, len);
    }
    let (held, least) = (bucket.context.stats(), alone.context.stats());
    assert!(
        held.budget_used <= least.budget_used + 4 * MIB,
        "{held:?} {least:?}"
    );
}

#[test]
fn one_that_ends_while_its_get_is_in_flight_leaves_it_to_the_others() {
    let bucket = Bucket::new(Time::Manual);
    let readers = bucket.open_shared(64 * MIB, 2);
    let [first, second] = <[Reader; 2]>::try_from(readers).unwrap();
    let waiting = Task::start(&first, 0, 256 * KIB);
    let other = Task::start(&second, 0, 256 * KIB);
    let gets = bucket.client.gets_in_flight();
    drop(waiting);
    drop(first);
    bucket.client.deliver_all();
    assert_bytes(&other.finish().unwrap(), 0..256 * KIB);
    read(&second, 256 * KIB, 256 * KIB);
    let sent = bucket.client.take_log().get_ranges("object-67108864");
    let again = sent.iter().filter(|range| range.start < 512 * KIB).count();
    assert_eq!(again, 2, "{gets}: {sent:?}");
}

#[test]
fn the_failure_of_a_shared_get_is_told_to_all_who_wait() {
    let bucket = Bucket::new(Time::Manual);
    let readers = bucket.open_shared(64 * MIB, 3);
    let tasks: Vec<_> = readers
        .iter()
        .map(|reader| Task::start(reader, 0, 256 * KIB))
        .collect();
    let get = bucket.get_at(0);
    assert!(bucket.client.fail(get.id, ErrorKind::Denied));
    for task in tasks {
        let outcome = task.finish();
        assert!(matches!(outcome, Err(FsError::Denied(_))), "{outcome:?}");
    }
    assert!(bucket.pending().iter().all(|(from, ..)| *from > 0));
}

#[test]
fn read_ahead_that_fails_is_tried_again_once_for_all_who_wait() {
    let bucket = Bucket::new(Time::Manual);
    let readers = bucket.open_shared(64 * MIB, 3);
    for reader in &readers {
        drop(Task::start(reader, 0, 256 * KIB));
    }
    bucket.finish(0);
    let mut tasks: Vec<_> = readers
        .iter()
        .map(|reader| Task::start(reader, 256 * KIB, 256 * KIB))
        .collect();
    let get = bucket.get_at(256 * KIB);
    assert!(bucket.client.fail(get.id, ErrorKind::Transient));
    assert!(tasks.iter_mut().all(|task| task.poll().is_pending()));
    let again = bucket.pending();
    let again = again.iter().filter(|get| **get == (256, 512, true));
    assert_eq!(again.count(), 1);
    bucket.finish(256 * KIB);
    for task in tasks {
        assert_bytes(&task.finish().unwrap(), 256 * KIB..512 * KIB);
    }
}

#[test]
fn versions_are_never_mixed() {
    let bucket = Bucket::new(Time::Immediate);
    let size = 8 * MIB;
    let open = |seed: u64| {
        let object = bucket.client.put_pattern("object", size, seed);
        Reader::shared(&bucket.context, &object.key, &object.etag, size)
    };
    let old = open(1);
    let content = |seed: u64| pattern_bytes(seed, 0..256 * KIB);
    let first = old.read(0, 256 << 10).now_or_never().unwrap().unwrap();
    let new = open(2);
    let second = new.read(0, 256 << 10).now_or_never().unwrap().unwrap();
    assert!(first.to_vec() == content(1) && second.to_vec() == content(2));
    // The old version's reader has the bytes that were requested in time, and an error after them.
    let outcomes = (1..32).map(|n| old.read(n * 256 * KIB, 256 << 10).now_or_never().unwrap());
    let stale = outcomes.filter(|read| matches!(read, Err(FsError::Stale(_))));
    assert!(stale.count() > 0);
    let again = open(2);
    assert_eq!(bucket.context.stats().versions_shared, 2);
    drop((old, new, again, first, second));
    bucket.assert_empty();
}

#[test]
fn more_readers_than_there_are_readers_begin_anew() {
    let bucket = Bucket::new(Time::Immediate);
    let size = 2 * MIB;
    let readers = bucket.open_shared(size, SHARERS_MAX * 2 + 1);
    for offset in (0..size).step_by(256 << 10) {
        readers
            .iter()
            .for_each(|reader| read(reader, offset, 256 * KIB));
    }
    assert_eq!(bucket.bytes_requested(), 3 * size);
    drop(readers);
    bucket.assert_empty();
}

#[test]
fn small_files_are_fetched_by_each_who_opens_them() {
    let bucket = Bucket::new(Time::Immediate);
    let readers = bucket.open_shared(MIB, 2);
    readers.iter().for_each(|reader| read(reader, 0, MIB));
    assert_eq!(bucket.context.stats().gets, 2);
}

#[test]
fn who_reads_far_apart_shares_nothing_and_loses_nothing() {
    let bucket = Bucket::new(Time::Immediate);
    let (size, count) = (32 * MIB, 8);
    let readers = bucket.open_shared(size, count);
    let part = size / count as u64;
    for offset in (0..part).step_by(128 << 10) {
        for (at, reader) in (0..).zip(&readers) {
            read(reader, at * part + offset, 128 * KIB);
        }
    }
    let asked = bucket.bytes_requested();
    assert!(asked <= size + size / 20, "{asked}");
    drop(readers);
    bucket.assert_empty();
}

#[test]
fn ranks_that_take_turns_fetch_nothing_that_the_page_cache_has() {
    let bucket = Bucket::new(Time::Immediate);
    let (size, count) = (64 * MIB, 8);
    let readers = bucket.open_shared(size, count);
    let mut pages = Pages {
        readers: &readers,
        is_cached: vec![false; usize::try_from(size / PAGES).unwrap()],
    };
    // Each reads every eighth MiB in quarters; half of them are a turn ahead of the others.
    for step in 0..=8 {
        for quarter in 0..4 {
            for rank in 0..count {
                let turn = step + rank % 2;
                if (1..=8).contains(&turn) {
                    let mib = (turn - 1) * count + rank;
                    pages.read(rank, mib as u64 * MIB + quarter * PAGES);
                }
            }
        }
    }
    let asked = bucket.bytes_requested();
    assert!(asked <= size + size / 20, "{asked}");
    drop(readers);
    bucket.assert_empty();
}

/// The next step of one of several readers.
#[derive(Clone, Debug)]
enum Move {
    /// Reads sequentially, through the page cache or directly.
    On(u32, bool),
    /// Reads at an offset.
    To(u64, u32),
    /// Ends, and another one begins.
    Again,
    /// All readers pause for this number of milliseconds.
    Rest(u64),
}

fn moves() -> impl Strategy<Value = Vec<(usize, Move)>> {
    let len = 1u32..600_000;
    let next = prop_oneof![
        8 => (len.clone(), any::<bool>()).prop_map(|(len, fills)| Move::On(len, fills)),
        1 => (0..8 * MIB, len).prop_map(|(offset, len)| Move::To(offset, len)),
        1 => Just(Move::Again),
        1 => (0u64..20_000).prop_map(Move::Rest),
    ];
    proptest::collection::vec((0usize..5, next), 1..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever several readers do, each has the object's bytes within the budget, and all memory
    /// is released.
    #[test]
    fn any_readers_have_the_objects_bytes(
        moves in moves(),
        memory_max in 4 * MIB..24 * MIB,
        fail_every in 5u32..60,
    ) {
        let size = 8 * MIB + 4321;
        let config = ReadConfig { memory_max, part_size: MIB, ..ReadConfig::default() };
        let bucket = Bucket::with(SimOptions::default(), config);
        bucket.client.add_fault(FaultRule {
            operation: Some(Operation::GetObject),
            when: When::Every(fail_every),
            fault: Fault::StopAfter(1000),
        });
        let open = || bucket.open_shared(size, 1).remove(0);
        let mut readers: Vec<_> = (0..5).map(|_| (open(), 0)).collect();
        for (at, next) in moves {
            let (reader, place) = &mut readers[at];
            let (offset, len, fills) = match next {
                Move::On(len, fills) => (*place, len, fills),
                Move::To(offset, len) => (offset, len, false),
                Move::Again => {
                    *reader = open();
                    *place = 0;
                    continue;
                }
                Move::Rest(ms) => {
                    bucket.clock.advance(Duration::from_millis(ms));
                    continue;
                }
            };
            let end = (offset + u64::from(len)).min(size);
            let read = reader.read_for(offset, len, fills).now_or_never();
            if let Ok(data) = read.expect("nothing to wait for") {
                prop_assert!(data.to_vec() == pattern_bytes(SEED, offset.min(end)..end));
            }
            *place = if end < size { end } else { 0 };
        }
        prop_assert!(bucket.context.stats().budget_peak <= memory_max);
        drop(readers);
        let stats = bucket.context.stats();
        prop_assert_eq!((stats.budget_used, stats.streams, stats.versions_shared), (0, 0, 0));
    }
}
