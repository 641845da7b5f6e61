//! Directories with more keys below them than one LIST shows: each is listed by itself.
//!
//! Pure. A LIST without a delimiter shows such a directory in part, and its subdirectories in full.
//! Directories side by side are much alike, so one of them tells about the others, until one turns
//! out small.

use std::sync::Arc;

use super::seen::parent_of;

/// Where large directories were found in the current walk.
#[derive(Debug, Default)]
pub(super) struct LargeDirectories {
    /// The directory whose subdirectories are likely large.
    parent: Option<Arc<str>>,
}

impl LargeDirectories {
    /// Records that the directory `prefix` has more keys below it than a LIST shows.
    pub(super) fn found(&mut self, prefix: &str) {
        self.parent = parent_of(prefix).map(Arc::from);
    }

    /// Records that the directory `prefix` has few names and no subdirectories.
    pub(super) fn is_small(&mut self, prefix: &str) {
        if self.is_likely(prefix) {
            self.parent = None;
        }
    }

    /// Whether the directory `prefix` is likely large.
    pub(super) fn is_likely(&self, prefix: &str) -> bool {
        self.parent.is_some() && parent_of(prefix) == self.parent.as_deref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_side_by_side_are_alike() {
        let mut large = LargeDirectories::default();
        assert!(!large.is_likely("t/a/"));
        large.found("t/a/");
        for (prefix, is_likely) in [
            ("t/b/", true),
            ("t/a/x/", false),
            ("t/", false),
            ("u/b/", false),
        ] {
            assert_eq!(large.is_likely(prefix), is_likely, "{prefix}");
        }
        large.is_small("t/a/x/");
        assert!(large.is_likely("t/b/"));
        large.is_small("t/c/");
        assert!(!large.is_likely("t/b/"));
    }
}
