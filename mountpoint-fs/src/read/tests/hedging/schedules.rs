//! Readers of bytes whose GET is late, in schedules of the test's choice: bytes of both GETs arrive
//! in pieces, GETs fail, and readers leave.

use std::sync::atomic::AtomicBool;

use shuttle::rand::{Rng as _, thread_rng};

use super::*;
use crate::sync::explore;

const LEN: u64 = 8 * KIB;
const READERS: usize = 3;

struct World {
    bucket: Bucket,
    reader: Reader,
    /// Whether a GET may fail that no other one stands in for.
    may_fail: bool,
    has_failed: AtomicBool,
    is_over: AtomicBool,
}

impl World {
    /// Reads some bytes, or leaves before they arrive.
    fn read(&self) {
        let offset = FRESH + thread_rng().gen_range(0..LEN / 2);
        let len = thread_rng().gen_range(1..=LEN / 2);
        let mut read = Box::pin(self.reader.read(offset, u32::try_from(len).unwrap()));
        if thread_rng().gen_range(0..4) == 0 {
            drop((&mut read).now_or_never());
            return;
        }
        match shuttle::future::block_on(read) {
            Ok(data) => assert_bytes(&data, offset..offset + len),
            Err(error) => {
                let failed = self.has_failed.load(Ordering::SeqCst);
                assert!(self.may_fail && failed, "{error}");
            }
        }
    }

    /// Brings bytes, and fails some GETs, until no reader waits.
    fn serve(&self) {
        let client = &self.bucket.client;
        loop {
            let pending = client.pending_gets();
            if pending.is_empty() && self.is_over.load(Ordering::SeqCst) {
                return;
            }
            if !pending.is_empty() {
                let get = &pending[thread_rng().gen_range(0..pending.len())];
                let others = pending.iter().filter(|it| it.range.end == get.range.end);
                let has_other = others.count() > 1;
                match thread_rng().gen_range(0..12) {
                    0 if has_other || self.may_fail => {
                        self.has_failed.fetch_or(!has_other, Ordering::SeqCst);
                        client.fail(get.id, ErrorKind::Transient);
                    }
                    1..=2 => drop(client.finish(get.id)),
                    3..=5 => drop(client.deliver(get.id, thread_rng().gen_range(1..LEN / 2))),
                    _ => {}
                }
            }
            shuttle::thread::yield_now();
        }
    }

    /// Moves the time, and asks late GETs again.
    fn hedge(&self) {
        while !self.is_over.load(Ordering::SeqCst) {
            self.bucket.clock.advance(STEP);
            self.bucket.context.resources.fetcher.look_at_due();
            shuttle::thread::yield_now();
        }
    }
}

#[test]
fn each_reader_has_its_bytes_in_any_schedule_and_nothing_is_left() {
    explore(|| {
        let (bucket, reader) = Bucket::learned(LEN, 1);
        let used = bucket.context.stats().budget_used;
        let world = Arc::new(World {
            bucket,
            reader,
            may_fail: thread_rng().r#gen(),
            has_failed: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let run = |run: fn(&World)| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || run(&world))
        };
        let others = [run(World::serve), run(World::hedge)];
        let readers: Vec<_> = (0..READERS).map(|_| run(World::read)).collect();
        readers.into_iter().for_each(|it| it.join().unwrap());
        world.is_over.store(true, Ordering::SeqCst);
        others.into_iter().for_each(|it| it.join().unwrap());
        world.bucket.wait(Duration::from_secs(1));
        assert!(!world.bucket.context.resources.fetcher.look_at_due());
        assert_eq!(world.bucket.client.gets_in_flight(), 0);
        let World { bucket, reader, .. } = Arc::into_inner(world).unwrap();
        drop(reader);
        assert!(bucket.context.stats().budget_used <= used);
        assert_eq!(bucket.context.stats().budget_used, 0);
    });
}
