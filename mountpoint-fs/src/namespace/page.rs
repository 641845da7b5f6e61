//! One page of a directory, merged from what S3 listed.
//!
//! Pure. S3 orders a directory `a` as `a/`, so between the file `a` and the directory `a` there may be others (`a!`,
//! `a-b`, `a.txt`), and pages of them. The directory shadows the file, and a listing shows each name once:
//!
//! * on one page, the directory is shown;
//! * if the file was shown on an earlier page, the directory is left out of this listing. A lookup of the name finds
//!   the directory all the same: a file that may yet be shadowed is shown, but is not valid without a lookup.
//!
//! To know which names those are it is enough to carry, from page to page, the files that the last key of the page
//! begins with: all others can no longer be shadowed.

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
    /// Whether a lookup now would find the same: not for a file that a later page may shadow, and not for an
    /// archived object, because listings do not say whether it has been restored.
    pub is_certain: bool,
}

/// One page of a directory: visible names in byte order, each once.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The names.
    pub entries: Vec<Listed>,
    /// When S3's answer arrived, on the mount's clock.
    pub at: Duration,
}

impl Page {
    /// The entry called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Listed> {
        let found = self.entries.binary_search_by(|entry| entry.name.as_ref().cmp(name));
        found.ok().map(|index| &self.entries[index])
    }
}

/// A page, and the files on it and before it that the next pages may shadow.
#[derive(Debug)]
pub(super) struct Merged {
    pub(super) entries: Vec<Listed>,
    pub(super) open_files: Vec<Arc<str>>,
}

/// Merges what S3 listed of the directory `prefix` behind `open_files`, which were shown on earlier pages.
pub(super) fn merge(prefix: &str, listed: &ListOutput, open_files: &[Arc<str>]) -> Merged {
    // Where the page ends, relative to the directory. On the last page nothing follows.
    let end = listed.continuation_token.as_ref().map(|_| last_key(prefix, listed));
    let may_be_shadowed = |name: &str| end.is_some_and(|end| end.starts_with(name) && end < &*format!("{name}/"));

    let directories = listed.common_prefixes.iter().filter_map(|key| names::directory_name(prefix, key));
    let mut entries: Vec<Listed> = directories
        .filter(|name| !open_files.iter().any(|file| **file == **name))
        .map(|name| Listed { name: Arc::from(name), found: Found::Directory, is_certain: true })
        .collect();
    entries.extend(listed.objects.iter().filter_map(|object| {
        let name = names::file_name(prefix, object.key.as_str())?;
        let version = Version::from(object);
        let is_certain = !version.is_archived && !may_be_shadowed(name);
        Some(Listed { name: Arc::from(name), found: Found::File(version), is_certain })
    }));
    // Stable, and directories are in front: of two equal names the directory stays.
    entries.sort_by(|a, b| a.name.cmp(&b.name));
    entries.dedup_by(|later, kept| later.name == kept.name);

    let files = entries.iter().filter(|entry| entry.found != Found::Directory).map(|entry| &entry.name);
    let open_files = files.chain(open_files).filter(|name| may_be_shadowed(name)).map(Arc::clone).collect();
    Merged { entries, open_files }
}

/// The last key or common prefix of a page, relative to the directory.
fn last_key<'a>(prefix: &str, listed: &'a ListOutput) -> &'a str {
    let object = listed.objects.iter().map(|object| object.key.as_str()).max();
    let common = listed.common_prefixes.iter().map(String::as_str).max();
    object.max(common).and_then(|key| key.strip_prefix(prefix)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use mountpoint_client::types::{ETag, Key, ObjectInfo};

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

    /// `keys`: objects, and common prefixes with a slash at their end. `expected`: names; `/` behind a directory,
    /// `?` behind what is not certain.
    #[track_caller]
    fn check(prefix: &str, keys: &[&str], is_last: bool, open_files: &[&str], expected: &[&str], open: &[&str]) {
        let (common, objects): (Vec<&str>, Vec<&str>) =
            keys.iter().partition(|key| key.ends_with('/') && **key != prefix);
        let listed = ListOutput {
            objects: objects.into_iter().map(object).collect(),
            common_prefixes: common.into_iter().map(str::to_owned).collect(),
            continuation_token: (!is_last).then(|| "more".to_owned()),
        };
        let open_files: Vec<Arc<str>> = open_files.iter().map(|name| Arc::from(*name)).collect();
        let merged = merge(prefix, &listed, &open_files);
        let shown: Vec<String> = merged
            .entries
            .iter()
            .map(|entry| {
                let kind = if entry.found == Found::Directory { "/" } else { "" };
                format!("{}{kind}{}", entry.name, if entry.is_certain { "" } else { "?" })
            })
            .collect();
        assert_eq!(shown, expected);
        assert_eq!(merged.open_files.iter().map(|name| &**name).collect::<Vec<_>>(), open);
    }

    #[test]
    fn objects_and_prefixes_in_order_of_name() {
        check("", &[], true, &[], &[], &[]);
        check("", &["a-b", "a/", "a0"], true, &[], &["a/", "a-b", "a0"], &[]);
        check("d/", &["d/b", "d/a/", "d/c/"], true, &[], &["a/", "b", "c/"], &[]);
    }

    #[test]
    fn hidden_keys() {
        check("d/", &["d/", "d//", "d/./", "d/../", "d/..", "d/x"], true, &[], &["x"], &[]);
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
        check("d/", &["d/a", "d/a/", "d/b"], false, &[], &["a/", "b?"], &["b"]);
    }

    #[test]
    fn files_that_a_later_page_may_shadow_are_carried() {
        check("", &["a", "a!"], false, &[], &["a?", "a!?"], &["a", "a!"]);
        check("", &["a", "a!"], true, &[], &["a", "a!"], &[]);
        check("", &["a", "a0"], false, &[], &["a", "a0?"], &["a0"]);
        check("", &["a-b", "a-c"], false, &["a"], &["a-b", "a-c?"], &["a-c", "a"]);
        check("", &["a.x", "a/", "b"], false, &["a"], &["a.x", "b?"], &["b"]);
        check("", &["a.x", "a/"], true, &["a"], &["a.x"], &[]);
        check("d/", &["d/a.x", "d/a/"], false, &["a"], &["a.x"], &[]);
        // The page may end with a directory: `a!/` is between `a` and `a/`.
        check("", &["a", "a!/"], false, &[], &["a?", "a!/"], &["a"]);
    }

    #[test]
    fn archived_objects_are_not_certain() {
        let mut archived = object("a");
        archived.storage_class = Some("GLACIER".to_owned());
        let mut restored = object("b");
        restored.storage_class = Some("DEEP_ARCHIVE".to_owned());
        restored.restored = true;
        let listed = ListOutput { objects: vec![archived, restored], ..ListOutput::default() };
        let merged = merge("", &listed, &[]);
        assert_eq!(merged.entries.iter().map(|entry| entry.is_certain).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn entries_are_found_by_name() {
        let listed = ListOutput {
            objects: vec![object("a"), object("a-b"), object("c")],
            common_prefixes: vec!["a/".to_owned()],
            ..ListOutput::default()
        };
        let page = Page { entries: merge("", &listed, &[]).entries, at: Duration::ZERO };
        assert_eq!(page.find("a").unwrap().found, Found::Directory);
        assert!(page.find("a-b").is_some());
        assert!(page.find("b").is_none());
    }
}
