//! The causes of waits, with a server that makes each.

use std::os::unix::net::UnixStream;
use std::thread;
use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server};

use super::stats::{document, number, stats};
use super::{ask, sum};
use crate::harness::{BUCKET, Mounted, read, release_when_in_flight, server, wait_until};

const MIB: u64 = 1 << 20;

/// Names stay known: an `open` waits for nothing, however late it comes.
const KNOWN: [&str; 2] = ["--metadata-ttl", "60"];

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
        &[&listen[..], &["--log-slow", "0.000001"], &KNOWN].concat(),
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

/// The cause that `mount-s3 stats` names, and the first line below it, the longest wait.
fn verdict(mounted: &Mounted) -> (String, String) {
    let output = stats(mounted.path(), &["--once"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text
        .lines()
        .skip_while(|line| !line.starts_with("waits for"));
    let word = |line: Option<&str>, number: usize| {
        let word = line.and_then(|line| line.split_whitespace().nth(number));
        word.unwrap_or_default().trim_end_matches(':').to_owned()
    };
    let verdict = word(lines.next(), 2);
    // The longest wait is below the head of the table.
    (verdict, word(lines.nth(1), 0))
}

/// A server that takes requests and never answers, with a program that reads, one that writes, and
/// one that looks for a name.
#[test]
fn stats_name_what_hangs() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", MIB / 16, 1);
    let mounted = Mounted::unhedged(&server, &KNOWN);
    std::fs::metadata(mounted.join("file")).unwrap();
    let hold = |operation| server.faults().add(Rule::on(operation, Fault::Hold));
    let mut held = vec![hold(Operation::GetObject)];
    let at = |name: &'static str| {
        let document = document(mounted.path());
        move |cause: &str| number(&document, name, cause)
    };
    let waits_long = |cause: &str| at("fuse.oldest_wait")(cause) >= 1e6;
    thread::scope(|scope| {
        scope.spawn(|| read(&mounted.join("file")));
        wait_until("the wait of the read", || waits_long("first_byte"));
        // Nothing has ended, and nothing else waits.
        let expected = ("first_byte".to_owned(), "first_byte".to_owned());
        assert_eq!(verdict(&mounted), expected);
        let (now, before) = (at("fuse.waits_in_progress"), at("fuse.wait_time"));
        assert_eq!(
            (now("first_byte"), now("change"), now("names")),
            (1.0, 0.0, 0.0)
        );
        assert!(before("first_byte") >= 900_000.0);
        // The time goes on to count while the read waits.
        wait_until("more of it", || {
            at("fuse.wait_time")("first_byte") > before("first_byte")
        });
        held.push(hold(Operation::PutObject));
        scope.spawn(|| std::fs::write(mounted.join("new"), "content").unwrap());
        wait_until("the wait of the write", || waits_long("change"));
        held.push(hold(Operation::ListObjectsV2));
        scope.spawn(|| std::fs::metadata(mounted.join("absent")).unwrap_err());
        wait_until("the wait of the look-up", || waits_long("names"));
        let now = at("fuse.waits_in_progress");
        // The read may be between two attempts.
        assert_eq!((now("change"), now("names")), (1.0, 1.0));
        for rule in held {
            server.faults().remove(rule);
        }
    });
    wait_until("the end of all", || {
        let now = at("fuse.waits_in_progress");
        now("first_byte") + now("change") + now("names") == 0.0
    });
}

/// Checks that most of the time was waited for throttling, of that for requests which are no GETs.
fn check_throttled(rest: &str, operation: Operation, act: impl Fn(&Mounted)) {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", MIB / 16, 1);
    let mounted = Mounted::unhedged(&server, &[]);
    let slow_down = Rule::on(operation, Fault::SlowDown);
    server.faults().add(slow_down.times(5));
    act(&mounted);
    let document = document(mounted.path());
    let waited = |cause| number(&document, "fuse.wait_time", cause);
    assert!(
        waited("throttling") > waited(rest),
        "{} {}",
        waited("throttling"),
        waited(rest)
    );
    assert_eq!(waited("retry"), 0.0);
}

#[test]
fn throttled_listings_are_waited_for_by_throttling() {
    check_throttled("names", Operation::ListObjectsV2, |mounted| {
        assert_eq!(std::fs::read_dir(mounted.path()).unwrap().count(), 1);
    });
}

#[test]
fn throttled_uploads_are_waited_for_by_throttling() {
    check_throttled("change", Operation::PutObject, |mounted| {
        std::fs::write(mounted.join("new"), "content").unwrap();
    });
}

/// Reads ten files after another from a server with this fault.
fn read_ten(fault: Option<Rule>) -> (Mounted, Server) {
    let server = server();
    for number in 0..10 {
        let key = format!("file{number}");
        server.store().put_synthetic(BUCKET, &key, MIB / 16, number);
    }
    let mounted = Mounted::unhedged(&server, &[]);
    // Names are known: the fault is of data alone.
    assert_eq!(std::fs::read_dir(mounted.path()).unwrap().count(), 10);
    if let Some(fault) = fault {
        server.faults().add(fault);
    }
    for number in 0..10 {
        read(&mounted.join(&format!("file{number}")));
    }
    (mounted, server)
}

#[test]
fn stats_name_a_far_server() {
    let latency = Fault::Latency {
        fixed: Duration::from_millis(400),
        jitter: Duration::ZERO,
    };
    let (mounted, _server) = read_ten(Some(Rule::on(Operation::GetObject, latency)));
    let expected = ("first_byte".to_owned(), "first_byte".to_owned());
    assert_eq!(verdict(&mounted), expected);
}

#[test]
fn stats_name_a_throttled_server() {
    let slow_down = Rule::on(Operation::GetObject, Fault::SlowDown).times(6);
    let (mounted, _server) = read_ten(Some(slow_down));
    let expected = ("throttling".to_owned(), "throttling".to_owned());
    assert_eq!(verdict(&mounted), expected);
}

/// The waits become less and less of the time in which the program does not read.
#[test]
fn stats_name_a_slow_reader() {
    let (mounted, _server) = read_ten(None);
    wait_until("the verdict", || verdict(&mounted).0 == "application");
}

/// Streams that even with the smallest windows need more memory than there is, of a server that is
/// not near. Each waits for the first byte of its first GET, and then again and again for memory,
/// four times as long in all. With a quarter of the streams the two times are about the same.
#[test]
fn stats_name_small_memory() {
    const FILES: u32 = 256;
    const SIZE: u64 = 4 * MIB;
    let server = server();
    for number in 0..FILES {
        let key = format!("file{number}");
        let seed = u64::from(number);
        server.store().put_synthetic(BUCKET, &key, SIZE, seed);
    }
    let mounted = Mounted::unhedged(&server, &["--memory-target", "512"]);
    // Names are known.
    std::fs::read_dir(mounted.path()).unwrap().for_each(drop);
    server.faults().add(Rule::on(
        Operation::GetObject,
        Fault::Latency {
            fixed: Duration::from_millis(300),
            jitter: Duration::ZERO,
        },
    ));
    thread::scope(|scope| {
        for number in 0..FILES {
            let path = mounted.join(&format!("file{number}"));
            scope.spawn(move || assert_eq!(read(&path).len() as u64, SIZE));
        }
    });
    let expected = ("memory".to_owned(), "memory".to_owned());
    assert_eq!(verdict(&mounted), expected);
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
        // While it lasts, not only at its end.
        wait_until("the verdict", || verdict(&mounted).0 == "memory");
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
