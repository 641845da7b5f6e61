//! Key ranges with a server that changes, fails and answers in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use mountpoint_client::types::{ETag, Key, ListOutput, ObjectInfo};
use proptest::prelude::*;

use super::*;
use crate::namespace::listing::page::merge;
use crate::namespace::names;
use crate::namespace::version::Found;

/// The keys of one directory, listed `page_len` at a time.
struct Server {
    keys: BTreeSet<String>,
    page_len: usize,
    requests: usize,
}

impl Server {
    /// S3's answer to a request from `from`, with keys rolled up to their first slash.
    fn list(&mut self, from: &From) -> ListOutput {
        self.requests += 1;
        let after = match from {
            From::Start => "",
            From::Behind(key) | From::Token(key) => key,
        };
        // Behind a common prefix means behind all keys that begin with it.
        let is_behind =
            |key: &&String| ***key > *after && !(after.ends_with('/') && key.starts_with(after));
        let mut rolled: Vec<String> = Vec::new();
        for key in self.keys.range(after.to_owned()..).filter(is_behind) {
            let entry = key.split_inclusive('/').next().unwrap();
            if rolled.last().is_none_or(|last| last != entry) {
                rolled.push(entry.to_owned());
            }
            if rolled.len() > self.page_len {
                break;
            }
        }
        let is_last = rolled.len() <= self.page_len;
        rolled.truncate(self.page_len);
        let token = rolled.last().cloned().filter(|_| !is_last);
        let (common_prefixes, objects): (Vec<_>, Vec<_>) =
            rolled.into_iter().partition(|key| key.ends_with('/'));
        let object = |key: String| ObjectInfo {
            key: Key::parse(&key).unwrap(),
            size: 1,
            etag: ETag::from_header("\"e\""),
            last_modified: SystemTime::UNIX_EPOCH,
            storage_class: None,
            restored: false,
        };
        ListOutput {
            objects: objects.into_iter().map(object).collect(),
            common_prefixes,
            continuation_token: token,
            slow_downs: 0,
        }
    }
}

/// The names that were shown; `true` for a directory.
type Shown = BTreeMap<String, bool>;

/// Lists all keys. `pick` chooses the request to answer next and whether it fails, and may change
/// the bucket.
fn list(server: &mut Server, mut pick: impl FnMut(&mut Server, usize) -> (usize, bool)) -> Shown {
    let mut ranges = Ranges::new(true);
    let (mut in_flight, mut shown, mut held_back) = (Vec::new(), Shown::new(), Vec::new());
    let mut last: Option<Option<Arc<str>>> = None;
    loop {
        while let Some(request) = ranges.next_request(true) {
            in_flight.push(request);
        }
        assert!(in_flight.len() <= LIST_REQUESTS_MAX);
        assert!(ranges.pages_ahead() <= LIST_AHEAD_PAGES_MAX);
        while let Some(part) = ranges.take() {
            let Extent::Keys { low, high } = &part.extent else {
                panic!("{part:?}")
            };
            // The keys between two pages have no visible name.
            assert!(
                last.take()
                    .is_none_or(|before| before.is_some() && before <= *low)
            );
            let merged = merge(part.entries, &held_back, part.extent.reached());
            held_back = merged.held_back;
            for entry in merged.shown {
                let is_directory = entry.found == Found::Directory;
                let before = shown.insert(entry.name.to_string(), is_directory);
                assert_eq!(before, None, "{} comes twice", entry.name);
            }
            last = Some(high.clone());
        }
        if ranges.is_finished() {
            assert!(held_back.is_empty());
            return shown;
        }
        if in_flight.is_empty() {
            continue;
        }
        let (index, fails) = pick(server, in_flight.len());
        let (id, from) = in_flight.remove(index);
        if fails {
            ranges.slow_down();
            ranges.failed(id, from);
        } else {
            let batch = Batch::of("", server.list(&from));
            ranges.arrived(id, from, batch, Duration::ZERO).unwrap();
        }
        in_flight.retain(|(id, _)| ranges.has(*id));
    }
}

fn expected(keys: &BTreeSet<String>) -> Shown {
    let mut expected = Shown::new();
    for key in keys {
        let (name, is_directory) = match key.split_once('/') {
            Some((name, _)) => (name, true),
            None => (&**key, false),
        };
        if names::is_visible(name) {
            *expected.entry(name.to_owned()).or_insert(false) |= is_directory;
        }
    }
    expected
}

/// Keys of several shapes: numbers, words, directories, or a mixture.
fn keys() -> impl Strategy<Value = BTreeSet<String>> {
    let numbered = (0..1500_usize, 1..4_usize, "[a-c]{0,2}").prop_map(|(count, step, head)| {
        (0..count)
            .map(|n| format!("{head}{:05}", n * step))
            .collect()
    });
    let mixed = prop::collection::vec("[ab]{0,1}[a-c!./]{1,5}[0-9]{0,2}", 0..400);
    let shape = prop_oneof![2 => numbered, 1 => mixed];
    prop::collection::vec(shape, 1..4)
        .prop_map(|shapes: Vec<Vec<String>>| shapes.concat().into_iter().collect())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    /// Whatever the order of answers and failures, each name is shown once, with its kind.
    #[test]
    fn every_name_once(keys in keys(), page_len in 17..60_usize, picks in prop::collection::vec((any::<usize>(), 0..12u8), 64)) {
        let mut server = Server { keys, page_len, requests: 0 };
        let expected = expected(&server.keys);
        let mut picks = picks.into_iter().cycle();
        let shown = list(&mut server, |_, count| {
            let (index, dice) = picks.next().unwrap();
            (index % count, dice == 0)
        });
        prop_assert_eq!(shown, expected);
    }

    /// Keys that come and go during a listing hide no other key.
    #[test]
    fn changes_meanwhile(keys in keys(), picks in prop::collection::vec((any::<usize>(), "[a-c]{0,2}[0-9]{0,5}[!.]x"), 32)) {
        let mut server = Server { keys: keys.clone(), page_len: 25, requests: 0 };
        let mut picks = picks.into_iter().cycle();
        let mut shown = list(&mut server, |server, count| {
            let (index, volatile) = picks.next().unwrap();
            if !server.keys.remove(&volatile) {
                server.keys.insert(volatile);
            }
            (index % count, false)
        });
        shown.retain(|name, _| !name.ends_with('x'));
        prop_assert_eq!(shown, expected(&keys));
    }
}

/// Lists names in rounds, each of which answers all requests in flight. Returns the number of
/// pages, requests and rounds.
fn rounds(names: impl Iterator<Item = String>, page_len: usize) -> (usize, usize, usize) {
    let keys: BTreeSet<String> = names.collect();
    let pages = keys.len().div_ceil(page_len);
    let mut server = Server {
        keys,
        page_len,
        requests: 0,
    };
    let (mut rounds, mut left) = (0, 0);
    // The oldest request is answered first: a round is all that were in flight when it began.
    let shown = list(&mut server, |_, count| {
        if left == 0 {
            (rounds, left) = (rounds + 1, count);
        }
        left -= 1;
        (0, false)
    });
    assert_eq!(shown.len(), server.keys.len());
    (pages, server.requests, rounds)
}

#[test]
fn small_directories_cost_no_request_more() {
    for (names, requests_max) in [
        (0, 1),
        (1, 1),
        (100, 1),
        (101, 2),
        (300, 3),
        (400, 5),
        (600, 8),
        (1000, 14),
    ] {
        let (_, requests, _) = rounds((0..names).map(|n| format!("n{n:06}")), 100);
        assert!(
            requests <= requests_max,
            "{names} names: {requests} requests"
        );
    }
}

#[test]
fn names_that_are_no_numbers_cost_a_quarter_more_at_most() {
    let hash = |n: u64| {
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(17)
            .wrapping_mul(0xBF58_476D_1CE4_E5B9)
    };
    let people = [
        "alice", "bob", "carol", "dave", "eve", "mallory", "oscar", "peggy", "trent", "victor",
        "walter",
    ];
    let shapes: [(&str, Vec<String>, usize); 5] = [
        (
            "numbers",
            (0..20_000).map(|n| format!("img_{n:06}.jpg")).collect(),
            6,
        ),
        (
            "hashes",
            (0..20_000).map(|n| format!("{:016x}", hash(n))).collect(),
            4,
        ),
        (
            "plain numbers",
            (0..20_000).map(|n| format!("{n}")).collect(),
            3,
        ),
        (
            "directories",
            (0..20_000).map(|n| format!("d{n:06}/x")).collect(),
            6,
        ),
        (
            "people",
            (0..20_000_usize)
                .map(|n| format!("{}-{:05}", people[n % people.len()], n / people.len()))
                .collect(),
            2,
        ),
    ];
    for (what, names, faster) in shapes {
        let (pages, requests, rounds) = rounds(names.into_iter(), 100);
        assert!(
            requests <= pages + pages / 4 + LIST_REQUESTS_MAX,
            "{what}: {requests} requests for {pages} pages"
        );
        assert!(
            rounds * faster <= pages,
            "{what}: {rounds} rounds for {pages} pages"
        );
    }
}

/// Lists from a server that repeats `pages` for ever; returns the number of answers until an error.
fn pages_until_refused(is_ordered: bool, pages: &[&[&str]]) -> usize {
    let mut ranges = Ranges::new(is_ordered);
    for answer in 0..1000 {
        while ranges.take().is_some() {}
        let (id, from) = ranges.next_request(true).expect("it goes on");
        let object = |key: &&str| ObjectInfo {
            key: Key::parse(key).unwrap(),
            size: 1,
            etag: ETag::from_header("\"e\""),
            last_modified: SystemTime::UNIX_EPOCH,
            storage_class: None,
            restored: false,
        };
        let listed = ListOutput {
            objects: pages[answer % pages.len()].iter().map(object).collect(),
            continuation_token: Some(format!("token {answer}")),
            ..ListOutput::default()
        };
        if ranges
            .arrived(id, from, Batch::of("", listed), Duration::ZERO)
            .is_err()
        {
            return answer + 1;
        }
    }
    panic!("{pages:?} are listed for ever");
}

#[test]
fn a_listing_that_repeats_names_under_new_tokens_ends() {
    // The listing ends at a repeated page, or in order at the first key that does not increase.
    for (is_ordered, pages, answers) in [
        (true, &[&["a", "b"][..]][..], 2),
        (true, &[&["a"]], 2),
        (true, &[&["a", "b"], &["b"]], 2),
        (false, &[&["a", "b"]], 2),
        (false, &[&["c", "d"], &["a", "b"]], 4),
        (false, &[&["e"], &["c"], &["a"]], 7),
    ] {
        assert_eq!(
            pages_until_refused(is_ordered, pages),
            answers,
            "{is_ordered} {pages:?}"
        );
    }
}
