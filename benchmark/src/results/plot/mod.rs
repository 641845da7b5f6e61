//! Pictures of a run: for each group and figure a panel for each workload, with a bar for each system.
//!
//! A bar is the median; the thin line on it goes from the least to the greatest round; the dashed line is the lower
//! limit of FUSE and client. Each panel has a scale of its own, from 0.

mod causes;
mod chart;
mod svg;

pub(crate) use causes::FILE as PROFILES_FILE;
pub(crate) use chart::Chart;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::report::Report;

/// Writes every chart of the run into `folder`, as SVG and, by the program `render`, as PNG.
pub(crate) fn draw_all(report: &Report, folder: &Path, render: Option<&Path>) -> Result<()> {
    let mut pictures = Vec::new();
    for chart in Chart::of(&report.rows) {
        let path = folder.join(chart.file("svg"));
        fs::write(&path, chart.draw(report)?).with_context(|| path.display().to_string())?;
        pictures.push(path);
    }
    if let Some(picture) = causes::draw(report)? {
        let path = folder.join(PROFILES_FILE);
        fs::write(&path, picture).with_context(|| path.display().to_string())?;
        pictures.push(path);
    }
    let Some(render) = render else {
        return Ok(());
    };
    let status = Command::new(render).args(&pictures).status();
    let status = status.with_context(|| format!("cannot start {}", render.display()))?;
    ensure!(status.success(), "{} ended with {status}", render.display());
    Ok(())
}
