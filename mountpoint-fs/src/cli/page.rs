//! The page of the documents that explains a flag.

use clap::CommandFactory as _;

use super::CliArgs;

/// A sentence about the section that explains the first flag of a mount that `text` names.
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
    let heading = argument.get_help_heading().unwrap_or(COMMON).to_lowercase();
    let heading = heading
        .trim_start_matches("aws ")
        .trim_end_matches(" options");
    let flag = argument.get_long()?;
    Some(format!("--{flag} is explained in {PAGE}#{heading}"))
}

const PAGE: &str = "doc/CONFIGURATION.md";
/// The section of flags that stand under no heading of `--help`.
const COMMON: &str = "Flags";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flag_is_in_the_section_that_is_named() {
        let text = include_str!("../../../doc/CONFIGURATION.md").to_lowercase();
        let command = CliArgs::command();
        let flags = command
            .get_arguments()
            .filter_map(|argument| argument.get_long());
        for flag in flags.filter(|flag| !["help", "version"].contains(flag)) {
            let page = page_of(&format!("this needs --{flag}, or not"));
            let page = page.unwrap_or_else(|| panic!("{flag}"));
            let section = page.split('#').nth(1).unwrap();
            let begin = format!("# {section}\n");
            let rest = text.split(&begin).nth(1);
            let rest = rest.unwrap_or_else(|| panic!("{page}"));
            let section = rest.split("\n##").next().unwrap();
            assert!(section.contains(&format!("`--{flag}")), "{page}");
        }
    }

    #[test]
    fn the_first_known_flag_counts() {
        let page = "--region is explained in doc/CONFIGURATION.md#bucket";
        assert_eq!(
            page_of("-- --unknown, --region=x and --fips").as_deref(),
            Some(page)
        );
        assert_eq!(page_of("no flag -- at all"), None);
    }
}
