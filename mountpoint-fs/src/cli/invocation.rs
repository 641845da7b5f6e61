//! The purpose of an invocation: a mount, from flags or from `/etc/fstab`, or a helper command.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory as _, Parser, ValueEnum};

use super::{CliArgs, Helper, fstab};

/// The purpose of a call of `mount-s3`.
#[derive(Clone, Debug)]
pub enum Invocation {
    /// Mount a bucket.
    Mount(Box<CliArgs>),
    /// Run a helper command, with the arguments after its word.
    Helper(Helper, Vec<OsString>),
    /// Print the completions for a shell.
    Completions(Shell),
    /// Print what can stand in the place of the last of these words.
    Candidates(Vec<OsString>),
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
    /// The five arguments of mount(8) are a mount whatever the bucket's name. Otherwise the name
    /// of a helper command selects it, unless only a mount fits: behind the name stands
    /// `/dev/fd/N`, or a directory with flags that the helper command does not take.
    ///
    /// # Errors
    /// The usage, the version, or the error of clap.
    pub fn parse(
        arguments: impl Iterator<Item = OsString>,
        helpers: &[Helper],
    ) -> Result<Self, clap::Error> {
        let arguments: Vec<OsString> = arguments.collect();
        let first = arguments.get(1).and_then(|first| first.to_str());
        let selected = first.and_then(|word| Selected::by(word, helpers));
        let has_output = selected.is_some() && has_output(&arguments);
        if let Some(translated) = fstab::translate(&arguments).filter(|_| !has_output) {
            let translated =
                translated.map_err(|error| CliArgs::command().error(error.kind(), error))?;
            let mut args =
                CliArgs::try_parse_from(translated).map_err(|error| in_words_of_fstab(&error))?;
            args.is_fstab = true;
            return Ok(Self::Mount(Box::new(args)));
        }
        match selected {
            Some(selected) => selected.or_mount(&arguments, helpers),
            None => match CliArgs::try_parse_from(&arguments) {
                Ok(args) => Ok(Self::Mount(Box::new(args))),
                Err(error) => Err(options_elsewhere(&arguments, &error).unwrap_or(error)),
            },
        }
    }
}

/// The command that a word selects.
#[derive(Clone, Copy)]
enum Selected<'a> {
    Helper(&'a Helper),
    Completions,
    Man,
}

impl<'a> Selected<'a> {
    fn by(word: &str, helpers: &'a [Helper]) -> Option<Self> {
        match word {
            "completions" => Some(Self::Completions),
            "man" => Some(Self::Man),
            _ => {
                let mut known = helpers.iter();
                known.find(|helper| helper.name == word).map(Self::Helper)
            }
        }
    }

    fn command(self) -> Command {
        match self {
            Self::Helper(helper) => (helper.command)(),
            Self::Completions => CompletionsArgs::command(),
            Self::Man => ManArgs::command(),
        }
    }

    /// This command with its arguments, of which the first is its word.
    fn with(self, arguments: &[OsString], helpers: &[Helper]) -> Result<Invocation, clap::Error> {
        match self {
            Self::Helper(helper) => Ok(Invocation::Helper(*helper, arguments[1..].to_vec())),
            Self::Completions => {
                let args = CompletionsArgs::try_parse_from(arguments)?;
                Ok(match args.candidates {
                    true => Invocation::Candidates(args.words),
                    false => Invocation::Completions(args.shell),
                })
            }
            Self::Man => ManArgs::of(arguments, helpers),
        }
    }

    /// This command, or the mount of a bucket of its name if only that fits. `arguments` begin
    /// with the program's name.
    fn or_mount(
        self,
        arguments: &[OsString],
        helpers: &[Helper],
    ) -> Result<Invocation, clap::Error> {
        let own = &arguments[1..];
        let Some(second) = own.get(1) else {
            return self.with(own, helpers);
        };
        let mount = || CliArgs::try_parse_from(arguments).map(Box::new);
        if is_passed_descriptor(second)
            && let Ok(args) = mount()
        {
            return Ok(Invocation::Mount(args));
        }
        match self.command().try_get_matches_from(own) {
            // A directory is looked at only where the helper command would fail: it may hang.
            Err(error) if error.use_stderr() && is_place(second) => match mount() {
                Ok(args) => Ok(Invocation::Mount(args)),
                Err(_) => Err(with_form_of_mount(&error, own)),
            },
            _ => self.with(own, helpers),
        }
    }
}

/// Whether the text is `/dev/fd/N`, by which a process passes a mount on.
fn is_passed_descriptor(text: &OsStr) -> bool {
    let number = text.to_str().and_then(|text| text.strip_prefix("/dev/fd/"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Whether the text can only mean a directory: no bucket's name begins with a slash.
fn is_place(text: &OsStr) -> bool {
    let path = Path::new(text);
    path.is_absolute() || path.is_dir()
}

/// The error of a helper command, with the form that mounts a bucket of its name. `own` begins
/// with that name.
fn with_form_of_mount(error: &clap::Error, own: &[OsString]) -> clap::Error {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text).trim_end();
    let [name, directory] = [&own[0], &own[1]].map(|word| word.to_string_lossy());
    let form = format!("A bucket named {name} is mounted with: mount-s3 s3://{name} {directory}");
    clap::Error::raw(error.kind(), format!("{text}\n\n{form}\n"))
}

/// Whether these are the arguments of a helper command whose `-o FILE` looks like the options of
/// mount(8).
///
/// The second argument of mount(8) is a directory, whose path is absolute: `index` has a bucket
/// there. Its options begin with `rw` or `ro`, which are no names that `trace` gets.
fn has_output(arguments: &[OsString]) -> bool {
    let [_, name, second, rest @ ..] = arguments else {
        return false;
    };
    match name.to_str() {
        Some("index") => !second.as_encoded_bytes().starts_with(b"/"),
        Some("trace") => {
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

    /// Used by the scripts: the words after `--` are a command line to complete.
    #[arg(long, hide = true)]
    candidates: bool,

    #[arg(last = true, hide = true)]
    words: Vec<OsString>,
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
  source <(mount-s3 completions zsh)                   for this session of zsh, behind compinit
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

    /// Helpers that take everything, and `cache` with a task.
    fn helpers() -> [Helper; 5] {
        fn run(_: Vec<OsString>) -> ExitCode {
            ExitCode::SUCCESS
        }
        let plain = |name| Helper {
            name,
            command: || {
                let any = clap::Arg::new("any")
                    .num_args(0..)
                    .allow_hyphen_values(true);
                Command::new("mount-s3 helper").about("Help").arg(any)
            },
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
            Ok(Invocation::Candidates(words)) => Ok(format!("candidates {}", words.len())),
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
    }

    #[test]
    fn completions_and_pages() {
        check("completions zsh", Ok("Zsh"));
        check(
            "completions fish --candidates -- mount-s3 --re",
            Ok("candidates 2"),
        );
        check("completions tcsh", Err("bash, zsh, fish"));
        check("completions", Err("SHELL"));
        check("man", Ok("man "));
        check("man warm", Ok("man warm"));
        check("man x", Err("doctor, index, warm, trace, cache"));
        check("man warm x", Err("unexpected"));
    }

    #[test]
    fn options_of_fstab() {
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
        check("bucket /mnt -o ro,rw", Ok("mount bucket at /mnt by fstab"));
        check(
            "bucket /mnt -o rw,remount",
            Err("'remount' cannot be used after -o: a mount keeps its options"),
        );
        check("bucket /mnt -o ro --debug", Err("-o"));
    }
}
