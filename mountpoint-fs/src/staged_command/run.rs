//! `mount-s3 staged` from its arguments to its exit code.

use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io;
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::ExitCode;
use std::time::Duration;

use super::answer_wait::AnswerWait;
use super::arguments::{ExportArguments, StagedArguments, StagedPlace, StagedTask};
use super::base::BaseBytes;
use super::flush::flush;
use super::report::{Done, Printed, Status, VersionRow, tell};
use crate::file::control::ControlRequest;
use crate::file::directory::find_bucket;
use crate::file::kept::{
    Description, KeptPlace, KeptVersion, KeptVersions, LocalRead, export, read_files,
};
use crate::file::pending::{Pending, PendingVersion, PendingVersions, find_pending};
use crate::mount::{parse_helper, print, run_helper};

/// Runs `mount-s3 staged` with the arguments after that word.
///
/// The exit code is 0 if it was done, 1 if not or if a version is damaged, 2 for a wrong command
/// line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    run_helper("staged", parse_helper(arguments), work)
}

/// Does what is asked. Returns whether nothing was wrong.
fn work(arguments: &StagedArguments) -> Result<bool, String> {
    let place = arguments.place();
    let versions = KeptVersions::open(&place.directory)?;
    // Not "nothing is pending": the mount's own directory is easily named instead.
    let versions = versions.ok_or_else(|| {
        let directory = place.directory.display();
        format!(
            "there is no staging directory in {directory}: name the directory that --staging names, not the mount"
        )
    })?;
    let done = match &arguments.task {
        StagedTask::List(_) => list(&versions, place)?,
        StagedTask::Status(_) => status(&versions, place)?,
        StagedTask::Flush { timeout, .. } => {
            flush(&versions, place, timeout.map(Duration::from_secs))?
        }
        StagedTask::Discard { ids, all, .. } => discard(&versions, ids, *all, place)?,
        StagedTask::Export(arguments) => write_file(&versions, arguments)?,
    };
    match done {
        // The reader of the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        done => done.map_err(|error| error.to_string()),
    }
}

/// Shows the versions. One that is damaged is named, and the others are shown.
fn list(versions: &KeptVersions, place: &StagedPlace) -> Result<Printed, String> {
    let (mut rows, mut wrong) = (Vec::new(), Vec::new());
    for id in versions.ids()? {
        match versions.find(&id) {
            Ok(None) => {}
            Ok(Some(version)) => rows.push(VersionRow::kept(version)),
            Err(error) => wrong.push(format!("{id}: {error}")),
        }
    }
    match pending(versions)? {
        Pending::OfMount(report) => {
            let bucket = find_bucket(versions.folder())?;
            let bucket = bucket.unwrap_or_default();
            let shown = (report.files.len() + report.damaged_files.len()) as u64;
            let unnamed = report.count + report.damaged - shown;
            let named = report.files.into_iter();
            rows.extend(named.map(|row| VersionRow::of_mount(row, &bucket)));
            let damaged = report.damaged_files.into_iter();
            rows.extend(damaged.map(|row| VersionRow::damaged_of_mount(row, &bucket)));
            if unnamed > 0 {
                tell(&format!("{unnamed} pending files more are not shown"));
            }
        }
        Pending::OfNobody(found) => {
            wrong.extend(found.damage);
            rows.extend(found.versions.into_iter().map(VersionRow::pending));
        }
    }
    let is_whole = wrong.is_empty() && !rows.iter().any(VersionRow::is_damaged);
    for row in rows {
        if let Err(error) = print(&row, &row.lines(), place.json) {
            return Ok(Err(error));
        }
    }
    wrong.iter().for_each(|reason| tell(reason));
    Ok(Ok(is_whole))
}

/// The pending files of a directory.
fn pending(versions: &KeptVersions) -> Result<Pending, String> {
    let mut wait = AnswerWait::new();
    find_pending(versions, ControlRequest::Pending, &mut |holder| {
        wait.wait(holder)
    })
}

fn status(versions: &KeptVersions, place: &StagedPlace) -> Result<Printed, String> {
    let mut kept = (0, 0);
    for id in versions.ids()? {
        kept.0 += 1;
        // `list` names a damaged one.
        kept.1 += versions.find(&id).ok().flatten().map_or(0, |it| it.bytes);
    }
    let (waiting, damaged) = match pending(versions)? {
        Pending::OfMount(report) => ((report.count, report.bytes), report.damaged),
        Pending::OfNobody(found) => {
            let (waiting, damaged) = found.counts();
            let whole = found.versions.iter().filter(|it| it.damage.is_none());
            let bytes = whole.map(|it| it.version.description.size).sum();
            ((waiting, bytes), damaged)
        }
    };
    // Behind the wait for a mount that starts or ends.
    let state = versions.state()?;
    let status = Status::new(state, kept, (waiting, damaged));
    Ok(print(&status, &status.lines(), place.json).map(|()| true))
}

fn discard(
    versions: &KeptVersions,
    ids: &[String],
    all: bool,
    place: &StagedPlace,
) -> Result<Printed, String> {
    let known = versions.ids()?;
    let ids = if all { known.clone() } else { ids.to_vec() };
    let (waiting, kept): (Vec<_>, Vec<_>) = ids.iter().cloned().partition(|id| is_pending(id));
    if let Some(unknown) = kept.iter().find(|id| !known.contains(id)) {
        return Err(no_version(unknown));
    }
    if !waiting.is_empty() {
        let found = without_mount(place)?;
        let unknown = match &found {
            Some(found) => found.discard(&waiting)?,
            None => waiting,
        };
        if let Some(unknown) = unknown.first() {
            return Err(no_version(unknown));
        }
    }
    for id in &kept {
        let discarded = versions.discard(id);
        discarded.map_err(|error| format!("{id}: {error}"))?;
    }
    let lines: Vec<_> = ids.iter().map(|id| format!("discarded {id}")).collect();
    let done = Done { ids, missing: 0 };
    Ok(print(&done, &lines, place.json).map(|()| true))
}

/// The pending versions, which a mount would be about to upload. No mount can begin to use the
/// directory while they live.
fn without_mount(place: &StagedPlace) -> Result<Option<PendingVersions>, String> {
    let versions = KeptVersions::open(&place.directory)?;
    let state = versions.map(|versions| versions.state()).transpose();
    let state = state
        .map_err(|error| error.to_string())?
        .unwrap_or_default();
    match state.holder {
        Some(holder) => Err(format!(
            "{} is in use{holder}: read or remove pending files there, or end that mount",
            place.directory.display()
        )),
        None => PendingVersions::take(&place.directory),
    }
}

fn is_pending(id: &str) -> bool {
    id.starts_with("pending-")
}

/// Writes a version to the file.
fn write_file(versions: &KeptVersions, arguments: &ExportArguments) -> Result<Printed, String> {
    let id = &arguments.id;
    if is_pending(id) {
        let found = without_mount(&arguments.place)?;
        let found = found.map(|found| found.find(id)).transpose()?.flatten();
        let PendingVersion { version, bytes } = found.ok_or_else(|| no_version(id))?;
        let mut read = |place, range: &Range<u64>| bytes.read(place, range);
        return write_version(&version, &mut read, arguments);
    }
    let found = versions
        .find(id)
        .map_err(|error| format!("{id}: {error}"))?;
    let version = found.ok_or_else(|| no_version(id))?;
    let files = versions
        .data(id)
        .map_err(|error| format!("{id}: {error}"))?;
    let mut read = |place, range: &Range<u64>| read_files(&files, place, range);
    write_version(&version, &mut read, arguments)
}

fn write_version(
    version: &KeptVersion,
    read: &mut LocalRead<'_>,
    arguments: &ExportArguments,
) -> Result<Printed, String> {
    let (id, description) = (&version.id, &version.description);
    let missing = description.bytes_in(&[KeptPlace::Base]);
    let base = match missing > 0 && !arguments.local_only {
        true => Some(BaseBytes::connect(arguments, description)?),
        false => None,
    };
    let path = arguments.file.display();
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let target = options.open(&arguments.file);
    let target = target.map_err(|error| format!("{path}: {error}"))?;
    if let Err(error) = fill(description, read, &target, base.as_ref()) {
        // Part of a version is not one.
        std::fs::remove_file(&arguments.file).ok();
        return Err(format!("{id}: {error}"));
    }
    let missing = if base.is_some() { 0 } else { missing };
    let mut lines = vec![format!("wrote {} bytes to {path}", description.size)];
    if missing > 0 {
        lines.push(format!(
            "{missing} bytes of them are zeros: they were never fetched from the bucket"
        ));
    }
    let ids = vec![id.clone()];
    let done = Done { ids, missing };
    Ok(print(&done, &lines, arguments.place.json).map(|()| true))
}

fn fill(
    version: &Description,
    read: &mut LocalRead<'_>,
    target: &std::fs::File,
    base: Option<&BaseBytes>,
) -> Result<(), String> {
    match base {
        Some(base) => {
            let mut fetch = |range: Range<u64>| base.fetch(&range);
            export(version, read, target, Some(&mut fetch))
        }
        None => export(version, read, target, None),
    }
}

fn no_version(id: &str) -> String {
    format!("there is no version {id}: `mount-s3 staged list` shows them")
}
