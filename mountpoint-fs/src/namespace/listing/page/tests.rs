//! Pages of arbitrary listings, compared with the meaning of their keys.

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

/// Merges an answer of a single key range.
fn merged(prefix: &str, listed: ListOutput, held_back: &[Listed]) -> Merged {
    let batch = Batch::of(prefix, listed);
    let reached = match (&batch.token, &batch.span) {
        (Some(_), Some((_, last))) => Reached::Key(last),
        _ => Reached::End,
    };
    merge(batch.entries, held_back, reached)
}

/// Checks one page. `keys` are objects, and common prefixes with a slash at their end. `before` are
/// the files that were held back. In `shown`, a directory's name has a slash at its end.
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
fn a_page_says_what_is_absent_between_its_keys() {
    #[track_caller]
    fn check(low: Option<&str>, high: Option<&str>, absent: &[&str], unknown: &[&str]) {
        let [low, high] = [low, high].map(|key| key.map(Arc::from));
        let is_there = Listed::kept(Arc::from("m"));
        let page = Page::between(vec![is_there], Duration::ZERO, Span { low, high });
        for name in absent {
            assert!(page.is_without(name), "{name}");
        }
        for name in unknown.iter().chain(&["m"]) {
            assert!(!page.is_without(name), "{name}");
        }
    }
    check(None, None, &["a", "z"], &[]);
    check(Some("c"), None, &["c1", "ca", "z"], &["b", "c"]);
    // The directory `p` would be sorted behind `p-1` and `p.x`.
    check(
        None,
        Some("p.x"),
        &["a", "o", "p-", "p-0"],
        &["p", "p.x", "q"],
    );
    check(None, Some("p/"), &["p"], &["p0"]);
    check(Some("c"), Some(""), &[], &["a", "c", "d"]);
    let some = Page::some(Vec::new(), Duration::ZERO);
    assert!(!some.is_without("a"));
    assert!(Page::whole(Vec::new(), Duration::ZERO).is_without("a"));
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

    /// Any division of a listing into pages shows each visible name once, with its kind.
    #[test]
    fn any_cut_shows_the_same(
        keys in prop::collection::btree_set("[ab!./]{1,4}", 0..40),
        cuts in prop::collection::vec(1..6usize, 40),
    ) {
        // The keys that S3 lists: cut at the first slash, sorted.
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
