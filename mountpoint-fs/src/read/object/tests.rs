//! How far ahead of a reader the disk is asked.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::testing::sim::{SimClient, SimOptions, pattern_bytes};
use mountpoint_client::types::{ETag, Key};
use mountpoint_crt_sys::block::BlockPool;

use super::OpenObject;
use super::read_start::{DISK_WINDOW_MAX, bounds};
use crate::cache::{Cache, Caches, StoreId};
use crate::clock::Clock;
use crate::config::{CacheConfig, ReadConfig};
use crate::operation::Slices;
use crate::read::ReadContext;
use crate::read::object_version::ObjectVersion;

const MIB: u64 = 1 << 20;
const SIZE: u64 = 24 * MIB;
/// Bytes that the disk has.
const STORED: u64 = 16 * MIB;
const STORE_TIME_MAX: Duration = Duration::from_secs(60);

#[test]
fn a_stream_has_a_small_window_where_the_disk_has_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let config = CacheConfig {
        directory: folder.path().to_owned(),
        bytes_max: None,
        key: None,
        clear_at_exit: false,
    };
    let clock = Clock::manual();
    let memory_max = 1 << 30;
    let cache = Cache::open(
        &config,
        StoreId::default(),
        memory_max,
        &|_| false,
        clock.clone(),
    );
    let cache = cache.unwrap();
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
    let window_at = |at: u64| bounds(&object.gets, at).window_max;
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
        bounds(&other.gets, 0).window_max,
        window_max,
        "not on the disk"
    );
}
