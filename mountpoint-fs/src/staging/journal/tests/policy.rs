//! The policy in virtual time: closed loops and open ones, on disks of several kinds.
//!
//! The committing thread is simulated as it is: one batch syncs, the next one fills, and the policy
//! is asked whenever the disk is idle. Writers come back one after the other, as on a machine with
//! few cores.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use crate::staging::journal::{
    AdaptivePolicy, CommitPolicy, Decision, FinishedFlush, WaitingBatch,
};

/// A batch goes so long after its first writer came.
#[derive(Debug)]
struct FixedBudget(Duration);

impl CommitPolicy for FixedBudget {
    fn arrived(&mut self, _: Duration) {}

    fn decide(&self, now: Duration, batch: WaitingBatch) -> Decision {
        match batch.since + self.0 {
            end if end > now && batch.writers > 0 => Decision::WaitUntil(end),
            _ => Decision::Flush,
        }
    }

    fn flushed(&mut self, _: FinishedFlush) {}
}

/// A disk: what a sync costs, and a byte; each number in microseconds.
#[derive(Clone, Copy, Debug)]
struct Device {
    sync: f64,
    kib: f64,
    /// One sync of so many takes ten times as long.
    hiccup_each: u32,
}

const NVME: Device = Device {
    sync: 120.0,
    kib: 0.5,
    hiccup_each: 50,
};
const NETWORK_VOLUME: Device = Device {
    sync: 1000.0,
    kib: 4.0,
    hiccup_each: 100,
};
const HARD_DISK: Device = Device {
    sync: 8000.0,
    kib: 8.0,
    hiccup_each: 1000,
};

/// The writers of a run.
#[derive(Clone, Copy, Debug)]
struct Load {
    writers: usize,
    bytes: usize,
    /// Time of a writer between its commits, beside the cost of waking it.
    think: Duration,
}

/// How long a woken writer takes to append again, and how long the next one takes more.
const WAKE: f64 = 25.0;
const WAKE_NEXT: f64 = 4.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrival(usize),
    FlushEnd,
    Look,
}

#[derive(Debug)]
struct World<'a> {
    device: Device,
    load: Load,
    policy: &'a mut dyn CommitPolicy,
    random: StdRng,
    events: BinaryHeap<Reverse<(Duration, u64, Event)>>,
    number: u64,
    waiting: Vec<(usize, Duration)>,
    syncing: Option<(Duration, Vec<(usize, Duration)>)>,
    commits: usize,
    latencies: Vec<Duration>,
}

#[derive(Clone, Copy, Debug)]
struct Figures {
    per_second: f64,
    p50: Duration,
    p99: Duration,
}

fn micros(micros: f64) -> Duration {
    Duration::from_secs_f64(micros / 1e6)
}

impl World<'_> {
    fn at(&mut self, time: Duration, event: Event) {
        self.number += 1;
        self.events.push(Reverse((time, self.number, event)));
    }

    /// Runs until `end`; writers from `leave.1` on leave at the time `leave.0`.
    fn run(&mut self, end: Duration, leave: (Duration, usize)) -> Figures {
        for writer in 0..self.load.writers {
            let start = micros(self.random.random_range(0.0..self.device.sync));
            self.at(start, Event::Arrival(writer));
        }
        let mut left_at = 0;
        while let Some(Reverse((now, _, event))) = self.events.pop().filter(|it| it.0.0 < end) {
            match event {
                Event::Arrival(writer) if now > leave.0 && writer >= leave.1 => {}
                Event::Arrival(writer) => {
                    self.waiting.push((writer, now));
                    self.policy.arrived(now);
                }
                Event::FlushEnd => self.end_flush(now),
                Event::Look => {}
            }
            if now <= leave.0 {
                left_at = self.commits;
            }
            self.look(now);
        }
        let counted = match leave.0 < end {
            true => (self.commits - left_at) as f64 / (end - leave.0).as_secs_f64(),
            false => self.commits as f64 / end.as_secs_f64(),
        };
        self.latencies.sort_unstable();
        let at = |share: usize| self.latencies[(self.latencies.len() - 1) * share / 100];
        Figures {
            per_second: counted,
            p50: at(50),
            p99: at(99),
        }
    }

    fn end_flush(&mut self, now: Duration) {
        let (began, batch) = self.syncing.take().unwrap();
        self.policy.flushed(FinishedFlush {
            began,
            ended: now,
            writers: batch.len(),
            bytes: batch.len() * self.load.bytes,
            waiting: self.waiting.len(),
        });
        let mut woken = now + micros(WAKE);
        for (writer, since) in batch {
            self.commits += 1;
            self.latencies.push(now - since);
            woken += micros(WAKE_NEXT * self.random.random_range(0.5..1.5));
            let think = self.load.think.mul_f64(self.random.random_range(0.8..1.2));
            self.at(woken + think, Event::Arrival(writer));
        }
    }

    fn look(&mut self, now: Duration) {
        if self.syncing.is_some() || self.waiting.is_empty() {
            return;
        }
        let batch = WaitingBatch {
            writers: self.waiting.len(),
            since: self.waiting[0].1,
        };
        match self.policy.decide(now, batch) {
            Decision::WaitUntil(until) if until > now => self.at(until, Event::Look),
            _ => {
                let batch = std::mem::take(&mut self.waiting);
                let kib = (batch.len() * self.load.bytes) as f64 / 1024.0;
                let hiccup = self.random.random_range(0..self.device.hiccup_each) == 0;
                let noise = self.random.random_range(0.9..1.1) * if hiccup { 10.0 } else { 1.0 };
                let took = micros((self.device.sync + self.device.kib * kib) * noise);
                self.syncing = Some((now, batch));
                self.at(now + took, Event::FlushEnd);
            }
        }
    }
}

fn run(device: Device, load: Load, policy: &mut dyn CommitPolicy) -> Figures {
    run_leaving(device, load, policy, (Duration::MAX, 0))
}

fn run_leaving(
    device: Device,
    load: Load,
    policy: &mut dyn CommitPolicy,
    leave: (Duration, usize),
) -> Figures {
    let mut world = World {
        device,
        load,
        policy,
        random: StdRng::seed_from_u64(1),
        events: BinaryHeap::new(),
        number: 0,
        waiting: Vec::new(),
        syncing: None,
        commits: 0,
        latencies: Vec::new(),
    };
    world.run(micros(device.sync * 4000.0), leave)
}

fn load(writers: usize, bytes: usize) -> Load {
    Load {
        writers,
        bytes,
        think: Duration::ZERO,
    }
}

const BYTES: [usize; 4] = [100, 1000, 4000, 10_000];
/// Shares of a device's sync.
const BUDGETS: [f64; 7] = [0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0];

/// Commits for each one that the best of all fixed budgets makes, for this load alone.
fn gain(device: Device, load: Load) -> f64 {
    let adaptive = run(device, load, &mut AdaptivePolicy::new()).per_second;
    let fixed = BUDGETS.map(|share| {
        let mut policy = FixedBudget(micros(device.sync * share));
        run(device, load, &mut policy).per_second
    });
    adaptive / fixed.into_iter().fold(0.0, f64::max)
}

#[track_caller]
fn check_gain(device: Device, writers: &[usize], gain_min: f64) {
    for writers in writers {
        for bytes in BYTES {
            let found = gain(device, load(*writers, bytes));
            assert!(
                found >= gain_min,
                "{device:?}, {writers} x {bytes}: {found:.2}"
            );
        }
    }
}

#[test]
fn writers_that_come_back_share_syncs_that_no_fixed_budget_lets_them_share() {
    check_gain(HARD_DISK, &[2, 8, 16, 32, 64, 128], 1.3);
    check_gain(NETWORK_VOLUME, &[2, 8, 16, 32], 1.3);
    check_gain(NETWORK_VOLUME, &[64], 1.2);
    check_gain(NVME, &[2, 8], 1.25);
}

#[test]
fn where_waking_writers_takes_longer_than_a_sync_little_is_lost() {
    check_gain(NVME, &[16, 32, 64, 128], 0.8);
    check_gain(NETWORK_VOLUME, &[128], 0.9);
}

#[test]
fn one_writer_never_waits_for_others() {
    for device in [NVME, NETWORK_VOLUME, HARD_DISK] {
        for bytes in BYTES {
            let at_once = run(device, load(1, bytes), &mut FixedBudget(Duration::ZERO));
            let adaptive = run(device, load(1, bytes), &mut AdaptivePolicy::new());
            assert_eq!((adaptive.p50, adaptive.p99), (at_once.p50, at_once.p99));
        }
    }
}

#[test]
fn writers_that_do_other_work_between_are_not_waited_for() {
    for device in [NVME, NETWORK_VOLUME, HARD_DISK] {
        for writers in [2, 8, 32] {
            let think = micros(device.sync * 10.0);
            let load = Load {
                think,
                ..load(writers, 1000)
            };
            let at_once = run(device, load, &mut FixedBudget(Duration::ZERO));
            let adaptive = run(device, load, &mut AdaptivePolicy::new());
            let share = adaptive.p50.as_secs_f64() / at_once.p50.as_secs_f64();
            assert!(share < 1.1, "{device:?}, {writers}: {share:.2}");
        }
    }
}

#[test]
fn when_writers_leave_the_others_do_not_wait_for_them() {
    for device in [NVME, NETWORK_VOLUME, HARD_DISK] {
        let half = micros(device.sync * 2000.0);
        let policies: [&mut dyn CommitPolicy; 2] =
            [&mut AdaptivePolicy::new(), &mut FixedBudget(Duration::ZERO)];
        let [adaptive, at_once] = policies
            .map(|policy| run_leaving(device, load(64, 1000), policy, (half, 1)).per_second);
        assert!(
            adaptive > 0.95 * at_once,
            "{device:?}: {adaptive} of {at_once}"
        );
    }
}

#[test]
fn a_full_batch_goes_before_its_time_is_over() {
    let mut policy = AdaptivePolicy::new();
    let (sync, pause) = (micros(1000.0), micros(50.0));
    let mut now = Duration::ZERO;
    // Four writers that always come back after 50 us.
    for _ in 0..50 {
        policy.flushed(FinishedFlush {
            began: now,
            ended: now + sync,
            writers: 4,
            bytes: 4000,
            waiting: 0,
        });
        now += sync + pause;
        for _ in 0..4 {
            policy.arrived(now);
        }
    }
    policy.flushed(FinishedFlush {
        began: now,
        ended: now + sync,
        writers: 4,
        bytes: 4000,
        waiting: 0,
    });
    now += sync;
    let decide = |policy: &AdaptivePolicy, writers, now| {
        policy.decide(
            now,
            WaitingBatch {
                writers,
                since: now,
            },
        )
    };
    let Decision::WaitUntil(until) = decide(&policy, 3, now + pause) else {
        panic!("the batch is not full");
    };
    assert!(
        until > now + pause && until < now + sync,
        "{:?}",
        until - now
    );
    assert_eq!(decide(&policy, 4, now + pause), Decision::Flush);
    assert_eq!(decide(&policy, 1, until), Decision::Flush);
}
