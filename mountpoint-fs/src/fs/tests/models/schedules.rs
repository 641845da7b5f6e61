//! The threads of a kernel on one file system, in schedules of the test's choice.
//!
//! Every program writes whole versions of a few names, renames, removes and reads them, while
//! requests are answered in any order and some are interrupted. A version is one byte over and
//! over, and its size follows from that byte: whatever is read or stored is one version, or nothing
//! of a file that its program has just emptied.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

use mountpoint_client::ErrorKind;
use mountpoint_client::testing::sim::Time;
use shuttle::rand::Rng as _;

use super::*;
use crate::operation::{RenameMode, Stop, WriteOptions};
use crate::sync::{Mutex, explore};

const ROOT: InodeNo = InodeNo::ROOT;
const NAMES: [&str; 2] = ["a", "b"];

fn version(number: u8) -> Vec<u8> {
    vec![number; 10 + usize::from(number)]
}

fn is_version(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|first| bytes == version(*first))
}

/// What the programs share.
struct World {
    mount: Mount,
    /// The number of the newest version.
    newest: AtomicU8,
    /// The files that are being written.
    written: Mutex<Vec<InodeNo>>,
    /// Two programs wrote one file at once, so its bytes may be of both.
    is_mixed: AtomicBool,
}

impl World {
    #[track_caller]
    fn check(&self, what: &str, bytes: &[u8]) {
        let is_version = is_version(bytes) || self.is_mixed.load(Ordering::SeqCst);
        assert!(is_version, "{what} is {bytes:?}");
    }
}

/// One program of an exploration.
struct Program {
    world: Arc<World>,
    number: u32,
}

impl Program {
    fn run(&self) {
        let mut random = shuttle::rand::thread_rng();
        for _ in 0..3 {
            let name = NAMES[random.gen_range(0..NAMES.len())];
            let other = NAMES[random.gen_range(0..NAMES.len())];
            match random.gen_range(0..6) {
                0 | 1 => self.write(name),
                2 => self.rename(name, other),
                3 => self.remove(name),
                4 => self.read(name),
                _ => self.look_and_leave(name),
            }
        }
    }

    fn lookup(&self, name: &str) -> Option<InodeNo> {
        let fs = &self.world.mount.fs;
        let found = shuttle::future::block_on(fs.lookup(ROOT, OsStr::new(name)));
        Some(found.ok()?.attributes.ino)
    }

    /// Replaces or makes a file as `cp` does.
    fn write(&self, name: &str) {
        let fs = &self.world.mount.fs;
        let options = WriteOptions {
            truncate: true,
            ..WriteOptions::default()
        };
        let opener = Opener {
            process: self.number,
            started: 1,
        };
        let (ino, opened) = match self.lookup(name) {
            Some(ino) => {
                let opened = fs.open_for_writing(ino, options, opener);
                (ino, shuttle::future::block_on(opened))
            }
            None => {
                let created = fs.create_for(ROOT, OsStr::new(name), options, opener);
                match shuttle::future::block_on(created) {
                    Ok((entry, opened)) => (entry.attributes.ino, Ok(opened)),
                    Err(_) => return,
                }
            }
        };
        if let Ok(opened) = opened {
            let others = self.world.written.lock().contains(&ino);
            self.world.is_mixed.fetch_or(others, Ordering::SeqCst);
            self.world.written.lock().push(ino);
            let bytes = version(self.world.newest.fetch_add(1, Ordering::SeqCst));
            let written = shuttle::future::block_on(fs.write(opened.handle, 0, &bytes));
            if written.is_ok() {
                drop(shuttle::future::block_on(fs.flush(opened.handle, &OPENER)));
            }
            fs.release(opened.handle);
            let mut written = self.world.written.lock();
            let its = written.iter().position(|it| *it == ino);
            written.remove(its.unwrap());
        }
        fs.forget(ino, 1);
    }

    fn rename(&self, from: &str, to: &str) {
        let (from, to) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
        let stop = Stop::never();
        let renamed = self
            .world
            .mount
            .fs
            .rename(from, to, RenameMode::Replace, &stop);
        drop(shuttle::future::block_on(renamed));
    }

    fn remove(&self, name: &str) {
        let removed = self.world.mount.fs.unlink(ROOT, OsStr::new(name));
        drop(shuttle::future::block_on(removed));
    }

    fn read(&self, name: &str) {
        let fs = &self.world.mount.fs;
        let Some(ino) = self.lookup(name) else { return };
        if let Ok(opened) = shuttle::future::block_on(fs.open(ino, READ)) {
            let read = fs.read(opened.handle, 0, 4096, !opened.direct_io);
            if let Ok(bytes) = shuttle::future::block_on(read) {
                let bytes = bytes.to_vec();
                self.world.check(name, &bytes);
            }
            fs.release(opened.handle);
        }
        fs.forget(ino, 1);
    }

    /// A lookup whose program is interrupted.
    fn look_and_leave(&self, name: &str) {
        let fs = &self.world.mount.fs;
        let looked = fs.lookup(ROOT, OsStr::new(name)).now_or_never();
        if let Some(Ok(entry)) = looked {
            fs.forget(entry.attributes.ino, 1);
        }
    }
}

/// Answers requests in any order until all programs have ended, and fails a few.
fn serve(mount: &Mount, is_over: &AtomicBool) {
    let mut random = shuttle::rand::thread_rng();
    loop {
        let gets = mount.bucket.pending_gets().into_iter().map(|get| get.id);
        let others = mount.bucket.pending_requests();
        let pending: Vec<_> = gets.chain(others.iter().map(|it| it.id)).collect();
        if pending.is_empty() && is_over.load(Ordering::SeqCst) {
            return;
        }
        if !pending.is_empty() {
            let chosen = random.gen_range(0..pending.len());
            match random.gen_range(0..20) {
                0 => mount.bucket.fail(pending[chosen], ErrorKind::Transient),
                _ => mount.bucket.finish(pending[chosen]),
            };
        }
        shuttle::thread::yield_now();
    }
}

#[test]
fn whatever_the_schedule_versions_stay_whole_and_nothing_is_left() {
    explore(|| {
        let options = SimOptions {
            time: Time::Manual,
            ..SimOptions::default()
        };
        let world = Arc::new(World {
            mount: Mount::with_write(options, "", &[], all_changes()),
            newest: AtomicU8::new(101),
            written: Mutex::default(),
            is_mixed: AtomicBool::new(false),
        });
        let mount = &world.mount;
        mount.bucket.put_object("a", version(100));
        let is_over = Arc::new(AtomicBool::new(false));
        let programs: Vec<_> = (1..=3)
            .map(|number| {
                let world = Arc::clone(&world);
                let program = Program { world, number };
                shuttle::thread::spawn(move || program.run())
            })
            .collect();
        let (served, its) = (Arc::clone(&world), Arc::clone(&is_over));
        let server = shuttle::thread::spawn(move || serve(&served.mount, &its));
        programs.into_iter().for_each(|it| it.join().unwrap());
        shuttle::future::block_on(mount.fs.drained());
        is_over.store(true, Ordering::SeqCst);
        server.join().unwrap();
        assert_eq!(mount.fs.inode_count(), 0);
        assert_eq!(mount.fs.parts.writing.bytes_held(), 0);
        for name in NAMES {
            if let Some(object) = mount.bucket.object(name) {
                world.check(name, &object.content.to_vec());
            }
        }
    });
}
