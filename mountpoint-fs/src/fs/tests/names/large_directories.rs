//! Directories of many pages, in virtual time. Each request takes 50 ms and the reader none.

use std::time::Duration;

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::{Fault, FaultRule, Operation, Time, When};

use super::*;
use crate::fs::tests::virtual_time::VirtualTime;
use crate::namespace::AllKeys;
use crate::namespace::bounds::{LIST_AHEAD_PAGES_MAX, LIST_REQUESTS_MAX};

const DELAY: Duration = Duration::from_millis(50);

/// A mount whose requests take virtual time.
struct Virtual {
    mount: Mount,
    time: VirtualTime,
}

impl Virtual {
    fn new(options: SimOptions, keys: impl Iterator<Item = String>) -> Self {
        let mount = Mount::with_options(
            SimOptions {
                time: Time::Manual,
                ..options
            },
            "",
            &[],
        );
        for key in keys {
            mount.bucket.put_pattern(&key, 1, 0);
        }
        let time = VirtualTime::new(&mount, DELAY);
        Self { mount, time }
    }

    /// All keys of the bucket, and the duration. Failed requests are repeated.
    fn list_all(&mut self) -> (Vec<String>, Duration) {
        let start = self.mount.clock.now();
        let client = Arc::clone(&self.mount.bucket);
        let mut listing = AllKeys::new(client, self.mount.clock.clone(), "");
        let (mut keys, mut errors) = (Vec::new(), 0);
        loop {
            match self.time.run(listing.next()) {
                Ok(Some(page)) => keys.extend(page.into_iter().map(|(key, _)| key)),
                Ok(None) => return (keys, self.mount.clock.now() - start),
                Err(_) => errors += 1,
            }
            assert!(errors < 100, "{listing:?}");
        }
    }

    /// All names of the root, `batch` at a time, and the duration. Failed reads are repeated.
    fn list(&mut self, batch: usize) -> (Vec<String>, Duration) {
        self.list_in(batch, Duration::ZERO)
    }

    /// Lists as [`Virtual::list`], by a reader that takes `busy` for each name.
    fn list_in(&mut self, batch: usize, busy: Duration) -> (Vec<String>, Duration) {
        let start = self.mount.clock.now();
        let fs = Arc::clone(&self.mount.fs);
        let handle = self.time.run(fs.open_directory(InodeNo::ROOT)).unwrap();
        let (mut names, mut offset, mut errors) = (Vec::new(), 0, 0);
        loop {
            let mut sink = Sink::new(batch);
            if let Err(error) = self
                .time
                .run(fs.read_directory(handle, offset, false, &mut sink))
            {
                errors += 1;
                assert!(errors < 100, "{error}");
                continue;
            }
            let Some(last) = sink.entries.last() else {
                break;
            };
            offset = last.next_offset;
            names.extend(shown(&sink.entries));
            self.time
                .pause(busy * u32::try_from(sink.entries.len()).unwrap());
        }
        fs.release_directory(handle);
        (names, self.mount.clock.now() - start)
    }
}

#[test]
fn a_large_directory_is_listed_many_times_faster_than_page_by_page() {
    let pages: u32 = 100;
    let keys = || (0..pages * 1000).map(|n| format!("img_{n:06}.jpg"));
    let mut general = Virtual::new(SimOptions::default(), keys());
    let (names, took) = general.list(500);
    assert!(names.into_iter().eq(keys()), "every name once, in order");
    let (_, lists, _) = general.mount.requests();
    println!(
        "{took:?}, {lists} requests, {} in flight",
        general.time.in_flight_max
    );
    assert!(took * 5 <= DELAY * pages, "{took:?} for {pages} pages");
    assert!(lists <= 115, "{lists} requests");
    assert!(general.time.in_flight_max <= LIST_REQUESTS_MAX);

    // A directory bucket has no key order to begin behind.
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    let small = || keys().take(6_500);
    let mut express = Virtual::new(options, small());
    let (mut names, took) = express.list(500);
    names.sort();
    assert!(names.into_iter().eq(small()), "every name once");
    assert_eq!((took, express.mount.requests()), (DELAY * 7, (0, 7, 0)));
}

#[test]
fn all_keys_of_a_bucket_are_listed_several_ranges_at_once() {
    let pages: u32 = 100;
    let hash = |n: u32| n.wrapping_mul(0x9E37_79B1);
    let mut images: Vec<String> = (0..pages * 1000)
        .map(|n| format!("train/n{:04}/n{:04}_{n:06}.jpg", n / 1300, n / 1300))
        .collect();
    let mut hashes: Vec<String> = (0..pages * 1000)
        .map(|n| format!("d{:02x}/{:08x}", hash(n) >> 24, hash(n)))
        .collect();
    // Keys that no directory shows are keys as well.
    images.extend(["a//b", "a/../c", "train/", "/"].map(str::to_owned));
    for keys in [&mut images, &mut hashes] {
        keys.sort();
        let mut general = Virtual::new(SimOptions::default(), keys.iter().cloned());
        let (found, took) = general.list_all();
        assert!(found == *keys, "every key once, in order");
        let (_, lists, _) = general.mount.requests();
        println!("{took:?}, {lists} requests");
        // The names behind the end of a directory are hard to predict.
        assert!(took <= DELAY * pages, "{took:?} for {pages} pages");
        assert!(lists <= 200, "{lists} requests");

        let mut faulty = Virtual::new(SimOptions::default(), keys.iter().cloned());
        faulty.mount.bucket.add_fault(FaultRule {
            operation: Some(Operation::ListObjectsV2),
            when: When::Every(7),
            fault: Fault::Fail(ErrorKind::Transient),
        });
        assert!(faulty.list_all().0 == *keys, "every key once, in order");
    }
    let options = SimOptions {
        directory_bucket: true,
        ..SimOptions::default()
    };
    let mut express = Virtual::new(options, images[..6_500].iter().cloned());
    let mut found = express.list_all().0;
    found.sort();
    assert!(found == images[..6_500], "every key once");
}

#[test]
fn a_directory_of_up_to_three_pages_is_listed_page_by_page() {
    for keys in [0_usize, 1, 999, 1000, 1001, 2000, 2500, 3000] {
        let mut mount = Virtual::new(SimOptions::default(), (0..keys).map(|n| format!("n{n:05}")));
        let (names, took) = mount.list(77);
        let pages = u32::try_from(keys.div_ceil(1000).max(1)).unwrap();
        assert_eq!(names.len(), keys);
        assert_eq!(took, DELAY * pages, "{keys} keys");
        assert_eq!(
            mount.mount.requests(),
            (0, pages as usize, 0),
            "{keys} keys"
        );
    }
}

/// A reader that takes 13 µs for each name, as `ls -l` does, never waits longer than for a page.
#[test]
fn the_next_page_arrives_while_one_is_read() {
    let mut mount = Virtual::new(SimOptions::default(), (0..3000).map(|n| format!("n{n:05}")));
    mount.time.latency = Duration::from_millis(20);
    let busy = Duration::from_micros(13);
    let (names, took) = mount.list_in(30, busy);
    assert_eq!((names.len(), mount.mount.requests()), (3000, (0, 3, 0)));
    // Three answers, and the work for the last page.
    assert!(took <= Duration::from_millis(75), "{took:?}");
}

#[test]
fn a_reader_that_stops_leaves_little_behind() {
    let mut mount = Virtual::new(
        SimOptions::default(),
        (0..40_000).map(|n| format!("{n:06}")),
    );
    let fs = Arc::clone(&mount.mount.fs);
    let handle = mount.time.run(fs.open_directory(InodeNo::ROOT)).unwrap();
    let mut offset = 0;
    for (names, lists_max) in [(10, 2), (990, 2), (2_000, 5), (20_000, 80)] {
        let mut sink = Sink::new(names);
        while !sink.entries.is_empty() || sink.room > 0 {
            sink.entries.clear();
            mount
                .time
                .run(fs.read_directory(handle, offset, false, &mut sink))
                .unwrap();
            offset = sink.entries.last().unwrap().next_offset;
            sink.room = sink.room.saturating_sub(sink.entries.len());
            if sink.room == 0 {
                break;
            }
        }
        let lists = mount.mount.bucket.log().count(Operation::ListObjectsV2);
        assert!(lists <= lists_max, "{lists} requests for {names} names");
    }
    assert!(fs.listing_pages_ahead() <= LIST_AHEAD_PAGES_MAX);
    fs.release_directory(handle);
    assert_eq!(fs.listing_pages_ahead(), 0);
}

#[test]
fn a_server_that_says_to_slow_down_is_asked_less() {
    let keys = || (0..40_000).map(|n| format!("{n:06}"));
    let mut quick = Virtual::new(SimOptions::default(), keys());
    let undisturbed = quick.list(1000).1;
    let mut slow = Virtual::new(SimOptions::default(), keys());
    slow.mount.bucket.add_fault(FaultRule {
        operation: Some(Operation::ListObjectsV2),
        when: When::Every(5),
        fault: Fault::Fail(ErrorKind::Throttled),
    });
    let (names, took) = slow.list(1000);
    assert!(names.into_iter().eq(keys()), "every name once, in order");
    assert!(
        took > 2 * undisturbed,
        "{took:?}, undisturbed {undisturbed:?}"
    );
    assert!(
        slow.time.in_flight_max <= LIST_REQUESTS_MAX / 4,
        "{} in flight",
        slow.time.in_flight_max
    );
}

#[test]
fn two_readers_of_a_large_directory_and_one_that_goes_back() {
    let keys = || (0..15_000).map(|n| format!("{n:06}"));
    let mut mount = Virtual::new(SimOptions::default(), keys());
    let fs = Arc::clone(&mount.mount.fs);
    let expected: Vec<String> = keys().collect();
    let handle = mount.time.run(fs.open_directory(InodeNo::ROOT)).unwrap();
    // Two threads that read one descriptor with offsets of their own, as NFS servers do.
    let mut readers = [(0, Vec::new()), (0, Vec::new())];
    let mut offsets = Vec::new();
    for turn in 0.. {
        let (offset, names) = &mut readers[usize::from(turn % 3 == 0)];
        let mut sink = Sink::new(700);
        // Offset 0 would rewind the other reader's listing.
        let from = if *offset == 0 && turn > 0 { 2 } else { *offset };
        mount
            .time
            .run(fs.read_directory(handle, from, false, &mut sink))
            .unwrap();
        let Some(last) = sink.entries.last() else {
            if readers
                .iter()
                .all(|(_, names)| names.len() == expected.len())
            {
                break;
            }
            continue;
        };
        *offset = last.next_offset;
        offsets.push((last.next_offset, last.name.clone()));
        names.extend(shown(&sink.entries));
    }
    assert!(readers.iter().all(|(_, names)| *names == expected));
    // `seekdir` to an earlier `telldir`, while keys appear and vanish.
    for (index, (offset, name)) in offsets.iter().enumerate().step_by(7) {
        mount
            .mount
            .bucket
            .put_pattern(&format!("{:06}x", index * 97), 1, 0);
        let mut sink = Sink::new(50);
        mount
            .time
            .run(fs.read_directory(handle, *offset, false, &mut sink))
            .unwrap();
        let mut rest = shown(&sink.entries);
        rest.retain(|name| !name.ends_with('x'));
        let at = expected.partition_point(|other| other <= name);
        assert_eq!(rest, expected[at..at + rest.len()], "behind {name}");
        assert!(rest.len() >= 40 || at + rest.len() >= expected.len() - 1000);
    }
}
