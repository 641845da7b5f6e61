//! Walks in virtual time: their duration with slow requests, and their number of requests.

use std::time::Duration;

use super::*;
use crate::fs::tests::virtual_time::VirtualTime;

/// A mount of a bucket that answers after `latency`.
struct Far {
    mount: Mount,
    time: VirtualTime,
}

/// Order in which a program opens the subdirectories of a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The order of the listing: `find`, `du`, `grep -r`, `os.walk`.
    Listed,
    /// The order of a locale: `ls -R`.
    Collated,
    /// From the last to the first: search programs with a stack.
    Reversed,
}

impl Far {
    fn new(latency_ms: u64, keys: &[String]) -> Self {
        let mount = manual(&[], WriteConfig::default());
        for key in keys {
            mount.bucket.put_pattern(key, 1, 0);
        }
        mount.clock.advance(Duration::from_secs(1));
        let time = VirtualTime::new(&mount, Duration::from_millis(latency_ms));
        Self { mount, time }
    }

    /// Opens, reads and closes a directory and all below it. Returns the number of directories.
    fn walk(&mut self, directory: InodeNo, order: Order, pause: Duration) -> usize {
        let mut left = usize::MAX;
        self.walk_until(directory, order, pause, &mut left)
    }

    /// Walks as [`Far::walk`], through at most `left` directories, and subtracts those from `left`.
    fn walk_until(
        &mut self,
        directory: InodeNo,
        order: Order,
        pause: Duration,
        left: &mut usize,
    ) -> usize {
        if *left == 0 {
            return 0;
        }
        *left -= 1;
        let mut below = self.list(directory);
        self.time.pause(pause);
        match order {
            Order::Listed => {}
            Order::Collated => below.sort_by_key(|(name, _)| name.to_lowercase()),
            Order::Reversed => below.reverse(),
        }
        let counts = below
            .into_iter()
            .map(|(_, ino)| self.walk_until(ino, order, pause, left));
        1 + counts.sum::<usize>()
    }

    /// Opens and reads a directory. Returns its subdirectories.
    fn list(&mut self, directory: InodeNo) -> Vec<(String, InodeNo)> {
        let fs = Arc::clone(&self.mount.fs);
        let handle = self.time.run(fs.open_directory(directory)).unwrap();
        let (mut below, mut offset) = (Vec::new(), 0);
        loop {
            let mut sink = Sink::new(30);
            self.time
                .run(fs.read_directory(handle, offset, true, &mut sink))
                .unwrap();
            let Some(last) = sink.entries.last() else {
                break;
            };
            offset = last.next_offset;
            for entry in sink.entries {
                let attributes = entry.entry.attributes;
                let is_below = !matches!(&*entry.name, "." | "..");
                if is_below && attributes.kind == FileKind::Directory {
                    below.push((entry.name, attributes.ino));
                }
            }
        }
        fs.release_directory(handle);
        below
    }

    /// Number of LISTs so far.
    fn lists(&self) -> usize {
        self.mount.bucket.log().count(Operation::ListObjectsV2)
    }
}

fn files(directory: &str, count: usize) -> impl Iterator<Item = String> {
    (0..count).map(move |number| format!("{directory}/f{number:04}"))
}

/// `count` directories with `files_each` files, in parents of `each` directories.
fn tree(count: usize, each: usize, files_each: usize) -> Vec<String> {
    let directory = |number: usize| match each {
        0 => format!("t/d{number:03}"),
        _ => format!("t/Dir{:02}/x{}", number / each, number % each),
    };
    (0..count)
        .flat_map(|number| files(&directory(number), files_each).collect::<Vec<_>>())
        .collect()
}

/// Directories in directories, three in each, `depth` levels deep.
fn ternary(depth: usize, files_each: usize) -> Vec<String> {
    let mut directories = vec!["t".to_owned()];
    let mut keys = Vec::new();
    for _ in 0..depth {
        let below = directories
            .iter()
            .flat_map(|parent| ["a", "B", "c-1"].map(|name| format!("{parent}/{name}")));
        directories = below.collect();
        keys.extend(
            directories
                .iter()
                .flat_map(|directory| files(directory, files_each)),
        );
    }
    keys
}

/// Round trips that a walk may take in each order, and LISTs for 100 directories.
#[test]
fn walks_take_few_round_trips() {
    let busy = Duration::from_micros(300);
    let shapes: [(&str, Vec<String>, [u128; 3], usize); 8] = [
        ("14 directories of 50 files", tree(12, 5, 42), [3, 3, 5], 40),
        ("300 small ones", tree(300, 0, 5), [5, 5, 12], 10),
        ("300 of 30, in tens", tree(300, 30, 30), [14, 14, 40], 30),
        ("100 of 100", tree(100, 0, 100), [12, 12, 20], 95),
        ("60 of 900", tree(60, 0, 900), [20, 20, 20], 120),
        ("40 of 1,100", tree(40, 0, 1_100), [50, 50, 50], 230),
        ("threes, six deep", ternary(6, 3), [40, 45, 80], 40),
        // Keys of subdirectories sort before those of files: a LIST shows few directories
        // completely.
        (
            "threes, four deep, large",
            ternary(4, 90),
            [150, 150, 150],
            120,
        ),
    ];
    let mut wrong = Vec::new();
    for (what, keys, trips_max, per_100_max) in shapes {
        for (order, trips_max) in [Order::Listed, Order::Collated, Order::Reversed]
            .into_iter()
            .zip(trips_max)
        {
            let mut far = Far::new(60, &keys);
            let began = far.mount.clock.now();
            let directories = far.walk(InodeNo::ROOT, order, busy);
            let busy = busy * u32::try_from(directories).unwrap();
            let took = far.mount.clock.now() - began - busy;
            let trips = took.as_nanos().div_ceil(far.time.latency.as_nanos());
            let per_100_max = match order {
                Order::Listed | Order::Collated => per_100_max,
                // Each directory is listed by itself.
                Order::Reversed => per_100_max.max(110),
            };
            let (lists, stats) = (far.lists(), far.mount.fs.walk_stats());
            let text = format!(
                "{what}, {order:?}: {directories} directories, {lists} LISTs, {trips} round \
                 trips, {stats:?}"
            );
            println!("{text}");
            if trips > trips_max || lists * 100 > directories * per_100_max {
                wrong.push(text);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
