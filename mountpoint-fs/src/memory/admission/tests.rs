//! The admission of writers, in tables of requests.

use super::*;

const MIB: u64 = 1 << 20;
const WHOLE: u64 = 9 * MIB;

fn request(held: u64, len: u64) -> BufferRequest {
    BufferRequest {
        held,
        len,
        least: len,
        whole: WHOLE,
        shortest: 6 * MIB,
        is_large: false,
    }
}

fn take(
    admission: &mut Admission,
    request: BufferRequest,
    wait: WaitState,
) -> Option<(BufferKind, u64)> {
    let chosen = admission.choose(request, wait)?;
    let (kind, bytes) = chosen;
    admission.take(kind, bytes - request.held);
    admission.convert(request.held, BufferKind::Small, kind);
    Some(chosen)
}

#[test]
fn beginnings_take_three_quarters_and_parts_what_is_kept() {
    // MiB of memory, and how many beginnings of 1 MiB and whole parts behind them fit.
    for (memory, small, parts) in [(64, 47, 1), (128, 96, 1), (512, 384, 7), (8192, 6144, 113)] {
        let mut admission = Admission::new(memory * MIB, WHOLE);
        let begun = std::iter::from_fn(|| take(&mut admission, request(0, MIB), WaitState::First));
        let kinds: Vec<_> = begun.map(|(kind, _)| kind).collect();
        let count = |kind| kinds.iter().filter(|it| **it == kind).count();
        assert_eq!(
            (count(BufferKind::Small), count(BufferKind::Part)),
            (small, parts),
            "{memory}"
        );
        assert!(admission.used() <= memory * MIB - (memory * MIB / 8).max(READ_KEPT_MIN));
    }
}

#[test]
fn the_largest_part_always_finds_room() {
    for memory in [16, 24, 64, 512, 8192] {
        let memory = memory * MIB;
        let part = part_max(memory);
        let mut admission = Admission::new(memory, part);
        let begun = std::iter::from_fn(|| {
            let request = BufferRequest {
                whole: part,
                ..request(0, 64 << 10)
            };
            let chosen = admission.choose(request, WaitState::First);
            let (kind, bytes) = chosen.filter(|(kind, _)| *kind == BufferKind::Small)?;
            admission.take(kind, bytes);
            Some(bytes)
        });
        assert!(begun.sum::<u64>() > memory / 8 - MIB);
        let large = BufferRequest {
            whole: part,
            ..request(0, MIB)
        };
        assert_eq!(
            admission.choose(large, WaitState::Waited),
            Some((BufferKind::Part, part))
        );
    }
}

#[test]
fn parts_take_half_and_leave_the_rest_to_reads() {
    let mut admission = Admission::new(512 * MIB, WHOLE);
    let large = BufferRequest {
        is_large: true,
        least: 0,
        ..request(0, WHOLE)
    };
    let parts = (0..30).filter_map(|_| take(&mut admission, large, WaitState::First));
    let parts = parts.filter(|(kind, _)| *kind == BufferKind::Part).count();
    assert_eq!(parts, 256 / 9);
    // More of one would become a part by and by; where nothing else would give memory back,
    // that is better than nothing.
    let more = BufferRequest {
        least: 8 * MIB,
        ..large
    };
    for (wait, expected) in [
        (WaitState::First, None),
        (WaitState::Waited, None),
        (WaitState::Stuck, Some((BufferKind::Small, 8 * MIB))),
    ] {
        assert_eq!(admission.choose(more, wait), expected, "{wait:?}");
    }
    // Small files find room all the same.
    assert_eq!(
        admission.choose(request(0, 4096), WaitState::Waited),
        Some((BufferKind::Small, 4096))
    );
}

#[test]
fn a_small_file_that_waited_is_served_beyond_the_half_that_large_ones_leave() {
    let mut admission = Admission::new(64 * MIB, WHOLE);
    admission.take(BufferKind::Small, 32 * MIB);
    admission.take(BufferKind::Part, WHOLE);
    let small = request(0, MIB);
    let large = BufferRequest {
        is_large: true,
        ..small
    };
    let chosen = |request| admission.choose(request, WaitState::Waited);
    assert_eq!(chosen(small), Some((BufferKind::Small, MIB)));
    assert_eq!(chosen(large), None);
}

#[test]
fn a_file_gets_a_whole_part_early_only_while_little_is_held() {
    let mut admission = Admission::new(512 * MIB, WHOLE);
    let growing = BufferRequest {
        held: MIB,
        len: WHOLE,
        least: MIB + (256 << 10),
        ..request(0, 0)
    };
    let mut kinds = Vec::new();
    for _ in 0..12 {
        admission.take(BufferKind::Small, MIB);
        kinds.push(take(&mut admission, growing, WaitState::First).unwrap().0);
    }
    assert_eq!(
        kinds
            .iter()
            .filter(|kind| **kind == BufferKind::Part)
            .count(),
        7
    );
    assert_eq!(kinds[11], BufferKind::Small);
    // A writer that has waited is to come to an end.
    admission.take(BufferKind::Small, MIB);
    assert_eq!(
        admission.choose(growing, WaitState::Waited),
        Some((BufferKind::Part, WHOLE))
    );
}

#[test]
fn beginnings_leave_room_for_what_may_wait() {
    let begun = |expected| {
        let mut admission = Admission::new(512 * MIB, WHOLE);
        admission.expect(expected * MIB);
        while let Some((BufferKind::Small, _)) = admission.choose(request(0, MIB), WaitState::First)
        {
            admission.take(BufferKind::Small, MIB);
        }
        // Whatever was expected, some are begun, and a part finds room.
        assert_eq!(
            admission
                .choose(request(0, WHOLE), WaitState::Waited)
                .unwrap()
                .0,
            BufferKind::Part
        );
        let counted = admission.wait(4096 * MIB);
        assert_eq!(
            admission
                .choose(request(0, WHOLE), WaitState::Waited)
                .unwrap()
                .0,
            BufferKind::Part
        );
        (admission.used() / MIB, counted / MIB)
    };
    // MiB that may wait; MiB of beginnings, and what is counted then of WRITEs that wait.
    for (expected, small, counted) in [
        (0, 384, 0),
        (100, 284, 100),
        (320, 64, 320),
        (5000, 64, 320),
    ] {
        assert_eq!(begun(expected), (small, counted), "{expected}");
    }
}

#[test]
fn what_waits_is_counted_as_far_as_there_is_memory_and_given_back() {
    let mut admission = Admission::new(512 * MIB, WHOLE);
    let counted: Vec<_> = (0..500).map(|_| admission.wait(MIB)).collect();
    assert_eq!(counted.iter().sum::<u64>(), 320 * MIB);
    let more = std::iter::from_fn(|| take(&mut admission, request(0, MIB), WaitState::Waited));
    let parts = more.filter(|(kind, _)| *kind == BufferKind::Part);
    assert_eq!(parts.count(), 128 / 9);
    for counted in counted {
        admission.waited(counted);
    }
    assert_eq!(
        take(&mut admission, request(0, MIB), WaitState::First),
        Some((BufferKind::Small, MIB))
    );
}

#[test]
fn parts_are_cut_where_beginnings_are_full_as_far_as_reads_lend() {
    let mut admission = Admission::new(512 * MIB, WHOLE);
    admission.take(BufferKind::Small, 384 * MIB);
    for (kept, expected) in [(31, true), (2, false), (1, true)] {
        admission.take(BufferKind::Part, WHOLE);
        assert_eq!(admission.cut(WHOLE, kept * MIB), expected, "{kept}");
        if !expected {
            admission.give_back(BufferKind::Part, WHOLE);
        }
        let next = admission.choose(request(0, WHOLE), WaitState::Waited);
        assert_eq!(next, Some((BufferKind::Part, WHOLE)));
    }
}

#[test]
fn small_buffers_are_generous_while_beginnings_are_few() {
    let mut admission = Admission::new(512 * MIB, WHOLE);
    let generous = BufferRequest {
        least: 4096,
        ..request(0, MIB)
    };
    let sizes: Vec<_> = (0..40)
        .map(|_| take(&mut admission, generous, WaitState::First).unwrap().1)
        .collect();
    assert_eq!(sizes.iter().filter(|size| **size == MIB).count(), 32);
    assert_eq!(sizes[39], 4096);
}

#[test]
fn large_parts_are_cut_short_only_where_nothing_else_helps() {
    let mut admission = Admission::new(512 * MIB, WHOLE);
    admission.take(BufferKind::Small, 384 * MIB);
    let large = BufferRequest {
        least: MIB,
        whole: 128 * MIB,
        is_large: true,
        ..request(0, 128 * MIB)
    };
    for (wait, expected) in [
        (WaitState::First, None),
        (WaitState::Waited, None),
        (WaitState::Stuck, Some((BufferKind::Part, 64 * MIB))),
    ] {
        assert_eq!(admission.choose(large, wait), expected, "{wait:?}");
    }
    let fixed = BufferRequest {
        shortest: large.whole,
        ..large
    };
    assert_eq!(admission.choose(fixed, WaitState::Stuck), None);
    // One that is larger than all memory is served when nobody else has any.
    let huge = BufferRequest {
        len: 1024 * MIB,
        least: 1024 * MIB,
        whole: 1024 * MIB,
        ..fixed
    };
    assert_eq!(admission.choose(huge, WaitState::Waited), None);
    admission.give_back(BufferKind::Small, 384 * MIB);
    assert_eq!(
        admission.choose(huge, WaitState::Waited),
        Some((BufferKind::Part, 1024 * MIB))
    );
}
