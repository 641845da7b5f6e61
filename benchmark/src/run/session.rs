//! A whole run: every system carries out every workload, in turns, and the results are written.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::measure::Bench;
use super::progress::Progress;
use crate::clock;
use crate::dataset::Dataset;
use crate::reader_memory::ReaderMemory;
use crate::recorded::{REPLAYED, Recorded};
use crate::results::digits::digits;
use crate::results::document;
use crate::results::machine::Machine;
use crate::results::measurement::Measurement;
use crate::results::report::{Report, Version, iso};
use crate::results::source::Checkout;
use crate::results::summary::{Row, compare};
use crate::server::{AUTHORITY, Servers};
use crate::system::catalog::{Role, System};
use crate::workload::{self, Workload};
use crate::{Settings, say};

const SECONDS: f64 = 5.0;
/// A day: nothing that takes longer is a benchmark.
const SECONDS_MAX: f64 = 86_400.0;

pub(crate) fn run(settings: &Settings) -> Result<()> {
    let (all, names) = known_and_named(settings)?;
    if settings.workload.iter().any(|name| name == "list") {
        list(&all);
        return Ok(());
    }
    let workloads = match workload::select(&all, &names) {
        Ok(workloads) => workloads,
        Err(name) if name == REPLAYED => bail!("the workload replay needs --replay FILE"),
        Err(name) => bail!("there is no workload {name:?}; --workload list shows them"),
    };
    let (workloads, left_out): (Vec<_>, Vec<_>) = workloads
        .into_iter()
        .partition(|workload| settings.setup.takes(workload));
    if !left_out.is_empty() {
        let names: Vec<_> = left_out.iter().map(|row| row.name.as_str()).collect();
        let names = names.join(", ");
        say(&format!(
            "left out, as only the embedded server can be slowed or choose TLS: {names}"
        ));
    }
    ensure!(!workloads.is_empty(), "no workload is left");
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
            role: system.role,
            version: system.version()?,
        })
    });
    let mut report = Report {
        date: iso(clock::now()),
        machine: Machine::here(),
        checkout: Checkout::here(),
        systems: versions.collect::<Result<_>>()?,
        baseline: baseline(settings, &systems),
        command: command(settings),
        workloads: names.join(","),
        setup: settings.setup.clone(),
        rounds: settings.rounds,
        seconds,
        caches_dropped: !settings.keep_caches,
        readers: ReaderMemory::described(),
        rows: Vec::new(),
    };
    let folder = settings.results.join(report.folder());
    measure_all(settings, &systems, &workloads, &mut report)?;
    write(&report, settings, &folder)?;
    if let Some(document) = &settings.document {
        put_into(document, &report, &folder)?;
    }
    say(&format!(
        "\n{}\nresults are in {}",
        report.markdown(""),
        folder.display()
    ));
    Ok(())
}

/// The workloads that there are, with that of `--replay`, and the names of those to measure.
fn known_and_named(settings: &Settings) -> Result<(Vec<Workload>, Vec<String>)> {
    let mut all = workload::all(&Dataset::new(settings.setup.quick));
    let mut names = settings.workload.clone();
    if let Some(path) = &settings.setup.replay {
        let recorded = Recorded::read(path)?;
        all.push(workload::replayed(recorded, settings.replay_pace));
        if names == ["all"] {
            names = vec![REPLAYED.to_owned()];
        }
    }
    Ok((all, names))
}

fn list(workloads: &[Workload]) {
    for workload in workloads {
        say(&format!(
            "{:10} {:28} {}",
            workload.group.name(),
            workload.name,
            workload.description
        ));
    }
}

fn systems(settings: &Settings) -> Result<Vec<System>> {
    let product = settings.mount_s3.as_deref().map(System::product).map(Ok);
    let peers = settings.peers.iter().map(|peer| System::peer(peer));
    let mut systems: Vec<_> = product.into_iter().chain(peers).collect::<Result<_>>()?;
    if let Some(sweep) = &settings.sweep {
        let Some((variable, values)) = sweep.split_once('=') else {
            bail!("--sweep {sweep:?} is not VARIABLE=VALUE,VALUE");
        };
        let more = systems[0].sweep(variable, values);
        systems.extend(more);
    }
    if settings.limit {
        systems.extend(System::limits(settings.setup.quick)?);
    }
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
    let first_peer = systems.iter().find(|system| system.role == Role::Peer);
    let given = settings
        .peers
        .first()
        .map(|peer| peer.split('=').next().unwrap_or(peer));
    let name = first_peer.map(|peer| peer.name.as_str()).or(given);
    name.unwrap_or(&systems[0].name).to_owned()
}

/// The command line that measures again, up to the name of the workload.
fn command(settings: &Settings) -> String {
    if let Some(command) = &settings.command {
        return format!("{command} WORKLOAD=");
    }
    let mut words: Vec<String> = Vec::new();
    let mut arguments = std::env::args();
    while let Some(word) = arguments.next() {
        if word == "--workload" {
            arguments.next();
        } else if !word.starts_with("--workload=") {
            let plain = word
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_=./,:".contains(c));
            words.push(if plain { word } else { format!("'{word}'") });
        }
    }
    format!("{} --workload ", words.join(" "))
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
    // Never removed with its content: a mount in it that could not be undone would lose its
    // objects.
    let scratch = scratch.keep();
    let authority = scratch.join("authority.pem");
    fs::write(&authority, AUTHORITY)?;
    let mut bench = Bench {
        servers: Servers::new(&settings.setup, workloads)?,
        scratch: &scratch,
        authority,
        reader_memory: reader_memory(report),
        limit: Duration::from_secs_f64(report.seconds),
        conditions: settings.setup.conditions(),
        drop_caches: report.caches_dropped,
        profile: settings.profile,
    };
    let progress = Progress::new(workloads, systems, settings.rounds);
    for workload in workloads {
        let mut rows = in_turns(&mut bench, systems, workload, settings.rounds, &progress);
        let cores = report.machine.cores;
        compare(&mut rows, workload.unit, &report.baseline, cores);
        for row in &mut rows {
            row.command = report.command_for(&row.workload);
        }
        report.rows.extend(rows);
    }
    progress.finish();
    for entry in fs::read_dir(&scratch)? {
        let path = entry?.path();
        let _not_a_file = fs::remove_file(path);
    }
    let _left_behind = fs::remove_dir(&scratch);
    Ok(())
}

/// The cgroup of readers. Where none can be made, the terminal and the report say why.
fn reader_memory(report: &mut Report) -> Option<ReaderMemory> {
    match ReaderMemory::create() {
        Ok(memory) => Some(memory),
        Err(error) => {
            report.readers = format!(
                "readers in no memory cgroup, so that fresh pages of the page cache may cost more than used ones: {error:#}"
            );
            say(&report.readers);
            None
        }
    }
}

/// Rounds of one workload: A B C, A B C. A system that fails once is left out from then on.
fn in_turns(
    bench: &mut Bench<'_>,
    systems: &[System],
    workload: &Workload,
    rounds: u32,
    progress: &Progress,
) -> Vec<Row> {
    let systems: Vec<_> = systems
        .iter()
        .filter(|system| system.takes(workload))
        .collect();
    let mut measured: Vec<(Vec<Measurement>, Option<String>)> =
        vec![(Vec::new(), None); systems.len()];
    for round in 1..=rounds {
        for (system, (measurements, error)) in systems.iter().zip(&mut measured) {
            let title = format!("{:22} {round}/{rounds} {:14}", workload.name, system.name);
            progress.begin(&title);
            if error.is_none() {
                match bench.measure(system, workload) {
                    Ok(measurement) => {
                        let (value, unit) = (digits(measurement.value), workload.unit.name());
                        progress.say(&format!("{title} {value} {unit}"));
                        measurements.push(measurement);
                    }
                    Err(failure) => {
                        progress.say(&format!("{title} failed: {failure:#}"));
                        *error = Some(format!("{failure:#}"));
                    }
                }
            }
            progress.end();
        }
    }
    let rows = systems.iter().zip(measured);
    rows.map(|(system, (rounds, error))| Row::new(workload, system, rounds, error))
        .collect()
}

/// Writes tables, figures and plots into a folder of their own, and the newest report beside the
/// folders.
fn write(report: &Report, settings: &Settings, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    fs::write(
        folder.join("results.json"),
        serde_json::to_string_pretty(report)? + "\n",
    )?;
    fs::write(folder.join(document::REPORT_FILE), report.markdown(""))?;
    report
        .figures()
        .draw_all(folder, settings.render.as_deref())?;
    let newest = report.markdown(&format!("{}/", report.folder()));
    fs::write(settings.results.join("latest.md"), newest)?;
    Ok(())
}

/// Puts the rows of the groups that were measured into a document, or the chart of the profiles.
fn put_into(document: &Path, report: &Report, folder: &Path) -> Result<()> {
    let context = || document.display().to_string();
    let text = fs::read_to_string(document).with_context(context)?;
    // The document is one folder below the root of the repository, as the results are.
    let path = format!("../{}/", folder.display());
    let text = document::updated(&text, report, &path).with_context(context)?;
    fs::write(document, text).with_context(context)
}
