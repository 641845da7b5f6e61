//! The layout of a chart.

use anyhow::Result;
use plotters::style::RGBColor;

use super::svg::{Anchor, DARK, GREY, Picture, Point, Style, WHITE, words};
use crate::results::digits::digits;
use crate::results::summary::{Row, Summary};
use crate::system::catalog::Role;
use crate::workload::Group;

/// A figure of a group, to be drawn.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chart {
    group: Group,
    kind: &'static ChartKind,
}

/// A figure that charts show of each row.
#[derive(Debug)]
struct ChartKind {
    name: &'static str,
    /// The chart's part of the title, behind the group's.
    title: &'static str,
    groups: &'static [Group],
    figure: fn(&Summary) -> Option<Bar>,
}

#[derive(Clone, Copy, Debug)]
struct Bar {
    value: f64,
    spread: Option<(f64, f64)>,
    limit: Option<f64>,
}

impl Bar {
    fn plain(value: f64) -> Self {
        Self {
            value,
            spread: None,
            limit: None,
        }
    }
}

const KINDS: [ChartKind; 4] = [
    ChartKind {
        name: "speed",
        title: "median, least and most",
        groups: &Group::ALL,
        figure: |summary| {
            summary.value.is_finite().then_some(Bar {
                value: summary.value,
                spread: Some((summary.value_min, summary.value_max)),
                limit: summary.limit,
            })
        },
    },
    ChartKind {
        name: "cpu",
        title: "CPU seconds of the mount for each GB (less is better)",
        groups: &[
            Group::Sequential,
            Group::Cached,
            Group::DiskCache,
            Group::Application,
            Group::Loading,
            Group::Write,
            Group::Staged,
            Group::Tls,
            Group::S3,
        ],
        figure: |summary| Some(Bar::plain(summary.mount_cpu_s_per_gb?)),
    },
    ChartKind {
        name: "fetched",
        title: "bytes fetched for each byte asked (1 is best)",
        groups: &[
            Group::Random,
            Group::Pattern,
            Group::Application,
            Group::Loading,
        ],
        figure: |summary| Some(Bar::plain(summary.fetched_per_asked?)),
    },
    ChartKind {
        name: "requests",
        title: "requests at the server (less is better)",
        groups: &[Group::Metadata, Group::Write, Group::FirstByte],
        figure: |summary| Some(Bar::plain(summary.requests?)),
    },
];

/// Colours that people with any colour vision can tell apart (Okabe and Ito); in the order of the
/// systems.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(230, 159, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(213, 94, 0),
    RGBColor(86, 180, 233),
    RGBColor(153, 153, 153),
];
const PALE: RGBColor = RGBColor(204, 204, 204);
const RED: RGBColor = RGBColor(192, 0, 0);

const COLUMNS: usize = 3;
const PANEL_WIDTH: f64 = 360.0;
const PANEL_GAP: f64 = 22.0;
const PANEL_TITLE: f64 = 30.0;
const BAR: f64 = 19.0;
/// Systems are named to the left of their bars, values stand to the right.
const NAMES: f64 = 104.0;
const VALUES: f64 = 62.0;
const MARGIN: f64 = 24.0;
const HEAD: f64 = 92.0;
const FOOT: f64 = 16.0;
const COMMAND_LINE: f64 = 15.0;
/// Width of a character of the command.
const COMMAND_CHARACTER: f64 = 6.2;

impl Chart {
    /// The charts for which there are rows.
    pub(crate) fn of(rows: &[Row]) -> Vec<Self> {
        let charts = KINDS.iter().flat_map(|kind| {
            let groups = kind.groups.iter();
            groups.map(move |group| Self {
                group: *group,
                kind,
            })
        });
        let shown = |chart: &Self| rows.iter().any(|row| chart.bar(row).is_some());
        let mut charts: Vec<_> = charts.filter(shown).collect();
        charts.sort_by_key(|chart| Group::ALL.iter().position(|group| *group == chart.group));
        charts
    }

    pub(crate) fn group(self) -> Group {
        self.group
    }

    /// Its name in a folder of results.
    pub(crate) fn file(self, ending: &str) -> String {
        format!("{}-{}.{ending}", self.group.name(), self.kind.name)
    }

    pub(crate) fn title(self) -> String {
        format!("{}: {}", self.group.title(), self.kind.title)
    }

    fn bar(self, row: &Row) -> Option<Bar> {
        let shown = row.group == self.group.name() && row.role.is_compared();
        shown.then(|| row.summary.as_ref().and_then(self.kind.figure))?
    }

    /// The chart as SVG.
    pub(crate) fn draw(self, rows: &[Row], circumstances: &str, command: &str) -> Result<String> {
        let panels = self.panels(rows);
        let systems: Vec<&str> = systems(rows);
        let heights: Vec<f64> = panels
            .chunks(COLUMNS)
            .map(|line| line.iter().map(|panel| height(panel)).fold(0.0, f64::max))
            .collect();
        let columns = panels.len().clamp(2, COLUMNS) as f64;
        let width = 2.0 * MARGIN + columns * PANEL_WIDTH + (columns - 1.0) * PANEL_GAP;
        let body: f64 = heights.iter().map(|height| height + PANEL_GAP).sum();
        let command = lines(
            &format!("{command}{}", self.group.name()),
            width - 2.0 * MARGIN,
        );
        let foot = FOOT + COMMAND_LINE * command.len() as f64;
        let mut text = String::new();
        let mut picture = Picture::new(&mut text, width, HEAD + body + foot)?;
        self.draw_head(&mut picture, (rows, circumstances), &systems)?;
        let mut top = HEAD;
        for (line, height) in panels.chunks(COLUMNS).zip(&heights) {
            let mut left = MARGIN;
            for panel in line {
                self.draw_panel(&mut picture, panel, (left, top), &systems)?;
                left += PANEL_WIDTH + PANEL_GAP;
            }
            top += height + PANEL_GAP;
        }
        for line in command {
            picture.text((MARGIN, top + 8.0), &line, words(11.0, GREY))?;
            top += COMMAND_LINE;
        }
        picture.finish()?;
        Ok(text)
    }

    fn draw_head(
        self,
        picture: &mut Picture<'_>,
        (rows, circumstances): (&[Row], &str),
        systems: &[&str],
    ) -> Result<()> {
        picture.text((MARGIN, 26.0), &self.title(), bold(19.0))?;
        picture.text((MARGIN, 49.0), circumstances, words(12.0, GREY))?;
        let mut x = MARGIN;
        for (system, colour) in systems.iter().zip(COLOURS.iter().cycle()) {
            picture.rectangle((x, 65.0), (12.0, 12.0), *colour)?;
            picture.text((x + 17.0, 71.0), system, words(13.0, DARK))?;
            x += 40.0 + 7.4 * system.chars().count() as f64;
        }
        let of_group = rows.iter().filter(|row| row.group == self.group.name());
        let mut summaries = of_group.filter_map(|row| row.summary.as_ref());
        if self.kind.name == "speed" && summaries.any(|summary| summary.limit.is_some()) {
            picture.dashes(x + 6.0, (62.0, 80.0), DARK)?;
            let text = "what the weaker of FUSE and client reaches alone";
            picture.text((x + 14.0, 71.0), text, words(13.0, DARK))?;
        }
        Ok(())
    }

    /// The rows of each workload that has something to show.
    fn panels(self, rows: &[Row]) -> Vec<Vec<&Row>> {
        let mut panels: Vec<Vec<&Row>> = Vec::new();
        let rows = rows.iter().filter(|row| row.group == self.group.name());
        for row in rows.filter(|row| row.role.is_compared()) {
            match panels.last_mut() {
                Some(panel) if panel[0].workload == row.workload => panel.push(row),
                _ => panels.push(vec![row]),
            }
        }
        panels.retain(|panel| panel.iter().any(|row| self.bar(row).is_some()));
        panels
    }

    fn draw_panel(
        self,
        picture: &mut Picture<'_>,
        panel: &[&Row],
        (left, top): Point,
        systems: &[&str],
    ) -> Result<()> {
        let bars: Vec<_> = panel.iter().map(|row| self.bar(row)).collect();
        let limit = bars.iter().flatten().find_map(|bar| bar.limit);
        let ends = bars.iter().flatten().map(Bar::end);
        let greatest = ends.chain(limit).fold(f64::MIN_POSITIVE, f64::max);
        let start = left + NAMES;
        let scale = Scale {
            start,
            unit: (PANEL_WIDTH - NAMES - VALUES) / greatest,
        };
        picture.text((left, top + 10.0), &panel[0].workload, bold(13.5))?;
        let unit = match (self.kind.name, limit) {
            ("speed", Some(limit)) => format!("{}, limit {}", panel[0].unit, digits(limit)),
            ("speed", None) => panel[0].unit.to_owned(),
            _ => String::new(),
        };
        let right = left + PANEL_WIDTH;
        picture.text((right, top + 10.0), &unit, ending(GREY))?;
        let (first, last) = (top + PANEL_TITLE - 8.0, top + height(panel) - 6.0);
        picture.line((start - 1.0, first), (start - 1.0, last), PALE)?;
        for (index, (row, bar)) in panel.iter().zip(&bars).enumerate() {
            let y = first + 2.0 + BAR * index as f64;
            let middle = y + (BAR - 4.0) / 2.0;
            picture.text((start - 7.0, middle), &shortened(&row.system), ending(DARK))?;
            match bar {
                Some(bar) => {
                    draw_bar(picture, *bar, y, scale, colour_of(systems, &row.system))?;
                }
                None if row.error.is_some() => {
                    picture.text((start + 6.0, middle), "failed", words(12.0, RED))?;
                }
                None => picture.text((start + 6.0, middle), "–", words(12.0, GREY))?,
            }
        }
        if let Some(limit) = limit {
            picture.dashes(scale.place(limit), (first, last), DARK)?;
        }
        for (index, bar) in bars.iter().enumerate() {
            if let Some(bar) = bar {
                draw_value(picture, *bar, first + 2.0 + BAR * index as f64, scale)?;
            }
        }
        Ok(())
    }
}

impl Bar {
    /// The greatest value that it shows.
    fn end(&self) -> f64 {
        self.spread
            .map_or(self.value, |(_, most)| most)
            .max(self.value)
    }
}

/// Where values lie.
#[derive(Clone, Copy)]
struct Scale {
    start: f64,
    unit: f64,
}

impl Scale {
    fn place(self, value: f64) -> f64 {
        self.start + value * self.unit
    }
}

fn draw_bar(
    picture: &mut Picture<'_>,
    bar: Bar,
    y: f64,
    scale: Scale,
    colour: RGBColor,
) -> Result<()> {
    let length = (bar.value * scale.unit).max(1.0);
    picture.rectangle((scale.start, y), (length, BAR - 4.0), colour)?;
    let middle = y + (BAR - 4.0) / 2.0;
    if let Some((least, most)) = bar.spread.filter(|(least, most)| least < most) {
        let (least, most) = (scale.place(least), scale.place(most));
        picture.line((least, middle), (most, middle), DARK)?;
        for end in [least, most] {
            picture.line((end, middle - 3.0), (end, middle + 3.0), DARK)?;
        }
    }
    Ok(())
}

/// The value behind its bar, on white, so that a limit's line does not cross it.
fn draw_value(picture: &mut Picture<'_>, bar: Bar, y: f64, scale: Scale) -> Result<()> {
    let right = scale.place(bar.end()) + 5.0;
    let text = digits(bar.value);
    let width = 7.2 * text.len() as f64;
    picture.rectangle((right - 1.0, y), (width, BAR - 4.0), WHITE)?;
    let middle = y + (BAR - 4.0) / 2.0;
    picture.text((right, middle), &text, words(12.0, DARK))
}

/// A command in lines of about `width`, broken between words.
fn lines(command: &str, width: f64) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in command.split(' ') {
        let last = lines.last_mut().expect("there is always one");
        let longer = (last.len() + word.len()) as f64 * COMMAND_CHARACTER > width;
        if longer && !last.is_empty() {
            lines.push(format!("    {word}"));
        } else {
            if !last.is_empty() {
                last.push(' ');
            }
            last.push_str(word);
        }
    }
    lines
}

fn bold(size: f64) -> Style {
    Style {
        bold: true,
        ..words(size, DARK)
    }
}

fn ending(colour: RGBColor) -> Style {
    Style {
        anchor: Anchor::End,
        ..words(12.0, colour)
    }
}

fn height(panel: &[&Row]) -> f64 {
    PANEL_TITLE + BAR * panel.len() as f64
}

/// Names of the systems, in the order of the run.
fn systems(rows: &[Row]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| row.role.is_compared()) {
        if !names.contains(&row.system.as_str()) {
            names.push(&row.system);
        }
    }
    names
}

fn colour_of(systems: &[&str], system: &str) -> RGBColor {
    let index = systems.iter().position(|name| *name == system);
    COLOURS[index.unwrap_or_default() % COLOURS.len()]
}

const NAME_LENGTH_MAX: usize = 15;

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LENGTH_MAX {
        return name.to_owned();
    }
    let kept: String = name.chars().take(NAME_LENGTH_MAX - 1).collect();
    format!("{kept}…")
}

impl Role {
    /// Whether it has bars; limits are lines.
    fn is_compared(self) -> bool {
        matches!(self, Self::Product | Self::Peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_command_is_broken_between_words() {
        let text = "one two three four";
        assert_eq!(lines(text, 1000.0), [text]);
        let broken = lines(text, 10.0 * COMMAND_CHARACTER);
        assert_eq!(broken, ["one two", "    three", "    four"]);
    }

    #[test]
    fn long_names_are_shortened() {
        assert_eq!(shortened("mountpoint-s3"), "mountpoint-s3");
        assert_eq!(
            shortened("mount-s3:a-long-mark").chars().count(),
            NAME_LENGTH_MAX
        );
    }
}
