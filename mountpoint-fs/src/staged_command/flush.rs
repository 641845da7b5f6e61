//! `mount-s3 staged flush`: has the mount upload what is pending, and waits for it.

use std::collections::BTreeSet;
use std::thread;
use std::time::Duration;

use super::answer_wait::AnswerWait;
use super::arguments::StagedPlace;
use super::report::{Flushed, Printed, tell};
use crate::clock::Clock;
use crate::file::control::{ControlRequest, PendingReport, ask};
use crate::file::kept::KeptVersions;
use crate::file::pending::{FoundPending, Pending, find_pending};
use crate::mount::{print, progress_bar};

/// Waits until the files are uploaded that are pending now, for `time_max` at most.
pub(super) fn flush(
    versions: &KeptVersions,
    place: &StagedPlace,
    time_max: Option<Duration>,
) -> Result<Printed, String> {
    let mut wait = AnswerWait::new();
    let found = find_pending(versions, ControlRequest::Flush, &mut |holder| {
        wait.wait(holder)
    })?;
    let begun = match found {
        Pending::OfMount(report) => report,
        Pending::OfNobody(found) => return no_mount(&found, place),
    };
    let kept_before = kept(versions)?;
    let clock = Clock::monotonic();
    let template = "{wide_bar} {pos}/{len} files, {eta} left";
    let bar = progress_bar(begun.count, template);
    let mut left = begun.clone();
    let mut told_error = None;
    while left.count > 0 && time_max.is_none_or(|most| clock.now() < most) {
        thread::sleep(POLL);
        let asked = ask(versions.folder(), ControlRequest::Left(begun.mark));
        let Some(answer) = asked.map_err(|error| format!("the mount: {error}"))? else {
            bar.abandon();
            return Err("the mount has ended; the next one goes on".to_owned());
        };
        bar.set_position(begun.count.saturating_sub(answer.count));
        let error = first_error(&answer);
        if error.is_some() && told_error != error {
            bar.suspend(|| tell(error.as_deref().unwrap_or_default()));
            told_error = error;
        }
        left = answer;
    }
    bar.finish_and_clear();
    let kept = kept(versions)?.difference(&kept_before).count() as u64;
    let flushed = Flushed {
        uploaded: begun.count.saturating_sub(left.count + kept),
        kept,
        left: left.count,
        left_bytes: left.bytes,
        damaged: left.damaged,
    };
    Ok(done(&flushed, place))
}

fn done(flushed: &Flushed, place: &StagedPlace) -> Printed {
    print(flushed, &flushed.lines(), place.json).map(|()| flushed.is_all())
}

/// The names of kept versions.
fn kept(versions: &KeptVersions) -> Result<BTreeSet<String>, String> {
    let ids = versions.ids()?;
    Ok(ids.into_iter().collect())
}

/// The answer where no mount uploads anything.
fn no_mount(found: &FoundPending, place: &StagedPlace) -> Result<Printed, String> {
    let directory = place.directory.display();
    found.damage.iter().for_each(|damage| tell(damage));
    let (count, damaged) = found.counts();
    if count > 0 {
        return Err(format!(
            "{count} files wait for their upload, and no mount uses {directory}: the next one uploads them, as \
             `mount-s3 BUCKET MOUNT-POINT --allow-changes --staging {directory} --write-back` with the options of the \
             last one"
        ));
    }
    if !found.damage.is_empty() {
        return Err(format!(
            "the journal in {directory} is damaged: what else was pending there is unknown"
        ));
    }
    let flushed = Flushed {
        damaged,
        ..Flushed::default()
    };
    Ok(done(&flushed, place))
}

/// The first failure of an upload.
fn first_error(report: &PendingReport) -> Option<String> {
    let mut failed = report.files.iter().filter_map(|file| {
        let error = file.error.as_ref()?;
        Some(format!("{}: {error}", file.key))
    });
    failed.next()
}

/// Interval of questions to the mount.
const POLL: Duration = Duration::from_millis(100);
