//! Plans of reads: readers without bytes, alone and with a store in virtual time.

#![expect(
    clippy::single_range_in_vec_init,
    reason = "lists of one range are meant"
)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use mountpoint_client::types::Key;

use super::access::{Access, Bounds};
use super::block_map::BlockMap;
use super::latency::MinLatencies;
use super::patterns::STRIDE_RUNS_MAX;
use super::planner::{Planner, ReadPlan};
use super::proven_window::ProvenWindow;
use super::ranges::cut;
use crate::config::limits::{EXTENTS_MAX, STREAMS_MAX};
use crate::read::layout::{LayoutCache, LayoutPrefetch};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A reader without bytes that follows the planner and counts.
pub(in crate::read) struct Model {
    pub(in crate::read) planner: Planner,
    pub(in crate::read) blocks: BlockMap<()>,
    size: u64,
    min_latencies: MinLatencies,
    proven_window: ProvenWindow,
    key: Key,
    layouts: LayoutCache,
    layout: LayoutPrefetch,
    is_opened: bool,
    pub(in crate::read) fetched: u64,
}

impl Model {
    fn new(size: u64) -> Self {
        Self {
            planner: Planner::default(),
            blocks: BlockMap::default(),
            size,
            min_latencies: MinLatencies::default(),
            proven_window: ProvenWindow::default(),
            key: Key::parse("a/file").unwrap(),
            layouts: LayoutCache::default(),
            layout: LayoutPrefetch::default(),
            is_opened: true,
            fetched: 0,
        }
    }

    /// Closes the file and opens another one of its size and kind.
    pub(in crate::read) fn open_next(&mut self) {
        if let Some(read) = self.layout.finish() {
            self.layouts.keep(&self.key, self.size, read);
        }
        self.is_opened = true;
        self.planner = Planner::default();
        self.blocks = BlockMap::default();
    }

    pub(in crate::read) fn read(&mut self, offset: u64, len: u64) -> ReadPlan {
        let range = offset..(offset + len).min(self.size);
        let waits = !self.blocks.gaps(range.clone()).is_empty();
        self.read_at(range, waits, Duration::ZERO)
    }

    pub(in crate::read) fn read_at(
        &mut self,
        range: Range<u64>,
        waits: bool,
        now: Duration,
    ) -> ReadPlan {
        let access = Access {
            range: range.clone(),
            waits,
            is_alone: true,
            now,
            consumed: range.end,
        };
        let bounds = Bounds {
            size: self.size,
            part_max: 8 * MIB,
            window_max: 256 * MIB,
            streams: 1,
            min_latencies: &self.min_latencies,
            proven_window: &self.proven_window,
        };
        if std::mem::take(&mut self.is_opened)
            && let Some(known) = self.layouts.find(&self.key, self.size)
        {
            self.layout.expect(known);
        }
        let mut plan = self.planner.plan(&access, &self.blocks, &bounds);
        let planner = &self.planner;
        self.layout
            .extend(&mut plan, planner, &access, &self.blocks, &bounds);
        let gets = plan.demand.iter().chain(&plan.ahead);
        for get in gets.chain(&plan.elsewhere) {
            assert!(get.end <= self.size, "{plan:?}");
            assert!(
                get.end - get.start <= (8 * MIB + 2 * MIB).max(range.end - range.start),
                "{plan:?}"
            );
            self.fetched += get.end - get.start;
            self.blocks.insert(get.clone(), ());
        }
        assert!(self.blocks.gaps(range).is_empty(), "{plan:?}");
        let mut removed = Vec::new();
        self.blocks.remove_inside(&plan.done, &mut removed);
        if plan.is_time_to_retire {
            let asked = self.planner.asked_ahead();
            let wanted: Vec<_> = asked.chain(self.layout.asked_ahead()).collect();
            let overlaps =
                |held: &Range<u64>, it: &Range<u64>| it.start < held.end && held.start < it.end;
            let is_wanted = |held: &Range<u64>| wanted.iter().any(|it| overlaps(held, it));
            self.blocks
                .remove_if(|held, ()| !is_wanted(held), &mut removed);
        }
        assert!(self.planner.history.iter().count() <= EXTENTS_MAX);
        assert!(self.planner.stream_count() <= STREAMS_MAX);
        plan
    }
}

/// A read, its demand and its read-ahead: `(offset, len)`, then `(from, to)`, all in KiB.
type Step<'a> = ((u64, u64), &'a [(u64, u64)], &'a [(u64, u64)]);

#[track_caller]
fn check(size_kib: u64, steps: &[Step<'_>]) {
    let mut model = Model::new(size_kib * KIB);
    for ((offset, len), demand, ahead) in steps {
        let plan = model.read(offset * KIB, len * KIB);
        let kib = |ranges: &[Range<u64>]| -> Vec<_> {
            ranges
                .iter()
                .map(|range| (range.start / KIB, range.end / KIB))
                .collect()
        };
        assert_eq!(
            (&*kib(&plan.demand), &*kib(&plan.ahead)),
            (*demand, *ahead),
            "read of {len} at {offset}"
        );
    }
}

#[test]
fn random_reads_are_exact() {
    check(
        1 << 20,
        &[
            ((7000, 4), &[(7000, 7004)], &[]),
            ((500, 128), &[(500, 628)], &[]),
            ((9000, 1024), &[(9000, 10024)], &[]),
            ((0, 4), &[(0, 4)], &[]),
        ],
    );
}

#[test]
fn a_small_file_is_one_request() {
    check(
        100,
        &[
            ((0, 4), &[(0, 100)], &[]),
            ((4, 64), &[], &[]),
            ((68, 128), &[], &[]),
        ],
    );
    check(
        1024,
        &[((0, 128), &[(0, 1024)], &[]), ((128, 128), &[], &[])],
    );
    check(100, &[((50, 4), &[(50, 54)], &[])]);
}

#[test]
fn a_header_is_one_first_range() {
    check(1 << 20, &[((0, 4), &[(0, 128)], &[]), ((4, 4), &[], &[])]);
}

#[test]
fn the_second_read_in_sequence_opens_the_window() {
    check(
        1 << 20,
        &[
            ((4096, 128), &[(4096, 4224)], &[]),
            (
                (4224, 128),
                &[(4224, 4352)],
                &[(4352, 4608), (4608, 5120), (5120, 5632), (5632, 6144)],
            ),
            ((4352, 128), &[], &[]),
        ],
    );
}

#[test]
fn the_end_of_what_was_asked_ahead_is_behind_the_window() {
    let mut model = Model::new(1 << 30);
    assert_eq!(model.planner.asked_until(MIB), MIB, "nothing was read");
    model.read(0, MIB);
    let plan = model.read(MIB, MIB);
    let end = plan.ahead.last().expect("it is a stream").end;
    assert_eq!(model.planner.asked_until(3 * MIB), end);
    assert_eq!(model.planner.asked_until(end), end);
    assert_eq!(
        model.planner.asked_until(0),
        end,
        "a call that was overtaken"
    );
}

#[test]
fn a_large_first_read_opens_it_at_once() {
    check(
        1 << 20,
        &[
            (
                (0, 128),
                &[(0, 256)],
                &[(256, 512), (512, 768), (768, 1024)],
            ),
            ((128, 128), &[], &[(1024, 1280)]),
        ],
    );
}

#[test]
fn small_reads_open_a_small_window() {
    check(
        1 << 20,
        &[
            ((4096, 4), &[(4096, 4100)], &[]),
            ((4100, 4), &[(4100, 4104)], &[]),
            ((4104, 4), &[(4104, 4108)], &[]),
            ((4108, 4), &[(4108, 4224)], &[]),
            ((4112, 4), &[], &[]),
        ],
    );
}

#[test]
fn a_read_that_the_kernel_cuts_is_one_request() {
    let mut model = Model::new(1 << 40);
    let mut state = 7_u64;
    for lost in [1, 16, 512, 4095] {
        for _ in 0..20 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
            let start = (state >> 30) % (1 << 20) * MIB;
            let plan = model.read(start, MIB - lost);
            assert_eq!(
                (plan.demand, plan.ahead),
                (vec![start..start + MIB], vec![])
            );
            let plan = model.read(start + MIB - lost, lost);
            assert_eq!((plan.demand, plan.ahead), (vec![], vec![]));
        }
    }
    assert_eq!(model.planner.stream_count(), 0);
    // Reads behind the rest are sequential.
    let mut model = Model::new(1 << 40);
    model.read(5 << 30, MIB - 16);
    model.read((5 << 30) + MIB - 16, 16);
    let plan = model.read((5 << 30) + MIB, MIB - 16);
    assert!(!plan.ahead.is_empty());
    // The end of the file is not at a page boundary.
    let mut model = Model::new(10 * MIB + 100);
    model.read(0, 10);
    let plan = model.read(9 * MIB + 96, MIB - 16);
    assert_eq!(plan.demand, [9 * MIB + 96..10 * MIB + 100]);
}

#[test]
fn cut_reads_at_a_constant_distance_are_asked_for_once() {
    for (len, lost, step) in [
        (2 * MIB, 16, 64 * MIB),
        (4 * MIB, 16, 64 * MIB),
        (3 * MIB / 2, 2048, 64 * MIB),
        (2 * MIB, 16, 16 * MIB),
        (2 * MIB, 4095, 2 * MIB + 4096),
        (2 * MIB, 16, 3 * MIB),
    ] {
        let mut model = Model::new(1 << 40);
        for run in 1..40 {
            // The kernel cuts a read into a buffer that begins within a page.
            let (mut at, end) = (run * step, run * step + len);
            while at < end {
                let first = if at == run * step { MIB - lost } else { MIB };
                let piece = first.min(end - at);
                // Panics if a block is requested twice.
                model.read(at, piece);
                at += piece;
            }
        }
    }
}

#[test]
fn reads_that_only_look_cut_leave_no_blocks_behind() {
    let mut model = Model::new(1 << 40);
    let mut state = 7_u64;
    for _ in 0..200 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1);
        model.read((state >> 30) % (1 << 20) * MIB, MIB - 1000);
    }
    let held = model.blocks.overlapping(0..1 << 40).count();
    assert!(held <= 1, "{held} blocks are held");
}

#[test]
fn backward_and_strided_reads_are_exact() {
    for offset in (0..64).rev() {
        let mut backward = Model::new(64 * MIB);
        let plan = backward.read(offset * MIB + KIB, 128 * KIB);
        assert_eq!(plan.ahead, []);
    }
    let mut backward = Model::new(64 * MIB);
    (0..512)
        .rev()
        .for_each(|step| drop(backward.read(step * 128 * KIB, 128 * KIB)));
    assert_eq!(backward.fetched, 64 * MIB);
    let mut strided = Model::new(1 << 30);
    (1..256).for_each(|step| drop(strided.read(step * 4 * MIB, MIB)));
    assert_eq!(strided.fetched, 255 * MIB);
}

#[test]
fn runs_at_a_constant_distance_are_in_the_air_before_they_are_read() {
    for (step_kib, run_kib, read_kib) in [
        (1024, 128, 128),
        (-1024, 128, 128),
        (-128, 128, 128),
        (16 * 1024, 4096, 1024),
        (-16 * 1024, 4096, 1024),
    ] {
        let mut model = Model::new(1 << 30);
        let (mut start, mut waits, mut asked) = (512 * 1024_i64, 0, 0);
        for _ in 0..30 {
            for offset in (0..run_kib).step_by(read_kib) {
                let from = (start + offset as i64).cast_unsigned() * KIB;
                let len = read_kib as u64 * KIB;
                waits += usize::from(!model.read(from, len).demand.is_empty());
                asked += len;
            }
            start += step_kib;
        }
        // Waits: the first run, the first of the stride, three steps, and the waste of the last
        // prefetch.
        assert!(
            waits <= 5 * run_kib / read_kib,
            "{step_kib}: {waits} waited"
        );
        let learning = 3 * 4 * MIB * u64::from(run_kib > read_kib);
        let wasted = model.fetched - asked;
        // Backward reads without a gap may waste as much as was read.
        let ahead_max = (STRIDE_RUNS_MAX as u64 * run_kib as u64 * KIB)
            .max(u64::from(step_kib == -128) * asked);
        assert!(
            wasted <= learning + ahead_max,
            "{step_kib}: {wasted} wasted"
        );
    }
}

#[test]
fn runs_longer_than_their_distance_are_asked_for_once() {
    for (step_kib, len_kib) in [
        (-32, 64),
        (-4, 12),
        (-100, 128),
        (-4, 64),
        (4, 64),
        (32, 64),
    ] {
        let size = 8 * MIB;
        let mut model = Model::new(size);
        let first = if step_kib < 0 {
            size / KIB - len_kib
        } else {
            1
        };
        for step in 0..80 {
            let start = first.cast_signed() + step * step_kib;
            // Panics if a block is requested twice.
            model.read(start.cast_unsigned() * KIB, len_kib * KIB);
        }
        let most = (80 + STRIDE_RUNS_MAX as u64) * len_kib * KIB;
        assert!(model.fetched <= most, "{step_kib}: {}", model.fetched);
    }
    // Fields of records, read one after the other, longer than the gaps between them.
    let mut model = Model::new(64 * MIB);
    for record in (1..200).rev() {
        for field in [0, 24, 8] {
            model.read((record * 96 + field) * KIB, 40 * KIB);
        }
    }
}

#[test]
fn columns_are_read_ahead_as_far_as_columns_go() {
    // A Parquet file with 8 row groups of 12 columns. The second, fifth and sixth column are read.
    let (size, chunk) = (256 * MIB, (8 * MIB) / 3);
    let mut model = Model::new(size);
    let mut asked = 0;
    for group in 0..8 {
        for column in [1, 4, 5] {
            let start = (group * 12 + column) * chunk;
            for offset in (start..start + chunk).step_by(1 << 20) {
                let len = MIB.min(start + chunk - offset);
                model.read(offset, len);
                asked += len;
            }
        }
    }
    // Waste: the first two streams, which teach, and an eighth of the others.
    let learning = 2 * 4 * MIB;
    let wasted = model.fetched - asked;
    println!("fetched/asked {:.2}", model.fetched as f64 / asked as f64);
    assert!(wasted <= learning + asked / 8, "{wasted} of {asked} wasted");
}

#[test]
fn a_long_stream_behind_short_ones_waits_a_few_times() {
    let mut model = Model::new(1 << 30);
    for start in [100, 300, 500] {
        (0..8).for_each(|step| drop(model.read(start * MIB + step * 128 * KIB, 128 * KIB)));
    }
    let before = model.fetched;
    let mut waits = 0;
    for offset in (0..100 * MIB).step_by(128 << 10) {
        waits += usize::from(!model.read(offset, 128 * KIB).demand.is_empty());
    }
    // Waits: two reads begin the stream, and one whenever it is twice as long as before.
    assert!(waits <= 2 + 8, "{waits} waited");
    let fetched = model.fetched - before;
    assert!(fetched <= 108 * MIB, "{fetched}");
}

/// A model of a file on a store at this distance.
pub(in crate::read) fn model_at(size: u64, distance: Duration) -> Model {
    let model = Model::new(size);
    model
        .min_latencies
        .record_first_byte(distance, Duration::ZERO);
    model
}

#[test]
fn heads_of_archive_members_are_read_through_where_the_store_is_far() {
    use rand::prelude::*;
    let mut random = StdRng::seed_from_u64(5);
    let members: Vec<u64> = (0..400).map(|_| random.random_range(20..400)).collect();
    for (distance, waits_max, fetched_max) in [
        (Duration::from_millis(20), 40, 96 * MIB),
        (Duration::from_micros(300), 400, 400 * 12 * KIB),
    ] {
        let mut model = model_at(1 << 30, distance);
        let (mut offset, mut waits) = (100 * MIB, 0);
        for len in &members {
            waits += usize::from(!model.read(offset, 12 * KIB).demand.is_empty());
            offset += (12 + len) * KIB;
        }
        assert!(waits <= waits_max, "{distance:?}: {waits} waited");
        assert!(
            model.fetched <= fetched_max,
            "{distance:?}: {} fetched",
            model.fetched
        );
        // Skipped blocks are not kept.
        let held = model.blocks.overlapping(0..offset - 4 * MIB).count();
        assert!(held <= 16, "{held} blocks are held");
    }
}

#[test]
fn who_stays_wherever_it_begins_is_believed_the_next_time() {
    let mut model = Model::new(1 << 30);
    // The end of the file, which has the index and does not count as a stream that was left.
    model.read((1 << 30) - 64 * KIB, 32 * KIB);
    model.read((1 << 30) - 32 * KIB, 32 * KIB);
    for (nth, start) in [100, 700, 300, 500, 900, 200].into_iter().enumerate() {
        let begun = model.read(start * MIB, 128 * KIB);
        let end = (start * MIB) + 1024 * KIB;
        let asked = begun.ahead.last().is_some_and(|last| last.end >= end);
        assert_eq!(asked, nth >= 2, "{nth}: {begun:?}");
        for step in 1..8 {
            model.read(start * MIB + step * 128 * KIB, 128 * KIB);
        }
    }
    // After a place without a second read, the reader must show two runs again.
    model.read(800 * MIB, 128 * KIB);
    assert_eq!(model.read(600 * MIB, 128 * KIB).ahead, []);
}

#[test]
fn small_reads_earn_a_large_window_where_the_store_is_far() {
    for (distance, waits_max) in [(20_000, 8), (300, 70)] {
        let mut model = model_at(1 << 30, Duration::from_micros(distance));
        let waits = (0..8 * MIB / (4 * KIB))
            .filter(|piece| !model.read(piece * 4 * KIB, 4 * KIB).demand.is_empty())
            .count();
        assert!(waits <= waits_max, "{distance}: {waits} waited");
        assert!(model.fetched <= 16 * MIB);
    }
}

/// Reads `streams` equal parts of the file in turn, `len` bytes at a time.
fn interleaved(size: u64, streams: u64, len: u64) -> Model {
    let mut model = Model::new(size);
    let length = size / streams;
    for step in 0..length.div_ceil(len) {
        for stream in 0..streams {
            let offset = stream * length + step * len;
            model.read(offset, len.min((stream + 1) * length - offset));
        }
    }
    model
}

#[test]
fn streams_fetch_every_byte_once() {
    for len in [4 * KIB, 100_000, 128 * KIB, 256 * KIB, MIB] {
        for streams in [1, 2, 3, 4, 16] {
            let model = interleaved(48 * MIB, streams, len);
            assert_eq!(
                model.fetched,
                48 * MIB,
                "{streams} streams, {len} bytes a read"
            );
            assert!(model.blocks.is_empty());
        }
    }
    assert_eq!(
        interleaved(48 * MIB + 10, 1, 128 * KIB).fetched,
        48 * MIB + 10
    );
}

#[test]
fn streams_in_any_order_fetch_every_byte_once() {
    use rand::prelude::*;
    for seed in 0..500 {
        let mut random = StdRng::seed_from_u64(seed);
        let depth = random.random_range(1..24);
        let streams: u64 = random.random_range(1..5);
        let len = *[64 * KIB, 100_000, 128 * KIB, 256 * KIB, MIB]
            .choose(&mut random)
            .unwrap();
        let length = 24 * MIB / streams;
        let mut model = Model::new(length * streams);
        let mut order: Vec<u64> = (0..length.div_ceil(len) * streams).collect();
        order
            .chunks_mut(depth)
            .for_each(|chunk| chunk.shuffle(&mut random));
        for n in order {
            let offset = n % streams * length + n / streams * len;
            let end = (offset + len).min((n % streams + 1) * length);
            model.read_at(offset..end, random.random_bool(0.5), Duration::ZERO);
        }
        // A chance stride may waste one read's bytes, a chance backward run as many as it has.
        let wasted = model.fetched - length * streams;
        assert!(
            wasted <= (8 * len).max(MIB),
            "seed {seed}: {streams} streams, depth {depth}, {len} bytes, {wasted} wasted"
        );
        assert!(model.blocks.is_empty());
    }
}

#[test]
fn random_reads_of_a_small_span_stay_close_to_exact() {
    use rand::prelude::*;
    let mut random = StdRng::seed_from_u64(1);
    let mut model = Model::new(64 * MIB);
    for _ in 0..2000 {
        model.read(random.random_range(0..512) * 128 * KIB, 128 * KIB);
    }
    let asked = 2000 * 128 * KIB;
    assert!(
        model.fetched < asked * 11 / 10,
        "{} of {asked}",
        model.fetched
    );
}

#[test]
fn a_second_pass_is_read_ahead_like_the_first() {
    let mut model = Model::new(64 * MIB);
    for pass in 1..4 {
        (0..512).for_each(|step| drop(model.read(step * 128 * KIB, 128 * KIB)));
        assert_eq!(model.fetched, pass * 64 * MIB);
    }
}

#[test]
fn refused_read_ahead_is_asked_for_again() {
    let mut model = Model::new(64 * MIB);
    let plan = model.read(0, 128 * KIB);
    model.planner.refuse(&plan, 256 * KIB);
    model
        .blocks
        .remove_if(|held, ()| held.start >= 256 * KIB, &mut Vec::new());
    let plan = model.read(128 * KIB, 128 * KIB);
    let parts = (2..6).map(|part| part * 128 * KIB..(part + 1) * 128 * KIB);
    assert_eq!(plan.ahead, parts.collect::<Vec<_>>());
}

/// A store in virtual time: the first byte of a GET after `delay`, then `per_get` bytes a second,
/// and `in_all` bytes a second for all GETs together.
struct Store {
    delay: f64,
    per_get: f64,
    in_all: f64,
}

/// Reads a file of `size` bytes to its end, 256 KiB at a time.
///
/// The reader is as fast as the store. Returns the seconds and the largest window.
fn drain(store: &Store, size: u64) -> (f64, u64) {
    let mut model = Model::new(size);
    let mut arrivals: BTreeMap<u64, f64> = BTreeMap::new();
    let (mut now, mut pipe_free, mut window_max) = (0.0_f64, 0.0_f64, 0);
    for offset in (0..size).step_by(256 << 10) {
        let end = (offset + 256 * KIB).min(size);
        let is_here = |arrivals: &BTreeMap<u64, f64>| {
            arrivals
                .range(offset + 1..)
                .next()
                .is_some_and(|(_, &arrival)| arrival <= now)
        };
        let waits = !is_here(&arrivals);
        let plan = model.read_at(offset..end, waits, Duration::from_secs_f64(now));
        for get in plan.demand.iter().chain(&plan.ahead) {
            let len = (get.end - get.start) as f64;
            pipe_free = pipe_free.max(now + store.delay) + len / store.in_all;
            let arrival = pipe_free.max(now + store.delay + len / store.per_get);
            arrivals.insert(get.end, arrival);
            let delay = Duration::from_secs_f64(arrival - now);
            let then = Duration::from_secs_f64(arrival);
            model.min_latencies.record(get.end - get.start, delay, then);
        }
        let last = arrivals
            .range(end..)
            .next()
            .map_or(now, |(_, &arrival)| arrival);
        now = now.max(last);
        let windows = model
            .planner
            .history
            .iter()
            .filter_map(|extent| extent.window.as_ref());
        window_max = windows
            .map(|window| window.size())
            .max()
            .unwrap_or(0)
            .max(window_max);
    }
    assert_eq!(model.fetched, size);
    (now, window_max)
}

#[test]
fn a_distant_store_is_drained_at_its_rate() {
    // Connections of 90 MB/s, a latency of 20 ms, 3 GB/s in total.
    let store = Store {
        delay: 0.02,
        per_get: 90e6,
        in_all: 3e9,
    };
    let (seconds, window_max) = drain(&store, 8 << 30);
    assert_eq!(window_max, 256 * MIB);
    // 32 GETs of 8 MiB take 113 ms: the largest window permits 2.37 GB/s. The ramp costs less than
    // 0.55 s.
    assert!(
        seconds < (8_u64 << 30) as f64 / 2.37e9 + 0.55,
        "{seconds} s"
    );
}

#[test]
fn a_near_store_is_drained_with_a_small_window() {
    let store = Store {
        delay: 0.0002,
        per_get: 2.7e9,
        in_all: 2.7e9,
    };
    let (seconds, window_max) = drain(&store, 8 << 30);
    assert!(seconds < 1.02 * (8_u64 << 30) as f64 / 2.7e9, "{seconds} s");
    assert!(window_max <= 32 * MIB, "{window_max}");
}

#[test]
fn cuts_at_multiples_and_leaves_no_crumbs() {
    #[track_caller]
    fn check(range: Range<u64>, pieces: &[Range<u64>]) {
        assert_eq!(cut(range, 100).collect::<Vec<_>>(), pieces);
    }
    check(0..200, &[0..100, 100..200]);
    check(30..250, &[30..100, 100..200, 200..250]);
    check(0..224, &[0..100, 100..224]);
    check(0..225, &[0..100, 100..200, 200..225]);
    check(7..9, &[7..9]);
    check(7..7, &[]);
}
