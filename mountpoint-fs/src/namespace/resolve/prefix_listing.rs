//! Conclusions from one LIST about a name and all keys below it.
//!
//! Pure. LIST returns keys in order, so all keys up to the last returned one are known; a key that
//! is missing there does not exist. Keys behind it are unknown, unless the LIST is complete.
//!
//! Invariant: a certain file has no key below it, as a directory shadows a file of the same name.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::{ListOutput, ObjectInfo};

use crate::namespace::listing::page::{Listed, Page, Span};
use crate::namespace::names;
use crate::namespace::version::{Found, Version};

/// A LIST of the keys that begin with a prefix, perhaps with a delimiter.
#[derive(Debug)]
pub(crate) struct Subtree<'a> {
    /// The common prefix of all listed keys.
    prefix: &'a str,
    objects: &'a [ObjectInfo],
    common_prefixes: &'a [String],
    /// The last key up to which all keys are known; `None` if the LIST is complete.
    end: Option<&'a str>,
}

/// Kind of a name, as far as the LIST shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NameVerdict {
    /// The name is exactly this; `None` if it is absent.
    Certain(Option<Found>),
    /// The name is this, unless the unknown keys contain a directory of that name.
    UnlessDirectory(Option<Found>),
}

/// Names of one directory, sorted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) prefix: Arc<str>,
    pub(crate) entries: Vec<Listed>,
    /// Whether the entries are all keys of the directory: none is unknown, none is hidden.
    pub(crate) is_whole: bool,
}

impl Below {
    /// Converts the names to a page of an answer that was requested at `asked`.
    pub(crate) fn page(self, asked: Duration) -> Page {
        if self.is_whole {
            Page::whole(self.entries, asked)
        } else {
            Page::some(self.entries, asked)
        }
    }
}

impl<'a> Subtree<'a> {
    /// Wraps the answer `listed` about the keys that begin with `prefix`. `is_ordered` tells
    /// whether the bucket lists in the order of keys.
    pub(crate) fn new(prefix: &'a str, listed: &'a ListOutput, is_ordered: bool) -> Self {
        let objects = &listed.objects[..];
        let common_prefixes = &listed.common_prefixes[..];
        let is_sorted = is_ordered
            && objects.is_sorted_by(|a, b| a.key < b.key)
            && common_prefixes.is_sorted_by(|a, b| a < b);
        let last_object = objects.last().map(|last| last.key.as_str());
        let last = last_object.max(common_prefixes.last().map(String::as_str));
        let is_complete = listed.continuation_token.is_none();
        Self {
            prefix,
            objects,
            common_prefixes,
            // Without a valid order only the listed keys are known.
            end: (!is_complete).then_some(last.filter(|_| is_sorted).unwrap_or_default()),
        }
    }

    /// The kind of the name `key`; `directory` is its prefix as a directory.
    pub(crate) fn verdict(&self, key: &str, directory: Option<&str>) -> NameVerdict {
        let is_below = |key: &str| directory.is_some_and(|directory| key.starts_with(directory));
        let mut objects = self.objects.iter().map(|object| object.key.as_str());
        if objects.any(is_below) || self.common_prefixes.iter().any(|key| is_below(key)) {
            return NameVerdict::Certain(Some(Found::Directory));
        }
        let object = self
            .objects
            .iter()
            .find(|object| object.key.as_str() == key);
        let file = object.map(|object| Found::File(Version::from(object)));
        match directory {
            Some(directory) if !self.knows(directory) => NameVerdict::UnlessDirectory(file),
            _ => NameVerdict::Certain(file),
        }
    }

    /// Whether the LIST shows that no object has `key`.
    pub(crate) fn lacks(&self, key: &str) -> bool {
        self.knows(key) && !self.objects.iter().any(|object| object.key.as_str() == key)
    }

    /// The names that the LIST shows in `directory` and below it, by directory.
    pub(crate) fn below(&self, directory: &str) -> Vec<Below> {
        let mut directories = Directories::new();
        // Directories with keys that cannot be shown.
        let mut hiding = BTreeSet::new();
        for key in self.common_prefixes {
            if let Err(own) = add_directories(&mut directories, directory, key) {
                hiding.extend(own);
            }
        }
        for object in self.objects {
            let key = object.key.as_str();
            let (own, name) = match add_directories(&mut directories, directory, key) {
                Ok(found) => found,
                Err(own) => {
                    hiding.extend(own);
                    continue;
                }
            };
            if !name.is_empty() && !names::is_visible(name) {
                hiding.insert(own);
            }
            if names::is_visible(name) {
                let mut listed = Listed::file(Arc::from(name), Version::from(object));
                listed.is_certain &= self.knows(&format!("{key}/"));
                let names = directories.entry(own).or_default();
                names.entry(name).or_insert(listed);
            }
        }
        let below = directories.into_iter().map(|(prefix, names)| Below {
            prefix: Arc::from(prefix),
            entries: names.into_values().collect(),
            is_whole: prefix.starts_with(self.prefix)
                && self.knows_all_of(prefix)
                && !hiding.contains(prefix),
        });
        below.collect()
    }

    /// The keys of `directory` that are known, for a LIST that begins behind `low`. Both ends are
    /// relative to the directory.
    pub(crate) fn span(&self, directory: &str, low: Option<&str>) -> Span {
        let relative = |end: &'a str| end.strip_prefix(directory).unwrap_or_default();
        Span {
            low: low.map(Arc::from),
            high: self.end.map(|end| Arc::from(relative(end))),
        }
    }

    /// Whether the LIST would have shown a key that begins with `prefix`.
    fn knows(&self, prefix: &str) -> bool {
        self.end.is_none_or(|end| end >= prefix)
    }

    /// Whether all keys of the directory `prefix` are known. The LIST must begin in front of it.
    fn knows_all_of(&self, prefix: &str) -> bool {
        self.end
            .is_none_or(|end| end >= prefix && !end.starts_with(prefix))
    }
}

type Directories<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Listed>>;

/// Adds the directories from `directory` down to `key`. Returns the prefix of the last one and the
/// rest of the key.
///
/// The error is the directory in which `key` is hidden; `None` if the key is not below `directory`.
fn add_directories<'a>(
    directories: &mut Directories<'a>,
    directory: &str,
    key: &'a str,
) -> Result<(&'a str, &'a str), Option<&'a str>> {
    let mut rest = key.strip_prefix(directory).ok_or(None)?;
    loop {
        let own = &key[..key.len() - rest.len()];
        let Some((name, behind)) = rest.split_once('/') else {
            return Ok((own, rest));
        };
        if !names::is_visible(name) {
            return Err(Some(own));
        }
        let names = directories.entry(own).or_default();
        names.insert(name, Listed::directory(Arc::from(name)));
        rest = behind;
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mountpoint_client::types::{ETag, Key};

    use super::*;

    fn output(keys: &[&str], is_last: bool) -> ListOutput {
        let object = |key: &&str| ObjectInfo {
            key: Key::parse(key).unwrap(),
            size: 1,
            etag: ETag::from_header("\"e\""),
            last_modified: SystemTime::UNIX_EPOCH,
            storage_class: key.contains("cold").then(|| "GLACIER".to_owned()),
            restored: false,
        };
        ListOutput {
            objects: keys.iter().map(object).collect(),
            continuation_token: (!is_last).then(|| "more".to_owned()),
            ..ListOutput::default()
        }
    }

    #[test]
    fn an_object_that_a_listing_would_have_shown_is_absent() {
        let lacks = |keys: &[&str], is_last| {
            let listed = output(keys, is_last);
            Subtree::new("d", &listed, true).lacks("d/")
        };
        assert!(lacks(&["d-1", "d/a"], false));
        assert!(lacks(&["d-1"], true));
        assert!(!lacks(&["d-1"], false), "it may follow");
        assert!(!lacks(&["d-1", "d/"], false));
        assert!(!lacks(&["d/", "d/a"], true));
        let unsorted = output(&["d/b", "d/a"], false);
        assert!(!Subtree::new("d", &unsorted, true).lacks("d/"));
    }

    #[test]
    fn what_a_name_is() {
        #[track_caller]
        fn check(keys: &[&str], is_last: bool, expected: &str) {
            let listed = output(keys, is_last);
            let show = |found: Option<Found>| match found {
                None => "nothing",
                Some(Found::Directory) => "directory",
                Some(Found::File(_)) => "file",
            };
            let told = match Subtree::new("d/a", &listed, true).verdict("d/a", Some("d/a/")) {
                NameVerdict::Certain(found) => show(found).to_owned(),
                NameVerdict::UnlessDirectory(found) => format!("{}?", show(found)),
            };
            assert_eq!(told, expected, "{keys:?} {is_last}");
        }
        check(&[], true, "nothing");
        check(&["d/a"], true, "file");
        check(&["d/a", "d/a-b", "d/a.c"], true, "file");
        check(&["d/a-b", "d/ab"], true, "nothing");
        check(&["d/a/"], true, "directory");
        check(&["d/a", "d/a-b", "d/a/x"], true, "directory");
        check(&["d/a//"], true, "directory");
        // The LIST is incomplete.
        check(&["d/a"], false, "file?");
        check(&["d/a", "d/a-b"], false, "file?");
        check(&["d/a-b/c"], false, "nothing?");
        check(&["d/a", "d/a0"], false, "file");
        check(&["d/a-b", "d/ab"], false, "nothing");
        check(&["d/a", "d/a/x"], false, "directory");
        check(&[], false, "nothing?");
        // A server that lists in another order, or repeats keys.
        check(&["d/a", "d/z", "d/b"], false, "file?");
        check(&["d/a", "d/a", "d/b"], false, "file?");
        check(&["d/z", "d/a/x"], false, "directory");
    }

    #[test]
    fn without_an_order_only_what_is_there_is_known() {
        let verdict = |keys: &[&str], is_last| {
            let listed = output(keys, is_last);
            Subtree::new("d/", &listed, false).verdict("d/a", Some("d/a/"))
        };
        assert_eq!(
            verdict(&["d/b", "d/c"], false),
            NameVerdict::UnlessDirectory(None)
        );
        assert_eq!(verdict(&["d/c", "d/b"], true), NameVerdict::Certain(None));
        let listed = output(&["d/b", "d/c"], false);
        let below = Subtree::new("d/", &listed, false).below("d/");
        assert!(below[0].entries.iter().all(|entry| !entry.is_certain));
    }

    #[test]
    fn nothing_is_below_the_longest_key() {
        let key = "k".repeat(1024);
        let listed = output(&[&key], false);
        let verdict = Subtree::new(&key, &listed, true).verdict(&key, None);
        assert!(matches!(
            verdict,
            NameVerdict::Certain(Some(Found::File(_)))
        ));
    }

    #[test]
    fn a_listing_with_a_delimiter() {
        let mut listed = output(&["d/a", "d/b"], false);
        listed.common_prefixes = vec!["d/a/".to_owned(), "d/c/".to_owned()];
        let subtree = Subtree::new("d/", &listed, true);
        let verdict = |key: &str| subtree.verdict(key, Some(&format!("{key}/")));
        assert_eq!(verdict("d/a"), NameVerdict::Certain(Some(Found::Directory)));
        assert_eq!(verdict("d/d"), NameVerdict::UnlessDirectory(None));
        assert_eq!(verdict("d/0"), NameVerdict::Certain(None));
        let below = subtree.below("d/");
        let told: Vec<_> = below[0]
            .entries
            .iter()
            .map(|entry| {
                (
                    &*entry.name,
                    entry.found == Found::Directory,
                    entry.is_certain,
                )
            })
            .collect();
        let expected = [("a", true, true), ("b", false, true), ("c", true, true)];
        assert_eq!((below.len(), told), (1, expected.to_vec()));
    }

    #[test]
    fn what_is_below() {
        #[track_caller]
        fn check(keys: &[&str], is_last: bool, expected: &[(&str, &str)]) {
            let listed = output(keys, is_last);
            let show = |entry: &Listed| {
                let kind = match entry.found {
                    Found::Directory => "/",
                    Found::File(_) => "",
                };
                let doubt = if entry.is_certain { "" } else { "?" };
                format!("{}{kind}{doubt}", entry.name)
            };
            let below = Subtree::new("d/", &listed, true).below("d/");
            let told: Vec<(&str, String)> = below
                .iter()
                .map(|below| {
                    let names: Vec<String> = below.entries.iter().map(show).collect();
                    (&*below.prefix, names.join(" "))
                })
                .collect();
            let told: Vec<(&str, &str)> = told
                .iter()
                .map(|(prefix, names)| (*prefix, names.as_str()))
                .collect();
            assert_eq!(told, expected, "{keys:?} {is_last}");
        }
        check(&[], true, &[]);
        check(&["d/a"], true, &[("d/", "a")]);
        check(
            &["d/a/b/c", "d/a/x", "d/ab"],
            true,
            &[("d/", "a/ ab"), ("d/a/", "b/ x"), ("d/a/b/", "c")],
        );
        // A directory shadows a file, whichever is listed first.
        check(
            &["d/a", "d/a-b", "d/a/x"],
            true,
            &[("d/", "a/ a-b"), ("d/a/", "x")],
        );
        // A file is uncertain if a directory may shadow it, or if it may have been restored.
        check(&["d/a", "d/a-b"], false, &[("d/", "a? a-b?")]);
        check(&["d/a", "d/b"], false, &[("d/", "a b?")]);
        check(&["d/cold", "d/z"], true, &[("d/", "cold? z")]);
        // Hidden keys, and the visible directories above them.
        check(
            &["d/", "d//x", "d/./x", "d/a/../x", "d/b//", "d/c/", "e"],
            true,
            &[("d/", "a/ b/ c/")],
        );
    }

    #[test]
    fn which_directories_are_whole() {
        #[track_caller]
        fn check(prefix: &str, keys: &[&str], is_last: bool, whole: &[&str]) {
            let listed = output(keys, is_last);
            let below = Subtree::new(prefix, &listed, true).below("d/");
            let told: Vec<&str> = below
                .iter()
                .filter(|below| below.is_whole)
                .map(|below| &*below.prefix)
                .collect();
            assert_eq!(told, whole, "{prefix} {keys:?} {is_last}");
        }
        check("d/", &["d/a/x", "d/b"], true, &["d/", "d/a/"]);
        check("d/", &["d/a/x", "d/b"], false, &["d/a/"]);
        check(
            "d/",
            &["d/a/x", "d/b/c/x", "d/b/y"],
            false,
            &["d/a/", "d/b/c/"],
        );
        // The LIST covers only names that begin with `a`.
        check("d/a", &["d/a/x", "d/ab"], true, &["d/a/"]);
        check("d/a/", &["d/a/x", "d/a/y"], false, &[]);
        check("d/a/", &["d/a/x", "d/a/y"], true, &["d/a/"]);
        // A directory with hidden keys is not whole, so that its own listing reports them.
        check(
            "d/",
            &["d/a//x", "d/a/y", "d/b/c/x"],
            true,
            &["d/", "d/b/", "d/b/c/"],
        );
    }
}
