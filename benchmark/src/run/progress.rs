//! How far the run is, on the terminal; lines of results go above it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::say;
use crate::system::catalog::System;
use crate::workload::Workload;

/// A bar; nothing where there is no terminal.
#[derive(Debug)]
pub(crate) struct Progress(ProgressBar);

const TICK: Duration = Duration::from_millis(250);

impl Progress {
    /// For all rounds of all workloads of all systems.
    pub(crate) fn new(workloads: &[Workload], systems: &[System], rounds: u32) -> Self {
        let pairs = workloads.iter().flat_map(|workload| {
            let takes = systems.iter().filter(|system| system.takes(workload));
            takes.map(move |system| (workload, system))
        });
        let steps = pairs.count() as u64 * u64::from(rounds);
        let bar = ProgressBar::new(steps);
        let template = "{bar:30} {pos}/{len}  {elapsed} of about {duration}  {msg}";
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(TICK);
        Self(bar)
    }

    pub(crate) fn begin(&self, title: &str) {
        self.0.set_message(title.to_owned());
    }

    pub(crate) fn end(&self) {
        self.0.inc(1);
    }

    /// A line above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.0.suspend(|| say(line));
    }

    pub(crate) fn finish(&self) {
        self.0.finish_and_clear();
    }
}
