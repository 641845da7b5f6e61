//! A whole run: every system carries out every workload, in turns, and the results are written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::clock;
use crate::dataset::Dataset;
use crate::machine::Machine;
use crate::measure::{Bench, Measurement};
use crate::plot::Chart;
use crate::report::{Report, Version, digits, iso};
use crate::server::ServerProcess;
use crate::summary::{Row, compare};
use crate::system::System;
use crate::workload::{self, Workload};
use crate::{Settings, say};

const SECONDS: f64 = 5.0;
/// A day: nothing that takes longer is a benchmark.
const SECONDS_MAX: f64 = 86_400.0;

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let all = workload::all(&Dataset::new(settings.setup.quick));
    if settings.workload.iter().any(|name| name == "list") {
        for workload in all {
            say(&format!(
                "{:6} {:22} {}",
                workload.group.name(),
                workload.name,
                workload.description
            ));
        }
        return Ok(());
    }
    let workloads = match workload::select(&all, &settings.workload) {
        Ok(workloads) => workloads,
        Err(name) => bail!("there is no workload {name:?}; --workload list shows them"),
    };
    let seconds = settings.seconds.unwrap_or(if settings.setup.quick {
        SECONDS / 2.0
    } else {
        SECONDS
    });
    ensure!(
        seconds > 0.0 && seconds <= SECONDS_MAX,
        "--seconds must be between 0 and {SECONDS_MAX}"
    );
    let systems = systems(settings)?;
    let versions = systems.iter().map(|system| {
        Ok(Version {
            name: system.name.clone(),
            version: system.version()?,
        })
    });
    let mut report = Report {
        date: iso(clock::now()),
        machine: Machine::here(),
        systems: versions.collect::<Result<_>>()?,
        baseline: baseline(settings, &systems),
        command: std::env::args().collect::<Vec<_>>().join(" "),
        setup: settings.setup,
        rounds: settings.rounds,
        seconds,
        caches_dropped: !settings.keep_caches,
        rows: Vec::new(),
    };
    measure_all(settings, &systems, &workloads, &mut report)?;
    let folder = write(&report, &settings.results)?;
    say(&format!(
        "\n{}\nresults are in {folder}",
        report.markdown("")
    ));
    Ok(())
}

fn systems(settings: &Settings) -> Result<Vec<System>> {
    let product = settings.mount_s3.as_deref().map(System::product).map(Ok);
    let peers = settings.peers.iter().map(|peer| System::peer(peer));
    let mut systems: Vec<_> = product.into_iter().chain(peers).collect::<Result<_>>()?;
    if settings.peers_found {
        let given = |peer: &System| systems.iter().any(|system| system.name == peer.name);
        let others: Vec<_> = System::peers_found()
            .into_iter()
            .filter(|peer| !given(peer))
            .collect();
        systems.extend(others);
    }
    ensure!(
        !systems.is_empty(),
        "nothing to measure: give --mount-s3, --peer or --peers-found"
    );
    let mut names: Vec<_> = systems.iter().map(|system| &system.name).collect();
    names.sort_unstable();
    names.dedup();
    ensure!(
        names.len() == systems.len(),
        "two systems have one name; write --peer rclone:new=PROGRAM"
    );
    Ok(systems)
}

/// The first peer, or the product if it is alone.
fn baseline(settings: &Settings, systems: &[System]) -> String {
    let peers_begin = usize::from(settings.mount_s3.is_some());
    systems.get(peers_begin).unwrap_or(&systems[0]).name.clone()
}

fn measure_all(
    settings: &Settings,
    systems: &[System],
    workloads: &[Workload],
    report: &mut Report,
) -> Result<()> {
    let scratch = tempfile::Builder::new()
        .prefix("mountpoint-benchmark-")
        .tempdir()?;
    // Never removed with its content: a mount in it that could not be undone would lose its objects.
    let scratch = scratch.keep();
    let mut server = ServerProcess::start(settings.setup).context("the S3 server")?;
    let mut bench = Bench {
        server: &mut server,
        scratch: &scratch,
        limit: Duration::from_secs_f64(report.seconds),
        conditions: settings.setup.conditions(),
        drop_caches: report.caches_dropped,
    };
    for workload in workloads {
        let mut rows = in_turns(&mut bench, systems, workload, settings.rounds);
        compare(&mut rows, workload.unit, &report.baseline);
        report.rows.extend(rows);
    }
    let _left_behind = fs::remove_file(scratch.join("output"));
    let _left_behind = fs::remove_dir(&scratch);
    Ok(())
}

/// Rounds of one workload: A B C, A B C. A system that fails once is left out from then on.
fn in_turns(
    bench: &mut Bench<'_>,
    systems: &[System],
    workload: &Workload,
    rounds: u32,
) -> Vec<Row> {
    let mut measured: Vec<(Vec<Measurement>, Option<String>)> =
        vec![(Vec::new(), None); systems.len()];
    for round in 1..=rounds {
        for (system, (measurements, error)) in systems.iter().zip(&mut measured) {
            if error.is_some() {
                continue;
            }
            let title = format!("{:22} {round}/{rounds} {:14}", workload.name, system.name);
            match bench.measure(system, workload) {
                Ok(measurement) => {
                    say(&format!(
                        "{title} {} {}",
                        digits(measurement.value),
                        workload.unit.name()
                    ));
                    measurements.push(measurement);
                }
                Err(failure) => {
                    say(&format!("{title} failed: {failure:#}"));
                    *error = Some(format!("{failure:#}"));
                }
            }
        }
    }
    let rows = systems.iter().zip(measured);
    rows.map(|(system, (rounds, error))| Row::new(workload, &system.name, rounds, error))
        .collect()
}

/// Writes tables, figures and plots into a folder of their own, and the newest report beside the folders.
fn write(report: &Report, results: &Path) -> Result<String> {
    let name = report.folder();
    let folder = results.join(&name);
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    fs::write(
        folder.join("result.json"),
        serde_json::to_string_pretty(report)? + "\n",
    )?;
    fs::write(folder.join("report.md"), report.markdown(""))?;
    for chart in Chart::of(&report.rows) {
        chart.draw(&report.rows, &folder)?;
    }
    fs::write(
        results.join("latest.md"),
        report.markdown(&format!("{name}/")),
    )?;
    Ok(folder.display().to_string())
}
