//! Texts about the flags: completions for shells, and the manual page.

use std::ffi::OsString;
use std::io::{self, Write as _};

use clap::{Command, CommandFactory as _};

use super::complete::candidates;
use super::{CliArgs, Helper, Shell};

/// The script that a shell loads to complete the words of `mount-s3`.
#[must_use]
pub fn completions(shell: Shell) -> &'static str {
    match shell {
        Shell::Bash => include_str!("shells/mount-s3.bash"),
        Shell::Zsh => include_str!("shells/mount-s3.zsh"),
        Shell::Fish => include_str!("shells/mount-s3.fish"),
    }
}

/// The lines that these scripts ask for: what can stand in the place of the last word.
#[must_use]
pub fn completion_candidates(words: &[OsString], helpers: &[Helper]) -> String {
    candidates(words, helpers).lines()
}

/// The manual page in roff, of one helper command or, without one, of the program.
#[must_use]
pub fn man_page(helper: Option<&Helper>, helpers: &[Helper]) -> Vec<u8> {
    let mut text = Vec::new();
    let written = match helper {
        Some(helper) => helper_page(helper, &mut text),
        None => program_page(helpers, &mut text),
    };
    // Writing into a vector cannot fail.
    written.ok();
    text
}

fn program_page(helpers: &[Helper], text: &mut Vec<u8>) -> io::Result<()> {
    let mut command = CliArgs::command();
    let examples = help_after(&command);
    // The generator would list every flag in the synopsis, and would re-wrap the lines of the
    // examples.
    let synopsis = format!("{NAME} [OPTIONS] BUCKET_NAME DIRECTORY");
    command = command.after_help("");
    let man = clap_mangen::Man::new(command).manual(MANUAL);
    man.render_title(text)?;
    man.render_name_section(text)?;
    verbatim(text, "SYNOPSIS", &synopsis)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    verbatim(text, "EXAMPLES AND NOTES", &examples)?;
    let pages = helpers.iter().map(|it| format!("{NAME}-{}(1)", it.name));
    let pages: Vec<_> = pages.collect();
    verbatim(text, "SEE ALSO", &pages.join(", "))?;
    man.render_version_section(text)
}

fn helper_page(helper: &Helper, text: &mut Vec<u8>) -> io::Result<()> {
    let command = (helper.command)();
    let (examples, name) = (help_after(&command), format!("{NAME}-{}", helper.name));
    let mut command = command.display_name(name).after_help("");
    let synopsis = command.render_usage().to_string();
    let synopsis = synopsis.trim_start_matches("Usage: ").to_owned();
    let tasks: Vec<_> = command.get_subcommands().cloned().collect();
    let man = clap_mangen::Man::new(command).manual(MANUAL);
    man.render_title(text)?;
    man.render_name_section(text)?;
    verbatim(text, "SYNOPSIS", &synopsis)?;
    man.render_description_section(text)?;
    man.render_options_section(text)?;
    for mut task in tasks.into_iter().filter(|task| task.get_name() != "help") {
        let title = format!("{} {}", helper.name, task.get_name()).to_uppercase();
        let full = format!("{NAME} {} {}", helper.name, task.get_name());
        task = task.bin_name(full);
        verbatim(text, &title, &task.render_long_help().to_string())?;
    }
    verbatim(text, "EXAMPLES AND NOTES", &examples)
}

/// The text of `--help` behind the flags.
fn help_after(command: &Command) -> String {
    let text = command.get_after_help().map(ToString::to_string);
    text.unwrap_or_default()
}

/// A section whose lines stay as they are.
fn verbatim(text: &mut Vec<u8>, title: &str, lines: &str) -> io::Result<()> {
    writeln!(text, ".SH \"{title}\"\n.nf")?;
    for line in lines.lines() {
        let escaped = line.replace('\\', "\\e").replace('-', "\\-");
        // A dot or a quote would begin a request.
        writeln!(text, "\\&{escaped}")?;
    }
    writeln!(text, ".fi")
}

const NAME: &str = "mount-s3";
const MANUAL: &str = "Mountpoint";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_the_page() {
        // roff escapes dashes.
        let text = String::from_utf8(man_page(None, &[])).unwrap();
        let text = text.replace('\\', "");
        for flag in CliArgs::command()
            .get_arguments()
            .filter_map(|arg| arg.get_long())
        {
            assert!(text.contains(flag), "{flag}");
        }
    }

    #[test]
    fn the_lines_of_examples_stay_as_they_are() {
        let text = String::from_utf8(man_page(None, &[])).unwrap();
        for line in CliArgs::command()
            .get_after_help()
            .unwrap()
            .to_string()
            .lines()
        {
            let line = line.replace('\\', "\\e").replace('-', "\\-");
            assert!(text.contains(&format!("\n\\&{line}\n")), "{line}");
        }
    }

    #[test]
    fn helper_commands_have_their_pages() {
        let helper = Helper {
            name: "tend",
            command: || {
                let task = Command::new("sweep").about("Remove dust");
                Command::new("mount-s3 tend")
                    .about("Look after it")
                    .subcommand(task.arg(clap::Arg::new("twice").long("twice")))
                    .after_help("Examples:\n  mount-s3 tend sweep")
            },
            run: |_| std::process::ExitCode::SUCCESS,
        };
        let helpers = [helper];
        let page = String::from_utf8(man_page(None, &helpers)).unwrap();
        assert!(page.contains("mount\\-s3\\-tend(1)"), "{page}");
        let page = String::from_utf8(man_page(Some(&helper), &helpers)).unwrap();
        for text in ["TEND SWEEP", "\\-\\-twice", "Remove dust", "Examples"] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
