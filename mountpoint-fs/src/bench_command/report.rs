//! The figures as text and as JSON. Pure.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use super::figures::{Measured, Unit, Way};
use super::verdict::Verdict;

/// Results of the command.
#[derive(Clone, Debug, Default)]
pub(super) struct Report {
    /// The bucket and its endpoint, for people.
    pub(super) place: String,
    pub(super) measured: Vec<Measured>,
    pub(super) verdict: Verdict,
    /// Figures that are missing and failures, a sentence each.
    pub(super) remarks: Vec<String>,
}

impl Report {
    /// Whether every step was measured without a failure.
    pub(super) fn is_complete(&self) -> bool {
        let without_failure = |it: &Measured| it.figures.failures == 0;
        self.measured.iter().all(without_failure) && !self.measured.is_empty()
    }

    /// A table, and what follows from it.
    pub(super) fn text(&self) -> String {
        let mut text = format!("{}\n\n", self.place);
        let header = ["through", "step", "at once", "rate", "p50", "p99", "CPU"];
        let mut rows = vec![header.map(str::to_owned)];
        rows.extend(self.measured.iter().map(row));
        let width = |column: usize| {
            let widths = rows.iter().map(|row| row[column].chars().count());
            widths.max().unwrap_or_default()
        };
        let widths: Vec<_> = (0..header.len()).map(width).collect();
        for row in &rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                // Words to the left, numbers to the right.
                match column {
                    0 | 1 => write!(line, "{cell:<width$}  ").ok(),
                    _ => write!(line, "{cell:>width$}  ").ok(),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if let Some(bound) = &self.verdict.bound {
            write!(text, "\nWhat bounds it: {bound}.\n").ok();
        }
        for advice in &self.verdict.advice {
            writeln!(text, "What would help: {advice}.").ok();
        }
        for remark in self.all_remarks() {
            writeln!(text, "Note: {remark}.").ok();
        }
        text
    }

    /// One object.
    pub(super) fn json(&self) -> Value {
        let steps: Vec<_> = self.measured.iter().map(step_json).collect();
        json!({
            "place": self.place,
            "steps": steps,
            "bound": self.verdict.bound,
            "advice": self.verdict.advice,
            "remarks": self.all_remarks(),
        })
    }

    /// The remarks, and a failure of each step that had one.
    pub(super) fn all_remarks(&self) -> Vec<String> {
        let failed = self.measured.iter().filter_map(|it| {
            let reason = it.figures.failure.as_ref()?;
            Some(format!(
                "{} of {} failed: {reason}",
                it.figures.failures, it.step.name
            ))
        });
        self.remarks.iter().cloned().chain(failed).collect()
    }
}

/// The way in words.
pub(super) fn way_text(way: Way) -> &'static str {
    match way {
        Way::Client => "client",
        Way::Mount => "mount",
    }
}

/// The rate of a step, in its unit.
pub(super) fn rate_text(it: &Measured) -> String {
    match it.step.unit {
        Unit::Bytes => format!("{:.1} MB/s", it.figures.bytes_per_second() / 1e6),
        Unit::Count(what) => format!("{:.0} {what}/s", it.figures.operations_per_second()),
        Unit::Latency => String::new(),
    }
}

fn row(it: &Measured) -> [String; 7] {
    let quantile = |quantile| it.figures.quantile(quantile).map(duration_text);
    let busy = it.figures.busy.map(|busy| format!("{:.0} %", busy * 100.0));
    [
        way_text(it.step.way).to_owned(),
        it.step.name.to_owned(),
        it.step.at_once.to_string(),
        rate_text(it),
        quantile(50).unwrap_or_default(),
        quantile(99).unwrap_or_default(),
        busy.unwrap_or_default(),
    ]
}

fn step_json(it: &Measured) -> Value {
    let micros = |quantile| {
        let time = it.figures.quantile(quantile);
        time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
    };
    json!({
        "through": way_text(it.step.way),
        "step": it.step.name,
        "at_once": it.step.at_once,
        "seconds": it.figures.elapsed.as_secs_f64(),
        "operations": it.figures.operations,
        "failures": it.figures.failures,
        "bytes": it.figures.bytes,
        "p50_us": micros(50),
        "p99_us": micros(99),
        "cpu_busy": it.figures.busy,
    })
}

/// A time with three digits or so.
pub(super) fn duration_text(time: Duration) -> String {
    let micros = time.as_micros();
    match micros {
        0..1_000 => format!("{micros} µs"),
        1_000..10_000 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        10_000..1_000_000 => format!("{:.0} ms", time.as_secs_f64() * 1e3),
        _ => format!("{:.1} s", time.as_secs_f64()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::{Figures, Step};
    use super::*;

    fn report() -> Report {
        let mut figures = Figures {
            elapsed: Duration::from_secs(2),
            busy: Some(0.5),
            ..Figures::default()
        };
        figures.succeeded(3_000_000, Duration::from_micros(1500));
        let step = |name, unit| Step {
            way: Way::Client,
            name,
            at_once: 16,
            unit,
        };
        let bytes = Measured {
            step: step("read", Unit::Bytes),
            figures: figures.clone(),
        };
        figures.failed("no answer".to_owned());
        let count = Measured {
            step: step("list", Unit::Count("keys")),
            figures,
        };
        Report {
            place: "bucket b at http://h".to_owned(),
            measured: vec![bytes, count],
            verdict: Verdict {
                bound: Some("the server".to_owned()),
                advice: vec!["more".to_owned()],
            },
            remarks: vec!["no mount was measured".to_owned()],
        }
    }

    #[test]
    fn texts() {
        let text = report().text();
        for part in [
            "bucket b at http://h\n",
            "client   read       16  1.5 MB/s  1.5 ms  1.5 ms  50 %\n",
            "0 keys/s",
            "What bounds it: the server.",
            "What would help: more.",
            "Note: no mount was measured.",
            "Note: 1 of list failed: no answer.",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        let json = report().json();
        assert_eq!(json["steps"][0]["bytes"], 3_000_000);
        assert_eq!(json["steps"][1]["failures"], 1);
        assert!(!report().is_complete());
        assert!(!Report::default().is_complete());
    }

    #[test]
    fn times() {
        for (micros, text) in [
            (7, "7 µs"),
            (1_250, "1.2 ms"),
            (45_400, "45 ms"),
            (2_000_000, "2.0 s"),
        ] {
            assert_eq!(duration_text(Duration::from_micros(micros)), text);
        }
    }
}
