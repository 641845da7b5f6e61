//! Helper commands that take every flag of a mount: what was given, and the command line of a mount
//! with it.

use std::ffi::OsString;

use clap::{ArgMatches, Command};

use super::HELPER_NAMES;

/// A flag on a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// The name with its dashes.
    pub name: String,
    /// `None` for a switch.
    pub value: Option<String>,
}

/// The arguments of `mount-s3` for a bucket, a directory and flags.
#[must_use]
pub fn mount_arguments(bucket: &str, directory: &str, flags: &[Flag]) -> Vec<OsString> {
    let flags = flags.iter().flat_map(|flag| {
        let value = flag.value.as_deref().map(OsString::from);
        std::iter::once(OsString::from(&flag.name)).chain(value)
    });
    [mountable(bucket).into(), directory.into()]
        .into_iter()
        .chain(flags)
        .collect()
}

/// The bucket as the mount takes it. The names of helper commands need a URI there.
fn mountable(bucket: &str) -> String {
    if HELPER_NAMES.contains(&bucket) {
        format!("s3://{bucket}")
    } else {
        bucket.to_owned()
    }
}

/// The mount's flags on the command line of `command`, with their values as typed. The command has
/// `own` flags besides.
#[must_use]
pub fn flags_given(command: &Command, matches: &ArgMatches, own: &[&str]) -> Vec<Flag> {
    let mut flags = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        let (Some(long), false) = (arg.get_long(), own.contains(&id)) else {
            continue;
        };
        // `--help` and `--version` never get here.
        let is_known = matches.try_contains_id(id).is_ok();
        let is_given =
            is_known && matches.value_source(id) == Some(clap::parser::ValueSource::CommandLine);
        if !is_given {
            continue;
        }
        let name = format!("--{long}");
        if arg.get_action().takes_values() {
            let values = matches.get_raw(id).into_iter().flatten();
            flags.extend(values.map(|value| Flag {
                name: name.clone(),
                value: Some(value.to_string_lossy().into_owned()),
            }));
        } else {
            flags.push(Flag { name, value: None });
        }
    }
    flags
}

/// The first value of an argument, as typed.
#[must_use]
pub fn text_given(matches: &ArgMatches, id: &str) -> Option<String> {
    let value = matches.get_raw(id)?.next()?;
    Some(value.to_string_lossy().into_owned())
}
