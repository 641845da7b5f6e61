//! A long mixed load on several mounts at once, with disturbances: `make soak`.
//!
//! Threads read and write in four kinds of mounts of one bucket, while the server fails, is away
//! and wants other keys, another client changes objects, and mounts are killed. Each writer knows
//! what its files must be, and each reader which versions it may see. Between two rounds the bucket
//! is compared with that. A watch looks at memory, descriptors, threads, folders and logs.
//!
//! Faults are such that requests overcome them, so that a call that fails is a defect; harsh ones
//! explain `EIO`, and nothing else.

mod disturbance;
mod keys;
mod load;
mod place;
mod program;
mod settings;
mod tally;
mod watch;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use disturbance::History;
use keys::Keys;
use load::hot::Hot;
use load::reader;
use load::writer::Writer;
use mountpoint_client::testing::server::{LogMode, Server, ServerOptions};
use nix::errno::Errno;
use place::{KINDS, Kind, Mounting, Outcome, Place};
use program::Program;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use settings::Settings;
use tally::Tally;

use crate::harness::{ACCESS_KEY, BUCKET, PATIENCE, SECRET_KEY};

/// A run, which all its threads share.
struct Soak {
    settings: Settings,
    server: Server,
    keys: Keys,
    program: Program,
    places: Vec<Place>,
    hot: Hot,
    history: History,
    tally: Tally,
    started: Instant,
    /// The threads of the load are to come to rest.
    is_resting: AtomicBool,
    is_over: AtomicBool,
    has_failed: AtomicBool,
}

/// Writers of each mount that takes changes.
const WRITERS: u64 = 2;

#[test]
fn smoke() {
    run(Settings::smoke());
}

#[test]
#[ignore = "it takes hours: `make soak`"]
fn hours() {
    run(Settings::from_environment());
}

#[expect(
    clippy::print_stdout,
    reason = "a run takes long, and tells how far it is"
)]
fn run(settings: Settings) {
    println!("{}", settings.command());
    let command = settings.command();
    let soak = Soak::new(settings);
    let _shown = OnPanic(|| {
        println!("failed: {command}\nlately:\n{}", soak.history.text());
    });
    let mut writers = soak.writers();
    let series = std::thread::scope(|scope| {
        let watch = scope.spawn(|| soak.guard(|| watch::run(&soak)));
        soak.guard(|| rounds(&soak, &mut writers));
        soak.is_over.store(true, Ordering::SeqCst);
        watch.join().ok().flatten()
    });
    assert!(!soak.has_failed(), "a thread has failed, see above");
    finish(&soak, &writers);
    if !soak.settings.is_smoke {
        series.expect("the series of the watch").judge(&soak);
    }
}

/// Load and rest in turns.
fn rounds(soak: &Soak, writers: &mut [Writer]) {
    let mut numbers = StdRng::seed_from_u64(soak.settings.seed);
    let mut load = Duration::ZERO;
    while load < soak.settings.length && !soak.has_failed() {
        soak.is_resting.store(false, Ordering::SeqCst);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for writer in &mut *writers {
                scope.spawn(|| soak.guard(|| writer.run(soak)));
            }
            for place in &soak.places {
                let numbers = StdRng::from_rng(&mut numbers);
                scope.spawn(|| soak.guard(|| reader::run(soak, place, numbers)));
            }
            let (of_faults, of_objects) = (
                StdRng::from_rng(&mut numbers),
                StdRng::from_rng(&mut numbers),
            );
            scope.spawn(|| soak.guard(|| disturbance::run(soak, of_faults)));
            scope.spawn(|| soak.guard(|| disturbance::change_objects(soak, of_objects)));
            soak.pause(soak.settings.round);
            soak.is_resting.store(true, Ordering::SeqCst);
        });
        load += began.elapsed();
        soak.tally.rounds.fetch_add(1, Ordering::Relaxed);
        if !soak.has_failed() {
            compare(soak, writers);
            settle(soak);
        }
    }
}

/// The bucket has what the writers know; that of write-back has it some time later.
fn compare(soak: &Soak, writers: &[Writer]) {
    for writer in writers {
        let kind = soak.places[writer.place].kind;
        let began = Instant::now();
        while let Some(difference) = writer.difference(soak) {
            let waits = kind == Kind::WriteBack && began.elapsed() < PATIENCE;
            assert!(waits, "{kind:?}: {difference}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Descriptors and threads return to what a mount has that was never used.
fn settle(soak: &Soak) {
    for place in &soak.places {
        let began = Instant::now();
        let process = place.process().expect("a mount");
        while let Some(handles) = watch::handles(process.pid) {
            let (files, threads) = (
                process.first.files + FILES_KEPT,
                process.first.threads + THREADS_KEPT,
            );
            if handles.files <= files && handles.threads <= threads {
                break;
            }
            let (kind, first) = (place.kind, process.first);
            assert!(
                began.elapsed() < PATIENCE,
                "{kind:?} has {handles:?}, after {first:?}"
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Descriptors other than sockets, and threads, that a mount keeps when it was used.
const FILES_KEPT: usize = 16;
const THREADS_KEPT: usize = 24;

/// Unmounts everything. Nothing is left but what the writers know.
fn finish(soak: &Soak, writers: &[Writer]) {
    for place in &soak.places {
        place.end();
    }
    compare(soak, writers);
    let uploads = soak.server.store().uploads(BUCKET);
    assert!(
        uploads.len() as u64 <= soak.lost_uploads(),
        "uploads are left: {uploads:?}"
    );
    for place in &soak.places {
        let kept = place.folder.path().join("mount-s3-staging/kept");
        let kept = std::fs::read_dir(kept).map_or(0, Iterator::count);
        assert!(
            kept == 0 || soak.settings.is_harsh,
            "{:?} has kept {kept} files",
            place.kind
        );
    }
}

impl Soak {
    fn new(settings: Settings) -> Self {
        let server = Server::start(ServerOptions {
            // No other test takes the port while the server is away.
            address: ([127, 0, 72, 1], 0).into(),
            credentials: Some((ACCESS_KEY.to_owned(), SECRET_KEY.to_owned())),
            log: LogMode::Counters,
            ..ServerOptions::default()
        });
        let server = server.unwrap();
        server.store().create_bucket(BUCKET);
        let keys = Keys::new(&server);
        let mut numbers = StdRng::seed_from_u64(!settings.seed);
        let hot = Hot::new(&server, settings.seed, &mut numbers);
        reader::store(&server, settings.seed);
        let program = Program::new();
        let places = KINDS.map(|kind| Place::new(kind, (&server, &keys, &program)));
        Self {
            settings,
            server,
            keys,
            program,
            places: places.into(),
            hot,
            history: History::default(),
            tally: Tally::default(),
            started: Instant::now(),
            is_resting: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            has_failed: AtomicBool::new(false),
        }
    }

    fn writers(&self) -> Vec<Writer> {
        let places = self.places.iter().enumerate();
        let writing = places.filter(|(_, place)| place.kind.writes());
        let pairs = writing.flat_map(|(place, _)| (0..WRITERS).map(move |_| place));
        let new = |(number, place)| {
            let seed = self.settings.seed.wrapping_mul(1009) + number;
            Writer::new(place, number, StdRng::seed_from_u64(seed))
        };
        (1_u64..).zip(pairs).map(new).collect()
    }

    /// Calls something in a mount. An error that nothing explains fails the run.
    fn call<T>(
        &self,
        place: &Place,
        what: &str,
        call: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Outcome<T> {
        self.call_expecting(place, what, &[], call)
    }

    /// As [`Self::call`]; the caller explains some errors.
    fn call_expecting<T>(
        &self,
        place: &Place,
        what: &str,
        expected: &[i32],
        call: impl FnOnce(&Path) -> io::Result<T>,
    ) -> Outcome<T> {
        let (outcome, began) = place.call(&self.tally, what, call);
        match &outcome {
            Outcome::Done(_) => {}
            Outcome::Cut => self.tally.failed("cut"),
            Outcome::Failed(_) if self.has_failed() => {}
            Outcome::Failed(error) => {
                let errno = error.raw_os_error().unwrap_or(libc::EIO);
                let is_explained = expected.contains(&errno) || self.history.explains(errno, began);
                let name = place.kind.name();
                let after = began.elapsed();
                assert!(is_explained, "{name} {what}: {error} after {after:?}");
                self.tally.failed(&format!("{:?}", Errno::from_raw(errno)));
            }
        }
        outcome
    }

    fn mounting(&self) -> Mounting<'_> {
        (&self.server, &self.keys, &self.program)
    }

    /// Whether mounts may be killed now: long lives in the second half of a run show leaks.
    fn allows_kills(&self) -> bool {
        self.settings.is_smoke || self.started.elapsed() < self.settings.length / 2
    }

    /// Uploads whose ids no mount has learned: a kill may have come before the answer.
    fn lost_uploads(&self) -> u64 {
        self.places.iter().map(Place::kills).sum()
    }

    fn is_stopped(&self) -> bool {
        self.is_resting.load(Ordering::SeqCst) || self.has_failed()
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst) || self.has_failed()
    }

    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::SeqCst)
    }

    /// Sleeps, unless the load comes to rest.
    fn pause(&self, time: Duration) {
        sleep_unless(time, || self.is_stopped());
    }

    /// Sleeps, unless the run is over.
    fn pause_watch(&self, time: Duration) {
        sleep_unless(time, || self.is_over());
    }

    /// Runs a part of the run. If it panics, the others stop, and calls that hang end.
    fn guard<T>(&self, part: impl FnOnce() -> T) -> Option<T> {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(part));
        if outcome.is_err() && !self.has_failed.swap(true, Ordering::SeqCst) {
            self.server.faults().clear();
            std::thread::sleep(Duration::from_secs(5));
            self.places.iter().for_each(Place::give_up);
        }
        outcome.ok()
    }
}

fn sleep_unless(time: Duration, is_to_end: impl Fn() -> bool) {
    let until = Instant::now() + time;
    while Instant::now() < until && !is_to_end() {
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Does something if it is dropped by a panic.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}
