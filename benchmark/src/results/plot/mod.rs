//! Pictures of a run: for each group and figure a panel for each workload, with a bar for each
//! system.
//!
//! A bar is the median; the thin line on it goes from the least to the greatest round; the dashed
//! line is the lower limit of FUSE and client. Each panel has a scale of its own, from 0.

mod causes;
mod chart;
mod svg;

pub(crate) use causes::FILE as PROFILES_FILE;
pub(crate) use chart::Chart;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use super::summary::Row;
use crate::profile::Shares;

/// The figures for the pictures of a run.
#[derive(Debug)]
pub(crate) struct Figures<'a> {
    pub(crate) rows: &'a [Row],
    /// The rows whose profiles have enough samples.
    pub(crate) profiles: Vec<(&'a Row, &'a Shares)>,
    /// When, where and how, in one line.
    pub(crate) circumstances: String,
    /// The command line of the run, up to the name of the workload.
    pub(crate) command: &'a str,
}

impl Figures<'_> {
    /// Writes every chart of the run into `folder`, as SVG and, by the program `render`, as PNG.
    pub(crate) fn draw_all(&self, folder: &Path, render: Option<&Path>) -> Result<()> {
        let mut pictures = Vec::new();
        for chart in Chart::of(self.rows) {
            let path = folder.join(chart.file("svg"));
            fs::write(
                &path,
                chart.draw(self.rows, &self.circumstances, self.command)?,
            )
            .with_context(|| path.display().to_string())?;
            pictures.push(path);
        }
        if let Some(picture) = causes::draw(&self.profiles, &self.circumstances)? {
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
}
