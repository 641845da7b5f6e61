//! The command line of mount(8): `mount.mount-s3 BUCKET DIRECTORY -o OPTIONS`.
//!
//! `/etc/fstab` and systemd make such lines. Pure: options in, flags out. An option is a long flag
//! without its dashes; `\` escapes `,`, `\` and `"` in a value. Options for mount(8) and systemd
//! are left out, and so are options that state the mount's fixed behaviour.

use std::ffi::OsString;

use clap::error::ErrorKind;

/// The reason why options cannot be flags; the text names the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum FstabError {
    /// A value that is not UTF-8.
    #[error("the options after -o are not UTF-8")]
    NotText,
    /// A backslash before any other character, or at the end.
    #[error(
        "in the options after -o, '\\' stands before ',', '\\' or '\"' only; write '\\\\' for a backslash"
    )]
    Escape,
    /// Quotes have no meaning yet.
    #[error("in the options after -o, '\"' is written '\\\"'")]
    Quote,
    /// Options have no dashes.
    #[error("the option '{0}' must be written without dashes after -o")]
    Dash(String),
    /// An option that has another name here, or none.
    #[error("the option '{option}' cannot be used after -o: {instead}")]
    Refused {
        /// The option.
        option: &'static str,
        /// The remedy.
        instead: &'static str,
    },
    /// Both options at once.
    #[error("the options 'ro' and 'rw' exclude each other")]
    ReadOnlyAndNot,
}

impl FstabError {
    /// The kind of clap's error.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotText => ErrorKind::InvalidUtf8,
            Self::ReadOnlyAndNot => ErrorKind::ArgumentConflict,
            _ => ErrorKind::InvalidValue,
        }
    }
}

/// The flags of a command line that mount(8) made: exactly five arguments, the fourth `-o`.
pub(super) fn translate(arguments: &[OsString]) -> Option<Result<Vec<OsString>, FstabError>> {
    match arguments {
        [program, bucket, directory, minus_o, options] if minus_o == "-o" => {
            let flags = options.to_str().ok_or(FstabError::NotText).and_then(flags);
            let flags = flags.map(|flags| {
                // `--` keeps a bucket that begins with a dash from being a flag.
                let positional = [OsString::from("--"), bucket.clone(), directory.clone()];
                let flags = flags.into_iter().map(OsString::from);
                [program.clone()]
                    .into_iter()
                    .chain(flags)
                    .chain(positional)
                    .collect()
            });
            Some(flags)
        }
        _ => None,
    }
}

fn flags(options: &str) -> Result<Vec<String>, FstabError> {
    let options = split(options)?;
    if let Some(option) = options.iter().find(|option| option.starts_with('-')) {
        return Err(FstabError::Dash(option.clone()));
    }
    let given = |name: &str| options.iter().any(|option| option == name);
    if given("ro") && given("rw") {
        return Err(FstabError::ReadOnlyAndNot);
    }
    for (option, instead) in REFUSED {
        if given(option) {
            return Err(FstabError::Refused { option, instead });
        }
    }
    let kept = options.into_iter().filter(|option| !is_for_others(option));
    Ok(kept
        .map(|option| match option.as_str() {
            "ro" => "--read-only".to_owned(),
            _ => format!("--{option}"),
        })
        .collect())
}

/// Options between commas, unescaped.
fn split(text: &str) -> Result<Vec<String>, FstabError> {
    let (mut options, mut option) = (Vec::new(), String::new());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ (',' | '\\' | '"')) => option.push(escaped),
                _ => return Err(FstabError::Escape),
            },
            '"' => return Err(FstabError::Quote),
            ',' => options.push(std::mem::take(&mut option)),
            _ => option.push(character),
        }
    }
    options.push(option);
    Ok(options)
}

/// Whether an option addresses mount(8) or systemd, or states the behaviour of every mount.
fn is_for_others(option: &str) -> bool {
    option.is_empty() || option.starts_with("x-") || IGNORED.contains(&option)
}

/// Ignored options: mountpoint-s3's list, `defaults`, those that mount.fuse adds, and those that
/// always hold.
///
/// mount.fuse adds options that permit what a bucket cannot contain. Some hold always: programs can
/// be run, and access times are not kept.
const IGNORED: [&str; 18] = [
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "_netdev",
    "nofail",
    "rw",
    "nodev",
    "nosuid",
    "defaults",
    "dev",
    "suid",
    "exec",
    "async",
    "noatime",
    "nodiratime",
    "relatime",
];

const REFUSED: [(&str, &str); 2] = [
    ("foreground", "mount(8) waits for the background process"),
    ("read-only", "write 'ro'"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(options: &str, expected: Result<&[&str], FstabError>) {
        let expected = expected.map(|flags| flags.iter().map(|f| (*f).to_owned()).collect());
        assert_eq!(flags(options), expected, "{options}");
    }

    #[test]
    fn options_become_flags() {
        check("", Ok(&[]));
        check("rw", Ok(&[]));
        check("ro", Ok(&["--read-only"]));
        check("uid=2,gid=4,debug", Ok(&["--uid=2", "--gid=4", "--debug"]));
        check(
            "_netdev,nofail,ro,x-systemd.automount",
            Ok(&["--read-only"]),
        );
        check(
            "auto,noauto,user,nouser,users,nodev,nosuid,defaults",
            Ok(&[]),
        );
        check("rw,dev,suid,allow-other", Ok(&["--allow-other"]));
        check(
            "exec,async,noatime,nodiratime,relatime,noexec",
            Ok(&["--noexec"]),
        );
        check("prefix=a\\,b/", Ok(&["--prefix=a,b/"]));
        check(
            "prefix=a\\\\b\\\"/,uid=1",
            Ok(&["--prefix=a\\b\"/", "--uid=1"]),
        );
        check("prefix=ä/", Ok(&["--prefix=ä/"]));
        check("prefix=", Ok(&["--prefix="]));
        check("debug,,", Ok(&["--debug"]));
        check("typo", Ok(&["--typo"]));
        check("rwx", Ok(&["--rwx"]));
    }

    #[test]
    fn options_that_are_refused() {
        check("prefix=a\\", Err(FstabError::Escape));
        check("\\prefix=a", Err(FstabError::Escape));
        check("prefix=\"a\"", Err(FstabError::Quote));
        check("uid=1,--gid=1", Err(FstabError::Dash("--gid=1".to_owned())));
        check("-f", Err(FstabError::Dash("-f".to_owned())));
        check("ro,rw", Err(FstabError::ReadOnlyAndNot));
        for (option, instead) in REFUSED {
            check(option, Err(FstabError::Refused { option, instead }));
        }
    }

    #[test]
    fn only_mounts_five_arguments() {
        let translated = |text: &str| {
            let arguments: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            translate(&arguments).map(|result| {
                let flags = result.unwrap();
                flags
                    .iter()
                    .map(|f| f.to_str().unwrap())
                    .collect::<Vec<_>>()
                    .join(" ")
            })
        };
        for (arguments, expected) in [
            (
                "mount.mount-s3 b /mnt -o ro",
                Some("mount.mount-s3 --read-only -- b /mnt"),
            ),
            (
                "/usr/bin/mount-s3 b /mnt -o rw",
                Some("/usr/bin/mount-s3 -- b /mnt"),
            ),
            ("mount-s3 -f /mnt -o rw", Some("mount-s3 -- -f /mnt")),
            ("mount-s3 b /mnt -o", None),
            ("mount-s3 b /mnt -o ro --debug", None),
            ("mount-s3 b /mnt --uid 1", None),
            ("mount-s3 -o ro b /mnt", None),
        ] {
            assert_eq!(translated(arguments).as_deref(), expected, "{arguments}");
        }
    }
}
