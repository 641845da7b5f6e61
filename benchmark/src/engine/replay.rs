//! Carries recorded reads out.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, ensure};
use nix::fcntl::OFlag;
use parking_lot::{Condvar, Mutex};

use super::outcome::Tally;
use crate::clock::Stopwatch;
use crate::recorded::{Pace, REPLAYED, Recorded, RecordedCall, RecordedFile, ThreadCalls, threads};

/// Issues the reads on the files below `root`.
pub(crate) fn run(recorded: &Recorded, pace: Pace, root: &Path) -> Result<Tally> {
    let threads = threads(&recorded.calls);
    let count: usize = threads.iter().map(|thread| thread.depth).sum();
    ensure!(
        count <= READERS_MAX,
        "the record needs {count} readers at once; {READERS_MAX} are possible"
    );
    let handles = Handles::new(recorded, root)?;
    let replay = Replay {
        recorded,
        pace,
        handles,
        clock: Stopwatch::start(),
    };
    let replay = &replay;
    let states: Vec<_> = threads.iter().map(ThreadState::new).collect();
    let states = states.as_slice();
    let tallies = thread::scope(|scope| {
        let mut readers = Vec::new();
        for state in states {
            for _ in 0..state.order.depth {
                let reader = thread::Builder::new().name("reader".to_owned());
                readers.push(reader.spawn_scoped(scope, move || replay.work(state, states))?);
            }
        }
        let joined = readers.into_iter().map(|reader| {
            let tally = reader.join();
            tally.map_err(|_| anyhow!("a reader panicked"))?
        });
        joined.collect::<Result<Vec<_>>>()
    })?;
    let mut sum = Tally::default();
    tallies.iter().for_each(|tally| sum.add(tally));
    Ok(sum)
}

/// Compares a few blocks of replayed files with their content. `root` is the mount.
pub(crate) fn verify(recorded: &Recorded, root: &Path) -> Result<()> {
    for file in recorded.files.iter().take(FILES_VERIFIED) {
        let len = BLOCK_VERIFIED.min(file.size);
        for offset in [0, file.size - len] {
            let found = open(file, &root.join(REPLAYED))?;
            let mut bytes = vec![0; usize::try_from(len)?];
            found.read_exact_at(&mut bytes, offset)?;
            let right = bytes == file.content(offset, len);
            ensure!(right, "{} holds wrong bytes at {offset}", file.name);
        }
    }
    Ok(())
}

struct Replay<'a> {
    recorded: &'a Recorded,
    pace: Pace,
    handles: Handles,
    clock: Stopwatch,
}

/// How far the calls of a recorded thread are.
struct ThreadState<'a> {
    order: &'a ThreadCalls,
    next: AtomicUsize,
    done: Mutex<DoneCalls>,
    changed: Condvar,
}

#[derive(Debug)]
struct DoneCalls {
    /// By the order of ends.
    is_done: Vec<bool>,
    /// Number of done calls from the first one on, without a gap.
    prefix: usize,
    /// A call has failed: the replay ends.
    is_over: bool,
}

impl<'a> ThreadState<'a> {
    fn new(order: &'a ThreadCalls) -> Self {
        Self {
            order,
            next: AtomicUsize::new(0),
            done: Mutex::new(DoneCalls {
                is_done: vec![false; order.calls.len()],
                prefix: 0,
                is_over: false,
            }),
            changed: Condvar::new(),
        }
    }

    /// Waits for the calls before the `at`th; `false` if the replay is over.
    fn wait_for(&self, at: usize) -> bool {
        let mut done = self.done.lock();
        while done.prefix < self.order.needs[at] && !done.is_over {
            self.changed.wait(&mut done);
        }
        !done.is_over
    }

    fn finished(&self, at: usize) {
        let mut done = self.done.lock();
        done.is_done[self.order.places[at]] = true;
        while done.is_done.get(done.prefix).is_some_and(|it| *it) {
            done.prefix += 1;
        }
        self.changed.notify_all();
    }

    fn end(&self) {
        self.done.lock().is_over = true;
        self.changed.notify_all();
    }
}

impl Replay<'_> {
    /// Carries out calls of one recorded thread, in turns with its other readers.
    fn work(&self, state: &ThreadState<'_>, all: &[ThreadState<'_>]) -> Result<Tally> {
        let mut tally = Tally::default();
        let mut buffer = Vec::new();
        loop {
            let at = state.next.fetch_add(1, Ordering::Relaxed);
            let Some(index) = state.order.calls.get(at) else {
                return Ok(tally);
            };
            if !state.wait_for(at) {
                return Ok(tally);
            }
            let call = &self.recorded.calls[*index];
            if self.pace == Pace::Recorded {
                let due = Duration::from_micros(call.began);
                thread::sleep(due.saturating_sub(self.clock.elapsed()));
            }
            if let Err(error) = self.carry_out(call, &mut buffer, &mut tally) {
                // No reader may wait for a call that will not end.
                all.iter().for_each(ThreadState::end);
                self.handles.end();
                return Err(error);
            }
            state.finished(at);
        }
    }

    fn carry_out(
        &self,
        call: &RecordedCall,
        buffer: &mut Vec<u8>,
        tally: &mut Tally,
    ) -> Result<()> {
        let file = &self.recorded.files[call.file];
        match call.range {
            None => self.handles.open(call.handle, file)?,
            Some((offset, len)) => {
                let Some(handle) = self.handles.file(call.handle) else {
                    return Ok(());
                };
                buffer.resize(usize::try_from(len)?, 0);
                // The kernel asks for whole pages, beyond the end too.
                let expected = usize::try_from(len.min(file.size.saturating_sub(offset)))?;
                tally.timed(|| {
                    let read = handle.read_exact_at(&mut buffer[..expected], offset);
                    read.with_context(|| format!("{} at {offset}", file.name))?;
                    Ok(expected as u64)
                })?;
            }
        }
        self.handles.used(call.handle);
        Ok(())
    }
}

/// The open files of a record.
struct Handles {
    root: PathBuf,
    handles: Mutex<Vec<Handle>>,
    changed: Condvar,
}

#[derive(Debug)]
struct Handle {
    file: Option<Arc<File>>,
    /// Calls that are left; it is closed after the last.
    calls: usize,
    /// Another call has failed: it may never be opened.
    is_over: bool,
}

impl Handles {
    /// Opens the files that were open when the record began.
    fn new(recorded: &Recorded, root: &Path) -> Result<Self> {
        let mut handles: Vec<Handle> = Vec::new();
        for call in &recorded.calls {
            if call.handle == handles.len() {
                let file = &recorded.files[call.file];
                let is_open = call.is_read();
                handles.push(Handle {
                    file: is_open.then(|| open(file, root)).transpose()?.map(Arc::new),
                    calls: 0,
                    is_over: false,
                });
            }
            handles[call.handle].calls += 1;
        }
        Ok(Self {
            root: root.to_owned(),
            handles: Mutex::new(handles),
            changed: Condvar::new(),
        })
    }

    fn open(&self, handle: usize, file: &RecordedFile) -> Result<()> {
        let opened = Arc::new(open(file, &self.root)?);
        self.handles.lock()[handle].file = Some(opened);
        self.changed.notify_all();
        Ok(())
    }

    /// The open file, as soon as it is open; `None` if the replay is over.
    fn file(&self, handle: usize) -> Option<Arc<File>> {
        let mut handles = self.handles.lock();
        loop {
            let found = &handles[handle];
            if found.file.is_some() || found.is_over {
                return found.file.clone();
            }
            self.changed.wait(&mut handles);
        }
    }

    /// A call on it has ended.
    fn used(&self, handle: usize) {
        let mut handles = self.handles.lock();
        let used = &mut handles[handle];
        used.calls -= 1;
        if used.calls == 0 {
            let file = used.file.take();
            // A close may take its time.
            drop(handles);
            drop(file);
        }
    }

    fn end(&self) {
        for handle in self.handles.lock().iter_mut() {
            handle.is_over = true;
        }
        self.changed.notify_all();
    }
}

/// Opens a file past the page cache, so that each read reaches the mount as it is.
fn open(file: &RecordedFile, root: &Path) -> Result<File> {
    let path = root.join(&file.name);
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlag::O_DIRECT.bits());
    let opened = options.open(&path);
    opened.with_context(|| format!("cannot open {}", path.display()))
}

/// Threads that read at once.
const READERS_MAX: usize = 2048;
/// Files that are compared.
const FILES_VERIFIED: usize = 3;
const BLOCK_VERIFIED: u64 = 64 << 10;
