//! Findings on the terminal, as they come, or as one JSON document at the end.
//!
//! Standard output has the report. On a terminal, standard error shows the current check; elsewhere
//! each row is printed when it is complete, which is progress enough.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::error_text::without_given;
use super::finding::{Finding, Level};
use super::recommendation::Recommendation;
use crate::cli::Flag;
use crate::mount::safe_line;

/// The report so far.
#[derive(Debug)]
pub(super) struct Report {
    findings: Vec<Finding>,
    is_json: bool,
    /// The flags of the command line: advice names none of them.
    pub(super) given: Vec<Flag>,
    /// Hidden where standard error is no terminal.
    progress: ProgressBar,
}

/// The whole report, for machines.
#[derive(Debug, Serialize)]
struct Document<'a> {
    version: &'static str,
    /// Whether the recommended command would mount, as far as can be checked.
    mountable: bool,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    recommendation: Option<&'a Recommendation>,
}

impl Report {
    pub(super) fn new(is_json: bool) -> Self {
        let progress = if io::stderr().is_terminal() {
            let spinner = ProgressBar::new_spinner();
            if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} …") {
                spinner.set_style(style);
            }
            spinner.enable_steady_tick(TICK);
            spinner
        } else {
            ProgressBar::hidden()
        };
        Self {
            findings: Vec::new(),
            is_json,
            given: Vec::new(),
            progress,
        }
    }

    /// Shows the current check.
    pub(super) fn looking_at(&self, what: &str) {
        self.progress.set_message(what.to_owned());
    }

    pub(super) fn add(&mut self, mut finding: Finding) {
        let is_given = |name: &str| self.given.iter().any(|flag| flag.name == name);
        finding.advice = without_given(&finding.advice, is_given);
        if !self.is_json {
            let is_first = self
                .findings
                .last()
                .is_none_or(|last| last.area != finding.area);
            let mut text = String::new();
            if is_first {
                text.push_str(finding.area.into());
                text.push('\n');
            }
            text.push_str(&row(&finding));
            self.print(&text);
        }
        self.findings.push(finding);
    }

    pub(super) fn extend(&mut self, findings: Vec<Finding>) {
        for finding in findings {
            self.add(finding);
        }
    }

    /// Whether no finding prevents a mount.
    pub(super) fn is_mountable(&self) -> bool {
        self.findings
            .iter()
            .all(|finding| finding.level < Level::Error)
    }

    /// Ends the report. The exit code tells whether the bucket can be mounted.
    pub(super) fn finish(self, recommendation: Option<&Recommendation>) -> ExitCode {
        let is_mountable = self.is_mountable();
        let text = if self.is_json {
            let document = Document {
                version: env!("CARGO_PKG_VERSION"),
                mountable: is_mountable,
                findings: &self.findings,
                recommendation,
            };
            serde_json::to_string_pretty(&document).unwrap_or_else(|error| {
                // Strings and enums cannot fail to serialise.
                format!("{{\"error\": \"{error}\"}}")
            }) + "\n"
        } else {
            self.summary(recommendation)
        };
        self.print(&text);
        self.progress.finish_and_clear();
        if is_mountable {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    fn summary(&self, recommendation: Option<&Recommendation>) -> String {
        let count = |level: Level| {
            let of_level = self.findings.iter().filter(|f| f.level == level);
            of_level.count()
        };
        let (errors, warnings) = (count(Level::Error), count(Level::Warning));
        let mut text = format!("\nErrors: {errors}, warnings: {warnings}. ");
        text.push_str(match (recommendation.is_some(), errors) {
            (false, 0) => "This machine can mount buckets; name one to check it too.\n",
            (false, _) => "This machine cannot mount buckets before the errors are gone.\n",
            (true, 0) => "The bucket can be mounted with:\n",
            (true, _) => "When the errors are gone, mount the bucket with:\n",
        });
        if let Some(recommendation) = recommendation {
            text.push('\n');
            if !recommendation.prepare.is_empty() {
                text.push_str(&format!("  {}\n", recommendation.prepare));
            }
            text.push_str(&format!("  {}\n", recommendation.line()));
            for reason in &recommendation.reasons {
                text.push_str(&format!("  # {reason}\n"));
            }
        }
        text
    }

    fn print(&self, text: &str) {
        self.progress.suspend(|| {
            // A failure to print cannot be reported.
            io::stdout().write_all(text.as_bytes()).ok();
            io::stdout().flush().ok();
        });
    }
}

/// `  ok       memory              20 GiB free`, with the advice on a line of its own.
fn row(finding: &Finding) -> String {
    let mut text = format!(
        "  {:<8} {:<20} {}\n",
        <&str>::from(finding.level),
        finding.check,
        safe_line(&finding.found)
    );
    if !finding.advice.is_empty() {
        let advice = safe_line(&finding.advice);
        text.push_str(&format!("  {:<8} {:<20} -> {advice}\n", "", ""));
    }
    text
}

/// Ten updates a second look alive.
const TICK: Duration = Duration::from_millis(100);

#[cfg(test)]
mod tests {
    use super::super::finding::{Area, Check};
    use super::*;

    #[test]
    fn rows_and_summaries() {
        let warning = Check(Area::Memory, "memory").warning("little", "buy more");
        let lines: Vec<String> = row(&warning).lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0], "  warning  memory               little");
        assert!(lines[1].ends_with(" -> buy more"));
        let mut report = Report {
            findings: Vec::new(),
            given: Vec::new(),
            is_json: true,
            progress: ProgressBar::hidden(),
        };
        report.add(warning);
        assert!(report.is_mountable());
        let recommendation = Recommendation {
            prepare: "mkdir -p /mnt/b".to_owned(),
            command: vec!["mount-s3".to_owned(), "b".to_owned(), "/mnt/b c".to_owned()],
            reasons: vec!["--region: because".to_owned()],
        };
        let summary = report.summary(Some(&recommendation));
        for part in [
            "Errors: 0, warnings: 1. The bucket can be mounted",
            "\n  mkdir -p /mnt/b\n  mount-s3 b '/mnt/b c'\n  # --region: because\n",
        ] {
            assert!(summary.contains(part), "{summary}");
        }
        assert!(report.summary(None).contains("name one"));
        report.add(Check(Area::Bucket, "region").error("no", "yes"));
        assert!(!report.is_mountable());
        assert!(report.summary(None).contains("cannot mount"));
        assert!(
            report
                .summary(Some(&recommendation))
                .contains("When the errors are gone")
        );
    }
}
