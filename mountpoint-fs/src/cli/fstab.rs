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
}

impl FstabError {
    /// The kind of clap's error.
    pub(super) fn kind(&self) -> ErrorKind {
        match self {
            Self::NotText => ErrorKind::InvalidUtf8,
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
    for (option, instead) in REFUSED {
        if options.iter().any(|given| given == option) {
            return Err(FstabError::Refused { option, instead });
        }
    }
    // As for mount(8), the last one counts.
    let access = options.iter().rfind(|option| is_access(option));
    let is_read_only = access.is_some_and(|option| option == "ro");
    let read_only = is_read_only.then(|| "--read-only".to_owned());
    let kept = options
        .iter()
        .filter(|option| !is_access(option) && !is_for_others(option));
    let kept = kept.map(|option| format!("--{option}"));
    Ok(read_only.into_iter().chain(kept).collect())
}

/// Whether an option says if the mount can be changed.
fn is_access(option: &str) -> bool {
    matches!(option, "ro" | "rw")
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
const IGNORED: [&str; 17] = [
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "_netdev",
    "nofail",
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

const REFUSED: [(&str, &str); 3] = [
    ("foreground", "mount(8) waits for the background process"),
    ("read-only", "write 'ro'"),
    (
        "remount",
        "a mount keeps its options; unmount it, and mount it with the new ones",
    ),
];

/// The bucket and the directory of a command line that mount(8) made, and their line in `fstab`,
/// the text of `/etc/fstab`, for messages: `mount -a` runs many such command lines.
#[must_use]
pub fn fstab_entry(arguments: &[OsString], fstab: &str) -> Option<String> {
    let [_, bucket, directory, minus_o, _] = arguments else {
        return None;
    };
    if minus_o != "-o" {
        return None;
    }
    let fields = [bucket, directory].map(|field| field.to_string_lossy());
    let is_it = |line: &str| {
        let mut typed = line.split_ascii_whitespace().map(unescaped);
        fields
            .iter()
            .all(|field| typed.next().as_deref() == Some(&**field))
    };
    let line = fstab.lines().position(is_it);
    let [bucket, directory] = &fields;
    Some(match line {
        Some(line) => format!("line {} of /etc/fstab: {bucket} {directory}", line + 1),
        None => format!("{bucket} {directory}"),
    })
}

/// A field of `/etc/fstab`, which has blanks as `\\040`.
fn unescaped(field: &str) -> String {
    let mut pieces = field.split('\\');
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let octal = piece
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                text.push(char::from(byte));
                text.push_str(&piece[3..]);
            }
            None => {
                text.push('\\');
                text.push_str(piece);
            }
        }
    }
    text
}

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
        check("ro,rw", Ok(&[]));
        check("rw,uid=2,ro", Ok(&["--read-only", "--uid=2"]));
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
        for (option, instead) in REFUSED {
            check(option, Err(FstabError::Refused { option, instead }));
        }
    }

    #[test]
    fn errors_name_the_line_of_fstab() {
        let fstab =
            "# a comment\n\nother /mnt/a mount-s3 ro\n  s3://b/p/\t/mnt/a\\040b mount-s3 ro 0 0\n";
        let entry = |line: &str| {
            let arguments: Vec<OsString> = line.split('|').map(OsString::from).collect();
            fstab_entry(&arguments, fstab)
        };
        for (line, expected) in [
            (
                "m|other|/mnt/a|-o|ro",
                Some("line 3 of /etc/fstab: other /mnt/a"),
            ),
            (
                "m|s3://b/p/|/mnt/a b|-o|rw",
                Some("line 4 of /etc/fstab: s3://b/p/ /mnt/a b"),
            ),
            ("m|other|/mnt/b|-o|rw", Some("other /mnt/b")),
            ("m|other|/mnt/a", None),
            ("m|other|/mnt/a|--region|r", None),
        ] {
            assert_eq!(entry(line).as_deref(), expected, "{line}");
        }
        for (field, expected) in [("a\\134b", "a\\b"), ("a\\", "a\\"), ("\\ä0", "\\ä0")] {
            assert_eq!(unescaped(field), expected);
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
