//! Puts a run's figures into a document, between the markers of each group. Pure.
//!
//! A group has one table, each row from the newest run that measured its workload. The document's
//! rows decide which workloads it shows; each links to its run's report, which has all of them.

use anyhow::{Result, ensure};

use super::digits::digits;
use super::plot::{Chart, PROFILES_FILE};
use super::report::{Report, align};
use super::summary::{Row, Summary};
use crate::system::catalog::Role;
use crate::workload::Group;

/// The document with the rows of `report`; `path` leads from the document to the run's folder.
pub(crate) fn updated(document: &str, report: &Report, path: &str) -> Result<String> {
    if report.profiles().next().is_some() {
        // A mount under a profiler is slower, so that its figures stay in the report.
        let section = format!(
            "{}: [report]({path}{REPORT_FILE}).\n![What the mount's CPU time goes into]({path}{PROFILES_FILE})",
            report.circumstances_short()
        );
        return replaced(document, "profiles", |_| section);
    }
    let mut text = document.to_owned();
    for group in report.groups() {
        let rows = rows(report, group, path);
        let charts = charts(report, group, path);
        text = replaced(&text, group.name(), |old| merged(old, rows, charts))?;
    }
    Ok(text)
}

/// The report of a run, in its folder.
pub(crate) const REPORT_FILE: &str = "report.md";

const HEADER: [&str; COLUMNS] = [
    "workload",
    PRODUCT,
    REFERENCE,
    "ratio",
    "ratio to the best other peer",
    "of the limit",
    "run",
];
const COLUMNS: usize = 7;
const BEST_OTHER: usize = 4;
const PRODUCT: &str = "mount-s3";
const REFERENCE: &str = "mountpoint-s3";
const NONE: &str = "–";

type Cells = [String; COLUMNS];

fn rows(report: &Report, group: Group, path: &str) -> Vec<Cells> {
    let measured = report.rows.iter().filter(|row| row.group == group.name());
    let measured: Vec<&Row> = measured.collect();
    let of_product = measured.iter().filter(|row| row.role == Role::Product);
    let of_product = of_product.filter(|row| row.system == PRODUCT);
    of_product
        .map(|row| {
            let others = measured
                .iter()
                .filter(|other| other.workload == row.workload);
            cells(row, &others.copied().collect::<Vec<_>>(), report, path)
        })
        .collect()
}

fn cells(product: &Row, all: &[&Row], report: &Report, path: &str) -> Cells {
    let reference = all.iter().find(|row| row.system == REFERENCE);
    let advantage = |row: &Row| row.summary.as_ref()?.advantage;
    let ratio = |of: &Row| Some(advantage(product)? / advantage(of)?);
    // A marked name is another build or setting of a system, not a peer.
    let is_other = |row: &&&Row| {
        row.role == Role::Peer && row.system != REFERENCE && !row.system.contains(':')
    };
    let others = all.iter().filter(is_other);
    let others = others.filter_map(|row| Some((advantage(row)?, *row)));
    let best = others.max_by(|(a, _), (b, _)| a.total_cmp(b));
    let best = best.and_then(|(_, row)| {
        let (ratio, name) = (digits(ratio(row)?), &row.system);
        Some(format!("{ratio} [{name}]({path}{REPORT_FILE})"))
    });
    let share = product.summary.as_ref();
    let share = share.and_then(|summary| summary.limit_share);
    let or_none = |cell: Option<String>| cell.unwrap_or_else(|| NONE.to_owned());
    [
        product.workload.clone(),
        figure(product),
        or_none(reference.map(|row| figure(row))),
        or_none(reference.and_then(|row| ratio(row)).map(digits)),
        or_none(best),
        or_none(share.map(|share| format!("{:.0} %", share * 100.0))),
        format!("[{}]({path}{REPORT_FILE})", report.run_short()),
    ]
}

/// The median with its unit, and the requests of workloads that are counted in them.
fn figure(row: &Row) -> String {
    let Some(Summary {
        value, requests, ..
    }) = &row.summary
    else {
        return "failed".to_owned();
    };
    let value = format!("{} {}", digits(*value), row.unit);
    let requests = requests.filter(|_| row.group == Group::Metadata.name());
    match requests {
        Some(requests) => format!("{value}, {} requests", digits(requests)),
        None => value,
    }
}

fn charts(report: &Report, group: Group, path: &str) -> Vec<String> {
    let charts = Chart::of(&report.rows);
    let charts = charts.iter().filter(|chart| chart.group() == group);
    charts
        .map(|chart| format!("![{}]({path}{})", chart.title(), chart.file("svg")))
        .collect()
}

/// The section with `rows` in place of those of the same workloads. Charts of fewer workloads than
/// the table has replace none.
fn merged(old: &str, mut rows: Vec<Cells>, charts: Vec<String>) -> String {
    let old_rows: Vec<Cells> = old.lines().filter_map(parsed).collect();
    let old_charts = old.lines().filter(|line| line.starts_with("!["));
    let newest = |old: &Cells| rows.iter().find(|new| new[0] == old[0]);
    let charts = if old_rows.iter().all(|old| newest(old).is_some()) {
        charts
    } else {
        old_charts.map(str::to_owned).collect()
    };
    let updated = |old: &Cells| {
        let mut row = newest(old).unwrap_or(old).clone();
        if row[BEST_OTHER] == NONE {
            row[BEST_OTHER].clone_from(&old[BEST_OTHER]);
        }
        row
    };
    let updated: Vec<Cells> = old_rows.iter().map(updated).collect();
    if !updated.is_empty() {
        rows = updated;
    }
    let header = HEADER.map(str::to_owned);
    let table: Vec<Vec<String>> = [header].into_iter().chain(rows).map(Vec::from).collect();
    format!("{}\n{}", align(&table), charts.join(" "))
}

/// The cells of a table's row; `None` for its head and for every other line.
fn parsed(line: &str) -> Option<Cells> {
    let cells = line.strip_prefix("| ")?.strip_suffix('|')?.split('|');
    let cells: Vec<String> = cells.map(|cell| cell.trim().to_owned()).collect();
    let cells = Cells::try_from(cells).ok()?;
    (cells[0] != HEADER[0]).then_some(cells)
}

/// The text with what is between `<!-- NAME: begin -->` and `<!-- NAME: end -->` replaced.
fn replaced(document: &str, name: &str, section: impl FnOnce(&str) -> String) -> Result<String> {
    let (begin, end) = (
        format!("<!-- {name}: begin -->"),
        format!("<!-- {name}: end -->"),
    );
    let found = document.split_once(&begin);
    let found = found.and_then(|(before, rest)| Some((before, rest.split_once(&end)?)));
    ensure!(
        found.is_some(),
        "the document has no markers {begin} and {end}"
    );
    let (before, (old, after)) = found.unwrap_or_default();
    Ok(format!(
        "{before}{begin}\n{}\n{end}{after}",
        section(old).trim()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_markers_is_replaced() {
        let document =
            "a\n<!-- x: begin -->\nold\n<!-- x: end -->\nb <!-- y: begin --> <!-- y: end -->";
        let expected =
            "a\n<!-- x: begin -->\nnew\n<!-- x: end -->\nb <!-- y: begin --> <!-- y: end -->";
        let new = |_: &str| "\nnew\n".to_owned();
        assert_eq!(replaced(document, "x", new).unwrap(), expected);
        assert_eq!(replaced(expected, "x", new).unwrap(), expected);
    }

    #[test]
    fn a_document_without_markers_is_an_error() {
        for document in ["", "<!-- x: begin -->", "<!-- x: end --> <!-- x: begin -->"] {
            let result = replaced(document, "x", |_| String::new());
            assert!(result.is_err(), "{document:?}");
        }
    }

    fn row(workload: &str, ours: &str, best_other: &str) -> Cells {
        [workload, ours, "1", "2", best_other, "–", "run"].map(str::to_owned)
    }

    /// The first two cells and the peer's of each row, and the charts.
    #[track_caller]
    fn check(section: &str, rows: &[[&str; 3]], charts: &str) {
        let found = section.lines().filter_map(parsed);
        let found: Vec<[String; 3]> = found
            .map(|[workload, ours, _, _, peer, ..]| [workload, ours, peer])
            .collect();
        assert_eq!(
            found,
            rows.iter()
                .map(|row| row.map(str::to_owned))
                .collect::<Vec<_>>()
        );
        assert_eq!(section.lines().last(), Some(charts));
    }

    #[test]
    fn rows_of_other_workloads_stay() {
        let chart = |name: &str| vec![format!("![{name}]"), "![cpu]".to_owned()];
        let goofys = "3 [goofys](x)";
        let old = vec![row("a", "1", goofys), row("b", "1", "–")];
        let old = merged("", old, chart("old"));
        check(
            &old,
            &[["a", "1", goofys], ["b", "1", "–"]],
            "![old] ![cpu]",
        );

        // The chart of one workload does not replace that of two; a workload without a row stays
        // out.
        let new = vec![row("c", "2", "–"), row("a", "2", "–")];
        let part = merged(&old, new, chart("new"));
        check(
            &part,
            &[["a", "2", goofys], ["b", "1", "–"]],
            "![old] ![cpu]",
        );

        let rclone = "4 [rclone](y)";
        let new = vec![row("a", "3", rclone), row("b", "3", "–")];
        let whole = merged(&old, new, chart("new"));
        check(
            &whole,
            &[["a", "3", rclone], ["b", "3", "–"]],
            "![new] ![cpu]",
        );
    }
}
