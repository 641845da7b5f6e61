use std::collections::HashSet;

use super::*;
use crate::reader_memory;

#[track_caller]
fn check(names: &[&str], expected: Result<&[&str], &str>) {
    let all = all(&Dataset::new(false));
    let names: Vec<_> = names.iter().map(ToString::to_string).collect();
    let found = select(&all, &names);
    let found = found
        .as_ref()
        .map(|chosen| chosen.iter().map(|row| row.name.as_str()).collect());
    let expected: Result<Vec<_>, _> = expected.map(<[_]>::to_vec);
    assert_eq!(found.map_err(String::as_str), expected, "{names:?}");
}

#[test]
fn workloads_are_chosen_by_name_and_beginning() {
    check(&["seq-1x1m"], Ok(&["seq-1x1m"]));
    check(&["seq-1x1m*"], Ok(&["seq-1x1m", "seq-1x1m-direct"]));
    check(&["seq-1x1m", "seq-1x1m"], Ok(&["seq-1x1m"]));
    check(&["seq", "fast"], Err("fast"));
    check(&["fast*"], Err("fast*"));
}

#[test]
fn workloads_are_chosen_by_group() {
    let all = all(&Dataset::new(false));
    // A recorded pattern is there if one is given.
    for group in Group::ALL
        .into_iter()
        .filter(|group| *group != Group::Replay)
    {
        let chosen = select(&all, &[group.name().to_owned()]).unwrap();
        assert!(chosen.iter().all(|workload| workload.group == group));
        assert!(!chosen.is_empty(), "{group:?}");
    }
    assert_eq!(select(&all, &["all".to_owned()]).unwrap().len(), all.len());
}

#[test]
fn workloads_that_compare_transports_are_chosen_together() {
    let all = all(&Dataset::new(false));
    let chosen = select(&all, &["fuse".to_owned()]).unwrap();
    assert_eq!(chosen.len(), FUSE.len());
}

#[test]
fn each_set_that_is_read_is_there_once() {
    let data = Dataset::new(true);
    let all = all(&data);
    let names = ["seq-1x256k", "seq-8x256k", "write-1x1m", "ttfb"].map(str::to_owned);
    let sets = files_read(&select(&all, &names).unwrap());
    let found: Vec<_> = sets.iter().map(|set| (set.prefix, set.count)).collect();
    let streams = (data.streams.prefix, 8);
    let cold = (data.cold.prefix, data.cold.count);
    assert!(
        found.contains(&streams) && found.contains(&cold),
        "{found:?}"
    );
    assert!(!found.iter().any(|(prefix, _)| *prefix == "written"));
}

#[test]
fn names_are_unique() {
    let mut names = HashSet::new();
    for group in Group::ALL {
        assert!(names.insert(group.name().to_owned()));
    }
    for workload in all(&Dataset::new(true)) {
        assert!(names.insert(workload.name.clone()), "{}", workload.name);
    }
}

#[test]
fn blocks_divide_files() {
    for workload in all(&Dataset::new(true)) {
        if let Action::Sequential { files, block, .. } | Action::Random { files, block, .. } =
            workload.action
        {
            assert_eq!(files.size % block, 0, "{}", workload.name);
        }
    }
}

#[test]
fn what_a_filled_cache_holds_is_read_before() {
    let all = all(&Dataset::new(true));
    let with_cache = |name: &str| all.iter().filter(|row| row.name.starts_with(name)).count();
    assert_eq!(
        (with_cache("cache-1x256k-"), with_cache("cache-8x256k-")),
        (4, 4)
    );
    for workload in &all {
        let Some(state) = workload.cache else {
            continue;
        };
        assert_eq!(workload.group, Group::DiskCache, "{}", workload.name);
        let filled_with = workload.before.map(|before| before.files());
        let expected = state.is_filled().then(|| workload.action.files());
        assert_eq!(filled_with, expected, "{}", workload.name);
    }
}

#[test]
fn shared_caches_are_measured_as_those_on_disk() {
    let all = all(&Dataset::new(true));
    let row = |name: &str| all.iter().find(|row| row.name == name).unwrap();
    for state in ["cold", "remounted"] {
        let on_disk = row(&format!("cache-4x256k-{state}"));
        let shared = row(&format!("cache-shared-4x256k-{state}"));
        assert!(shared.is_cache_shared && !on_disk.is_cache_shared);
        assert_eq!(shared.cache, on_disk.cache);
        assert_eq!(shared.action.files(), on_disk.action.files());
        assert!(!shared.description.contains("on disk"), "{state}");
    }
}

#[test]
fn the_second_epoch_is_larger_than_the_memory_of_readers() {
    for quick in [false, true] {
        let all = all(&Dataset::new(quick));
        let row = all.iter().find(|row| row.name == "cache-epoch2-warm");
        let files = row.unwrap().action.files();
        assert!(files.count * files.size > reader_memory::LIMIT, "{quick}");
    }
}

#[test]
fn less_time_and_more_throughput_are_better() {
    assert!(Unit::MillisecondsInAll.advantage(1.0, 2.0) > 1.0);
    assert!(Unit::GigabytesPerSecond.advantage(2.0, 1.0) > 1.0);
}

#[test]
fn sizes_are_short() {
    for (bytes, expected) in [(4096, "4k"), (1 << 18, "256k"), (1 << 20, "1m")] {
        assert_eq!(short(bytes), expected);
    }
}
