//! A picture as SVG text, from rectangles, lines and words. Pure.

use anyhow::{Result, anyhow};
use plotters::backend::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, IntoFont, RGBColor, ShapeStyle, TextStyle};

/// A picture that grows shape by shape; later ones lie above earlier ones.
pub(super) struct Picture<'a>(SVGBackend<'a>);

/// Where a text begins, or ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum Anchor {
    Start,
    End,
}

/// How a text looks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) size: f64,
    pub(super) colour: RGBColor,
    pub(super) bold: bool,
    pub(super) anchor: Anchor,
}

/// Words that begin at their place, not bold.
pub(super) fn words(size: f64, colour: RGBColor) -> Style {
    Style {
        size,
        colour,
        bold: false,
        anchor: Anchor::Start,
    }
}

pub(super) const DARK: RGBColor = RGBColor(34, 34, 34);
pub(super) const GREY: RGBColor = RGBColor(102, 102, 102);
pub(super) const WHITE: RGBColor = RGBColor(255, 255, 255);

/// In units of the picture, from its upper left corner.
pub(super) type Point = (f64, f64);

impl<'a> Picture<'a> {
    /// A white picture that is written into `text`.
    pub(super) fn new(text: &'a mut String, width: f64, height: f64) -> Result<Self> {
        let (right, bottom) = rounded((width, height));
        let size = (u32::try_from(right)?, u32::try_from(bottom)?);
        let mut picture = Self(SVGBackend::with_string(text, size));
        picture.rectangle((0.0, 0.0), (width, height), plotters::style::WHITE)?;
        Ok(picture)
    }

    pub(super) fn rectangle(&mut self, from: Point, size: Point, colour: RGBColor) -> Result<()> {
        let to = (from.0 + size.0, from.1 + size.1);
        let style = ShapeStyle::from(colour).filled();
        let drawn = self.0.draw_rect(rounded(from), rounded(to), &style, true);
        drawn.map_err(failed)
    }

    pub(super) fn line(&mut self, from: Point, to: Point, colour: RGBColor) -> Result<()> {
        let style = ShapeStyle::from(colour);
        let drawn = self.0.draw_line(rounded(from), rounded(to), &style);
        drawn.map_err(failed)
    }

    /// A vertical line in strokes.
    pub(super) fn dashes(&mut self, x: f64, (top, bottom): Point, colour: RGBColor) -> Result<()> {
        let mut y = top;
        while y < bottom {
            self.line((x, y), (x, (y + DASH).min(bottom)), colour)?;
            y += DASH + DASH_GAP;
        }
        Ok(())
    }

    /// Words whose middle is at the height of `at`.
    pub(super) fn text(&mut self, at: Point, text: &str, style: Style) -> Result<()> {
        let weight = if style.bold {
            FontStyle::Bold
        } else {
            FontStyle::Normal
        };
        let horizontal = match style.anchor {
            Anchor::Start => HPos::Left,
            Anchor::End => HPos::Right,
        };
        let font = ("sans-serif", style.size, weight).into_font();
        let style = TextStyle::from(font).color(&style.colour);
        let style = style.pos(Pos::new(horizontal, VPos::Center));
        self.0.draw_text(text, &style, rounded(at)).map_err(failed)
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.0.present().map_err(failed)
    }
}

const DASH: f64 = 4.0;
const DASH_GAP: f64 = 3.0;

fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("the picture cannot be drawn: {error}")
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "places in a picture are far below 2^31"
)]
fn rounded((x, y): Point) -> (i32, i32) {
    (x.round() as i32, y.round() as i32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_cannot_end_their_element() {
        let mut text = String::new();
        let mut picture = Picture::new(&mut text, 10.0, 10.0).unwrap();
        let style = Style {
            size: 10.0,
            colour: plotters::style::BLACK,
            bold: false,
            anchor: Anchor::Start,
        };
        picture.text((0.0, 0.0), "a <b> & \"c\"", style).unwrap();
        picture.finish().unwrap();
        assert!(text.contains("a &lt;b&gt; &amp; &quot;c&quot;"), "{text}");
    }
}
