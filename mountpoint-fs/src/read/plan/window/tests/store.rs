//! Windows of several streams with a model of a store behind a network, in virtual time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use super::super::*;
use crate::read::plan::latency::MinLatencies;
use crate::read::plan::proven_window::ProvenWindow;

const MIB: u64 = 1 << 20;

/// A store. An answer begins between `least` and, on average, `mean` after its request. A
/// connection carries `connection` bytes a second, the network `network` for all of them.
#[derive(Clone, Copy)]
struct Store {
    least: f64,
    mean: f64,
    connection: f64,
    network: f64,
    /// Number of GETs in flight.
    places: usize,
}

/// Amazon S3 in the same region.
const S3: Store = Store {
    least: 0.0125,
    mean: 0.025,
    connection: 90e6,
    network: 12.5e9,
    places: 250,
};

/// S3 Express in the same zone.
const EXPRESS: Store = Store {
    least: 0.003,
    mean: 0.006,
    connection: 150e6,
    ..S3
};

struct Stream {
    window: Window,
    position: u64,
    asked: u64,
    arrived: BTreeMap<u64, u64>,
    /// End of the file; the next one begins there.
    end: u64,
    file: u64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Opens,
    Arrives {
        from: u64,
        to: u64,
        file: u64,
        began: Duration,
    },
}

/// The mount and its GETs in flight.
struct Model {
    store: Store,
    random: u64,
    delays: MinLatencies,
    paid: ProvenWindow,
    streams: Vec<Stream>,
    events: BinaryHeap<Reverse<(Duration, usize, Event)>>,
    queue: VecDeque<(usize, u64, u64, u64, Duration)>,
    in_the_air: usize,
    network_free: f64,
    consumed: u64,
    file_len: u64,
}

impl Model {
    /// A mount of `count` streams of files of about `file_len` bytes. The first files are opened
    /// within `spread` seconds.
    fn new(store: Store, count: usize, file_len: u64, spread: f64) -> Self {
        let start = access(0, Duration::ZERO, 0, true);
        let stream = || Stream {
            window: Window::open(4 * MIB, 0, &start, 256 * MIB),
            position: 0,
            asked: 0,
            arrived: BTreeMap::new(),
            end: 0,
            file: 0,
        };
        let mut model = Self {
            store,
            random: 12_345,
            delays: MinLatencies::default(),
            paid: ProvenWindow::default(),
            streams: (0..count).map(|_| stream()).collect(),
            events: BinaryHeap::new(),
            queue: VecDeque::new(),
            in_the_air: 0,
            network_free: 0.0,
            consumed: 0,
            file_len,
        };
        for number in 0..count {
            let at = Duration::from_secs_f64(spread * model.random());
            model.events.push(Reverse((at, number, Event::Opens)));
        }
        model
    }

    fn random_number(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random >> 11
    }

    /// A random number from 0 to 1.
    fn random(&mut self) -> f64 {
        self.random_number() as f64 / (1_u64 << 53) as f64
    }

    /// Runs for `seconds`. Returns the bytes a second that all streams read in the second half.
    fn run(&mut self, seconds: f64) -> f64 {
        let mut before = 0;
        while let Some(Reverse((now, number, event))) = self.events.pop() {
            if now.as_secs_f64() > seconds {
                break;
            }
            if now.as_secs_f64() < seconds / 2.0 {
                before = self.consumed;
            }
            match event {
                Event::Opens => self.open(number, now),
                Event::Arrives {
                    from,
                    to,
                    file,
                    began,
                } => {
                    self.in_the_air -= 1;
                    self.delays.record(to - from, now - began, now);
                    if self.streams[number].file == file {
                        self.streams[number].arrived.insert(from, to);
                        self.read_on(number, now);
                    }
                }
            }
            self.send(now);
        }
        (self.consumed - before) as f64 / (seconds / 2.0)
    }

    fn open(&mut self, number: usize, now: Duration) {
        let len = self.file_len / 100 * (70 + self.random_number() % 61);
        let start = access(0, now, self.consumed, true);
        let stream = &mut self.streams[number];
        stream.window = Window::open(4 * MIB, 0, &start, 256 * MIB);
        (stream.position, stream.asked, stream.end) = (0, 0, len);
        stream.file += 1;
        stream.arrived.clear();
        self.ask(number, now);
    }

    /// Lets a stream's reader take all arrived bytes and wait for the rest.
    fn read_on(&mut self, number: usize, now: Duration) {
        let count = self.streams.len();
        let stream = &mut self.streams[number];
        while let Some(to) = stream.arrived.remove(&stream.position) {
            while stream.position < to {
                let end = (stream.position + MIB).min(to);
                self.consumed += end - stream.position;
                stream.position = end;
                let bounds = bounds(count, &self.delays, &self.paid);
                let access = access(end, now, self.consumed, true);
                stream.window.advance(end, &access, &bounds);
            }
        }
        if stream.position >= stream.end {
            let pause = Duration::from_millis(40);
            self.events
                .push(Reverse((now + pause, number, Event::Opens)));
        } else {
            self.ask(number, now);
        }
    }

    fn ask(&mut self, number: usize, now: Duration) {
        let count = self.streams.len();
        let stream = &mut self.streams[number];
        let part = stream.window.part(&bounds(count, &self.delays, &self.paid));
        let target = stream.position + stream.window.size();
        let until = (target - target % part).min(stream.end);
        while stream.asked < until {
            let to = ((stream.asked / part + 1) * part).min(until);
            let ask = (number, stream.asked, to, stream.file, now);
            self.queue.push_back(ask);
            stream.asked = to;
        }
    }

    fn send(&mut self, now: Duration) {
        while self.in_the_air < self.store.places
            && let Some((number, from, to, file, began)) = self.queue.pop_front()
        {
            self.in_the_air += 1;
            let Store {
                least,
                mean,
                connection,
                network,
                ..
            } = self.store;
            let first = least - (1.0 - self.random()).ln() * (mean - least);
            let first_byte = now - began + Duration::from_secs_f64(first);
            self.delays.record_first_byte(first_byte, now);
            let len = (to - from) as f64;
            self.network_free = self.network_free.max(now.as_secs_f64()) + len / network;
            let rate = connection * (0.85 + 0.3 * self.random());
            let arrives = (now.as_secs_f64() + first + len / rate).max(self.network_free);
            let event = Event::Arrives {
                from,
                to,
                file,
                began,
            };
            let at = Duration::from_secs_f64(arrives);
            self.events.push(Reverse((at, number, event)));
        }
    }
}

fn access(end: u64, now: Duration, consumed: u64, waits: bool) -> Access {
    Access {
        range: end..end + 1,
        waits,
        is_alone: true,
        now,
        consumed,
    }
}

fn bounds<'a>(streams: usize, delays: &'a MinLatencies, paid: &'a ProvenWindow) -> Bounds<'a> {
    Bounds {
        size: u64::MAX,
        part_max: 8 * MIB,
        window_max: (256 * MIB).min((6 << 30) / streams as u64),
        streams,
        min_latencies: delays,
        proven_window: paid,
    }
}

/// One stream reaches its window's rate, several the sum of theirs, until the network is full.
#[test]
fn streams_that_begin_together_fill_the_network() {
    for (name, store, streams, expected) in [
        ("S3", S3, 1, 1.5e9),
        ("S3", S3, 2, 3e9),
        ("S3", S3, 4, 6e9),
        ("S3", S3, 8, 11e9),
        ("S3", S3, 64, 11e9),
        ("Express", EXPRESS, 2, 4e9),
        ("Express", EXPRESS, 8, 11e9),
        ("Express", EXPRESS, 64, 11e9),
        (
            "10 Gbit/s",
            Store {
                network: 1.25e9,
                ..S3
            },
            8,
            1.1e9,
        ),
    ] {
        let rate = Model::new(store, streams, 1 << 40, 0.01).run(20.0);
        assert!(rate > expected, "{streams} streams of {name}: {rate:.2e}");
    }
}

/// One stream among many cannot measure a gain, and uses the window proven by the others.
#[test]
fn files_that_are_opened_beside_others_fill_the_network_too() {
    for (streams, expected) in [(8, 4e9), (32, 10e9), (64, 11e9)] {
        let rate = Model::new(S3, streams, 1_000_000_000, 8.0).run(40.0);
        assert!(rate > expected, "{streams} streams: {rate:.2e}");
    }
}
