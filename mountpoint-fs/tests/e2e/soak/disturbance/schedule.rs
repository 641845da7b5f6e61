//! What happens next. Pure, but for the numbers.

use std::time::Duration;

use mountpoint_client::testing::server::{Fault, Operation, Rule};
use rand::Rng as _;
use rand::rngs::StdRng;

use crate::soak::load::pick;
use crate::soak::place::KINDS;
use crate::soak::settings::Settings;

/// One thing that happens to the mounts.
#[derive(Debug)]
pub(super) enum Disturbance {
    /// Rules that are in force for some time.
    Faults(Vec<Rule>, Duration),
    /// The server does not listen for some time, and its connections are cut.
    Outage(Duration),
    /// The server refuses the keys that the mounts have.
    NewKeys,
    /// A mount's process is killed, and made again.
    Kill(usize),
    /// A mount is detached while a file is open, and made again.
    Anew(usize),
}

/// Longest outage that every request has to overcome: a connection is tried for 20 s.
const OVERCOME: Duration = Duration::from_secs(8);

impl Disturbance {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Faults(..) => "faults",
            Self::Outage(_) => "outages",
            Self::NewKeys => "new keys",
            Self::Kill(_) => "kills",
            Self::Anew(_) => "mounts anew",
        }
    }

    pub(super) fn name(&self) -> String {
        match self {
            Self::Faults(rules, length) => {
                let faults = rules
                    .iter()
                    .map(|rule| (&rule.fault, rule.operation, rule.probability));
                format!("{:?} for {length:?}", faults.collect::<Vec<_>>())
            }
            Self::Outage(length) => format!("outage of {length:?}"),
            Self::NewKeys => "new keys".to_owned(),
            Self::Kill(place) => format!("kill of {}", KINDS[*place].name()),
            Self::Anew(place) => format!("{} anew", KINDS[*place].name()),
        }
    }

    /// Errors that calls may return for it.
    pub(super) fn explains(&self) -> &'static [i32] {
        match self {
            Self::Faults(rules, _) if failing(rules) > OVERCOME_SHARE => &[libc::EIO],
            Self::Outage(length) if *length > OVERCOME => &[libc::EIO],
            _ => &[],
        }
    }
}

/// The share of the requests that fail by one of `rules`, where each rule hits.
fn failing(rules: &[Rule]) -> f64 {
    let fails = |rule: &&Rule| !matches!(rule.fault, Fault::Latency { .. } | Fault::Bandwidth(_));
    let answered = rules
        .iter()
        .filter(fails)
        .map(|rule| 1.0 - rule.probability);
    1.0 - answered.product::<f64>()
}

/// Where more fail, ten attempts in a row may; at 0.2 they do for one request in ten millions.
const OVERCOME_SHARE: f64 = 0.2;

/// The one that comes after `count` others. Kills come in the first half of a run, so that mounts
/// live long in the second.
pub(super) fn next(
    numbers: &mut StdRng,
    settings: &Settings,
    (count, allows_kills): (u64, bool),
) -> Disturbance {
    let kind = match settings.is_smoke {
        // A short run has one of each.
        true => SMOKE[usize::try_from(count).unwrap() % SMOKE.len()],
        false => numbers.random_range(0..100),
    };
    let second = if settings.is_smoke { 200 } else { 1000 };
    let length = Duration::from_millis(second * numbers.random_range(2..8));
    match kind {
        0..55 => {
            let count = numbers.random_range(1..=3);
            let rules = (0..count).map(|_| rule(numbers, settings.is_harsh));
            let mut rules: Vec<_> = rules.collect();
            while !settings.is_harsh && failing(&rules) > OVERCOME_SHARE {
                rules.pop();
            }
            Disturbance::Faults(rules, length)
        }
        55..68 if settings.is_harsh && numbers.random_ratio(1, 4) => {
            Disturbance::Outage(Duration::from_secs(numbers.random_range(15..80)))
        }
        55..68 => Disturbance::Outage(length.min(OVERCOME)),
        68..78 => Disturbance::NewKeys,
        78..92 if allows_kills => Disturbance::Kill(numbers.random_range(0..KINDS.len())),
        92..100 if allows_kills => Disturbance::Anew(numbers.random_range(0..KINDS.len())),
        _ => Disturbance::Faults(Vec::new(), length),
    }
}

/// The kinds of a short run, in turn.
const SMOKE: [u32; 8] = [0, 78, 55, 0, 92, 68, 78, 0];

/// A fault that hits some of the requests.
fn rule(numbers: &mut StdRng, is_harsh: bool) -> Rule {
    let error = |status, code| Fault::Error { status, code };
    let latency = |fixed, jitter| Fault::Latency {
        fixed: Duration::from_millis(fixed),
        jitter: Duration::from_millis(jitter),
    };
    let data = Some(Operation::GetObject);
    let cut = numbers.random_range(0..2_000_000);
    let (fault, operation, share) = pick(
        numbers,
        &[
            (Fault::SlowDown, None, 0.15),
            (Fault::SlowDownAbove(60), None, 0.2),
            (error(500, "InternalError"), None, 0.15),
            (error(503, "ServiceUnavailable"), None, 0.1),
            (Fault::Page(503), None, 0.1),
            (Fault::DropConnection, None, 0.1),
            (Fault::RefuseConnection, None, 0.2),
            (Fault::CutBody(cut), data, 0.2),
            (Fault::CutBody(40), Some(Operation::ListObjectsV2), 0.1),
            (Fault::StallAtHalf, data, 0.05),
            (Fault::StallInHead, data, 0.05),
            (Fault::BlackHole, data, 0.02),
            (Fault::Bandwidth(2 << 20), None, 0.3),
            (latency(20, 300), None, 0.4),
            (latency(1000, 3000), None, 0.05),
            (
                Fault::DropConnectionAfterwards,
                Some(Operation::PutObject),
                0.1,
            ),
            (Fault::PageAfterwards(503), Some(Operation::PutObject), 0.1),
            (
                Fault::DropConnectionAfterwards,
                Some(Operation::CompleteMultipartUpload),
                0.1,
            ),
            (
                Fault::DropConnectionAfterwards,
                Some(Operation::UploadPart),
                0.1,
            ),
            (
                Fault::DropConnectionAfterwards,
                Some(Operation::CopyObject),
                0.1,
            ),
            (
                Fault::DropConnectionAfterwards,
                Some(Operation::DeleteObject),
                0.1,
            ),
        ],
    )
    .clone();
    let is_worse = is_harsh && numbers.random_ratio(1, 5);
    Rule {
        operation,
        probability: if is_worse { 0.9 } else { share },
        seed: numbers.random(),
        ..Rule::always(fault)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::*;

    #[test]
    fn what_requests_overcome_explains_no_error() {
        let mut numbers = StdRng::seed_from_u64(7);
        let settings = Settings::smoke();
        let all: Vec<_> = (0..1000)
            .map(|count| next(&mut numbers, &settings, (count, true)))
            .collect();
        assert!(all.iter().all(|it| it.explains().is_empty()));
        for kind in ["faults", "outages", "new keys", "kills", "mounts anew"] {
            assert!(all.iter().any(|it| it.kind() == kind), "{kind}");
        }
        let harsh = Settings {
            is_harsh: true,
            is_smoke: false,
            ..settings
        };
        let mut harsh = (0..1000).map(|count| next(&mut numbers, &harsh, (count, false)));
        assert!(harsh.any(|it| it.explains() == [libc::EIO]));
        assert!(!harsh.any(|it| matches!(it, Disturbance::Kill(_))));
    }
}
