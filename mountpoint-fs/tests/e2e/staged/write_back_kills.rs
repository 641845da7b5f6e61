//! Kills of mounts with write-back: what a close acknowledged is there afterwards.
//!
//! One program changes files and notes what was acknowledged. The mount is killed at some moment,
//! and made again on the directory. The call that was cut short was done as a whole, or not at all;
//! a rename of an object may have made the new name and left the old one.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};

use super::mount;
use crate::harness::{BUCKET, below, server};

/// Contents by name.
type Files = BTreeMap<String, Vec<u8>>;

/// A generator of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A change of a file.
#[derive(Debug)]
enum Change {
    Write(String, Vec<u8>),
    Append(String, Vec<u8>),
    Rename(String, String),
    Remove(String),
}

impl Change {
    fn any(numbers: &mut Numbers, files: &Files, count: u64) -> Self {
        let fresh = format!("d{}/f{}", numbers.below(3), numbers.below(12));
        let known: Vec<_> = files.keys().cloned().collect();
        let len = [10, 3000, 100_000][usize::try_from(numbers.below(3)).unwrap()];
        let bytes: Vec<u8> = (0..len)
            .map(|at: u64| (at ^ count).to_le_bytes()[0])
            .collect();
        if known.is_empty() {
            return Self::Write(fresh, bytes);
        }
        let one = known[usize::try_from(numbers.below(known.len() as u64)).unwrap()].clone();
        match numbers.below(8) {
            0 => Self::Remove(one),
            1 | 2 if one != fresh => Self::Rename(one, fresh),
            3 => Self::Append(one, bytes),
            // A large file has its bytes beside the journal.
            4 => Self::Write(format!("d0/large{count}"), bytes.repeat(8)),
            _ => Self::Write(fresh, bytes),
        }
    }

    fn make(&self, mount: &Path) -> io::Result<()> {
        match self {
            Self::Write(name, bytes) => write(&mount.join(name), bytes, false),
            Self::Append(name, bytes) => write(&mount.join(name), bytes, true),
            Self::Rename(from, to) => fs::rename(mount.join(from), mount.join(to)),
            Self::Remove(name) => fs::remove_file(mount.join(name)),
        }
    }

    fn note(&self, files: &mut Files) {
        match self {
            Self::Write(name, bytes) => drop(files.insert(name.clone(), bytes.clone())),
            Self::Append(name, bytes) => files.get_mut(name).unwrap().extend(bytes),
            Self::Rename(from, to) => {
                let bytes = files.remove(from).unwrap();
                files.insert(to.clone(), bytes);
            }
            Self::Remove(name) => drop(files.remove(name)),
        }
    }
}

/// Writes and closes; all bytes in one WRITE, so that a cut file is none of the two.
fn write(path: &Path, bytes: &[u8], appends: bool) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    match appends {
        true => options.append(true),
        false => options.write(true).create(true).truncate(true),
    };
    let mut file = options.open(path)?;
    io::Write::write_all(&mut file, bytes)?;
    nix::unistd::close(file).map_err(io::Error::from)
}

fn read_all(mount: &Path) -> Files {
    let mut files = Files::new();
    for directory in fs::read_dir(mount).unwrap() {
        let directory = directory.unwrap();
        for file in fs::read_dir(directory.path()).unwrap() {
            let file = file.unwrap();
            let directory = directory.file_name();
            let name = format!("{}/{}", directory.display(), file.file_name().display());
            files.insert(name, fs::read(file.path()).unwrap());
        }
    }
    files
}

/// The files behind the call that was `cut`: one of its possible results, or the test fails.
fn after(mut files: Files, cut: &Change, mount: &Path, context: &str) -> Files {
    let found = read_all(mount);
    if let Change::Rename(from, to) = cut
        && found.get(from) == files.get(from)
        && found.get(to) == files.get(from)
    {
        // The object of a rename has both names until the old one is deleted.
        files.insert(to.clone(), files[from].clone());
    }
    if summed(&found) == summed(&files) {
        if let Change::Remove(name) = cut {
            // The object may be gone, and the newer version wait.
            fs::remove_file(mount.join(name)).unwrap();
            cut.note(&mut files);
        }
        return files;
    }
    let cut_name = name_of(cut);
    let mut done = files.clone();
    cut.note(&mut done);
    assert_eq!(
        summed(&found),
        summed(&done),
        "{context}: {cut_name}, {:?}",
        summed(&files)
    );
    done
}

fn check(seed: u64) {
    let server = server();
    let staging = tempfile::tempdir().unwrap();
    let mut numbers = Numbers(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let mut files = Files::new();
    let mut count = 0;
    for round in 0..ROUNDS {
        let delay = numbers.below(2).to_string();
        let args = ["--write-back", "--write-back-delay", &delay];
        let mounted = mount(&server, staging.path(), &args);
        assert_eq!(
            summed(&read_all(mounted.path())),
            summed(&files),
            "seed {seed}, round {round}"
        );
        for directory in 0..3 {
            fs::create_dir_all(mounted.join(&format!("d{directory}"))).unwrap();
        }
        let pid = mounted.pid();
        let time = Duration::from_millis(100 + numbers.below(900));
        let is_killed = Arc::new(AtomicBool::new(false));
        let tells = Arc::clone(&is_killed);
        let killer = std::thread::spawn(move || {
            std::thread::sleep(time);
            // A call fails before this thread has ended.
            tells.store(true, Ordering::SeqCst);
            kill(pid, Signal::SIGKILL).unwrap();
        });
        let cut = loop {
            count += 1;
            let change = Change::any(&mut numbers, &files, count);
            match change.make(mounted.path()) {
                Ok(()) => change.note(&mut files),
                Err(_) if is_killed.load(Ordering::SeqCst) => break change,
                Err(error) => panic!("seed {seed}, round {round}: {change:?}: {error}"),
            }
        };
        killer.join().unwrap();
        mounted.kill();
        // The cut call was carried out or not.
        let mounted = mount(
            &server,
            staging.path(),
            &["--write-back", "--write-back-delay", "3600"],
        );
        files = after(
            files,
            &cut,
            mounted.path(),
            &format!("seed {seed}, round {round}"),
        );
        mounted.kill();
    }
    let args = ["--write-back", "--drain-timeout", "600"];
    assert!(mount(&server, staging.path(), &args).unmount().success());
    assert_eq!(
        summed(&below(&server, BUCKET, "")),
        summed(&files),
        "seed {seed}"
    );
    let kept = staging.path().join("mount-s3-staging/kept");
    assert_eq!(fs::read_dir(kept).unwrap().count(), 0, "seed {seed}");
}

/// Lengths and sums, which a failure can show.
fn summed(files: &Files) -> BTreeMap<&str, (usize, u64)> {
    let sum = |bytes: &[u8]| {
        bytes.iter().fold(0_u64, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(u64::from(*byte))
        })
    };
    let files = files.iter();
    files
        .map(|(name, bytes)| (&**name, (bytes.len(), sum(bytes))))
        .collect()
}

fn name_of(change: &Change) -> String {
    match change {
        Change::Write(name, _) => format!("write {name}"),
        Change::Append(name, _) => format!("append {name}"),
        Change::Rename(from, to) => format!("rename {from} {to}"),
        Change::Remove(name) => format!("remove {name}"),
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_kills() {
    for seed in 1..=SEEDS {
        check(seed);
    }
}

/// About 20 s.
const SEEDS: u64 = 2;
const ROUNDS: u64 = 3;
