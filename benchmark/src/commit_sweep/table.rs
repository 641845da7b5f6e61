//! The medians of all rounds as a table.

use std::io::{self, Write as _};
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::types::{Figures, Load, Sample, Way};

/// Fewer writers say little about a budget: it is tuned for those.
const TUNED_FROM: usize = 8;

/// Prints the table, and which budget it compares with.
pub(super) fn print(samples: &[Sample], budgets: &[u64]) -> Result<()> {
    let mut loads: Vec<Load> = Vec::new();
    for sample in samples {
        if !loads.contains(&sample.load) {
            loads.push(sample.load);
        }
    }
    let timed = budgets.iter().copied().filter(|budget| *budget > 0);
    let best = best_budget(samples, &loads, timed).context("no fixed budget was measured")?;
    let mut out = io::stdout().lock();
    writeln!(out, "Best fixed budget: {best} us\n")?;
    writeln!(
        out,
        "| writers x bytes | adaptive /s | p50, p99 | fixed /s | p50, p99 | each /s | p50, p99 | to fixed | to each | to no pause |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for load in &loads {
        let of = |way| median(samples, way, *load);
        let (adaptive, fixed) = (of(Way::Adaptive), of(Way::Fixed(best)));
        let (each, at_once) = (of(Way::Each), of(Way::Fixed(0)));
        let (Some(adaptive), Some(fixed), Some(each)) = (adaptive, fixed, each) else {
            continue;
        };
        let no_pause = at_once.map(|it| format!("{:.2}", adaptive.per_second / it.per_second));
        writeln!(
            out,
            "| {} x {} | {} | {} | {} | {:.2} | {:.2} | {} |",
            load.writers,
            load.bytes,
            cells(&adaptive),
            cells(&fixed),
            cells(&each),
            adaptive.per_second / fixed.per_second,
            adaptive.per_second / each.per_second,
            no_pause.unwrap_or_default(),
        )?;
    }
    Ok(())
}

fn cells(figures: &Figures) -> String {
    let ms = |it: Duration| it.as_secs_f64() * 1e3;
    let (p50, p99) = (ms(figures.p50), ms(figures.p99));
    format!("{:.0} | {p50:.2}, {p99:.2} ms", figures.per_second)
}

/// The budget with the largest product of commits over all loads.
fn best_budget(
    samples: &[Sample],
    loads: &[Load],
    budgets: impl Iterator<Item = u64>,
) -> Option<u64> {
    let score = |budget: u64| -> f64 {
        let tuned = loads.iter().filter(|load| load.writers >= TUNED_FROM);
        let found = tuned.filter_map(|load| median(samples, Way::Fixed(budget), *load));
        found.map(|figures| figures.per_second.ln()).sum()
    };
    budgets.max_by(|a, b| score(*a).total_cmp(&score(*b)))
}

/// The round whose throughput is in the middle.
fn median(samples: &[Sample], way: Way, load: Load) -> Option<Figures> {
    let rounds = samples.iter().filter(|it| it.way == way && it.load == load);
    let mut rounds: Vec<Figures> = rounds.map(|sample| sample.figures).collect();
    rounds.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    rounds.get(rounds.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(way: Way, writers: usize, per_second: f64) -> Sample {
        let load = Load { writers, bytes: 1 };
        let (p50, p99) = (Duration::ZERO, Duration::ZERO);
        let figures = Figures {
            per_second,
            p50,
            p99,
        };
        Sample { way, load, figures }
    }

    #[test]
    fn the_budget_is_tuned_for_many_writers_by_medians() {
        let mut samples = vec![
            sample(Way::Fixed(10), 2, 900.0),
            sample(Way::Fixed(20), 2, 1.0),
        ];
        for (budget, rounds) in [(10, [1.0, 2.0, 99.0]), (20, [3.0, 3.0, 3.0])] {
            samples.extend(rounds.map(|it| sample(Way::Fixed(budget), 8, it)));
        }
        let loads = [samples[0].load, samples[2].load];
        assert_eq!(
            best_budget(&samples, &loads, [10, 20].into_iter()),
            Some(20)
        );
    }
}
