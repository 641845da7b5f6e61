//! Rounds become medians and spreads. Pure.

use serde::Serialize;

use super::measurement::Measurement;
use crate::profile::Shares;
use crate::system::catalog::{Role, System};
use crate::workload::{Unit, Workload};

/// Everything a run found.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) workload: String,
    pub(crate) group: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) description: String,
    pub(crate) system: String,
    pub(crate) role: Role,
    /// The command that measures this row again.
    pub(crate) command: String,
    /// `None` if a round failed.
    pub(crate) summary: Option<Summary>,
    /// Why it failed.
    pub(crate) error: Option<String>,
    /// The causes of its CPU time, over all rounds.
    pub(crate) profile: Option<Shares>,
    pub(crate) rounds: Vec<Measurement>,
}

/// Medians of the rounds, and the spread of the main figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Summary {
    pub(crate) value: f64,
    pub(crate) value_min: f64,
    pub(crate) value_max: f64,
    /// How many times as good as the first peer; set by [`compare`].
    pub(crate) advantage: Option<f64>,
    /// The limit of FUSE and client together; set by [`compare`].
    pub(crate) limit: Option<f64>,
    /// The part of it that this row reaches.
    pub(crate) limit_share: Option<f64>,
    pub(crate) latency_p50_us: Option<f64>,
    pub(crate) latency_p99_us: Option<f64>,
    /// CPU time of the system, for 10^9 bytes read; `None` if nothing is read.
    pub(crate) mount_cpu_s_per_gb: Option<f64>,
    pub(crate) total_cpu_s_per_gb: Option<f64>,
    /// CPU time of the system for one operation.
    pub(crate) mount_cpu_us_per_operation: f64,
    pub(crate) total_cpu_us_per_operation: f64,
    pub(crate) memory_peak_mib: f64,
    /// `None` where the server had no part in it, or does not count.
    pub(crate) requests: Option<f64>,
    pub(crate) requests_per_operation: Option<f64>,
    /// Bytes the server sent for each byte that was read; `None` if nothing is read.
    pub(crate) fetched_per_asked: Option<f64>,
}

impl Row {
    pub(crate) fn new(
        workload: &Workload,
        system: &System,
        rounds: Vec<Measurement>,
        error: Option<String>,
    ) -> Self {
        let mut summary = summarise(&rounds);
        if let Some(summary) = &mut summary {
            if matches!(system.role, Role::FuseLimit | Role::Native) {
                (summary.requests, summary.requests_per_operation) = (None, None);
                summary.fetched_per_asked = None;
            }
            if workload.action.writes() {
                // Nothing is asked for.
                summary.fetched_per_asked = None;
            }
        }
        Self {
            workload: workload.name.clone(),
            group: workload.group.name(),
            unit: workload.unit.name(),
            description: workload.description.clone(),
            system: system.name.clone(),
            role: system.role,
            command: String::new(),
            summary: summary.filter(|_| error.is_none()),
            error,
            profile: profiles(&rounds),
            rounds,
        }
    }
}

impl Row {
    /// The mark that tells its system from the product.
    pub(crate) fn mark(&self) -> &str {
        if self.role == Role::Product {
            ""
        } else {
            &self.system
        }
    }
}

fn profiles(rounds: &[Measurement]) -> Option<Shares> {
    let rounds = rounds.iter().filter_map(|round| round.profile.as_ref());
    rounds.fold(None, |all, round| Some(all.unwrap_or_default().and(round)))
}

fn summarise(rounds: &[Measurement]) -> Option<Summary> {
    let of = |figure: fn(&Measurement) -> f64| median(rounds.iter().map(figure));
    let of_some =
        |figure: fn(&Measurement) -> Option<f64>| median(rounds.iter().filter_map(figure));
    let values = || rounds.iter().map(|round| round.value);
    Some(Summary {
        value: median(values())?,
        value_min: values().fold(f64::INFINITY, f64::min),
        value_max: values().fold(f64::NEG_INFINITY, f64::max),
        advantage: None,
        limit: None,
        limit_share: None,
        latency_p50_us: of_some(|round| round.latency_p50_us),
        latency_p99_us: of_some(|round| round.latency_p99_us),
        mount_cpu_s_per_gb: of_some(|round| per(round.mount_cpu_s * 1e9, round.bytes)),
        total_cpu_s_per_gb: of_some(|round| per(round.total_cpu_s * 1e9, round.bytes)),
        mount_cpu_us_per_operation: of_some(|round| {
            per(round.mount_cpu_s * 1e6, round.operations)
        })?,
        total_cpu_us_per_operation: of_some(|round| {
            per(round.total_cpu_s * 1e6, round.operations)
        })?,
        memory_peak_mib: of(|round| round.memory_peak_bytes as f64 / 1024.0 / 1024.0)?,
        requests: of_some(|round| Some(round.requests?.all as f64)),
        requests_per_operation: of_some(|round| per(round.requests?.all as f64, round.operations)),
        fetched_per_asked: of_some(|round| per(round.requests?.bytes as f64, round.bytes)),
    })
}

fn per(value: f64, count: u64) -> Option<f64> {
    (count > 0).then(|| value / count as f64)
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    let upper = values.get(values.len() / 2)?;
    let lower = values[(values.len() - 1) / 2];
    Some((lower + upper) / 2.0)
}

/// Sets how many times as good as `baseline` each row of one workload is, and how near the limit.
pub(crate) fn compare(rows: &mut [Row], unit: Unit, baseline: &str, cores: usize) {
    let base = rows.iter().find(|row| row.system == baseline);
    let base = base.and_then(|row| row.summary.as_ref().map(|summary| summary.value));
    let limit = limit(rows, unit, cores);
    for row in rows.iter_mut() {
        let Some(summary) = row.summary.as_mut() else {
            continue;
        };
        summary.advantage = base.map(|base| unit.advantage(summary.value, base));
        if matches!(row.role, Role::Product | Role::Peer) {
            summary.limit = limit;
            summary.limit_share = limit.map(|limit| unit.advantage(summary.value, limit));
        }
    }
}

/// The files on the local disk themselves, where they were measured. Else the limit of FUSE and
/// client together: the lower of their figures alone, or the rate that
/// `cores` have time for if every byte or operation has the cost of both.
fn limit(rows: &[Row], unit: Unit, cores: usize) -> Option<f64> {
    let of = |role: Role| {
        let row = rows.iter().find(|row| row.role == role);
        row.and_then(|row| row.summary.as_ref())
    };
    if let Some(native) = of(Role::Native) {
        return Some(native.value);
    }
    let alone = [of(Role::FuseLimit), of(Role::ClientLimit)];
    let values = || alone.iter().flatten().map(|summary| summary.value);
    if !unit.more_is_better() {
        return values().reduce(f64::max);
    }
    let lower = values().reduce(f64::min)?;
    let [Some(fuse), Some(client)] = alone else {
        return Some(lower);
    };
    let cpu_s = |summary: &Summary| match unit {
        Unit::GigabytesPerSecond => summary.total_cpu_s_per_gb,
        _ => Some(summary.total_cpu_us_per_operation / 1e6),
    };
    let cpu_s = cpu_s(fuse).zip(cpu_s(client));
    let together = cpu_s.map(|(fuse, client)| cores as f64 / (fuse + client));
    Some(together.map_or(lower, |together| lower.min(together)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::dataset::Dataset;
    use crate::server::Requests;
    use crate::workload;

    fn round(value: f64, bytes: u64) -> Measurement {
        Measurement {
            value,
            elapsed_s: 1.0,
            operations: 1000,
            bytes,
            latency_p50_us: (bytes > 0).then_some(10.0),
            latency_p99_us: None,
            latency_p999_us: None,
            mount_cpu_s: 1.0,
            total_cpu_s: 2.0,
            memory_peak_bytes: 3 << 20,
            requests: Some(Requests {
                all: 2000,
                bytes: 2 * bytes,
                ..Requests::default()
            }),
            profile: None,
        }
    }

    fn row(system: &str, values: &[f64], bytes: u64) -> Row {
        let workloads = workload::all(&Dataset::new(false));
        let rounds = values.iter().map(|value| round(*value, bytes)).collect();
        Row::new(&workloads[0], &named(system, Role::Peer), rounds, None)
    }

    fn named(name: &str, role: Role) -> System {
        let mut system = System::product(Path::new("program"));
        (system.name, system.role) = (name.to_owned(), role);
        system
    }

    #[test]
    fn medians_and_spread() {
        for (values, expected) in [
            (&[3.0, 1.0, 2.0][..], (2.0, 1.0, 3.0)),
            (&[4.0, 1.0], (2.5, 1.0, 4.0)),
        ] {
            let summary = row("a", values, 1).summary.unwrap();
            assert_eq!(
                (summary.value, summary.value_min, summary.value_max),
                expected
            );
        }
    }

    #[test]
    fn costs_are_per_byte_and_per_operation() {
        let summary = row("a", &[1.0], 500_000_000).summary.unwrap();
        assert_eq!(summary.mount_cpu_s_per_gb, Some(2.0));
        assert_eq!(summary.total_cpu_s_per_gb, Some(4.0));
        assert_eq!(summary.fetched_per_asked, Some(2.0));
        assert_eq!(summary.requests_per_operation, Some(2.0));
        assert_eq!(summary.mount_cpu_us_per_operation, 1000.0);
    }

    #[test]
    fn nothing_read_has_no_cost_per_byte() {
        let summary = row("a", &[1.0], 0).summary.unwrap();
        assert_eq!(summary.mount_cpu_s_per_gb, None);
        assert_eq!(summary.fetched_per_asked, None);
        assert_eq!(summary.latency_p50_us, None);
    }

    #[test]
    fn a_failure_has_no_summary() {
        let workloads = workload::all(&Dataset::new(false));
        let row = Row::new(
            &workloads[0],
            &named("a", Role::Product),
            vec![round(1.0, 1)],
            Some("it broke".to_owned()),
        );
        assert_eq!(row.summary, None);
    }

    #[test]
    fn rows_are_compared_with_the_baseline() {
        let mut rows = [row("a", &[4.0], 1), row("b", &[2.0], 1)];
        compare(&mut rows, Unit::GigabytesPerSecond, "b", 2);
        let advantages = rows.map(|row| row.summary.unwrap().advantage);
        assert_eq!(advantages, [Some(2.0), Some(1.0)]);
    }

    #[test]
    fn without_a_baseline_nothing_is_compared() {
        let mut rows = [row("a", &[4.0], 1)];
        compare(&mut rows, Unit::GigabytesPerSecond, "b", 2);
        assert_eq!(rows[0].summary.as_ref().unwrap().advantage, None);
    }

    #[test]
    fn the_limit_of_few_cores_is_what_both_parts_cost() {
        // A GB costs each part 4 s.
        for (cores, limit) in [(2, 0.25), (16, 2.0), (32, 4.0), (64, 4.0)] {
            let gb = 500_000_000;
            let mut rows = [
                row("a", &[0.1], gb),
                row("f", &[8.0], gb),
                row("c", &[4.0], gb),
            ];
            (rows[1].role, rows[2].role) = (Role::FuseLimit, Role::ClientLimit);
            compare(&mut rows, Unit::GigabytesPerSecond, "a", cores);
            assert_eq!(rows[0].summary.as_ref().unwrap().limit, Some(limit));
        }
    }

    #[test]
    fn the_limit_of_a_cache_is_the_disk() {
        let mut rows = [row("a", &[3.0], 1), row("native", &[4.0], 1)];
        rows[1].role = Role::Native;
        compare(&mut rows, Unit::GigabytesPerSecond, "a", 2);
        let [a, native] = rows.map(|row| row.summary.unwrap());
        assert_eq!((a.limit, a.limit_share), (Some(4.0), Some(0.75)));
        assert_eq!(native.limit_share, None);
    }

    #[test]
    fn the_limit_is_the_weaker_part() {
        for (unit, limit, share) in [
            (Unit::GigabytesPerSecond, 4.0, 0.5),
            (Unit::Milliseconds, 8.0, 4.0),
        ] {
            let mut rows = [
                row("a", &[2.0], 1 << 40),
                row("f", &[8.0], 1 << 40),
                row("c", &[4.0], 1 << 40),
            ];
            (rows[1].role, rows[2].role) = (Role::FuseLimit, Role::ClientLimit);
            compare(&mut rows, unit, "a", 64);
            let [a, f, _] = rows.map(|row| row.summary.unwrap());
            assert_eq!((a.limit, a.limit_share), (Some(limit), Some(share)));
            assert_eq!(f.limit_share, None);
        }
    }
}
