//! Readers that change their pattern: holes in sequential reads, scattered reads, ends of files.

use std::time::Duration;

use mountpoint_client::testing::sim::Time;
use rand::prelude::*;

use super::{Bucket, read};
use crate::read::plan::tests::{Model, model_at};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const FAR: Duration = Duration::from_millis(20);

/// Reads a file in sequence, except for `holes` that the kernel has cached.
///
/// The store takes 20 ms for each round of GETs. Returns the rounds that the reader waited for, and
/// the most streams at a time.
fn read_over(model: &mut Model, size: u64, holes: &[u64]) -> (usize, usize) {
    let (mut offset, mut rounds, mut streams) = (0, 0, 0);
    let mut now = Duration::from_secs(1);
    let mut here = 0;
    while offset < size {
        let hole = holes.iter().copied().find(|hole| offset <= *hole);
        let end = (offset + 512 * KIB).min(hole.unwrap_or(size)).min(size);
        if offset < end {
            let waits = end > here;
            if waits {
                rounds += 1;
                now += FAR;
            }
            let plan = model.read_at(offset..end, waits, now);
            if waits {
                // All GETs in flight arrive at once.
                let last = plan.ahead.last().or_else(|| plan.demand.last());
                here = last.map_or(here, |get| get.end).max(here).max(end);
            }
        }
        streams = streams.max(model.planner.stream_count());
        offset = if hole == Some(end) {
            end + 4 * KIB
        } else {
            end
        };
    }
    (rounds, streams)
}

#[test]
fn a_stream_over_pages_that_the_kernel_has_is_one_stream() {
    let size = 1 << 30;
    let (without, _) = read_over(&mut model_at(size, FAR), size, &[]);
    for count in [10, 50, 200] {
        let mut model = model_at(size, FAR);
        let mut random = StdRng::seed_from_u64(count);
        let mut holes: Vec<_> = (0..count)
            .map(|_| random.random_range(1..size / (4 * KIB)) * 4 * KIB)
            .collect();
        for hole in &holes {
            model.read(*hole, 4 * KIB);
        }
        holes.sort_unstable();
        holes.dedup();
        let before = model.fetched;
        let (rounds, streams) = read_over(&mut model, size, &holes);
        assert!(
            rounds <= without + without / 10,
            "{count} holes: {rounds} rounds, {without} without holes"
        );
        assert!(streams <= 2, "{count} holes: {streams} streams");
        assert!(model.fetched - before <= size, "{count} holes");
        // Skipped blocks are kept only until the next read-ahead.
        let held = model.blocks.overlapping(0..size - 384 * MIB).count();
        assert!(held <= 4, "{count} holes: {held} blocks are held");
    }
}

#[test]
fn blocks_of_pages_that_the_kernel_has_are_not_kept_for_ever() {
    let size = 64 * MIB;
    let bucket = Bucket::new(Time::Immediate);
    let reader = bucket.open(size);
    let mut offset = 0;
    // No GET covers the gap between two sequential ranges.
    for end in [3 * MIB, 7 * MIB, 10 * MIB, size] {
        while offset < end {
            read(&reader, offset, (end - offset).min(64 * KIB));
            offset += 64 * KIB;
        }
        offset = end + 4 * KIB;
    }
    let stats = bucket.context.stats();
    assert_eq!((stats.block_bytes, stats.budget_used), (0, 0));
}

#[test]
fn the_short_end_of_a_file_is_one_request() {
    for (distance, gets_max) in [(FAR, 2), (Duration::from_micros(300), 9)] {
        let size = 256 * MIB;
        let mut model = model_at(size, distance);
        // The reads of `tail -c 1M`, with the kernel's read-ahead.
        let mut offset = size - MIB;
        let (mut gets, mut waits) = (0, 0);
        for len in [8, 32, 56, 112, 224, 448, 144] {
            let plan = model.read(offset, len * KIB);
            gets += plan.demand.len() + plan.ahead.len();
            waits += usize::from(!plan.demand.is_empty());
            offset += len * KIB;
        }
        assert_eq!(offset, size);
        assert_eq!(model.fetched, MIB);
        assert_eq!(waits, 2);
        assert!(gets <= gets_max, "{distance:?}: {gets} GETs");
    }
}

#[test]
fn scattered_points_are_exact_however_far_the_store_is() {
    let mut random = StdRng::seed_from_u64(10);
    let mut model = model_at(64 * MIB, 5 * FAR);
    for _ in 0..3000 {
        model.read(random.random_range(1..16 << 10) * 4 * KIB, 4 * KIB);
    }
    let asked = 3000 * 4 * KIB;
    assert!(model.fetched <= asked * 4, "{} of {asked}", model.fetched);
}

#[test]
fn rows_behind_pages_of_an_index_are_asked_for_at_once() {
    let mut random = StdRng::seed_from_u64(11);
    let mut model = model_at(1 << 30, FAR);
    let (mut waits, mut asked) = (0, 0);
    for query in 0..30 {
        // A page of the index, then rows with the kernel's own read-ahead.
        let index = random.random_range(1..1 << 15) * 4 * KIB;
        let rows = random.random_range(1 << 7..1 << 10) * MIB;
        let mut reads = vec![(index, 4 * KIB)];
        let mut place = rows;
        for len in [4, 16, 64, 128] {
            reads.push((place, len * KIB));
            place += len * KIB;
        }
        for (start, len) in reads {
            let plan = model.read(start, len);
            waits += usize::from(query >= 6 && !plan.demand.is_empty());
            asked += len;
        }
    }
    // Waits: two for each query, for the page and for the first of its rows.
    assert!(waits <= 24 * 2 + 4, "{waits} waited");
    assert!(model.fetched <= asked * 2, "{} of {asked}", model.fetched);
}

/// Reads files of one size at the given places, 4 KiB each. Returns how many reads of each file
/// waited.
fn read_files(model: &mut Model, files: &[Vec<u64>]) -> Vec<usize> {
    let mut waits = Vec::new();
    for places in files {
        let mut missed = |place: &u64| !model.read(place * KIB, 4 * KIB).demand.is_empty();
        waits.push(places.iter().filter(|place| missed(place)).count());
        model.open_next();
    }
    waits
}

/// Random places, in KiB.
fn layout(random: &mut StdRng, count: usize) -> Vec<u64> {
    let places = (0..count).map(|_| random.random_range(50..1000) * 4);
    std::iter::once(0).chain(places).collect()
}

#[test]
fn files_of_one_layout_are_read_where_the_one_before_was() {
    let layout = layout(&mut StdRng::seed_from_u64(12), 20);
    let files = vec![layout; 5];
    let mut model = model_at(4 * MIB, FAR);
    let waits = read_files(&mut model, &files);
    // The second file's prefetch doubles; from the fourth on all is prefetched after the first
    // read.
    assert_eq!((waits[0], &waits[3..]), (21, &[1, 1][..]), "{waits:?}");
    assert!(waits[1] <= 3, "{waits:?}");
    assert_eq!(model.fetched, 5 * (128 + 20 * 4) * KIB);
    // A near store needs no prefetch.
    let mut model = model_at(4 * MIB, Duration::from_micros(300));
    assert_eq!(read_files(&mut model, &files), [21; 5]);
}

#[test]
fn files_that_only_look_alike_cost_little() {
    let mut random = StdRng::seed_from_u64(13);
    // The files differ after the first two places.
    let files: Vec<_> = (0..40)
        .map(|_| [&[0, 3000, 700][..], &layout(&mut random, 10)[1..]].concat())
        .collect();
    let mut model = model_at(4 * MIB, FAR);
    let waits = read_files(&mut model, &files);
    assert!(waits.iter().all(|waits| *waits >= 11), "{waits:?}");
    let asked = 40 * (128 + 12 * 4) * KIB;
    assert!(model.fetched <= asked + asked / 50, "{}", model.fetched);
    // Random reads in files of one size cost as little.
    let files: Vec<_> = (0..40).map(|_| layout(&mut random, 50)).collect();
    let mut model = model_at(4 * MIB, FAR);
    read_files(&mut model, &files);
    let asked = 40 * (128 + 50 * 4) * KIB;
    assert!(model.fetched <= asked + asked / 50, "{}", model.fetched);
}

#[test]
fn what_a_stream_brings_is_not_asked_for_by_itself_in_the_next_file() {
    let mut model = model_at(64 * MIB, FAR);
    let mut gets = Vec::new();
    for _ in 0..4 {
        let mut count = 0;
        for place in [0, 128, 256, 384, 512, 640] {
            let plan = model.read(place * KIB, 128 * KIB);
            count += plan.demand.len() + plan.ahead.len() + plan.elsewhere.len();
            // A place within the stream's read-ahead.
            let plan = model.read((place + 140) * KIB, 4 * KIB);
            count += plan.demand.len() + plan.ahead.len() + plan.elsewhere.len();
        }
        gets.push(count);
        model.open_next();
    }
    assert!(gets.iter().all(|count| *count <= gets[0]), "{gets:?}");
}
