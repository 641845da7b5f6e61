//! Cached pages as proof of presence and absence, the files behind a name, and the bounds.

use std::time::SystemTime;

use mountpoint_client::types::ETag;

use super::RECENT_NAMES_MAX;
use super::RECENT_PAGES_MAX;
use super::*;
use crate::namespace::Version;
use crate::namespace::listing::page::{ListingNo, Span};

const D: &str = "d/";

fn page(names: &[&str]) -> Arc<Page> {
    let listed = |name: &&str| Listed {
        name: Arc::from(*name),
        found: Found::Directory,
        is_certain: *name != "u",
    };
    let entries = names.iter().map(listed).collect();
    Arc::new(Page::some(entries, Duration::ZERO))
}

/// All pages of one listing.
fn pages(names: &[&[&str]], asked: Duration) -> Vec<Arc<Page>> {
    let listing = ListingNo::next();
    let part = |(number, part): (usize, &&[&str])| {
        let place = Place {
            listing,
            number,
            is_last: number + 1 == names.len(),
        };
        Arc::new(Page::part(page(part).entries.clone(), asked, place))
    };
    names.iter().enumerate().map(part).collect()
}

fn at(seconds: u64) -> Moment {
    Duration::from_secs(seconds).into()
}

#[test]
fn answers_what_is_there_and_valid() {
    let recent = ListingCache::default();
    recent.delivered(D, &page(&["a", "b", "u"]), at(0), at(1));
    assert_eq!(recent.find(D, "a", at(0)).unwrap().valid_until, at(1));
    assert!(recent.find(D, "c", at(0)).is_none());
    assert!(recent.find(D, "u", at(0)).is_none(), "not certain");
    assert!(recent.find(D, "a", at(1)).is_none(), "too old");
    assert!(recent.find("e/", "a", at(0)).is_none(), "another directory");
}

#[test]
fn the_page_that_was_asked_for_last_says_it() {
    let recent = ListingCache::default();
    let second = Duration::from_secs(1);
    let asked = |asked: u32| pages(&[&["a"]], asked * second).remove(0);
    for page in [asked(1), asked(3), asked(2)] {
        recent.delivered(D, &page, at(3), at(9));
    }
    assert_eq!(recent.find(D, "a", at(4)).unwrap().asked, 3 * second);
}

#[test]
fn absence_is_told_by_all_pages_of_a_young_listing() {
    let second = Duration::from_secs(1);
    let recent = ListingCache::default();
    let absent = |name| recent.absent(D, name);
    let listed = pages(&[&["a"], &["c"]], second);
    recent.delivered(D, &listed[0], at(1), at(60));
    recent.delivered(D, &page(&["d"]), at(1), at(60));
    assert_eq!(absent("b"), None, "one of two pages");
    recent.delivered(D, &listed[1], at(2), at(60));
    assert_eq!(absent("b"), Some(second));
    for known in ["a", "c", "d"] {
        assert_eq!(absent(known), None, "{known}");
    }
    assert_eq!(recent.absent("e/", "b"), None);
    // An empty directory has a page, too.
    recent.delivered("e/", &pages(&[&[]], second)[0], at(1), at(60));
    assert_eq!(recent.absent("e/", "b"), Some(second));
    recent.distrust(D, "a");
    assert_eq!(absent("b"), None);
}

#[test]
fn absence_is_told_by_a_page_of_names_around() {
    let second = Duration::from_secs(1);
    let recent = ListingCache::default();
    let absent = |name| recent.absent(D, name);
    let entries = |names| page(names).entries.clone();
    let around = Span {
        low: Some(Arc::from("b")),
        high: Some(Arc::from("f")),
    };
    let around = Arc::new(Page::between(entries(&["c"]), 3 * second, around));
    recent.delivered(D, &around, at(3), at(60));
    for (name, expected) in [
        ("a", None),
        ("b", None),
        ("c", None),
        ("d", Some(3 * second)),
        ("f", None),
    ] {
        assert_eq!(absent(name), expected, "{name}");
    }
    recent.delivered(D, &pages(&[&["b"], &["c"]], second)[1], at(3), at(60));
    assert_eq!(absent("d"), Some(3 * second), "half a listing is none");
    for part in pages(&[&["b"], &["c"]], 5 * second) {
        recent.delivered(D, &part, at(5), at(60));
    }
    assert_eq!(absent("d"), Some(5 * second), "the last word counts");
    assert_eq!(absent("a"), Some(5 * second));
    recent.delivered(D, &page(&["d"]), at(5), at(60));
    assert_eq!(absent("d"), None, "another page has it");
}

#[test]
fn delivering_again_makes_it_valid_again_and_distrust_ends_it() {
    let recent = ListingCache::default();
    let (first, second) = (page(&["a", "b"]), page(&["a", "c"]));
    recent.delivered(D, &first, at(0), at(1));
    recent.delivered(D, &first, at(1), at(2));
    recent.delivered(D, &second, at(1), at(2));
    recent.delivered("e/", &page(&["a"]), at(1), at(2));
    assert!(recent.find(D, "b", at(1)).is_some());
    recent.distrust(D, "a");
    assert!(recent.find(D, "b", at(1)).is_none());
    assert!(recent.find(D, "c", at(1)).is_none());
    assert!(recent.find("e/", "a", at(1)).is_some());
}

#[test]
fn files_behind_a_name_come_in_order_from_page_to_page() {
    let file = |name: &str| Listed {
        name: Arc::from(name),
        found: Found::File(Version {
            size: 1,
            etag: ETag::from_header("\"e\""),
            mtime: SystemTime::UNIX_EPOCH,
            is_archived: false,
        }),
        is_certain: true,
    };
    let files = |names: &[&str]| {
        let entries = names.iter().map(|name| file(name)).collect();
        let asked = Duration::ZERO;
        Arc::new(Page::some(entries, asked))
    };
    let recent = ListingCache::default();
    recent.delivered(D, &files(&["d", "e"]), at(0), at(3));
    recent.delivered(D, &files(&["a", "b", "c"]), at(0), at(2));
    recent.delivered(D, &page(&["f"]), at(0), at(3));
    recent.delivered("e/", &files(&["a1"]), at(0), at(3));
    let behind = |name: &str, now: u64, count: usize| -> Vec<String> {
        let found = recent.behind(D, name, at(now), count).into_iter();
        found.map(|entry| entry.listed.name.to_string()).collect()
    };
    assert_eq!(behind("a", 0, 9), ["b", "c", "d", "e"]);
    assert_eq!(behind("", 0, 2), ["a", "b"]);
    assert_eq!(behind("bb", 0, 2), ["c", "d"]);
    assert_eq!(behind("a", 2, 9), ["d", "e"], "what is too old is left out");
    assert!(behind("e", 0, 9).is_empty(), "a directory is no file");
    assert!(behind("a", 0, 0).is_empty());
}

#[test]
fn is_bounded() {
    let recent = ListingCache::default();
    let count = || {
        let pages = recent.0.lock();
        let names: usize = pages.pages.values().map(|one| one.page.entries.len()).sum();
        assert_eq!(pages.names, names);
        let numbers: usize = pages.directories.values().map(Vec::len).sum();
        assert_eq!(pages.pages.len(), numbers);
        (pages.pages.len(), names)
    };
    for number in 0..RECENT_PAGES_MAX + 10 {
        recent.delivered(D, &page(&[&format!("{number}")]), at(0), at(1));
    }
    assert_eq!(count().0, RECENT_PAGES_MAX);
    let names: Vec<String> = (0..RECENT_NAMES_MAX / 2)
        .map(|number| format!("{number:06}"))
        .collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for _ in 0..3 {
        recent.delivered(D, &page(&names), at(0), at(1));
    }
    assert_eq!(count(), (2, RECENT_NAMES_MAX));
    recent.delivered(D, &page(&["x"]), at(5), at(6));
    assert_eq!(count(), (1, 1), "expired ones are dropped");
    recent.delivered(D, &page(&[]), at(5), at(6));
    recent.expire(at(6));
    assert_eq!(count(), (0, 0));
    assert!(recent.0.lock().directories.is_empty());
}
