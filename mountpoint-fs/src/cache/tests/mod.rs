//! Entries on a disk that lies, forgets, fails and waits.

mod schedules;

use std::io::ErrorKind;
use std::ops::Range;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use mountpoint_client::types::{ETag, Key};
use mountpoint_crt_sys::block::BlockPool;

use super::cache::{Cache, CacheParts};
use super::disk::Disk;
use super::entry::{Entry, Place};
use super::eviction::{Room, RoomLimits};
use super::identity::{CachedVersion, StoreId};
use super::index::{Extent, Header, RECORD_LEN, Record};
use super::storage::{EntryName, FileKind, Storage, path};
use crate::clock::Clock;
use crate::local_disk::test_disk::{DiskOperation, SimulatedDisk, SimulatedFault};
use crate::memory::Budget;
use crate::operation::Slices;

const KIB: u64 = 1 << 10;

/// Three chunks and a short one.
const SIZE: u64 = 200 * KIB + 77;

const WHOLE: Range<u64> = 0..SIZE;

/// The bytes of the object, and more behind its end.
fn content(range: Range<u64>) -> Vec<u8> {
    let byte = |at: u64| u8::try_from(at % 251).unwrap() ^ u8::try_from(at >> 8 & 0xff).unwrap();
    static OBJECT: OnceLock<Vec<u8>> = OnceLock::new();
    let object = OBJECT.get_or_init(|| WHOLE.map(byte).collect());
    let place = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
    match object.get(place) {
        Some(bytes) => bytes.to_vec(),
        None => range.map(byte).collect(),
    }
}

fn slices(range: Range<u64>) -> Slices {
    let bytes = content(range);
    let mut fill = BlockPool::new(0).allocate(bytes.len());
    fill.append(&bytes);
    let mut slices = Slices::new();
    slices.push((fill.block(), 0..bytes.len()));
    slices
}

fn version() -> CachedVersion {
    CachedVersion {
        store: StoreId::default(),
        key: Key::parse("key").unwrap(),
        etag: ETag::from_header("\"1\""),
        size: SIZE,
    }
}

fn name() -> EntryName {
    version().name()
}

/// A process that uses a disk.
struct Process {
    disk: Arc<Disk>,
}

impl Process {
    fn new(storage: &SimulatedDisk) -> Self {
        Self::booted(storage, "boot")
    }

    fn booted(storage: &SimulatedDisk, boot: &str) -> Self {
        // Later than all that is on the disk, but not so much that the room's thread removes an
        // entry which has only one of its files yet.
        let clock = Clock::manual();
        clock.advance(Duration::from_secs(300));
        let room = room(storage, &clock);
        let disk = Disk::new(Storage::simulated(storage), room, clock, boot.to_owned());
        Self { disk }
    }

    fn entry(&self) -> Entry {
        let entry = Entry::new(version(), name(), Arc::clone(&self.disk));
        entry.load();
        entry
    }
}

fn storage() -> SimulatedDisk {
    seeded(0)
}

fn seeded(seed: u64) -> SimulatedDisk {
    let storage = SimulatedDisk::new(seed);
    storage.limit(1 << 30);
    storage
}

/// The room of a cache. Its thread meets no faults, and has looked at the disk.
fn room(storage: &SimulatedDisk, clock: &Clock) -> Arc<Room> {
    let storage = Storage::simulated(&storage.other_process());
    let room = Room::start(storage, RoomLimits::default(), clock.clone());
    while !room.admits(1) {
        std::thread::yield_now();
    }
    room
}

/// The bytes of `range` as the entry has them; `None` for a miss. Panics if they are wrong.
#[track_caller]
fn read(entry: &Entry, range: Range<u64>) -> Option<()> {
    let len = usize::try_from(range.end - range.start).unwrap();
    let mut fill = BlockPool::new(0).allocate(len);
    let is_full = entry.read(&range, &mut fill, &|| ());
    let valid = fill.filled() as u64;
    assert_eq!(is_full, valid == range.end - range.start);
    assert!(
        fill.bytes() == content(range.start..range.start + valid),
        "{range:?}"
    );
    is_full.then_some(())
}

fn stored(storage: &SimulatedDisk) -> Entry {
    let entry = Process::new(storage).entry();
    entry.store(&WHOLE, &slices(WHOLE));
    entry
}

/// Small reads at odd places, again and again.
#[test]
fn many_small_extents_are_kept_joined_and_the_index_stays_short() {
    let storage = storage();
    let entry = Process::new(&storage).entry();
    let chunk = 0..64 * KIB;
    let steps = (0..600).map(|step| step * 7919 % (64 * KIB - 3000));
    for at in steps.clone() {
        let range = at..at + 3000;
        entry.store(&range, &slices(range.clone()));
    }
    // Those whose place was taken by others are stored again.
    for at in steps.clone() {
        let range = at..at + 3000;
        entry.store(&range, &slices(range.clone()));
        read(&entry, range).unwrap();
    }
    let len = storage.len(&path(name(), FileKind::Index)).unwrap();
    assert!(len < 100 * RECORD_LEN as u64, "{len}");
    for at in steps {
        let range = at..at + 3000;
        entry.store(&range, &slices(range.clone()));
        read(&entry, range).unwrap();
    }
    assert_eq!(storage.len(&path(name(), FileKind::Index)), Some(len));
    read(&Process::new(&storage).entry(), 0..60 * KIB).unwrap();
    // Extents that stay apart.
    let far = 64 * KIB..128 * KIB;
    for at in (far.start..far.end - 100).step_by(200).cycle().take(2000) {
        let range = at..at + 100;
        entry.store(&range, &slices(range.clone()));
    }
    let longer = storage.len(&path(name(), FileKind::Index)).unwrap();
    assert_eq!(longer, len + 16 * RECORD_LEN as u64);
    entry.store(&chunk, &slices(chunk.clone()));
    read(&entry, chunk).unwrap();
}

/// A version of a TiB, whose index file has this many extents of a byte, each in its own chunk.
fn large_version(storage: &SimulatedDisk, name: &str, extents: u64) -> CachedVersion {
    let version = CachedVersion {
        key: Key::parse(name).unwrap(),
        size: 1 << 40,
        ..version()
    };
    let name = version.name();
    let storage = Storage::simulated(storage);
    storage.create(name, FileKind::Data).unwrap();
    let index = storage.create(name, FileKind::Index).unwrap().unwrap();
    let header = Header::encode(&version);
    let salt = Header::decode(&header).unwrap().salt;
    let records = (0..extents).map(|number| Extent {
        start: number * 64 * KIB,
        len: 1,
        crc: 0,
    });
    let records = records.flat_map(|extent| Record::Stored(extent).encode(salt));
    let bytes: Vec<u8> = header.into_iter().chain(records).collect();
    index.append(&bytes).unwrap();
    version
}

#[test]
fn an_overgrown_index_is_used_as_far_as_its_share_of_the_memory_goes_and_grows_no_more() {
    let storage = storage();
    let version = large_version(&storage, "overgrown", 100_000);
    let name = version.name();
    let process = Process::new(&storage);
    let budget = Budget::new(16 << 20);
    process.disk.index_memory.count_in(&budget);
    let open = || {
        let entry = Entry::new(version.clone(), name, Arc::clone(&process.disk));
        entry.load();
        entry
    };
    let entry = open();
    let used = process.disk.index_memory.used();
    assert!((500_000..=1 << 20).contains(&used), "{used}");
    assert_eq!(budget.used(), used);
    assert_eq!(entry.place(&(0..1)), Place::Disk);
    let last = 99_999 * 64 * KIB..99_999 * 64 * KIB + 1;
    assert_eq!(entry.place(&last), Place::Elsewhere);
    let len = storage.len(&path(name, FileKind::Index));
    entry.store(&last, &slices(last.clone()));
    assert_eq!(storage.len(&path(name, FileKind::Index)), len);
    assert_eq!(process.disk.counters.stats().dropped, 1);
    let other = open();
    assert!(process.disk.index_memory.used() <= 1 << 20);
    drop((entry, other));
    assert_eq!((process.disk.index_memory.used(), budget.used()), (0, 0));
}

#[test]
fn many_open_entries_share_the_memory_of_indexes_and_leave_it_to_the_next() {
    let storage = storage();
    let process = Process::new(&storage);
    let budget = Budget::new(16 << 20);
    process.disk.index_memory.count_in(&budget);
    let versions = (0..400).map(|number| large_version(&storage, &format!("{number}"), 100));
    let mut open: Vec<_> = versions
        .map(|version| Entry::new(version.clone(), version.name(), Arc::clone(&process.disk)))
        .inspect(Entry::load)
        .collect();
    let used = process.disk.index_memory.used();
    assert!(used <= 1 << 20 && used == budget.used(), "{used}");
    let first = 0..1;
    assert_eq!(open[0].place(&first), Place::Disk);
    assert_eq!(open[399].place(&first), Place::Elsewhere);
    let version = large_version(&storage, "next", 100);
    open.drain(..200);
    let next = Entry::new(version.clone(), version.name(), Arc::clone(&process.disk));
    next.load();
    assert_eq!(next.place(&first), Place::Disk);
    // An entry that is stored takes from the same share.
    let new = Entry::new(
        version.clone(),
        EntryName([7; 16]),
        Arc::clone(&process.disk),
    );
    let before = process.disk.index_memory.used();
    new.store(&(0..64 * KIB), &slices(0..64 * KIB));
    assert!((before + 1..before + 1000).contains(&process.disk.index_memory.used()));
    drop((open, next, new));
    assert_eq!(budget.used(), 0);
}

#[test]
fn a_longer_file_without_an_index_is_no_file_of_the_object() {
    let storage = storage();
    Storage::simulated(&storage)
        .create(name(), FileKind::Data)
        .unwrap();
    storage.set_len(&path(name(), FileKind::Data), SIZE + 8000);
    let process = Process::new(&storage);
    assert!(read(&process.entry(), WHOLE).is_none());
    let entry = process.entry();
    entry.store(&WHOLE, &slices(WHOLE));
    read(&entry, WHOLE).unwrap();
    assert_eq!(storage.len(&path(name(), FileKind::Data)), Some(SIZE));
    assert!(entry.whole_file().is_none() || !entry.needs_comparing());
}

/// The client takes no longer ETags than the longest here; an object without one has no versions.
#[test]
fn the_longest_etag_makes_an_entry_and_none_makes_no_entry() {
    let storage = storage();
    let process = Process::new(&storage);
    let longest = "e".repeat(ETag::LEN_MAX - 2);
    for (etag, is_kept) in [(longest.as_str(), true), ("", false)] {
        let version = CachedVersion {
            etag: ETag::from_header(etag),
            ..version()
        };
        let name = version.name();
        let entry = Entry::new(version, name, Arc::clone(&process.disk));
        entry.store(&WHOLE, &slices(WHOLE));
        assert_eq!(read(&entry, WHOLE).is_some(), is_kept, "{etag:?}");
    }
}

#[test]
fn what_is_stored_is_read_by_this_process_and_the_next() {
    let storage = storage();
    let ranges = [
        WHOLE,
        0..1,
        SIZE - 1..SIZE,
        5..70 * KIB,
        64 * KIB..128 * KIB,
        63 * KIB..130 * KIB,
    ];
    for entry in [
        stored(&storage),
        Process::new(&storage.other_process()).entry(),
    ] {
        for range in ranges.clone() {
            assert_eq!(entry.place(&range), Place::Disk);
            read(&entry, range).expect("a hit");
        }
    }
}

#[test]
fn pieces_of_any_size_make_a_whole() {
    let storage = storage();
    let entry = Process::new(&storage).entry();
    for piece in [30 * KIB..90 * KIB, 0..40 * KIB, 80 * KIB..SIZE] {
        assert_eq!(entry.place(&WHOLE), Place::Elsewhere);
        entry.store(&piece, &slices(piece.clone()));
        read(&entry, piece).expect("a hit");
    }
    assert_eq!(read(&entry, 10 * KIB..SIZE), Some(()));
    let next = Process::new(&storage).entry();
    assert_eq!(read(&next, WHOLE), Some(()));
}

#[test]
fn a_range_is_divided_where_bytes_begin_and_end() {
    let storage = storage();
    let entry = Process::new(&storage).entry();
    entry.store(&(64 * KIB..128 * KIB), &slices(64 * KIB..128 * KIB));
    let parts = entry.divide(&WHOLE, 3).unwrap();
    assert_eq!(parts, [0..64 * KIB, 64 * KIB..128 * KIB, 128 * KIB..SIZE]);
    assert_eq!(entry.divide(&WHOLE, 2), None);
    assert_eq!(entry.divide(&(0..64 * KIB), 3), None);
}

#[test]
fn each_flipped_byte_of_an_index_is_a_miss_or_right() {
    let storage = storage();
    drop(stored(&storage));
    let len = storage.len(&path(name(), FileKind::Index)).unwrap();
    for offset in 0..len {
        let process = Process::new(&storage.other_process());
        storage.flip(&path(name(), FileKind::Index), offset, 0x10);
        let entry = process.entry();
        assert_eq!(read(&entry, WHOLE), None, "byte {offset}");
        assert_eq!(
            storage.len(&path(name(), FileKind::Index)),
            None,
            "byte {offset}: not removed"
        );
        assert_eq!(process.disk.counters.stats().damaged, 1);
        entry.store(&WHOLE, &slices(WHOLE));
        assert_eq!(storage.len(&path(name(), FileKind::Index)), Some(len));
    }
}

#[test]
fn each_cut_of_the_files_is_a_miss_or_right() {
    let storage = storage();
    let header = {
        let entry = Process::new(&storage).entry();
        entry.store(&(0..1), &slices(0..1));
        storage.len(&path(name(), FileKind::Index)).unwrap() - RECORD_LEN as u64
    };
    drop(stored(&storage));
    let len = storage.len(&path(name(), FileKind::Index)).unwrap();
    for end in 0..len {
        storage.set_len(&path(name(), FileKind::Index), end);
        let entry = Process::new(&storage.other_process()).entry();
        let is_right = read(&entry, WHOLE).is_some();
        // Without its last note, an index is as good.
        let is_whole =
            end >= len - 2 * RECORD_LEN as u64 && (end - header) % RECORD_LEN as u64 == 0;
        assert!(!is_right || is_whole, "cut at {end} of {len}");
        entry.store(&WHOLE, &slices(WHOLE));
        read(&entry, WHOLE).expect("stored again");
    }
    for end in [0, 1, 64 * KIB, SIZE - 1] {
        storage.set_len(&path(name(), FileKind::Data), end);
        let entry = Process::new(&storage.other_process()).entry();
        assert_eq!(read(&entry, WHOLE), None, "data cut at {end}");
        entry.store(&WHOLE, &slices(WHOLE));
    }
}

#[test]
fn each_flipped_byte_of_the_data_is_noticed() {
    let storage = storage();
    drop(stored(&storage));
    for offset in (0..SIZE).step_by(4099) {
        storage.flip(&path(name(), FileKind::Data), offset, 1);
        let entry = Process::new(&storage.other_process()).entry();
        assert_eq!(read(&entry, WHOLE), None, "byte {offset}");
        assert_eq!(storage.len(&path(name(), FileKind::Data)), None);
        entry.store(&WHOLE, &slices(WHOLE));
    }
}

#[test]
fn a_fault_at_any_step_leaves_a_miss_or_what_is_right() {
    let kills = [0, 1, 30, 4096].map(SimulatedFault::Kill);
    let others = [0, 1].map(|_| SimulatedFault::Fail(ErrorKind::Other));
    for step in 1.. {
        for (fault, seed) in kills.into_iter().chain(others).zip(step..) {
            let storage = seeded(seed);
            let victim = storage.other_process();
            let entry = Process::new(&victim).entry();
            entry.store(&(0..70 * KIB), &slices(0..70 * KIB));
            let before = victim.operations();
            victim.fail_at(step, fault);
            entry.store(&WHOLE, &slices(WHOLE));
            let is_over = victim.operations() - before < step;
            let next = Process::new(&storage).entry();
            read(&next, WHOLE);
            next.store(&WHOLE, &slices(WHOLE));
            read(&next, WHOLE).expect("stored again");
            if is_over {
                return;
            }
        }
    }
}

#[test]
fn lost_power_leaves_a_miss_or_what_is_right() {
    for seed in 0..200 {
        let storage = seeded(seed);
        drop(stored(&storage));
        let storage = storage.restart();
        let entry = Process::booted(&storage, "next boot").entry();
        read(&entry, WHOLE);
        entry.store(&WHOLE, &slices(WHOLE));
        // Bytes that the index still has may be lost: that shows when they are read.
        read(&entry, WHOLE);
        entry.store(&WHOLE, &slices(WHOLE));
        read(&entry, WHOLE).expect("stored again");
    }
}

#[test]
fn a_disk_that_fails_is_a_miss() {
    use DiskOperation::{Append, Create, Open, Read, Remove, Touch, Write};
    for operation in [Open, Create, Read, Write, Append, Touch, Remove] {
        for error in [
            ErrorKind::StorageFull,
            ErrorKind::ReadOnlyFilesystem,
            ErrorKind::Other,
        ] {
            let storage = storage();
            drop(stored(&storage));
            let broken = storage.other_process();
            broken.fail(operation, error);
            let process = Process::new(&broken);
            let entry = process.entry();
            read(&entry, WHOLE);
            entry.store(&WHOLE, &slices(WHOLE));
            read(&entry, WHOLE);
            broken.repair();
            let entry = process.entry();
            entry.store(&WHOLE, &slices(WHOLE));
            read(&entry, WHOLE).unwrap_or_else(|| panic!("{operation:?} {error:?}"));
        }
    }
}

#[test]
fn two_processes_store_at_once() {
    let storage = storage();
    let processes = [storage.other_process(), storage.other_process()];
    std::thread::scope(|scope| {
        for process in &processes {
            scope.spawn(|| {
                let entry = Process::new(process).entry();
                for start in (0..SIZE).step_by(8 << 10) {
                    let range = start..(start + 8 * KIB).min(SIZE);
                    entry.store(&range, &slices(range.clone()));
                    read(&entry, 0..range.end);
                }
            });
        }
    });
    let next = Process::new(&storage).entry();
    next.store(&WHOLE, &slices(WHOLE));
    read(&next, WHOLE).expect("all of it");
}

#[test]
fn an_evicted_entry_is_read_while_it_is_open_and_stored_anew() {
    let storage = storage();
    let process = Process::new(&storage);
    let entry = process.entry();
    entry.store(&(0..100 * KIB), &slices(0..100 * KIB));
    Storage::simulated(&storage).remove(name()).unwrap();
    read(&entry, 0..100 * KIB).expect("still open");
    entry.store(&WHOLE, &slices(WHOLE));
    read(&entry, WHOLE).expect("stored anew");
    let next = Process::new(&storage).entry();
    read(&next, WHOLE).expect("under its name");
}

#[test]
fn a_whole_entry_is_compared_once_since_boot() {
    let storage = storage();
    // This process has stored all bytes itself.
    assert!(!stored(&storage).needs_comparing());
    assert!(!Process::new(&storage).entry().needs_comparing());
    let entry = Process::booted(&storage, "next boot").entry();
    assert!(entry.needs_comparing());
    entry.compare_all();
    assert!(!entry.needs_comparing());
    assert!(
        !Process::booted(&storage, "next boot")
            .entry()
            .needs_comparing()
    );
    storage.flip(&path(name(), FileKind::Data), 1000, 1);
    let entry = Process::booted(&storage, "third boot").entry();
    assert!(entry.needs_comparing());
    entry.compare_all();
    assert!(!entry.needs_comparing());
    assert_eq!(read(&entry, WHOLE), None);
}

#[test]
fn another_version_is_another_entry() {
    let storage = storage();
    drop(stored(&storage));
    let process = Process::new(&storage);
    let other = CachedVersion {
        etag: ETag::from_header("\"2\""),
        ..version()
    };
    // Under a name that two versions would share.
    let entry = Entry::new(other, name(), Arc::clone(&process.disk));
    entry.load();
    assert_eq!(read(&entry, WHOLE), None);
}

fn cache(storage: &SimulatedDisk, clock: &Clock) -> Arc<Cache> {
    let room = room(storage, clock);
    let parts = CacheParts {
        listings: None,
        store: StoreId::default(),
        boot: "boot".to_owned(),
        fill_bytes_max: 300 * KIB,
        clear_at_exit: false,
    };
    Cache::over(Storage::simulated(storage), room, parts, clock.clone()).unwrap()
}

#[test]
fn fills_are_dropped_while_the_disk_is_slow() {
    let storage = storage();
    let clock = Clock::manual();
    let cache = cache(&storage, &clock);
    let object = cache.object(&version().key, &version().etag, SIZE);
    storage.hold(DiskOperation::Write);
    object.store(&WHOLE, slices(WHOLE));
    storage.when_waiting(1);
    object.store(&WHOLE, slices(WHOLE));
    assert_eq!(cache.stats().dropped, 1);
    storage.repair();
    cache.drain(Duration::from_secs(60));
    assert_eq!(
        (cache.stats().stored_bytes, cache.stats().dropped),
        (SIZE, 1)
    );
}

#[test]
fn a_fill_that_panics_ends_neither_the_thread_nor_the_wait_for_it() {
    let storage = storage();
    let cache = cache(&storage, &Clock::manual());
    let object = cache.object(&version().key, &version().etag, SIZE);
    storage.fail_at(1, SimulatedFault::Panic);
    object.store(&(0..KIB), slices(0..KIB));
    cache.drain(Duration::from_secs(60));
    assert_eq!(cache.stats().stored_bytes, 0);
    object.store(&WHOLE, slices(WHOLE));
    cache.drain(Duration::from_secs(60));
    assert_eq!(cache.stats().stored_bytes, SIZE);
}

#[test]
fn a_disk_that_hangs_is_not_asked() {
    let storage = storage();
    drop(stored(&storage));
    let clock = Clock::manual();
    let cache = cache(&storage, &clock);
    storage.hold(DiskOperation::Open);
    let object = cache.object(&version().key, &version().etag, SIZE);
    storage.when_waiting(1);
    assert!(object.may_have(&WHOLE));
    clock.advance(Duration::from_secs(2));
    assert!(!object.may_have(&WHOLE));
    storage.repair();
    let (sender, ended) = channel();
    let fill = BlockPool::new(0).allocate(usize::try_from(SIZE).unwrap());
    object.read(
        WHOLE,
        fill,
        || (),
        move |fill, is_full| {
            sender.send((fill.filled() as u64, is_full)).unwrap();
        },
    );
    assert_eq!(ended.recv().unwrap(), (SIZE, true));
}
