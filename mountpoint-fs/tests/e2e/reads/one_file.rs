//! Several processes and threads that read one file share the fetched bytes.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Barrier;
use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, SyntheticChecker};

use crate::harness::{BUCKET, Mounted, server, shell};

const MIB: u64 = 1 << 20;
const SIZE: u64 = 64 * MIB;
const SEED: u64 = 6;
const READERS: usize = 8;

/// A server with one large file and a delay before each answer.
fn with_file() -> Server {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", SIZE, SEED);
    server.faults().add(Rule::always(Fault::Latency {
        fixed: Duration::from_millis(5),
        jitter: Duration::ZERO,
    }));
    server
}

/// Checks that all [`READERS`] fetched the file once between them.
///
/// A reader that a busy machine has stopped may find some blocks gone.
#[track_caller]
fn assert_fetched_once(server: &Server) {
    let get = server.log().counters(Operation::GetObject);
    let range = SIZE..=SIZE + SIZE / 2;
    assert!(range.contains(&get.bytes_sent), "{get:?}");
}

/// Reads the whole file, and compares.
fn read_all(path: &Path) {
    let mut file = File::open(path).unwrap();
    let mut checker = SyntheticChecker::new(SEED, 0);
    let mut buffer = vec![0; 256 << 10];
    let mut total = 0;
    loop {
        let count = file.read(&mut buffer).unwrap();
        if count == 0 {
            break;
        }
        checker.check(&buffer[..count]).unwrap();
        total += count as u64;
    }
    assert_eq!(total, SIZE);
}

#[test]
fn processes_that_read_a_file_together_fetch_it_once() {
    let server = with_file();
    let mounted = Mounted::unhedged(&server, &[]);
    let script = format!("for n in $(seq {READERS}); do md5sum file & done; wait");
    let sums = shell(mounted.path(), &script);
    let sums: Vec<_> = sums.lines().collect();
    assert_eq!(sums.len(), READERS);
    assert!(sums.iter().all(|sum| *sum == sums[0]), "{sums:?}");
    assert_fetched_once(&server);
    read_all(&mounted.join("file"));
}

/// Without the page cache, which readers would share otherwise.
#[test]
fn readers_with_direct_replies_fetch_a_file_once_between_them() {
    let server = with_file();
    let mounted = Mounted::unhedged(&server, &["--read-mode", "direct"]);
    let file = mounted.join("file");
    let open = Barrier::new(READERS);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                // All are open before the first read: a late reader finds the first bytes.
                let held = File::open(&file).unwrap();
                open.wait();
                read_all(&file);
                drop(held);
            });
        }
    });
    assert_fetched_once(&server);
}

/// One reader stops after the first bytes, another is killed before it reads.
#[test]
fn who_stops_or_is_killed_hinders_nobody() {
    let server = with_file();
    let mounted = Mounted::unhedged(&server, &["--read-mode", "direct"]);
    let script = "dd if=file bs=256k count=40 status=none | md5sum > /dev/null &
        sleep 600 < file & killed=$!
        md5sum file & md5sum file & kill $killed
        wait $killed || true; wait";
    let sums = shell(mounted.path(), script);
    let sums: Vec<_> = sums.lines().collect();
    assert_eq!((sums.len(), sums[0]), (2, sums[1]));
    read_all(&mounted.join("file"));
    // Readers far apart share nothing, but no reader causes a second GET of its own bytes: neither
    // the one that stops, nor the two checksums, nor the last one.
    let get = server.log().counters(Operation::GetObject);
    assert!((SIZE..=4 * SIZE).contains(&get.bytes_sent), "{get:?}");
}
