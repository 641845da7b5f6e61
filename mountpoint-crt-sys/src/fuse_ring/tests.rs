//! Rings without FUSE: `/dev/null` completes every command at once, so an entry comes back as soon
//! as it is given.

use std::fs::File;
use std::io::Write as _;
use std::iter;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::*;

const QUEUES: usize = 2;
const DEPTH: usize = 100;
const PAYLOAD_MAX: usize = 1 << 20;
const RESIDENT_MAX: usize = 4 << 20;

/// `None` where this kernel or this process's permissions do not allow it; nothing can be tested
/// there but that it says so.
fn ring(device: &str) -> Option<Ring> {
    let options = RingOptions {
        queues: vec![0, 1],
        depth: DEPTH,
        payload_max: PAYLOAD_MAX,
        resident_max: RESIDENT_MAX,
    };
    match Ring::new(File::open(device).unwrap().into(), options) {
        Ok(ring) => Some(ring),
        Err(error) => {
            // Before Linux 5.1, before 6.1, and where a filter of system calls or
            // `kernel.io_uring_disabled` forbids it.
            let known = [libc::ENOSYS, libc::EINVAL, libc::EPERM];
            assert!(
                error
                    .raw_os_error()
                    .is_some_and(|errno| known.contains(&errno)),
                "{error}"
            );
            // Shown even if the test passes.
            writeln!(
                std::io::stderr(),
                "no io_uring here, rings are not tested: {error}"
            )
            .ok();
            None
        }
    }
}

/// Waits for a request.
#[track_caller]
fn arrived(ring: &mut Ring) -> Slot {
    ring.wait(None).unwrap();
    match ring.next() {
        Some(Event::Arrived(slot)) => slot,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_takes_no_commands_takes_no_entries() {
    let Some(mut ring) = ring("/dev/full") else {
        return;
    };
    ring.register().expect_err("it has no such commands");
    ring.refuse();
}

#[test]
fn each_entry_arrives_once_for_each_time_it_is_given() {
    let Some(mut ring) = ring("/dev/null") else {
        return;
    };
    ring.register().unwrap();
    let mut slots: Vec<_> = iter::repeat_with(|| arrived(&mut ring))
        .take(QUEUES * DEPTH)
        .collect();
    assert!(ring.next().is_none());
    for _ in 0..3 {
        for mut slot in slots.drain(..) {
            slot.set_reply([7; 16], [&b"ab"[..], &b"c"[..]].into_iter());
            ring.commit(slot).unwrap();
        }
        slots.extend(iter::repeat_with(|| arrived(&mut ring)).take(QUEUES * DEPTH));
        assert!(ring.next().is_none());
    }
}

/// Nothing but zeros has arrived: the length in the header is not the message's.
#[test]
fn a_message_without_sense_is_its_header() {
    let Some(mut ring) = ring("/dev/null") else {
        return;
    };
    ring.register().unwrap();
    assert_eq!(arrived(&mut ring).message(), [0; 40]);
}

/// The kernel would leave the bytes of a request where this test does.
#[test]
fn messages_are_put_together() {
    let Some(mut ring) = ring("/dev/null") else {
        return;
    };
    ring.register().unwrap();
    let check = |slot: Slot, ring: &mut Ring, operation: &[u8], payload: &[u8]| {
        let header: Vec<u8> = (100..140).collect();
        let len = u32::try_from(40 + operation.len() + payload.len()).unwrap();
        let header = [&len.to_ne_bytes()[..], &header[4..]].concat();
        let slot = slot.with_request(&header, operation, payload);
        let unique = u64::from_ne_bytes(header[8..16].try_into().unwrap());
        assert_eq!(slot.unique(), unique);
        assert_eq!(slot.message(), [&header, operation, payload].concat());
        ring.commit(slot).unwrap();
        arrived(ring)
    };
    let mut slot = arrived(&mut ring);
    let page = vec![5; 70_000];
    for operation in [0, 1, 40, 128] {
        let operation: Vec<u8> = (0..operation).collect();
        for payload in [&b""[..], b"name\0", &page] {
            slot = check(slot, &mut ring, &operation, payload);
        }
    }
}

/// Bytes that are resident of the mapping around an address, as the kernel counts them.
fn resident_at(address: usize) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut lines = maps.lines();
    let is_around = |line: &str| {
        let range = line
            .split(' ')
            .next()
            .and_then(|range| range.split_once('-'));
        let ends = range.map(|(start, end)| {
            let parse = |text| usize::from_str_radix(text, 16);
            (parse(start), parse(end))
        });
        matches!(ends, Some((Ok(start), Ok(end))) if (start..end).contains(&address))
    };
    lines.find(|line| is_around(line)).expect("it is mapped");
    let rss = lines.find_map(|line| line.strip_prefix("Rss:")).unwrap();
    let kib: usize = rss.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

#[test]
fn replies_hold_no_more_memory_than_they_may() {
    let Some(mut ring) = ring("/dev/null") else {
        return;
    };
    ring.register().unwrap();
    let body = vec![1; PAYLOAD_MAX];
    let slots: Vec<_> = iter::repeat_with(|| arrived(&mut ring))
        .take(QUEUES * DEPTH)
        .collect();
    let memory = slots[0].message().as_ptr().addr();
    for mut slot in slots {
        ring.make_room(body.len()).unwrap();
        assert!(ring.resident() + body.len() <= RESIDENT_MAX);
        slot.set_reply([0; 16], iter::once(&body[..]));
        ring.commit(slot).unwrap();
    }
    let slots: Vec<_> = iter::repeat_with(|| arrived(&mut ring))
        .take(QUEUES * DEPTH)
        .collect();
    assert!(ring.resident() <= RESIDENT_MAX / 2 + PAYLOAD_MAX);
    // A tenth of what it would be without the bound. Rings of other tests may lie beside this one.
    let grown = resident_at(memory);
    assert!(
        grown > 0 && grown < QUEUES * DEPTH * PAYLOAD_MAX / 4,
        "{grown}"
    );
    for slot in slots {
        ring.commit(slot).unwrap();
    }
}

#[test]
fn a_waker_ends_waits_from_another_thread_again_and_again() {
    let Some(mut ring) = ring("/dev/full") else {
        return;
    };
    ring.register().expect_err("it has no such commands");
    while ring.next().is_some() {}
    let waker = ring.waker();
    let (turn, turns) = sync_channel(0);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for () in turns {
                waker.wake();
            }
        });
        for _ in 0..100 {
            turn.send(()).unwrap();
            // Without a wake-up this waits for ever.
            ring.wait(None).unwrap();
            assert!(matches!(ring.next(), Some(Event::Woken)));
            assert!(ring.next().is_none());
        }
        drop(turn);
    });
    ring.wait(Some(Duration::from_millis(1))).unwrap();
    assert!(ring.next().is_none());
}
