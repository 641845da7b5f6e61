//! Late requests: a second one serves the read, at a bounded cost.

use std::fs::File;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::time::{Duration, Instant};

use mountpoint_client::testing::server::{
    Fault, Operation, OperationCounters, RequestRecord, Rule, Server, synthetic_bytes,
};

use mountpoint_fs::read::HEDGE_BURST;

use crate::harness::{BUCKET, Mounted, PATIENCE, server};

const SIZE: u64 = 2 << 30;
/// Smallest range of a GET for random reads.
const LEN: usize = 4096;
/// Reads from which the mount learns normal latencies, and saves up for second requests.
const LEARNING: u64 = 1000;
/// Reads of which one in a hundred gets no answer.
const READS: u64 = 1000;

/// Offsets of a file in no order, each once.
fn places(turns: std::ops::Range<u64>) -> impl Iterator<Item = u64> {
    turns.map(|turn| ((turn + 1) * 389 % 4093) * (512 << 10))
}

fn open(mounted: &Mounted) -> File {
    File::options()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(mounted.join("file"))
        .unwrap()
}

#[track_caller]
fn read(file: &File, offset: u64) {
    let mut buffer = [0; LEN];
    file.read_exact_at(&mut buffer, offset).unwrap();
    let expected = synthetic_bytes(5, offset..offset + LEN as u64);
    assert!(buffer.as_slice() == expected, "wrong bytes at {offset}");
}

/// Withholds the answer to the second of each hundred requests after the last of `hundreds`.
fn never_answer(server: &Server, hundreds: u64) {
    let black_hole = Rule::on(Operation::GetObject, Fault::BlackHole).times(1);
    server.faults().add(Rule {
        skip: hundreds * 100 + 50,
        ..black_hole
    });
}

#[test]
fn a_request_that_is_never_answered_holds_up_no_read() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", SIZE, 5);
    let mounted = Mounted::new(&server, &[]);
    let file = open(&mounted);
    places(0..LEARNING).for_each(|offset| read(&file, offset));
    (0..READS / 100).for_each(|hundreds| never_answer(&server, hundreds));
    places(LEARNING..LEARNING + READS).for_each(|offset| read(&file, offset));

    // The client gives up an unanswered GET and sends no more for it: the read has its bytes.
    let is_over = |gets: &OperationCounters| gets.in_flight == 0;
    let log = server.log();
    assert!(log.wait_until(Operation::GetObject, PATIENCE, is_over));
    let mut gets = log.take();
    gets.retain(|record| record.operation == Operation::GetObject);
    let (answered, unanswered): (Vec<_>, Vec<_>) = gets.iter().partition(|record| record.complete);
    assert!(unanswered.len() as u64 >= READS / 100);
    let is_served_meanwhile = |late: &RequestRecord| {
        assert_eq!(late.if_match, answered[0].if_match);
        let end = late.time + late.duration;
        let is_instead = |other: &&RequestRecord| other.range == late.range && other.time < end;
        answered.iter().any(is_instead)
    };
    let served = unanswered.iter().filter(|late| is_served_meanwhile(late));
    // On a quiet machine all of them. A busy one gives up some itself, and spends second requests
    // on reads that it has delayed.
    assert!(served.count() * 2 > unanswered.len(), "{unanswered:?}");
    let (reads, sent) = (LEARNING + READS, gets.len() as u64);
    let again = u64::from(HEDGE_BURST) + unanswered.len() as u64;
    assert!(
        sent <= reads + reads / 50 + again,
        "{sent} requests for {reads} reads"
    );
}

#[test]
fn a_body_that_stops_is_continued_by_another_request() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", SIZE, 5);
    let mounted = Mounted::new(&server, &[]);
    let file = open(&mounted);
    let mut buffer = vec![0; 256 << 10];
    let mut read = |offset: u64| {
        file.read_exact_at(&mut buffer, offset).unwrap();
        let expected = synthetic_bytes(5, offset..offset + buffer.len() as u64);
        assert!(buffer == expected, "wrong bytes at {offset}");
    };
    places(0..300).for_each(&mut read);
    // A busy machine may have spent its second requests on reads that it has delayed, and saves up
    // again.
    for round in 1..=ROUNDS_MAX {
        server.log().clear();
        let stop = Rule::on(Operation::GetObject, Fault::Stall(STOP)).times(1);
        server.faults().add(stop);
        let turn = round * 300;
        places(turn..turn + 300).for_each(&mut read);
        if let Some(came) = continued_meanwhile(&server) {
            println!("continued behind {came} bytes");
            assert!(came <= STOP, "all that is missing: {came}");
            return;
        }
    }
    panic!("no second GET was sent while the first one stalled");
}

/// Offset where an incomplete body stops.
const STOP: u64 = 100_000;
const ROUNDS_MAX: u64 = 10;

/// The offset at which a GET continues the stalled one before its timeout.
fn continued_meanwhile(server: &Server) -> Option<u64> {
    let is_over = |gets: &OperationCounters| gets.in_flight == 0;
    let log = server.log();
    assert!(log.wait_until(Operation::GetObject, PATIENCE, is_over));
    let mut gets = log.take();
    gets.retain(|record| record.operation == Operation::GetObject);
    let is_stopped = |get: &&RequestRecord| !get.complete && get.bytes_sent == STOP;
    let stopped = gets.iter().find(is_stopped).expect("one stops");
    let wanted = stopped.range.clone().unwrap();
    let end = stopped.time + stopped.duration;
    let is_rest = |other: &&RequestRecord| {
        let range = other.range.as_ref().unwrap();
        other.complete && range.end == wanted.end && other.time < end
    };
    let rest = gets.iter().find(is_rest)?;
    Some(rest.range.as_ref().unwrap().start - wanted.start)
}

/// One request of a hundred takes 2 s longer.
///
/// Returns their number, and the durations of the reads, the shortest first.
fn read_from_a_store_with_stragglers(server: &Server, file: &File) -> (u64, Vec<Duration>) {
    let (fixed, jitter) = (Duration::from_secs(2), Duration::ZERO);
    let delay = Rule::on(Operation::GetObject, Fault::Latency { fixed, jitter });
    let rule = server.faults().add(Rule {
        probability: 0.01,
        seed: 3,
        ..delay
    });
    let mut times: Vec<_> = std::thread::scope(|scope| {
        let timed = |offset| {
            let start = Instant::now();
            read(file, offset);
            start.elapsed()
        };
        let worker = |number| {
            move || {
                let places = places(number * READS..(number + 1) * READS);
                // Other offsets than those that the mount learned from.
                let times = places.map(|offset| timed(offset + LEN as u64));
                times.collect::<Vec<_>>()
            }
        };
        let workers: Vec<_> = (0..4).map(|number| scope.spawn(worker(number))).collect();
        let times = workers.into_iter().map(|worker| worker.join().unwrap());
        times.flatten().collect()
    });
    times.sort();
    (server.faults().remove(rule).unwrap(), times)
}

#[test]
fn the_tail_of_a_store_with_stragglers_is_cut() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", SIZE, 5);
    let mounted = Mounted::new(&server, &[]);
    let file = open(&mounted);
    places(0..LEARNING).for_each(|offset| read(&file, offset));
    server.log().clear();
    let (delayed, times) = read_from_a_store_with_stragglers(&server, &file);
    let sent = server.log().count(Operation::GetObject);
    let reads = times.len() as u64;
    println!(
        "{reads} reads, {sent} GETs, {delayed} of them late: half of the reads within {:?}, 99 % {:?}, 99.9 % {:?}",
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() * 999 / 1000],
    );
    assert!(delayed > reads / 200, "{delayed}");
    // Those that were saved up, and as many that a stalled machine gives up and sends again.
    assert!(
        sent <= reads + reads / 50 + 2 * u64::from(HEDGE_BURST),
        "{sent} requests for {reads} reads"
    );
    // A quiet machine has one or two: where the second GET was late as well. A busy one spends
    // second requests on reads that it has delayed.
    let slow = times.iter().filter(|time| **time >= Duration::from_secs(2));
    assert!((slow.count() as u64) < delayed / 2, "{times:?}");
}

#[test]
fn hedging_can_be_switched_off() {
    let server = server();
    server.store().put_synthetic(BUCKET, "file", SIZE, 5);
    let mounted = Mounted::with(&server, &[], |command| {
        command.env("MOUNTPOINT_HEDGING", "false");
    });
    let file = open(&mounted);
    places(0..200).for_each(|offset| read(&file, offset));
    never_answer(&server, 0);
    places(200..300).for_each(|offset| read(&file, offset));
    let mut gets = server.log().take();
    gets.retain(|record| record.operation == Operation::GetObject);
    let unanswered = gets.iter().find(|record| !record.complete).unwrap();
    let again = gets
        .iter()
        .find(|record| record.range == unanswered.range && record.complete);
    // A second one would come within milliseconds; the first is given up after seconds.
    assert!(
        again.unwrap().time > unanswered.time + Duration::from_secs(1),
        "only when the first was given up"
    );
}
