//! The figures as one HTML page with charts, which needs nothing but itself.

use std::fmt::Write as _;

use plotters::prelude::{
    BLACK, DrawingAreaErrorKind, IntoDrawingArea as _, IntoFont as _, RGBColor, Rectangle,
    SVGBackend, Text, WHITE,
};
use plotters::style::Color as _;

use super::figures::{Measured, Unit};
use super::report::{Report, duration_text, rate_text, way_text};

/// The page.
pub(super) fn page(report: &Report) -> String {
    let mut body = String::new();
    let throughput: Vec<_> = bars(report, |it| {
        let is_it = it.step.unit == Unit::Bytes;
        is_it.then(|| (it.figures.bytes_per_second(), rate_text(it)))
    });
    let first = |it: &Measured| {
        let time = it.figures.quantile(50)?;
        Some((time.as_secs_f64(), duration_text(time)))
    };
    let latency = bars(report, first);
    for (title, bars) in [("Throughput", throughput), ("Median time", latency)] {
        // A chart that cannot be drawn leaves the table.
        if let Ok(svg) = chart(&bars) {
            write!(body, "<h2>{title}</h2>\n{svg}\n").ok();
        }
    }
    body.push_str("<h2>All figures</h2>\n<pre>");
    body.push_str(&escaped(&report.text()));
    body.push_str("</pre>\n");
    let title = escaped(&report.place);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>mount-s3 bench: {title}</title>\n\
         <style>body {{ font: 15px sans-serif; max-width: 860px; margin: 2em auto }} pre {{ overflow-x: auto }}</style>\n\
         </head><body>\n<h1>{title}</h1>\n{body}</body></html>\n"
    )
}

/// A bar: its label, its value, and the value's text.
type Bar = (String, f64, String);

fn bars(report: &Report, value: impl Fn(&Measured) -> Option<(f64, String)>) -> Vec<Bar> {
    let measured = report.measured.iter();
    let bars = measured.filter_map(|it| {
        let (value, text) = value(it)?;
        let (way, name) = (way_text(it.step.way), it.step.name);
        Some((format!("{way}: {name}, {}", it.step.at_once), value, text))
    });
    bars.collect()
}

/// Horizontal bars as SVG.
fn chart(bars: &[Bar]) -> Result<String, DrawingAreaErrorKind<std::io::Error>> {
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    let mut svg = String::new();
    let rows = i32::try_from(bars.len()).unwrap_or(i32::MAX / BAR_HEIGHT);
    let height = u32::try_from(rows * BAR_HEIGHT).unwrap_or(1).max(1);
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        area.fill(&WHITE)?;
        let font = ("sans-serif", FONT).into_font().color(&BLACK);
        for (row, (label, value, text)) in (0..rows).zip(bars) {
            let top = row * BAR_HEIGHT;
            let share = if most > 0.0 { value / most } else { 0.0 };
            let end = BAR_LEFT + bar_width(share);
            area.draw(&Text::new(label.clone(), (4, top + 6), font.clone()))?;
            let corners = [(BAR_LEFT, top + 3), (end, top + BAR_HEIGHT - 3)];
            area.draw(&Rectangle::new(corners, BAR_COLOUR.filled()))?;
            area.draw(&Text::new(text.clone(), (end + 6, top + 6), font.clone()))?;
        }
        area.present()?;
    }
    Ok(svg)
}

/// The width of a bar that is `share` of the longest, 0 to 1.
#[expect(clippy::cast_possible_truncation, reason = "at most BAR_WIDTH")]
fn bar_width(share: f64) -> i32 {
    (share.clamp(0.0, 1.0) * f64::from(BAR_WIDTH)) as i32
}

/// Text as HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

const WIDTH: u32 = 820;
const BAR_LEFT: i32 = 220;
const BAR_WIDTH: i32 = 480;
const BAR_HEIGHT: i32 = 26;
const FONT: i32 = 14;
const BAR_COLOUR: RGBColor = RGBColor(60, 110, 180);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::figures::{Figures, Step, Way};
    use super::*;

    #[test]
    fn a_page_has_bars_and_no_foreign_tags() {
        let mut figures = Figures {
            elapsed: Duration::from_secs(1),
            ..Figures::default()
        };
        figures.succeeded(5_000_000, Duration::from_millis(2));
        let step = Step {
            way: Way::Client,
            name: "read",
            at_once: 4,
            unit: Unit::Bytes,
        };
        let report = Report {
            place: "bucket <script>".to_owned(),
            measured: vec![Measured { step, figures }],
            ..Report::default()
        };
        let page = page(&report);
        assert!(!page.contains("<script>"), "{page}");
        for part in ["client: read, 4", "5.0 MB/s", "2.0 ms", "<rect", "</html>"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
