//! One row of the report.

use serde::Serialize;

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

impl Finding {
    pub(super) fn ok(area: Area, check: &'static str, found: impl Into<String>) -> Self {
        Self::new(area, check, Level::Ok, found, "")
    }

    pub(super) fn warning(
        area: Area,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(area, check, Level::Warning, found, advice)
    }

    pub(super) fn error(
        area: Area,
        check: &'static str,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self::new(area, check, Level::Error, found, advice)
    }

    pub(super) fn new(
        area: Area,
        check: &'static str,
        level: Level,
        found: impl Into<String>,
        advice: impl Into<String>,
    ) -> Self {
        Self {
            area,
            check,
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
        let finding = Finding::warning(
            Area::Bucket,
            "x",
            "a\nb\u{1b}[31m ",
            "c".repeat(TEXT_CHARS_MAX + 1),
        );
        assert_eq!(finding.found, "a b [31m");
        assert_eq!(finding.advice.len(), TEXT_CHARS_MAX);
    }
}
