//! The view of many mounts: a line for each, or two where the terminal is narrow.

use ratatui::layout::HorizontalAlignment::{Left, Right};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row};

use super::one::{READ, WRITTEN};
use super::text::{columns, count, short_byte_rate, shortened};
use super::{Column, NOTICE, Page, add_rows, add_table, failures, number, safe};
use crate::metrics::names::*;
use crate::stats_command::activity::{Activity, Verdict};

/// Each mount, in as many rows as the others; the chosen one is marked.
pub(in crate::stats_command) fn many(
    activities: &[Activity<'_>],
    chosen: Option<usize>,
    width: usize,
) -> Page {
    let mut page = Page::new(width);
    let room = width.saturating_sub(NUMBERS_WIDTH);
    let is_narrow = activities
        .iter()
        .any(|activity| columns(&place(activity)) > room);
    add_table(&mut page, &COLUMNS, Vec::new());
    for (number, activity) in activities.iter().enumerate() {
        let style = match chosen == Some(number) {
            true => Style::new().add_modifier(Modifier::REVERSED),
            false => Style::new(),
        };
        let beside = match is_narrow {
            true => String::new(),
            false => place(activity),
        };
        add_rows(
            &mut page,
            &COLUMNS,
            vec![row(activity, beside).style(style)],
        );
        if is_narrow {
            let below = shortened(&place(activity), width.saturating_sub(BELOW.len()));
            page.line(Line::styled(format!("{BELOW}{below}"), style));
        }
    }
    page
}

fn place(activity: &Activity<'_>) -> String {
    let mount = &activity.document.mount;
    let (directory, bucket, prefix) = (&mount.directory, &mount.bucket, &mount.prefix);
    safe(&format!("{directory}: {bucket}/{prefix}"))
}

fn row(activity: &Activity<'_>, place: String) -> Row<'static> {
    let operations = activity.rows("fuse_request", FUSE_LATENCY, FUSE_ERRORS);
    let operations = operations.iter().map(|row| row.latency.count()).sum();
    let verdict = activity.verdict();
    Row::new([
        number(short_byte_rate(activity.rate(FUSE_BYTES, &READ))),
        number(short_byte_rate(activity.rate(FUSE_BYTES, &WRITTEN))),
        number(count(activity.per_second(operations))),
        number(count(activity.rate(S3_REQUESTS, &[]))),
        failures(activity.grown(S3_ERRORS, &[])),
        Cell::from(verdict.name()).style(match verdict {
            Verdict::Waits(_) => NOTICE,
            Verdict::Application | Verdict::Idle => Style::new(),
        }),
        Cell::from(place),
    ])
}

/// Names of the columns with their widths.
const COLUMNS: [Column<'_>; 7] = [
    ("read", 10, Right),
    ("written", 10, Right),
    ("ops/s", 7, Right),
    ("S3/s", 7, Right),
    ("errors", 6, Right),
    ("waits for", 12, Left),
    ("directory: bucket", 0, Left),
];
/// Columns of the numbers, and of the gaps behind them.
const NUMBERS_WIDTH: usize = 10 + 10 + 7 + 7 + 6 + 12 + 6;
/// What a place below its numbers begins with.
const BELOW: &str = "  ";

#[cfg(test)]
mod tests {
    use super::super::one::tests::busy;
    use super::*;
    use crate::stats_command::activity::tests::document;

    #[test]
    fn many_mounts_have_a_line_each() {
        let (busy, idle) = (busy(), document(10, &[]));
        let activities = [Activity::new(&busy, None), Activity::new(&idle, None)];
        let lines = many(&activities, None, 80).text();
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

    #[test]
    fn places_that_do_not_fit_are_below_the_numbers() {
        let (mut busy, idle) = (busy(), document(10, &[]));
        busy.mount.directory = format!("/var/lib/kubelet/pods/{}/mount", "0123456789".repeat(9));
        let activities = [Activity::new(&busy, None), Activity::new(&idle, None)];
        let lines = many(&activities, None, 80).text();
        assert_eq!(lines.len(), 5);
        assert!(lines[1].ends_with("2 first_byte"), "{lines:?}");
        assert!(lines[2].starts_with("  /var/lib/kubelet/pods/0123"));
        assert!(lines[2].ends_with("/mount: bucket/data/") && lines[2].contains('…'));
        assert_eq!(lines[4], "  /mnt: bucket/data/");
        let lines = many(&activities, None, 200).text();
        assert!(lines[1].ends_with(&place(&activities[0])), "{lines:?}");
    }
}
