//! One page of a directory, merged from what S3 listed.
//!
//! Pure. A directory shadows the file of its name, and a listing shows each name once. S3 orders a directory `a` as
//! `a/`, so between the file `a` and the directory `a` there may be others (`a!`, `a-b`, `a.txt`), and pages of them.
//! A file that may yet be shadowed is therefore held back until the listing has gone past its name. There are few of
//! those at any time: the last key of the page begins with each of their names.
//!
//! A directory bucket lists in no order. There the last key says nothing, and of a file and a directory with one name
//! on different pages both may be shown.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::ListOutput;

use super::names;
use super::version::{Found, Version};

/// One name of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Arc<str>,
    /// What it is.
    pub found: Found,
    /// Whether a lookup now would find the same. Not for an archived object: listings do not say whether it has been
    /// restored.
    pub is_certain: bool,
}

impl Listed {
    /// A directory that is there whether S3 lists it or not.
    pub(super) fn kept(name: Arc<str>) -> Self {
        Self {
            name,
            found: Found::Directory,
            is_certain: false,
        }
    }

    /// Whether it is such a directory: one that S3 lists is certain.
    fn is_kept(&self) -> bool {
        self.found == Found::Directory && !self.is_certain
    }
}

/// One page of a directory: visible names in byte order, each once.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The names.
    pub entries: Vec<Listed>,
    /// When it was asked for, on the mount's clock.
    pub asked: Duration,
}

impl Page {
    /// The entry called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Listed> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.name.as_ref().cmp(name));
        found.ok().map(|index| &self.entries[index])
    }
}

/// What can be shown of a page, in order of name, and the files that are held back.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) shown: Vec<Listed>,
    pub(super) held_back: Vec<Listed>,
}

/// Merges what S3 listed of the directory `prefix` with the files that the pages before `held_back`.
pub(super) fn merge(prefix: &str, listed: &ListOutput, held_back: &[Listed]) -> Merged {
    let directories = listed
        .common_prefixes
        .iter()
        .filter_map(|key| names::directory_name(prefix, key));
    let mut entries: Vec<Listed> = directories
        .map(|name| Listed {
            name: Arc::from(name),
            found: Found::Directory,
            is_certain: true,
        })
        .collect();
    entries.extend_from_slice(held_back);
    entries.extend(listed.objects.iter().filter_map(|object| {
        let name = names::file_name(prefix, object.key.as_str())?;
        let version = Version::from(object);
        let is_certain = !version.is_archived;
        Some(Listed {
            name: Arc::from(name),
            found: Found::File(version),
            is_certain,
        })
    }));
    // Stable, and directories are in front: of two equal names the directory stays.
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|later, kept| later.name == kept.name);

    if listed.continuation_token.is_none() {
        return Merged {
            shown: entries,
            held_back: Vec::new(),
        };
    }
    let end = last_key(prefix, listed);
    let may_be_shadowed = |name: &str| end.starts_with(name) && end < &*format!("{name}/");
    // A kept directory waits for the end: a later page may list it.
    let (held_back, shown) = entries.into_iter().partition(|entry| {
        entry.is_kept() || entry.found != Found::Directory && may_be_shadowed(&entry.name)
    });
    Merged { shown, held_back }
}

/// The last key or common prefix of a page, relative to the directory.
fn last_key<'a>(prefix: &str, listed: &'a ListOutput) -> &'a str {
    let object = listed
        .objects
        .iter()
        .map(|object| object.key.as_str())
        .max();
    let common = listed.common_prefixes.iter().map(String::as_str).max();
    object
        .max(common)
        .and_then(|key| key.strip_prefix(prefix))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::time::SystemTime;

    use mountpoint_client::types::{ETag, Key, ObjectInfo};
    use proptest::prelude::*;

    use super::*;

    fn object(key: &str) -> ObjectInfo {
        ObjectInfo {
            key: Key::parse(key).unwrap(),
            size: 1,
            etag: ETag::from_header("\"e\""),
            last_modified: SystemTime::UNIX_EPOCH,
            storage_class: None,
            restored: false,
        }
    }

    /// `keys`: objects, and common prefixes with a slash at their end. `before`: files that were held back. `shown`:
    /// names with a slash behind a directory's.
    #[track_caller]
    fn check(
        prefix: &str,
        keys: &[&str],
        is_last: bool,
        before: &[&str],
        shown: &[&str],
        held_back: &[&str],
    ) {
        let (common, objects): (Vec<&str>, Vec<&str>) = keys
            .iter()
            .partition(|key| key.ends_with('/') && **key != prefix);
        let listed = ListOutput {
            objects: objects.into_iter().map(object).collect(),
            common_prefixes: common.into_iter().map(str::to_owned).collect(),
            continuation_token: (!is_last).then(|| "more".to_owned()),
        };
        let file = |name: &&str| Listed {
            name: Arc::from(*name),
            found: Found::File(Version::from(&object(name))),
            is_certain: true,
        };
        let before: Vec<Listed> = before.iter().map(file).collect();
        let merged = merge(prefix, &listed, &before);
        let show = |entry: &Listed| {
            let slash = if entry.found == Found::Directory {
                "/"
            } else {
                ""
            };
            format!("{}{slash}", entry.name)
        };
        assert_eq!(merged.shown.iter().map(show).collect::<Vec<_>>(), shown);
        assert_eq!(
            merged.held_back.iter().map(show).collect::<Vec<_>>(),
            held_back
        );
    }

    #[test]
    fn objects_and_prefixes_in_order_of_name() {
        check("", &[], true, &[], &[], &[]);
        check(
            "",
            &["a-b", "a/", "a0"],
            true,
            &[],
            &["a/", "a-b", "a0"],
            &[],
        );
        check(
            "d/",
            &["d/b", "d/a/", "d/c/"],
            true,
            &[],
            &["a/", "b", "c/"],
            &[],
        );
    }

    #[test]
    fn hidden_keys() {
        check(
            "d/",
            &["d/", "d//", "d/./", "d/../", "d/..", "d/x"],
            true,
            &[],
            &["x"],
            &[],
        );
        check("d/", &["d/"], true, &[], &[], &[]);
        let long = format!("d/{}", "n".repeat(256));
        check("d/", &[&long, "d/a\0b", "d/ok"], true, &[], &["ok"], &[]);
        // A server that ignores the delimiter or the prefix.
        check("d/", &["d/a/b", "e", "d/ok"], true, &[], &["ok"], &[]);
    }

    #[test]
    fn a_directory_shadows_the_file_of_its_name() {
        check("", &["a", "a!", "a/"], true, &[], &["a/", "a!"], &[]);
        check("", &["a", "a!", "a/"], false, &[], &["a/", "a!"], &[]);
        check("d/", &["d/a", "d/a/", "d/b"], false, &[], &["a/"], &["b"]);
    }

    #[test]
    fn files_that_may_be_shadowed_are_held_back() {
        check("", &["a", "a!"], false, &[], &[], &["a", "a!"]);
        check("", &["a", "a!"], true, &[], &["a", "a!"], &[]);
        check("", &["a", "a0"], false, &[], &["a"], &["a0"]);
        check("", &["a-b", "a-c"], false, &["a"], &["a-b"], &["a", "a-c"]);
        check(
            "",
            &["a.x", "a/", "b"],
            false,
            &["a"],
            &["a/", "a.x"],
            &["b"],
        );
        check("", &["a.x", "b"], false, &["a"], &["a", "a.x"], &["b"]);
        check("", &["a.x", "a/"], true, &["a"], &["a/", "a.x"], &[]);
        check("", &[], true, &["a"], &["a"], &[]);
        check("d/", &["d/a.x", "d/a/"], false, &["a"], &["a/", "a.x"], &[]);
        // The page may end with a directory: `a!/` is between `a` and `a/`.
        check("", &["a", "a!/"], false, &[], &["a!/"], &["a"]);
    }

    #[test]
    fn kept_directories_come_once_and_hide_files() {
        let listed = |prefixes: &[&str], objects: &[&str], is_last: bool| ListOutput {
            objects: objects.iter().map(|key| object(key)).collect(),
            common_prefixes: prefixes.iter().map(|key| (*key).to_owned()).collect(),
            continuation_token: (!is_last).then(|| "more".to_owned()),
        };
        let names = |entries: &[Listed]| -> Vec<String> {
            entries.iter().map(|entry| entry.name.to_string()).collect()
        };
        let kept = ["a", "m", "z"].map(|name| Listed::kept(Arc::from(name)));
        let first = merge("", &listed(&["a/"], &["b", "m"], false), &kept);
        assert_eq!(names(&first.shown), ["a", "b"]);
        assert_eq!(names(&first.held_back), ["m", "z"]);
        let second = merge("", &listed(&["z/"], &["x"], true), &first.held_back);
        assert_eq!(names(&second.shown), ["m", "x", "z"]);
        assert_eq!(second.shown[0].found, Found::Directory);
    }

    #[test]
    fn archived_objects_are_not_certain() {
        let mut archived = object("a");
        archived.storage_class = Some("GLACIER".to_owned());
        let mut restored = object("b");
        restored.storage_class = Some("DEEP_ARCHIVE".to_owned());
        restored.restored = true;
        let listed = ListOutput {
            objects: vec![archived, restored],
            ..ListOutput::default()
        };
        let merged = merge("", &listed, &[]);
        assert_eq!(
            merged
                .shown
                .iter()
                .map(|entry| entry.is_certain)
                .collect::<Vec<_>>(),
            [false, true]
        );
    }

    #[test]
    fn entries_are_found_by_name() {
        let listed = ListOutput {
            objects: vec![object("a"), object("a-b"), object("c")],
            common_prefixes: vec!["a/".to_owned()],
            ..ListOutput::default()
        };
        let page = Page {
            entries: merge("", &listed, &[]).shown,
            asked: Duration::ZERO,
        };
        assert_eq!(page.find("a").unwrap().found, Found::Directory);
        assert!(page.find("a-b").is_some());
        assert!(page.find("b").is_none());
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

        /// However S3 cuts a listing into pages, each visible name is shown once, and as what it is.
        #[test]
        fn any_cut_shows_the_same(
            keys in prop::collection::btree_set("[ab!./]{1,4}", 0..40),
            cuts in prop::collection::vec(1..6usize, 40),
        ) {
            // What S3 lists: keys, rolled up to the first slash, in order.
            let rolled: BTreeSet<String> =
                keys.iter().map(|key| key.split_inclusive('/').next().unwrap().to_owned()).collect();
            let rolled: Vec<String> = rolled.into_iter().collect();
            let mut expected = BTreeMap::new();
            for key in &rolled {
                let name = key.strip_suffix('/').unwrap_or(key);
                if names::is_visible(name) {
                    *expected.entry(name.to_owned()).or_insert(false) |= key.ends_with('/');
                }
            }
            let (mut rest, mut held_back, mut shown) = (&rolled[..], Vec::new(), Vec::new());
            for cut in cuts {
                let (page, behind) = rest.split_at(cut.min(rest.len()));
                rest = behind;
                let (common, objects): (Vec<_>, Vec<_>) = page.iter().cloned().partition(|key| key.ends_with('/'));
                let listed = ListOutput {
                    objects: objects.iter().map(|key| object(key)).collect(),
                    common_prefixes: common,
                    continuation_token: (!rest.is_empty()).then(String::new),
                };
                let merged = merge("", &listed, &held_back);
                prop_assert!(merged.shown.is_sorted_by(|a, b| a.name < b.name));
                shown.extend(merged.shown.into_iter().map(|e| (e.name.to_string(), e.found == Found::Directory)));
                held_back = merged.held_back;
            }
            prop_assert_eq!(held_back, []);
            shown.sort();
            prop_assert_eq!(shown, expected.into_iter().collect::<Vec<_>>());
        }
    }
}
