//! Many small files, read by many workers.

use std::sync::atomic::{AtomicUsize, Ordering};

use mountpoint_client::server::{Fault, Operation, Rule, Server, synthetic_bytes};

use crate::harness::{BUCKET, Mounted, read, release_when_in_flight, server};

/// One worker that lists a directory and reads its files in order, as most programs do.
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
    // By the first ones the mount sees that they are read in order.
    let rule = server.faults().add(Rule {
        skip: FILES as u64 / 2,
        ..Rule::on(Operation::GetObject, Fault::Hold)
    });
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for path in &paths {
                assert!(read(path) == expected, "wrong bytes in {}", path.display());
            }
        });
        // One after the other, it would be one.
        release_when_in_flight(&server, Operation::GetObject, rule, 32);
    });
    check_one_get_each(&server);
}

const FILES: usize = 500;
const SIZE: u64 = 100 << 10;
const WORKERS: usize = 16;

/// One GET for each file, but for those that were given up because they were held for so long.
#[track_caller]
fn check_one_get_each(server: &Server) {
    let gets = server.log().snapshot();
    let answered = gets
        .iter()
        .filter(|get| get.operation == Operation::GetObject && get.complete);
    let mut keys: Vec<_> = answered.map(|get| &get.key).collect();
    assert_eq!(keys.len(), FILES);
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), FILES, "one for each");
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
    let next = AtomicUsize::new(0);
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
    check_one_get_each(&server);
}
