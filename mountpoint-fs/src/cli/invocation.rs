//! The purpose of an invocation: a mount, from flags or from `/etc/fstab`, or a helper command.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, ValueEnum};

use super::{CliArgs, Helper, fstab};

/// The purpose of a call of `mount-s3`.
#[derive(Clone, Debug)]
pub enum Invocation {
    /// Mount a bucket.
    Mount(Box<CliArgs>),
    /// Run a helper command, with the arguments after its word.
    Helper(Helper, Vec<OsString>),
    /// Print the completions of flags for a shell.
    Completions(Shell),
    /// Print the manual page, of the program or of a helper command.
    Man(Option<Helper>),
}

/// A shell that completions can be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// GNU Bash
    Bash,
    /// Z shell
    Zsh,
    /// fish
    Fish,
}

impl Invocation {
    /// Sorts the arguments, of which the first is the program's name.
    ///
    /// The five arguments of mount(8) are a mount whatever the bucket's name. Otherwise the first
    /// argument selects one of `helpers`; a bucket of that name is mounted as `s3://doctor`.
    ///
    /// # Errors
    /// The usage, the version, or the error of clap.
    pub fn parse(
        arguments: impl Iterator<Item = OsString>,
        helpers: &[Helper],
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.collect();
        let rest = arguments.get(2..).unwrap_or_default();
        let first = arguments.get(1).and_then(|first| first.to_str());
        let helper = helpers.iter().find(|helper| Some(helper.name) == first);
        if let Some(helper) = helper.filter(|_| has_output(&arguments)) {
            return Ok(Self::Helper(*helper, rest.to_vec()));
        }
        if let Some(translated) = fstab::translate(&arguments) {
            let translated =
                translated.map_err(|error| CliArgs::command().error(error.kind(), error))?;
            let mut args =
                CliArgs::try_parse_from(translated).map_err(|error| in_words_of_fstab(&error))?;
            args.is_fstab = true;
            return Ok(Self::Mount(Box::new(args)));
        }
        if let Some(helper) = helper.filter(|helper| helper.takes(rest)) {
            return Ok(Self::Helper(*helper, rest.to_vec()));
        }
        match first {
            Some("completions") => {
                let args = CompletionsArgs::try_parse_from(&arguments[1..])?;
                Ok(Self::Completions(args.shell))
            }
            Some("man") => ManArgs::of(&arguments[1..], helpers),
            _ => match CliArgs::try_parse_from(&arguments) {
                Ok(args) => Ok(Self::Mount(Box::new(args))),
                Err(error) => Err(options_elsewhere(&arguments, &error).unwrap_or(error)),
            },
        }
    }
}

/// Whether these are the arguments of a helper command whose `-o FILE` looks like the options of
/// mount(8).
///
/// The second argument of mount(8) is a directory, whose path is absolute: `index` has a bucket
/// there. Its options begin with `rw` or `ro`, which are no names that `trace` and `record` get.
fn has_output(arguments: &[OsString]) -> bool {
    let [_, name, second, rest @ ..] = arguments else {
        return false;
    };
    match name.to_str() {
        Some("index") => !second.as_encoded_bytes().starts_with(b"/"),
        Some("trace" | "record") => {
            let file = rest.get(1).map(|file| file.as_encoded_bytes());
            let first = file.and_then(|file| file.split(|byte| *byte == b',').next());
            !matches!(first, Some(b"rw" | b"ro"))
        }
        _ => false,
    }
}

/// The error with options as they were typed, without the dashes of their flags.
fn in_words_of_fstab(error: &clap::Error) -> clap::Error {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.trim_start_matches('-').to_owned(),
        _ => String::new(),
    };
    let message = match error.kind() {
        ErrorKind::UnknownArgument => {
            let (typed, known) = (
                text(ContextKind::InvalidArg),
                text(ContextKind::SuggestedArg),
            );
            let hint = match known.as_str() {
                "" => String::new(),
                known => format!("; there is '{known}'"),
            };
            format!("the option '{typed}' after -o is not known{hint}")
        }
        // Such texts name flags within sentences.
        _ => {
            let message = error.to_string();
            let message = message.strip_prefix("error: ").unwrap_or(&message);
            let message = message.split("\n\nFor more information").next();
            message.unwrap_or_default().replace("'--", "'")
        }
    };
    CliArgs::command().error(error.kind(), message)
}

/// The error for `-o` in another place than behind bucket and directory, or with other flags.
///
/// The text lists the options as flags.
fn options_elsewhere(arguments: &[OsString], error: &clap::Error) -> Option<clap::Error> {
    let is_about_it = matches!(
        error.get(ContextKind::InvalidArg),
        Some(ContextValue::String(flag)) if flag == "-o"
    );
    let at = arguments
        .iter()
        .position(|argument| argument == "-o")
        .filter(|_| is_about_it)?;
    let typed = arguments.get(at + 1)?.to_str()?;
    let command = CliArgs::command();
    let flag = |option: &str| {
        let (name, value) = option
            .split_once('=')
            .map_or((option, None), |(name, value)| (name, Some(value)));
        let dashed = name.replace('_', "-");
        let is_known = |long: &str| {
            command
                .get_arguments()
                .any(|arg| arg.get_long() == Some(long))
        };
        let name = match name {
            "ro" => "read-only",
            _ if is_known(&dashed) => &dashed,
            name => name,
        };
        value.map_or_else(|| format!("--{name}"), |value| format!("--{name}={value}"))
    };
    let flags: Vec<_> = typed.split(',').map(flag).collect();
    let message = format!(
        "-o {typed} cannot stand here: options after -o are mount(8)'s, behind the bucket and the directory and with \
         nothing else. On the command line write {}",
        flags.join(" ")
    );
    Some(CliArgs::command().error(error.kind(), message))
}

/// Print the completions of mount-s3 for a shell.
#[derive(Clone, Debug, Parser)]
#[command(name = "completions", bin_name = "mount-s3 completions", after_help = COMPLETIONS_EXAMPLES)]
struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Print the manual page of mount-s3, or of a helper command.
#[derive(Clone, Debug, Parser)]
#[command(name = "man", bin_name = "mount-s3 man", after_help = MAN_EXAMPLES)]
struct ManArgs {
    /// A helper command, as index or cache
    #[arg(value_name = "COMMAND")]
    command: Option<String>,
}

impl ManArgs {
    fn of(arguments: &[OsString], helpers: &[Helper]) -> Result<Invocation, clap::Error> {
        let Some(name) = Self::try_parse_from(arguments)?.command else {
            return Ok(Invocation::Man(None));
        };
        let helper = helpers.iter().find(|helper| helper.name == name);
        let names: Vec<_> = helpers.iter().map(|helper| helper.name).collect();
        let unknown = || {
            let message = format!("'{name}' is no helper command: {}", names.join(", "));
            Self::command().error(ErrorKind::InvalidValue, message)
        };
        let helper = helper.ok_or_else(unknown)?;
        Ok(Invocation::Man(Some(*helper)))
    }
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  source <(mount-s3 completions bash)                  for this session of bash
  mount-s3 completions bash > /etc/bash_completion.d/mount-s3
                                                       for each one
  mount-s3 completions fish | source                   for this session of fish";

const MAN_EXAMPLES: &str = "\
Examples:
  mount-s3 man | man -l -                              read the page of the program
  mount-s3 man trace | man -l -                        that of `mount-s3 trace`";

#[cfg(test)]
mod tests {
    use std::process::ExitCode;

    use clap::Command;

    use super::*;

    /// Helpers without tasks, and `cache` with one.
    fn helpers() -> [Helper; 5] {
        fn run(_: Vec<OsString>) -> ExitCode {
            ExitCode::SUCCESS
        }
        let plain = |name| Helper {
            name,
            command: || Command::new("mount-s3 helper").about("Help"),
            run,
        };
        let cache = Helper {
            name: "cache",
            command: || Command::new("mount-s3 cache").subcommand(Command::new("stat")),
            run,
        };
        [
            plain("doctor"),
            plain("index"),
            plain("warm"),
            plain("trace"),
            cache,
        ]
    }

    #[track_caller]
    fn check(arguments: &str, expected: Result<&str, &str>) {
        let arguments = ["mount-s3"]
            .into_iter()
            .chain(arguments.split(' '))
            .map(OsString::from);
        let shown = match Invocation::parse(arguments, &helpers()) {
            Ok(Invocation::Mount(args)) => Ok(format!(
                "mount {} at {}{}{}",
                args.bucket.name,
                args.directory.display(),
                if args.mount.read_only { " ro" } else { "" },
                if args.is_fstab { " by fstab" } else { "" }
            )),
            Ok(Invocation::Helper(helper, rest)) => Ok(format!("{} {}", helper.name, rest.len())),
            Ok(Invocation::Completions(shell)) => Ok(format!("{shell:?}")),
            Ok(Invocation::Man(helper)) => {
                Ok(format!("man {}", helper.map_or("", |helper| helper.name)))
            }
            Err(error) => Err(error.to_string()),
        };
        match (&shown, expected) {
            (Ok(shown), Ok(expected)) => assert_eq!(shown, expected),
            (Err(error), Err(part)) => assert!(error.contains(part), "{error}"),
            _ => panic!("{shown:?} {expected:?}"),
        }
    }

    #[test]
    fn invocations() {
        check("bucket /mnt", Ok("mount bucket at /mnt"));
        check("s3://doctor /mnt", Ok("mount doctor at /mnt"));
        check("s3://man /mnt", Ok("mount man at /mnt"));
        check("doctor", Ok("doctor 0"));
        check("doctor bucket --region r", Ok("doctor 3"));
        check("index", Ok("index 0"));
        check("index bucket -o names", Ok("index 3"));
        check("index bucket -o /names", Ok("index 3"));
        check("index s3://bucket/a/ -o names", Ok("index 3"));
        check("index /mnt -o rw", Ok("mount index at /mnt by fstab"));
        check("s3://index /mnt", Ok("mount index at /mnt"));
        check("trace /mnt -o file", Ok("trace 3"));
        check("trace /mnt -o /file --seconds 3", Ok("trace 5"));
        check(
            "trace /mnt -o ro,_netdev",
            Ok("mount trace at /mnt ro by fstab"),
        );
        check("trace /mnt", Ok("trace 1"));
        check("s3://trace /mnt", Ok("mount trace at /mnt"));
        check("cache", Ok("cache 0"));
        check("cache --help", Ok("cache 1"));
        check("cache stat /mnt", Ok("cache 2"));
        check("cache /mnt", Ok("mount cache at /mnt"));
        check("s3://cache /mnt", Ok("mount cache at /mnt"));
        check("cache /mnt -o rw", Ok("mount cache at /mnt by fstab"));
        check("cache help", Ok("cache 1"));
        check("staged /mnt", Ok("mount staged at /mnt"));
        check("warm bucket --cache /c", Ok("warm 3"));
        check("warm /mnt -o rw", Ok("mount warm at /mnt by fstab"));
        check("s3://warm /mnt", Ok("mount warm at /mnt"));
        check("completions zsh", Ok("Zsh"));
        check("completions tcsh", Err("bash, zsh, fish"));
        check("completions", Err("SHELL"));
        check("man", Ok("man "));
        check("man warm", Ok("man warm"));
        check("man x", Err("doctor, index, warm, trace, cache"));
        check("man warm x", Err("unexpected"));
        check(
            "bucket /mnt -o ro,_netdev",
            Ok("mount bucket at /mnt ro by fstab"),
        );
        check(
            "bucket /mnt -o prefix=",
            Ok("mount bucket at /mnt by fstab"),
        );
        check("doctor /mnt -o rw", Ok("mount doctor at /mnt by fstab"));
        check(
            "bucket /mnt -o typo",
            Err("error: the option 'typo' after -o is not known\n"),
        );
        check(
            "bucket /mnt -o ro,allow_other",
            Err("the option 'allow_other' after -o is not known; there is 'allow-other'"),
        );
        check("bucket /mnt -o uid=me", Err("invalid value 'me' for 'uid"));
        for line in [
            "-o ro,allow_other,uid=7 bucket /mnt",
            "bucket /mnt -o ro,allow_other,uid=7 --debug",
        ] {
            check(
                line,
                Err("-o ro,allow_other,uid=7 cannot stand here: options after -o are mount(8)'s"),
            );
            check(line, Err("write --read-only --allow-other --uid=7"));
        }
        check(
            "bucket /mnt -o ro,rw",
            Err("the options 'ro' and 'rw' exclude each other"),
        );
        check("bucket /mnt -o ro --debug", Err("-o"));
    }
}
