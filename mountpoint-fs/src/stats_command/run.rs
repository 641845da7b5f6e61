//! `mount-s3 stats` from its arguments to its exit code.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;

use super::arguments::StatsArguments;
use super::mounts::SelectedMounts;
use super::screen::{Input, Screen, width, write};
use super::view::View;
use crate::clock::Clock;
use crate::mount::{StatsDocument, parse_helper, run_helper};

/// Runs `mount-s3 stats` with the arguments after that word.
///
/// The exit code is 0 if something was shown, 1 if no mount answers, 2 for a wrong command line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    run_helper("stats", parse_helper(arguments), |arguments| {
        work(arguments).map(|()| true)
    })
}

fn work(arguments: &StatsArguments) -> Result<(), String> {
    let mounts = SelectedMounts::new(arguments.directory.as_deref());
    // An answer is there before the terminal changes.
    let documents = mounts.ask().map_err(|reason| match &arguments.directory {
        Some(directory) => format!("{reason}. {}", form_of_mount(directory)),
        None => reason,
    })?;
    let shown = match arguments.once {
        true => show_once(documents, arguments.json),
        false => watch(arguments, &mounts, documents),
    };
    match shown {
        // The reader of the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown.map_err(|error| error.to_string()),
    }
}

/// How a bucket with the name of this command is mounted.
fn form_of_mount(directory: &Path) -> String {
    let directory = directory.display();
    format!("A bucket named stats is mounted with: mount-s3 s3://stats {directory}")
}

/// Shows the numbers since the mounts began.
fn show_once(documents: Vec<StatsDocument>, is_json: bool) -> io::Result<()> {
    if is_json {
        return write(&json(&documents)?);
    }
    let mut view = View::default();
    view.look(documents);
    write(&text(&view))
}

/// Shows what changes, until a signal or a key ends it. A mount that ends leaves the view.
fn watch(
    arguments: &StatsArguments,
    mounts: &SelectedMounts,
    mut documents: Vec<StatsDocument>,
) -> io::Result<()> {
    let mut screen = Screen::open(!arguments.json)?;
    let mut view = View::default();
    let clock = Clock::monotonic();
    loop {
        let next = clock.now() + arguments.interval;
        match arguments.json {
            true => write(&json(&documents)?)?,
            false => view.look(documents),
        }
        if !arguments.json && !screen.is_terminal() {
            write(&[text(&view), b"\n".to_vec()].concat())?;
        }
        loop {
            screen.show(|area, buffer| view.draw(area, buffer))?;
            match screen.wait(next.saturating_sub(clock.now())) {
                Some(Input::End) => return Ok(()),
                Some(input) => view.take(input),
                None => break,
            }
        }
        documents = mounts.ask().unwrap_or_default();
    }
}

/// The lines of a view.
fn text(view: &View) -> Vec<u8> {
    let mut text = view.lines(width()).join("\n");
    text.push('\n');
    text.into_bytes()
}

/// All answers, in a line.
fn json(documents: &[StatsDocument]) -> io::Result<Vec<u8>> {
    #[derive(Serialize)]
    struct Answers<'a> {
        mounts: &'a [StatsDocument],
    }
    let answers = Answers { mounts: documents };
    let mut text = serde_json::to_vec(&answers).map_err(io::Error::other)?;
    text.push(b'\n');
    Ok(text)
}
