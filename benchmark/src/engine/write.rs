//! Writes files as an application would: threads that write and close, `tar`, `git`.
//!
//! Invariant: every error counts, that of `close` as well; a file is written to its end whatever
//! the time.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mountpoint_client::testing::server::PERIOD;
use nix::unistd;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::outcome::Tally;
use super::{flags, in_threads, lay_out, length};
use crate::clock::Stopwatch;
use crate::dataset::FileSet;
use crate::workload::Mode;

/// Writes the files, each by one thread. The operations are files where one write makes a file,
/// else writes.
pub(super) fn files(
    root: &Path,
    files: FileSet,
    block: u64,
    mode: Mode,
    threads: u64,
) -> Result<Tally> {
    let next = AtomicU64::new(0);
    in_threads(threads, |_| {
        let mut tally = Tally::default();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= files.count {
                return Ok(tally);
            }
            let path = root.join(files.key(index));
            if files.size <= block {
                let bytes = files.content(index, 0, files.size);
                tally.timed(|| {
                    let mut file = create(&path, mode)?;
                    file.write_all(&bytes).context("write")?;
                    close(file)?;
                    Ok(files.size)
                })?;
            } else {
                large(&path, files, index, (block, mode), &mut tally)?;
            }
        }
    })
}

fn large(
    path: &Path,
    files: FileSet,
    index: u64,
    (block, mode): (u64, Mode),
    tally: &mut Tally,
) -> Result<()> {
    // The content repeats, so nothing is generated while it is written.
    let content = files.content(index, 0, PERIOD + block);
    let mut file = create(path, mode)?;
    let mut offset = 0;
    while offset < files.size {
        let start = length(offset % PERIOD);
        let len = block.min(files.size - offset);
        let bytes = &content[start..start + length(len)];
        tally.timed(|| {
            file.write_all(bytes)
                .with_context(|| format!("write at {offset}"))?;
            Ok(len)
        })?;
        offset += len;
    }
    close(file)
}

fn create(path: &Path, mode: Mode) -> Result<File> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .custom_flags(flags(mode).bits())
        .open(path);
    file.with_context(|| format!("cannot create {}", path.display()))
}

fn close(file: File) -> Result<()> {
    unistd::close(file).context("close")
}

/// Writes each block of the files once, in an order that is the same each time.
pub(super) fn shuffled(root: &Path, files: FileSet, block: u64) -> Result<Tally> {
    let mut tally = Tally::default();
    for index in 0..files.count {
        let mut blocks: Vec<u64> = (0..files.size.div_ceil(block)).collect();
        blocks.shuffle(&mut StdRng::seed_from_u64(files.seed(index)));
        let content = files.content(index, 0, PERIOD + block);
        let file = create(&root.join(files.key(index)), Mode::Buffered)?;
        for offset in blocks.into_iter().map(|number| number * block) {
            let start = length(offset % PERIOD);
            let len = block.min(files.size - offset);
            tally.timed(|| {
                let bytes = &content[start..start + length(len)];
                file.write_all_at(bytes, offset)
                    .with_context(|| format!("write at {offset}"))?;
                Ok(len)
            })?;
        }
        close(file)?;
    }
    Ok(tally)
}

/// A repository of `git` with the files, made once in `scratch`.
pub(super) fn repository(scratch: &Path, files: FileSet) -> Result<PathBuf> {
    let path = scratch.join(format!("repository-{}.git", files.seed(0)));
    if path.exists() {
        return Ok(path);
    }
    let tree = tempfile::tempdir_in(scratch)?;
    lay_out(tree.path(), files)?;
    let work = tree.path().join(files.prefix);
    let user = [
        "-c",
        "user.name=benchmark",
        "-c",
        "user.email=benchmark@localhost",
    ];
    git(Command::new("git").arg("init").arg("-q").arg(&work))?;
    git(Command::new("git").arg("-C").arg(&work).args(["add", "-A"]))?;
    git(Command::new("git")
        .arg("-C")
        .arg(&work)
        .args(user)
        .args(["commit", "-q", "-m", "files"]))?;
    git(Command::new("git")
        .args(["clone", "-q", "--bare"])
        .arg(&work)
        .arg(&path))?;
    Ok(path)
}

/// Clones the repository of the files, which takes the way of a network: no links.
pub(super) fn clone(root: &Path, repository: &Path, files: FileSet) -> Result<Tally> {
    let url = format!("file://{}", repository.display());
    git(Command::new("git")
        .args(["clone", "-q", &url])
        .arg(root.join(files.prefix)))?;
    Ok(Tally {
        operations: files.count,
        bytes: files.count * files.size,
        ..Tally::default()
    })
}

fn git(command: &mut Command) -> Result<()> {
    let status = command.status().context("cannot start git")?;
    ensure!(status.success(), "{command:?} ended with {status}");
    Ok(())
}

/// An archive of the files, made once in `scratch`.
pub(super) fn archive(scratch: &Path, files: FileSet) -> Result<PathBuf> {
    let path = scratch.join(format!("{}-{}.tar", files.prefix, files.seed(0)));
    if path.exists() {
        return Ok(path);
    }
    let tree = tempfile::tempdir_in(scratch)?;
    lay_out(tree.path(), files)?;
    let mut command = Command::new("tar");
    command
        .arg("-C")
        .arg(tree.path())
        .arg("-cf")
        .arg(&path)
        .arg(files.prefix);
    let status = command.status().context("cannot start tar")?;
    ensure!(status.success(), "tar ended with {status}");
    Ok(path)
}

/// Unpacks the archive of the files. Owners are left to the file system, and modes and times are
/// unless it `has_attributes`.
pub(super) fn untar(
    root: &Path,
    archive: &Path,
    files: FileSet,
    has_attributes: bool,
) -> Result<Tally> {
    let started = Stopwatch::start();
    let mut command = Command::new("tar");
    command.arg("-C").arg(root).arg("-xf").arg(archive);
    command.arg("--no-same-owner");
    if !has_attributes {
        command.args(["-m", "--no-same-permissions"]);
    }
    let status = command.status().context("cannot start tar")?;
    ensure!(
        status.success(),
        "tar ended with {status} after {:?}",
        started.elapsed()
    );
    Ok(Tally {
        operations: files.count,
        bytes: files.count * files.size,
        ..Tally::default()
    })
}

/// How long `operation` takes that is tried until it succeeds, at most `limit`: its last error if
/// it never does.
pub(crate) fn until_ok(
    limit: Duration,
    mut operation: impl FnMut() -> Result<()>,
) -> Result<Duration> {
    let started = Stopwatch::start();
    if operation().is_ok() {
        // A result that is there at once has cost no time; the question has.
        return Ok(Duration::ZERO);
    }
    loop {
        std::thread::sleep(POLL_INTERVAL);
        let waited = started.elapsed();
        match operation() {
            Ok(()) => return Ok(waited),
            Err(error) if waited > limit => return Err(error),
            Err(_) => {}
        }
    }
}

const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::dataset::{Dataset, WRITTEN};

    fn small() -> FileSet {
        FileSet {
            count: 3,
            ..Dataset::new(true).written_small
        }
    }

    #[track_caller]
    fn check(root: &Path, files: FileSet) {
        for index in 0..files.count {
            let bytes = fs::read(root.join(files.key(index))).unwrap();
            assert!(
                bytes == files.content(index, 0, files.size),
                "{}",
                files.key(index)
            );
        }
    }

    #[test]
    fn files_hold_what_they_should() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("written")).unwrap();
        let tally = files(root.path(), small(), 1 << 20, Mode::Buffered, 2).unwrap();
        assert_eq!((tally.operations, tally.bytes), (3, 3 * 4096));
        check(root.path(), small());
        assert!(
            files(root.path(), small(), 1 << 20, Mode::Buffered, 2).is_err(),
            "they exist"
        );
    }

    #[test]
    fn large_files_repeat_their_period() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("written")).unwrap();
        let large = FileSet {
            count: 1,
            size: 2 * PERIOD + 12_345,
            ..Dataset::new(true).written_large
        };
        files(root.path(), large, 1 << 20, Mode::Buffered, 1).unwrap();
        check(root.path(), large);
    }

    #[test]
    fn blocks_in_random_order_make_the_file() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("written")).unwrap();
        let large = FileSet {
            size: PERIOD + 12_345,
            ..Dataset::new(true).written_large
        };
        let tally = shuffled(root.path(), large, 4096).unwrap();
        assert_eq!(tally.bytes, large.size);
        check(root.path(), large);
    }

    #[test]
    fn a_repository_is_cloned() {
        let (scratch, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = FileSet {
            count: 60,
            ..Dataset::new(true).staged_repository
        };
        // The bucket has an object there before anything is written.
        fs::create_dir(root.path().join(WRITTEN)).unwrap();
        fs::write(root.path().join(WRITTEN).join("keep"), "").unwrap();
        let path = repository(scratch.path(), files).unwrap();
        assert_eq!(clone(root.path(), &path, files).unwrap().operations, 60);
        check(root.path(), files);
    }

    #[test]
    fn a_tree_goes_through_tar() {
        let (scratch, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let files = FileSet {
            count: 60,
            ..Dataset::new(true).written_tree
        };
        let path = archive(scratch.path(), files).unwrap();
        assert_eq!(
            untar(root.path(), &path, files, true).unwrap().operations,
            60
        );
        check(root.path(), files);
    }

    #[test]
    fn what_is_late_is_waited_for() {
        let mut failures = 2;
        let waited = until_ok(Duration::from_secs(60), || {
            failures -= 1;
            ensure!(failures == 0, "not yet");
            Ok(())
        });
        assert!(waited.unwrap() > Duration::ZERO);
        assert_eq!(until_ok(Duration::ZERO, || Ok(())).unwrap(), Duration::ZERO);
    }
}
