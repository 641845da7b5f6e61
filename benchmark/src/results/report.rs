//! The Markdown of a run: read as it is in a terminal, or rendered. Pure.

use std::fmt::Write;

use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::digits::digits;
use super::machine::Machine;
use super::plot::{Chart, Figures, PROFILES_FILE};
use super::source;
use super::source::Checkout;
use super::summary::{Row, Summary};
use crate::profile::{Cause, Shares};
use crate::server::Setup;
use crate::system::catalog::Role;
use crate::workload::Group;

/// Everything that is written to `results.json`.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// ISO 8601, UTC.
    pub(crate) date: String,
    pub(crate) machine: Machine,
    /// The working tree; the measured programs name the source that they were built from.
    pub(crate) checkout: Option<Checkout>,
    pub(crate) systems: Vec<Version>,
    /// The system that the others are compared with.
    pub(crate) baseline: String,
    /// The command line of the run, up to the name of the workload.
    pub(crate) command: String,
    /// The workloads that were asked for, as they were written.
    pub(crate) workloads: String,
    pub(crate) setup: Setup,
    pub(crate) rounds: u32,
    pub(crate) seconds: f64,
    pub(crate) caches_dropped: bool,
    /// The memory that readers have.
    pub(crate) readers: String,
    pub(crate) rows: Vec<Row>,
}

/// A system under test and the version that it prints.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Version {
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) version: String,
}

/// `2026-11-21T10:40:00Z`.
pub(crate) fn iso(date: OffsetDateTime) -> String {
    let whole_seconds = date.replace_nanosecond(0).unwrap_or(date);
    whole_seconds
        .format(&Rfc3339)
        .expect("this century can be printed")
}

impl Report {
    /// Name of the folder that holds this run: when and where.
    pub(crate) fn folder(&self) -> String {
        let minutes: String = self.date.chars().take("2026-11-21T10:40".len()).collect();
        format!("{}-{}", minutes.replace(':', ""), self.machine.slug())
    }

    /// The command that measures a workload or a group again.
    pub(crate) fn command_for(&self, workload: &str) -> String {
        format!("{}{workload}", self.command)
    }

    /// The report; `path` leads from its place to the folder with the plots.
    pub(crate) fn markdown(&self, path: &str) -> String {
        let mut text = format!("# Benchmark of {}\n\n", self.date);
        self.write_circumstances(&mut text);
        for group in self.groups() {
            let _infallible = write!(
                text,
                "\n## {}\n\n{}",
                group.title(),
                self.section(group, path)
            );
        }
        if let Some(profiles) = self.profiles_section(path) {
            let _infallible = write!(text, "\n## What CPU time goes into, in %\n\n{profiles}");
        }
        text
    }

    /// The figures for the pictures of this run.
    pub(crate) fn figures(&self) -> Figures<'_> {
        Figures {
            rows: &self.rows,
            profiles: self.profiles().collect(),
            circumstances: self.circumstances_short(),
            command: &self.command,
        }
    }

    /// The groups that were measured.
    pub(crate) fn groups(&self) -> Vec<Group> {
        let measured = |group: &Group| self.rows.iter().any(|row| row.group == group.name());
        Group::ALL.into_iter().filter(measured).collect()
    }

    /// Table and plots of a group, with the command that measures them again.
    fn section(&self, group: Group, path: &str) -> String {
        let rows = self.rows.iter().filter(|row| row.group == group.name());
        let rows: Vec<_> = rows.collect();
        let mut text = table(group, &rows, &self.baseline);
        let (all, one) = (
            self.command_for(&self.measured_of(group)),
            self.command_for("NAME"),
        );
        let _infallible = write!(
            text,
            "\nAll of it again: `{all}`; one workload: `{one}`, with its name from the first column.\n"
        );
        for chart in Chart::of(&self.rows) {
            if chart.group() == group {
                let (title, file) = (chart.title(), chart.file("svg"));
                let _infallible = write!(text, "\n![{title}]({path}{file})\n");
            }
        }
        text
    }

    /// The rows whose mounts were profiled and took enough CPU time for shares of it, with their
    /// shares.
    pub(crate) fn profiles(&self) -> impl Iterator<Item = (&Row, &Shares)> {
        let rows = self.rows.iter();
        rows.filter_map(|row| Some((row, row.profile.as_ref()?)))
            .filter(|(_, shares)| shares.samples >= SAMPLES_MIN)
    }

    /// The causes of CPU time, as a table and a picture; `None` if nothing was profiled.
    fn profiles_section(&self, path: &str) -> Option<String> {
        self.profiles().next()?;
        let mut cells = vec![vec!["workload".to_owned(), "CPU".to_owned()]];
        cells[0].extend(Cause::ALL.map(|cause| cause.name().to_owned()));
        cells[0].push("functions that ran most often".to_owned());
        for (row, shares) in self.profiles() {
            let name = format!("{} {}", row.workload, row.mark());
            let mut line = vec![name.trim().to_owned(), cost(row)];
            let percent = |part: f64| format!("{:.0}", part * 100.0);
            line.extend(Cause::ALL.map(|cause| percent(shares.of_cause(cause))));
            let top = shares.top(FUNCTIONS_MAX).into_iter();
            let top: Vec<_> = top
                .map(|(function, part)| format!("`{function}` {}", percent(part)))
                .collect();
            line.push(top.join(", "));
            cells.push(line);
        }
        let command = self.command_for("NAME");
        Some(format!(
            "{}\nWorkloads with fewer than {SAMPLES_MIN} samples, of 1 ms, are left out. One of them again: `{command}`.\n\n![What the mount's CPU time goes into]({path}{PROFILES_FILE})\n",
            align(&cells)
        ))
    }

    /// The group, if all of it was asked for; else its workloads that were measured.
    fn measured_of(&self, group: Group) -> String {
        let is_asked = |name: &str| name == "all" || name == group.name();
        if self.workloads.split(',').any(is_asked) {
            return group.name().to_owned();
        }
        let rows = self.rows.iter().filter(|row| row.group == group.name());
        let mut names: Vec<_> = rows.map(|row| row.workload.as_str()).collect();
        names.dedup();
        names.join(",")
    }

    /// The day and the commits that were measured, and whether with half the data set.
    pub(crate) fn run_short(&self) -> String {
        let day: String = self.date.chars().take("2026-11-21".len()).collect();
        let products = self.products();
        let commits = products
            .iter()
            .map(|(_, version)| source::commit_of(version));
        let mut commits: Vec<_> = commits.collect();
        commits.dedup();
        let half = if self.setup.quick { ", half" } else { "" };
        format!("{day}, {}{half}", commits.join(", "))
    }

    /// Names and versions of the builds that were measured.
    fn products(&self) -> Vec<(&str, &str)> {
        let systems = self.systems.iter();
        systems
            .filter(|system| system.role == Role::Product)
            .map(|system| (system.name.as_str(), system.version.as_str()))
            .collect()
    }

    /// When, where and how, in one line.
    pub(crate) fn circumstances_short(&self) -> String {
        let Machine {
            cores,
            processor,
            memory_gib,
            kernel,
        } = &self.machine;
        let built = source::described(&self.products(), self.checkout.as_ref());
        let date: String = self.date.chars().take("2026-11-21".len()).collect();
        format!(
            "{date}, {built}; {cores} cores ({processor}), {memory_gib:.0} GiB, Linux {kernel}; {} rounds of {} s",
            self.rounds, self.seconds
        )
    }

    fn write_circumstances(&self, text: &mut String) {
        let caches = if self.caches_dropped {
            "dropped before each run"
        } else {
            "left as they were"
        };
        let lines = [
            self.circumstances_short(),
            format!("`{}`", self.command_for(&self.workloads)),
            format!(
                "each round on a fresh mount; page caches {caches}; {}",
                self.readers
            ),
            format!(
                "{}; {} data set",
                self.setup.described(),
                if self.setup.quick { "half" } else { "full" }
            ),
        ];
        let systems = self
            .systems
            .iter()
            .map(|Version { name, version, .. }| format!("**{name}**: {version}"));
        for line in lines.into_iter().chain(systems) {
            let _infallible = writeln!(text, "- {line}");
        }
    }
}

/// Samples that a profile needs to be shown: with fewer, shares are chance.
const SAMPLES_MIN: u64 = 50;

/// Functions that a table names of a profile.
const FUNCTIONS_MAX: usize = 3;

/// Workloads that cost more for each GB have small files: their costs are told for each operation.
const PER_GB_MAX: f64 = 10.0;

/// The mount's CPU time for each GB, or for each operation.
fn cost(row: &Row) -> String {
    let group = Group::ALL
        .into_iter()
        .find(|group| group.name() == row.group);
    let summary = row.summary.as_ref();
    let per_gb = summary.and_then(|summary| summary.mount_cpu_s_per_gb);
    match (per_gb, summary) {
        (Some(cpu), _) if cpu < PER_GB_MAX && group.is_some_and(per_byte) => {
            format!("{} s/GB", digits(cpu))
        }
        (_, Some(summary)) => format!("{} µs/op", digits(summary.mount_cpu_us_per_operation)),
        (_, None) => none(),
    }
}

/// Whether costs are told for each GB, or for each operation.
fn per_byte(group: Group) -> bool {
    match group {
        Group::Random | Group::FirstByte | Group::Metadata | Group::Tail | Group::Replay => false,
        Group::Sequential
        | Group::Cached
        | Group::DiskCache
        | Group::Pattern
        | Group::Application
        | Group::Loading
        | Group::Write
        | Group::Staged
        | Group::Tls
        | Group::Network
        | Group::S3 => true,
    }
}

fn table(group: Group, rows: &[&Row], baseline: &str) -> String {
    let per = if per_byte(group) { "s/GB" } else { "µs/op" };
    let mut cells = vec![vec!["workload".to_owned(), "system".to_owned()]];
    if group == Group::Metadata {
        cells[0].push("requests".to_owned());
    }
    cells[0].extend([
        "median".to_owned(),
        "min – max".to_owned(),
        format!("× {baseline}"),
        "of the limit".to_owned(),
        "p50".to_owned(),
        "p99".to_owned(),
        format!("mount CPU {per}"),
        format!("total CPU {per}"),
        "peak MiB".to_owned(),
        "requests/op".to_owned(),
        "fetched/asked".to_owned(),
    ]);
    let mut previous = "";
    for row in rows {
        let name = if row.workload == previous {
            ""
        } else {
            &row.workload
        };
        previous = &row.workload;
        let mut line = vec![name.to_owned(), row.system.clone()];
        match &row.summary {
            Some(summary) => line.extend(figures(group, row.unit, summary)),
            None => line.push(format!("failed: {}", one_cell(row.error.as_deref()))),
        }
        line.resize(cells[0].len(), String::new());
        cells.push(line);
    }
    align(&cells)
}

/// The last clause of an error, without characters that would end a cell.
fn one_cell(error: Option<&str>) -> String {
    let error = error.unwrap_or("unknown");
    let cause = error.rsplit(": ").next().unwrap_or(error);
    let error = cause.replace(['|', '\n'], " ");
    if error.chars().count() <= ERROR_LENGTH_MAX {
        return error;
    }
    let begin: String = error.chars().take(ERROR_LENGTH_MAX).collect();
    format!("{begin}…")
}

/// Characters of an error in a table; `results.json` has all.
const ERROR_LENGTH_MAX: usize = 60;

fn figures(group: Group, unit: &str, summary: &Summary) -> Vec<String> {
    let optional = |value: Option<f64>| value.map_or_else(none, digits);
    let (mount, total) = if per_byte(group) {
        (summary.mount_cpu_s_per_gb, summary.total_cpu_s_per_gb)
    } else {
        (
            Some(summary.mount_cpu_us_per_operation),
            Some(summary.total_cpu_us_per_operation),
        )
    };
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let first = (group == Group::Metadata).then(|| optional(summary.requests));
    let rest = [
        format!("**{}** {unit}", digits(summary.value)),
        format!(
            "{} – {}",
            digits(summary.value_min),
            digits(summary.value_max)
        ),
        optional(summary.advantage),
        summary.limit_share.map_or_else(none, percent),
        duration(summary.latency_p50_us),
        duration(summary.latency_p99_us),
        optional(mount),
        optional(total),
        digits(summary.memory_peak_mib),
        optional(summary.requests_per_operation),
        optional(summary.fetched_per_asked),
    ];
    first.into_iter().chain(rest).collect()
}

fn none() -> String {
    "–".to_owned()
}

fn duration(microseconds: Option<f64>) -> String {
    match microseconds {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 => format!("{} ms", digits(value / 1000.0)),
        Some(value) => format!("{} µs", digits(value)),
    }
}

/// A Markdown table whose columns also line up as text.
pub(crate) fn align(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<_> = (0..rows[0].len()).map(width).collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        for (cell, width) in row.iter().zip(&widths) {
            let _infallible = write!(text, "| {cell:width$} ");
        }
        text.push_str("|\n");
        if index == 0 {
            for width in &widths {
                let _infallible = write!(text, "|{}", "-".repeat(width + 2));
            }
            text.push_str("|\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_fitting_unit() {
        assert_eq!(duration(Some(12.34)), "12.3 µs");
        assert_eq!(duration(Some(12_340.0)), "12.3 ms");
        assert_eq!(duration(None), "–");
    }

    #[test]
    fn an_error_fits_into_a_cell() {
        assert_eq!(one_cell(Some("open /m/f: a | b\nc")), "a   b c");
        assert_eq!(
            one_cell(Some(&"x".repeat(100))).chars().count(),
            ERROR_LENGTH_MAX + 1
        );
        assert_eq!(one_cell(None), "unknown");
    }

    #[test]
    fn columns_line_up() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let table = align(&[row(["a", "long"]), row(["µµµ", "b"])]);
        assert_eq!(table, "| a   | long |\n|-----|------|\n| µµµ | b    |\n");
    }
}
