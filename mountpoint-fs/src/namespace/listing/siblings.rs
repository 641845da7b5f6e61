//! Kinds of the names in a directory, counted by their endings: a hint for a new name's kind.
//!
//! Pure.

use super::page::Page;
use crate::namespace::version::Found;

/// Counts of the files and directories beside a name, perhaps outdated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Siblings {
    /// Names with an ending that is typical of files.
    with_ending: Kinds,
    without_ending: Kinds,
    /// Whether the counts cover all names of the directory, which is then small.
    are_all: bool,
}

/// Number of names of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Kinds {
    directories: u32,
    files: u32,
}

impl Siblings {
    /// Counts the entries beside `name` on a page. Names that begin with `name` (`a-1`, `a.gz`
    /// beside `a`) are no hint and do not count.
    pub(crate) fn of(page: &Page, name: &str) -> Self {
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

    /// Whether the counts cover all names of the directory.
    pub(crate) fn are_all(&self) -> bool {
        self.are_all
    }

    /// Whether `name` is likely to be a directory. Its siblings suggest that, or its own ending.
    pub(crate) fn suggest_directory(&self, name: &str) -> bool {
        let ends = has_ending(name);
        let kinds = if ends {
            self.with_ending
        } else {
            self.without_ending
        };
        match (kinds.directories > 0, kinds.files > 0) {
            (true, false) => true,
            (false, true) => false,
            (true, true) | (false, false) => !ends,
        }
    }
}

/// Whether a name has an ending typical of files: `.txt`, `.7z`; not `.git`, `v1.2` or
/// `2026.11.21`.
fn has_ending(name: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else {
        return false;
    };
    !stem.is_empty()
        && ending.len() <= ENDING_LEN_MAX
        && ending.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && ending.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// `.parquet` and `.ipynb` are endings; longer ones are rare.
const ENDING_LEN_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

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
}
