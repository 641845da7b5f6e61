//! Text generated from the flags: completions for shells, and the manual page.

use std::io::{self, Write as _};

use clap::CommandFactory as _;
use clap_complete::generate;
use clap_complete::shells;

use super::{CliArgs, Shell};

impl Shell {
    /// The script that a shell loads to complete the flags of `mount-s3`.
    #[must_use]
    pub fn completions(self) -> Vec<u8> {
        let mut command = CliArgs::command();
        let mut text = Vec::new();
        match self {
            Self::Bash => generate(shells::Bash, &mut command, NAME, &mut text),
            Self::Zsh => generate(shells::Zsh, &mut command, NAME, &mut text),
            Self::Fish => generate(shells::Fish, &mut command, NAME, &mut text),
        }
        text
    }
}

/// The manual page, in roff.
#[must_use]
pub fn man_page() -> Vec<u8> {
    let mut command = CliArgs::command();
    let examples = command.get_after_help().map(ToString::to_string);
    // The generator would list every flag in the synopsis, and would re-wrap the lines of the
    // examples.
    let synopsis = format!("{NAME} [OPTIONS] BUCKET_NAME DIRECTORY");
    command = command.after_help("");
    let man = clap_mangen::Man::new(command).manual("Mountpoint");
    let mut text = Vec::new();
    let rendered = man
        .render_title(&mut text)
        .and_then(|()| man.render_name_section(&mut text))
        .and_then(|()| verbatim(&mut text, "SYNOPSIS", &synopsis))
        .and_then(|()| man.render_description_section(&mut text))
        .and_then(|()| man.render_options_section(&mut text))
        .and_then(|()| {
            verbatim(
                &mut text,
                "EXAMPLES AND NOTES",
                &examples.unwrap_or_default(),
            )
        })
        .and_then(|()| man.render_version_section(&mut text));
    // Writing into a vector cannot fail.
    rendered.ok();
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_every_text() {
        let texts = [
            Shell::Bash.completions(),
            Shell::Zsh.completions(),
            Shell::Fish.completions(),
            man_page(),
        ];
        for text in texts {
            // roff escapes dashes, and fish writes flags without them.
            let text = String::from_utf8(text).unwrap().replace('\\', "");
            for flag in CliArgs::command()
                .get_arguments()
                .filter_map(|arg| arg.get_long())
            {
                assert!(text.contains(flag), "{flag}");
            }
        }
    }

    #[test]
    fn the_lines_of_examples_stay_as_they_are() {
        let text = String::from_utf8(man_page()).unwrap();
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
}
