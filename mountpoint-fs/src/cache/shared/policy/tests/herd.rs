//! A thousand nodes read one file at once, in virtual time, each with the policy of a mount.
//!
//! The model is coarse: requests take a fixed time with some spread, and each node reads as fast as
//! its window of read-ahead lets it. The decisions are the policy's own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};
use std::time::Duration;

use super::super::{ExtentSearch, Jitter, SearchStep, TierPolicy};

const NODES: usize = 1000;

/// Extents of the file: 2 GiB.
const EXTENTS: usize = 256;

const EXTENT: u64 = 8 << 20;

/// The first range of a file, which its reader waits for and fetches from the origin.
const FIRST_RANGE: u64 = 128 << 10;

/// Extents that a node reads ahead.
const WINDOW: usize = 8;

/// A request without data, there and back; 8 MiB at 90 MB/s.
const ROUND_TRIP: Duration = Duration::from_millis(12);
const TRANSFER: Duration = Duration::from_millis(93);

/// As in the read path: a reader that waits so long for an extent has S3 asked too.
const LATE: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begin,
    /// The bucket looks for an extent, and has answered.
    Look(usize),
    Looked(usize, bool),
    /// The bucket decides about a claim, and has answered.
    Decide(usize),
    Decided(usize, bool),
    Waited(usize),
    /// The origin, or the bucket, has sent an extent.
    Fetched(usize),
    Received(usize),
    /// The bucket has an extent.
    Stored(usize),
    /// The reader has waited long enough for an extent.
    Late(usize),
}

/// A node's knowledge of one extent.
#[derive(Default)]
struct Extent {
    search: Option<ExtentSearch>,
    began_at: Duration,
    is_there: bool,
    /// Whether the origin was asked.
    is_fetched: bool,
}

struct Node {
    policy: TierPolicy,
    extents: Vec<Extent>,
    /// The extent that the reader waits for.
    front: usize,
    /// Extents that were asked for.
    asked: usize,
}

/// The ways in which nodes learn of each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signs {
    /// All but one node have seen others at their start.
    AtStart,
    /// Nodes see others when they store what is there already.
    WhenStoring,
    /// None, ever: nobody claims.
    Never,
}

struct Fleet {
    signs: Signs,
    nodes: Vec<Node>,
    events: BinaryHeap<Reverse<(Duration, u64, usize, Event)>>,
    sequence: u64,
    now: Duration,
    jitter: Jitter,
    stored: HashSet<usize>,
    claims: HashSet<(u64, usize)>,
    origin_bytes: u64,
    /// Requests to the bucket.
    requests: u64,
}

impl Fleet {
    /// Nodes that start within `spread`.
    fn new(spread: Duration, signs: Signs) -> Self {
        let mut fleet = Self {
            signs,
            nodes: Vec::new(),
            events: BinaryHeap::new(),
            sequence: 0,
            now: Duration::from_secs(10),
            jitter: Jitter::new(42),
            stored: HashSet::new(),
            claims: HashSet::new(),
            origin_bytes: 0,
            requests: 0,
        };
        for number in 0..NODES {
            let mut policy = TierPolicy::new(number as u64);
            if signs == Signs::AtStart && number + 1 < NODES {
                policy.fleet.saw_others(fleet.now);
            }
            fleet.nodes.push(Node {
                policy,
                extents: (0..EXTENTS).map(|_| Extent::default()).collect(),
                front: 0,
                asked: 0,
            });
            let share = u32::try_from(fleet.jitter.next() % 1000).unwrap();
            fleet.after(spread * share / 1000, number, Event::Begin);
        }
        fleet
    }

    fn after(&mut self, time: Duration, node: usize, event: Event) {
        self.sequence += 1;
        let entry = (self.now + time, self.sequence, node, event);
        self.events.push(Reverse(entry));
    }

    /// `time`, as it varies from request to request.
    fn about(&mut self, time: Duration) -> Duration {
        let percent = u32::try_from(self.jitter.next() % 61).unwrap();
        time * (70 + percent) / 100
    }

    fn run(mut self) -> Self {
        while let Some(Reverse((now, _, node, event))) = self.events.pop() {
            self.now = now;
            self.happens(node, event);
        }
        assert!(self.nodes.iter().all(|node| node.front == EXTENTS));
        self
    }

    fn happens(&mut self, node: usize, event: Event) {
        let half = ROUND_TRIP / 2;
        match event {
            Event::Begin => {
                self.origin_bytes += FIRST_RANGE;
                self.read_ahead(node);
            }
            Event::Look(extent) => {
                let is_there = self.stored.contains(&extent);
                let time = self.about(half + if is_there { TRANSFER } else { Duration::ZERO });
                self.after(time, node, Event::Looked(extent, is_there));
            }
            Event::Looked(extent, true) => {
                let (policy, search) = self.search(node, extent);
                search.found(policy.0, policy.1);
                self.after(Duration::ZERO, node, Event::Received(extent));
            }
            Event::Looked(extent, false) => {
                let (policy, search) = self.search(node, extent);
                let step = search.absent(policy.0, policy.1);
                self.step(node, extent, step);
            }
            Event::Decide(extent) => {
                let is_won = self.claims.insert((self.now.as_secs() / 60, extent));
                self.after(half, node, Event::Decided(extent, is_won));
            }
            Event::Decided(extent, is_won) => {
                let (policy, search) = self.search(node, extent);
                let step = search.claimed(is_won, policy.0, policy.1);
                self.step(node, extent, step);
            }
            Event::Waited(extent) => self.step(node, extent, SearchStep::Ask),
            Event::Fetched(extent) => {
                self.receive(node, extent);
                self.store(node, extent);
            }
            Event::Received(extent) => self.receive(node, extent),
            Event::Stored(extent) => {
                if !self.stored.insert(extent) && self.signs != Signs::Never {
                    let now = self.now;
                    self.nodes[node].policy.fleet.saw_others(now);
                }
            }
            Event::Late(extent) => {
                let is_awaited = self.nodes[node].front == extent;
                if is_awaited && !self.nodes[node].extents[extent].is_fetched {
                    let now = self.now;
                    self.nodes[node].policy.fleet.waited(true, now);
                    self.fetch(node, extent);
                }
            }
        }
    }

    fn search(
        &mut self,
        node: usize,
        extent: usize,
    ) -> ((&mut TierPolicy, Duration), &mut ExtentSearch) {
        let Node {
            policy, extents, ..
        } = &mut self.nodes[node];
        let search = extents[extent].search.as_mut().unwrap();
        ((policy, self.now), search)
    }

    /// Asks for what the window lacks.
    fn read_ahead(&mut self, node: usize) {
        while self.nodes[node].asked < EXTENTS.min(self.nodes[node].front + WINDOW) {
            let now = self.now;
            let Node {
                policy,
                extents,
                asked,
                ..
            } = &mut self.nodes[node];
            let extent = *asked;
            *asked += 1;
            let (search, step) = ExtentSearch::begin(1, true, policy, now);
            extents[extent].search = Some(search);
            extents[extent].began_at = now;
            self.step(node, extent, step);
        }
        let front = self.nodes[node].front;
        if front < EXTENTS {
            let late_at = self.nodes[node].extents[front].began_at + LATE;
            self.after(late_at.saturating_sub(self.now), node, Event::Late(front));
        }
    }

    fn step(&mut self, node: usize, extent: usize, step: SearchStep) {
        if self.nodes[node].extents[extent].is_there {
            return;
        }
        let half = self.about(ROUND_TRIP / 2);
        match step {
            SearchStep::Ask => {
                self.requests += 1;
                self.after(half, node, Event::Look(extent));
            }
            SearchStep::Claim => {
                self.requests += 1;
                self.after(half, node, Event::Decide(extent));
            }
            SearchStep::Wait(time) => self.after(time, node, Event::Waited(extent)),
            SearchStep::Leave => self.fetch(node, extent),
        }
    }

    fn fetch(&mut self, node: usize, extent: usize) {
        self.nodes[node].extents[extent].is_fetched = true;
        self.origin_bytes += EXTENT;
        let time = self.about(2 * ROUND_TRIP + TRANSFER);
        self.after(time, node, Event::Fetched(extent));
    }

    fn receive(&mut self, node: usize, extent: usize) {
        let Node { extents, front, .. } = &mut self.nodes[node];
        extents[extent].is_there = true;
        let before = *front;
        while *front < EXTENTS && extents[*front].is_there {
            *front += 1;
        }
        if *front > before {
            self.read_ahead(node);
        }
    }

    /// As the mount stores: what it has claimed, or anything while it has no sign of others.
    fn store(&mut self, node: usize, extent: usize) {
        let now = self.now;
        let policy = &self.nodes[node].policy;
        let owns = self.nodes[node].extents[extent]
            .search
            .as_ref()
            .is_some_and(ExtentSearch::owns);
        if owns || !policy.fleet.is_active(now) {
            self.requests += 1;
            let time = self.about(ROUND_TRIP + TRANSFER);
            self.after(time, node, Event::Stored(extent));
        }
    }

    /// Bytes that the origin sent, in hundredths of the file.
    fn origin_percent(&self) -> u64 {
        self.origin_bytes * 100 / (EXTENTS as u64 * EXTENT)
    }
}

#[track_caller]
fn check(spread: Duration) {
    let fleet = Fleet::new(spread, Signs::AtStart).run();
    let percent = fleet.origin_percent();
    assert!(
        percent <= 120,
        "{percent} % of the file came from the origin"
    );
    let requests = fleet.requests * 100 / (NODES * EXTENTS) as u64;
    assert!(requests <= 150, "{requests} for 100 extents of a node");
}

#[test]
fn a_thousand_nodes_that_start_at_once_fetch_the_file_once() {
    check(Duration::from_millis(1));
}

#[test]
fn a_thousand_nodes_that_start_within_seconds_fetch_the_file_once() {
    check(Duration::from_secs(5));
}

/// The model shows the herd where there is one.
#[test]
fn without_claims_the_origin_sends_the_file_many_times() {
    let fleet = Fleet::new(Duration::from_secs(5), Signs::Never).run();
    let percent = fleet.origin_percent();
    assert!(percent > 1000, "{percent} %");
}

/// Nodes that see no sign at their start learn it when they store.
#[test]
fn late_signs_end_the_herd() {
    let fleet = Fleet::new(Duration::from_secs(5), Signs::WhenStoring).run();
    let percent = fleet.origin_percent();
    assert!(percent < 1500, "{percent} %");
}
