//! What a run is to do: how long, with which seed, with which faults.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long a run takes, its seed, and how bad its faults are.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub(super) seed: u64,
    /// Time of the load, without the checks between its rounds.
    pub(super) length: Duration,
    /// Load between two checks.
    pub(super) round: Duration,
    /// Whether faults outlast what the mount overcomes, so that calls may fail with `EIO`.
    pub(super) is_harsh: bool,
    /// Whether the run is a part of all tests, and judges no slope.
    pub(super) is_smoke: bool,
}

const SECONDS: &str = "MOUNTPOINT_TEST_SOAK_SECONDS";
const SEED: &str = "MOUNTPOINT_TEST_SOAK_SEED";
const FAULTS: &str = "MOUNTPOINT_TEST_SOAK_FAULTS";

impl Settings {
    /// Three short rounds, with one seed.
    pub(super) fn smoke() -> Self {
        Self {
            seed: number(SEED).unwrap_or(1),
            length: Duration::from_secs(15),
            round: Duration::from_secs(5),
            is_harsh: false,
            is_smoke: true,
        }
    }

    /// What the variables ask for, which `make soak` sets.
    pub(super) fn from_environment() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        Self {
            seed: number(SEED).unwrap_or(now.as_secs()),
            length: Duration::from_secs(number(SECONDS).unwrap_or(600)),
            round: Duration::from_secs(60),
            is_harsh: std::env::var(FAULTS).is_ok_and(|faults| faults == "harsh"),
            is_smoke: false,
        }
    }

    /// The command that repeats the run.
    pub(super) fn command(&self) -> String {
        let seed = self.seed;
        if self.is_smoke {
            return format!("{SEED}={seed} cargo test --workspace --test e2e soak::smoke");
        }
        let faults = if self.is_harsh { " FAULTS=harsh" } else { "" };
        let seconds = self.length.as_secs();
        format!("make soak SOAK_SECONDS={seconds} SEED={seed}{faults}")
    }
}

/// The number in a variable, if it is set.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}
