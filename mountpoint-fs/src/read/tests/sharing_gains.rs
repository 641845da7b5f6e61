//! Gains of shared reads in virtual time: workloads that need more requests without a mechanism.
//!
//! The figures are in doc/internals/shared-reads.md. A store with a given latency sends
//! `CONNECTION` bytes per second on each connection and `LINK` on all. Processes read directly, or
//! through a page cache that locks a page for the others while one of them reads it.

use std::collections::{HashMap, VecDeque};

use mountpoint_client::testing::sim::{RequestId, SimObject};

use super::*;

const SIZE: u64 = 96 * MIB;
const PAGE: u64 = 256 * KIB;
/// Bytes that a GET delivers at once.
const CHUNK: u64 = 256 * KIB;
const CONNECTION: f64 = 100e6;
const LINK: f64 = 1.25e9;

/// The next step of a process.
#[derive(Clone, Copy)]
enum Action {
    Open,
    /// Reads `len` bytes at an offset with a direct reply.
    Direct(u64, u64),
    /// Reads a page by its number.
    Page(u64),
    Rest(Duration),
    Close,
}

type PendingRead = Pin<Box<dyn Future<Output = Result<ReadData, FsError>> + Send>>;

#[derive(Default)]
struct Process {
    actions: VecDeque<Action>,
    reader: Option<Reader>,
    rests_until: Duration,
    /// The read in progress, and the page that it fills.
    read: Option<(PendingRead, Option<u64>)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Page {
    Missing,
    Locked,
    Ready,
}

/// Processes that read one object.
struct Node {
    bucket: Bucket,
    object: SimObject,
    latency: Duration,
    processes: Vec<Process>,
    pages: Vec<Page>,
    /// GETs in flight: time of each one's next bytes, and number of bytes left.
    gets: HashMap<RequestId, (Duration, u64)>,
    /// Time when the link has sent all delivered bytes.
    link_free_at: Duration,
}

impl Node {
    fn new(latency: Duration, processes: Vec<Vec<Action>>) -> Self {
        let config = ReadConfig {
            memory_max: 512 * MIB,
            hedging: false,
            ..ReadConfig::default()
        };
        let options = SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        };
        let bucket = Bucket::with(options, config);
        let process = |actions: Vec<Action>| Process {
            actions: actions.into(),
            ..Process::default()
        };
        Self {
            object: bucket.client.put_pattern("shared", SIZE, SEED),
            bucket,
            latency,
            processes: processes.into_iter().map(process).collect(),
            pages: vec![Page::Missing; usize::try_from(SIZE / PAGE).unwrap()],
            gets: HashMap::new(),
            link_free_at: Duration::ZERO,
        }
    }

    /// Runs all processes to their ends. Returns the GETs, and the MiB that they requested.
    fn run(mut self) -> (u64, u64) {
        loop {
            while (0..self.processes.len()).any(|process| self.step(process)) {}
            let is_over = |it: &Process| it.actions.is_empty() && it.read.is_none();
            if self.processes.iter().all(is_over) {
                let stats = self.bucket.context.stats();
                return (stats.gets, stats.bytes_requested / MIB);
            }
            self.wait();
        }
    }

    /// Lets a process take one step, if it can.
    fn step(&mut self, process: usize) -> bool {
        let now = self.bucket.clock.now();
        let process = &mut self.processes[process];
        if let Some((read, page)) = &mut process.read {
            let Some(outcome) = read.now_or_never() else {
                return false;
            };
            drop(outcome.unwrap());
            if let Some(page) = *page {
                self.pages[usize::try_from(page).unwrap()] = Page::Ready;
            }
            process.read = None;
            return true;
        }
        if process.rests_until > now {
            return false;
        }
        let Some(action) = process.actions.front().copied() else {
            return false;
        };
        match action {
            Action::Open => {
                let (key, etag) = (&self.object.key, &self.object.etag);
                let reader = Reader::shared(&self.bucket.context, key, etag, SIZE);
                let is_paged = |action: &Action| matches!(action, Action::Page(_));
                if process.actions.iter().any(is_paged) {
                    reader.expect_pages();
                }
                process.reader = Some(reader);
            }
            Action::Close => process.reader = None,
            Action::Rest(time) => process.rests_until = now + time,
            Action::Direct(offset, len) => process.begin_read(offset, len, None),
            Action::Page(number) => {
                let page = &mut self.pages[usize::try_from(number).unwrap()];
                match page {
                    Page::Ready => {}
                    Page::Locked => return false,
                    Page::Missing => {
                        *page = Page::Locked;
                        process.begin_read(number * PAGE, PAGE, Some(number));
                    }
                }
            }
        }
        process.actions.pop_front();
        true
    }

    /// Advances the time until a process or the store can continue.
    fn wait(&mut self) {
        let now = self.bucket.clock.now();
        for get in self.bucket.client.pending_gets() {
            let begun = (now + self.latency, get.range.end - get.range.start);
            self.gets.entry(get.id).or_insert(begun);
        }
        let resting = self.processes.iter().filter(|it| !it.actions.is_empty());
        let rests = resting.map(|it| it.rests_until).filter(|at| *at > now);
        let next = rests.chain(self.gets.values().map(|(at, _)| *at)).min();
        let now = next.expect("something goes on").max(now);
        self.bucket.clock.advance(now - self.bucket.clock.now());
        let due = self.gets.iter().filter(|(_, (at, _))| *at <= now);
        let mut due: Vec<RequestId> = due.map(|(id, _)| *id).collect();
        due.sort();
        due.into_iter().for_each(|id| self.deliver(id, now));
    }

    fn deliver(&mut self, id: RequestId, now: Duration) {
        let (_, left) = self.gets[&id];
        let bytes = left.min(CHUNK);
        let sent = Duration::from_secs_f64(bytes as f64 / LINK);
        self.link_free_at = self.link_free_at.max(now) + sent;
        if bytes == left {
            self.gets.remove(&id);
            self.bucket.client.finish(id);
        } else {
            self.bucket.client.deliver(id, bytes);
            let next = now + Duration::from_secs_f64(bytes as f64 / CONNECTION);
            self.gets
                .insert(id, (next.max(self.link_free_at), left - bytes));
        }
    }
}

impl Process {
    fn begin_read(&mut self, offset: u64, len: u64, page: Option<u64>) {
        let reader = self.reader.clone().expect("it is open");
        let len = u32::try_from(len).unwrap();
        let read = async move { reader.read_for(offset, len, page.is_some()).await };
        self.read = Some((Box::pin(read), page));
    }
}

/// Pauses of a process between its reads, `mean_us` microseconds on average.
fn rests(process: u64, mean_us: u64) -> impl Iterator<Item = Action> {
    let mut random = StdRng::seed_from_u64(process);
    let rest = move || rand::Rng::random_range(&mut random, 0..mean_us * 2);
    std::iter::repeat_with(rest).map(|us| Action::Rest(Duration::from_micros(us)))
}

/// A process that begins after `begin_ms`, opens the object, reads it and closes it.
fn process(
    begin_ms: u64,
    reads: impl Iterator<Item = Action>,
    rests: impl Iterator<Item = Action>,
) -> Vec<Action> {
    let reads = reads.zip(rests).flat_map(|(read, rest)| [read, rest]);
    let begin = [Action::Rest(Duration::from_millis(begin_ms)), Action::Open];
    begin
        .into_iter()
        .chain(reads)
        .chain([Action::Close])
        .collect()
}

fn directly() -> impl Iterator<Item = Action> {
    (0..SIZE / MIB).map(|number| Action::Direct(number * MIB, MIB))
}

const FAR: Duration = Duration::from_millis(20);

/// `eight-together`: sharing of versions.
#[test]
fn eight_readers_fetch_a_version_once() {
    let processes = (0..8).map(|n| process(n, directly(), rests(n, 500)));
    let (gets, mib) = Node::new(FAR, processes.collect()).run();
    assert!(gets <= 40 && mib <= 110, "{gets} GETs, {mib} MiB");
}

/// `direct-late`: retention.
#[test]
fn a_reader_that_comes_later_finds_the_blocks_of_the_first() {
    let processes = (0..2).map(|n| process(n * 30, directly(), rests(n, 1500)));
    let (gets, mib) = Node::new(Duration::from_micros(300), processes.collect()).run();
    assert!(gets <= 90 && mib <= 115, "{gets} GETs, {mib} MiB");
}

/// `direct-together`: streams that follow each other count once.
#[test]
fn readers_that_go_together_are_read_ahead_as_one() {
    let processes = (0..2).map(|n| process(n, directly(), rests(n, 500)));
    let (gets, mib) = Node::new(FAR, processes.collect()).run();
    assert!(gets <= 30 && mib <= 100, "{gets} GETs, {mib} MiB");
}

/// `pages-some-end`: heir of a stream.
#[test]
fn a_stream_goes_on_when_the_process_that_began_it_ends() {
    let pages = |n: u64| (0..SIZE / PAGE / 2 * (n + 1)).map(Action::Page);
    let processes = (0..2).map(|n| process(n, pages(n), rests(n, 200)));
    let (gets, mib) = Node::new(FAR, processes.collect()).run();
    assert!(gets <= 32 && mib <= 100, "{gets} GETs, {mib} MiB");
}

/// `pages-parts`: pages of other processes are not read ahead.
#[test]
fn the_part_of_another_process_is_not_asked_for_ahead() {
    let half = SIZE / PAGE / 2;
    let second = std::iter::once(half - 1).chain(half..2 * half);
    let processes = vec![
        process(0, (0..half).map(Action::Page), rests(0, 200)),
        process(0, second.map(Action::Page), rests(1, 200)),
    ];
    let (gets, mib) = Node::new(Duration::from_millis(50), processes).run();
    assert!(gets <= 48 && mib <= 100, "{gets} GETs, {mib} MiB");
}
