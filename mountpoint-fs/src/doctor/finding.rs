//! One row of the report.

use serde::Serialize;

/// What a check was about; rows of one area stand together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Area {
    /// The command line and the environment.
    Flags,
    /// The kernel, FUSE, and who may mount.
    Kernel,
    /// Where to mount.
    Directory,
    /// What the process may use.
    Limits,
    /// Memory of the machine and the control group.
    Memory,
    /// Interfaces of this machine.
    Network,
    /// Who asks.
    Credentials,
    /// The bucket, and what may be done with it.
    Bucket,
    /// What the server can do.
    Server,
}

impl Area {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Flags => "flags",
            Self::Kernel => "kernel",
            Self::Directory => "directory",
            Self::Limits => "limits",
            Self::Memory => "memory",
            Self::Network => "network",
            Self::Credentials => "credentials",
            Self::Bucket => "bucket",
            Self::Server => "server",
        }
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Level {
    /// Nothing to do.
    Ok,
    /// The mount works, less well than it could; or needs the recommended flags.
    Warning,
    /// The bucket cannot be mounted.
    Error,
}

impl Level {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What one check found, and what to do about it. Each text is one line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    pub(super) area: Area,
    pub(super) check: &'static str,
    pub(super) level: Level,
    pub(super) found: String,
    /// Empty where there is nothing to do.
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

/// Texts of servers and files may hold anything; a row holds one bounded line.
fn one_line(text: &str) -> String {
    let line = text.chars().take(TEXT_CHARS_MAX);
    let line: String = line.map(|c| if c.is_control() { ' ' } else { c }).collect();
    line.trim().to_owned()
}

/// Longer texts are no help.
const TEXT_CHARS_MAX: usize = 600;

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Checks one of the findings: its level, and what the row says.
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
