//! What reads cost the allocator (writes: `benchmark/src/allocations.rs`). In a program of its own:
//! the counter is the program's allocator.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use futures::FutureExt as _;
use mountpoint_client::testing::sim::{SimClient, SimOptions};
use mountpoint_fs::cache::Caches;
use mountpoint_fs::clock::Clock;
use mountpoint_fs::config::ReadConfig;
use mountpoint_fs::read::{ReadContext, Reader};

const SIZE: u64 = 64 << 20;
const READ: u32 = 128 << 10;

/// Allocations of each read of a whole file, front to back, and whether a GET was sent for it.
fn reads_of_a_stream() -> Vec<(u64, bool)> {
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let object = client.put_pattern("file", SIZE, 1);
    let context = ReadContext::new(
        client,
        ReadConfig::default(),
        Caches::default(),
        Clock::manual(),
    );
    let reader = Reader::new(&context, object.key, object.etag, SIZE);
    let mut reads = Vec::new();
    for offset in (0..SIZE).step_by(READ as usize) {
        let gets = context.stats().gets;
        let counted = allocation_counter::measure(|| {
            let data = reader.read(offset, READ).now_or_never().unwrap().unwrap();
            assert_eq!(data.len(), READ as usize);
        });
        reads.push((counted.count_total, context.stats().gets > gets));
    }
    reads
}

#[test]
fn a_read_that_sends_nothing_allocates_nothing() {
    let reads = reads_of_a_stream();
    let (sending, served): (Vec<_>, Vec<_>) = reads.into_iter().partition(|(_, sends)| *sends);
    assert!(sending.len() > 10, "the counter counts: {sending:?}");
    assert!(sending.iter().all(|(count, _)| *count > 0));
    assert!(
        served.len() > 200,
        "most reads find their bytes: {}",
        served.len()
    );
    // Room for what is kept of a stream is taken now and then, while it grows.
    let allocating = served.iter().filter(|(count, _)| *count > 0).count();
    assert!(allocating <= served.len() / 50, "{served:?}");
}
