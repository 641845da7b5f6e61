//! Carries a workload out on a mount: threads that read and write as an application would, `fio`,
//! scripts, commands.
//!
//! Knows nothing of servers, systems or reports. Invariant: a read that fails, or returns less than
//! the file holds, fails the workload; nothing is measured from wrong data.

mod fio;
mod histogram;
mod outcome;
mod pattern;
pub(crate) mod replay;
mod script;
mod write;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use nix::fcntl::OFlag;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::clock::Stopwatch;
use crate::dataset::{FileSet, KIB, MIB};
use crate::recorded::REPLAYED;
use crate::workload::{Action, Descriptors, Mode, Pattern};

pub(crate) use outcome::{Outcome, Tally};
pub(crate) use write::until_ok;

/// Makes the files that `action` needs besides the mount.
pub(crate) fn prepare(action: Action, scratch: &Path) -> Result<()> {
    source(action, scratch).map(drop)
}

/// The source that `action` copies from, made once in `scratch`; empty for others.
fn source(action: Action, scratch: &Path) -> Result<PathBuf> {
    match action {
        Action::Untar { files, .. } => write::archive(scratch, files),
        Action::Clone { files } => write::repository(scratch, files),
        _ => Ok(PathBuf::new()),
    }
}

/// The file that `action` reads and the bucket does not hold by itself, if it does so.
pub(crate) fn make(action: Action, scratch: &Path) -> Result<Option<PathBuf>> {
    match action {
        Action::Script { files, script } => script::make(scratch, files, script),
        _ => Ok(None),
    }
}

/// Writes the files that workloads read below `root`, a directory of a disk.
pub(crate) fn lay_out(root: &Path, files: FileSet) -> Result<()> {
    for index in 0..files.count {
        let path = root.join(files.key(index));
        fs::create_dir_all(path.parent().context("a key has a directory")?)?;
    }
    write::files(root, files, MIB, Mode::Buffered, 1)?;
    Ok(())
}

/// Runs `action` below `root`. Reads end at the end of their files or after `limit`.
pub(crate) fn run(action: Action, root: &Path, scratch: &Path, limit: Duration) -> Result<Outcome> {
    let source = source(action, scratch)?;
    let clock = Stopwatch::start();
    let until = Until { clock, limit };
    let tally = match action {
        Action::Sequential { files, block, mode } => sequential(root, files, block, mode, until),
        Action::Random {
            files,
            block,
            threads,
            descriptors,
            mode,
        } => {
            let shared = open(root, files, 0, mode)?;
            in_threads(threads, |thread| {
                let own = match descriptors {
                    Descriptors::One => None,
                    Descriptors::Each => Some(open(root, files, 0, mode)?),
                };
                let file = own.as_ref().unwrap_or(&shared);
                random(file, files.size, block, thread, until)
            })
        }
        Action::Pattern { files, pattern } => in_pattern(root, files, pattern, until),
        Action::FirstBytes { files } => first_bytes(root, files),
        Action::Whole { files, threads } => {
            let next = AtomicU64::new(0);
            in_threads(threads, |_| whole(root, files, &next))
        }
        Action::Command {
            files,
            program,
            arguments,
        } => command(program, arguments, &root.join(files.prefix), files.count),
        Action::Write {
            files,
            block,
            mode,
            threads,
        } => write::files(root, files, block, mode, threads),
        Action::Shuffled { files, block } => write::shuffled(root, files, block),
        Action::Untar {
            files,
            has_attributes,
        } => write::untar(root, &source, files, has_attributes),
        Action::Clone { files } => write::clone(root, &source, files),
        Action::Replay { recorded, pace } => replay::run(recorded, pace, &root.join(REPLAYED)),
        // These tell time and latencies themselves.
        Action::Fio { files, job } => return fio::run(&root.join(files.key(0)), job, limit),
        Action::Script { files, script } => return script::run(root, files, script, limit),
    }?;
    Ok(tally.outcome(clock.elapsed()))
}

/// Compares a few blocks of a mounted file that `action` read with the bucket's content.
pub(crate) fn verify(root: &Path, action: Action) -> Result<()> {
    if let Some(recorded) = action.recorded() {
        return replay::verify(recorded, root);
    }
    let files = action.files();
    let len = (64 * KIB).min(files.size);
    let mut random = StdRng::seed_from_u64(files.size);
    for offset in [
        0,
        random.random_range(0..=files.size - len),
        files.size - len,
    ] {
        let index = random.random_range(0..files.count);
        let mut bytes = vec![0; length(len)];
        open(root, files, index, Mode::Buffered)?.read_exact_at(&mut bytes, offset)?;
        let right = bytes == files.content(index, offset, len);
        ensure!(right, "{} holds wrong bytes at {offset}", files.key(index));
    }
    Ok(())
}

#[derive(Clone, Copy, Debug)]
struct Until {
    clock: Stopwatch,
    limit: Duration,
}

impl Until {
    fn is_over(self) -> bool {
        self.clock.elapsed() >= self.limit
    }
}

fn in_threads(count: u64, work: impl Fn(u64) -> Result<Tally> + Sync) -> Result<Tally> {
    let work = &work;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count)
            .map(|index| {
                let name = format!("reader-{index}");
                thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, move || work(index))
            })
            .collect::<Result<_, _>>()?;
        let mut sum = Tally::default();
        for thread in threads {
            sum.add(&thread.join().map_err(|_| anyhow!("a reader panicked"))??);
        }
        Ok(sum)
    })
}

fn sequential(root: &Path, files: FileSet, block: u64, mode: Mode, until: Until) -> Result<Tally> {
    in_threads(files.count, |index| {
        let file = open(root, files, index, mode)?;
        let mut buffer = vec![0; length(block)];
        let (mut outcome, mut offset) = (Tally::default(), 0);
        while offset < files.size && !until.is_over() {
            outcome.timed(|| read_block(&file, &mut buffer, offset))?;
            offset += block;
        }
        Ok(outcome)
    })
}

fn random(file: &File, size: u64, block: u64, seed: u64, until: Until) -> Result<Tally> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut buffer = vec![0; length(block)];
    let mut outcome = Tally::default();
    while !until.is_over() {
        let offset = random.random_range(0..size / block) * block;
        outcome.timed(|| read_block(file, &mut buffer, offset))?;
    }
    Ok(outcome)
}

fn in_pattern(root: &Path, files: FileSet, pattern: Pattern, until: Until) -> Result<Tally> {
    let file = open(root, files, 0, Mode::Direct)?;
    let (mut tally, mut buffer) = (Tally::default(), Vec::new());
    for (offset, len) in pattern::reads(pattern, files.size) {
        if until.is_over() {
            break;
        }
        buffer.resize(length(len), 0);
        tally.timed(|| read_block(&file, &mut buffer, offset))?;
    }
    Ok(tally)
}

fn first_bytes(root: &Path, files: FileSet) -> Result<Tally> {
    let mut outcome = Tally::default();
    let mut buffer = vec![0; length(files.size.min(4 * KIB))];
    for index in 0..files.count {
        outcome.timed(|| read_block(&open(root, files, index, Mode::Buffered)?, &mut buffer, 0))?;
    }
    Ok(outcome)
}

fn whole(root: &Path, files: FileSet, next: &AtomicU64) -> Result<Tally> {
    let mut outcome = Tally::default();
    let mut buffer = vec![0; length(files.size)];
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        if index >= files.count {
            return Ok(outcome);
        }
        outcome.timed(|| read_block(&open(root, files, index, Mode::Buffered)?, &mut buffer, 0))?;
    }
}

/// Runs `program` over a directory that must hold `count` files.
fn command(program: &str, arguments: &[&str], directory: &Path, count: u64) -> Result<Tally> {
    let output = Command::new(program)
        .args(arguments)
        .arg(directory)
        .env("LC_ALL", "C")
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {program}"))?;
    ensure!(
        output.status.success(),
        "{program} ended with {}",
        output.status
    );
    let lines = output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
    // At least one line for each file, or one for all.
    ensure!(
        lines >= count || lines == 1,
        "{program} printed {lines} lines for {count} files"
    );
    Ok(Tally {
        operations: count,
        ..Tally::default()
    })
}

fn flags(mode: Mode) -> OFlag {
    match mode {
        Mode::Buffered => OFlag::empty(),
        Mode::Direct => OFlag::O_DIRECT,
    }
}

fn open(root: &Path, files: FileSet, index: u64, mode: Mode) -> Result<File> {
    let path: PathBuf = root.join(files.key(index));
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags(mode).bits())
        .open(&path);
    file.with_context(|| format!("cannot open {}", path.display()))
}

/// Fills the buffer, or says why not: with one `pread`, more only if that returns less than was
/// asked. FUSE accepts any buffer for `O_DIRECT`, so it need not be aligned.
fn read_block(file: &File, buffer: &mut [u8], offset: u64) -> Result<u64> {
    file.read_exact_at(buffer, offset)
        .with_context(|| format!("read at {offset}"))?;
    Ok(buffer.len() as u64)
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).expect("a block fits in memory")
}
