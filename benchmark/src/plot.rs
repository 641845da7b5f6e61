//! Bar charts as SVG.
//!
//! One group of bars a workload, one bar a system, its value beside it, and a line from the least to the
//! greatest round. Bars of different workloads share a scale unless the chart says otherwise.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

use crate::report::digits;
use crate::summary::{Row, Summary};
use crate::workload::Group;

/// A figure to be drawn.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) title: &'static str,
    pub(crate) file: &'static str,
    group: Group,
    figure: fn(&Summary) -> Option<Bar>,
    /// Whether each workload's bars are drawn on a scale of their own.
    own_scale: bool,
}

/// One value and its spread.
#[derive(Clone, Copy, Debug)]
struct Bar {
    value: f64,
    spread: Option<(f64, f64)>,
}

const CHARTS: [Chart; 4] = [
    Chart {
        title: "Sequential reads, GB/s (more is better)",
        file: "seq-throughput.svg",
        group: Group::Sequential,
        figure: main_figure,
        own_scale: false,
    },
    Chart {
        title: "Sequential reads, CPU seconds of the mount per GB (less is better)",
        file: "seq-cpu.svg",
        group: Group::Sequential,
        figure: |summary| {
            Some(Bar {
                value: summary.mount_cpu_s_per_gb?,
                spread: None,
            })
        },
        own_scale: false,
    },
    Chart {
        title: "Random reads, IOPS (more is better; each workload on its own scale)",
        file: "rand-iops.svg",
        group: Group::Random,
        figure: main_figure,
        own_scale: true,
    },
    Chart {
        title: "Random reads, bytes fetched per byte asked (1 is best)",
        file: "rand-fetched.svg",
        group: Group::Random,
        figure: |summary| {
            Some(Bar {
                value: summary.fetched_per_asked?,
                spread: None,
            })
        },
        own_scale: true,
    },
];

// `Option` so that it has the signature of `Chart::figure`.
fn main_figure(summary: &Summary) -> Option<Bar> {
    let spread = Some((summary.value_min, summary.value_max));
    summary.value.is_finite().then_some(Bar {
        value: summary.value,
        spread,
    })
}

const COLOURS: [RGBColor; 5] = [
    RGBColor(31, 119, 180),
    RGBColor(255, 127, 14),
    RGBColor(44, 160, 44),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
];
const WIDTH: i32 = 900;
const TITLE_HEIGHT: i32 = 44;
const BAR_HEIGHT: i32 = 18;
const GROUP_GAP: i32 = 14;
/// Where bars begin; workloads and systems are named to the left.
const BARS_LEFT: i32 = 300;
const BARS_WIDTH: i32 = WIDTH - BARS_LEFT - 80;

impl Chart {
    /// The charts for which there are rows.
    pub(crate) fn of(rows: &[Row]) -> Vec<Self> {
        let charts = CHARTS.into_iter();
        charts
            .filter(|chart| chart.bars(rows).iter().any(|(_, bar)| bar.is_some()))
            .collect()
    }

    /// Draws the chart into `folder`.
    pub(crate) fn draw(&self, rows: &[Row], folder: &Path) -> Result<()> {
        let bars = self.bars(rows);
        let path = folder.join(self.file);
        let height =
            TITLE_HEIGHT + layout(&bars).last().map_or(0, |top| top + BAR_HEIGHT) + GROUP_GAP;
        let size = (u32::try_from(WIDTH)?, u32::try_from(height)?);
        let area = SVGBackend::new(&path, size).into_drawing_area();
        self.draw_on(&area, &bars)
            .map_err(|error| anyhow!("{}: {error}", path.display()))
    }

    fn bars<'a>(&self, rows: &'a [Row]) -> Vec<(&'a Row, Option<Bar>)> {
        let rows = rows.iter().filter(|row| row.group == self.group.name());
        rows.map(|row| (row, row.summary.as_ref().and_then(self.figure)))
            .collect()
    }

    fn draw_on(
        &self,
        area: &DrawingArea<SVGBackend<'_>, Shift>,
        bars: &[(&Row, Option<Bar>)],
    ) -> Result<(), Box<dyn std::error::Error>> {
        area.fill(&WHITE)?;
        let text = |text: String, x: i32, y: i32, size: i32| {
            area.draw(&Text::new(
                text,
                (x, y),
                ("sans-serif", size).into_font().color(&BLACK),
            ))
        };
        text(self.title.to_owned(), 12, 12, 16)?;
        let mut systems: Vec<&str> = Vec::new();
        let mut workload = "";
        for ((row, bar), top) in bars.iter().zip(layout(bars)) {
            let top = top + TITLE_HEIGHT;
            if row.workload != workload {
                workload = &row.workload;
                text(workload.to_owned(), 12, top + 2, 13)?;
            }
            let colour = position(&mut systems, &row.system) % COLOURS.len();
            text(row.system.clone(), BARS_LEFT - 130, top + 2, 13)?;
            let Some(bar) = bar else {
                text("failed".to_owned(), BARS_LEFT + 4, top + 2, 13)?;
                continue;
            };
            let pixels = self.scale(bars, workload);
            let corners = [(BARS_LEFT, top), (pixels(bar.value), top + BAR_HEIGHT - 3)];
            area.draw(&Rectangle::new(corners, COLOURS[colour].filled()))?;
            let mut right = pixels(bar.value);
            if let Some((least, greatest)) = bar.spread {
                let middle = top + (BAR_HEIGHT - 3) / 2;
                let ends = [(pixels(least), middle), (pixels(greatest), middle)];
                area.draw(&PathElement::new(ends, BLACK))?;
                right = right.max(pixels(greatest));
            }
            text(digits(bar.value), right + 6, top + 2, 13)?;
        }
        area.present()?;
        Ok(())
    }

    /// Turns a value into the place where its bar ends.
    fn scale(&self, bars: &[(&Row, Option<Bar>)], workload: &str) -> impl Fn(f64) -> i32 + use<> {
        let greatest = bars
            .iter()
            .filter(|(row, _)| !self.own_scale || row.workload == workload)
            .filter_map(|(_, bar)| {
                Some(
                    bar.as_ref()?
                        .spread
                        .map_or(bar.as_ref()?.value, |(_, most)| most),
                )
            })
            .fold(f64::MIN_POSITIVE, f64::max);
        move |value| {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most the width of the chart"
            )]
            let length = (value / greatest * f64::from(BARS_WIDTH)).round() as i32;
            BARS_LEFT + length.clamp(1, BARS_WIDTH)
        }
    }
}

/// The top of each bar, from 0.
fn layout(bars: &[(&Row, Option<Bar>)]) -> Vec<i32> {
    let mut top = 0;
    let mut tops = Vec::new();
    for (index, (row, _)) in bars.iter().enumerate() {
        if index > 0 {
            let new_group = bars[index - 1].0.workload != row.workload;
            top += BAR_HEIGHT + if new_group { GROUP_GAP } else { 0 };
        }
        tops.push(top);
    }
    tops
}

/// The index of `name`, which is added if it is new.
fn position<'a>(names: &mut Vec<&'a str>, name: &'a str) -> usize {
    names
        .iter()
        .position(|known| *known == name)
        .unwrap_or_else(|| {
            names.push(name);
            names.len() - 1
        })
}
