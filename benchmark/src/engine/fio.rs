//! Has `fio` read a file, and takes its figures.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;

use super::outcome::Outcome;
use crate::workload::{FioJob, Mode};

/// Reads `file` for at most `limit`.
pub(super) fn run(file: &Path, job: FioJob, limit: Duration) -> Result<Outcome> {
    let output = Command::new("fio")
        .args(arguments(file, job, limit))
        .output()
        .context("cannot start fio (make bench installs it)")?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors
            .lines()
            .chain(text.lines())
            .find(|line| !line.is_empty());
        bail!("fio ended with {}: {}", output.status, line.unwrap_or(""));
    }
    parse(&text)
}

fn arguments(file: &Path, job: FioJob, limit: Duration) -> Vec<String> {
    let kind = if job.random { "randread" } else { "read" };
    let mut arguments: Vec<String> = [
        "--name=read",
        "--readonly",
        "--allow_file_create=0",
        "--thread",
        // The page cache is the benchmark's business.
        "--invalidate=0",
        "--fadvise_hint=0",
        "--output-format=json",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.push(format!("--filename={}", file.display()));
    arguments.push(format!("--rw={kind}"));
    arguments.push(format!("--ioengine={}", job.engine));
    arguments.push(format!("--bs={}", job.block));
    arguments.push(format!("--iodepth={}", job.depth));
    arguments.push(format!("--direct={}", u8::from(job.mode == Mode::Direct)));
    arguments.push(format!("--runtime={}ms", limit.as_millis()));
    if job.random {
        arguments.extend(["--time_based", "--norandommap"].map(str::to_owned));
    }
    arguments
}

#[derive(Deserialize)]
struct Report {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    error: i64,
    read: Read,
}

#[derive(Deserialize)]
struct Read {
    io_bytes: u64,
    total_ios: u64,
    /// In milliseconds.
    runtime: u64,
    clat_ns: Latency,
}

#[derive(Deserialize)]
struct Latency {
    percentile: Option<Percentiles>,
}

/// In nanoseconds.
#[derive(Clone, Copy, Deserialize)]
struct Percentiles {
    #[serde(rename = "50.000000")]
    p50: u64,
    #[serde(rename = "99.000000")]
    p99: u64,
}

fn parse(text: &str) -> Result<Outcome> {
    // It prints notes before its report.
    let json = text.find('{').map_or("", |start| &text[start..]);
    let report: Report = serde_json::from_str(json).context("unknown layout of fio's report")?;
    let [job] = &report.jobs[..] else {
        bail!("fio reports {} jobs", report.jobs.len());
    };
    ensure!(job.error == 0, "fio reports error {}", job.error);
    ensure!(job.read.total_ios > 0, "fio has read nothing");
    let percentiles = job.read.clat_ns.percentile;
    Ok(Outcome {
        elapsed: Duration::from_millis(job.read.runtime.max(1)),
        operations: job.read.total_ios,
        bytes: job.read.io_bytes,
        latency_p50: percentiles.map(|found| Duration::from_nanos(found.p50)),
        latency_p99: percentiles.map(|found| Duration::from_nanos(found.p99)),
        latency_p999: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: FioJob = FioJob {
        engine: "libaio",
        random: true,
        block: 4096,
        depth: 16,
        mode: Mode::Direct,
    };

    #[test]
    fn a_report_is_read_behind_notes() {
        let text = r#"note: something
{"fio version": "fio-3.33", "jobs": [{"jobname": "read", "error": 0, "read": {"io_bytes": 8192, "total_ios": 2,
"runtime": 1500, "clat_ns": {"min": 1, "percentile": {"50.000000": 70000, "99.000000": 90000}}}}]}"#;
        let outcome = parse(text).unwrap();
        let expected = Outcome {
            elapsed: Duration::from_millis(1500),
            operations: 2,
            bytes: 8192,
            latency_p50: Some(Duration::from_micros(70)),
            latency_p99: Some(Duration::from_micros(90)),
            latency_p999: None,
        };
        assert_eq!(outcome, expected);
    }

    #[test]
    fn what_is_no_result_is_an_error() {
        let report = |error, ios| {
            format!(
                r#"{{"jobs": [{{"error": {error}, "read": {{"io_bytes": 0, "total_ios": {ios}, "runtime": 0,
                "clat_ns": {{}}}}}}]}}"#
            )
        };
        assert!(parse(&report(0, 1)).is_ok());
        assert!(parse(&report(5, 1)).is_err());
        assert!(parse(&report(0, 0)).is_err());
        assert!(parse(r#"{"jobs": []}"#).is_err());
        assert!(parse("fio: engine not found").is_err());
    }

    #[test]
    fn random_reads_last_as_long_as_they_are_told() {
        let limit = Duration::from_millis(2500);
        let random = arguments(Path::new("/m/f"), JOB, limit);
        let sequential = FioJob {
            random: false,
            ..JOB
        };
        let sequential = arguments(Path::new("/m/f"), sequential, limit);
        let has =
            |arguments: &[String], wanted: &str| arguments.iter().any(|found| found == wanted);
        assert!(has(&random, "--time_based") && !has(&sequential, "--time_based"));
        for wanted in [
            "--filename=/m/f",
            "--iodepth=16",
            "--direct=1",
            "--runtime=2500ms",
        ] {
            assert!(has(&random, wanted), "{wanted}");
        }
    }
}
