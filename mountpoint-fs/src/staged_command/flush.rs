//! `mount-s3 staged flush`: has the mount upload what is pending, and waits for it.

use std::thread;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::arguments::StagedPlace;
use super::report::{Flushed, Printed, print, tell};
use crate::clock::Clock;
use crate::private_folder::Folder;
use crate::staging::control::{ControlRequest, PendingReport, ask};
use crate::staging::pending::PendingVersions;

/// Waits until the files are uploaded that are pending now, for `time_max` at most.
pub(super) fn flush(
    folder: Option<&Folder>,
    place: &StagedPlace,
    time_max: Option<Duration>,
) -> Result<Printed, String> {
    let Some(folder) = folder else {
        return Ok(done(
            &Flushed {
                uploaded: 0,
                left: 0,
                left_bytes: 0,
            },
            place,
        ));
    };
    let asked = |request| ask(folder, request).map_err(|error| format!("the mount: {error}"));
    let Some(begun) = asked(ControlRequest::Flush)? else {
        return no_mount(place);
    };
    let clock = Clock::monotonic();
    let bar = bar(begun.count);
    let mut left = begun.clone();
    let mut told_error = None;
    while left.count > 0 && time_max.is_none_or(|most| clock.now() < most) {
        thread::sleep(POLL);
        let Some(answer) = asked(ControlRequest::Left(begun.mark))? else {
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
    let flushed = Flushed {
        uploaded: begun.count.saturating_sub(left.count),
        left: left.count,
        left_bytes: left.bytes,
    };
    Ok(done(&flushed, place))
}

fn done(flushed: &Flushed, place: &StagedPlace) -> Printed {
    print(flushed, &flushed.lines(), place.json).map(|()| flushed.left == 0)
}

/// The answer where no mount uploads anything.
fn no_mount(place: &StagedPlace) -> Result<Printed, String> {
    let directory = place.directory.display();
    let versions = PendingVersions::open(&place.directory)?;
    let count = versions.map_or(0, |versions| versions.all().len());
    if count == 0 {
        return Ok(done(
            &Flushed {
                uploaded: 0,
                left: 0,
                left_bytes: 0,
            },
            place,
        ));
    }
    Err(format!(
        "{count} files wait for their upload, and no mount uses {directory}: the next one uploads them, as \
         `mount-s3 BUCKET MOUNT-POINT --allow-changes --staging {directory} --write-back` with the options of the last \
         one"
    ))
}

/// The first failure of an upload.
fn first_error(report: &PendingReport) -> Option<String> {
    let mut failed = report.files.iter().filter_map(|file| {
        let error = file.error.as_ref()?;
        Some(format!("{}: {error}", file.key))
    });
    failed.next()
}

fn bar(count: u64) -> ProgressBar {
    let bar = ProgressBar::new(count);
    let style = ProgressStyle::with_template("{wide_bar} {pos}/{len} files, {eta} left");
    if let Ok(style) = style {
        bar.set_style(style);
    }
    bar
}

/// Interval of questions to the mount.
const POLL: Duration = Duration::from_millis(100);
