//! What reads and writes cost the allocator. In a program of its own: the counter is the program's allocator.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ffi::OsStr;
use std::sync::Arc;

use futures::FutureExt as _;
use mountpoint_client::sim::{SimClient, SimOptions};
use mountpoint_fs::clock::Clock;
use mountpoint_fs::config::{FsConfig, NamesConfig, ReadConfig, WriteConfig};
use mountpoint_fs::fs::FileSystem;
use mountpoint_fs::handle::Opener;
use mountpoint_fs::operation::{InodeNo, WriteOptions};
use mountpoint_fs::read::{ReadContext, Reader};

const SIZE: u64 = 64 << 20;
const READ: u32 = 128 << 10;

/// Allocations of each read of a whole file, front to back, and whether a GET was sent for it.
fn reads_of_a_stream() -> Vec<(u64, bool)> {
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let object = client.put_pattern("file", SIZE, 1);
    let context = ReadContext::new(client, ReadConfig::default(), Clock::manual());
    let reader = Reader::new(Arc::clone(&context), object.key, object.etag, SIZE);
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

/// A file of 1 KiB, from its making to its last close, the simulated store's own allocations included.
#[test]
fn a_small_file_that_is_written_allocates_little() {
    let client = Arc::new(SimClient::new(SimOptions::default()));
    let config = FsConfig {
        prefix: String::new(),
        uid: 0,
        gid: 0,
        dir_mode: 0o755,
        file_mode: 0o644,
        names: NamesConfig::default(),
        read: ReadConfig::default(),
        write: WriteConfig::default(),
    };
    let fs = FileSystem::new(Arc::clone(&client) as _, config, Clock::manual());
    let write = |name: &str| {
        let options = WriteOptions::default();
        let created = fs.create(InodeNo::ROOT, OsStr::new(name), options, Opener::UNSEEN);
        let (_, opened) = created.unwrap();
        let written = fs.write_now(opened.handle, 0, &[7; 1024]);
        written.unwrap().unwrap();
        let stored = fs.sync(opened.handle).now_or_never();
        stored.unwrap().unwrap();
        fs.release(opened.handle);
    };
    write("tables take their first room");
    let counted = allocation_counter::measure(|| write("counted"));
    assert!(counted.bytes_total > 1024, "the counter counts");
    assert!(
        counted.bytes_total <= 20_000,
        "{} bytes",
        counted.bytes_total
    );
    assert_eq!(client.keys().len(), 2);
}
