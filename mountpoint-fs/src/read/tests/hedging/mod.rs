//! Hedges in virtual time: when a second GET is sent, which answer counts, and what it may cost.

mod schedules;

use super::*;
use crate::memory::Purpose;
use crate::read::fetch::{HEDGE_BURST, HEDGE_SHARE};
use crate::sync::Mutex;

/// Latency of the first and the last byte of the GETs that teach.
const FIRST_BYTE: Duration = Duration::from_millis(20);
const LAST_BYTE: Duration = Duration::from_millis(60);
/// More than twice those latencies.
const LATE: Duration = Duration::from_millis(60);
const VERY_LATE: Duration = Duration::from_millis(200);
const STEP: Duration = Duration::from_millis(5);

impl Bucket {
    /// A bucket that knows the latency of GETs of `len` bytes, with a reader.
    ///
    /// The bucket has credit for `credit` hedges.
    fn learned(len: u64, credit: u32) -> (Self, Reader) {
        Self::learned_with(ReadConfig::default(), len, credit)
    }

    fn learned_with(config: ReadConfig, len: u64, credit: u32) -> (Self, Reader) {
        let time = Time::Manual;
        let options = SimOptions {
            time,
            ..SimOptions::default()
        };
        let bucket = Self::with(options, config);
        let reader = bucket.open(2 << 30);
        for turn in 0..credit.max(1) * HEDGE_SHARE {
            let offset = place(u64::from(turn));
            let task = Task::start(&reader, offset, len);
            bucket.clock.advance(FIRST_BYTE);
            assert!(bucket.client.deliver(bucket.get_at(offset).id, 1));
            bucket.clock.advance(LAST_BYTE - FIRST_BYTE);
            bucket.finish(offset);
            assert_bytes(&task.finish().unwrap(), offset..offset + len);
        }
        bucket.wait(Duration::from_secs(1));
        assert_eq!(bucket.context.stats().hedges, 0);
        assert!(
            !bucket.context.resources.fetcher.look_at_due(),
            "what is over is forgotten"
        );
        (bucket, reader)
    }

    /// Advances the clock and runs the task that looks for late GETs.
    fn wait(&self, time: Duration) {
        for _ in 0..time.as_millis() / STEP.as_millis() {
            self.clock.advance(STEP);
            self.context.resources.fetcher.look_at_due();
        }
    }

    fn hedges(&self) -> u64 {
        self.context.stats().hedges
    }

    /// The hedges in flight.
    fn second(&self) -> Vec<PendingGet> {
        let mut gets = self.client.pending_gets();
        gets.retain(|get| matches!(get.priority, Priority::Hedge { .. }));
        gets
    }
}

/// Offsets that no earlier read has touched, in no order, never the beginning.
fn place(turn: u64) -> u64 {
    ((turn + 1) * 389 % 1021) * 2 * MIB
}

/// An offset that no GET that teaches has used.
const FRESH: u64 = 1022 * 2 * MIB;

#[test]
fn a_late_get_is_sent_again_and_the_first_to_answer_serves() {
    for first_wins in [false, true] {
        let (bucket, reader) = Bucket::learned(128 * KIB, 1);
        let used = bucket.context.stats().budget_used;
        let mut task = Task::start(&reader, FRESH, 128 * KIB);
        let first = bucket.get_at(FRESH).id;
        bucket.wait(FIRST_BYTE);
        assert_eq!(bucket.hedges(), 0, "not late yet");
        bucket.wait(LATE);
        let second = bucket.second();
        assert_eq!(second.len(), 1);
        assert_eq!(second[0].range, FRESH..FRESH + 128 * KIB);
        assert_eq!(second[0].priority, Priority::Hedge { avoid: Some(0) });
        let reserved = bucket.context.stats().budget_used - used;
        assert_eq!(reserved, 2 * 128 * KIB, "a block each");
        assert!(task.poll().is_pending());
        let (winner, loser) = if first_wins {
            (first, second[0].id)
        } else {
            (second[0].id, first)
        };
        assert!(bucket.client.finish(winner));
        assert_eq!(task.wakes(), 1);
        let data = task.finish().unwrap();
        assert_bytes(&data, FRESH..FRESH + 128 * KIB);
        assert_eq!(
            bucket.client.gets_in_flight(),
            1,
            "the loser is not cut off"
        );
        assert!(bucket.client.finish(loser));
        assert_bytes(&data, FRESH..FRESH + 128 * KIB);
        drop((data, reader));
        assert_eq!(bucket.context.stats().budget_used, 0);
        assert_eq!(bucket.hedges(), 1);
    }
}

#[test]
fn a_body_that_stands_still_is_continued_by_another_get() {
    let (bucket, reader) = Bucket::learned(128 * KIB, 1);
    let task = Task::start(&reader, FRESH, 128 * KIB);
    let first = bucket.get_at(FRESH).id;
    bucket.wait(FIRST_BYTE);
    assert!(bucket.client.deliver(first, 70 * KIB));
    bucket.wait(VERY_LATE);
    let second = bucket.second();
    assert_eq!(second.len(), 1);
    assert_eq!(
        second[0].range,
        FRESH + 70 * KIB..FRESH + 128 * KIB,
        "the rest"
    );
    // Both GETs continue; at first they do not have the whole range together.
    assert!(bucket.client.deliver(first, 10 * KIB));
    assert!(bucket.client.deliver(second[0].id, 20 * KIB));
    assert_eq!(task.wakes(), 0);
    assert!(bucket.client.finish(second[0].id));
    assert_eq!(task.wakes(), 1);
    let data = task.finish().unwrap();
    assert_bytes(&data, FRESH..FRESH + 128 * KIB);
    assert_eq!(data.slices.len(), 2, "of both blocks");
    assert!(bucket.client.finish(first));
    assert_bytes(&data, FRESH..FRESH + 128 * KIB);
}

#[test]
fn a_body_that_will_be_there_soon_is_left_alone() {
    let (bucket, reader) = Bucket::learned(128 * KIB, 1);
    let task = Task::start(&reader, FRESH, 128 * KIB);
    let first = bucket.get_at(FRESH).id;
    for _ in 0..20 {
        assert!(bucket.client.deliver(first, 5 * KIB));
        bucket.wait(2 * STEP);
    }
    assert!(bucket.client.finish(first));
    assert_bytes(&task.finish().unwrap(), FRESH..FRESH + 128 * KIB);
    assert_eq!(bucket.hedges(), 0);
}

#[test]
fn read_ahead_is_hedged_when_somebody_comes_to_it() {
    let (bucket, reader) = Bucket::learned(256 * KIB, 2);
    let stream = bucket.open(64 * MIB);
    let mut first = Task::start(&stream, 0, 256 * KIB);
    bucket.finish(0);
    assert!(first.poll().is_ready());
    bucket.wait(Duration::from_secs(1));
    assert_eq!(bucket.hedges(), 0, "nobody waits for the rest");
    let task = Task::start(&stream, 256 * KIB, 256 * KIB);
    bucket.wait(STEP);
    let second = bucket.second();
    assert_eq!(second.len(), 1, "late already");
    assert!(bucket.client.finish(second[0].id));
    assert_bytes(&task.finish().unwrap(), 256 * KIB..512 * KIB);
    drop(reader);
}

#[test]
fn a_read_that_was_given_up_is_not_hedged_and_the_next_one_is() {
    let (bucket, _) = Bucket::learned(128 * KIB, 1);
    let reader = bucket.open(128 * KIB);
    drop(Task::start(&reader, 0, 4 * KIB));
    bucket.wait(VERY_LATE);
    assert_eq!(bucket.hedges(), 0);
    let task = Task::start(&reader, 8 * KIB, 4 * KIB);
    assert_eq!(
        bucket.client.gets_in_flight(),
        1,
        "the first GET is still there"
    );
    bucket.wait(STEP);
    assert_eq!(bucket.hedges(), 1);
    assert!(bucket.client.finish(bucket.second()[0].id));
    assert!(task.finish().is_ok());
}

#[test]
fn the_fetch_fails_with_the_last_of_its_gets() {
    for first_fails_first in [true, false] {
        let (bucket, reader) = Bucket::learned(128 * KIB, 1);
        let mut task = Task::start(&reader, FRESH, 128 * KIB);
        let first = bucket.get_at(FRESH).id;
        bucket.wait(LATE);
        let second = bucket.second()[0].id;
        let (early, late) = if first_fails_first {
            (first, second)
        } else {
            (second, first)
        };
        assert!(bucket.client.fail(early, ErrorKind::Transient));
        assert!(task.poll().is_pending(), "the other may bring it");
        assert!(bucket.client.fail(late, ErrorKind::PreconditionFailed));
        let error = task.finish().unwrap_err();
        assert!(matches!(error, FsError::Stale(_)), "{error:?}");
        read_again(&bucket, &reader);
    }
    // If the other GET succeeds, the reader does not see the failure.
    let (bucket, reader) = Bucket::learned(128 * KIB, 1);
    let task = Task::start(&reader, FRESH, 128 * KIB);
    let first = bucket.get_at(FRESH).id;
    bucket.wait(LATE);
    assert!(bucket.client.fail(first, ErrorKind::Transient));
    assert!(bucket.client.finish(bucket.second()[0].id));
    assert_bytes(&task.finish().unwrap(), FRESH..FRESH + 128 * KIB);
}

/// A failed range is fetched again.
#[track_caller]
fn read_again(bucket: &Bucket, reader: &Reader) {
    let task = Task::start(reader, FRESH, 128 * KIB);
    bucket.finish(FRESH);
    assert_bytes(&task.finish().unwrap(), FRESH..FRESH + 128 * KIB);
}

#[test]
fn no_second_get_is_sent_in_vain() {
    /// Checks that a late GET has no hedge after `begin`, and has one after `end`.
    ///
    /// If `config` forbids hedges, there is none.
    #[track_caller]
    fn check(what: &str, config: ReadConfig, begin: impl Fn(&Bucket), end: impl Fn(&Bucket)) {
        let (bucket, reader) = Bucket::learned_with(config, 128 * KIB, 1);
        let task = Task::start(&reader, FRESH, 128 * KIB);
        begin(&bucket);
        bucket.wait(VERY_LATE);
        assert_eq!(bucket.hedges(), 0, "{what}");
        end(&bucket);
        bucket.wait(VERY_LATE);
        let is_on = bucket.context.resources.config.hedging;
        assert_eq!(bucket.hedges(), u64::from(is_on), "{what}: later");
        bucket.client.deliver_all();
        assert_bytes(&task.finish().unwrap(), FRESH..FRESH + 128 * KIB);
    }
    let config = ReadConfig::default();
    check(
        "the store says to slow down",
        config.clone(),
        |bucket| bucket.client.set_throttled(true),
        |bucket| bucket.client.set_throttled(false),
    );
    let reserved = Mutex::new(None);
    check(
        "memory is short",
        config.clone(),
        |bucket| {
            let budget = &bucket.context.resources.memory.budget;
            let rest = budget.limit() - budget.used();
            let all = budget.try_reserve(rest, Purpose::Demand);
            *reserved.lock() = Some(all.unwrap());
        },
        |_| drop(reserved.lock().take()),
    );
    check(
        "it is switched off",
        ReadConfig {
            hedging: false,
            ..config
        },
        |_| (),
        |_| (),
    );
}

#[test]
fn before_enough_is_known_nothing_is_late() {
    let bucket = Bucket::new(Time::Manual);
    let reader = bucket.open(2 << 30);
    let task = Task::start(&reader, FRESH, 4 * KIB);
    bucket.wait(Duration::from_secs(60));
    assert_eq!(bucket.hedges(), 0);
    bucket.client.deliver_all();
    assert!(task.finish().is_ok());
}

#[test]
fn second_gets_stay_within_their_share() {
    let (bucket, reader) = Bucket::learned(4 * KIB, 3);
    let tasks: Vec<_> = (0..8)
        .map(|turn| Task::start(&reader, (turn * 2 + 1) * MIB, 4 * KIB))
        .collect();
    bucket.wait(Duration::from_secs(3));
    assert_eq!(bucket.hedges(), 3, "as many as were earned");
    bucket.client.deliver_all();
    assert!(tasks.into_iter().all(|task| task.finish().is_ok()));

    let (bucket, reader) = Bucket::learned(4 * KIB, HEDGE_BURST + 4);
    let tasks: Vec<_> = (0..64)
        .map(|turn| Task::start(&reader, (turn * 2 + 1) * MIB, 4 * KIB))
        .collect();
    bucket.wait(Duration::from_secs(3));
    assert_eq!(
        bucket.hedges(),
        u64::from(HEDGE_BURST),
        "no more is saved up"
    );
    bucket.client.deliver_all();
    assert!(tasks.into_iter().all(|task| task.finish().is_ok()));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each read has its bytes once they have arrived, whatever pieces the two GETs deliver.
    #[test]
    fn bytes_of_two_gets_are_one_range(pieces in prop::collection::vec((any::<bool>(), 1..12_u64), 1..12)) {
        let (bucket, reader) = Bucket::learned(32 * KIB, 1);
        let mut task = Task::start(&reader, FRESH, 32 * KIB);
        let first = bucket.get_at(FRESH).id;
        let mut has = [0, 0];
        let mut second = None;
        for (of_second, kib) in pieces {
            if second.is_none() && of_second {
                has[1] = has[0];
                bucket.wait(Duration::from_secs(1));
                second = bucket.second().first().map(|get| get.id);
            }
            let id = if of_second { second } else { Some(first) };
            let Some(id) = id.filter(|_| has[usize::from(of_second)] < 32) else { continue };
            bucket.client.deliver(id, kib * KIB);
            has[usize::from(of_second)] += kib;
            let is_there = has.iter().any(|has| *has >= 32);
            match task.poll() {
                Poll::Ready(data) => {
                    prop_assert!(is_there);
                    assert_bytes(&data.unwrap(), FRESH..FRESH + 32 * KIB);
                    return Ok(());
                }
                Poll::Pending => prop_assert!(!is_there, "{has:?}"),
            }
        }
    }
}
