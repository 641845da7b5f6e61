//! Reads through whole sessions: answered at once, later, and while signals come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use mountpoint_client::testing::sim::{Time, pattern_bytes};

use super::kernel::Answered;
use super::served::{
    INTERRUPT, READ, RELEASE, ROOT, SIZE, Served, check_both, read_in, release_in,
};

#[test]
fn reads_send_the_bytes_of_blocks() {
    check_both(Time::Immediate, check_reads);
}

fn check_reads(mut served: Served) {
    served.client.put_pattern("f", SIZE, 7);
    let file = served.lookup(ROOT, "f");
    let handle = served.open(file);
    for (offset, size) in [
        (0, 4096),
        (4096, 131_072),
        (1, 1),
        (1 << 20, 1 << 20),
        (SIZE - 10, 4096),
        (SIZE, 4096),
    ] {
        let answered = served.ask(READ, file, &read_in(handle, offset, size));
        let end = SIZE.min(offset + u64::from(size));
        assert_eq!(answered.errno, 0);
        assert!(
            answered.body == pattern_bytes(7, offset..end),
            "{size} bytes at {offset}"
        );
    }
    served.check(RELEASE, file, &release_in(handle), 0);
    served.check(READ, file, &read_in(handle, 0, 4096), libc::EBADF);
    served.end();
}

#[test]
fn parked_reads_are_answered_as_their_bytes_arrive() {
    check_both(Time::ManualGets, check_parked_reads);
}

fn check_parked_reads(mut served: Served) {
    served.client.put_pattern("f", SIZE, 7);
    let file = served.lookup(ROOT, "f");
    let handle = served.open(file);
    // More than there are session threads, at places that have nothing to do with each other.
    let offsets: Vec<u64> = (0..16).map(|index| index * (SIZE / 16)).collect();
    let waiting: BTreeMap<u64, u64> = offsets
        .iter()
        .map(|offset| {
            (
                served.send(READ, file, &read_in(handle, *offset, 4096)),
                *offset,
            )
        })
        .collect();
    while served.session.operations_in_progress() < waiting.len() {
        thread::yield_now();
    }
    served.kernel.check_silent();
    served.client.deliver_all();
    let mut answered = Vec::new();
    for _ in &waiting {
        let Answered {
            unique,
            errno,
            body,
        } = served.kernel.answered();
        assert_eq!(errno, 0);
        let offset = waiting[&unique];
        assert!(
            body == pattern_bytes(7, offset..offset + 4096),
            "at {offset}"
        );
        answered.push(unique);
    }
    answered.sort_unstable();
    assert!(answered.iter().eq(waiting.keys()), "each is answered once");
    served.kernel.check_silent();
    served.end();
}

#[test]
fn a_signal_ends_a_waiting_read() {
    let mut served = Served::new(Time::ManualGets);
    served.client.put_pattern("f", SIZE, 7);
    let file = served.lookup(ROOT, "f");
    let handle = served.open(file);
    let read = served.send(READ, file, &read_in(handle, 0, 4096));
    served
        .kernel
        .request(INTERRUPT, read | 1, 0, &read.to_ne_bytes());
    let answered = served.kernel.answered();
    assert_eq!((answered.unique, answered.errno), (read, libc::EINTR));
    served.client.deliver_all();
    served.kernel.check_silent();
    served.check(RELEASE, file, &release_in(handle), 0);
    served.end();
}

/// Reads whose bytes arrive while they are interrupted, from many threads: one answer each, right
/// or EINTR.
#[test]
fn reads_and_signals_race() {
    const READS: u64 = 400;
    let mut served = Served::new(Time::ManualGets);
    served.client.put_pattern("f", SIZE, 7);
    let file = served.lookup(ROOT, "f");
    let handle = served.open(file);
    let client = Arc::clone(&served.client);
    let is_done = Arc::new(AtomicBool::new(false));
    let done = Arc::clone(&is_done);
    let deliver = thread::Builder::new().spawn(move || {
        while !done.load(Ordering::SeqCst) {
            client.deliver_all();
            thread::yield_now();
        }
    });
    let mut offsets = BTreeMap::new();
    for index in 0..READS {
        let offset = (index * 7919 % (SIZE / 4096)) * 4096;
        let read = served.send(READ, file, &read_in(handle, offset, 4096));
        offsets.insert(read, offset);
        served
            .kernel
            .request(INTERRUPT, read | 1, 0, &read.to_ne_bytes());
        // Not too many at once: a socket holds fewer replies than a kernel.
        while offsets.len() >= 16 {
            check_read(&served.kernel.answered(), &mut offsets);
        }
    }
    while !offsets.is_empty() {
        check_read(&served.kernel.answered(), &mut offsets);
    }
    is_done.store(true, Ordering::SeqCst);
    deliver.unwrap().join().unwrap();
    served.kernel.check_silent();
    served.end();
}

/// `answered` is the only answer to one of the reads at `offsets`.
fn check_read(answered: &Answered, offsets: &mut BTreeMap<u64, u64>) {
    let offset = offsets.remove(&answered.unique).expect("one answer each");
    match answered.errno {
        0 => assert!(
            answered.body == pattern_bytes(7, offset..offset + 4096),
            "at {offset}"
        ),
        errno => assert_eq!(errno, libc::EINTR),
    }
}
