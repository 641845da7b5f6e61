mod store;

use super::*;
use crate::read::plan::latency::MinLatencies;
use crate::read::plan::proven_window::ProvenWindow;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// A read of a mount with only this reader.
fn access(waits: bool, end: u64, now: Duration) -> Access {
    Access {
        range: end..end + 1,
        waits,
        is_alone: true,
        now,
        consumed: end,
    }
}

/// Advances to `end` in a mount without known latencies.
fn advance(window: &mut Window, end: u64, access: &Access, window_max: u64) {
    let bounds = Bounds {
        size: u64::MAX,
        part_max: 8 * MIB,
        window_max,
        streams: 1,
        min_latencies: &MinLatencies::default(),
        proven_window: &ProvenWindow::default(),
    };
    window.advance(end, access, &bounds);
}

/// Reads in steps of 128 KiB; returns the window's size after each epoch, in MiB.
///
/// The store needs `delay` for each window and delivers at most `rate_max` bytes a second.
fn run(initial: u64, epochs: usize, delay: Duration, rate_max: f64, size_max: u64) -> Vec<u64> {
    let start = access(true, 0, Duration::ZERO);
    let mut window = Window::open(initial, 0, &start, size_max);
    let (mut now, mut end) = (Duration::ZERO, 0);
    let mut sizes = vec![window.size()];
    while sizes.len() <= epochs {
        let began = window.epoch.began;
        let until = end + window.size();
        now += delay.max(Duration::from_secs_f64(window.size() as f64 / rate_max));
        while end < until {
            end += 128 * KIB;
            advance(&mut window, end, &access(true, end, now), size_max);
        }
        if window.epoch.began != began {
            sizes.push(window.size());
        }
    }
    sizes.iter().map(|size| size / MIB).collect()
}

#[test]
fn a_window_that_was_cut_lacks_memory_until_it_is_back() {
    let access = access(true, 0, Duration::ZERO);
    let mut window = Window::open(8 * MIB, 0, &access, 256 * MIB);
    assert!(!window.is_short_of_memory(true));
    window.shrink();
    window.shrink();
    assert!(window.is_short_of_memory(false));
    window.size_before_cut = 0;
    assert!(!window.is_short_of_memory(false));
    let full = Window::open(8 * MIB, 0, &access, 4 * MIB);
    assert!(full.is_short_of_memory(true) && !full.is_short_of_memory(false));
}

#[test]
fn grows_up_to_its_bound_while_that_pays() {
    let delay = Duration::from_millis(30);
    assert_eq!(
        run(MIB, 8, delay, 1e12, 256 * MIB),
        [1, 4, 4, 16, 16, 64, 64, 256, 256]
    );
    assert_eq!(run(MIB, 4, delay, 1e12, 6 * MIB), [1, 4, 4, 6, 6]);
}

#[test]
fn returns_to_where_growing_stopped_to_pay() {
    // 1 GB/s at 10 ms: the bandwidth-delay product is 10 MB.
    let sizes = run(256 * KIB, 200, Duration::from_millis(10), 1e9, 256 * MIB);
    assert!(sizes.iter().all(|&size| size <= 128), "{sizes:?}");
    let resting = sizes[16..].iter().filter(|&&size| size == 8 || size == 16);
    assert!(resting.count() > 150, "{sizes:?}");
    // This machine is the limit: the window keeps its initial size.
    let sizes = run(4 * MIB, 200, Duration::from_micros(500), 1e9, 256 * MIB);
    assert!(sizes.iter().all(|&size| size <= 16), "{sizes:?}");
    let resting = sizes.iter().filter(|&&size| size == 4).count();
    assert!(resting > 180, "{sizes:?}");
}

/// Eight readers share a rate in proportion to their windows, as on a machine at its limit.
#[test]
fn readers_that_only_take_from_each_other_do_not_grow() {
    let open = || Window::open(4 * MIB, 0, &access(true, 0, Duration::ZERO), 256 * MIB);
    let mut readers: Vec<(Window, u64)> = (0..8).map(|_| (open(), 0)).collect();
    let (mut consumed, mut sizes) = (0, Vec::new());
    for step in 1..20_000_u64 {
        let total: u64 = readers.iter().map(|(window, _)| window.size()).sum();
        for (window, end) in &mut readers {
            let bytes = MIB * window.size() / total;
            (*end, consumed) = (*end + bytes, consumed + bytes);
            let access = Access {
                consumed,
                ..access(true, *end, Duration::from_millis(step))
            };
            advance(window, *end, &access, 256 * MIB);
        }
        sizes.push(
            readers
                .iter()
                .map(|(window, _)| window.size() / MIB)
                .max()
                .unwrap(),
        );
    }
    assert!(sizes.iter().all(|&size| size <= 16), "{sizes:?}");
    let resting = sizes.iter().filter(|&&size| size <= 8).count();
    assert!(resting > sizes.len() * 9 / 10, "{resting}");
}

#[test]
fn a_window_that_lasts_for_many_delays_does_not_grow() {
    #[track_caller]
    fn check(size_mib: u64, own_rate: f64, delay_ms: f64, expected: bool) {
        let delay = Some(Duration::from_secs_f64(delay_ms / 1e3));
        assert_eq!(
            is_ample(size_mib * MIB, own_rate, delay, delay_ms < 20.0),
            expected,
            "{size_mib} MiB at {own_rate}"
        );
    }
    // This machine: one stream of eight, and a single one.
    check(4, 0.15e9, 1.0, true);
    check(4, 2.5e9, 1.0, false);
    check(4, 1.5e9, 1.0, true);
    // MinIO on this machine: a longer part takes longer, which is no reason for a larger window.
    check(8, 0.8e9, 2.6, true);
    check(16, 0.8e9, 4.8, true);
    check(32, 1.2e9, 13.0, true);
    // Stores that deliver a window in one latency, or in two: S3 and S3 Express.
    check(4, 4.2e6 / 0.031, 31.0, false);
    check(256, 268e6 / 0.226, 113.0, false);
    check(32, 33.6e6 / 0.058, 58.0, false);
    // Below the initial size the distance does not matter.
    check(2, 1e3, 0.001, false);
    assert!(!is_ample(256 * MIB, 1.0, None, false));
}

#[test]
fn windows_of_many_streams_that_hold_many_distances_do_not_grow() {
    #[track_caller]
    fn check(size_mib: u64, streams: usize, rate: f64, distance_ms: f64, expected: bool) {
        let distance = Some(Duration::from_secs_f64(distance_ms / 1e3));
        let are_ample = are_ample(size_mib * MIB, streams, rate, distance);
        assert_eq!(are_ample, expected, "{size_mib} MiB at {rate}");
    }
    // This machine, idle and busy; a single stream judges by itself.
    check(4, 8, 1.5e9, 1.0, true);
    check(4, 8, 1.3e9, 4.0, true);
    check(4, 1, 0.1e9, 1.0, false);
    // S3 Express and S3 at 25 and 100 Gbit/s.
    check(4, 8, 3e9, 6.0, false);
    check(16, 8, 3e9, 6.0, true);
    check(32, 8, 3e9, 25.0, false);
    check(128, 8, 12e9, 25.0, false);
    assert!(!are_ample(256 * MIB, 8, 1.0, None));
}

#[test]
fn a_reader_that_never_waits_keeps_its_window() {
    let mut window = Window::open(MIB, 0, &access(false, 0, Duration::ZERO), 256 * MIB);
    for step in 1..100 {
        let access = access(false, step * MIB, Duration::from_millis(step));
        advance(&mut window, step * MIB, &access, 256 * MIB);
    }
    assert_eq!(window.size(), MIB);
}

#[test]
fn bounds_hold_whatever_is_asked() {
    #[track_caller]
    fn check(wanted: u64, size_max: u64, size: u64) {
        assert_eq!(
            Window::open(wanted, 0, &access(true, 0, Duration::ZERO), size_max).size(),
            size
        );
    }
    check(1, 256 * MIB, 128 * KIB);
    check(300 * KIB, 256 * MIB, 512 * KIB);
    check(64 * MIB, 256 * MIB, 4 * MIB);
    check(64 * MIB, MIB, MIB);
    check(64 * MIB, 0, 128 * KIB);
}

#[test]
fn shrinks_when_memory_is_short_and_when_its_share_does() {
    let mut window = Window::open(4 * MIB, 0, &access(true, 0, Duration::ZERO), 256 * MIB);
    window.shrink();
    assert_eq!(window.size(), 2 * MIB);
    advance(&mut window, 1, &access(true, 1, Duration::ZERO), 300 * KIB);
    assert_eq!(window.size(), 300 * KIB);
    for _ in 0..9 {
        window.shrink();
    }
    assert_eq!(window.size(), 128 * KIB);
}

#[test]
fn parts_are_a_quarter_of_the_window_and_a_half_of_those_of_several() {
    #[track_caller]
    fn check(size: u64, streams: usize, part_max: u64, part: u64) {
        let window = Window::open(size, 0, &access(true, 0, Duration::ZERO), size);
        let bounds = Bounds {
            size: u64::MAX,
            part_max,
            window_max: size,
            streams,
            min_latencies: &MinLatencies::default(),
            proven_window: &ProvenWindow::default(),
        };
        assert_eq!(window.part(&bounds), part, "{size} of {streams}");
    }
    check(128 * KIB, 1, 8 * MIB, 128 * KIB);
    check(MIB, 1, 8 * MIB, 256 * KIB);
    check(3 * MIB, 1, 8 * MIB, 512 * KIB);
    check(4 * MIB, 3, 8 * MIB, MIB);
    check(4 * MIB, 1, 300 * KIB, 300 * KIB);
    check(4 * MIB, 4, 8 * MIB, 2 * MIB);
    check(3 * MIB, 8, 8 * MIB, MIB);
    check(128 * KIB, 8, 8 * MIB, 128 * KIB);
    check(4 * MIB, 8, 300 * KIB, 300 * KIB);
}
