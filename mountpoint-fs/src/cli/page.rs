//! Where a flag is explained on this machine.

use clap::CommandFactory as _;

use super::CliArgs;

/// A sentence about the section of the manual page that explains the first flag of a mount that
/// `text` names.
#[must_use]
pub fn page_of(text: &str) -> Option<String> {
    let command = CliArgs::command();
    let is_of_name = |character: char| character.is_ascii_alphanumeric() || character == '-';
    let mut named = text.split("--").skip(1).filter_map(|rest| {
        let end = rest.find(|character| !is_of_name(character));
        let name = &rest[..end.unwrap_or(rest.len())];
        let mut known = command.get_arguments();
        known.find(|argument| argument.get_long() == Some(name))
    });
    let argument = named.next()?;
    let heading = argument.get_help_heading().unwrap_or(COMMON);
    let flag = argument.get_long()?;
    Some(format!(
        "`mount-s3 man` explains --{flag}, under {}",
        heading.to_uppercase()
    ))
}

/// The section of flags that stand under no heading of `--help`.
const COMMON: &str = "Options";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::man_page;

    #[test]
    fn each_flag_is_in_the_section_that_is_named() {
        let text = String::from_utf8(man_page(None, &[])).unwrap();
        let text = text.replace('\\', "");
        let command = CliArgs::command();
        let flags = command
            .get_arguments()
            .filter_map(|argument| argument.get_long());
        for flag in flags.filter(|flag| !["help", "version"].contains(flag)) {
            let page = page_of(&format!("this needs --{flag}, or not"));
            let page = page.unwrap_or_else(|| panic!("{flag}"));
            let section = page.split("under ").nth(1).unwrap();
            let mut sections = text.split("\n.SH ");
            let begins = |it: &&str| it.trim_start_matches('"').starts_with(section);
            let section = sections.find(begins).unwrap_or_else(|| panic!("{page}"));
            assert!(section.contains(&format!("--{flag}")), "{page}");
        }
    }

    #[test]
    fn the_first_known_flag_counts() {
        let page = "`mount-s3 man` explains --region, under BUCKET OPTIONS";
        assert_eq!(
            page_of("-- --unknown, --region=x and --fips").as_deref(),
            Some(page)
        );
        assert_eq!(page_of("no flag -- at all"), None);
    }
}
