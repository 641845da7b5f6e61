//! Many small files, read by many workers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, synthetic_bytes};

use mountpoint_fs::config::limits::READER_IDLE;
use mountpoint_fs::read::SIBLINGS_AHEAD_MAX;

use crate::harness::{BUCKET, Mounted, read, release_when_in_flight, server, wait_until};

/// One worker lists a directory and reads its files in order, as usual.
#[test]
fn files_that_are_read_in_order_are_fetched_before_they_are_opened() {
    let server = server();
    for number in 0..FILES {
        let key = format!("images/image{number:04}");
        server.store().put_synthetic(BUCKET, &key, SIZE, 5);
    }
    let expected = synthetic_bytes(5, 0..SIZE);
    let mounted = Mounted::unhedged(&server, &["--metadata-ttl", "3600"]);
    let mut paths: Vec<_> = std::fs::read_dir(mounted.join("images"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    let check = |path: &PathBuf| {
        assert!(read(path) == expected, "wrong bytes in {}", path.display());
    };
    let start = Instant::now();
    let (first, rest) = paths.split_at(FILES / 2);
    first.iter().for_each(check);
    // By now the mount has recognised the order.
    let ahead = first.len() + SIBLINGS_AHEAD_MAX;
    wait_until("the next files", || {
        let mut keys = answered(&server);
        keys.dedup();
        keys.len() >= ahead
    });
    check_gets(&server, ahead, start);
    rest.iter().for_each(check);
    check_gets(&server, FILES, start);
}

const FILES: usize = 500;
const SIZE: u64 = 100 << 10;
const WORKERS: usize = 16;

/// The keys of GETs with a complete answer, sorted.
fn answered(server: &Server) -> Vec<String> {
    let gets = server.log().snapshot().into_iter();
    let answered = gets.filter(|get| get.operation == Operation::GetObject && get.complete);
    let mut keys: Vec<_> = answered.map(|get| get.key).collect();
    keys.sort_unstable();
    keys
}

/// Checks that each of so many files took one GET.
///
/// GETs that were given up because they were held for long do not count. On a very slow machine a
/// fetched file is released before its read, and fetched again.
#[track_caller]
fn check_gets(server: &Server, files: usize, start: Instant) {
    let mut keys = answered(server);
    let is_in_time = start.elapsed() < READER_IDLE;
    let most = if is_in_time { files } else { 2 * files };
    assert!(keys.len() <= most, "{} GETs for {files} files", keys.len());
    keys.dedup();
    assert_eq!(keys.len(), files, "each");
}

#[test]
fn each_small_file_is_one_get_and_each_worker_has_one_in_flight() {
    let server = server();
    for number in 0..FILES {
        let key = format!("class{}/image{number:04}", number % 10);
        server.store().put_synthetic(BUCKET, &key, SIZE, 5);
    }
    let expected = synthetic_bytes(5, 0..SIZE);
    let mounted = Mounted::unhedged(&server, &[]);
    let rule = server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::Hold));
    let (next, start) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= FILES {
                        return;
                    }
                    let path = format!("class{}/image{number:04}", number % 10);
                    assert!(
                        read(&mounted.join(&path)) == expected,
                        "wrong bytes in {path}"
                    );
                }
            });
        }
        release_when_in_flight(&server, Operation::GetObject, rule, WORKERS as u64);
    });
    check_gets(&server, FILES, start);
}
