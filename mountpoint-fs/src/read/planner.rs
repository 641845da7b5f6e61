//! Which ranges to ask S3 for when a read comes in.
//!
//! Pure: owns no buffer, makes no request, takes no lock, reads no clock. A read that continues no track is fetched
//! exactly; the second in sequence opens a window, which the planner keeps filled with parts. The first read of a
//! file, at its beginning, is taken for the first of many.
//!
//! Invariant: nothing beyond the object's end, and nothing that a block holds already, is ever asked for.

use std::ops::Range;
use std::time::Duration;

use super::blocks::BlockMap;
use super::delay::LeastDelays;
use super::stride::Stride;
use super::tracks::{Track, Tracks};
use super::window::{Window, are_several};
use crate::config::limits::{FIRST_RANGE, SMALL_FILE_MAX};

/// What a reader does, and what the planner knows of its past.
#[derive(Debug, Default)]
pub(super) struct Planner {
    tracks: Tracks,
    /// Boxed, and there from the second read on that continues nothing: most files are read from end to end.
    stride: Option<Box<Stride>>,
}

/// One read.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Bytes of the object; not empty, within its size.
    pub(super) range: Range<u64>,
    /// Whether some of its bytes have not arrived yet.
    pub(super) waits: bool,
    /// Whether no other read of the file is waiting for its bytes.
    pub(super) is_alone: bool,
    /// Now.
    pub(super) now: Duration,
    /// Bytes that all readers of the mount have read so far.
    pub(super) consumed: u64,
}

/// What a plan must keep to.
#[derive(Clone, Debug)]
pub(super) struct Bounds<'a> {
    /// Size of the object.
    pub(super) size: u64,
    /// Largest range of one GET that is not a single read.
    pub(super) part_max: u64,
    /// Largest window: the setting, or the stream's share of the memory.
    pub(super) window_max: u64,
    /// Streams of the whole mount.
    pub(super) streams: usize,
    /// What GETs of this mount take at least.
    pub(super) least_delays: &'a LeastDelays,
}

/// What to do for one read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// Ranges the read waits for, one GET each.
    pub(super) demand: Vec<Range<u64>>,
    /// Ranges to ask for ahead of the reader, one GET each, most urgent first.
    pub(super) ahead: Vec<Range<u64>>,
    /// Bytes that were read without a gap, this read included: blocks wholly inside are done with.
    pub(super) done: Range<u64>,
    /// Blocks that [`Planner::wants`] no longer names may go.
    pub(super) is_time_to_retire: bool,
    /// Who asks ahead, for [`Planner::refuse`].
    asker: Asker,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asker {
    /// The stream of the track at this index.
    Track(usize),
    /// The stride.
    Stride,
}

/// How far a plan reaches, and in what steps.
struct Reach {
    range: Range<u64>,
    part: u64,
    /// Largest GET that may serve the read and the part behind it at once.
    join_max: u64,
}

impl Planner {
    /// Takes note of a read and says what it calls for. `blocks` are those held or in the air.
    pub(super) fn plan<T>(
        &mut self,
        access: &Access,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
    ) -> Plan {
        let range = &access.range;
        assert!(range.start < range.end);
        assert!(range.end <= bounds.size);
        let mut demand = blocks.gaps(range.clone());
        let (track, continues) = self.tracks.place(range);
        let mut plan = Plan {
            demand: Vec::new(),
            ahead: Vec::new(),
            done: self.tracks.at(track).range.clone(),
            is_time_to_retire: false,
            asker: Asker::Track(track),
        };
        let run = self.tracks.at(track).range.start;
        let run_end = self.stride.as_ref().and_then(|stride| stride.run_end(run));
        let reach = if self.tracks.is_first_read() && range.start == 0 {
            self.begin(track, access, bounds)
        } else if continues && run_end.is_none_or(|end| range.end > end) {
            self.follow(track, access, !demand.is_empty(), bounds)
        } else {
            None
        };
        if continues {
            if let Some(stride) = &mut self.stride {
                stride.go_on(range);
            }
        } else if !access.is_alone {
            // Who reads at several places at once needs nobody to ask ahead.
            plan.is_time_to_retire |= self.stride.take().is_some_and(|stride| stride.has_ahead());
        } else if !self.tracks.is_first_read() {
            self.step(range, blocks, bounds, &mut plan);
        }
        if let Some(Reach {
            range: reach,
            part,
            join_max,
        }) = reach
        {
            plan.is_time_to_retire = true;
            let unread = self.tracks.unread(track, reach);
            let missing = unread.into_iter().flat_map(|range| blocks.gaps(range));
            plan.ahead = missing.flat_map(|gap| cut(gap, part)).collect();
            join(&mut demand, &mut plan.ahead, range.end, join_max);
        }
        plan.demand = demand;
        plan
    }

    /// Memory for read-ahead ended at `at`: the plan's stream takes smaller steps and asks again from there.
    pub(super) fn refuse(&mut self, plan: &Plan, at: u64) {
        let Asker::Track(track) = plan.asker else {
            self.stride = None;
            return;
        };
        let track = self.tracks.at_mut(track);
        track.ahead_end = at;
        if let Some(window) = &mut track.window {
            window.shrink();
        }
    }

    /// Whether bytes of `range` were asked for ahead of a reader that has not come to them yet.
    pub(super) fn wants(&self, range: &Range<u64>) -> bool {
        self.tracks.wants(range)
            || self
                .stride
                .as_ref()
                .is_some_and(|stride| stride.wants(range))
    }

    /// Streams that are read ahead.
    pub(super) fn stream_count(&self) -> usize {
        self.tracks.stream_count()
    }

    /// Forgets everything but that there were reads.
    pub(super) fn forget(&mut self) {
        self.tracks.forget();
        self.stride = None;
    }

    /// A read that continues nothing: perhaps one of many at the same distance.
    fn step<T>(
        &mut self,
        range: &Range<u64>,
        blocks: &BlockMap<T>,
        bounds: &Bounds<'_>,
        plan: &mut Plan,
    ) {
        let stride = self.stride.get_or_insert_default();
        let had_ahead = stride.has_ahead();
        let asked = stride.begin(range, bounds.size, bounds.window_max);
        plan.is_time_to_retire |= had_ahead && !stride.has_ahead();
        if !asked.is_empty() {
            plan.asker = Asker::Stride;
            let unread = asked
                .into_iter()
                .filter(|range| !self.tracks.has_read(range));
            let missing = unread.flat_map(|range| blocks.gaps(range));
            plan.ahead = missing.flat_map(|gap| cut(gap, bounds.part_max)).collect();
        }
    }

    /// The first read of the file, at its beginning: a small file is fetched whole; a large read is the first of
    /// many; a small one may be all there is to come, but for a header.
    fn begin(&mut self, track: usize, access: &Access, bounds: &Bounds<'_>) -> Option<Reach> {
        let end = access.range.end;
        if bounds.size <= SMALL_FILE_MAX.min(bounds.part_max.max(FIRST_RANGE)) {
            self.tracks.at_mut(track).ahead_end = bounds.size;
            return Some(Reach {
                range: end..bounds.size,
                part: bounds.size,
                join_max: u64::MAX,
            });
        }
        if end >= FIRST_RANGE {
            return self.follow(track, access, false, bounds);
        }
        let until = FIRST_RANGE.min(bounds.size);
        self.tracks.at_mut(track).ahead_end = until;
        Some(Reach {
            range: end..until,
            part: FIRST_RANGE,
            join_max: FIRST_RANGE,
        })
    }

    /// What a stream is to ask for, now that it has come to the end of its track.
    fn follow(
        &mut self,
        index: usize,
        access: &Access,
        missed: bool,
        bounds: &Bounds<'_>,
    ) -> Option<Reach> {
        self.open(index, access, bounds);
        let end = self.tracks.at(index).range.end;
        let limit = self.tracks.next_stream_start(index).min(bounds.size);
        let track = self.tracks.at_mut(index);
        let window = track.window.as_mut().expect("opened above");
        window.advance(end, access, bounds);
        // After a miss blocks may be gone behind it too: they were given back, or another stream consumed them.
        let from = if missed {
            end
        } else {
            track.ahead_end.max(end)
        };
        let part = window.part(bounds);
        let target = end.saturating_add(window.size());
        let until = if target >= limit || (limit == bounds.size && limit - target < part / 4) {
            limit
        } else {
            target - target % part
        };
        // A read that need not wait is not to wait for the sending of a whole window either.
        let until = if access.waits {
            until
        } else {
            until.min((from / part + PARTS_PER_HIT_MAX) * part)
        };
        track.ahead_end = track.ahead_end.max(from).max(until);
        (from < until).then_some(Reach {
            range: from..until,
            part,
            join_max: JOIN_MAX,
        })
    }

    /// Makes the track a stream if it is none.
    fn open(&mut self, index: usize, access: &Access, bounds: &Bounds<'_>) {
        let Track {
            range,
            window: None,
            ..
        } = self.tracks.at(index)
        else {
            return;
        };
        let factor = if self.tracks.is_straying() {
            2
        } else if are_several(bounds.streams) {
            // Halved into parts, it is to have as long ones as the window of one alone.
            16
        } else {
            8
        };
        let run = range.end - range.start;
        // A reader that jumped within what a stream had asked for is that stream, moved on.
        let inherited = self.tracks.iter().filter_map(|other| {
            let window = other.window.as_ref()?;
            (other.range.end < range.start && range.start < other.ahead_end).then(|| window.size())
        });
        let wanted = inherited.max().unwrap_or(0).max(run.saturating_mul(factor));
        let window = Window::open(wanted, range.end, access, bounds.window_max);
        self.tracks.open(index, window);
    }
}

/// Cuts a range at multiples of `part`. A last piece shorter than a quarter of a part stays with the one before.
fn cut(range: Range<u64>, part: u64) -> impl Iterator<Item = Range<u64>> {
    let mut from = range.start;
    std::iter::from_fn(move || {
        if from >= range.end {
            return None;
        }
        let mut until = (from / part + 1) * part;
        if range.end < until + part / 4 {
            until = range.end;
        }
        let piece = from..until;
        from = until;
        Some(piece)
    })
}

/// Lets the read's own GET run on over the next part if that is short: one request instead of two.
fn join(demand: &mut [Range<u64>], ahead: &mut Vec<Range<u64>>, read_end: u64, join_max: u64) {
    let (Some(last), Some(next)) = (demand.last_mut(), ahead.first()) else {
        return;
    };
    if last.end == read_end && next.start == read_end && next.end - last.start <= join_max {
        last.end = next.end;
        ahead.remove(0);
    }
}

/// Parts that a read which has its bytes already may send for: one is what it consumed, the other catches up.
const PARTS_PER_HIT_MAX: u64 = 2;

/// Largest GET that serves a stream's read and the part behind it: its bytes are usable as they come, but not
/// every client shows them before the range is complete.
const JOIN_MAX: u64 = 256 << 10;

#[cfg(test)]
#[expect(
    clippy::single_range_in_vec_init,
    reason = "lists of one range are meant"
)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::config::limits::{STREAMS_MAX, STRIDE_RUNS_MAX, TRACKS_MAX};

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;

    /// A reader without bytes: does what the planner says and counts.
    struct Model {
        planner: Planner,
        blocks: BlockMap<()>,
        size: u64,
        least_delays: LeastDelays,
        fetched: u64,
    }

    impl Model {
        fn new(size: u64) -> Self {
            Self {
                planner: Planner::default(),
                blocks: BlockMap::default(),
                size,
                least_delays: LeastDelays::default(),
                fetched: 0,
            }
        }

        fn read(&mut self, offset: u64, len: u64) -> Plan {
            let range = offset..(offset + len).min(self.size);
            let waits = !self.blocks.gaps(range.clone()).is_empty();
            self.read_at(range, waits, Duration::ZERO)
        }

        fn read_at(&mut self, range: Range<u64>, waits: bool, now: Duration) -> Plan {
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
                least_delays: &self.least_delays,
            };
            let plan = self.planner.plan(&access, &self.blocks, &bounds);
            for get in plan.demand.iter().chain(&plan.ahead) {
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
                self.blocks
                    .remove_if(|held, ()| !self.planner.wants(held), &mut removed);
            }
            assert!(self.planner.tracks.iter().count() <= TRACKS_MAX);
            assert!(self.planner.stream_count() <= STREAMS_MAX);
            plan
        }
    }

    /// Each read is `(offset, len)` in KiB, then what it demands and what it asks ahead, as `(from, to)` in KiB.
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
            // The first run, the one that begins the stride, three steps; and what the last ones asked for in vain.
            assert!(
                waits <= 5 * run_kib / read_kib,
                "{step_kib}: {waits} waited"
            );
            let learning = 3 * 4 * MIB * u64::from(run_kib > read_kib);
            let wasted = model.fetched - asked;
            let ahead_max = STRIDE_RUNS_MAX as u64 * run_kib as u64 * KIB;
            assert!(
                wasted <= learning + ahead_max,
                "{step_kib}: {wasted} wasted"
            );
        }
    }

    /// Reads each of `streams` equal parts of the file in turn, `len` bytes at a time.
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
            // A chance stride may cost one read's bytes.
            let wasted = model.fetched - length * streams;
            assert!(
                wasted <= len,
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
        assert_eq!(plan.ahead, [256 * KIB..384 * KIB, 384 * KIB..512 * KIB]);
    }

    /// A store in virtual time: a GET's first byte comes after `delay`, then `per_get` bytes a second, and all GETs
    /// together share `in_all` bytes a second.
    struct Store {
        delay: f64,
        per_get: f64,
        in_all: f64,
    }

    /// Reads a file of `size` bytes to its end, 256 KiB at a time, as fast as the store delivers. Returns the
    /// seconds it took and the largest window.
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
                model.least_delays.record(get.end - get.start, delay, then);
            }
            let last = arrivals
                .range(end..)
                .next()
                .map_or(now, |(_, &arrival)| arrival);
            now = now.max(last);
            let windows = model
                .planner
                .tracks
                .iter()
                .filter_map(|track| track.window.as_ref());
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
        // 90 MB/s a connection, 20 ms away, 3 GB/s in all.
        let store = Store {
            delay: 0.02,
            per_get: 90e6,
            in_all: 3e9,
        };
        let (seconds, window_max) = drain(&store, 8 << 30);
        assert_eq!(window_max, 256 * MIB);
        // 32 GETs of 8 MiB take 113 ms: 2.37 GB/s is what the largest window allows. The ramp costs less than 0.55 s.
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
}
