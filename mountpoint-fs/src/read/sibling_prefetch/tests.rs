//! Orders in which files are opened, and the prefetch of each.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;

use mountpoint_client::types::{ETag, Key};
use rand::prelude::*;

use super::runs::{Runs, SIBLING_RUNS_MAX, SIBLINGS_AHEAD_MAX, SIBLINGS_AHEAD_MOUNT_MAX, Sibling};

/// Directories of `files` files each, without any bytes.
struct Model {
    files: usize,
    runs: Runs<String>,
    /// Number of opens of prefetched files.
    hits: usize,
    /// Prefetched files of all directories.
    asked: BTreeSet<String>,
    opened: BTreeSet<String>,
}

impl Model {
    fn new(files: usize) -> Self {
        Self {
            files,
            runs: Runs::default(),
            hits: 0,
            asked: BTreeSet::new(),
            opened: BTreeSet::new(),
        }
    }

    fn open(&mut self, directory: &str, number: usize) {
        let name = format!("{number:06}");
        self.hits += usize::from(self.runs.take(directory, &name).is_some());
        let mut removed = Vec::new();
        self.runs.opened(directory, &name, &mut removed);
        self.opened.insert(format!("{directory}{name}"));
        if let Some(lack) = self.runs.lack() {
            let behind: usize = lack.behind.parse().unwrap();
            let files = (behind + 1..self.files).take(lack.count);
            let files = files.map(|number| next(directory, number)).collect();
            self.runs.extend(directory, &lack, files);
        }
        let asked = RefCell::new(&mut self.asked);
        self.runs.ask(|next| {
            let path = next.key.as_str().to_owned();
            assert!(asked.borrow_mut().insert(path.clone()), "{path} twice");
            Some(path)
        });
    }

    fn wasted(&self) -> usize {
        self.asked.difference(&self.opened).count()
    }
}

fn next(directory: &str, number: usize) -> Sibling {
    let name: Arc<str> = Arc::from(format!("{number:06}"));
    Sibling {
        key: Key::parse(&format!("{directory}{name}")).unwrap(),
        name,
        etag: ETag::from_header("\"e\""),
        size: 100,
        is_wanted: true,
    }
}

#[test]
fn one_worker_in_order() {
    let mut model = Model::new(1000);
    for number in 0..1000 {
        model.open("d/", number);
        let asked = model.asked.len();
        match number {
            0..3 => assert_eq!(asked, 0),
            3 => assert_eq!(asked, 4),
            4..200 => assert!(asked <= number + 1 + SIBLINGS_AHEAD_MAX),
            _ => {}
        }
    }
    assert_eq!((model.hits, model.wasted()), (996, 0));
}

#[test]
fn workers_that_share_a_directory() {
    for workers in [2, 4, 16] {
        let mut random = StdRng::seed_from_u64(workers as u64);
        let mut model = Model::new(2000);
        // Each worker has taken a file, and the workers open them in any order.
        let mut rest = 0..2000;
        let mut hands: Vec<usize> = rest.by_ref().take(workers).collect();
        while !hands.is_empty() {
            let one = random.random_range(0..hands.len());
            model.open("d/", hands[one]);
            match rest.next() {
                Some(next) => hands[one] = next,
                None => drop(hands.swap_remove(one)),
            }
        }
        assert_eq!(model.wasted(), 0, "{workers}");
        assert!(model.hits >= 1800, "{workers}: {} hits", model.hits);
    }
}

#[test]
fn workers_with_batches_of_their_own() {
    let (workers, batch) = (16, 64);
    let mut model = Model::new(workers * batch * 2);
    for round in 0..2 {
        for step in 0..batch {
            for worker in 0..workers {
                model.open("d/", (round * workers + worker) * batch + step);
            }
        }
    }
    assert_eq!(model.wasted(), 0);
    let opened = workers * batch * 2;
    assert!(model.hits >= opened * 9 / 10, "{} of {opened}", model.hits);
}

/// Waste of the prefetch in other orders.
#[test]
fn other_orders() {
    let opens = |numbers: Vec<usize>| {
        let mut model = Model::new(4000);
        numbers
            .into_iter()
            .for_each(|number| model.open("d/", number));
        model.wasted()
    };
    let mut random = StdRng::seed_from_u64(3);
    let mut shuffled: Vec<usize> = (0..4000).collect();
    shuffled.shuffle(&mut random);
    assert_eq!(opens(shuffled), 0);
    assert_eq!(opens((0..4000).rev().collect()), 0);
    assert_eq!(opens((0..4000).step_by(2).collect()), 0);
    assert_eq!(opens((0..4000).step_by(3).collect()), 0);
    // Every tenth file is skipped.
    let most = (0..4000).filter(|number| number % 10 != 9).collect();
    assert_eq!(opens(most), 400);
    // A pattern that ends wastes its prefetch.
    assert_eq!(opens((0..10).collect()), 10);
    assert_eq!(opens((0..500).collect()), SIBLINGS_AHEAD_MAX);
    assert_eq!(opens(vec![7; 100]), 0, "one file again and again");
}

#[test]
fn directories_are_apart_and_everything_is_bounded() {
    let mut model = Model::new(1000);
    for number in 0..100 {
        for directory in 0..2 * SIBLING_RUNS_MAX {
            model.open(&format!("{directory}/"), number);
        }
    }
    assert_eq!(model.asked.len(), 0, "too many places at once");
    let mut model = Model::new(1000);
    for number in 0..100 {
        for directory in 0..SIBLING_RUNS_MAX {
            model.open(&format!("{directory}/"), number);
        }
        assert!(model.asked.difference(&model.opened).count() <= SIBLINGS_AHEAD_MOUNT_MAX);
    }
    assert!(model.hits > 1000, "{}", model.hits);
}

#[test]
fn what_is_not_to_be_fetched_is_left_out_but_belongs_to_the_order() {
    let mut runs: Runs<()> = Runs::default();
    let name = |number: usize| format!("{number:06}");
    let mut asked = Vec::new();
    for number in 0..8 {
        runs.opened("", &name(number), &mut Vec::new());
        if let Some(lack) = runs.lack() {
            let behind: usize = lack.behind.parse().unwrap();
            let files = (behind + 1..40).take(lack.count).map(|number| Sibling {
                is_wanted: number % 3 == 0,
                ..next("", number)
            });
            runs.extend("", &lack, files.collect());
        }
        runs.ask(|next| {
            asked.push(next.name.parse::<usize>().unwrap());
            Some(())
        });
    }
    assert_eq!(asked, [6, 9, 12, 15, 18, 21, 24, 27, 30]);
}

#[test]
fn what_is_refused_is_asked_for_at_the_next_open() {
    let mut runs: Runs<()> = Runs::default();
    for number in 0..5 {
        runs.opened("", &format!("{number:06}"), &mut Vec::new());
        if let Some(lack) = runs.lack() {
            let behind: usize = lack.behind.parse().unwrap();
            let files = (behind + 1..behind + 1 + lack.count).map(|number| next("", number));
            runs.extend("", &lack, files.collect());
        }
        let mut asked = 0;
        runs.ask(|_| {
            asked += 1;
            (number == 4).then_some(())
        });
        assert_eq!(asked, [0, 0, 0, 1, 5][number]);
    }
    let mut removed = Vec::new();
    runs.retain(|()| false, &mut removed);
    assert_eq!(removed.len(), 5);
    assert!(runs.take("", "000005").is_none());
}
