//! Hosts with one bucket, their disks, and programs on them, as one simulation with one seed: the
//! schedule of all threads, the order and the faults of answers, power losses and the time.
//!
//! Each program writes, edits, cuts, renames, removes and reads files of its own, and knows the
//! states that each may have: one behind a call that succeeded, several behind one that failed.
//! Each of its reads must find one of these, and so must a look into the bucket behind the last
//! start of its host. Programs also read each other's files, which have one of the contents that
//! any file ever had. One program of each host writes a file that all share. Its last content must
//! not be older than another one that was promised.

mod content;
mod host;
mod program;
mod shared_file;

use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mountpoint_client::testing::sim::{Fault, FaultRule, SimOptions, Time, When};
use mountpoint_client::{ErrorKind, SimClient};
use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use tempfile::TempDir;

use crate::clock::Clock;
use crate::sync::{Mutex, explore};
use content::Content;
use host::{Host, Mode};
use program::Program;
use shared_file::SharedFile;

/// The content of a file; `None` is no file.
type State = Option<Content>;

/// What the hosts share.
struct World {
    bucket: Arc<SimClient>,
    clock: Clock,
    newest: AtomicU16,
    /// The contents that any file has had, or may have had.
    contents: Mutex<Vec<Content>>,
    shared_file: SharedFile,
    /// All requests are answered rightly from now on.
    is_calm: AtomicBool,
    is_over: AtomicBool,
    /// Folders for sockets, and for versions that could not be stored.
    places: Mutex<Vec<TempDir>>,
}

impl World {
    /// The number of a new version.
    fn number(&self) -> u16 {
        self.newest.fetch_add(1, Ordering::SeqCst)
    }

    /// Returns when the time has passed.
    fn pass(&self, time: Duration) {
        let until = self.clock.now() + time;
        while self.clock.now() < until {
            shuttle::thread::yield_now();
        }
    }

    /// Notes that files may have `content`.
    fn may_have(&self, content: &Content) {
        self.contents.lock().push(content.clone());
    }

    /// Fails unless `bytes`, from the front of a file on, are those of one content.
    #[track_caller]
    fn check_whole(&self, what: &str, bytes: &[u8]) {
        let contents = self.contents.lock();
        let is_one = bytes.is_empty() || contents.iter().any(|it| it.begins_as(bytes));
        assert!(is_one, "{what} has {bytes:?}");
    }
}

/// Shows what happens, if `SIMULATION_LOG` is set.
fn note(what: impl FnOnce() -> String) {
    #[expect(clippy::disallowed_methods, reason = "for tests alone")]
    static IS_SHOWN: LazyLock<bool> = LazyLock::new(|| std::env::var("SIMULATION_LOG").is_ok());
    if *IS_SHOWN {
        eprintln!("{}", what());
    }
}

/// Answers requests in any order until the end, and moves the time.
fn serve(world: &World) {
    loop {
        let gets = world.bucket.pending_gets().into_iter().map(|it| it.id);
        let others = world.bucket.pending_requests();
        let pending: Vec<_> = gets.chain(others.iter().map(|it| it.id)).collect();
        if pending.is_empty() && world.is_over.load(Ordering::SeqCst) {
            return;
        }
        if !pending.is_empty() {
            let id = pending[thread_rng().gen_range(0..pending.len())];
            let is_calm = world.is_calm.load(Ordering::SeqCst);
            note(|| {
                let answered = others.iter().find(|it| it.id == id);
                answered.map_or(String::new(), |it| format!("{:?} {}", it.operation, it.key))
            });
            match thread_rng().gen_range(0..25) {
                0 if !is_calm => drop(world.bucket.fail(id, ErrorKind::Transient)),
                1 if !is_calm => world.bucket.add_fault(lost_answer()),
                _ => drop(world.bucket.finish(id)),
            }
            let answered = others.iter().find(|it| it.id == id);
            // Each object of a file is one of its versions, at any time.
            if let Some(answered) = answered.filter(|it| is_file(&it.key)) {
                let object = world.bucket.object(&answered.key);
                let bytes = object.map(|it| it.content.to_vec()).unwrap_or_default();
                world.check_whole(&answered.key, &bytes[..bytes.len().min(content::READ)]);
            }
        }
        let most = if pending.is_empty() { 2000 } else { 20 };
        let step = thread_rng().gen_range(0..most);
        world.clock.advance(Duration::from_millis(step));
        shuttle::thread::yield_now();
    }
}

/// Whether a key is that of a file: no directory's marker, and nothing of the mounts' own.
fn is_file(key: &str) -> bool {
    !key.ends_with('/') && !key.starts_with('.')
}

/// The next request has its effect, and its answer is lost.
fn lost_answer() -> FaultRule {
    let fault = match thread_rng().r#gen() {
        true => Fault::FailAfterwards(ErrorKind::Transient),
        false => Fault::Repeat,
    };
    FaultRule {
        operation: None,
        when: When::Next(1),
        fault,
    }
}

/// The programs of one host, until they end or its power goes; then it starts again, and the
/// bucket must have what they were promised.
fn live(world: &Arc<World>, number: usize) {
    let mode = [Mode::Streaming, Mode::Staging, Mode::WriteBack][thread_rng().gen_range(0..3)];
    let mut host = Host::new(world, number, mode);
    let mut programs: Vec<_> = (0..2).map(|it| Program::new(number, it)).collect();
    for _ in 0..2 {
        host.plan_power_loss();
        let running = programs.into_iter().map(|mut program| {
            let host = host.clone();
            shuttle::thread::spawn(move || {
                program.run(&host);
                program
            })
        });
        let running: Vec<_> = running.collect();
        programs = running.into_iter().map(|it| it.join().unwrap()).collect();
        host = host.restart();
    }
    host.drain();
    for program in &programs {
        program.check_bucket(world);
    }
}

#[test]
fn what_programs_were_promised_is_in_the_bucket_whatever_fails() {
    explore(|| {
        note(|| "a new run".to_owned());
        let options = SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        };
        let world = Arc::new(World {
            bucket: Arc::new(SimClient::new(options)),
            clock: Clock::manual(),
            newest: AtomicU16::new(1),
            contents: Mutex::default(),
            shared_file: SharedFile::default(),
            is_calm: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            places: Mutex::default(),
        });
        let served = Arc::clone(&world);
        let server = shuttle::thread::spawn(move || serve(&served));
        let hosts = (0..2).map(|number| {
            let world = Arc::clone(&world);
            shuttle::thread::spawn(move || live(&world, number))
        });
        let hosts: Vec<_> = hosts.collect();
        hosts.into_iter().for_each(|it| it.join().unwrap());
        world.is_over.store(true, Ordering::SeqCst);
        server.join().unwrap();
        world.shared_file.check_bucket(&world);
    });
}
