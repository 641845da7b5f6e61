//! A program, which knows what its files may be.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use super::host::Host;
use super::*;
use crate::fs::tests::{OPENER, READ};
use crate::handle::Opener;
use crate::operation::{FsError, InodeNo, RenameMode, Stop, WriteOptions};

const ROOT: InodeNo = InodeNo::ROOT;

/// Steps of a program between two starts of its host.
const STEPS: usize = 4;

pub(super) struct Program {
    /// The states that each of its files may have.
    files: BTreeMap<String, BTreeSet<State>>,
    /// Files that a call has failed to remove or rename, or not: what is written next with
    /// write-back, the upload may find in conflict with that.
    doubtful: BTreeSet<String>,
    number: u32,
}

impl Program {
    pub(super) fn new(host: usize, number: u32) -> Self {
        let names = ["a", "b"].map(|name| format!("{name}-{host}-{number}"));
        Self {
            files: names.map(|name| (name, BTreeSet::from([None]))).into(),
            doubtful: BTreeSet::new(),
            number: number + 1,
        }
    }

    pub(super) fn run(&mut self, host: &Host) {
        for _ in 0..STEPS {
            if host.is_off() {
                return;
            }
            let (name, other) = (self.any_name(), self.any_name());
            match thread_rng().gen_range(0..6) {
                0 | 1 => self.write(host, &name),
                2 => self.rename(host, &name, &other),
                3 => self.remove(host, &name),
                4 => self.read_own(host, &name),
                _ => read_others(host),
            }
        }
    }

    fn any_name(&self) -> String {
        let chosen = thread_rng().gen_range(0..self.files.len());
        self.files.keys().nth(chosen).unwrap().clone()
    }

    /// Notes the state `new` of a file; beside those that it may have had if the call `is_unsure`.
    fn may_be(&mut self, name: &str, new: &[State], is_unsure: bool) {
        let states = self.files.get_mut(name).unwrap();
        if !is_unsure && !self.doubtful.contains(name) {
            states.clear();
        }
        states.extend(new);
    }

    fn write(&mut self, host: &Host, name: &str) {
        let number = host.world.newest.fetch_add(1, Ordering::SeqCst);
        host.writes[0].fetch_add(1, Ordering::SeqCst);
        let written = block_on(write_whole(host, name, self.number, number));
        host.writes[1].fetch_add(1, Ordering::SeqCst);
        // An acknowledgement that comes behind the power loss reaches nobody.
        let is_sure = written.is_ok() && !host.is_off();
        host.note(|| format!("{name} is written as {number}: {written:?}"));
        match is_sure {
            true => self.may_be(name, &[Some(number)], false),
            false => self.may_be(name, &[Some(number), Some(0)], true),
        }
    }

    fn rename(&mut self, host: &Host, from: &str, to: &str) {
        if from == to {
            return;
        }
        let (old, new) = ((ROOT, OsStr::new(from)), (ROOT, OsStr::new(to)));
        let stop = Stop::never();
        let (known, other) = (look(host, from), look(host, to));
        let renamed = block_on(host.fs.rename(old, new, RenameMode::Replace, &stop));
        forget(host, [known, other]);
        let is_unsure = renamed.is_err() || host.is_off();
        host.note(|| format!("{from} is renamed {to}: {renamed:?}"));
        let moved: Vec<State> = self.files[from].iter().copied().collect();
        let moved: Vec<State> = moved.into_iter().filter(Option::is_some).collect();
        if renamed.is_ok() {
            assert!(!moved.is_empty(), "{from} was renamed, and there was none");
        }
        if is_unsure && host.mode == Mode::WriteBack {
            self.doubtful.extend([from.to_owned(), to.to_owned()]);
        }
        self.may_be(to, &moved, is_unsure);
        self.may_be(from, &[None], is_unsure);
    }

    fn remove(&mut self, host: &Host, name: &str) {
        let known = look(host, name);
        let removed = block_on(host.fs.unlink(ROOT, OsStr::new(name)));
        forget(host, [known]);
        host.note(|| format!("{name} is removed: {removed:?}"));
        let is_unsure = removed.is_err() || host.is_off();
        if is_unsure && host.mode == Mode::WriteBack {
            self.doubtful.insert(name.to_owned());
        }
        self.may_be(name, &[None], is_unsure);
    }

    fn read_own(&mut self, host: &Host, name: &str) {
        let Some(found) = block_on(read_whole(host, name)) else {
            return;
        };
        let states = &self.files[name];
        assert!(
            states.contains(&found),
            "{name} is {found:?}, may be {states:?}"
        );
    }

    /// Compares the objects with what they may be.
    pub(super) fn check_bucket(&self, world: &World) {
        for (name, states) in &self.files {
            let object = world.bucket.object(name);
            let found = object.and_then(|it| state_of(name, &it.content.to_vec()));
            assert!(
                states.contains(&found),
                "the bucket's {name} is {found:?}, may be {states:?}"
            );
        }
    }
}

/// Looks a name up, as the kernel does before each call.
fn look(host: &Host, name: &str) -> Option<InodeNo> {
    let looked = block_on(host.fs.lookup(ROOT, OsStr::new(name)));
    Some(looked.ok()?.attributes.ino)
}

fn forget<const N: usize>(host: &Host, known: [Option<InodeNo>; N]) {
    for ino in known.into_iter().flatten() {
        host.fs.forget(ino, 1);
    }
}

async fn write_whole(host: &Host, name: &str, process: u32, number: u16) -> Result<(), FsError> {
    let fs = &host.fs;
    let options = WriteOptions {
        truncate: true,
        ..WriteOptions::default()
    };
    let opener = Opener {
        process,
        started: 1,
    };
    let (ino, opened) = match fs.lookup(ROOT, OsStr::new(name)).await {
        Ok(entry) => {
            let ino = entry.attributes.ino;
            (ino, fs.open_for_writing(ino, options, opener).await)
        }
        Err(FsError::NotFound) => {
            let created = fs
                .create_for(ROOT, OsStr::new(name), options, opener)
                .await?;
            (created.0.attributes.ino, Ok(created.1))
        }
        Err(error) => return Err(error),
    };
    let outcome = match opened {
        Ok(opened) => {
            let written = fs.write(opened.handle, 0, &version(number)).await;
            let closed = fs.flush(opened.handle, &OPENER).await;
            fs.release(opened.handle);
            written.and(closed)
        }
        Err(error) => Err(error),
    };
    fs.forget(ino, 1);
    outcome
}

/// The state of a file; nothing if it cannot be told.
async fn read_whole(host: &Host, name: &str) -> Option<State> {
    let fs = &host.fs;
    let (is_beside, begun) = host.writes();
    let ino = match fs.lookup(ROOT, OsStr::new(name)).await {
        Ok(entry) => entry.attributes.ino,
        Err(FsError::NotFound) => return Some(None),
        Err(_) => return None,
    };
    let mut state = None;
    if let Ok(opened) = fs.open(ino, READ).await {
        if let Ok(bytes) = fs.read(opened.handle, 0, 4096, !opened.direct_io).await {
            let what = format!("host {} in {:?}: {name}", host.number, host.mode);
            let is_alone = !is_beside && host.writes().1 == begun;
            state = is_alone.then(|| state_of(&what, &bytes.to_vec()));
        }
        fs.release(opened.handle);
    }
    fs.forget(ino, 1);
    state
}

/// Reads any file of any program.
fn read_others(host: &Host) {
    let (owner, program) = (thread_rng().gen_range(0..2), thread_rng().gen_range(0..2));
    let name = format!("a-{owner}-{program}");
    let _ = block_on(read_whole(host, &name));
}
