use mountpoint_client::types::{ETag, Key, ListOutput, ObjectInfo};

use super::credit::WALK_CREDIT;
use super::credit::WALK_CREDIT_PERIOD;
use super::credit::WALK_USES_PER_WASTE;
use super::credit::WALK_WINDOW;
use super::seen::WALK_NAMES_MAX;
use super::*;
use crate::namespace::listing::page::Listed;
use crate::namespace::version::Found;

const TTL: Duration = Duration::from_secs(1);

fn at(millis: u64) -> Duration {
    Duration::from_secs(100) + Duration::from_millis(millis)
}

/// A page of a whole directory of subdirectories.
fn page(names: &[&str], asked: Duration) -> Page {
    let listed = |name: &&str| Listed {
        name: Arc::from(*name),
        found: Found::Directory,
        is_certain: true,
    };
    Page::whole(names.iter().map(listed).collect(), asked)
}

fn shown(prefixes: &[&str], asked: Duration) -> WalkAnswer {
    let whole = |prefix: &&str| (Arc::from(*prefix), Arc::new(page(&["x"], asked)));
    let whole = prefixes.iter().map(whole).collect();
    WalkAnswer::Subtree(SubtreeAnswer { whole, large: None })
}

/// An answer about a directory with one file and these subdirectories.
fn listed(prefix: &str, subdirectories: &[&str], asked: Duration) -> WalkAnswer {
    let common_prefixes = subdirectories.iter();
    let file = ObjectInfo {
        key: Key::parse(&format!("{prefix}file")).unwrap(),
        size: 1,
        etag: ETag::from_header("\"e\""),
        last_modified: std::time::SystemTime::UNIX_EPOCH,
        storage_class: None,
        restored: false,
    };
    let listed = ListOutput {
        objects: vec![file],
        common_prefixes: common_prefixes
            .map(|name| format!("{prefix}{name}/"))
            .collect(),
        ..ListOutput::default()
    };
    WalkAnswer::Directory(FirstAnswer::new(listed, asked))
}

/// Walks in which a program has listed `t/`, with these subdirectories.
fn walks(is_ordered: bool, names: &[&str]) -> Walks {
    let mut walks = Walks::new(TTL, is_ordered);
    walks.credit.renew(at(0));
    walks.page_read("t/", &page(names, at(0)), at(0));
    walks
}

fn scopes(requests: &[WalkRequest]) -> Vec<String> {
    let text = |request: &WalkRequest| match &request.scope {
        WalkScope::Directory(prefix) => prefix.to_string(),
        WalkScope::Subtree { root, from } => format!("{root} from {from}"),
    };
    requests.iter().map(text).collect()
}

#[test]
fn the_first_step_sends_one_request_and_the_next_uses_it() {
    let mut walks = walks(true, &["a", "b", "c", "d"]);
    let first = walks.open("t/a/", at(1));
    assert!(first.listed.is_none() && first.awaits.is_none());
    assert_eq!(scopes(&first.requests), ["t/ from t/a/"]);
    // The directory waits for the answer, which may list it.
    let id = first.requests[0].id;
    let second = walks.open("t/b/", at(2));
    assert_eq!((second.awaits, second.requests.len()), (Some(id), 0));
    let answer = shown(&["t/a/", "t/b/", "t/b/x/", "t/c/"], at(1));
    // The next LIST begins at the first directory that was not listed completely.
    let next = walks.arrived(id, answer, 0, at(20));
    assert_eq!(scopes(&next), ["t/ from t/d/"]);
    assert!(walks.take("t/b/", at(2), at(2)).is_some());
    assert!(walks.take("t/b/", at(2), at(2)).is_none(), "once");
    assert!(
        walks.take("t/a/", at(2), at(2)).is_none(),
        "it was opened before"
    );
    walks.page_read("t/b/", &page(&["x"], at(1)), at(20));
    let third = walks.open("t/b/x/", at(21));
    assert!(third.listed.is_some() && third.requests.is_empty());
    let stats = WalkStats {
        requests: 2,
        wasted: 0,
        directories: 2,
    };
    assert_eq!(walks.stats(), stats);
    assert_eq!(walks.untold_stats(), Some(stats));
    assert_eq!(walks.untold_stats(), None);
}

#[test]
fn large_directories_are_listed_by_themselves_ever_more_at_once() {
    let names: Vec<String> = (10..90).map(|number| format!("{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for is_ordered in [true, false] {
        let mut walks = walks(is_ordered, &names);
        let mut in_flight: Vec<WalkRequest> = Vec::new();
        let mut at_once = Vec::new();
        let mut now = 1;
        for name in &names {
            let prefix = format!("t/{name}/");
            let opening = walks.open(&prefix, at(now));
            in_flight.extend(opening.requests);
            if opening.listed.is_some() {
                continue;
            }
            at_once.push(in_flight.len());
            now += 20;
            for request in std::mem::take(&mut in_flight) {
                let answer = match &request.scope {
                    WalkScope::Directory(prefix) => listed(prefix, &[], at(now - 20)),
                    WalkScope::Subtree { .. } => WalkAnswer::Subtree(SubtreeAnswer::default()),
                };
                in_flight.extend(walks.arrived(request.id, answer, 0, at(now)));
            }
            walks.take(&prefix, at(now - 20), at(now - 20));
        }
        let most = at_once.iter().max().unwrap();
        assert!(at_once.len() <= 14 && *most >= 16, "{at_once:?}");
        let stats = walks.stats();
        let most = if is_ordered { 80 + 6 } else { 80 };
        assert!(stats.requests <= most, "{stats:?}");
    }
}

/// An answer about `t/a/` with more below it than a LIST shows tells that the directories beside it
/// are large, too.
#[test]
fn directories_beside_a_large_one_are_listed_by_themselves() {
    let mut walks = walks(true, &["a", "b", "c", "d"]);
    let first = walks.open("t/a/", at(1)).requests;
    assert_eq!(scopes(&first), ["t/ from t/a/"]);
    walks.page_read("t/a/", &page(&["x", "y", "z"], at(1)), at(20));
    walks.open("t/a/x/", at(20));
    let WalkAnswer::Subtree(answer) = shown(&["t/a/x/", "t/a/y/", "t/a/z/"], at(1)) else {
        unreachable!()
    };
    let answer = SubtreeAnswer {
        large: Some(Arc::from("t/a/")),
        ..answer
    };
    let next = walks.arrived(first[0].id, WalkAnswer::Subtree(answer), 0, at(21));
    assert_eq!(scopes(&next), ["t/b/", "t/c/", "t/d/"]);
    // One that is small and has no subdirectories tells the contrary.
    walks.arrived(next[0].id, listed("t/b/", &[], at(21)), 0, at(41));
    assert!(!walks.large.is_likely("t/d/"));
}

/// An answer is used if its request was sent less than a second ago.
#[test]
fn what_is_too_old_is_not_handed_out() {
    for (age_ms, is_used) in [(0, true), (999, true), (1_000, false), (5_000, false)] {
        let mut walks = walks(true, &["a", "b", "c"]);
        let id = walks.open("t/a/", at(1)).requests[0].id;
        walks.arrived(id, shown(&["t/b/", "t/c/"], at(1)), 0, at(2));
        assert_eq!(walks.open("t/b/", at(1 + age_ms)).listed.is_some(), is_used);
        assert_eq!(walks.stats().wasted, u64::from(!is_used));
        walks.expire(at(100_000));
        assert_eq!((walks.upcoming.names(), walks.upcoming.ready()), (0, 0));
        assert!(walks.requests.values().all(|sent| sent.is_in_flight));
    }
}

#[test]
fn what_was_seen_since_is_not_taken_back() {
    let begun = || {
        let mut walks = walks(true, &["a", "b", "c"]);
        let id = walks.open("t/a/", at(1)).requests[0].id;
        walks.arrived(id, shown(&["t/b/", "t/c/"], at(1)), 0, at(2));
        walks
    };
    // A program listed the directory itself later.
    let mut walks = begun();
    walks.page_read("t/b/", &page(&["x"], at(3)), at(4));
    assert!(walks.take("t/b/", at(5), at(5)).is_none());
    // A lookup of a name in the directory came later.
    for (name, is_there, asked, is_used) in [
        ("new", true, at(3), false),
        ("new", true, at(0), true),
        ("new", false, at(3), true),
        ("x", true, at(3), true),
        ("x", false, at(3), false),
    ] {
        let mut walks = begun();
        walks.looked_up(("t/b/", name), is_there, asked);
        let taken = walks.take("t/b/", at(5), at(5));
        assert_eq!(taken.is_some(), is_used, "{name} {is_there}");
        assert!(walks.take("t/c/", at(5), at(5)).is_some());
    }
    let mut walks = walks_of_one_directory();
    walks.looked_up(("t/b/", "new"), true, at(9));
    assert!(walks.take("t/b/", at(10), at(10)).is_none());
}

/// Walks in which the directory `t/b/` was listed by itself.
fn walks_of_one_directory() -> Walks {
    let mut walks = walks(false, &["a", "b"]);
    walks.open("t/a/", at(1));
    walks.page_read("t/a/", &page(&["z"], at(1)), at(2));
    let request = walks.open("t/a/z/", at(2)).requests.remove(0);
    assert_eq!(request.scope, WalkScope::Directory(Arc::from("t/b/")));
    walks.arrived(request.id, listed("t/b/", &["y"], at(2)), 0, at(3));
    walks
}

#[test]
fn what_a_directory_ahead_shows_is_listed_ahead_too() {
    let mut walks = walks_of_one_directory();
    let opening = walks.open("t/b/", at(4));
    assert!(opening.listed.is_some());
    let sent = walks.requests.values().map(|sent| sent.scope.clone());
    let sent: Vec<WalkScope> = sent.collect();
    assert!(
        sent.contains(&WalkScope::Directory(Arc::from("t/b/y/"))),
        "{sent:?}"
    );
}

/// Programs that only seem to walk waste a bounded number of LISTs.
#[test]
fn waste_ends() {
    let mut walks = Walks::new(TTL, true);
    walks.credit.renew(at(0));
    let mut sent = 0;
    let visit = |walks: &mut Walks, number: u64, now: Duration| {
        let parent = format!("{number}/");
        walks.page_read(&parent, &page(&["a", "b"], now), now);
        let requests = walks.open(&format!("{parent}a/"), now).requests;
        for request in &requests {
            walks.arrived(request.id, shown(&["0/x/", "0/y/", "0/z/"], now), 0, now);
        }
        requests.len()
    };
    for number in 1..50 {
        sent += visit(&mut walks, number, at(number * 20));
    }
    assert!(sent <= 4, "{sent} at once");
    for number in 50..1_000 {
        sent += visit(&mut walks, number, at(number * 20));
    }
    let renewed = 20 / WALK_CREDIT_PERIOD.as_secs() + 1;
    let most = usize::try_from(WALK_CREDIT / WALK_USES_PER_WASTE).unwrap();
    // Some LISTs may be in flight when the credit ends.
    let most = most + usize::try_from(renewed).unwrap() + WALK_WINDOW;
    assert!(sent <= most, "{sent} of {most}");
}

#[test]
fn failures_and_slow_servers_stop_it() {
    let begun = || {
        let mut walks = walks(true, &["a", "b", "c"]);
        let id = walks.open("t/a/", at(1)).requests[0].id;
        (walks, id)
    };
    let (mut walks, id) = begun();
    assert!(walks.arrived(id, WalkAnswer::Failed, 1, at(2)).is_empty());
    assert!(walks.open("t/b/", at(3)).requests.is_empty());
    assert_eq!(walks.stats().wasted, 1);

    let (mut walks, id) = begun();
    assert!(walks.arrived(id, WalkAnswer::Refused, 0, at(2)).is_empty());
    let next = walks.open("t/b/", at(3)).requests;
    assert_eq!(
        scopes(&next),
        ["t/c/"],
        "with a delimiter it may be permitted"
    );
    let answered = walks.arrived(next[0].id, WalkAnswer::Failed, 0, at(4));
    assert!(answered.is_empty());
    walks.open("t/c/", at(5));
    assert_eq!((walks.in_flight, walks.unused), (0, 0));
}

#[test]
fn memory_is_bounded() {
    let names: Vec<String> = (0..10_000).map(|number| format!("{number:04}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut walks = walks(true, &names);
    let id = walks.open("t/0000/", at(1)).requests[0].id;
    let long: Vec<&str> = names[..5_000].to_vec();
    let pages = (1..100).map(|number| {
        let prefix = Arc::from(format!("t/{number:04}/"));
        (prefix, Arc::new(page(&long, at(1))))
    });
    let answer = SubtreeAnswer {
        whole: pages.collect(),
        large: None,
    };
    walks.arrived(id, WalkAnswer::Subtree(answer), 0, at(2));
    assert!(walks.upcoming.names() <= WALK_NAMES_MAX);
    assert_eq!(walks.upcoming.ready(), WALK_NAMES_MAX / 5_000);
    let sent = walks.open("t/0001/", at(3)).requests.len() * usize::from(LIST_PAGE_KEYS);
    let held = walks.upcoming.names();
    assert!(held + sent <= WALK_NAMES_MAX, "{held} and {sent}");
}
