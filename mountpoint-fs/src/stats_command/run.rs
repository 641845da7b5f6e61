//! `mount-s3 stats` from its arguments to its exit code.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

use serde::Serialize;

use super::activity::Activity;
use super::arguments::StatsArguments;
use super::draw::{self, History};
use super::mounts::SelectedMounts;
use super::screen::{Screen, size, write};
use crate::mount::{StatsDocument, safe_line};

/// Runs `mount-s3 stats` with the arguments after that word.
///
/// The exit code is 0 if something was shown, 1 if no mount answers, 2 for a wrong command line.
#[must_use]
pub(super) fn run(arguments: Vec<OsString>) -> ExitCode {
    let arguments = match StatsArguments::of(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            // A failure to print cannot be reported.
            error.print().ok();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match work(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            let text = format!("mount-s3 stats: {reason}");
            writeln!(io::stderr(), "{}", safe_line(&text)).ok();
            ExitCode::FAILURE
        }
    }
}

fn work(arguments: &StatsArguments) -> Result<(), String> {
    let mounts = SelectedMounts::new(arguments.directory.as_deref());
    // An answer is there before the terminal changes.
    let documents = mounts.ask()?;
    let shown = match arguments.once {
        true => show_once(&documents, arguments.json),
        false => watch(arguments, &mounts, documents),
    };
    match shown {
        // The reader of the output has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown.map_err(|error| error.to_string()),
    }
}

/// Shows the numbers since the mounts began.
fn show_once(documents: &[StatsDocument], is_json: bool) -> io::Result<()> {
    if is_json {
        return write(&json(documents)?);
    }
    let lines = View::default().lines(documents, size().0);
    let mut text = lines.join("\n");
    text.push('\n');
    write(text.as_bytes())
}

/// Shows what changes, until a signal ends it. A mount that ends leaves the view.
fn watch(
    arguments: &StatsArguments,
    mounts: &SelectedMounts,
    mut documents: Vec<StatsDocument>,
) -> io::Result<()> {
    let screen = Screen::open(!arguments.json)?;
    let mut view = View::default();
    loop {
        match arguments.json {
            true => write(&json(&documents)?)?,
            false => screen.show(&view.lines(&documents, size().0))?,
        }
        if !screen.wait(arguments.interval) {
            return Ok(());
        }
        documents = mounts.ask().unwrap_or_default();
    }
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

/// The documents shown before, by which changes are seen.
#[derive(Debug, Default)]
struct View {
    before: BTreeMap<String, (StatsDocument, History)>,
}

impl View {
    /// The lines of now.
    fn lines(&mut self, documents: &[StatsDocument], width: usize) -> Vec<String> {
        let mut before = std::mem::take(&mut self.before);
        let mut activities = Vec::new();
        let mut histories = Vec::new();
        for document in documents {
            let then = before.remove(&document.place());
            let (then, mut history) = match then {
                Some((then, history)) => (Some(then), history),
                None => (None, History::default()),
            };
            let activity = Activity::new(document, then.as_ref());
            history.add(&activity);
            activities.push(activity);
            histories.push(history);
        }
        let lines = match (activities.as_slice(), histories.as_slice()) {
            ([], _) => vec!["no mount answers".to_owned()],
            ([activity], [history]) => draw::one(activity, history, width),
            (activities, _) => draw::many(activities, width),
        };
        let now = documents.iter().zip(histories);
        self.before = now
            .map(|(document, history)| (document.place(), (document.clone(), history)))
            .collect();
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::super::activity::tests::document;
    use super::*;
    use crate::metrics::{SeriesValue, names};

    #[test]
    fn a_view_shows_changes_after_the_first_look() {
        let at = |seconds, bytes: u64| {
            let read: &[(&str, &str)] = &[("type", "read")];
            let bytes = SeriesValue::Counter(bytes << 20);
            document(seconds, &[(names::FUSE_BYTES, read, bytes)])
        };
        let mut view = View::default();
        let first = view.lines(&[at(10, 100)], 120);
        assert!(first[1].contains(" 10.00 MiB/s "), "{first:?}");
        let second = view.lines(&[at(12, 110)], 120);
        assert!(
            second[1].contains(" 5.00 MiB/s   total  110.00 MiB   █▅"),
            "{second:?}"
        );
        assert_eq!(view.lines(&[], 120), ["no mount answers"]);
        let again = view.lines(&[at(14, 110)], 120);
        assert!(again[1].contains(" 7.86 MiB/s "), "{again:?}");
    }
}
