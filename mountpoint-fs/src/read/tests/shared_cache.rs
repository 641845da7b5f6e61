//! Nodes that share a bucket of contents: what one of them has read, and what never counts.

use std::pin::Pin;
use std::time::Instant;

use bytes::Bytes;
use mountpoint_client::testing::sim::SimObject;
use tokio::runtime::Runtime;

use super::*;
use crate::cache::{Caches, SharedCache, SharedCacheParts, SharedCacheStats, StoreId};

/// Three extents: 8, 8 and 4 MiB.
const SIZE: u64 = 20 * MIB;
const EXTENTS: usize = 3;

/// The buckets, which outlive nodes.
struct Fleet {
    origin: Arc<SimClient>,
    shared: Arc<SimClient>,
}

/// A mount.
struct Node {
    runtime: Runtime,
    context: Arc<ReadContext>,
    cache: Arc<SharedCache>,
    clock: Clock,
}

impl Fleet {
    fn new() -> Self {
        Self::with(SimOptions::default())
    }

    fn with(shared: SimOptions) -> Self {
        Self {
            origin: Arc::new(SimClient::new(SimOptions::default())),
            shared: Arc::new(SimClient::new(shared)),
        }
    }

    fn node(&self) -> Node {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let clock = Clock::manual();
        let parts = SharedCacheParts {
            client: Arc::clone(&self.shared) as Arc<dyn ObjectClient>,
            prefix: String::new(),
            store: StoreId::default(),
            held_max: 64 * MIB,
            runtime: runtime.handle().clone(),
            seed: 1,
        };
        let cache = SharedCache::new(parts, clock.clone());
        let caches = Caches {
            disk: None,
            shared: Some(Arc::clone(&cache)),
        };
        let client = Arc::clone(&self.origin) as Arc<dyn ObjectClient>;
        let context = ReadContext::new(client, ReadConfig::default(), caches, clock.clone());
        Node {
            runtime,
            context,
            cache,
            clock,
        }
    }

    /// A node that has read all of an object, and stored it.
    fn filled(&self, key: &str) -> Node {
        let node = self.node();
        node.read_all(&self.put(key), SEED);
        node.wait_for(|stats| stats.stored == EXTENTS as u64);
        self.forget();
        node
    }

    fn put(&self, key: &str) -> SimObject {
        self.origin.put_pattern(key, SIZE, SEED)
    }

    /// Empties the logs of both buckets.
    fn forget(&self) {
        drop((self.origin.take_log(), self.shared.take_log()));
    }

    /// GETs of the origin since the logs were emptied.
    fn origin_gets(&self) -> usize {
        self.origin.take_log().count(Operation::GetObject)
    }

    /// Keys of the extents in the shared bucket.
    fn extents(&self) -> Vec<String> {
        let keys = self.shared.keys().into_iter();
        keys.filter(|key| key.contains("/v1/")).collect()
    }

    /// Changes each stored extent.
    fn change(&self, change: impl Fn(Vec<u8>) -> Vec<u8>) {
        for key in self.extents() {
            let object = self.shared.object(&key).unwrap();
            let bytes = Bytes::from(change(object.content.to_vec()));
            self.shared.put_object(&key, bytes);
        }
    }
}

impl Node {
    #[track_caller]
    fn read_all(&self, object: &SimObject, seed: u64) {
        let reader = self.open(object);
        for offset in (0..SIZE).step_by(1 << 20) {
            let data = self.runtime.block_on(reader.read(offset, 1 << 20)).unwrap();
            let expected = pattern_bytes(seed, offset..offset + MIB);
            assert!(data.to_vec() == expected, "wrong bytes at {offset}");
        }
    }

    fn open(&self, object: &SimObject) -> Reader {
        Reader::new(&self.context, object.key.clone(), object.etag.clone(), SIZE)
    }

    /// Waits for what other threads do. The bound is for a failed test.
    #[track_caller]
    #[expect(clippy::disallowed_methods, reason = "a bound for a failed test")]
    fn wait_for(&self, holds: impl Fn(&SharedCacheStats) -> bool) {
        let began = Instant::now();
        while !holds(&self.cache.stats()) {
            assert!(began.elapsed().as_secs() < 60, "{:?}", self.cache.stats());
            std::thread::yield_now();
        }
    }
}

#[test]
fn what_one_node_has_read_the_origin_sends_no_other() {
    let fleet = Fleet::new();
    let first = fleet.filled("a");
    assert_eq!(fleet.extents().len(), EXTENTS);
    assert_eq!(first.cache.stats().hits, 0);
    let object = fleet.origin.object("a").unwrap();
    let second = fleet.node();
    second.read_all(&object, SEED);
    assert_eq!(fleet.origin_gets(), 0);
    // A thread counts a piece when its reader may have gone on.
    second.wait_for(|stats| stats.hit_bytes == SIZE);
    first.read_all(&object, SEED);
    assert_eq!(fleet.origin_gets(), 0, "also the one that stored it");
}

#[test]
fn a_miss_costs_one_request_for_an_extent_however_it_is_read() {
    let fleet = Fleet::new();
    let node = fleet.node();
    node.read_all(&fleet.put("a"), SEED);
    let gets = fleet.shared.take_log().count(Operation::GetObject);
    assert!(gets <= EXTENTS, "{gets}");
}

#[test]
fn a_few_bytes_cost_a_few_chunks() {
    let fleet = Fleet::new();
    fleet.filled("a");
    let node = fleet.node();
    let reader = node.open(&fleet.origin.object("a").unwrap());
    for offset in [13 * MIB, 5 * MIB + 4096, 18 * MIB + 16384 - 2048] {
        let data = node.runtime.block_on(reader.read(offset, 4096)).unwrap();
        assert_bytes(&data, offset..offset + 4096);
    }
    assert_eq!(fleet.origin_gets(), 0);
    let log = fleet.shared.take_log();
    let bytes: u64 = log.records().iter().map(|record| record.bytes).sum();
    assert!(bytes <= 4 * (16384 + 24), "{bytes}");
}

#[test]
fn another_version_is_never_taken_for_the_one_that_is_open() {
    let fleet = Fleet::new();
    fleet.filled("a");
    let replaced = fleet.origin.put_pattern("a", SIZE, SEED + 1);
    let node = fleet.node();
    node.read_all(&replaced, SEED + 1);
    assert_eq!(node.cache.stats().hits, 0);
    node.wait_for(|stats| stats.stored == EXTENTS as u64);
    assert_eq!(fleet.extents().len(), 2 * EXTENTS);
}

/// The handling of changed extents by nodes.
#[track_caller]
fn check_changed(change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let fleet = Fleet::new();
    fleet.filled("a");
    fleet.change(change);
    let object = fleet.origin.object("a").unwrap();
    let node = fleet.node();
    node.read_all(&object, SEED);
    assert!(fleet.origin_gets() > 0);
    // Damaged extents are written anew.
    node.wait_for(|stats| stats.damaged > 0 && stats.stored == EXTENTS as u64);
    fleet.node().read_all(&object, SEED);
    assert_eq!(fleet.origin_gets(), 0);
}

#[test]
fn objects_that_are_not_what_their_name_says_are_misses() {
    let flip = |at: usize| {
        move |mut bytes: Vec<u8>| {
            bytes[at] ^= 1;
            bytes
        }
    };
    check_changed(flip(0));
    check_changed(flip(100_000));
    // The number of a newer format.
    check_changed(flip(16384 + 4));
    check_changed(|bytes| bytes[..bytes.len() - 1].to_vec());
    check_changed(|bytes| bytes[..bytes.len() / 2].to_vec());
    check_changed(|_| b"written by somebody else".to_vec());
    check_changed(|bytes| vec![0; bytes.len()]);
    check_changed(|bytes| [bytes, vec![0]].concat());
}

#[test]
fn an_object_in_the_place_of_another_is_a_miss() {
    let fleet = Fleet::new();
    fleet.filled("a");
    let names = fleet.extents();
    let [large, other, ..] = &names[..] else {
        panic!("{names:?}");
    };
    let bytes = fleet.shared.object(other).unwrap().content.to_vec();
    fleet.shared.put_object(large, bytes);
    let node = fleet.node();
    node.read_all(&fleet.origin.object("a").unwrap(), SEED);
    assert!(fleet.origin_gets() > 0);
}

#[test]
fn a_bucket_that_fails_costs_three_requests_and_no_read() {
    let fleet = Fleet::new();
    for kind in [
        ErrorKind::Throttled,
        ErrorKind::Transient,
        ErrorKind::Denied,
    ] {
        fleet.shared.add_fault(FaultRule {
            operation: None,
            when: When::From(1),
            fault: Fault::Fail(kind),
        });
        let node = fleet.node();
        for name in ["a", "b", "c"] {
            node.read_all(&fleet.put(name), SEED);
        }
        let requests = fleet.shared.take_log().records().len();
        assert!((3..=6).contains(&requests), "{requests}");
        fleet.shared.clear_faults();
        node.clock.advance(Duration::from_secs(11));
        node.read_all(&fleet.put("d"), SEED);
        node.wait_for(|stats| stats.stored == EXTENTS as u64);
        let keys = fleet.extents();
        keys.iter()
            .for_each(|key| assert!(fleet.shared.remove(key)));
        fleet.forget();
    }
}

#[test]
fn bytes_that_came_before_a_failure_count() {
    let fleet = Fleet::new();
    fleet.filled("a");
    fleet.shared.add_fault(FaultRule {
        operation: Some(Operation::GetObject),
        when: When::Every(2),
        fault: Fault::StopAfter(200_000),
    });
    let node = fleet.node();
    node.read_all(&fleet.origin.object("a").unwrap(), SEED);
    assert!(node.context.stats().bytes_requested < SIZE);
}

/// Buckets of which the shared one answers GETs by hand.
fn fleet_with_gets_by_hand() -> Fleet {
    Fleet::with(SimOptions {
        time: Time::ManualGets,
        ..SimOptions::default()
    })
}

/// A read of the first bytes, for which the shared bucket has been asked.
fn begin_read<'a>(
    fleet: &Fleet,
    reader: &'a Reader,
) -> Pin<Box<dyn Future<Output = Result<ReadData, FsError>> + 'a>> {
    let mut read = Box::pin(reader.read(0, 4096));
    assert!(poll(&mut read).is_pending());
    while fleet.shared.pending_gets().is_empty() {
        std::thread::yield_now();
    }
    read
}

fn poll<T>(read: &mut Pin<Box<T>>) -> Poll<T::Output>
where
    T: Future + ?Sized,
{
    read.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_bucket_that_is_late_does_not_hold_a_reader() {
    let fleet = fleet_with_gets_by_hand();
    let object = fleet.put("a");
    let node = fleet.node();
    let reader = node.open(&object);
    let mut read = begin_read(&fleet, &reader);
    let look = || node.context.resources.fetcher.look_at_due();
    node.clock.advance(Duration::from_millis(900));
    assert!(look());
    assert!(poll(&mut read).is_pending());
    assert_eq!(fleet.origin_gets(), 0);
    node.clock.advance(Duration::from_millis(200));
    look();
    let Poll::Ready(data) = poll(&mut read) else {
        panic!("still waiting");
    };
    assert_bytes(&data.unwrap(), 0..4096);
    assert_eq!(fleet.origin_gets(), 1);
    assert_eq!(node.cache.stats().late, 1);
    // Its answer comes at last, and changes nothing.
    for get in fleet.shared.pending_gets() {
        fleet.shared.finish(get.id);
    }
    assert_eq!(fleet.origin_gets(), 0);
}

#[test]
fn a_replaced_object_is_stale_also_where_the_shared_bucket_was_late() {
    let fleet = fleet_with_gets_by_hand();
    let object = fleet.put("a");
    let node = fleet.node();
    let reader = node.open(&object);
    let mut read = begin_read(&fleet, &reader);
    fleet.origin.put_pattern("a", SIZE, SEED + 1);
    node.clock.advance(Duration::from_millis(1100));
    node.context.resources.fetcher.look_at_due();
    assert!(
        poll(&mut read).is_pending(),
        "the shared bucket may have it"
    );
    for get in fleet.shared.pending_gets() {
        fleet.shared.finish(get.id);
    }
    let error = node.runtime.block_on(read).unwrap_err();
    assert!(matches!(error, FsError::Stale(_)), "{error:?}");
}

/// Each object comes a little way at once, and then too slowly.
#[test]
fn a_bucket_that_sends_too_slowly_is_left_alone() {
    let filled = Fleet::new();
    filled.filled("a");
    let slow = Fleet {
        origin: Arc::clone(&filled.origin),
        shared: fleet_with_gets_by_hand().shared,
    };
    for key in filled.extents() {
        slow.shared.insert(filled.shared.object(&key).unwrap());
    }
    let object = filled.origin.object("a").unwrap();
    let node = slow.node();
    for _ in 0..3 {
        let reader = node.open(&object);
        let mut read = Box::pin(reader.read(13 * MIB, 64 << 10));
        assert!(poll(&mut read).is_pending());
        while slow.shared.pending_gets().is_empty() {
            std::thread::yield_now();
        }
        let pending = slow.shared.pending_gets();
        for get in &pending {
            assert!(slow.shared.deliver(get.id, 20_000));
        }
        node.clock.advance(Duration::from_millis(1100));
        node.context.resources.fetcher.look_at_due();
        let data = node.runtime.block_on(read).unwrap();
        assert_bytes(&data, 13 * MIB..13 * MIB + (64 << 10));
        let hits = node.cache.stats().hits;
        for get in &pending {
            assert!(slow.shared.finish(get.id));
        }
        node.wait_for(|stats| stats.hits == hits + pending.len() as u64);
    }
    assert_eq!(node.cache.stats().late, 3);
    let reader = node.open(&object);
    let data = node.runtime.block_on(reader.read(13 * MIB, 4096)).unwrap();
    assert_bytes(&data, 13 * MIB..13 * MIB + 4096);
    assert!(slow.shared.pending_gets().is_empty());
}

#[test]
fn a_bucket_that_stores_nothing_is_read_all_the_same() {
    let fleet = Fleet::new();
    fleet.filled("a");
    fleet.shared.add_fault(FaultRule {
        operation: Some(Operation::PutObject),
        when: When::From(1),
        fault: Fault::Fail(ErrorKind::Denied),
    });
    let node = fleet.node();
    for name in ["other/b", "other/c", "other/d"] {
        node.read_all(&fleet.put(name), SEED);
    }
    node.wait_for(|stats| stats.errors >= 3);
    fleet.forget();
    node.read_all(&fleet.origin.object("a").unwrap(), SEED);
    assert_eq!(fleet.origin_gets(), 0);
}

#[test]
fn random_reads_store_nothing_and_hold_little() {
    let fleet = Fleet::new();
    let node = fleet.node();
    let object = fleet.put("a");
    let reader = node.open(&object);
    for number in 0..200 {
        let offset = (number * 7919 % 1200) * 16384 + 8192;
        let data = node.runtime.block_on(reader.read(offset, 4096)).unwrap();
        assert_bytes(&data, offset..offset + 4096);
    }
    assert!(fleet.extents().is_empty());
    let gets = fleet.shared.take_log().count(Operation::GetObject);
    assert!(gets <= EXTENTS, "{gets}");
}
