//! The recommended mount command and its reasons. Pure.

use std::path::Path;

use serde::Serialize;

use crate::cli::{Flag, mount_arguments};

/// A flag that the given ones lack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) flag: Flag,
    pub(super) reason: String,
}

impl Change {
    pub(super) fn switch(name: &str, reason: impl Into<String>) -> Self {
        let flag = Flag {
            name: name.to_owned(),
            value: None,
        };
        Self {
            flag,
            reason: reason.into(),
        }
    }

    pub(super) fn value(name: &str, value: impl ToString, reason: impl Into<String>) -> Self {
        let flag = Flag {
            name: name.to_owned(),
            value: Some(value.to_string()),
        };
        Self {
            flag,
            reason: reason.into(),
        }
    }
}

/// The recommended command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Recommendation {
    /// Commands before the mount, as for a shell; empty if there are none.
    pub(super) prepare: String,
    /// Program and arguments.
    pub(super) command: Vec<String>,
    /// One reason for each flag that was not given.
    pub(super) reasons: Vec<String>,
}

impl Recommendation {
    /// The given flags, with the changes that the checks ask for.
    pub(super) fn new(
        bucket: &str,
        mount_point: &MountPoint<'_>,
        given: &[Flag],
        changes: &[Change],
    ) -> Self {
        let mut flags: Vec<Flag> = given
            .iter()
            .filter(|flag| changes.iter().all(|change| change.flag.name != flag.name))
            .cloned()
            .collect();
        flags.extend(changes.iter().map(|change| change.flag.clone()));
        let arguments = mount_arguments(bucket, mount_point.directory, &flags);
        let arguments = arguments
            .iter()
            .map(|argument| argument.to_string_lossy().into_owned());
        let prepare = if mount_point.is_missing {
            format!("mkdir -p {}", quoted(mount_point.directory))
        } else {
            String::new()
        };
        Self {
            prepare,
            command: std::iter::once("mount-s3".to_owned())
                .chain(arguments)
                .collect(),
            reasons: changes
                .iter()
                .map(|change| format!("{}: {}", change.flag.name, change.reason))
                .collect(),
        }
    }

    /// The command as it is typed into a shell.
    pub(super) fn line(&self) -> String {
        let quoted: Vec<String> = self.command.iter().map(|word| quoted(word)).collect();
        quoted.join(" ")
    }
}

/// The mount point.
#[derive(Clone, Copy, Debug)]
pub(super) struct MountPoint<'a> {
    pub(super) directory: &'a str,
    pub(super) is_missing: bool,
}

/// A directory to recommend where none was given.
///
/// The directory is in `home`, where a user may make one; `None` for root.
pub(super) fn directory_for(bucket: &str, home: Option<&Path>) -> String {
    let name = bucket
        .rsplit([':', '/'])
        .find(|part| !part.is_empty())
        .unwrap_or("bucket");
    let parent = home.unwrap_or_else(|| Path::new("/mnt"));
    parent.join(name).display().to_string()
}

/// A word quoted for a shell.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty()
        && word
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=@,+%".contains(&byte));
    if is_plain {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flag(name: &str, value: Option<&str>) -> Flag {
        Flag {
            name: name.to_owned(),
            value: value.map(str::to_owned),
        }
    }

    #[track_caller]
    fn check(given: &[Flag], changes: &[Change], expected: &str) {
        let mount_point = MountPoint {
            directory: "/mnt/x",
            is_missing: false,
        };
        let recommendation = Recommendation::new("b", &mount_point, given, changes);
        assert_eq!(recommendation.line(), expected);
        assert_eq!(recommendation.reasons.len(), changes.len());
        assert_eq!(recommendation.prepare, "");
    }

    #[test]
    fn flags_that_are_given_stay_and_changes_win() {
        check(&[], &[], "mount-s3 b /mnt/x");
        let given = [
            flag("--region", Some("us-east-1")),
            flag("--foreground", None),
        ];
        check(
            &given,
            &[],
            "mount-s3 b /mnt/x --region us-east-1 --foreground",
        );
        let region = Change::value("--region", "eu-west-1", "it is there");
        check(
            &given,
            &[region],
            "mount-s3 b /mnt/x --foreground --region eu-west-1",
        );
        let style = Change::switch("--force-path-style", "needed");
        check(&[], &[style], "mount-s3 b /mnt/x --force-path-style");
        let odd = [flag("--profile", Some("it's mine"))];
        check(&odd, &[], r"mount-s3 b /mnt/x --profile 'it'\''s mine'");
    }

    #[test]
    fn directories() {
        for (bucket, home, expected) in [
            ("b", None, "/mnt/b"),
            ("b", Some("/home/u"), "/home/u/b"),
            ("s3://b/a/", None, "/mnt/a"),
            ("s3://b", None, "/mnt/b"),
            ("arn:aws:s3:us-east-1:1:accesspoint/team", None, "/mnt/team"),
            ("", None, "/mnt/bucket"),
        ] {
            assert_eq!(directory_for(bucket, home.map(Path::new)), expected);
        }
        let mount_point = MountPoint {
            directory: "/mnt/a b",
            is_missing: true,
        };
        let recommendation = Recommendation::new("doctor", &mount_point, &[], &[]);
        assert_eq!(recommendation.prepare, "mkdir -p '/mnt/a b'");
        assert_eq!(recommendation.line(), "mount-s3 s3://doctor '/mnt/a b'");
    }
}
