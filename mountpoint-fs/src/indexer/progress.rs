//! How far an index is, on a terminal.

use std::time::Duration;

use indicatif::{HumanCount, ProgressBar, ProgressState, ProgressStyle};

/// A line with the keys so far and their rate; hidden where standard error is no terminal.
#[derive(Debug)]
pub(super) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// Of an index that has begun.
    pub(super) fn begin() -> Self {
        let bar = ProgressBar::no_length();
        let rate = |state: &ProgressState, line: &mut dyn std::fmt::Write| {
            let rate = state.per_sec().round();
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a rate of keys is small and not negative"
            )]
            let rate = HumanCount(rate as u64);
            // A line that cannot be drawn is not drawn.
            write!(line, "{rate}").ok();
        };
        let style =
            ProgressStyle::with_template("{spinner} {human_pos} keys, {rate} keys/s, {elapsed}");
        bar.set_style(
            style
                .unwrap_or_else(|_| ProgressStyle::default_spinner())
                .with_key("rate", rate),
        );
        bar.enable_steady_tick(TICK);
        Self { bar }
    }

    /// So many more keys are in the index.
    pub(super) fn add(&self, keys: usize) {
        self.bar.inc(keys as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How often the line is drawn.
const TICK: Duration = Duration::from_millis(200);
