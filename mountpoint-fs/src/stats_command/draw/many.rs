//! The view of many mounts: a line for each.

use ratatui::layout::HorizontalAlignment::{Left, Right};
use ratatui::style::{Modifier, Style};
use ratatui::widgets::{Cell, Row};

use super::one::{READ, WRITTEN};
use super::text::{byte_rate, count};
use super::{Column, NOTICE, Page, add_table, failures, number, safe};
use crate::metrics::names::*;
use crate::stats_command::activity::{Activity, Verdict};

/// A line for each mount; the chosen one is marked.
pub(in crate::stats_command) fn many(
    activities: &[Activity<'_>],
    chosen: Option<usize>,
    width: usize,
) -> Page {
    let row = |(place, activity): (usize, &Activity<'_>)| {
        let operations = activity.rows("fuse_request", FUSE_LATENCY, FUSE_ERRORS);
        let operations = operations.iter().map(|row| row.latency.count()).sum();
        let mount = &activity.document.mount;
        let verdict = activity.verdict();
        let row = Row::new([
            number(byte_rate(activity.rate(FUSE_BYTES, &READ))),
            number(byte_rate(activity.rate(FUSE_BYTES, &WRITTEN))),
            number(count(activity.per_second(operations))),
            number(count(activity.rate(S3_REQUESTS, &[]))),
            failures(activity.grown(S3_ERRORS, &[])),
            Cell::from(verdict.name()).style(match verdict {
                Verdict::Waits(_) => NOTICE,
                Verdict::Application | Verdict::Idle => Style::new(),
            }),
            Cell::from(safe(&format!(
                "{}: {}/{}",
                mount.directory, mount.bucket, mount.prefix
            ))),
        ]);
        match chosen == Some(place) {
            true => row.style(Style::new().add_modifier(Modifier::REVERSED)),
            false => row,
        }
    };
    let mut page = Page::new(width);
    let rows = activities.iter().enumerate().map(row).collect();
    add_table(&mut page, &COLUMNS, rows);
    page
}

/// Names of the columns with their widths.
const COLUMNS: [Column<'_>; 7] = [
    ("read", 12, Right),
    ("written", 12, Right),
    ("ops/s", 8, Right),
    ("S3/s", 8, Right),
    ("errors", 7, Right),
    ("waits for", 12, Left),
    ("directory: bucket", 0, Left),
];

#[cfg(test)]
mod tests {
    use super::super::one::tests::busy;
    use super::*;
    use crate::stats_command::activity::tests::document;

    #[test]
    fn many_mounts_have_a_line_each() {
        let (busy, idle) = (busy(), document(10, &[]));
        let activities = [Activity::new(&busy, None), Activity::new(&idle, None)];
        let lines = many(&activities, None, 120).text();
        assert_eq!(lines.len(), 3);
        assert!(
            lines[1].ends_with("2 first_byte   /mnt: bucket/data/"),
            "{lines:?}"
        );
        assert!(
            lines[2].contains("0 B/s") && lines[2].contains(" idle "),
            "{lines:?}"
        );
    }
}
