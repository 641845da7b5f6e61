//! Keys and names: which component of which key a name is.
//!
//! Pure. A key is visible when each of its components is one that Linux can name. Empty components
//! (`a//b`), `.`, `..`, NUL, what is not UTF-8 and components longer than 255 bytes cannot be
//! named: such keys are hidden, and so is a key that ends with `/`, but the directories in front of
//! the offending component are there. A key that ends with `/` marks a directory.

use std::ffi::OsStr;
use std::fmt;

use mountpoint_client::types::Key;

use crate::config::limits::NAME_LEN_MAX;
use crate::operation::FsError;

/// A name from the kernel, checked: a component that a visible key can have.
pub(super) fn parse(name: &OsStr) -> Result<&str, FsError> {
    if name.len() > NAME_LEN_MAX {
        return Err(FsError::NameTooLong);
    }
    let name = name
        .to_str()
        .ok_or(FsError::InvalidName("it is not UTF-8"))?;
    if is_visible(name) {
        Ok(name)
    } else {
        Err(FsError::InvalidName(
            "it is empty, `.` or `..`, or has a slash or a NUL in it",
        ))
    }
}

/// Whether `name` can be a directory entry.
pub(super) fn is_visible(name: &str) -> bool {
    !matches!(name, "" | "." | "..") && name.len() <= NAME_LEN_MAX && !name.contains(['/', '\0'])
}

/// Why a key has no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hidden {
    /// `a//b`, or a leading slash.
    Empty,
    /// `a/./b`, `a/../b`.
    Dots,
    /// A NUL byte; or what is not UTF-8, which the client shows so.
    Nul,
    /// The server has no ETag for the object, as the client shows.
    NoEtag,
    /// A component of more than 255 bytes.
    TooLong,
}

impl fmt::Display for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an empty name between two slashes",
            Self::Dots => "a name that is '.' or '..'",
            Self::Nul => "a NUL byte, or bytes that are not UTF-8, in a name",
            Self::NoEtag => "no ETag at the server, so that its versions could be mixed",
            Self::TooLong => "a name of more than 255 bytes",
        })
    }
}

/// Why `key`, which is listed in the directory `prefix`, is not visible there; `None` if it is, or
/// is the marker of the directory itself.
pub(super) fn hidden(prefix: &str, key: &str) -> Option<Hidden> {
    let rest = key.strip_prefix(prefix).filter(|rest| !rest.is_empty())?;
    let name = rest.split('/').next()?;
    match name {
        _ if is_visible(name) => None,
        "" => Some(Hidden::Empty),
        "." | ".." => Some(Hidden::Dots),
        _ if name.ends_with(Key::NO_ETAG) => Some(Hidden::NoEtag),
        _ if name.contains('\0') => Some(Hidden::Nul),
        _ => Some(Hidden::TooLong),
    }
}

/// The name that the object `key` has in the directory `prefix`, if it is visible there.
pub(super) fn file_name<'a>(prefix: &str, key: &'a str) -> Option<&'a str> {
    key.strip_prefix(prefix).filter(|name| is_visible(name))
}

/// The name that `common_prefix` has in the directory `prefix`, if it is visible there.
pub(super) fn directory_name<'a>(prefix: &str, common_prefix: &'a str) -> Option<&'a str> {
    common_prefix
        .strip_prefix(prefix)?
        .strip_suffix('/')
        .filter(|name| is_visible(name))
}

/// The key of the file `name` in the directory `prefix`.
pub(super) fn file_key(prefix: &str, name: &str) -> Result<Key, FsError> {
    Key::parse(&format!("{prefix}{name}")).ok_or(FsError::NameTooLong)
}

/// The prefix of the directory that `key` would be; `None` if no key could begin with it.
pub(super) fn directory_prefix(key: &Key) -> Option<String> {
    (key.as_str().len() < Key::LEN_MAX).then(|| format!("{key}/"))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn names_from_the_kernel() {
        #[track_caller]
        fn check(name: &[u8], expected: &str) {
            let outcome = match parse(OsStr::from_bytes(name)) {
                Ok(name) => name.to_owned(),
                Err(FsError::NameTooLong) => "too long".into(),
                Err(FsError::InvalidName(_)) => "invalid".into(),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(outcome, expected, "{name:?}");
        }
        for good in [
            "a", ".a", "...", "a b", " ", "ünï", "-", "*", "\u{feff}", "a\\b", "a\nb",
        ] {
            check(good.as_bytes(), good);
        }
        for bad in [
            &b""[..],
            b".",
            b"..",
            b"a/b",
            b"/",
            b"a\0b",
            b"\xff",
            b"a\xc3",
        ] {
            check(bad, "invalid");
        }
        check(&[b'n'; 255], &"n".repeat(255));
        check(&[b'n'; 256], "too long");
        check(&[0xff; 256], "too long");
    }

    #[test]
    fn keys_seen_from_a_directory() {
        #[track_caller]
        fn check(prefix: &str, key: &str, file: Option<&str>, directory: Option<&str>) {
            assert_eq!(file_name(prefix, key), file, "{key} in {prefix}");
            assert_eq!(directory_name(prefix, key), directory, "{key} in {prefix}");
        }
        check("", "a", Some("a"), None);
        check("", "a/", None, Some("a"));
        check("d/", "d/a", Some("a"), None);
        check("d/", "d/a/", None, Some("a"));
        check("d/", "e/a", None, None);
        for hidden in [
            "d/", "d//", "d/.", "d/..", "d/./", "d/../", "d/a\0", "d/a\0/",
        ] {
            check("d/", hidden, None, None);
        }
        check("d/", "d/.a", Some(".a"), None);
        let long = "x".repeat(256);
        check("", &long, None, None);
        check("", &format!("{long}/"), None, None);
        check("", &long[1..], Some(&long[1..]), None);
    }

    #[test]
    fn why_keys_are_hidden() {
        let long = format!("d/{}", "x".repeat(256));
        for (key, why) in [
            ("d/a", None),
            ("d/a/", None),
            ("d/", None),
            ("e/a", None),
            ("d//", Some(Hidden::Empty)),
            ("d//a", Some(Hidden::Empty)),
            ("d/.", Some(Hidden::Dots)),
            ("d/../", Some(Hidden::Dots)),
            ("d/a\0b", Some(Hidden::Nul)),
            ("d/a\0no ETag", Some(Hidden::NoEtag)),
            (&long, Some(Hidden::TooLong)),
        ] {
            assert_eq!(hidden("d/", key), why, "{key:?}");
        }
        assert_eq!(hidden("", "/a"), Some(Hidden::Empty));
    }

    #[test]
    fn keys_of_names() {
        assert_eq!(file_key("", "a").unwrap().as_str(), "a");
        assert_eq!(file_key("d/e/", "a").unwrap().as_str(), "d/e/a");
        assert_eq!(
            directory_prefix(&Key::parse("d/a").unwrap()).unwrap(),
            "d/a/"
        );
        let prefix = format!("{}/", "p".repeat(1000));
        let (longest, longer) = ("n".repeat(23), "n".repeat(24));
        assert_eq!(file_key(&prefix, &longest).unwrap().as_str().len(), 1024);
        assert!(matches!(
            file_key(&prefix, &longer),
            Err(FsError::NameTooLong)
        ));
        assert_eq!(
            directory_prefix(&file_key(&prefix, &longest).unwrap()),
            None
        );
        // A marker of 1024 bytes shows a directory.
        assert!(directory_prefix(&file_key(&prefix, &longest[1..]).unwrap()).is_some());
    }
}
