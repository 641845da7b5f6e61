//! The view of the running mounts: all, or the one that was chosen.

use std::collections::BTreeMap;

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::Widget as _;

use super::activity::Activity;
use super::draw::{self, History, Page};
use super::screen::Input;
use crate::mount::StatsDocument;

/// The mounts of the last look, and what of them the user has chosen.
#[derive(Debug, Default)]
pub(super) struct View {
    mounts: Vec<Mount>,
    chosen: usize,
    is_opened: bool,
    scrolled: u16,
}

/// A mount's numbers now and at the look before.
#[derive(Debug)]
struct Mount {
    now: StatsDocument,
    before: Option<StatsDocument>,
    history: History,
}

impl Mount {
    fn activity(&self) -> Activity<'_> {
        Activity::new(&self.now, self.before.as_ref())
    }
}

impl View {
    /// Takes the numbers of now. A mount that is gone is forgotten.
    pub(super) fn look(&mut self, documents: Vec<StatsDocument>) {
        let chosen = self.mounts.get(self.chosen).map(|mount| mount.now.place());
        let before = std::mem::take(&mut self.mounts).into_iter();
        let mut before: BTreeMap<_, _> = before.map(|mount| (mount.now.place(), mount)).collect();
        let mounts = documents.into_iter().map(|now| {
            let (before, history) = match before.remove(&now.place()) {
                Some(mount) => (Some(mount.now), mount.history),
                None => (None, History::default()),
            };
            let mut mount = Mount {
                now,
                before,
                history,
            };
            let activity = Activity::new(&mount.now, mount.before.as_ref());
            mount.history.add(&activity);
            mount
        });
        self.mounts = mounts.collect();
        let is_chosen = |mount: &Mount| Some(mount.now.place()) == chosen;
        let chosen = self.mounts.iter().position(is_chosen);
        self.is_opened &= chosen.is_some();
        self.chosen = chosen.unwrap_or(0);
    }

    /// Does what a key asks for.
    pub(super) fn take(&mut self, input: Input) {
        let is_one = self.shown().is_some();
        let last = self.mounts.len().saturating_sub(1);
        match input {
            Input::Up if is_one => self.scrolled = self.scrolled.saturating_sub(1),
            Input::Down if is_one => self.scrolled = self.scrolled.saturating_add(1),
            Input::Up => self.chosen = self.chosen.saturating_sub(1),
            Input::Down => self.chosen = (self.chosen + 1).min(last),
            Input::Open => self.is_opened = true,
            Input::Back => (self.is_opened, self.scrolled) = (false, 0),
            Input::Resize | Input::End => (),
        }
    }

    /// The lines of now.
    pub(super) fn lines(&self, width: usize) -> Vec<String> {
        self.page(None, width).text()
    }

    /// Draws the view and the keys below it. A page that is higher than the area can be scrolled.
    pub(super) fn draw(&mut self, area: Rect, buffer: &mut Buffer) {
        let page = self.page(Some(self.chosen), area.width.into());
        let rows = area.height.saturating_sub(1);
        let hidden = page.height().saturating_sub(rows);
        let is_one = self.shown().is_some();
        // The chosen mount is below the head and stays in sight.
        let each = usize::from(page.height()).saturating_sub(1) / self.mounts.len().max(1);
        let chosen = u16::try_from((self.chosen + 1) * each + 1).unwrap_or(u16::MAX);
        self.scrolled = match is_one {
            true => self.scrolled.min(hidden),
            false => chosen.saturating_sub(rows),
        };
        page.show(
            self.scrolled,
            Rect {
                height: rows,
                ..area
            },
            buffer,
        );
        let keys = match (is_one, self.mounts.len()) {
            (true, 1) => "q: end   up, down: scroll",
            (true, _) => "q: end   up, down: scroll   Esc: all mounts",
            (false, 0) => "q: end",
            (false, _) => "q: end   up, down: choose   Enter: show the mount",
        };
        let last = Rect {
            y: area.y + rows,
            height: area.height - rows,
            ..area
        };
        Line::styled(keys, draw::HEAD).render(last, buffer);
    }

    /// The mount whose numbers are all shown.
    fn shown(&self) -> Option<&Mount> {
        let is_one = self.is_opened || self.mounts.len() == 1;
        self.mounts.get(self.chosen).filter(|_| is_one)
    }

    fn page(&self, chosen: Option<usize>, width: usize) -> Page {
        if let Some(mount) = self.shown() {
            return draw::one(&mount.activity(), &mount.history, width);
        }
        if self.mounts.is_empty() {
            let mut page = Page::new(width);
            page.line("no mount answers");
            return page;
        }
        let activities: Vec<_> = self.mounts.iter().map(Mount::activity).collect();
        draw::many(&activities, chosen, width)
    }
}

#[cfg(test)]
mod tests {
    use ratatui::buffer::Cell;

    use super::super::activity::tests::document;
    use super::*;
    use crate::metrics::{SeriesValue, names};

    fn read(directory: &str, seconds: u64, mib: u64) -> StatsDocument {
        let bytes = SeriesValue::Counter(mib << 20);
        let read: &[(&str, &str)] = &[("type", "read")];
        let mut document = document(seconds, &[(names::FUSE_BYTES, read, bytes)]);
        document.mount.directory = directory.to_owned();
        document
    }

    /// The part that a terminal of this height shows.
    fn shown(view: &mut View, height: u16) -> Vec<String> {
        let area = Rect::new(0, 0, 120, height);
        let mut buffer = Buffer::empty(area);
        view.draw(area, &mut buffer);
        let rows = buffer.content().chunks(120);
        let text = |row: &[Cell]| row.iter().map(Cell::symbol).collect::<String>();
        rows.map(|row| text(row).trim_end().to_owned()).collect()
    }

    #[test]
    fn a_view_shows_changes_after_the_first_look() {
        let mut view = View::default();
        view.look(vec![read("/mnt", 10, 100)]);
        let first = view.lines(120);
        assert!(first[1].contains(" 10.00 MiB/s "), "{first:?}");
        view.look(vec![read("/mnt", 12, 110)]);
        let second = view.lines(120);
        assert!(
            second[1].contains(" 5.00 MiB/s   total  110.00 MiB   █▄"),
            "{second:?}"
        );
        view.look(Vec::new());
        assert_eq!(view.lines(120), ["no mount answers"]);
        view.look(vec![read("/mnt", 14, 110)]);
        let again = view.lines(120);
        assert!(again[1].contains(" 7.86 MiB/s "), "{again:?}");
    }

    #[test]
    fn a_mount_is_chosen_and_opened_by_keys() {
        let mut view = View::default();
        let look = |view: &mut View, names: &[&str]| {
            view.look(names.iter().map(|name| read(name, 10, 1)).collect());
        };
        look(&mut view, &["/a", "/b", "/c"]);
        assert!(shown(&mut view, 9)[8].contains("Enter: show the mount"));
        for input in [
            Input::Down,
            Input::Down,
            Input::Down,
            Input::Up,
            Input::Open,
        ] {
            view.take(input);
        }
        let one = shown(&mut view, 9);
        assert!(one[0].contains("bucket/data/ at /b"), "{one:?}");
        assert!(one[8].contains("Esc: all mounts"), "{one:?}");
        // Others may come and go.
        look(&mut view, &["/0", "/a", "/b"]);
        assert!(shown(&mut view, 9)[0].contains(" at /b"));
        view.take(Input::Back);
        assert!(shown(&mut view, 9)[1].contains("/0: bucket"));
        view.take(Input::Open);
        look(&mut view, &["/a", "/c"]);
        assert!(shown(&mut view, 9)[2].contains("/c: bucket"));
    }

    #[test]
    fn a_page_is_scrolled_to_its_end_and_no_further() {
        let mut view = View::default();
        view.look(vec![read("/a", 10, 1)]);
        let lines = view.lines(120);
        view.take(Input::Down);
        assert_eq!(shown(&mut view, 5)[..4], lines[1..5]);
        for _ in 0..100 {
            view.take(Input::Down);
        }
        assert_eq!(shown(&mut view, 5)[..4], lines[lines.len() - 4..]);
        view.take(Input::Up);
        assert_eq!(shown(&mut view, 5)[0], lines[lines.len() - 5]);
        assert_eq!(shown(&mut view, 1).len(), 1);
        assert_eq!(shown(&mut view, 0).len(), 0);
        assert_eq!(shown(&mut view, 100)[..lines.len()], lines);
    }

    #[test]
    fn the_chosen_mount_stays_in_sight() {
        let mut view = View::default();
        let names: Vec<_> = (0..50).map(|number| format!("/mnt/{number:02}")).collect();
        view.look(names.iter().map(|name| read(name, 10, 1)).collect());
        for _ in 0..30 {
            view.take(Input::Down);
        }
        let lines = shown(&mut view, 10);
        assert!(
            lines.iter().any(|line| line.contains("/mnt/30:")),
            "{lines:?}"
        );
    }
}
