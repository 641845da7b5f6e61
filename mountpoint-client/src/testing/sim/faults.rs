//! Fault rules: which request fails, and how.
//!
//! Pure: a rule counts the requests of one operation and decides which it hits. Faults are final:
//! retries happen inside a client, and this is one. Most strike before the request has any effect.

use std::time::Duration;

use crate::ErrorKind;

use super::request_log::Operation;
use super::seeded_numbers::SeededNumbers;

/// The fault of a request that a rule hits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request fails and has no effect.
    Fail(ErrorKind),
    /// The request has its effect, and fails all the same: the answer was lost, or could not be
    /// understood. A GET just fails.
    FailAfterwards(ErrorKind),
    /// The request has its effect, the answer is lost, and the client sends it again. A GET is
    /// answered.
    Repeat,
    /// The request has its effect, is answered with 409 `ConditionalRequestConflict`, and is sent
    /// again. A GET is answered.
    Conflict,
    /// The request has no effect but that uploads of its key are gone, is answered with that 409,
    /// and is sent again. A GET is answered.
    ConflictEndsUpload,
    /// A proxy sends the request twice, and passes on the second answer. A GET is answered.
    Twice,
    /// A GET publishes this many bytes and fails with `Transient`; other requests fail at once.
    StopAfter(u64),
    /// A deletion deletes the object whatever version it names; a write ignores the condition on
    /// what it replaces. A GET is answered.
    IgnoreVersions,
    /// The answer comes this much later (in threaded time).
    Delay(Duration),
}

/// Which requests of its operation a rule hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// The next so many.
    Next(u32),
    /// The so-many-th from now on, and no other: 1 is the next one.
    Nth(u32),
    /// The so-many-th from now on, and all behind it.
    From(u32),
    /// Each so-many-th: 3 hits the third, the sixth, …
    Every(u32),
    /// So many of a thousand, by the seed.
    PerMille(u16),
}

/// A fault, and the requests that it hits.
#[derive(Clone, Debug)]
pub struct FaultRule {
    /// Requests it looks at; `None` for all.
    pub operation: Option<Operation>,
    /// Which of them it hits.
    pub when: When,
    /// The fault of those requests.
    pub fault: Fault,
}

/// The rules of one bucket and their counts.
#[derive(Debug)]
pub(super) struct FaultPlan {
    rules: Vec<(FaultRule, u32)>,
    numbers: SeededNumbers,
}

impl FaultPlan {
    pub(super) fn new(rules: Vec<FaultRule>, seed: u64) -> Self {
        let rules = rules.into_iter().map(|rule| (rule, 0)).collect();
        Self {
            rules,
            numbers: SeededNumbers::new(seed),
        }
    }

    pub(super) fn add(&mut self, rule: FaultRule) {
        self.rules.push((rule, 0));
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault of the next request of `operation`: the first rule that hits it, and none of the
    /// others counts it as its own.
    pub(super) fn decide(&mut self, operation: Operation) -> Option<Fault> {
        for (rule, seen) in &mut self.rules {
            if rule.operation.is_some_and(|wanted| wanted != operation) {
                continue;
            }
            *seen = seen.wrapping_add(1);
            let hit = match rule.when {
                When::Next(count) => *seen <= count,
                When::Nth(nth) => *seen == nth,
                When::From(nth) => *seen >= nth,
                When::Every(k) => k > 0 && seen.is_multiple_of(k),
                When::PerMille(share) => self.numbers.below(1000) < u64::from(share),
            };
            if hit {
                let fault = rule.fault.clone();
                self.rules
                    .retain(|(rule, seen)| !is_spent(rule.when, *seen));
                return Some(fault);
            }
        }
        None
    }
}

/// Whether a rule can never hit again.
fn is_spent(when: When, seen: u32) -> bool {
    matches!(when, When::Next(count) | When::Nth(count) if seen >= count)
}
