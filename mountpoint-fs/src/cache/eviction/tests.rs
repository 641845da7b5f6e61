//! The room over a simulated disk: what stays under several workloads, and what happens when
//! something fails.

use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::room::Keeper;
use super::{Room, RoomLimits};
use crate::cache::storage::{EntryName, FileKind, Storage, path};
use crate::clock::Clock;
use crate::local_disk::test_disk::{DiskOperation, SimulatedDisk, SimulatedFault};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Bytes of each entry: its data, and its index.
const ENTRY: u64 = MIB;

/// Entries that a cache of the tests has room for.
const ENTRIES: u64 = 1000;

/// A mount that reads whole objects, with a cache.
struct Mount {
    clock: Clock,
    disk: SimulatedDisk,
    storage: Arc<Storage>,
    room: Arc<Room>,
    keeper: Keeper,
}

impl Mount {
    fn new(bytes_max: Option<u64>, total: u64) -> Self {
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(1_000_000));
        Self::on(disk(total, &clock), clock, bytes_max)
    }

    fn on(disk: SimulatedDisk, clock: Clock, bytes_max: Option<u64>) -> Self {
        let limits = RoomLimits {
            bytes_max,
            entries_max: 2000,
        };
        let storage = Storage::simulated(&disk);
        let (room, keeper) = Room::unwatched(Arc::clone(&storage), limits, clock.clone());
        let mut mount = Self {
            clock,
            disk,
            storage,
            room,
            keeper,
        };
        mount.settle();
        mount
    }

    fn of_entries(entries: u64) -> Self {
        Self::new(Some(entries * ENTRY), 100 * GIB)
    }

    /// Works until there is nothing to do at once.
    fn settle(&mut self) {
        for _ in 0..10_000 {
            if !self.room.step(&mut self.keeper).is_zero() {
                return;
            }
        }
        panic!("there is no end of it");
    }

    /// Reads an object. Returns whether the cache had it.
    fn read(&mut self, object: u64) -> bool {
        self.clock.advance(Duration::from_secs(3));
        let name = name(object);
        if let Some(data) = self.storage.open(name, FileKind::Data).unwrap() {
            data.touch().unwrap();
            return true;
        }
        if self.room.admits(ENTRY) {
            let now = self.clock.wall();
            self.claim(object, now);
            self.room.added_entry();
        }
        self.settle();
        false
    }

    fn claim(&self, object: u64, at: SystemTime) {
        let times = (at, at);
        claim(&self.disk, object, FileKind::Index, 4096, times);
        claim(&self.disk, object, FileKind::Data, ENTRY - 4096, times);
    }

    /// Reads objects in order. Returns how many of a hundred the cache had.
    fn epoch(&mut self, objects: std::ops::Range<u64>) -> u64 {
        let count = objects.end - objects.start;
        let hits = objects.filter(|object| self.read(*object)).count() as u64;
        hits * 100 / count
    }

    fn names(&self) -> Vec<EntryName> {
        let all = (0..=u8::MAX).flat_map(|shard| self.storage.list(shard).unwrap());
        all.map(|entry| entry.name).collect()
    }

    fn entries(&self) -> u64 {
        let files = self.disk.names();
        files.iter().filter(|name| name.ends_with(".data")).count() as u64
    }
}

/// An empty disk of `total` bytes.
fn disk(total: u64, clock: &Clock) -> SimulatedDisk {
    let disk = SimulatedDisk::timed(0, clock);
    disk.limit(total);
    disk
}

/// Puts a file of an object there.
fn claim(
    disk: &SimulatedDisk,
    object: u64,
    kind: FileKind,
    bytes: u64,
    times: (SystemTime, SystemTime),
) {
    disk.claim(&path(name(object), kind), bytes, times);
}

/// Names whose bytes look random.
fn name(object: u64) -> EntryName {
    let mix = |number: u64| {
        let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let bits = (bits ^ (bits >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits ^ (bits >> 32)
    };
    let number = u128::from(mix(object + 1)) << 64 | u128::from(mix(!object));
    EntryName(number.to_be_bytes())
}

#[test]
fn a_hot_set_survives_scans_of_any_length() {
    for scan in [ENTRIES, 2 * ENTRIES, 6 * ENTRIES] {
        let mut mount = Mount::of_entries(ENTRIES);
        let hot = 0..ENTRIES / 2;
        mount.epoch(hot.clone());
        assert_eq!(mount.epoch(hot.clone()), 100);
        assert_eq!(mount.epoch(10_000..10_000 + scan), 0);
        let hits = mount.epoch(hot);
        assert!(hits >= 95, "{hits} % after a scan of {scan}");
    }
}

#[test]
fn a_data_set_larger_than_the_cache_hits_in_its_second_epoch() {
    for (percent, second_min, later_min) in
        [(105, 80, 80), (125, 65, 60), (150, 50, 50), (200, 20, 30)]
    {
        let mut mount = Mount::of_entries(ENTRIES);
        let objects = 0..ENTRIES * percent / 100;
        let epochs: Vec<u64> = (0..6).map(|_| mount.epoch(objects.clone())).collect();
        println!("{percent} % of the cache: hits of each epoch {epochs:?}");
        assert_eq!(epochs[0], 0);
        assert!(epochs[1] >= second_min, "{percent} %: {epochs:?}");
        assert!(
            epochs[2..].iter().all(|hits| *hits >= later_min),
            "{percent} %: {epochs:?}"
        );
    }
}

#[test]
fn a_new_workload_takes_over() {
    let mut mount = Mount::of_entries(ENTRIES);
    for _ in 0..4 {
        mount.epoch(0..900);
    }
    let epochs: Vec<u64> = (0..8).map(|_| mount.epoch(10_000..10_800)).collect();
    println!("after another workload: {epochs:?}");
    assert!(epochs[7] >= 90, "{epochs:?}");
    // And after a scan, which leaves nothing worth to stay.
    let mut mount = Mount::of_entries(ENTRIES);
    mount.epoch(20_000..25_000);
    let epochs: Vec<u64> = (0..6).map(|_| mount.epoch(0..900)).collect();
    println!("after a scan: {epochs:?}");
    assert!(epochs[5] >= 80, "{epochs:?}");
}

#[test]
fn the_limit_holds_for_all_processes_together() {
    let mut first = Mount::of_entries(100);
    let mut mounts: Vec<Mount> = (0..3)
        .map(|_| {
            Mount::on(
                first.disk.other_process(),
                first.clock.clone(),
                Some(100 * ENTRY),
            )
        })
        .collect();
    for object in 0..1000 {
        first.read(object);
        for (mount, number) in mounts.iter_mut().zip(1..) {
            mount.read(10_000 * number + object);
        }
        assert!(first.disk.allocated() <= 100 * ENTRY, "at {object}");
    }
    assert!(first.entries() >= 60, "{}", first.entries());
    let known = first.room.stats();
    assert!(known.evicted > 0 && known.evicted_bytes == known.evicted * ENTRY);
}

#[test]
fn entries_are_bounded() {
    // The disk is large, and the limit of entries 2000.
    let mut mount = Mount::new(None, 100_000 * GIB);
    for object in 0..2500 {
        mount.read(object);
        assert!(mount.entries() <= 2000);
    }
    assert!(mount.entries() >= 1950);
}

#[test]
fn a_disk_that_others_fill_gets_its_room_back() {
    // A twentieth of it, 100 MiB, stays free.
    let mut mount = Mount::new(None, 2000 * MIB);
    mount.epoch(0..2500);
    let free = |mount: &Mount| mount.storage.space().unwrap().available;
    assert!(free(&mount) >= 100 * MIB);
    assert!(free(&mount) < 200 * MIB);
    let before = mount.entries();
    for foreign in (0..=2000).step_by(50) {
        mount.disk.occupy(foreign * MIB);
        mount.settle();
        // The estimate takes a block.
        assert!(foreign >= 1900 || free(&mount) >= 100 * MIB, "{foreign}");
        assert!(foreign != 1000 || mount.entries() > before - 1100);
    }
    assert_eq!(mount.entries(), 0);
    assert!(!mount.room.admits(1));
    // And the cache takes it again when it is free.
    mount.disk.occupy(0);
    mount.epoch(0..10);
    mount.epoch(0..10);
    assert!(mount.entries() >= 9);
}

#[test]
fn open_files_do_not_have_the_whole_cache_removed() {
    let mut mount = Mount::new(None, 2000 * MIB);
    mount.epoch(0..1850);
    let open: Vec<_> = mount
        .names()
        .into_iter()
        .map(|name| mount.storage.open(name, FileKind::Data).unwrap())
        .collect();
    let before = mount.entries();
    mount.disk.occupy(100 * MIB);
    mount.settle();
    let removed = before - mount.entries();
    assert!((50..100).contains(&removed), "{removed}");
    drop(open);
}

#[test]
fn a_lost_or_wrong_estimate_is_corrected() {
    let mut mount = Mount::of_entries(ENTRIES);
    mount.epoch(0..500);
    let known = |mount: &Mount| (mount.room.stats().entries, mount.room.stats().bytes);
    assert_eq!(known(&mount), (500, 500 * ENTRY));
    let set = |mount: &Mount, bytes, entries| {
        let wrong = |usage: &mut crate::cache::storage::Usage| {
            usage.remove(u64::MAX, u64::MAX);
            usage.store(bytes, entries, SystemTime::UNIX_EPOCH);
        };
        mount.storage.update_usage(&mut { wrong }).unwrap();
    };
    // Wrong in both directions; each mount begins with what is told, and counts after a while.
    for wrong in [(0, 0), (900 * ENTRY, 900)] {
        set(&mount, wrong.0, wrong.1);
        mount.clock.advance(Duration::from_secs(7 * 60 * 60));
        let count = mount.disk.lists();
        mount.settle();
        assert_eq!(known(&mount), (500, 500 * ENTRY));
        assert_eq!(mount.disk.lists() - count, 256);
    }
    // Lost, by a power failure.
    for seed in 0..20 {
        let mount = {
            let disk = SimulatedDisk::timed(seed, &mount.clock);
            for object in 0..500 {
                let times = (mount.clock.wall(), mount.clock.wall());
                claim(&disk, object, FileKind::Data, ENTRY, times);
            }
            Mount::on(disk.restart(), mount.clock.clone(), None)
        };
        let entries = mount.entries();
        drop(mount);
        assert!(entries <= 500);
    }
}

#[test]
fn leftovers_go_and_new_entries_stay() {
    let mut mount = Mount::of_entries(ENTRIES);
    let now = mount.clock.wall();
    let (old, new) = (
        now - Duration::from_secs(601),
        now - Duration::from_secs(599),
    );
    claim(&mount.disk, 1, FileKind::Data, ENTRY, (old, old));
    claim(&mount.disk, 2, FileKind::Index, 4096, (old, old));
    claim(&mount.disk, 3, FileKind::Data, ENTRY, (new, new));
    mount.claim(4, old);
    mount.clock.advance(Duration::from_secs(7 * 60 * 60));
    // Not ten minutes old when it is counted.
    let now = mount.clock.wall();
    claim(&mount.disk, 5, FileKind::Data, ENTRY, (now, now));
    mount.settle();
    let mut left = mount.names();
    left.sort_unstable();
    let mut expected = vec![name(4), name(5)];
    expected.sort_unstable();
    assert_eq!(left, expected);
}

#[test]
fn one_process_evicts_at_a_time() {
    let mut mount = Mount::of_entries(100);
    mount.epoch(0..99);
    let other = Storage::simulated(&mount.disk.other_process());
    let right = other.lock_eviction().unwrap().unwrap();
    let before = mount.entries();
    mount.epoch(1000..1200);
    assert!(mount.entries() <= 100, "nothing is stored without room");
    assert!(mount.entries() >= before, "and nothing is evicted");
    drop(right);
    mount.epoch(1200..1300);
    assert!(mount.room.stats().evicted > 0);
}

#[test]
fn failures_of_the_disk_end_no_store_and_no_thread() {
    use DiskOperation::{List, OpenOrCreate, Remove, Space};
    for operation in [List, Remove, Space, OpenOrCreate] {
        let mut mount = Mount::of_entries(100);
        mount.epoch(0..99);
        mount.disk.fail(operation, io::ErrorKind::Other);
        mount.epoch(100..300);
        assert!(mount.disk.allocated() <= 100 * ENTRY, "{operation:?}");
        mount.disk.repair();
        mount.clock.advance(Duration::from_secs(100));
        mount.settle();
        mount.epoch(300..400);
        assert!(mount.disk.allocated() <= 100 * ENTRY, "{operation:?}");
        assert!(mount.entries() >= 60, "{operation:?}: {}", mount.entries());
    }
}

#[test]
fn a_process_may_be_killed_at_every_step_of_eviction() {
    for step in 1.. {
        let mut mount = Mount::of_entries(40);
        mount.epoch(0..39);
        let before = mount.disk.operations();
        mount.disk.fail_at(step, SimulatedFault::Kill(0));
        for object in 100..115 {
            mount.clock.advance(Duration::from_secs(3));
            if mount.room.admits(ENTRY) {
                mount.claim(object, mount.clock.wall());
            }
            mount.settle();
        }
        if mount.disk.operations() < before + step {
            assert!(step > 40, "{step} steps in all");
            break;
        }
        let disk = mount.disk.other_process();
        let clock = mount.clock.clone();
        drop(mount);
        clock.advance(Duration::from_secs(7 * 60 * 60));
        let mut mount = Mount::on(disk, clock, Some(40 * ENTRY));
        mount.epoch(1000..1080);
        assert!(mount.disk.allocated() <= 41 * ENTRY, "step {step}");
        assert!(mount.entries() >= 25, "step {step}: {}", mount.entries());
    }
}

#[test]
fn a_mount_waits_for_no_listing_and_its_thread_ends_with_it() {
    let clock = Clock::monotonic();
    let disk = disk(100 * GIB, &clock);
    disk.hold(DiskOperation::List);
    let limits = RoomLimits {
        bytes_max: Some(GIB),
        ..RoomLimits::default()
    };
    let shared = Storage::simulated(&disk);
    let room = Room::start(Arc::clone(&shared), limits, clock);
    assert!(room.admits(MIB));
    disk.when_waiting(1);
    assert!(room.admits(MIB), "while the entries are being counted");
    drop(room);
    disk.repair();
    while Arc::strong_count(&shared) > 1 {
        std::thread::yield_now();
    }
}

#[test]
fn the_thread_grants_what_is_left_and_evicts() {
    let clock = Clock::monotonic();
    let disk = disk(100 * GIB, &clock);
    let limits = RoomLimits {
        bytes_max: Some(100 * ENTRY),
        ..RoomLimits::default()
    };
    let room = Room::start(Storage::simulated(&disk), limits, clock.clone());
    let mut stored = 0;
    while room.stats().evicted < 100 {
        if room.admits(ENTRY) {
            let now = clock.wall();
            claim(&disk, stored, FileKind::Data, ENTRY - 4096, (now, now));
            claim(&disk, stored, FileKind::Index, 4096, (now, now));
            stored += 1;
        }
        assert!(disk.allocated() <= 100 * ENTRY);
    }
    assert!(stored >= 100);
}
