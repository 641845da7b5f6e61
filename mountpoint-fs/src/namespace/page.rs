//! One page of a directory, merged from what S3 listed.
//!
//! Pure. A directory shadows the file of its name, and a listing shows each name once. S3 orders a directory `a` as
//! `a/`, so between the file `a` and the directory `a` there may be others (`a!`, `a-b`, `a.txt`), and pages of them.
//! A file that may yet be shadowed is therefore held back until the listing has gone past its name. There are few of
//! those at any time: the last key of the page begins with each of their names.
//!
//! A directory bucket lists in no order. There nothing is held back, and of a file and a directory with one name on
//! different pages both may be shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
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
    /// Which part of the directory it is; `None` where only some names of it were seen.
    place: Option<Place>,
}

/// Which part of a directory a page is: all pages of a listing together have all names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) listing: ListingNo,
    pub(super) number: usize,
    pub(super) is_last: bool,
}

/// Tells listings apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ListingNo(u64);

impl ListingNo {
    /// That of another listing than all before.
    pub(super) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Page {
    /// Some names of a directory, seen in an answer that was asked for at `asked`.
    #[must_use]
    pub fn some(entries: Vec<Listed>, asked: Duration) -> Self {
        Self {
            entries,
            asked,
            place: None,
        }
    }

    /// All names of a directory.
    pub(super) fn whole(entries: Vec<Listed>, asked: Duration) -> Self {
        let place = Place {
            listing: ListingNo::next(),
            number: 0,
            is_last: true,
        };
        Self::part(entries, asked, place)
    }

    /// One page of a listing of the directory.
    pub(super) fn part(entries: Vec<Listed>, asked: Duration, place: Place) -> Self {
        Self {
            entries,
            asked,
            place: Some(place),
        }
    }

    /// Which part of the directory it is.
    pub(super) fn place(&self) -> Option<Place> {
        self.place
    }

    /// Whether it has all names of the directory.
    pub(super) fn is_whole(&self) -> bool {
        self.place
            .is_some_and(|place| place.is_last && place.number == 0)
    }

    /// The entry called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Listed> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.name.as_ref().cmp(name));
        found.ok().map(|index| &self.entries[index])
    }
}

/// What S3 listed of a directory in one answer. Keys are relative to the directory.
#[derive(Debug)]
pub(super) struct Batch {
    /// What is visible, in order of key: a directory's key ends with a slash.
    pub(super) entries: Vec<Listed>,
    /// The first and the last key, hidden ones too; `None` if there was none.
    pub(super) span: Option<(Arc<str>, Arc<str>)>,
    /// Keys, hidden ones too.
    pub(super) keys: usize,
    /// Where the listing goes on; `None` at its end.
    pub(super) token: Option<String>,
}

impl Batch {
    /// An answer about the directory `prefix`.
    pub(super) fn of(prefix: &str, listed: ListOutput) -> Self {
        let directories = listed
            .common_prefixes
            .iter()
            .filter_map(|key| names::directory_name(prefix, key))
            .map(|name| Listed {
                name: Arc::from(name),
                found: Found::Directory,
                is_certain: true,
            });
        let files = listed.objects.iter().filter_map(|object| {
            let name = names::file_name(prefix, object.key.as_str())?;
            let version = Version::from(object);
            let is_certain = !version.is_archived;
            Some(Listed {
                name: Arc::from(name),
                found: Found::File(version),
                is_certain,
            })
        });
        let mut entries: Vec<Listed> = directories.chain(files).collect();
        entries.sort_by(|a, b| a.key_bytes().cmp(b.key_bytes()));
        let keys = || {
            let objects = listed.objects.iter().map(|object| object.key.as_str());
            let common = listed.common_prefixes.iter().map(String::as_str);
            objects
                .chain(common)
                .filter_map(|key| key.strip_prefix(prefix))
        };
        Self {
            span: keys()
                .min()
                .zip(keys().max())
                .map(|(first, last)| (Arc::from(first), Arc::from(last))),
            keys: listed.objects.len() + listed.common_prefixes.len(),
            entries,
            token: listed.continuation_token,
        }
    }
}

impl Listed {
    fn key_bytes(&self) -> impl Iterator<Item = u8> {
        let slash: &[u8] = match self.found {
            Found::Directory => b"/",
            Found::File(_) => b"",
        };
        self.name.bytes().chain(slash.iter().copied())
    }

    /// Whether its key is behind `bound` in the order of keys.
    pub(super) fn is_behind(&self, bound: &str) -> bool {
        self.key_bytes().gt(bound.bytes())
    }
}

/// How far a listing has come: everything in front has been seen.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reached<'a> {
    /// This key, relative to the directory.
    Key(&'a str),
    /// The end, or any place of a listing without order.
    End,
}

/// What can be shown of a page, in order of name, and the files that are held back.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) shown: Vec<Listed>,
    pub(super) held_back: Vec<Listed>,
}

/// Merges `entries`, up to which all were `reached`, with the files that the pages before `held_back`.
pub(super) fn merge(
    mut entries: Vec<Listed>,
    held_back: &[Listed],
    reached: Reached<'_>,
) -> Merged {
    entries.extend_from_slice(held_back);
    // Of two equal names the directory is in front, and stays.
    let is_file = |entry: &Listed| entry.found != Found::Directory;
    entries.sort_by(|a, b| a.name.cmp(&b.name).then(is_file(a).cmp(&is_file(b))));
    entries.dedup_by(|later, kept| later.name == kept.name);

    let may_be_shadowed = |name: &str| match reached {
        Reached::Key(key) => name.bytes().chain(*b"/").gt(key.bytes()),
        Reached::End => false,
    };
    // A kept directory waits for the end: a later page may list it.
    let is_end = matches!(reached, Reached::End);
    let (held_back, shown) = entries.into_iter().partition(|entry| {
        !is_end && entry.is_kept() || is_file(entry) && may_be_shadowed(&entry.name)
    });
    Merged { shown, held_back }
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

    /// An answer, merged as if there were no other range behind it.
    fn merged(prefix: &str, listed: ListOutput, held_back: &[Listed]) -> Merged {
        let batch = Batch::of(prefix, listed);
        let reached = match (&batch.token, &batch.span) {
            (Some(_), Some((_, last))) => Reached::Key(last),
            _ => Reached::End,
        };
        merge(batch.entries, held_back, reached)
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
            slow_downs: 0,
        };
        let file = |name: &&str| Listed {
            name: Arc::from(*name),
            found: Found::File(Version::from(&object(name))),
            is_certain: true,
        };
        let before: Vec<Listed> = before.iter().map(file).collect();
        let merged = merged(prefix, listed, &before);
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
            ..ListOutput::default()
        };
        let names = |entries: &[Listed]| -> Vec<String> {
            entries.iter().map(|entry| entry.name.to_string()).collect()
        };
        let kept = ["a", "m", "z"].map(|name| Listed::kept(Arc::from(name)));
        let first = merged("", listed(&["a/"], &["b", "m"], false), &kept);
        assert_eq!(names(&first.shown), ["a", "b"]);
        assert_eq!(names(&first.held_back), ["m", "z"]);
        let second = merged("", listed(&["z/"], &["x"], true), &first.held_back);
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
        let merged = merged("", listed, &[]);
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
        let page = Page::some(merged("", listed, &[]).shown, Duration::ZERO);
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
                    slow_downs: 0,
                };
                let merged = merged("", listed, &held_back);
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
