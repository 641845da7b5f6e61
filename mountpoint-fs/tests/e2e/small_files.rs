//! Many small files, read by many workers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use mountpoint_client::server::{Fault, Operation, Rule, synthetic_bytes};

use crate::harness::{BUCKET, Mounted, read, server};

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
