//! Exact requests and bytes, counted at the server.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule, Server, synthetic_bytes};
use mountpoint_fs::read::STRIDE_RUNS_MAX;
use rand::{Rng as _, SeedableRng as _};

use crate::harness::{BUCKET, Mounted, PATIENCE, read, release_when_in_flight, server};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// Bytes and number of GETs since the log was cleared.
fn fetched(server: &Server) -> (u64, u64) {
    let done = server
        .log()
        .wait_until(Operation::GetObject, PATIENCE, |gets| gets.in_flight == 0);
    assert!(done, "GETs are in flight for ever");
    let gets = server.log().counters(Operation::GetObject);
    (gets.bytes_sent, gets.requests)
}

/// Checks that so many bytes were fetched since the log was cleared, each once.
///
/// The client gives up a GET that stalls for seconds, as on a stalled machine, and another one asks
/// for the rest.
#[track_caller]
fn check_fetched_once(server: &Server, bytes: u64) {
    fetched(server);
    let mut gets = server.log().snapshot();
    gets.retain(|get| get.operation == Operation::GetObject);
    let (whole, given_up): (Vec<_>, Vec<_>) = gets.into_iter().partition(|get| get.complete);
    let mut ranges: Vec<_> = whole.into_iter().map(|get| get.range.unwrap()).collect();
    ranges.sort_by_key(|range| range.start);
    let is_once = ranges.windows(2).all(|two| two[0].end <= two[1].start);
    assert!(is_once, "{ranges:?}");
    let sum: u64 = ranges.iter().map(|range| range.end - range.start).sum();
    let is_all = sum == bytes || (sum < bytes && !given_up.is_empty());
    assert!(is_all, "{sum} of {bytes} bytes: {ranges:?}, {given_up:?}");
}

fn open(mounted: &Mounted, name: &str, direct: bool) -> File {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    File::options()
        .read(true)
        .custom_flags(flags)
        .open(mounted.join(name))
        .unwrap()
}

#[test]
fn sequential_reads_fetch_each_byte_once() {
    let server = server();
    server.store().put_synthetic(BUCKET, "big", 64 * MIB, 1);
    for direct in [false, true] {
        let mounted = Mounted::unhedged(&server, &[]);
        server.log().clear();
        let file = open(&mounted, "big", direct);
        let mut buffer = vec![0; 256 << 10];
        let mut offset = 0;
        while offset < 64 * MIB {
            offset += file.read_at(&mut buffer, offset).unwrap() as u64;
        }
        check_fetched_once(&server, 64 * MIB);
    }
}

#[test]
fn random_reads_fetch_what_they_need() {
    let server = server();
    server.store().put_synthetic(BUCKET, "huge", 4096 * MIB, 1);
    let mounted = Mounted::unhedged(&server, &[]);
    for (size, direct, fetched_max) in [
        (4 * KIB, true, 16 * KIB),
        (4 * KIB, false, 16 * KIB),
        (128 * KIB, true, 132 * KIB),
        (128 * KIB, false, 132 * KIB),
    ] {
        let file = open(&mounted, "huge", direct);
        if !direct {
            nix::fcntl::posix_fadvise(
                &file,
                0,
                0,
                nix::fcntl::PosixFadviseAdvice::POSIX_FADV_RANDOM,
            )
            .unwrap();
        }
        server.log().clear();
        let mut random = rand::rngs::StdRng::seed_from_u64(size);
        let mut buffer = vec![0; usize::try_from(size).unwrap()];
        for _ in 0..50 {
            file.read_exact_at(
                &mut buffer,
                random.random_range(0..1 << 20) * 4 * KIB % (4095 * MIB),
            )
            .unwrap();
        }
        let (bytes, _) = fetched(&server);
        assert!(
            bytes <= 50 * fetched_max,
            "{size} direct {direct}: {} per read",
            bytes / 50
        );
    }
}

#[test]
fn parallel_reads_of_one_descriptor_are_parallel_requests() {
    let server = server();
    server.store().put_synthetic(BUCKET, "huge", 1024 * MIB, 1);
    let mounted = Mounted::unhedged(&server, &[]);
    let file = open(&mounted, "huge", true);
    server.log().clear();
    let rule = server
        .faults()
        .add(Rule::on(Operation::GetObject, Fault::Hold));
    std::thread::scope(|scope| {
        for index in 0..64 {
            let file = &file;
            scope.spawn(move || {
                file.read_exact_at(&mut [0; 65536], index * 16 * MIB + 64 * KIB)
                    .unwrap();
            });
        }
        // A stalled machine gives up some requests meanwhile and sends them again.
        release_when_in_flight(&server, Operation::GetObject, rule, 48);
    });
    check_fetched_once(&server, 64 * 64 * KIB);
}

#[test]
fn backward_and_strided_reads_are_asked_for_ahead_and_exact() {
    let server = server();
    server.store().put_synthetic(BUCKET, "big", 64 * MIB, 1);
    let mounted = Mounted::unhedged(&server, &[]);
    let backward: Vec<u64> = (0..64).rev().map(|step| step * 128 * KIB).collect();
    let strided: Vec<u64> = (1..64).map(|step| step * MIB).collect();
    for offsets in [backward, strided] {
        let file = open(&mounted, "big", true);
        server.log().clear();
        let mut buffer = vec![0; 128 << 10];
        let (first, rest) = offsets.split_at(24);
        for offset in first {
            file.read_exact_at(&mut buffer, *offset).unwrap();
        }
        // By now the mount has recognised the direction or the stride.
        let least = (first.len() + STRIDE_RUNS_MAX) as u64 * 128 * KIB;
        let came = server
            .log()
            .wait_until(Operation::GetObject, PATIENCE, |gets| {
                gets.bytes_sent >= least
            });
        assert!(came, "{:?}", server.log().counters(Operation::GetObject));
        for offset in rest {
            file.read_exact_at(&mut buffer, *offset).unwrap();
        }
        check_fetched_once(&server, offsets.len() as u64 * 128 * KIB);
    }
}

#[test]
fn heads_of_files_of_one_layout_are_asked_for_at_once_and_exact() {
    const FILES: u64 = 12;
    let server = server();
    for file in 0..FILES {
        let key = format!("heads/{file}.h5");
        server
            .store()
            .put_synthetic(BUCKET, &key, 16 * MIB, file + 1);
    }
    // The store is far, as soon as the first answer has come.
    server.faults().add(Rule::always(Fault::Latency {
        fixed: Duration::from_millis(20),
        jitter: Duration::ZERO,
    }));
    let mut random = rand::rngs::StdRng::seed_from_u64(3);
    let places: Vec<u64> = (0..20)
        .map(|_| random.random_range(100..4000) * 4 * KIB)
        .collect();
    let mounted = Mounted::unhedged(&server, &[]);
    let mut in_flight = Vec::new();
    for number in 0..FILES {
        server.log().clear();
        let file = open(&mounted, &format!("heads/{number}.h5"), true);
        let mut buffer = vec![0; 4 << 10];
        for place in [0].iter().chain(&places) {
            file.read_exact_at(&mut buffer, *place).unwrap();
            let expected = synthetic_bytes(number + 1, *place..place + 4 * KIB);
            assert!(buffer == expected, "file {number}, at {place}");
        }
        check_fetched_once(&server, 128 * KIB + 20 * 4 * KIB);
        in_flight.push(server.log().counters(Operation::GetObject).in_flight_max);
    }
    // One at a time at first, beside the rest of the beginning. The kernel decides when the mount
    // hears of the end of a file.
    assert!(in_flight.iter().any(|count| *count >= 5), "{in_flight:?}");
}

#[test]
fn interleaved_streams_waste_nothing() {
    let server = server();
    for streams in [2, 4] {
        let name = format!("streams-{streams}");
        server.store().put_synthetic(BUCKET, &name, 64 * MIB, 1);
        let mounted = Mounted::unhedged(&server, &[]);
        let file = open(&mounted, &name, true);
        server.log().clear();
        let share = 64 * MIB / streams;
        let mut buffer = vec![0; 128 << 10];
        for step in 0..share / (128 * KIB) {
            for stream in 0..streams {
                file.read_exact_at(&mut buffer, stream * share + step * 128 * KIB)
                    .unwrap();
            }
        }
        drop(file);
        let (bytes, gets) = fetched(&server);
        assert!(
            bytes <= 64 * MIB + 8 * MIB * streams,
            "{streams} streams: {} MiB in {gets} GETs",
            bytes / MIB
        );
        assert!(bytes >= 64 * MIB);
    }
}

#[test]
fn a_second_read_of_an_unchanged_file_comes_from_the_page_cache() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", 4 * MIB, 1);
    let mounted = Mounted::unhedged(&server, &[]);
    read(&mounted.join("file"));
    server.log().clear();
    read(&mounted.join("file"));
    assert_eq!(fetched(&server), (0, 0));
}
