//! What is known of the names of a directory, by their endings.
//!
//! Pure.

use super::page::Page;
use crate::namespace::version::Found;

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

    /// Whether `name`, which is beside them, is likely to be a directory: by the names of its kind,
    /// or by its own ending.
    pub(in crate::namespace) fn suggest_directory(&self, name: &str) -> bool {
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
