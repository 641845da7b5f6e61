//! How far ahead of a reader the disk is asked, and by which latencies a stream is planned.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use mountpoint_client::ObjectClient;
use mountpoint_client::testing::sim::{SimClient, SimOptions, Time, pattern_bytes};
use mountpoint_client::types::{ETag, Key};
use mountpoint_crt_sys::block::BlockPool;

use super::OpenObject;
use super::read_start::{DISK_WINDOW_MAX, bounds};
use crate::cache::{Cache, Caches, SharedCache, SharedCacheParts, StoreId};
use crate::clock::Clock;
use crate::config::limits::PART_MIN;
use crate::config::{CacheConfig, ReadConfig};
use crate::operation::Slices;
use crate::read::object_version::ObjectVersion;
use crate::read::{ReadContext, Reader};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 24 * MIB;
/// Bytes that the disk has.
const STORED: u64 = 16 * MIB;
const STORE_TIME_MAX: Duration = Duration::from_secs(60);

fn cache_in(folder: &Path, clock: &Clock) -> Arc<Cache> {
    let config = CacheConfig {
        directory: folder.to_owned(),
        // By default the free space of the disk decides.
        bytes_max: Some(1 << 30),
        key: None,
        clear_at_exit: false,
    };
    let store = StoreId::default();
    Cache::open(&config, store, 1 << 30, &|_| false, clock.clone()).unwrap()
}

/// The fill thread stores what was asked ahead before it is read.
#[test]
fn the_disk_bounds_no_stream_by_what_was_asked_ahead() {
    const SIZE: u64 = 256 * MIB;
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual();
    let cache = cache_in(folder.path(), &clock);
    let client = Arc::new(SimClient::new(SimOptions {
        time: Time::Manual,
        ..SimOptions::default()
    }));
    let object = client.put_pattern("key", SIZE, 1);
    let caches = Caches {
        disk: Some(Arc::clone(&cache)),
        shared: None,
    };
    let context = ReadContext::new(
        Arc::clone(&client) as Arc<dyn ObjectClient>,
        ReadConfig::default(),
        caches,
        clock.clone(),
    );
    let reader = Reader::new(&context, object.key, object.etag, SIZE);
    let mut most_asked = 0;
    for offset in (0..SIZE).step_by(1 << 20) {
        let mut read = Box::pin(reader.read(offset, 1 << 20));
        while read.as_mut().now_or_never().is_none() {
            let asked = client.pending_gets();
            let bytes = asked.iter().map(|get| get.range.end - get.range.start);
            most_asked = most_asked.max(bytes.sum::<u64>());
            clock.advance(Duration::from_millis(20));
            for get in asked {
                client.finish(get.id);
            }
            cache.drain(STORE_TIME_MAX);
        }
    }
    // A busy disk holds memory, which others do not get.
    assert!(most_asked > 3 * DISK_WINDOW_MAX, "{most_asked}");
}

#[test]
fn a_stream_has_a_small_window_where_the_disk_has_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let clock = Clock::manual();
    let cache = cache_in(folder.path(), &clock);
    let version = ObjectVersion {
        key: Key::parse("key").unwrap(),
        etag: ETag::from_header("\"1\""),
        size: SIZE,
    };
    let mut fill = BlockPool::new(0).allocate(usize::try_from(STORED).unwrap());
    fill.append(&pattern_bytes(1, 0..STORED));
    let slices: Slices = [(fill.block(), 0..fill.filled())].into_iter().collect();
    let cached = cache.object(&version.key, &version.etag, SIZE);
    // A disk that is busy keeps nothing for a while.
    let time = Clock::monotonic();
    let begun = time.now();
    while !cached.has(&(0..STORED)) && time.now() - begun < STORE_TIME_MAX {
        cached.store(&(0..STORED), slices.clone());
        cache.drain(STORE_TIME_MAX);
    }
    assert!(cached.has(&(0..STORED)));

    let caches = Caches {
        disk: Some(cache),
        shared: None,
    };
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let context = ReadContext::new(client, ReadConfig::default(), caches, clock);
    let window_max = ReadConfig::default().window_max;
    let object = OpenObject::new(Arc::clone(&context.resources), version.clone(), None);
    let window_at = |at: u64| bounds(&object.gets, || at).window_max;
    assert_eq!(window_at(0), DISK_WINDOW_MAX);
    assert_eq!(window_at(STORED - DISK_WINDOW_MAX), DISK_WINDOW_MAX);
    assert_eq!(window_at(STORED - DISK_WINDOW_MAX + 1), window_max);
    assert_eq!(window_at(STORED), window_max);
    assert_eq!(window_at(SIZE), window_max, "nothing is left to read");

    let other = ObjectVersion {
        etag: ETag::from_header("\"2\""),
        ..version
    };
    let other = OpenObject::new(Arc::clone(&context.resources), other, None);
    assert_eq!(
        bounds(&other.gets, || 0).window_max,
        window_max,
        "not on the disk"
    );
}

#[test]
fn a_stream_has_the_latencies_of_the_bucket_that_serves_it() {
    let clock = Clock::manual();
    let sim = || Arc::new(SimClient::new(SimOptions::default()));
    let (store, shared) = (sim(), sim());
    let object = store.put_pattern("key", SIZE, 1);
    let version = ObjectVersion {
        key: object.key,
        etag: object.etag,
        size: SIZE,
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for has_been_read in [false, true] {
        let parts = SharedCacheParts {
            client: Arc::clone(&shared) as Arc<dyn ObjectClient>,
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
        let client = Arc::clone(&store) as Arc<dyn ObjectClient>;
        let context = ReadContext::new(client, ReadConfig::default(), caches, clock.clone());
        let object = OpenObject::new(Arc::clone(&context.resources), version.clone(), None);
        let reader = Reader::join(&object).unwrap();
        for offset in (0..SIZE).step_by(1 << 20) {
            runtime.block_on(reader.read(offset, 1 << 20)).unwrap();
        }
        runtime.block_on(cache.drained(STORE_TIME_MAX));
        let metrics = context.resources.fetcher.metrics();
        let (serves, idle) = match has_been_read {
            false => (&metrics.min_latencies, &metrics.shared_latencies),
            true => (&metrics.shared_latencies, &metrics.min_latencies),
        };
        assert!(std::ptr::eq(
            bounds(&object.gets, || 0).min_latencies,
            serves
        ));
        let now = clock.now();
        assert!(serves.first_byte(now).is_some() && idle.first_byte(now).is_none());
        // Its GETs have some of these lengths.
        let lengths = [PART_MIN, MIB, 2 * MIB, 4 * MIB, 8 * MIB];
        assert!(lengths.iter().any(|len| serves.of(*len, now).is_some()));
    }
}
