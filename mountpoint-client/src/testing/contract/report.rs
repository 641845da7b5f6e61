//! Running the cases and saying how they went.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use super::bucket::{Bucket, Subject};
use super::capabilities::{Capabilities, Capability};
use super::case::Case;
use super::cases::all;

/// How one case went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The client does what S3 does.
    Passed,
    /// The server is known to lack the behaviour.
    Skipped {
        /// The capability that the server lacks.
        capability: Capability,
        /// Why.
        reason: &'static str,
    },
    /// The difference from S3.
    Failed(String),
}

/// A case and how it went.
#[derive(Clone, Debug)]
pub struct CaseReport {
    /// The case's name.
    pub name: &'static str,
    /// How it went.
    pub verdict: Verdict,
}

/// How all cases went; as text, one line for each that did not pass, and a sum.
#[derive(Clone, Debug)]
pub struct Report {
    /// In the order of [`cases`].
    pub cases: Vec<CaseReport>,
}

impl Report {
    /// The cases that failed.
    #[must_use]
    pub fn failures(&self) -> Vec<&CaseReport> {
        let failed = |case: &&CaseReport| matches!(case.verdict, Verdict::Failed(_));
        self.cases.iter().filter(failed).collect()
    }

    /// The cases that were not run.
    #[must_use]
    pub fn skipped(&self) -> Vec<&CaseReport> {
        let skipped = |case: &&CaseReport| matches!(case.verdict, Verdict::Skipped { .. });
        self.cases.iter().filter(skipped).collect()
    }

    /// The cases that passed.
    #[must_use]
    pub fn passed(&self) -> usize {
        self.cases.len() - self.failures().len() - self.skipped().len()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for CaseReport { name, verdict } in &self.cases {
            match verdict {
                Verdict::Passed => {}
                Verdict::Skipped { capability, reason } => {
                    writeln!(f, "skipped {name}: {capability:?}: {reason}")?;
                }
                Verdict::Failed(what) => writeln!(f, "FAILED  {name}: {what}")?,
            }
        }
        let (failed, skipped) = (self.failures().len(), self.skipped().len());
        write!(
            f,
            "{} passed, {skipped} skipped, {failed} failed",
            self.passed()
        )
    }
}

/// Every case.
#[must_use]
pub fn cases() -> &'static [Case] {
    static CASES: LazyLock<Vec<Case>> = LazyLock::new(all);
    &CASES
}

/// Runs every case, each on a subject of its own making.
pub fn run_all(make: impl Fn() -> Subject) -> Report {
    let cases = cases()
        .iter()
        .map(|case| CaseReport {
            name: case.name,
            verdict: run_case(case, make()),
        })
        .collect();
    Report { cases }
}

/// Runs one case. A case that panics has failed.
#[must_use]
pub fn run_case(case: &Case, subject: Subject) -> Verdict {
    if let Some(skipped) = skipped_for(case, &subject.capabilities) {
        return skipped;
    }
    let bucket = Bucket::new(subject, case.name);
    match catch_unwind(AssertUnwindSafe(|| (case.run)(&bucket))) {
        Ok(Ok(())) => Verdict::Passed,
        Ok(Err(failure)) => Verdict::Failed(failure.to_string()),
        Err(_) => Verdict::Failed("it panicked".to_owned()),
    }
}

/// The reason to skip a case, if there is one.
fn skipped_for(case: &Case, capabilities: &Capabilities) -> Option<Verdict> {
    let gap = case
        .needs
        .iter()
        .find_map(|needed| capabilities.gap(*needed));
    if let Some(gap) = gap {
        return Some(Verdict::Skipped {
            capability: gap.capability,
            reason: gap.reason,
        });
    }
    let capability = case.lacks.filter(|lacking| capabilities.has(*lacking))?;
    Some(Verdict::Skipped {
        capability,
        reason: "about a server that lacks it",
    })
}
