//! When a GET is so late that a second one for the same bytes is worth a request.
//!
//! Decides only: no clock, no client, no block. Learns by size how long most GETs take to the first
//! byte and to the last, and says whether a GET that a reader waits for is late. The number of
//! second GETs is bounded by a share of the first ones. Lock-free: any thread.
//!
//! Invariant: at most one second GET for [`HEDGE_SHARE`] first ones since the mount began, and none
//! for sizes of which too few GETs were seen.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::read::plan::{CLASSES, class};

/// How long GETs usually take, and how many second GETs may be sent.
#[derive(Debug, Default)]
pub(in crate::read) struct HedgePolicy {
    to_first_byte: [Delays; CLASSES],
    to_last_byte: [Delays; CLASSES],
    /// Earned by first GETs, one for each; a second one costs [`HEDGE_SHARE`].
    credit: AtomicU32,
}

/// The observed state of a GET that a reader waits for.
#[derive(Clone, Debug)]
pub(in crate::read) struct Sight {
    /// Bytes it asks for.
    pub(in crate::read) len: u64,
    /// Bytes that have come.
    pub(in crate::read) valid: u64,
    /// Time since it was sent.
    pub(in crate::read) age: Duration,
    /// Time since it was looked at before.
    pub(in crate::read) watched: Duration,
    /// Bytes that have come since then.
    pub(in crate::read) gained: u64,
}

/// The verdict about a GET that a reader waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::read) enum Verdict {
    /// Send a second one.
    Hedge,
    /// Not yet; look again after this time.
    LookAgain(Duration),
    /// Look again after this time, and count only the bytes that come until then.
    Observe(Duration),
    /// Too few GETs of its size were seen.
    Leave,
}

impl HedgePolicy {
    /// A first GET was sent.
    pub(in crate::read) fn sent(&self) {
        let earn = |credit: u32| (credit < CREDIT_MAX).then(|| credit + 1);
        // An error means that no more can be saved.
        self.credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, earn)
            .ok();
    }

    /// The first byte of a first GET of `len` bytes came after `delay`.
    pub(in crate::read) fn began(&self, len: u64, delay: Duration) {
        self.to_first_byte[class(len)].record(delay);
    }

    /// The last byte of a first GET of `len` bytes came after `delay`.
    pub(in crate::read) fn ended(&self, len: u64, delay: Duration) {
        self.to_last_byte[class(len)].record(delay);
    }

    /// Whether a GET is late. Without a byte: when most others would have had one for long. With
    /// some bytes: when most others would be complete, and the rest would take as long again at the
    /// present speed.
    pub(in crate::read) fn look(&self, sight: &Sight) -> Verdict {
        let class = class(sight.len);
        let Some(first) = self.to_first_byte[class].late() else {
            return Verdict::Leave;
        };
        if sight.valid == 0 {
            return match first.checked_sub(sight.age) {
                None | Some(Duration::ZERO) => Verdict::Hedge,
                Some(rest) => Verdict::LookAgain(rest),
            };
        }
        let Some(last) = self.to_last_byte[class].late() else {
            return Verdict::Leave;
        };
        if sight.age < last {
            return Verdict::Observe(last - sight.age);
        }
        // Bytes come in gusts: their speed is known after a while only.
        if sight.watched < first {
            return Verdict::LookAgain(first - sight.watched);
        }
        let missing = sight.len.saturating_sub(sight.valid) as f64;
        if sight.gained as f64 * last.as_secs_f64() < missing * sight.watched.as_secs_f64() {
            Verdict::Hedge
        } else {
            Verdict::Observe(first)
        }
    }

    /// Pays for a second GET; `false` if the first ones have not earned it yet.
    pub(in crate::read) fn spend(&self) -> bool {
        let pay = |credit: u32| credit.checked_sub(HEDGE_SHARE);
        self.credit
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay)
            .is_ok()
    }
}

/// How long GETs of one size took, roughly. Recent ones count more.
#[derive(Debug)]
struct Delays {
    counts: [AtomicU32; STEPS],
    seen: AtomicU32,
    /// The delay from which on a GET is late, in microseconds; `UNKNOWN` before enough were seen.
    late_us: AtomicU64,
}

impl Default for Delays {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU32::new(0) }; STEPS],
            seen: AtomicU32::new(0),
            late_us: AtomicU64::new(UNKNOWN),
        }
    }
}

impl Delays {
    fn record(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.counts[step(micros)].fetch_add(1, Ordering::Relaxed);
        let seen = self.seen.fetch_add(1, Ordering::Relaxed) + 1;
        if seen >= SEEN_MIN && seen.is_multiple_of(LEARN_EVERY) {
            self.learn();
        }
        if seen == SEEN_MAX {
            self.forget_half();
        }
    }

    fn late(&self) -> Option<Duration> {
        let micros = self.late_us.load(Ordering::Relaxed);
        (micros != UNKNOWN).then(|| Duration::from_micros(micros))
    }

    /// Finds the percentile. Delays that other threads record meanwhile may count or not.
    fn learn(&self) {
        let counts = || {
            self.counts
                .iter()
                .map(|count| count.load(Ordering::Relaxed))
        };
        let rank = counts().sum::<u32>() * USUAL_PERCENT / 100;
        let mut below = 0;
        let usual = counts().position(|count| {
            below += count;
            below > rank
        });
        let usual = Duration::from_micros(step_end(usual.unwrap_or(STEPS - 1)));
        let late = (usual * LATE_FACTOR).max(HEDGE_DELAY_MIN);
        let micros = u64::try_from(late.as_micros()).unwrap_or(UNKNOWN);
        self.late_us.store(micros, Ordering::Relaxed);
    }

    /// Forgets half of the delays, so that the rest follows a store or a route that changes.
    fn forget_half(&self) {
        let mut kept = 0;
        for count in &self.counts {
            let half = count.load(Ordering::Relaxed) / 2;
            count.fetch_sub(half, Ordering::Relaxed);
            kept += count.load(Ordering::Relaxed);
        }
        self.seen.store(kept.min(SEEN_MAX - 1), Ordering::Relaxed);
    }
}

/// Which step a delay belongs to: four to each doubling.
fn step(micros: u64) -> usize {
    if micros < STEP_FIRST_US {
        return 0;
    }
    let doublings = (micros / STEP_FIRST_US).ilog2();
    let quarter = micros * 4 / (STEP_FIRST_US << doublings) - 4;
    let step = 1 + doublings as usize * 4 + usize::try_from(quarter).unwrap_or(3);
    step.min(STEPS - 1)
}

/// The end of a step, in microseconds.
fn step_end(step: usize) -> u64 {
    match step.checked_sub(1) {
        None => STEP_FIRST_US,
        Some(step) => (STEP_FIRST_US << (step / 4)) * (5 + step as u64 % 4) / 4,
    }
}

/// Delays up to this are one: no store answers sooner.
const STEP_FIRST_US: u64 = 128;
/// The last step begins at about a minute.
const STEPS: usize = 1 + 19 * 4;
const UNKNOWN: u64 = u64::MAX;

/// The percentile that counts as usual. A higher one would be the stragglers' own delay where one
/// GET of a hundred straggles.
const USUAL_PERCENT: u32 = 95;
/// A GET is late that takes so many times the usual delay: one of some hundreds, for most stores.
const LATE_FACTOR: u32 = 2;
/// With fewer the percentile would be the longest of them.
const SEEN_MIN: u32 = 32;
/// The percentile is found anew after so many: it costs a look at each step.
const LEARN_EVERY: u32 = 16;
/// After so many, half are forgotten.
const SEEN_MAX: u32 = 1024;

const CREDIT_MAX: u32 = HEDGE_SHARE * HEDGE_BURST;

/// First GETs for each second one that is sent because the first is late. 2 % more requests at
/// most.
pub(in crate::read) const HEDGE_SHARE: u32 = 50;

/// Second GETs that may be saved up. As many as stall at once when a server or network interface
/// dies.
pub const HEDGE_BURST: u32 = 64;

/// No GET is late before this. A busy machine takes as long to notice arrived bytes.
pub(super) const HEDGE_DELAY_MIN: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests {
    use rand::{Rng as _, SeedableRng as _, rngs::StdRng};

    use super::*;

    const MIB: u64 = 1 << 20;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A policy that has seen a hundred GETs of a MiB: the first byte after 20 ms, the last after
    /// 100.
    fn learned() -> HedgePolicy {
        let policy = HedgePolicy::default();
        for _ in 0..100 {
            policy.sent();
            policy.began(MIB, ms(20));
            policy.ended(MIB, ms(100));
        }
        policy
    }

    #[test]
    fn steps_cover_every_delay_and_are_a_quarter_wide() {
        let mut last = 0;
        for micros in (0..100_000).chain((100_000..200_000_000).step_by(9973)) {
            let step = step(micros);
            assert!(step == last || step == last + 1, "{micros}");
            last = step;
            if step < STEPS - 1 {
                assert!(micros < step_end(step), "{micros}");
                assert!(step_end(step) <= (micros * 5 / 4).max(STEP_FIRST_US) + 1);
            }
        }
        assert_eq!(step(u64::MAX / 8), STEPS - 1);
    }

    #[test]
    fn late_is_twice_what_is_usual() {
        #[track_caller]
        fn check(delays_ms: &[(u32, u64)], late_ms: Option<(u64, u64)>) {
            let delays = Delays::default();
            let longest = delays_ms.iter().map(|(count, _)| *count).max().unwrap_or(0);
            for turn in 0..longest {
                for (_, delay) in delays_ms.iter().filter(|(count, _)| turn < *count) {
                    delays.record(ms(*delay));
                }
            }
            match (delays.late(), late_ms) {
                (None, None) => {}
                (Some(late), Some((least, most))) => {
                    assert!(ms(least) <= late && late <= ms(most), "{late:?}");
                }
                other => panic!("{other:?}"),
            }
        }
        check(&[], None);
        check(&[(31, 20)], None);
        check(&[(32, 20)], Some((40, 50)));
        check(&[(32, 1)], Some((10, 10)));
        // One of a hundred, and four of a hundred, are stragglers; one of ten is not.
        check(&[(990, 20), (10, 2000)], Some((40, 50)));
        check(&[(960, 20), (40, 2000)], Some((40, 50)));
        check(&[(450, 20), (50, 2000)], Some((4000, 5000)));
        check(&[(500, 600_000)], Some((60_000, 300_000)));
    }

    #[test]
    fn what_is_usual_follows_the_store() {
        let delays = Delays::default();
        for (delay, least, most) in [(20, 40, 50), (200, 400, 500), (5, 10, 13)] {
            for _ in 0..5000 {
                delays.record(ms(delay));
            }
            let late = delays.late().unwrap();
            assert!(ms(least) <= late && late <= ms(most), "{late:?}");
        }
    }

    #[test]
    fn a_get_is_late_by_its_first_byte_or_its_pace() {
        /// Age, KiB valid, time watched, KiB gained meanwhile.
        #[track_caller]
        fn check(sight: (u64, u64, u64, u64), expected: Verdict) {
            let (age, valid, watched, gained) = sight;
            let sight = Sight {
                len: MIB,
                valid: valid << 10,
                age: ms(age),
                watched: ms(watched),
                gained: gained << 10,
            };
            assert_eq!(learned().look(&sight), expected, "{sight:?}");
        }
        let policy = learned();
        let first = policy.to_first_byte[class(MIB)].late().unwrap();
        let last = policy.to_last_byte[class(MIB)].late().unwrap();
        assert!(ms(40) <= first && first <= ms(50), "{first:?}");
        assert!(ms(200) <= last && last <= ms(250), "{last:?}");
        check((0, 0, 0, 0), Verdict::LookAgain(first));
        check((39, 0, 39, 0), Verdict::LookAgain(first - ms(39)));
        check((50, 0, 0, 0), Verdict::Hedge);
        check((2000, 0, 2000, 0), Verdict::Hedge);
        // Bytes come, and there is time left.
        check((50, 1, 20, 1), Verdict::Observe(last - ms(50)));
        // Over time, and only just looked at.
        check((300, 512, 0, 0), Verdict::LookAgain(first));
        check((300, 512, 10, 0), Verdict::LookAgain(first - ms(10)));
        // Over time: standing still, as good as, and about to come.
        check((300, 512, 50, 0), Verdict::Hedge);
        check((300, 512, 50, 10), Verdict::Hedge);
        check((300, 512, 50, 400), Verdict::Observe(first));
        check((300, 1023, 50, 1), Verdict::Observe(first));
    }

    #[test]
    fn sizes_are_learned_apart() {
        let sight = |len| Sight {
            len,
            valid: 0,
            age: ms(5000),
            watched: ms(5000),
            gained: 0,
        };
        let policy = learned();
        assert_eq!(policy.look(&sight(MIB)), Verdict::Hedge);
        assert_eq!(policy.look(&sight(8 * MIB)), Verdict::Leave);
        assert_eq!(policy.look(&sight(4096)), Verdict::Leave);
    }

    #[test]
    fn second_gets_are_a_share_of_the_first_with_a_bounded_burst() {
        let policy = HedgePolicy::default();
        assert!(!policy.spend(), "nothing is given in advance");
        let (mut sent, mut hedged) = (0, 0);
        for _ in 0..10_000 {
            policy.sent();
            sent += 1;
            hedged += u32::from(policy.spend());
            assert!(hedged * HEDGE_SHARE <= sent);
        }
        assert_eq!(hedged, 10_000 / HEDGE_SHARE);
        for _ in 0..100_000 {
            policy.sent();
        }
        let burst = (0..1000).filter(|_| policy.spend()).count();
        assert_eq!(burst, HEDGE_BURST as usize);
    }

    /// One of a hundred requests takes 2 s longer; the others spread around 20 ms.
    #[test]
    fn the_tail_of_a_store_with_stragglers_is_cut() {
        let mut random = StdRng::seed_from_u64(3);
        let mut delay = || {
            let usual: f64 = (0..4).map(|_| random.random_range(2.0..8.0)).sum();
            let straggles = random.random_bool(0.01);
            Duration::from_secs_f64(usual / 1000.0) + ms(if straggles { 2000 } else { 0 })
        };
        let policy = HedgePolicy::default();
        let (mut seen, mut hedges) = (Vec::new(), 0);
        for _ in 0..20_000 {
            let first = delay();
            policy.sent();
            let late = policy.to_first_byte[class(4096)].late();
            seen.push(match late {
                Some(late) if first > late && policy.spend() => {
                    hedges += 1;
                    first.min(late + delay())
                }
                _ => first,
            });
            policy.began(4096, first);
        }
        seen.sort();
        let percentile = seen[seen.len() * 999 / 1000];
        assert!(hedges * 50 <= seen.len(), "{hedges}");
        assert!(percentile < ms(120), "{percentile:?}");
    }
}
