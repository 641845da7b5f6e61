//! Many small files, read by many workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::server::{Fault, Operation, Rule, synthetic_bytes};

use crate::harness::{BUCKET, Mounted, read, server};

/// One worker that lists a directory and reads its files in order, as most programs do.
#[test]
fn files_that_are_read_in_order_are_fetched_before_they_are_opened() {
    let server = server();
    for number in 0..FILES {
        let key = format!("images/image{number:04}");
        server.store().put_synthetic(BUCKET, &key, SIZE, 5);
    }
    let expected = synthetic_bytes(5, 0..SIZE);
    let mounted = Mounted::new(&server, &["--metadata-ttl", "60"]);
    let (fixed, jitter) = (Duration::from_millis(50), Duration::ZERO);
    let delay = Fault::Latency { fixed, jitter };
    server.faults().add(Rule::on(Operation::GetObject, delay));
    let mut paths: Vec<_> = std::fs::read_dir(mounted.join("images"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    for path in &paths {
        assert!(read(path) == expected, "wrong bytes in {}", path.display());
    }
    let gets = server.log().counters(Operation::GetObject);
    let most = (FILES + FILES / 50) as u64;
    assert!((FILES as u64..=most).contains(&gets.requests), "{gets:?}");
    // One after the other, it would be one.
    assert!(gets.in_flight_max >= 32, "{gets:?}");
}

const FILES: usize = 500;
const SIZE: u64 = 100 << 10;
const WORKERS: usize = 16;

#[test]
fn each_small_file_is_one_get_and_each_worker_has_one_in_flight() {
    let server = server();
    for number in 0..FILES {
        let key = format!("class{}/image{number:04}", number % 10);
        server.store().put_synthetic(BUCKET, &key, SIZE, 5);
    }
    let expected = synthetic_bytes(5, 0..SIZE);
    let mounted = Mounted::new(&server, &[]);
    // So long that every worker has sent its own before the first is answered.
    let (fixed, jitter) = (Duration::from_millis(50), Duration::ZERO);
    let delay = Fault::Latency { fixed, jitter };
    server.faults().add(Rule::on(Operation::GetObject, delay));
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
    });
    let gets = server.log().counters(Operation::GetObject);
    // A second GET for one that a busy machine made late is no second GET for each.
    let most = (FILES + FILES / 50) as u64;
    assert!((FILES as u64..=most).contains(&gets.requests), "{gets:?}");
    assert!(gets.in_flight_max >= WORKERS as u64 * 3 / 4, "{gets:?}");
}
