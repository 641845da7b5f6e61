//! A picture of profiles: for each workload and system one bar, cut into the causes of its CPU
//! time.

use anyhow::Result;
use plotters::style::RGBColor;

use super::svg::{DARK, GREY, Picture, WHITE, words};
use crate::profile::{Cause, Shares};
use crate::results::summary::Row;

/// Its name in a folder of results.
pub(crate) const FILE: &str = "profiles.svg";

const MARGIN: f64 = 24.0;
const NAMES: f64 = 220.0;
const BARS: f64 = 760.0;
const BAR: f64 = 18.0;
const HEAD: f64 = 100.0;
/// Width of the causes' names above the bars.
const LEGEND_WIDTH: f64 = 140.0;
const LEGEND_COLUMNS: usize = 7;
/// A part that is narrower has no room for its number.
const NUMBER_MIN: f64 = 24.0;

/// The picture as SVG; `None` if nothing was profiled.
pub(super) fn draw(profiled: &[(&Row, &Shares)], circumstances: &str) -> Result<Option<String>> {
    if profiled.is_empty() {
        return Ok(None);
    }
    let (width, height) = (
        2.0 * MARGIN + NAMES + BARS,
        HEAD + BAR * profiled.len() as f64 + MARGIN,
    );
    let mut text = String::new();
    let mut picture = Picture::new(&mut text, width, height)?;
    picture.text(
        (MARGIN, 22.0),
        "What the mount's CPU time goes into, in %",
        words(17.0, DARK),
    )?;
    picture.text((MARGIN, 43.0), circumstances, words(12.0, GREY))?;
    for (index, cause) in Cause::ALL.into_iter().enumerate() {
        let x = MARGIN + LEGEND_WIDTH * (index % LEGEND_COLUMNS) as f64;
        let y = 56.0 + 18.0 * (index / LEGEND_COLUMNS) as f64;
        picture.rectangle((x, y), (12.0, 12.0), colour(cause))?;
        picture.text((x + 17.0, y + 6.0), cause.name(), words(13.0, DARK))?;
    }
    for (index, (row, shares)) in profiled.iter().enumerate() {
        let y = HEAD + BAR * index as f64;
        let middle = y + (BAR - 3.0) / 2.0;
        let name = format!("{} {}", row.workload, row.mark());
        picture.text((MARGIN, middle), name.trim(), words(12.0, DARK))?;
        let mut x = MARGIN + NAMES;
        for cause in Cause::ALL {
            let part = shares.of_cause(cause) * BARS;
            picture.rectangle((x, y), (part, BAR - 3.0), colour(cause))?;
            if part >= NUMBER_MIN {
                let number = format!("{:.0}", shares.of_cause(cause) * 100.0);
                picture.text((x + 3.0, middle), &number, words(11.0, on(colour(cause))))?;
            }
            x += part;
        }
    }
    picture.finish()?;
    Ok(Some(text))
}

/// FUSE is blue, the network orange, the rest of the kernel grey; causes outside the kernel have
/// the other colours.
fn colour(cause: Cause) -> RGBColor {
    match cause {
        Cause::Reply => RGBColor(0, 90, 150),
        Cause::Take => RGBColor(86, 180, 233),
        Cause::Receive => RGBColor(213, 94, 0),
        Cause::Send => RGBColor(240, 180, 90),
        Cause::Sleep => RGBColor(120, 120, 120),
        Cause::Memory => RGBColor(240, 228, 66),
        Cause::Kernel => RGBColor(200, 200, 200),
        Cause::Copy => RGBColor(150, 0, 60),
        Cause::Digest => RGBColor(204, 121, 167),
        Cause::Allocate => RGBColor(110, 60, 150),
        Cause::Crt => RGBColor(0, 158, 115),
        Cause::Library => RGBColor(150, 210, 180),
        Cause::Own => RGBColor(40, 40, 40),
    }
}

/// A text colour that can be read on `colour`.
fn on(RGBColor(red, green, blue): RGBColor) -> RGBColor {
    let light = u32::from(red) * 3 + u32::from(green) * 6 + u32::from(blue);
    if light > 1300 { DARK } else { WHITE }
}
