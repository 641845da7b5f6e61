//! The causes of waits, with a server that makes each.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule};

use super::{ask, sum};
use crate::harness::{BUCKET, Mounted, read, release_when_in_flight, server, wait_until};

const MIB: u64 = 1 << 20;

/// The time by causes that reads have waited, in microseconds, after one file of 64 KiB was read
/// from a server with this fault; and the line of the log.
fn waits_of_a_read(fault: Rule) -> (impl Fn(&str) -> u64, String) {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", MIB / 16, 1);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listen = ["--metrics-listen", socket.to_str().unwrap()];
    let mounted = Mounted::unhedged(
        &server,
        &[&listen[..], &["--log-slow", "0.000001"]].concat(),
    );
    std::fs::metadata(mounted.join("file")).unwrap();
    server.faults().add(fault);
    assert_eq!(read(&mounted.join("file")).len() as u64, MIB / 16);
    // A read that does not wait is in the log as well.
    let waited = || {
        let log = mounted.log();
        let mut reads = log.lines().filter(|line| line.contains("request=\"read\""));
        reads
            .find(|line| line.contains("; waited for: "))
            .map(str::to_owned)
    };
    wait_until("the log line", || waited().is_some());
    let line = waited().unwrap();
    let text = ask(UnixStream::connect(&socket).unwrap());
    let waits = move |cause: &str| {
        let labels = format!("cause=\"{cause}\",");
        // Labels are in the order in which they were given.
        let either = sum(&text, "fuse_wait_time_microseconds_total", &labels);
        let last = format!("cause=\"{cause}\"}}");
        either + sum(&text, "fuse_wait_time_microseconds_total", &last)
    };
    (waits, line)
}

#[test]
fn a_far_server_is_waited_for_by_its_first_byte() {
    let far = Duration::from_millis(400);
    let latency = Fault::Latency {
        fixed: far,
        jitter: Duration::ZERO,
    };
    let (waits, line) = waits_of_a_read(Rule::on(Operation::GetObject, latency));
    assert!(waits("first_byte") >= 300_000, "{}", waits("first_byte"));
    assert_eq!(
        (waits("throttling"), waits("retry"), waits("memory")),
        (0, 0, 0)
    );
    assert!(line.contains("waited for: first_byte "), "{line}");
}

#[test]
fn a_throttled_server_is_waited_for_by_throttling() {
    let slow_down = Rule::on(Operation::GetObject, Fault::SlowDown).times(3);
    let (waits, _) = waits_of_a_read(slow_down);
    assert!(waits("throttling") > 0);
    assert_eq!(waits("retry"), 0);
}

#[test]
fn a_failing_server_is_waited_for_by_retries() {
    let code = "InternalError";
    let error = Fault::Error { status: 500, code };
    let (waits, _) = waits_of_a_read(Rule::on(Operation::GetObject, error).times(2));
    assert!(waits("retry") > 0);
    assert_eq!(waits("throttling"), 0);
}

/// Reads that together need more than twice the memory.
const READS: u64 = 1300;

/// All memory is taken by reads that are held at the server; another one waits for it.
#[test]
fn little_memory_is_waited_for_by_memory() {
    let server = server();
    server
        .store()
        .put_synthetic(BUCKET, "file", 3 * READS * MIB, 1);
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("socket");
    let listen = ["--metrics-listen", socket.to_str().unwrap()];
    let small = [
        "--memory-target",
        "512",
        "--read-mode",
        "direct",
        "--max-threads",
        "16",
    ];
    let mounted = Mounted::unhedged(&server, &[&listen[..], &small[..]].concat());
    let file = std::fs::File::open(mounted.join("file")).unwrap();
    let hold = server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::Hold));
    let waiting = || {
        sum(
            &ask(UnixStream::connect(&socket).unwrap()),
            "fuse_requests_waiting",
            "",
        )
    };
    thread::scope(|scope| {
        // Each asks for 1 MiB of its own: most of them find no memory.
        for number in 0..READS {
            let file = &file;
            scope.spawn(move || {
                use std::os::unix::fs::FileExt as _;
                let mut bytes = vec![0; 1 << 20];
                file.read_exact_at(&mut bytes, number * 3 * MIB).unwrap();
            });
        }
        wait_until("all reads", || waiting() == READS);
        release_when_in_flight(&server, Operation::GetObject, hold, 1);
    });
    let text = ask(UnixStream::connect(&socket).unwrap());
    assert!(
        sum(
            &text,
            "mem_reserve_latency_microseconds_count",
            "area=\"read\""
        ) > 0,
        "{text}"
    );
    assert!(
        sum(
            &text,
            "fuse_wait_time_microseconds_total",
            "cause=\"memory\""
        ) > 0,
        "{text}"
    );
}
