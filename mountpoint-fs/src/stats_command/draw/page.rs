//! Rows drawn one below the other: for a terminal, which shows some of them, or as text.

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget;

/// A page as wide as the terminal, and as high as what is drawn on it, within [`ROWS_MAX`].
#[derive(Clone, Debug)]
pub(in crate::stats_command) struct Page {
    buffer: Buffer,
}

impl Page {
    /// An empty page.
    pub(in crate::stats_command) fn new(width: usize) -> Self {
        let width = u16::try_from(width).unwrap_or(u16::MAX).min(WIDTH_MAX);
        Self {
            buffer: Buffer::empty(Rect::new(0, 0, width, 0)),
        }
    }

    /// The number of columns.
    pub(super) fn width(&self) -> usize {
        self.buffer.area().width.into()
    }

    /// The number of rows.
    pub(in crate::stats_command) fn height(&self) -> u16 {
        self.buffer.area().height
    }

    /// Draws below what is there.
    pub(super) fn add(&mut self, height: usize, draw: impl FnOnce(Rect, &mut Buffer)) {
        let Rect {
            width, height: y, ..
        } = *self.buffer.area();
        let height = u16::try_from(height).unwrap_or(u16::MAX).min(ROWS_MAX - y);
        self.buffer.resize(Rect::new(0, 0, width, y + height));
        draw(Rect::new(0, y, width, height), &mut self.buffer);
    }

    /// Adds a row with this line.
    pub(in crate::stats_command) fn line<'a>(&mut self, line: impl Into<Line<'a>>) {
        let line = line.into();
        self.add(1, |area, buffer| line.render(area, buffer));
    }

    /// Adds an empty row.
    pub(super) fn gap(&mut self) {
        self.add(1, |_, _| ());
    }

    /// Shows the rows from `first` on in this area of a terminal.
    pub(in crate::stats_command) fn show(&self, first: u16, area: Rect, target: &mut Buffer) {
        let rows = self.height().saturating_sub(first).min(area.height);
        for y in 0..rows {
            for x in 0..area.width.min(self.buffer.area().width) {
                let from = self.buffer.cell((x, first + y));
                let to = target.cell_mut((area.x + x, area.y + y));
                if let (Some(from), Some(to)) = (from, to) {
                    from.clone_into(to);
                }
            }
        }
    }

    /// The rows as lines of text.
    pub(in crate::stats_command) fn text(&self) -> Vec<String> {
        let width = usize::from(self.buffer.area().width);
        if width == 0 {
            return vec![String::new(); usize::from(self.height())];
        }
        let rows = self.buffer.content().chunks(width);
        let text = |row: &[Cell]| row.iter().map(Cell::symbol).collect::<String>();
        rows.map(|row| text(row).trim_end().to_owned()).collect()
    }
}

/// Rows of a page: thousands of mounts, each with a line.
const ROWS_MAX: u16 = 4096;
/// Columns of a page, so that the largest page takes less than 100 MB.
const WIDTH_MAX: u16 = 512;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_grows_and_is_shown_from_any_row() {
        let mut page = Page::new(5);
        page.line("first");
        page.gap();
        page.line("third and more");
        assert_eq!(page.text(), ["first", "", "third"]);
        for (first, expected) in [
            (0, ["first", ""]),
            (1, ["", "third"]),
            (2, ["third", ""]),
            (9, ["", ""]),
        ] {
            let mut target = Buffer::empty(Rect::new(0, 0, 7, 3));
            page.show(first, Rect::new(1, 1, 6, 2), &mut target);
            let expected = expected.map(|text| format!(" {text:<6}"));
            let [one, other] = expected;
            assert_eq!(
                target,
                Buffer::with_lines(["       ", one.as_str(), other.as_str()]),
                "{first}"
            );
        }
    }

    #[test]
    fn a_page_is_bounded_and_may_have_no_width() {
        let mut page = Page::new(1);
        page.add(100_000, |_, _| ());
        page.line("x");
        assert_eq!(page.height(), ROWS_MAX);
        let mut page = Page::new(0);
        page.line("x");
        assert_eq!(page.text(), [""]);
    }
}
