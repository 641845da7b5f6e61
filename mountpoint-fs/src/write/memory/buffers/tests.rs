//! Writers that share memory: what fits without waiting, that the bound holds, and that nobody
//! waits for ever.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};

use futures::FutureExt as _;
use mountpoint_crt_sys::block::{BlockFill, BlockPool};
use proptest::prelude::*;

use crate::clock::Clock;
use crate::config::limits::WRITE_SIZE_MAX;
use crate::memory::{Budget, Purpose, Reservation};
use crate::memory::{BufferRequest, WaitState};
use crate::sync::Mutex;
use crate::write::memory::buffers::{Grant, Lease, MemorySource, WriteMemory, least, stage};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const PART: usize = 8 * MIB;
const WHOLE: usize = PART + WRITE_SIZE_MAX;

#[test]
fn buffers_grow_in_few_steps() {
    for (len, expected, tight) in [
        (1, 4 * KIB, 4 * KIB),
        (1024, 4 * KIB, 4 * KIB),
        (4096, 4 * KIB, 8 * KIB),
        (4097, 64 * KIB, 8 * KIB),
        (65_536, 64 * KIB, 64 * KIB),
        (60_000, 64 * KIB, 64 * KIB),
        (65_537, MIB, 80 * KIB),
        (700 * KIB, MIB, 768 * KIB),
        (MIB + 1, WHOLE, MIB + 256 * KIB),
        (5 * MIB + 1, WHOLE, 6 * MIB),
        (WHOLE, WHOLE, WHOLE),
    ] {
        assert_eq!(stage(len, WHOLE), expected, "{len}");
        assert_eq!(least(len, WHOLE), tight, "{len}");
    }
}

/// Memory that nobody touches, and what reads hold of it, which they give back when they are asked.
struct Bench {
    memory: Arc<WriteMemory>,
    budget: Arc<Budget>,
    reads: Arc<Mutex<Vec<Reservation>>>,
}

impl Bench {
    fn new(limit: usize) -> Self {
        let budget = Budget::new(limit as u64);
        let reads: Arc<Mutex<Vec<Reservation>>> = Arc::default();
        let held = Arc::clone(&reads);
        let source = MemorySource {
            budget: Arc::clone(&budget),
            pool: BlockPool::new(0),
            make_room: Arc::new(move || drop(std::mem::take(&mut *held.lock()))),
        };
        Self {
            memory: WriteMemory::new(source, WHOLE as u64, Clock::manual()),
            budget,
            reads,
        }
    }

    #[track_caller]
    fn is_free(&self) {
        self.memory.make_room();
        assert_eq!((self.budget.used(), self.memory.used()), (0, 0));
    }

    /// A WRITE of `len` bytes waits.
    fn wait(&self, request: BufferRequest, len: usize) -> (Waiting, Reservation) {
        let memory = Arc::clone(&self.memory);
        let counted = memory.wait(len as u64);
        (
            Box::pin(async move { memory.take(request, 0).await }),
            counted,
        )
    }

    /// All writers that ask for memory wait; then one of them fails. Returns the writers, and the
    /// outcome of each that has stopped waiting.
    #[track_caller]
    fn fail_one_of<const N: usize>(
        &self,
        waiters: [(BufferRequest, u64); N],
    ) -> ([Waiting; N], [Option<bool>; N]) {
        let mut places = waiters.map(|(request, written)| {
            let memory = Arc::clone(&self.memory);
            let place: Waiting = Box::pin(async move { memory.take(request, written).await });
            place
        });
        for place in &mut places {
            assert!(place.now_or_never().is_none());
        }
        self.memory.fail_one();
        let ends = places
            .each_mut()
            .map(|place| place.now_or_never().map(|end| end.is_some()));
        (places, ends)
    }

    #[track_caller]
    fn is_within(&self, limit: u64, files: &[(File, usize)]) {
        let waiting = files.iter().filter_map(|(file, _)| file.waiting.as_ref());
        let waiting: u64 = waiting.map(|(_, counted)| counted.bytes()).sum();
        // Reads give back later the memory that they hold when a WRITE begins to wait.
        assert!(self.budget.used() <= limit + waiting);
        assert!(self.memory.used() + waiting <= limit - (limit / 8).max(8 << 20));
    }

    fn read(&self, bytes: u64, purpose: Purpose) {
        let reserved = self.budget.try_reserve(bytes, purpose);
        self.reads.lock().extend(reserved);
    }
}

/// The request of a file whose buffer has `len` bytes.
fn ask_of(len: usize) -> BufferRequest {
    BufferRequest {
        len: len as u64,
        least: len as u64,
        ..File::default().request(1)
    }
}

/// The request of a file that is to get room for a part.
fn large(held: u64) -> BufferRequest {
    BufferRequest {
        held,
        is_large: true,
        ..ask_of(WHOLE)
    }
}

type Waiting = Pin<Box<dyn Future<Output = Option<Grant>>>>;

/// A file that is written.
#[derive(Default)]
struct File {
    buffer: Option<(BlockFill, Arc<Lease>)>,
    /// Bytes in it.
    filled: usize,
    /// Bytes with which the buffer is sent.
    part_size: usize,
    is_large: bool,
    waiting: Option<(Waiting, Reservation)>,
}

impl File {
    fn request(&self, len: usize) -> BufferRequest {
        let len = self.filled + len;
        BufferRequest {
            held: self
                .buffer
                .as_ref()
                .map_or(0, |(_, lease)| lease.held.lock().bytes()),
            len: stage(len, WHOLE) as u64,
            least: least(len, WHOLE) as u64,
            whole: WHOLE as u64,
            shortest: 6 << 20,
            is_large: self.is_large,
        }
    }

    fn has_room(&self, len: usize) -> bool {
        let room = self.buffer.as_ref().map(|(fill, _)| fill.capacity());
        room.is_some_and(|capacity| capacity - self.filled >= len)
    }

    fn install(&mut self, grant: Grant) {
        self.part_size = PART;
        if grant.is_part() {
            self.part_size = self.filled.max(grant.len() - WRITE_SIZE_MAX);
        }
        match &mut self.buffer {
            Some((fill, lease)) if grant.held > 0 => drop(grant.grow(fill, lease)),
            buffer => *buffer = Some(grant.block()),
        }
    }

    /// Writes `len` bytes if there is room. Returns what is to be sent.
    fn write(&mut self, len: usize) -> Option<(BlockFill, Arc<Lease>)> {
        assert!(self.has_room(len));
        self.filled += len;
        if self.filled < self.part_size {
            return None;
        }
        self.is_large = true;
        self.filled = 0;
        self.buffer.take()
    }

    /// A write that takes memory if it needs some. `None` if it has to wait for memory.
    fn try_write(
        &mut self,
        memory: &Arc<WriteMemory>,
        len: usize,
    ) -> Option<Option<(BlockFill, Arc<Lease>)>> {
        if !self.has_room(len) {
            let grant = memory.try_take(self.request(len))?;
            self.install(grant);
        }
        Some(self.write(len))
    }
}

/// One thread that writes to 500 files in turn, all open, cannot be waited out: nobody else gives
/// memory back.
#[test]
fn one_thread_holds_500_files_open() {
    for (target, file, piece) in [
        (512, 700, 700),
        (512, 700, 128),
        (512, 700, 4),
        (512, 768, 128),
        (512, 750, 64),
        (256, 320, 128),
        (1024, 1500, 128),
    ] {
        let bench = Bench::new(target * MIB);
        let mut files: Vec<_> = (0..500).map(|_| File::default()).collect();
        for from in (0..file).step_by(piece) {
            let len = piece.min(file - from) * KIB;
            for (index, file) in files.iter_mut().enumerate() {
                bench.memory.writes(1, len);
                let sent = file.try_write(&bench.memory, len);
                assert!(sent.is_some(), "{target} MiB: {index} at {from} KiB");
            }
        }
        assert!(bench.budget.peak() <= (target * MIB) as u64 / 8 * 7);
        drop(files);
        bench.is_free();
    }
}

#[test]
fn who_waits_is_served_in_turn_and_who_gives_up_is_passed_over() {
    let bench = Bench::new(64 * MIB);
    let memory = &bench.memory;
    let request = ask_of;
    let all = memory.try_take(request(WHOLE - 1)).map(|_| ()).is_some();
    assert!(all, "nobody has any");
    let held: Vec<_> =
        std::iter::from_fn(|| Some(memory.try_take(request(MIB))?.block())).collect();
    let mut waiting: Vec<Waiting> = (0..4)
        .map(|_| {
            let memory = Arc::clone(memory);
            Box::pin(async move { memory.take(request(MIB), 0).await }) as Waiting
        })
        .collect();
    for place in &mut waiting {
        assert!(place.now_or_never().is_none());
    }
    assert!(memory.try_take(request(1)).is_none(), "others wait");
    drop(waiting.remove(0));
    let used = memory.used();
    drop(held);
    let granted: Vec<_> = waiting
        .into_iter()
        .map(futures::FutureExt::now_or_never)
        .collect();
    assert!(granted.iter().all(Option::is_some));
    assert!(memory.used() < used);
    drop(granted);
    bench.is_free();
}

#[test]
fn reads_give_back_what_a_writer_waits_for() {
    let bench = Bench::new(64 * MIB);
    bench.read(48 << 20, Purpose::ReadAhead);
    bench.read(15 << 20, Purpose::Demand);
    let mut file = File::default();
    assert!(file.try_write(&bench.memory, 4 * MIB).is_none());
    assert_eq!(bench.memory.used(), 0);
    let grant = bench.memory.take(file.request(4 * MIB), 0).now_or_never();
    file.install(grant.flatten().expect("reads were asked"));
    assert_eq!(bench.memory.used(), bench.budget.used());
}

#[test]
fn who_waits_only_for_reads_gets_no_more_than_others() {
    let bench = Bench::new(64 * MIB);
    bench.read(48 << 20, Purpose::ReadAhead);
    bench.read(16 << 20, Purpose::Demand);
    let mut file = File::default();
    assert!(file.try_write(&bench.memory, 4 * KIB).is_none());
    let grant = bench.memory.take(file.request(4 * KIB), 0).now_or_never();
    file.install(grant.flatten().expect("reads were asked"));
    assert_eq!(bench.memory.used(), 4096);
}

/// A small file that has waited has room for a part, which it does not fill.
#[test]
fn what_is_not_filled_of_a_part_is_given_back() {
    let bench = Bench::new(64 * MIB);
    let mut file = File::default();
    file.install(
        bench
            .memory
            .take(large(0), 0)
            .now_or_never()
            .flatten()
            .unwrap(),
    );
    let (fill, lease) = file.buffer.as_mut().unwrap();
    fill.append(&vec![5; 100 * KIB]);
    let block = fill.block();
    assert!(
        lease.is_part() && lease.cut(fill).is_none(),
        "somebody else has it"
    );
    drop(block);
    // As much as beginnings may have is held by others.
    let others: Vec<_> =
        std::iter::from_fn(|| Some(bench.memory.try_take(ask_of(MIB))?.block())).collect();
    assert!(lease.cut(fill).is_some());
    drop(others);
    assert!(!lease.is_part());
    let kept = BlockPool::memory_of(100 * KIB);
    assert_eq!((fill.capacity(), fill.filled()), (kept, 100 * KIB));
    assert_eq!(
        (bench.memory.used(), bench.budget.used()),
        (kept as u64, kept as u64)
    );
    file.filled = 100 * KIB;
    file.try_write(&bench.memory, MIB).expect("it grows again");
    drop(file);
    bench.is_free();
}

/// Tells how much of the budget is taken when it is woken.
struct Seen(Arc<Budget>, Mutex<Option<u64>>);

impl Wake for Seen {
    fn wake(self: Arc<Self>) {
        *self.1.lock() = Some(self.0.used());
    }
}

/// Otherwise reads would be asked to give back theirs for what is free already.
#[test]
fn a_writer_that_is_served_has_what_came_back() {
    let bench = Bench::new(64 * MIB);
    let memory = &bench.memory;
    let begun = |_| memory.try_take(ask_of(MIB)).unwrap().block();
    let mut held: Vec<_> = (0..40).map(begun).collect();
    let counted = memory.wait(8 << 20);
    assert_eq!(counted.bytes(), 7 << 20);
    held.push(memory.try_take(ask_of(WHOLE)).unwrap().block());
    let (mut counted, mut grants) = (Some(counted), Vec::new());
    let ends: [&mut dyn FnMut(); 2] = [&mut || drop(held.remove(0)), &mut || drop(counted.take())];
    for (end, free) in ends.into_iter().zip([1, 7]) {
        let seen = Arc::new(Seen(Arc::clone(&bench.budget), Mutex::default()));
        let waker = Waker::from(Arc::clone(&seen));
        let mut waiting = Box::pin(memory.take(ask_of(MIB), 0));
        let used = bench.budget.used();
        let polled = waiting.as_mut().poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        end();
        assert_eq!(*seen.1.lock(), Some(used - ((free - 1) << 20)));
        assert_eq!(bench.budget.deficit(), None);
        let grant = waiting.now_or_never().flatten();
        grants.push(grant.expect("it was served"));
    }
}

#[test]
fn a_beginning_that_becomes_a_part_leaves_room_for_another() {
    let bench = Bench::new(64 * MIB);
    let memory = &bench.memory;
    let begun = |_| memory.try_take(ask_of(MIB)).unwrap().block();
    let mut held: Vec<_> = (0..47).map(begun).collect();
    let grant = memory.take(large(1 << 20), 0).now_or_never().flatten();
    let mut waiting = Box::pin(memory.take(ask_of(MIB), 0));
    assert!(waiting.as_mut().now_or_never().is_none());
    let (fill, lease) = &mut held[0];
    grant.expect("a part is kept").grow(fill, lease);
    let served = waiting.now_or_never().expect("it was served");
    drop((served, held));
    bench.is_free();
}

#[test]
fn where_nothing_else_helps_who_fits_is_served_before_the_first() {
    let bench = Bench::new(64 * MIB);
    let memory = &bench.memory;
    let part = memory.take(large(0), 0).now_or_never().flatten().unwrap();
    let half = memory.try_take(ask_of(MIB / 2)).unwrap();
    let held: Vec<_> = std::iter::from_fn(|| memory.try_take(ask_of(MIB))).collect();
    let mut first = Box::pin(memory.take(ask_of(MIB), 0));
    let mut second = Box::pin(memory.take(ask_of(4 * KIB), 0));
    assert!(first.as_mut().now_or_never().is_none());
    assert!(second.as_mut().now_or_never().is_none());
    memory.serve(WaitState::Waited);
    assert!(second.as_mut().now_or_never().is_none(), "in wait");
    memory.serve(WaitState::Stuck);
    assert!(first.as_mut().now_or_never().is_none());
    let served = second.as_mut().now_or_never();
    assert!(served.flatten().is_some());
    drop((first, part, half, held));
    bench.is_free();
}

#[test]
fn one_that_holds_memory_fails_before_those_that_hold_none() {
    let bench = Bench::new(64 * MIB);
    let mut files: Vec<_> = (0..80).map(|_| File::default()).collect();
    for file in &mut files {
        file.try_write(&bench.memory, MIB);
    }
    let waiters = [(0, 9), (1, 7), (79, 0)];
    let waiters = waiters.map(|(file, written)| (files[file].request(4 * MIB), written));
    let (_places, ends) = bench.fail_one_of(waiters);
    assert_eq!(ends, [None, Some(false), None]);
}

#[test]
fn at_the_end_of_the_mount_nobody_waits_any_more() {
    let bench = Bench::new(64 * MIB);
    let held: Vec<_> = std::iter::from_fn(|| bench.memory.try_take(ask_of(MIB))).collect();
    let mut waiting = Box::pin(bench.memory.take(ask_of(MIB), 0));
    assert!(waiting.as_mut().now_or_never().is_none());
    bench.memory.fail_all();
    assert!(waiting.now_or_never().expect("it has ended").is_none());
    let later = bench.memory.take(ask_of(MIB), 0).now_or_never();
    assert!(later.expect("it does not wait").is_none());
    drop(held);
    bench.is_free();
}

#[test]
fn one_of_those_who_wait_fails_and_its_memory_serves_the_others() {
    let bench = Bench::new(64 * MIB);
    let mut files: Vec<_> = (0..80).map(|_| File::default()).collect();
    let held = files
        .iter_mut()
        .filter(|file| file.buffer.is_none())
        .map_while(|file| file.try_write(&bench.memory, MIB))
        .count();
    assert!((47..80).contains(&held), "{held}");
    // The third has least to lose.
    let waiters = [7, 3, 2, 5].map(|written| (File::default().request(MIB), written));
    let (mut places, ends) = bench.fail_one_of(waiters);
    assert_eq!(ends, [None, None, Some(false), None]);
    // The failed file gives its memory back.
    files[0].buffer = None;
    let served = places[0].as_mut().now_or_never();
    assert!(served.is_some(), "there is room for one");
}

/// A random course of writers, readers and a store, of which some files stop and stay open. Those
/// that go on must all end.
fn run(memory_mib: usize, sizes: Vec<usize>, stops: &[bool], seed: u64) {
    let bench = Bench::new(memory_mib * MIB);
    let limit = (memory_mib * MIB) as u64;
    let mut files: Vec<_> = sizes
        .into_iter()
        .map(|size| (File::default(), size))
        .collect();
    let mut in_flight: Vec<(BlockFill, Arc<Lease>)> = Vec::new();
    let mut random = seed;
    let mut idle = 0;
    while files
        .iter()
        .zip(stops)
        .any(|((_, left), stops)| *left > 0 && !stops)
    {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let (which, what) = ((random >> 48) as usize, (random >> 32) as usize & 0xffff);
        let index = which % files.len();
        let (file, left) = &mut files[index];
        let mut has_moved = false;
        // A buffer with room for a part is expected to be filled.
        let stops = stops[index] && file.filled > 300 * KIB && !file.has_room(WHOLE - file.filled);
        let len = (1 + what * 16).min(*left);
        if let Some((place, _)) = &mut file.waiting {
            if what % 16 == 0 {
                // A signal: the write is given up, and begun again.
                file.waiting = None;
            } else if let Some(grant) = place.now_or_never() {
                file.waiting = None;
                file.install(grant.expect("nobody fails"));
                has_moved = true;
            }
        } else if stops && *left > 0 {
            *left = 0;
        } else if *left > 0 {
            let request = file.request(len);
            bench.memory.writes(index as u64, len);
            if let Some(sent) = file.try_write(&bench.memory, len) {
                in_flight.extend(sent);
                *left -= len;
                has_moved = true;
                if *left == 0 && !stops {
                    in_flight.extend(file.buffer.take());
                    file.filled = 0;
                }
            } else {
                file.waiting = Some(bench.wait(request, len));
            }
        }
        match what % 7 {
            0 if !in_flight.is_empty() => drop(in_flight.swap_remove(which % in_flight.len())),
            1 => bench.read((what * 16) as u64, Purpose::ReadAhead),
            2 => bench.read(what as u64, Purpose::Demand),
            3 => {
                let wait = if in_flight.is_empty() {
                    WaitState::Stuck
                } else {
                    WaitState::Waited
                };
                bench.memory.serve(wait);
                bench.memory.make_room();
            }
            _ => {}
        }
        bench.is_within(limit, &files);
        idle = if has_moved { 0 } else { idle + 1 };
        assert!(idle < 100_000, "somebody waits for ever");
    }
    drop((files, in_flight));
    bench.is_free();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nobody_waits_for_ever_and_the_bound_holds(
        memory_mib in 24_usize..128,
        sizes in proptest::collection::vec(1_usize..24 * MIB, 1..60),
        stops in proptest::collection::vec(any::<bool>(), 60),
        seed in any::<u64>(),
    ) {
        run(memory_mib, sizes, &stops, seed);
    }
}
