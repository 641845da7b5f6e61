//! What can stand at the end of a command line, for completions. Pure.
//!
//! The scripts of the shells ask the program, so that all shells know the same.

use std::ffi::OsString;

use clap::{Arg, ArgAction, Command, CommandFactory as _, ValueHint};

use super::{CliArgs, Helper, Shell};

/// Words that can stand in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Candidates {
    /// These, each with its meaning.
    Words(Vec<(String, String)>),
    /// Files and directories.
    Files,
    /// Directories.
    Directories,
}

impl Candidates {
    /// The lines for the scripts: words with their meanings behind a tab, or `:files`.
    pub(super) fn lines(&self) -> String {
        match self {
            Self::Files => ":files\n".to_owned(),
            Self::Directories => ":directories\n".to_owned(),
            Self::Words(words) => {
                let lines = words.iter().map(|(word, text)| format!("{word}\t{text}\n"));
                lines.collect()
            }
        }
    }
}

/// The candidates for the last of `words`, of which the first is the program. Behind `--flag=`
/// they are values without the flag.
pub(super) fn candidates(words: &[OsString], helpers: &[Helper]) -> Candidates {
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let Some((current, before)) = words.get(1..).and_then(<[_]>::split_last) else {
        return Candidates::Words(Vec::new());
    };
    let Some((first, rest)) = before.split_first() else {
        let mut found = of_program(helpers);
        if current.starts_with('-') {
            found = flags(&built(CliArgs::command()), &[]);
        }
        return Candidates::Words(beginning(found, current));
    };
    match &**first {
        "man" => Candidates::Words(match rest {
            [] => beginning(names(helpers), current),
            _ => Vec::new(),
        }),
        "completions" => Candidates::Words(match rest {
            [] => beginning(shells(), current),
            _ => Vec::new(),
        }),
        name => match helpers.iter().find(|helper| helper.name == name) {
            Some(helper) => of_command(&built((helper.command)()), rest, current),
            None => of_command(&built(CliArgs::command()), before, current),
        },
    }
}

/// The command with the flags that all have, as `--help`.
fn built(mut command: Command) -> Command {
    command.build();
    command
}

/// The candidates behind the words `before` of a command, or of its task.
fn of_command<W: AsRef<str>>(command: &Command, before: &[W], current: &str) -> Candidates {
    if let (true, Some((task, rest))) = (command.has_subcommands(), before.split_first()) {
        return match command.find_subcommand(task.as_ref()) {
            Some(task) => of_command(task, rest, current),
            None => Candidates::Words(Vec::new()),
        };
    }
    let place = Place::behind(command, before);
    if let Some(arg) = place.awaits {
        return of_values(arg, current);
    }
    if let Some((flag, value)) = current.split_once('=')
        && let Some(arg) = flag_of(command, flag)
    {
        return of_values(arg, value);
    }
    let is_flag = current.starts_with('-') && !place.only_values;
    let next = command.get_positionals().nth(place.values);
    let repeated = || {
        command
            .get_positionals()
            .last()
            .filter(|arg| is_repeated(arg))
    };
    match next.or_else(repeated) {
        Some(arg) if !is_flag && is_known(arg) => of_values(arg, current),
        _ if command.has_subcommands() && !is_flag => {
            Candidates::Words(beginning(tasks(command), current))
        }
        _ if place.only_values => Candidates::Words(Vec::new()),
        _ => Candidates::Words(beginning(flags(command, &place.given), current)),
    }
}

/// The place behind some words.
struct Place<'a> {
    /// The flag whose value comes next.
    awaits: Option<&'a Arg>,
    /// Values before that belong to no flag.
    values: usize,
    /// Whether `--` came: no flags follow.
    only_values: bool,
    /// The flags before.
    given: Vec<&'a Arg>,
}

impl<'a> Place<'a> {
    fn behind<W: AsRef<str>>(command: &'a Command, words: &[W]) -> Self {
        let mut place = Self {
            awaits: None,
            values: 0,
            only_values: false,
            given: Vec::new(),
        };
        for word in words.iter().map(AsRef::as_ref) {
            if place.awaits.take().is_some() {
                continue;
            }
            let flag = word.split('=').next().unwrap_or_default();
            match flag_of(command, flag).filter(|_| !place.only_values) {
                _ if word == "--" => place.only_values = true,
                Some(arg) => {
                    place.given.push(arg);
                    let takes = arg.get_action().takes_values() && !word.contains('=');
                    place.awaits = takes.then_some(arg);
                }
                None if word.starts_with('-') && !place.only_values => {}
                None => place.values += 1,
            }
        }
        place
    }
}

/// The argument that a flag such as `--region` or `-l` sets.
fn flag_of<'a>(command: &'a Command, flag: &str) -> Option<&'a Arg> {
    let mut all = command.get_arguments();
    match (flag.strip_prefix("--"), flag.strip_prefix('-')) {
        (Some(long), _) => all.find(|arg| arg.get_long() == Some(long)),
        (None, Some(short)) => {
            all.find(|arg| arg.get_short().is_some_and(|it| short == it.to_string()))
        }
        _ => None,
    }
}

/// Whether something is known of an argument's values.
fn is_known(arg: &Arg) -> bool {
    is_path(arg) || !arg.get_possible_values().is_empty()
}

fn is_path(arg: &Arg) -> bool {
    arg.get_value_hint() == ValueHint::AnyPath
}

fn is_repeated(arg: &Arg) -> bool {
    matches!(arg.get_action(), ArgAction::Append)
        || arg
            .get_num_args()
            .is_some_and(|range| range.max_values() > 1)
}

fn of_values(arg: &Arg, begin: &str) -> Candidates {
    if is_path(arg) {
        let names = arg.get_value_names().unwrap_or_default();
        return match names.iter().any(|name| name.contains("DIR")) {
            true => Candidates::Directories,
            false => Candidates::Files,
        };
    }
    let values = arg.get_possible_values().into_iter();
    let values = values.filter(|value| !value.is_hide_set()).map(|value| {
        let help = value.get_help().map(ToString::to_string);
        (value.get_name().to_owned(), one_line(help))
    });
    Candidates::Words(beginning(values.collect(), begin))
}

/// The flags of a command that may still be given.
fn flags(command: &Command, given: &[&Arg]) -> Vec<(String, String)> {
    let all = command.get_arguments();
    let open = all.filter(|arg| {
        let is_given = given.iter().any(|given| given.get_id() == arg.get_id());
        !arg.is_hide_set() && (!is_given || is_repeated(arg))
    });
    let flags = open.filter_map(|arg| {
        let help = arg.get_help().map(ToString::to_string);
        Some((format!("--{}", arg.get_long()?), one_line(help)))
    });
    flags.collect()
}

fn of_program(helpers: &[Helper]) -> Vec<(String, String)> {
    let own = [
        ("completions", "Print the completions for a shell"),
        ("man", "Print the manual page"),
    ];
    let own = own.map(|(name, text)| (name.to_owned(), text.to_owned()));
    names(helpers).into_iter().chain(own).collect()
}

fn names(helpers: &[Helper]) -> Vec<(String, String)> {
    let named = |helper: &Helper| {
        let about = (helper.command)().get_about().map(ToString::to_string);
        (helper.name.to_owned(), one_line(about))
    };
    helpers.iter().map(named).collect()
}

fn tasks(command: &Command) -> Vec<(String, String)> {
    let tasks = command.get_subcommands().map(|task| {
        let about = task.get_about().map(ToString::to_string);
        (task.get_name().to_owned(), one_line(about))
    });
    tasks.collect()
}

fn shells() -> Vec<(String, String)> {
    let shells = <Shell as clap::ValueEnum>::value_variants().iter();
    let values = shells.filter_map(clap::ValueEnum::to_possible_value);
    let texts = values.map(|value| {
        let help = value.get_help().map(ToString::to_string);
        (value.get_name().to_owned(), one_line(help))
    });
    texts.collect()
}

fn beginning(words: Vec<(String, String)>, begin: &str) -> Vec<(String, String)> {
    let words = words.into_iter();
    words.filter(|(word, _)| word.starts_with(begin)).collect()
}

/// The first line of a text, without the tabs that end a word in [`Candidates::lines`].
fn one_line(text: Option<String>) -> String {
    let text = text.unwrap_or_default();
    let line = text.lines().next().unwrap_or_default();
    line.replace('\t', " ")
}

#[cfg(test)]
mod tests {
    use clap::builder::PossibleValue;
    use clap::value_parser;

    use super::*;

    fn helpers() -> [Helper; 2] {
        let run = |_| std::process::ExitCode::SUCCESS;
        let tend = Helper {
            name: "tend",
            command: || {
                let sweep = Command::new("sweep").about("Remove dust").args([
                    Arg::new("twice").long("twice").action(ArgAction::SetTrue),
                    Arg::new("at")
                        .value_name("DIRECTORY")
                        .value_parser(value_parser!(std::path::PathBuf)),
                ]);
                Command::new("mount-s3 tend")
                    .about("Look after it")
                    .subcommand(sweep)
            },
            run,
        };
        let look = Helper {
            name: "look",
            command: || {
                let kind = Arg::new("kind").long("kind").short('k');
                let kinds = [PossibleValue::new("near"), PossibleValue::new("far")];
                Command::new("mount-s3 look").args([
                    Arg::new("bucket").value_name("BUCKET").required(true),
                    Arg::new("file")
                        .value_name("FILE")
                        .num_args(0..)
                        .value_parser(value_parser!(std::path::PathBuf)),
                    kind.value_parser(clap::builder::PossibleValuesParser::new(kinds)),
                    Arg::new("tag").long("tag").action(ArgAction::Append),
                ])
            },
            run,
        };
        [tend, look]
    }

    /// The candidates behind `mount-s3 `, the last word of which may be empty.
    fn shown(line: &str) -> String {
        let words = ["mount-s3"].into_iter().chain(line.split(' '));
        let words: Vec<OsString> = words.map(OsString::from).collect();
        match candidates(&words, &helpers()) {
            Candidates::Words(words) => {
                let words: Vec<_> = words.iter().map(|(word, _)| word.as_str()).collect();
                words.join(" ")
            }
            paths => paths.lines().trim_end().to_owned(),
        }
    }

    #[test]
    fn each_place_has_its_candidates() {
        for (line, expected) in [
            ("", "tend look completions man"),
            ("l", "look"),
            ("--regi", "--region"),
            ("--version", "--version"),
            ("tend ", "sweep help"),
            ("tend sweep ", ":directories"),
            ("tend sweep --t", "--twice"),
            ("tend sweep --twice --t", ""),
            ("tend sweep /mnt ", "--twice --help"),
            ("tend nothing ", ""),
            ("look b", ""),
            ("look bucket ", ":files"),
            ("look bucket a b ", ":files"),
            ("look bucket -", "--kind --tag --help"),
            ("look --kind ", "near far"),
            ("look --kind n", "near"),
            ("look --kind=f", "far"),
            ("look -k ", "near far"),
            ("look --kind near bucket ", ":files"),
            ("look --tag x --kind near --", "--tag --help"),
            ("look -- --k", ""),
            ("man ", "tend look"),
            ("man tend ", ""),
            ("completions z", "zsh"),
            ("my-bucket ", ":directories"),
            ("my-bucket /mnt --regi", "--region"),
            ("my-bucket /mnt --region ", ""),
            ("my-bucket /mnt --region r --prof", "--profile"),
            ("my-bucket --read-mode=", "auto cached direct"),
            ("my-bucket --read-mode ca", "cached"),
            ("my-bucket /mnt --cache ", ":directories"),
            ("my-bucket /mnt --cache=/t", ":directories"),
            ("my-bucket /mnt --ca-bundle ", ":files"),
            ("my-bucket /mnt -f --foregr", ""),
        ] {
            assert_eq!(shown(line), expected, "{line}");
        }
        assert!(shown("my-bucket /mnt ").starts_with("--foreground --prefix "));
        assert!(shown("s3://b/ /mnt --").contains(" --endpoint-url "));
        assert_eq!(candidates(&[], &helpers()), Candidates::Words(Vec::new()));
    }

    #[test]
    fn every_flag_that_is_shown_is_offered() {
        let command = CliArgs::command();
        let flags = command.get_arguments().filter(|arg| !arg.is_hide_set());
        let offered = shown("bucket /mnt --");
        for flag in flags.filter_map(Arg::get_long) {
            assert!(
                offered.split(' ').any(|it| it == format!("--{flag}")),
                "{flag}"
            );
        }
    }

    #[test]
    fn lines_have_a_word_and_its_meaning() {
        let words = ["mount-s3", "tend", "sw"].map(OsString::from);
        assert_eq!(
            candidates(&words, &helpers()).lines(),
            "sweep\tRemove dust\n"
        );
    }
}
