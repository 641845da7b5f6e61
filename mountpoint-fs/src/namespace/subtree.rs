//! What one LIST tells of a name and of everything below it.
//!
//! Pure. Keys come in order, so all keys up to the last one that was listed are known: whatever is not among them is
//! not there. From the last key on nothing is known, unless the listing is complete.
//!
//! Invariant: what is said to be a file for certain has no key below it, as a directory shadows the file of its name.

use std::collections::BTreeMap;
use std::sync::Arc;

use mountpoint_client::types::{ListOutput, ObjectInfo};

use super::names;
use super::page::Listed;
use super::version::{Found, Version};

/// A listing of all keys that begin with something, down to a delimiter if there is one.
#[derive(Debug)]
pub(super) struct Subtree<'a> {
    objects: &'a [ObjectInfo],
    common_prefixes: &'a [String],
    /// Up to which key all are known; `None` if all are.
    end: Option<&'a str>,
}

/// What a name is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// This, or nothing.
    Certain(Option<Found>),
    /// This, or nothing, unless there is a directory of that name.
    UnlessDirectory(Option<Found>),
}

/// Names of one directory, in byte order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Below {
    pub(super) prefix: Arc<str>,
    pub(super) entries: Vec<Listed>,
}

impl<'a> Subtree<'a> {
    /// What was `listed`, by a bucket that lists in the order of keys or in none.
    pub(super) fn new(listed: &'a ListOutput, is_ordered: bool) -> Self {
        let objects = &listed.objects[..];
        let common_prefixes = &listed.common_prefixes[..];
        let is_sorted = is_ordered
            && objects.is_sorted_by(|a, b| a.key < b.key)
            && common_prefixes.is_sorted_by(|a, b| a < b);
        let last_object = objects.last().map(|last| last.key.as_str());
        let last = last_object.max(common_prefixes.last().map(String::as_str));
        let is_complete = listed.continuation_token.is_none();
        Self {
            objects,
            common_prefixes,
            // Where the order makes no sense, nothing is known but what is there.
            end: (!is_complete).then_some(last.filter(|_| is_sorted).unwrap_or_default()),
        }
    }

    /// What the object `key`, whose prefix as a directory is `directory`, is.
    pub(super) fn verdict(&self, key: &str, directory: Option<&str>) -> Verdict {
        let is_below = |key: &str| directory.is_some_and(|directory| key.starts_with(directory));
        let mut objects = self.objects.iter().map(|object| object.key.as_str());
        if objects.any(is_below) || self.common_prefixes.iter().any(|key| is_below(key)) {
            return Verdict::Certain(Some(Found::Directory));
        }
        let object = self
            .objects
            .iter()
            .find(|object| object.key.as_str() == key);
        let file = object.map(|object| Found::File(Version::from(object)));
        match directory {
            Some(directory) if !self.knows(directory) => Verdict::UnlessDirectory(file),
            _ => Verdict::Certain(file),
        }
    }

    /// The names that are seen in `directory` and below it, by directory. Not all names of any of them.
    pub(super) fn below(&self, directory: &str) -> Vec<Below> {
        let mut directories = Directories::new();
        for key in self.common_prefixes {
            add_directories(&mut directories, directory, key);
        }
        for object in self.objects {
            let key = object.key.as_str();
            let Some((own, name)) = add_directories(&mut directories, directory, key) else {
                continue;
            };
            if names::is_visible(name) {
                let version = Version::from(object);
                let is_certain = !version.is_archived && self.knows(&format!("{key}/"));
                let names = directories.entry(own).or_default();
                names
                    .entry(name)
                    .or_insert_with(|| listed(name, Found::File(version), is_certain));
            }
        }
        let below = directories.into_iter().map(|(prefix, names)| Below {
            prefix: Arc::from(prefix),
            entries: names.into_values().collect(),
        });
        below.collect()
    }

    /// Whether all keys that begin with `prefix` are known, as far as it takes to say that there are none.
    fn knows(&self, prefix: &str) -> bool {
        self.end.is_none_or(|end| end >= prefix)
    }
}

type Directories<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Listed>>;

/// Adds the directories on the way from `directory` to `key`. Returns the prefix of the last of them, and what is behind
/// it; `None` if the key is not below `directory`, or hidden by one on the way.
fn add_directories<'a>(
    directories: &mut Directories<'a>,
    directory: &str,
    key: &'a str,
) -> Option<(&'a str, &'a str)> {
    let mut rest = key.strip_prefix(directory)?;
    loop {
        let own = &key[..key.len() - rest.len()];
        let Some((name, behind)) = rest.split_once('/') else {
            return Some((own, rest));
        };
        if !names::is_visible(name) {
            return None;
        }
        let names = directories.entry(own).or_default();
        names.insert(name, listed(name, Found::Directory, true));
        rest = behind;
    }
}

fn listed(name: &str, found: Found, is_certain: bool) -> Listed {
    Listed {
        name: Arc::from(name),
        found,
        is_certain,
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
    fn what_a_name_is() {
        #[track_caller]
        fn check(keys: &[&str], is_last: bool, expected: &str) {
            let listed = output(keys, is_last);
            let show = |found: Option<Found>| match found {
                None => "nothing",
                Some(Found::Directory) => "directory",
                Some(Found::File(_)) => "file",
            };
            let told = match Subtree::new(&listed, true).verdict("d/a", Some("d/a/")) {
                Verdict::Certain(found) => show(found).to_owned(),
                Verdict::UnlessDirectory(found) => format!("{}?", show(found)),
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
        // There are more keys.
        check(&["d/a"], false, "file?");
        check(&["d/a", "d/a-b"], false, "file?");
        check(&["d/a-b/c"], false, "nothing?");
        check(&["d/a", "d/a0"], false, "file");
        check(&["d/a-b", "d/ab"], false, "nothing");
        check(&["d/a", "d/a/x"], false, "directory");
        check(&[], false, "nothing?");
        // A server that lists in another order, or twice.
        check(&["d/a", "d/z", "d/b"], false, "file?");
        check(&["d/a", "d/a", "d/b"], false, "file?");
        check(&["d/z", "d/a/x"], false, "directory");
    }

    #[test]
    fn without_an_order_only_what_is_there_is_known() {
        let verdict = |keys: &[&str], is_last| {
            let listed = output(keys, is_last);
            Subtree::new(&listed, false).verdict("d/a", Some("d/a/"))
        };
        assert_eq!(
            verdict(&["d/b", "d/c"], false),
            Verdict::UnlessDirectory(None)
        );
        assert_eq!(verdict(&["d/c", "d/b"], true), Verdict::Certain(None));
        let listed = output(&["d/b", "d/c"], false);
        let below = Subtree::new(&listed, false).below("d/");
        assert!(below[0].entries.iter().all(|entry| !entry.is_certain));
    }

    #[test]
    fn nothing_is_below_the_longest_key() {
        let key = "k".repeat(1024);
        let listed = output(&[&key], false);
        let verdict = Subtree::new(&listed, true).verdict(&key, None);
        assert!(matches!(verdict, Verdict::Certain(Some(Found::File(_)))));
    }

    #[test]
    fn a_listing_with_a_delimiter() {
        let mut listed = output(&["d/a", "d/b"], false);
        listed.common_prefixes = vec!["d/a/".to_owned(), "d/c/".to_owned()];
        let subtree = Subtree::new(&listed, true);
        let verdict = |key: &str| subtree.verdict(key, Some(&format!("{key}/")));
        assert_eq!(verdict("d/a"), Verdict::Certain(Some(Found::Directory)));
        assert_eq!(verdict("d/d"), Verdict::UnlessDirectory(None));
        assert_eq!(verdict("d/0"), Verdict::Certain(None));
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
            let below = Subtree::new(&listed, true).below("d/");
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
        // A directory shadows a file, whichever comes first.
        check(
            &["d/a", "d/a-b", "d/a/x"],
            true,
            &[("d/", "a/ a-b"), ("d/a/", "x")],
        );
        // What may yet be shadowed, or restored, is not certain.
        check(&["d/a", "d/a-b"], false, &[("d/", "a? a-b?")]);
        check(&["d/a", "d/b"], false, &[("d/", "a b?")]);
        check(&["d/cold", "d/z"], true, &[("d/", "cold? z")]);
        // Hidden keys, and what is in front of what hides them.
        check(
            &["d/", "d//x", "d/./x", "d/a/../x", "d/b//", "d/c/", "e"],
            true,
            &[("d/", "a/ b/ c/")],
        );
    }
}
