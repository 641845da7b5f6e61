//! The view of one mount, and of many. Pure: drawn on a [`Page`].

mod many;
mod one;
mod page;
mod text;

use ratatui::layout::{Constraint, HorizontalAlignment};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Span, Text};
use ratatui::widgets::{Cell, Row, Table, Widget as _};

pub(super) use many::many;
pub(super) use one::{History, one};
pub(super) use page::Page;
use text::wrapped;

use crate::mount::safe_line;

/// A column of a table: its name, its width (0 takes the rest) and where its text stands.
type Column<'a> = (&'a str, u16, HorizontalAlignment);

/// Adds a table to a page.
fn add_table(page: &mut Page, columns: &[Column<'_>], rows: Vec<Row<'static>>) {
    let head = columns
        .iter()
        .map(|(name, _, alignment)| Text::from((*name).to_owned()).alignment(*alignment));
    add_rows(page, columns, vec![Row::new(head).style(HEAD)]);
    add_rows(page, columns, rows);
}

/// Adds rows of a table to a page.
fn add_rows(page: &mut Page, columns: &[Column<'_>], rows: Vec<Row<'static>>) {
    let widths = columns.iter().map(|(_, width, _)| match width {
        0 => Constraint::Fill(1),
        width => Constraint::Length(*width),
    });
    let height = rows.len();
    let table = Table::new(rows, widths);
    page.add(height, |area, buffer| table.render(area, buffer));
}

/// Adds a text with a name, in as many rows as it needs.
fn add_text(page: &mut Page, name: &'static str, text: &str, style: Style) {
    let room = page.width().saturating_sub(LABEL_WIDTH.into());
    let mut first = label(name);
    for row in wrapped(text, room) {
        let name = std::mem::replace(&mut first, label(""));
        page.line(vec![name, Span::styled(row, style)]);
    }
}

/// A cell whose text ends at the right.
fn number(text: impl Into<String>) -> Cell<'static> {
    Cell::from(Text::from(text.into()).right_aligned())
}

/// A number of failures, which is seen when it is not 0.
fn failures(count: f64) -> Cell<'static> {
    let style = if count > 0.0 { ALARM } else { Style::new() };
    number(text::count(count)).style(style)
}

/// A text of a server, a user or the system, without what a terminal would obey.
fn safe(text: &str) -> String {
    safe_line(text).to_string()
}

/// The name of some lines.
fn label(text: &'static str) -> Span<'static> {
    Span::styled(
        format!("{text:<width$}", width = usize::from(LABEL_WIDTH)),
        HEAD,
    )
}

/// Columns of the name of a line.
const LABEL_WIDTH: u16 = 12;

pub(super) const HEAD: Style = Style::new().fg(Color::Cyan);
const TITLE: Style = Style::new().add_modifier(Modifier::BOLD);
const ALARM: Style = Style::new().fg(Color::Red);
const NOTICE: Style = Style::new().fg(Color::Yellow);
const BAR: Style = Style::new().fg(Color::Green);
