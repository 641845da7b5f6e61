//! One row of the report.

use mountpoint_client::ClientError;
use serde::Serialize;

use super::error_text;

/// The area of a check; rows of one area stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Area {
    /// The command line and the environment.
    Flags,
    /// The kernel, FUSE, and the permission to mount.
    Kernel,
    /// The mount point.
    Directory,
    /// Limits of the process.
    Limits,
    /// Memory of the machine and the control group.
    Memory,
    /// Interfaces of this machine.
    Network,
    /// The credentials.
    Credentials,
    /// The bucket and its permissions.
    Bucket,
    /// Features of the server.
    Server,
}

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub(super) enum Level {
    /// Nothing to do.
    Ok,
    /// The mount works below its potential, or needs the recommended flags.
    Warning,
    /// The bucket cannot be mounted.
    Error,
}

/// The finding of one check, and its remedy. Each text is one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) area: Area,
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// The remedy; empty where none is needed.
    pub(super) advice: String,
}

/// A check: its area, and its name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check(pub(super) Area, pub(super) &'static str);

impl Check {
    pub(super) fn ok(self, found: impl Into<String>) -> Finding {
        self.finding(Level::Ok, found, "")
    }

    pub(super) fn warning(self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.finding(Level::Warning, found, advice)
    }

    pub(super) fn error(self, found: impl Into<String>, advice: impl Into<String>) -> Finding {
        self.finding(Level::Error, found, advice)
    }

    /// A failed request; a mount does without.
    pub(super) fn lacks(self, error: &ClientError) -> Finding {
        self.warning(error_text::what(error), error_text::advice(error))
    }

    /// A failed request that a mount needs.
    pub(super) fn failed(self, error: &ClientError) -> Finding {
        self.error(error_text::what(error), error_text::advice(error))
    }

    pub(super) fn finding(
        self,
        level: Level,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Finding {
        Finding {
            area: self.0,
            check: self.1,
            level,
            found: one_line(&found.into()),
            advice: one_line(&advice.into()),
        }
    }
}

/// Cuts a text to one bounded line: texts of servers and files may contain anything.
fn one_line(text: &str) -> String {
    let line = text.chars().take(TEXT_CHARS_MAX);
    let line: String = line.map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// Bound of a text: longer ones are no help.
const TEXT_CHARS_MAX: usize = 600;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks the level and the text of one of the findings.
    #[track_caller]
    pub(in crate::doctor) fn expect(findings: &[Finding], check: &str, level: Level, text: &str) {
        let finding = findings.iter().find(|finding| finding.check == check);
        let finding = finding.unwrap_or_else(|| panic!("no row {check:?} in {findings:?}"));
        let row = format!("{} -> {}", finding.found, finding.advice);
        assert_eq!(finding.level, level, "{check}: {row}");
        assert!(row.contains(text), "{check}: {row:?} lacks {text:?}");
        let has_advice = !finding.advice.is_empty();
        assert!(level == Level::Ok || has_advice, "{check} says what to do");
    }

    #[test]
    fn a_row_is_one_bounded_line() {
        let advice = "c".repeat(TEXT_CHARS_MAX + 1);
        let finding = Check(Area::Bucket, "x").warning("a\nb\u{1b}[31m ", advice);
        assert_eq!(finding.found, "a b [31m");
        assert_eq!(finding.advice.len(), TEXT_CHARS_MAX);
    }
}
