//! What a name probably is, before S3 is asked: it decides what is asked first, never what is
//! answered.
//!
//! Pure. A path is walked name by name, so what a request of each name costs is paid one after the
//! other. A LIST of what is below a name settles at once that it is a directory, and a GET beside
//! it that it is a file; the LIST of the keys that begin with the name settles either, unless many
//! keys come between the two (`a-1`, `a-2`, … between `a` and `a/`). The names beside it tell
//! which of them to send, and a name's ending where they do not.

use crate::namespace::listing::page::Page;
use crate::namespace::version::Found;

/// What is sent first to find out what a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) enum ProbeStrategy {
    /// The keys that begin with it. Enough in a directory that is small, or not known.
    Name,
    /// What is below it: it is likely to be a directory.
    Directory,
    /// Its first bytes, and at the same time what is below it: it is likely to be a file, and to be
    /// opened.
    File,
}

/// What is known of a name's directory, however old.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::namespace) struct Siblings {
    /// Names that end like files do.
    with_ending: Kinds,
    without_ending: Kinds,
    /// Whether these are all of the directory's names: it is small.
    are_all: bool,
}

/// How many names are what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    directories: u32,
    files: u32,
}

impl Siblings {
    /// Counts what is beside `name` on a page. What only adds to the name (`a-1`, `a.gz` beside
    /// `a`) tells nothing of it.
    pub(in crate::namespace) fn of(page: &Page, name: &str) -> Self {
        let mut siblings = Self {
            are_all: page.is_whole(),
            ..Self::default()
        };
        let beside = page.entries.iter();
        for entry in beside.filter(|entry| !entry.name.starts_with(name)) {
            let kinds = if has_ending(&entry.name) {
                &mut siblings.with_ending
            } else {
                &mut siblings.without_ending
            };
            match entry.found {
                Found::Directory => kinds.directories += 1,
                Found::File(_) => kinds.files += 1,
            }
        }
        siblings
    }

    /// Whether there are no others beside them.
    pub(in crate::namespace) fn are_all(&self) -> bool {
        self.are_all
    }

    /// How to ask for `name`, which is beside them. `was_wrong` tells that a name beside it was
    /// taken for a directory and was none; `is_worth_a_front` that it would be likely that the
    /// first bytes of a file are of use.
    pub(in crate::namespace) fn plan(
        self,
        name: &str,
        was_wrong: bool,
        is_worth_a_front: bool,
    ) -> ProbeStrategy {
        if self.are_all {
            return ProbeStrategy::Name;
        }
        let ends = has_ending(name);
        let kinds = if ends {
            self.with_ending
        } else {
            self.without_ending
        };
        let is_directory = match (kinds.directories > 0, kinds.files > 0) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => !ends,
        };
        match is_directory {
            true if was_wrong => ProbeStrategy::Name,
            true => ProbeStrategy::Directory,
            false if is_worth_a_front => ProbeStrategy::File,
            false => ProbeStrategy::Name,
        }
    }
}

/// Whether a name ends as names of files do: `.txt`, `.7z`; not `.git`, `v1.2` or `2026.11.21`.
fn has_ending(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return false;
    };
    !stem.is_empty()
        && ending.len() <= ENDING_LEN_MAX
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `.parquet` and `.ipynb` are endings; what is longer rarely is.
const ENDING_LEN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, SystemTime};

    use mountpoint_client::types::ETag;

    use super::*;
    use crate::namespace::listing::page::Listed;
    use crate::namespace::version::Version;

    #[test]
    fn endings() {
        for name in ["c.txt", "a.b.gz", "x.7z", "a.parquet", "%.c"] {
            assert!(has_ending(name), "{name}");
        }
        for name in [
            "",
            "a",
            ".git",
            "v1.2",
            "2026.11.21",
            "a.",
            "a.b c",
            "a.somethinglong",
            "..",
        ] {
            assert!(!has_ending(name), "{name}");
        }
    }

    /// Names beside it, a directory's with a slash behind it and `…` if there are more.
    fn siblings(names: &str, name: &str) -> Siblings {
        let is_more = names.contains('…');
        let listed = |name: &str| Listed {
            name: Arc::from(name.trim_end_matches('/')),
            found: if name.ends_with('/') {
                Found::Directory
            } else {
                Found::File(Version {
                    size: 1,
                    etag: ETag::from_header("\"e\""),
                    mtime: SystemTime::UNIX_EPOCH,
                    is_archived: false,
                })
            },
            is_certain: true,
        };
        let names = names.split_whitespace().filter(|name| *name != "…");
        let entries = names.map(listed).collect();
        let page = if is_more {
            Page::some(entries, Duration::ZERO)
        } else {
            Page::whole(entries, Duration::ZERO)
        };
        Siblings::of(&page, name)
    }

    #[test]
    fn what_is_asked_first() {
        #[track_caller]
        fn check(beside: &str, name: &str, expected: [ProbeStrategy; 3]) {
            let siblings = siblings(beside, name);
            let told = [(false, true), (false, false), (true, true)]
                .map(|(was_wrong, front)| siblings.plan(name, was_wrong, front));
            assert_eq!(told, expected, "{name} beside {beside}");
        }
        use ProbeStrategy::{Directory, File, Name};
        // All that there is was seen: one LIST settles anything.
        check("", "a", [Name; 3]);
        check("a/ b.txt", "c", [Name; 3]);
        // What it is beside, if that is of one kind.
        check("x/ y/ …", "a", [Directory, Directory, Name]);
        check("0001 0002 …", "a", [File, Name, File]);
        check("a.txt …", "b.txt", [File, Name, File]);
        check("v1.x/ v2.x/ …", "v3.x", [Directory, Directory, Name]);
        // What its name says, otherwise.
        check("…", "a", [Directory, Directory, Name]);
        check("…", "a.txt", [File, Name, File]);
        check("x/ …", "a.txt", [File, Name, File]);
        check("a.txt …", "b", [Directory, Directory, Name]);
        check("x/ 0001 …", "a", [Directory, Directory, Name]);
        check("x.d/ 1.txt …", "a.txt", [File, Name, File]);
        check("a a-1 a-2 …", "a", [Directory, Directory, Name]);
    }
}
