//! `mount-s3 staged` from its arguments to its exit code.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;

use super::arguments::{ExportArguments, StagedArguments, StagedPlace, StagedTask};
use super::base::BaseBytes;
use super::report::{Done, Status, VersionRow, print};
use crate::mount::safe_line;
use crate::staging::kept::{DirectoryState, KeptPlace, KeptVersion, KeptVersions, export};

/// Runs `mount-s3 staged` with the arguments after that word.
///
/// The exit code is 0 if it was done, 1 if not or if a version is damaged, 2 for a wrong command
/// line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = match StagedArguments::of(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A failure to print cannot be reported.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match work(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(reason) => {
            tell(&reason);
            ExitCode::FAILURE
        }
    }
}

fn tell(reason: &str) {
    let text = format!("mount-s3 staged: {reason}");
    writeln!(io::stderr(), "{}", safe_line(&text)).ok();
}

/// Does what is asked. Returns whether nothing was wrong.
fn work(arguments: &StagedArguments) -> Result<bool, String> {
    let place = arguments.place();
    let versions = KeptVersions::open(&place.directory).map_err(|error| error.to_string())?;
    let done = match (&arguments.task, versions) {
        (StagedTask::List(_), None) => Ok(true),
        (StagedTask::List(_), Some(versions)) => list(&versions, place)?,
        (StagedTask::Status(_), versions) => status(versions.as_ref(), place)?,
        (_, None) => {
            let directory = place.directory.display();
            return Err(format!("there is no staging directory in {directory}"));
        }
        (StagedTask::Discard { ids, all, .. }, Some(versions)) => {
            discard(&versions, ids, *all, place)?
        }
        (StagedTask::Export(arguments), Some(versions)) => write_file(&versions, arguments)?,
    };
    match done {
        // The reader of the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        done => done.map_err(|error| error.to_string()),
    }
}

type Printed = io::Result<bool>;

/// Shows the versions. One that is damaged is named, and the others are shown.
fn list(versions: &KeptVersions, place: &StagedPlace) -> Result<Printed, String> {
    let mut is_right = true;
    for id in versions.ids().map_err(|error| error.to_string())? {
        match versions.find(&id) {
            Ok(None) => {}
            Ok(Some(version)) => {
                let row = VersionRow::new(version);
                if let Err(error) = print(&row, &row.lines(), place.json) {
                    return Ok(Err(error));
                }
            }
            Err(error) => {
                is_right = false;
                tell(&format!("{id}: {error}"));
            }
        }
    }
    Ok(Ok(is_right))
}

fn status(versions: Option<&KeptVersions>, place: &StagedPlace) -> Result<Printed, String> {
    let mut state = DirectoryState::default();
    let (mut count, mut bytes) = (0, 0);
    if let Some(versions) = versions {
        state = versions.state().map_err(|error| error.to_string())?;
        for id in versions.ids().map_err(|error| error.to_string())? {
            count += 1;
            // `list` names a damaged one.
            bytes += versions.find(&id).ok().flatten().map_or(0, |it| it.bytes);
        }
    }
    let status = Status::new(state, count, bytes);
    Ok(print(&status, &status.lines(), place.json).map(|()| true))
}

fn discard(
    versions: &KeptVersions,
    ids: &[String],
    all: bool,
    place: &StagedPlace,
) -> Result<Printed, String> {
    let known = versions.ids().map_err(|error| error.to_string())?;
    let ids = if all { known.clone() } else { ids.to_vec() };
    if let Some(unknown) = ids.iter().find(|id| !known.contains(id)) {
        return Err(no_version(unknown));
    }
    for id in &ids {
        let discarded = versions.discard(id);
        discarded.map_err(|error| format!("{id}: {error}"))?;
    }
    let lines: Vec<_> = ids.iter().map(|id| format!("discarded {id}")).collect();
    let done = Done { ids, missing: 0 };
    Ok(print(&done, &lines, place.json).map(|()| true))
}

/// Writes a version to the file.
fn write_file(versions: &KeptVersions, arguments: &ExportArguments) -> Result<Printed, String> {
    let id = &arguments.id;
    let found = versions
        .find(id)
        .map_err(|error| format!("{id}: {error}"))?;
    let version = found.ok_or_else(|| no_version(id))?;
    let missing = version.description.bytes_in(&[KeptPlace::Base]);
    let base = match missing > 0 && !arguments.local_only {
        true => Some(BaseBytes::connect(arguments, &version.description)?),
        false => None,
    };
    let path = arguments.file.display();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let target = options.open(&arguments.file);
    let target = target.map_err(|error| format!("{path}: {error}"))?;
    if let Err(error) = fill(versions, &version, &target, base.as_ref()) {
        // Part of a version is not one.
        std::fs::remove_file(&arguments.file).ok();
        return Err(format!("{id}: {error}"));
    }
    let missing = if base.is_some() { 0 } else { missing };
    let mut lines = vec![format!(
        "wrote {} bytes to {path}",
        version.description.size
    )];
    if missing > 0 {
        lines.push(format!(
            "{missing} bytes of them are zeros: they were never fetched from the bucket"
        ));
    }
    let ids = vec![version.id];
    let done = Done { ids, missing };
    Ok(print(&done, &lines, arguments.place.json).map(|()| true))
}

fn fill(
    versions: &KeptVersions,
    version: &KeptVersion,
    target: &std::fs::File,
    base: Option<&BaseBytes>,
) -> Result<(), String> {
    match base {
        Some(base) => {
            let mut fetch = |range: Range<u64>| base.fetch(&range);
            export(versions, version, target, Some(&mut fetch))
        }
        None => export(versions, version, target, None),
    }
}

fn no_version(id: &str) -> String {
    format!("there is no version {id}: `mount-s3 staged list` shows them")
}
