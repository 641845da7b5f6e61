//! Files that are fetched before they are opened (`--metadata-ttl`).

use std::time::Duration;

use mountpoint_client::testing::sim::Operation;
use mountpoint_client::types::Priority;

use super::*;
use crate::config::limits::READER_IDLE;
use crate::fs::tests::virtual_time::VirtualTime;
use crate::operation::Opened;
use crate::read::SIBLING_BUDGET;

const TTL: Duration = Duration::from_secs(60);
const ROOT: InodeNo = InodeNo::ROOT;

/// A listed directory whose files are opened as they were last known.
fn mount(files: usize, size: usize, time: Time, opens_unasked: bool) -> (Mount, Vec<InodeNo>) {
    let names = NamesConfig {
        ttl: TTL,
        opens_unasked,
        ..NamesConfig::default()
    };
    let options = SimOptions {
        time,
        ..SimOptions::default()
    };
    let mount = Mount::with_all(options, names, WriteConfig::default(), "", &[]);
    for number in 0..files {
        mount
            .bucket
            .put_object(&name(number), content(number, size));
    }
    let handle = now(mount.fs.open_directory(ROOT)).unwrap();
    let mut listing = Box::pin(async {
        let mut entries: Vec<DirectoryEntry> = Vec::new();
        loop {
            let mut sink = Sink::new(usize::MAX);
            let offset = entries.last().map_or(0, |last| last.next_offset);
            let read = mount.fs.read_directory(handle, offset, true, &mut sink);
            read.await.unwrap();
            if sink.entries.is_empty() {
                return entries;
            }
            entries.append(&mut sink.entries);
        }
    });
    let entries = loop {
        match (&mut listing).now_or_never() {
            Some(entries) => break entries,
            None => drop(mount.bucket.deliver_all()),
        }
    };
    drop(listing);
    mount.fs.release_directory(handle);
    mount.requests();
    let files = entries[2..].iter().map(|entry| entry.entry.attributes.ino);
    let files = files.collect();
    (mount, files)
}

fn name(number: usize) -> String {
    format!("file{number:05}")
}

fn content(number: usize, size: usize) -> Vec<u8> {
    let byte = u8::try_from(number % 251).unwrap();
    vec![byte; size]
}

impl Mount {
    fn open_file(&self, ino: InodeNo) -> Opened {
        now(self.fs.open(ino, READ)).unwrap()
    }

    /// Opens, reads and closes a file.
    #[track_caller]
    fn cat(&self, ino: InodeNo, expected: &[u8]) {
        let opened = self.open_file(ino);
        let mut read = Box::pin(self.fs.read(opened.handle, 0, 1 << 20, true));
        let data = loop {
            match (&mut read).now_or_never() {
                Some(data) => break data.unwrap(),
                None => assert!(self.bucket.deliver_all() > 0),
            }
        };
        assert!(data.to_vec() == expected);
        self.fs.release(opened.handle);
    }

    fn gets(&self) -> usize {
        self.bucket.log().count(Operation::GetObject)
    }
}

#[test]
fn files_that_are_opened_in_order_are_fetched_before_and_once() {
    let (mount, files) = mount(300, 1000, Time::Immediate, true);
    for (number, ino) in files.iter().enumerate() {
        mount.cat(*ino, &content(number, 1000));
    }
    assert_eq!(mount.requests(), (0, 0, 300));
    let stats = mount.fs.sibling_prefetch();
    assert_eq!((stats.unread, stats.wasted), (0, 0));
    // Files whose pages the kernel may have are not fetched again.
    for ino in &files {
        let opened = mount.open_file(*ino);
        assert!(opened.keep_cache);
        mount.fs.release(opened.handle);
    }
    assert_eq!(mount.requests(), (0, 0, 0));
}

/// Reads files in order, one after the other, with `busy` between them. Each request takes `delay`.
fn read_in_order(files: usize, size: usize, delay: Duration, busy: Duration) -> (Duration, usize) {
    let (mount, inodes) = mount(files, size, Time::Manual, true);
    let mut time = VirtualTime::new(&mount, delay);
    let start = mount.clock.now();
    for ino in inodes {
        let opened = mount.open_file(ino);
        let read = time.run(mount.fs.read(opened.handle, 0, 1 << 20, true));
        assert_eq!(read.unwrap().len(), size);
        mount.fs.release(opened.handle);
        time.pause(busy);
    }
    (mount.clock.now() - start, mount.gets())
}

#[test]
fn files_in_order_take_a_fraction_of_their_round_trips() {
    let (delay, busy) = (Duration::from_millis(50), Duration::from_micros(300));
    let (took, gets) = read_in_order(500, 100 << 10, delay, busy);
    assert_eq!(gets, 500);
    // One after the other they would take 25 s.
    assert!(took <= Duration::from_secs(1), "{took:?}");
}

#[test]
fn an_open_that_asks_for_the_newest_version_fetches_nothing_ahead() {
    let (mount, files) = mount(50, 1000, Time::Immediate, false);
    for (number, ino) in files.iter().take(20).enumerate() {
        mount.cat(*ino, &content(number, 1000));
    }
    assert_eq!(mount.requests(), (0, 0, 20));
}

#[test]
fn a_reader_of_the_fetched_waits_for_no_request() {
    let (mount, files) = mount(100, 1000, Time::Manual, true);
    for (number, ino) in files.iter().take(3).enumerate() {
        mount.cat(*ino, &content(number, 1000));
    }
    mount.open_file(files[3]);
    let gets = mount.bucket.pending_gets();
    assert_eq!(gets.len(), 4);
    assert!(gets.iter().all(|get| get.priority == Priority::ReadAhead));
    // The read waits for a GET in flight, and sends none.
    let opened = mount.open_file(files[4]);
    let sent = mount.gets();
    let mut read = Box::pin(mount.fs.read(opened.handle, 0, 1000, true));
    waits(&mut read);
    mount.bucket.deliver_all();
    assert_eq!(now(read).unwrap().len(), 1000);
    let opened = mount.open_file(files[5]);
    mount.bucket.deliver_all();
    let read = now(mount.fs.read(opened.handle, 0, 1000, true));
    assert_eq!(read.unwrap().len(), 1000);
    // Each open fetches one or two more.
    assert!((sent..=sent + 2).contains(&mount.gets()));
}

#[test]
fn a_pattern_that_ends_wastes_no_more_than_the_credit() {
    let size = 1 << 20;
    let (mount, files) = mount(60, size, Time::Immediate, true);
    for (number, ino) in files.iter().take(40).enumerate() {
        mount.cat(*ino, &content(number, size));
    }
    let fetched_in_vain = (mount.gets() - 40) as u64 * size as u64;
    assert_eq!(mount.fs.sibling_prefetch().unread, fetched_in_vain);
    // 37 files of 1 MiB were opened in order.
    assert!(fetched_in_vain <= SIBLING_BUDGET + (40 << 20) / 8);
    assert!(fetched_in_vain >= SIBLING_BUDGET);
    // No open follows: the memory is given back.
    mount.clock.advance(READER_IDLE);
    mount.fs.give_back_idle();
    let stats = mount.fs.sibling_prefetch();
    assert_eq!((stats.unread, stats.wasted), (0, fetched_in_vain));
    assert_eq!(mount.fs.parts.reading.stats().budget_used, 0);
    // A later read fetches for itself.
    mount.cat(files[40], &content(40, size));
}

#[test]
fn what_was_replaced_since_is_told_as_ever() {
    let (mount, files) = mount(100, 1000, Time::Immediate, true);
    for (number, ino) in files.iter().take(4).enumerate() {
        mount.cat(*ino, &content(number, 1000));
    }
    // Fetched, then replaced: the remembered version is read, as --metadata-ttl specifies.
    mount.bucket.put_object(&name(4), content(9, 1000));
    mount.cat(files[4], &content(4, 1000));
    // Replaced, then fetched: an open fails as stale.
    mount.bucket.put_object(&name(20), content(9, 1000));
    for (number, ino) in files.iter().enumerate().take(20).skip(5) {
        mount.cat(*ino, &content(number, 1000));
    }
    let opened = mount.open_file(files[20]);
    let read = now(mount.fs.read(opened.handle, 0, 1000, true));
    assert!(matches!(read, Err(FsError::Stale(_))), "{read:?}");
    mount.fs.release(opened.handle);
    mount.cat(mount.walk(&name(20)), &content(9, 1000));
    // An open that bypasses the page cache asks for the newest version, whatever was fetched.
    mount.bucket.put_object(&name(21), content(9, 1000));
    let direct = OpenOptions {
        direct: true,
        ..READ
    };
    let opened = now(mount.fs.open(files[21], direct));
    assert!(matches!(opened, Err(FsError::Stale(_))), "{opened:?}");
}
