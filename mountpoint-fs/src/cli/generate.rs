//! Text made from the flags: completions for shells, and the manual page.

use clap::CommandFactory as _;
use clap_complete::generate;
use clap_complete::shells;

use super::{CliArgs, Shell};

impl Shell {
    /// What the shell loads to complete the flags of `mount-s3`.
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
    let mut text = Vec::new();
    // Writing into a vector cannot fail.
    clap_mangen::Man::new(CliArgs::command())
        .manual("Mountpoint")
        .render(&mut text)
        .ok();
    text
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
}
