//! Wide networks in virtual time: streams on machines of 16 and 192 cores.
//!
//! A store far away sends `CONNECTION` bytes a second on each connection and fills the link with
//! all of them. The client's plan for the link bounds the GETs in flight, the machine's memory the
//! bytes. doc/internals/read-ahead.md has the table of the results, which the test compares.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use mountpoint_client::crt_client::CrtClientOptions;
use mountpoint_client::testing::sim::{Content, RequestId, SimObject};
use mountpoint_client::types::{Key, ObjectHeaders, StoredChecksum};

use super::*;
use crate::config::scale;
use crate::sync::Mutex;

const LATENCY: Duration = Duration::from_millis(20);
/// Bytes a second of one connection.
const CONNECTION: f64 = 90e6;
/// Bytes a second that one thread copies out of direct replies, measured on two cores.
const READER: f64 = 4.2e9;
/// Bytes a second of mount and readers on one core, at 0.8 CPU s/GB.
const CORE: f64 = 1.25e9;
/// Bytes of one read: the largest that the kernel sends.
const READ: u64 = MIB;
/// Bytes of each object: more than a stream reads.
const SIZE: u64 = 1 << 40;
/// Bytes that a GET delivers at once.
const CHUNK: u64 = MIB;
/// Time of a run.
const RUN: Duration = Duration::from_secs(3);
/// Time at the end of a run over which the settled rate is taken.
const SETTLED: Duration = Duration::from_secs(1);

/// A machine as its instance type is sold.
#[derive(Clone, Copy, Debug)]
struct Machine {
    gbps: u32,
    cores: usize,
    /// Memory for reads by default.
    memory: u64,
}

/// What happens next at some time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The first byte of a GET arrives.
    Begins(RequestId),
    /// The next bytes of a GET have arrived.
    Bytes(RequestId),
    /// A reader has copied its last read and begins the next.
    Reads(usize),
}

/// A GET that is sent.
struct Sent {
    left: u64,
    is_ahead: bool,
}

type PendingRead = Pin<Box<dyn Future<Output = Result<ReadData, FsError>> + Send>>;

struct Stream {
    reader: Reader,
    offset: u64,
    read: Option<PendingRead>,
    waker: Waker,
}

/// Puts its stream on the list of streams to poll.
struct StreamWake {
    stream: usize,
    woken: Arc<Mutex<Vec<usize>>>,
}

impl Wake for StreamWake {
    fn wake(self: Arc<Self>) {
        self.woken.lock().push(self.stream);
    }
}

/// Results of a run.
#[derive(Clone, Copy, Debug)]
struct Figures {
    /// Bytes a second over the whole run, and over its last part.
    whole: f64,
    settled: f64,
    gets_max: usize,
    /// Mean bytes of a GET.
    get_len: u64,
    memory_max: u64,
    /// Share of the settled time in which GETs waited for a connection.
    queued: f64,
}

/// A mount on a machine, its streams, and the store.
struct Model {
    machine: Machine,
    bucket: Bucket,
    streams: Vec<Stream>,
    woken: Arc<Mutex<Vec<usize>>>,
    events: BinaryHeap<Reverse<(Duration, Event)>>,
    gets: HashMap<RequestId, Sent>,
    last_get: Option<RequestId>,
    /// GETs that wait for a connection: those of reads, and those ahead.
    blocked: VecDeque<(RequestId, u64)>,
    queue: VecDeque<(RequestId, u64)>,
    /// GETs that share the link.
    transferring: usize,
    ahead_in_flight: usize,
    ahead_max: usize,
    connections: usize,
    gets_max: usize,
    consumed: u64,
    queued: Duration,
}

impl Model {
    fn new(machine: Machine, streams: usize) -> Self {
        let options = SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        };
        let config = ReadConfig {
            memory_max: machine.memory,
            window_max: scale::window_max(machine.cores),
            hedging: false,
            ..ReadConfig::default()
        };
        let bucket = Bucket::with(options, config);
        let woken = Arc::<Mutex<Vec<usize>>>::default();
        let streams: Vec<_> = (0..streams)
            .map(|number| open(&bucket, number, &woken))
            .collect();
        let mut client = CrtClientOptions::new("bucket");
        client.throughput_target_gbps = Some(f64::from(machine.gbps));
        let begin = |stream| Reverse((Duration::ZERO, Event::Reads(stream)));
        Self {
            machine,
            events: (0..streams.len()).map(begin).collect(),
            bucket,
            streams,
            woken,
            gets: HashMap::new(),
            last_get: None,
            blocked: VecDeque::new(),
            queue: VecDeque::new(),
            transferring: 0,
            ahead_in_flight: 0,
            ahead_max: client.connections_ahead(None) as usize,
            connections: client.connections(None) as usize,
            gets_max: 0,
            consumed: 0,
            queued: Duration::ZERO,
        }
    }

    fn run(mut self) -> Figures {
        let mut consumed_before = 0;
        let begins_to_count = RUN - SETTLED;
        while let Some(Reverse((at, event))) = self.events.pop()
            && at < RUN
        {
            let now = self.bucket.clock.now();
            if now < begins_to_count && at >= begins_to_count {
                consumed_before = self.consumed;
            }
            if at > begins_to_count && !self.queue.is_empty() {
                self.queued += at - now.max(begins_to_count);
            }
            self.bucket.clock.advance(at - now);
            match event {
                Event::Begins(id) => {
                    self.transferring += 1;
                    self.expect_bytes(id, at);
                }
                Event::Bytes(id) => self.deliver(id, at),
                Event::Reads(stream) => self.begin_read(stream),
            }
            self.poll_woken();
            self.send(at);
        }
        let stats = self.bucket.context.stats();
        let settled = (self.consumed - consumed_before) as f64;
        Figures {
            whole: self.consumed as f64 / RUN.as_secs_f64(),
            settled: settled / SETTLED.as_secs_f64(),
            gets_max: self.gets_max,
            get_len: stats.bytes_requested / stats.gets,
            memory_max: stats.budget_peak,
            queued: self.queued.as_secs_f64() / SETTLED.as_secs_f64(),
        }
    }

    fn begin_read(&mut self, number: usize) {
        let stream = &mut self.streams[number];
        let (reader, offset) = (stream.reader.clone(), stream.offset);
        let len = u32::try_from(READ).unwrap();
        stream.read = Some(Box::pin(async move { reader.read(offset, len).await }));
        self.woken.lock().push(number);
    }

    fn poll_woken(&mut self) {
        loop {
            let woken = std::mem::take(&mut *self.woken.lock());
            if woken.is_empty() {
                return;
            }
            woken.into_iter().for_each(|stream| self.poll(stream));
        }
    }

    fn poll(&mut self, number: usize) {
        let stream = &mut self.streams[number];
        let Some(read) = &mut stream.read else {
            return;
        };
        let mut context = Context::from_waker(&stream.waker);
        let Poll::Ready(outcome) = read.as_mut().poll(&mut context) else {
            return;
        };
        assert_eq!(outcome.unwrap().len() as u64, READ);
        stream.read = None;
        stream.offset += READ;
        self.consumed += READ;
        let copied = Duration::from_secs_f64(READ as f64 / READER);
        let next = self.bucket.clock.now() + copied;
        self.events.push(Reverse((next, Event::Reads(number))));
    }

    /// Sends the GETs that were made, as far as there are connections for them.
    fn send(&mut self, now: Duration) {
        let made = self.bucket.client.pending_gets_after(self.last_get);
        for get in made {
            self.last_get = Some(get.id);
            let len = get.range.end - get.range.start;
            match get.priority {
                Priority::Foreground => self.blocked.push_back((get.id, len)),
                _ => self.queue.push_back((get.id, len)),
            }
        }
        while self.gets.len() < self.connections
            && let Some((id, len)) = self.blocked.pop_front()
        {
            self.send_one(id, len, false, now);
        }
        while self.gets.len() < self.connections
            && self.ahead_in_flight < self.ahead_max
            && let Some((id, len)) = self.queue.pop_front()
        {
            self.ahead_in_flight += 1;
            self.send_one(id, len, true, now);
        }
        self.gets_max = self.gets_max.max(self.gets.len());
    }

    fn send_one(&mut self, id: RequestId, left: u64, is_ahead: bool, now: Duration) {
        self.gets.insert(id, Sent { left, is_ahead });
        self.events
            .push(Reverse((now + LATENCY, Event::Begins(id))));
    }

    /// Lets the next bytes of a GET arrive on its connection, which shares the link.
    fn expect_bytes(&mut self, id: RequestId, now: Duration) {
        let bytes = self.gets[&id].left.min(CHUNK);
        let rate = CONNECTION.min(self.machine.link() / self.transferring as f64);
        let next = now + Duration::from_secs_f64(bytes as f64 / rate);
        self.events.push(Reverse((next, Event::Bytes(id))));
    }

    fn deliver(&mut self, id: RequestId, now: Duration) {
        let sent = self.gets.get_mut(&id).expect("it was sent");
        let bytes = sent.left.min(CHUNK);
        sent.left -= bytes;
        let left = sent.left;
        if left > 0 {
            self.bucket.client.deliver(id, bytes);
            self.expect_bytes(id, now);
            return;
        }
        self.transferring -= 1;
        let sent = self.gets.remove(&id).expect("it is there");
        self.ahead_in_flight -= usize::from(sent.is_ahead);
        self.bucket.client.finish(id);
    }
}

fn open(bucket: &Bucket, number: usize, woken: &Arc<Mutex<Vec<usize>>>) -> Stream {
    let content = Content::unwritten(SIZE);
    let object = SimObject {
        key: Key::parse(&format!("object-{number}")).unwrap(),
        etag: content.etag(),
        content,
        last_modified: std::time::SystemTime::UNIX_EPOCH,
        headers: ObjectHeaders::default(),
        restored: false,
        checksum: StoredChecksum::None,
    };
    let (key, etag) = (object.key.clone(), object.etag.clone());
    bucket.client.insert(object);
    let wake = StreamWake {
        stream: number,
        woken: Arc::clone(woken),
    };
    Stream {
        reader: Reader::shared(&bucket.context, &key, &etag, SIZE),
        offset: 0,
        read: None,
        waker: Waker::from(Arc::new(wake)),
    }
}

impl Machine {
    /// Bytes a second of the network.
    fn link(self) -> f64 {
        f64::from(self.gbps) * 1e9 / 8.0
    }

    /// Bytes a second of so many readers, which share the cores with the mount.
    fn readers(self, streams: usize) -> f64 {
        let copying = streams as f64 * READER;
        copying.min(self.cores as f64 * CORE)
    }

    /// The row of the table for a run of so many streams.
    fn row(self, streams: usize, figures: &Figures) -> String {
        let readers = self.readers(streams);
        let bound = match figures.queued {
            _ if figures.settled >= 0.95 * readers => "readers",
            _ if figures.settled >= 0.9 * self.link() => "network",
            queued if queued > 0.5 => "connections",
            _ => "windows",
        };
        format!(
            "| {}, {} | {streams} | {:.1}, {:.1} | {:.0} % | {bound} | {} of {:.1} MiB | {} MiB |",
            self.gbps,
            self.cores,
            figures.whole / 1e9,
            figures.settled / 1e9,
            self.share(streams, figures) * 100.0,
            figures.gets_max,
            figures.get_len as f64 / MIB as f64,
            figures.memory_max / MIB,
        )
    }

    /// Share of the rate that network and readers allow.
    fn share(self, streams: usize, figures: &Figures) -> f64 {
        figures.settled / self.link().min(self.readers(streams))
    }
}

/// The page with the table.
const PAGE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../doc/internals/read-ahead.md"
);

/// Runs streams on a machine, and compares the results with the rows of the page.
#[track_caller]
fn check(machine: Machine) {
    let mut rows = Vec::new();
    for streams in [1, 8, 32, 128] {
        let figures = Model::new(machine, streams).run();
        rows.push(machine.row(streams, &figures));
        let share = machine.share(streams, &figures);
        assert!(share >= 0.8, "{machine:?} {streams}: {figures:?}");
        assert!(figures.memory_max <= machine.memory, "{figures:?}");
    }
    let begin = format!("| {}, {} |", machine.gbps, machine.cores);
    let page = std::fs::read_to_string(PAGE).unwrap();
    let told: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with(&begin))
        .collect();
    assert!(told == rows, "the page should have\n{}", rows.join("\n"));
}

#[test]
fn streams_fill_100_gbits() {
    check(Machine {
        gbps: 100,
        cores: 16,
        memory: 8 << 30,
    });
}

#[test]
fn streams_fill_400_gbits() {
    check(Machine {
        gbps: 400,
        cores: 192,
        memory: 32 << 30,
    });
}
