//! Memory: a mount stays within its limit, however much is read at once. Reads slow down instead.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::IntoRawFd as _;
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering};

use mountpoint_client::testing::server::{Server, synthetic_bytes};

use crate::harness::{BUCKET, CACHE_ROOM, Mounted, mount_s3, server};

const MIB: u64 = 1 << 20;
/// Memory of the process besides data: the program, its threads, the CRT, requests, connections.
pub(crate) const OVERHEAD: u64 = 96 * MIB;

/// A memory control group of this test, of either version; removed when the test ends.
pub(crate) struct MemoryGroup {
    directory: PathBuf,
    is_v1: bool,
}

impl MemoryGroup {
    /// A group with that limit, in bytes.
    pub(crate) fn new(limit: u64) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("mountpoint-test-{}-{number}", std::process::id());
        let v1 = PathBuf::from("/sys/fs/cgroup/memory");
        let is_v1 = v1.join("memory.limit_in_bytes").exists();
        let root = if is_v1 { v1 } else { "/sys/fs/cgroup".into() };
        if !is_v1 {
            delegate_memory(&root);
        }
        let directory = root.join(name);
        std::fs::create_dir(&directory).expect("the tests run as root, with a memory controller");
        let group = Self { directory, is_v1 };
        let file = if is_v1 {
            "memory.limit_in_bytes"
        } else {
            "memory.max"
        };
        group.write(file, limit);
        // With swap, the limit would have no effect.
        let swap = if is_v1 {
            "memory.memsw.limit_in_bytes"
        } else {
            "memory.swap.max"
        };
        if group.directory.join(swap).exists() {
            group.write(swap, if is_v1 { limit } else { 0 });
        }
        group
    }

    fn write(&self, file: &str, value: u64) {
        let file = self.directory.join(file);
        std::fs::write(&file, value.to_string())
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory.join(file)).unwrap()
    }

    /// Processes that were killed because the group was out of memory.
    fn kills(&self) -> u64 {
        let file = if self.is_v1 {
            "memory.oom_control"
        } else {
            "memory.events"
        };
        let text = self.read(file);
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.unwrap().parse().unwrap()
    }

    /// Runs a program in the group.
    pub(crate) fn run(&self, program: &str, args: &[&OsStr]) -> Output {
        let mut command = Command::new("bash");
        let output = command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.directory.join("cgroup.procs"))
            .arg(program)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{program}: {output:?}");
        output
    }

    /// Has the kernel free what it keeps for the group, names of files among it.
    pub(crate) fn reclaim(&self) {
        match self.is_v1 {
            true => self.write("memory.force_empty", 0),
            // An error tells that it was less than asked for.
            false => drop(std::fs::write(self.directory.join("memory.reclaim"), "4G")),
        }
    }

    /// Mounts with a process in the group.
    fn mount(&self, server: &Server, args: &[&str]) -> Mounted {
        let wanted = mount_s3();
        let mut command = Command::new("bash");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.directory.join("cgroup.procs"))
            .arg(wanted.get_program())
            .args([
                BUCKET,
                "--endpoint-url",
                &server.url(),
                "--force-path-style",
            ])
            .args(args)
            .env_clear();
        for (name, value) in wanted.get_envs() {
            if let Some(value) = value {
                command.env(name, value);
            }
        }
        Mounted::start(command)
    }
}

/// Enables memory limits in groups below `root` (version 2).
///
/// In a container `root` contains processes, which must move to a group below it first.
fn delegate_memory(root: &Path) {
    let control = root.join("cgroup.subtree_control");
    if std::fs::write(&control, "+memory").is_ok() {
        return;
    }
    let leaf = root.join("mountpoint-test-others");
    // An earlier test may have left it.
    std::fs::create_dir(&leaf).ok();
    let processes = std::fs::read_to_string(root.join("cgroup.procs")).unwrap();
    for process in processes.lines() {
        // Some processes end meanwhile.
        std::fs::write(leaf.join("cgroup.procs"), process).ok();
    }
    std::fs::write(&control, "+memory").expect("the tests need a memory controller of their own");
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // The process has ended, but may still run after a failed test.
        std::fs::remove_dir(&self.directory).ok();
    }
}

/// The process's peak resident memory, in bytes.
pub(crate) fn resident_peak(mounted: &Mounted) -> u64 {
    memory_of(mounted, "VmHWM:")
}

/// The process's resident memory now, in bytes.
pub(crate) fn resident(mounted: &Mounted) -> u64 {
    memory_of(mounted, "VmRSS:")
}

/// The number of bytes in that line of the process's status.
fn memory_of(mounted: &Mounted, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", mounted.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let kib = line.unwrap().trim().trim_end_matches(" kB");
    kib.parse::<u64>().unwrap() << 10
}

/// `count` objects of the same bytes.
fn objects(server: &Server, count: u64, size: u64) -> Vec<u8> {
    for number in 0..count {
        let store = server.store();
        store.put_synthetic(BUCKET, &format!("file{number}"), size, 5);
    }
    synthetic_bytes(5, 0..size)
}

/// Reads as many whole objects at once.
fn read_all(mounted: &Mounted, count: u64, expected: &[u8]) {
    std::thread::scope(|scope| {
        for number in 0..count {
            scope.spawn(move || {
                let file = File::open(mounted.join(&format!("file{number}"))).unwrap();
                let mut buffer = vec![0; 256 << 10];
                for (offset, part) in (0..).step_by(buffer.len()).zip(expected.chunks(256 << 10)) {
                    file.read_exact_at(&mut buffer, offset).unwrap();
                    assert!(buffer == part, "wrong bytes in file {number} at {offset}");
                }
            });
        }
    });
}

fn open_direct(mounted: &Mounted, name: &str) -> File {
    let mut options = File::options();
    options.read(true).custom_flags(libc::O_DIRECT);
    options.open(mounted.join(name)).unwrap()
}

fn read_at(file: &File, offset: u64, len: usize) -> Vec<u8> {
    let mut buffer = vec![0; len];
    file.read_exact_at(&mut buffer, offset).unwrap();
    buffer
}

#[test]
fn many_streams_in_a_small_control_group() {
    let server = server();
    let expected = objects(&server, 64, 12 * MIB);
    let group = MemoryGroup::new(256 * MIB);
    let mounted = group.mount(&server, &[]);
    read_all(&mounted, 64, &expected);
    assert_eq!(group.kills(), 0);
    // The peak of the group is no use: it includes the program's pages only if no other process has
    // read them.
    let peak = resident_peak(&mounted);
    assert!(peak <= 128 * MIB + OVERHEAD, "{} MiB", peak >> 20);
    drop(mounted);
}

/// The cache on disk takes no memory of its own: what waits to be stored is a share of the budget.
#[test]
fn many_streams_in_a_small_control_group_with_a_cache() {
    let server = server();
    let expected = objects(&server, 64, 12 * MIB);
    let cache = tempfile::tempdir().unwrap();
    let mut args = vec!["--cache", cache.path().to_str().unwrap()];
    args.extend(CACHE_ROOM);
    args.extend(["--cache-passthrough", "off"]);
    // The second mount reads the bytes on the disk as well.
    for _ in 0..2 {
        let group = MemoryGroup::new(256 * MIB);
        let mounted = group.mount(&server, &args);
        read_all(&mounted, 64, &expected);
        assert_eq!(group.kills(), 0);
        let peak = resident_peak(&mounted);
        assert!(peak <= 128 * MIB + OVERHEAD, "{} MiB", peak >> 20);
        drop(mounted);
    }
}

#[test]
fn a_thousand_streams_within_the_target() {
    let server = server();
    let expected = objects(&server, 1000, 4 * MIB);
    let mounted = Mounted::new(&server, &["--memory-target", "512"]);
    let files: Vec<_> = (0..1000)
        .map(|number| File::open(mounted.join(&format!("file{number}"))).unwrap())
        .collect();
    // In turn, so that each stream is half read while all others are read.
    for part in 0..4 {
        let range = part * (256 << 10)..(part + 1) * (256 << 10);
        let expected = &expected[range.clone()];
        std::thread::scope(|scope| {
            for files in files.chunks(63) {
                let range = range.clone();
                scope.spawn(move || {
                    let mut buffer = vec![0; range.len()];
                    for file in files {
                        file.read_exact_at(&mut buffer, range.start as u64).unwrap();
                        assert!(buffer == expected, "wrong bytes at {}", range.start);
                    }
                });
            }
        });
    }
    let peak = resident_peak(&mounted);
    assert!(peak <= 512 * MIB + OVERHEAD, "{} MiB", peak >> 20);
}

/// Reads the beginning of 1,000 open files while it writes 500 new ones.
fn read_and_write_all(server: &Server, mounted: &Mounted) {
    let expected = objects(server, 1000, 4 * MIB);
    let barrier = Barrier::new(16 + WRITERS);
    let open = |number| File::open(mounted.join(&format!("file{number}"))).unwrap();
    let files: Vec<File> = (0..1000).map(open).collect();
    std::thread::scope(|scope| {
        for files in files.chunks(63) {
            let (barrier, expected) = (&barrier, &expected);
            scope.spawn(move || {
                barrier.wait();
                let mut buffer = vec![0; 256 << 10];
                // In turn, so that each stream is half read while all others are read.
                for part in expected[..1 << 20].chunks(buffer.len()).enumerate() {
                    let (index, part) = part;
                    for file in files {
                        let offset = (index * part.len()) as u64;
                        file.read_exact_at(&mut buffer, offset).unwrap();
                        assert!(buffer == part, "wrong bytes at {offset}");
                    }
                }
            });
        }
        for number in 0..WRITERS {
            let (barrier, expected) = (&barrier, &expected);
            scope.spawn(move || {
                let mut file = File::create(mounted.join(&format!("new{number}"))).unwrap();
                file.write_all(&expected[..4096]).unwrap();
                // From here on all of them hold a buffer.
                barrier.wait();
                // Long ones: the kernel sends as much as it may, and that is in memory while it
                // waits.
                let len = if number % 2 == 0 { 64 << 10 } else { WRITTEN };
                for part in expected[4096..WRITTEN].chunks(len) {
                    file.write_all(part).unwrap();
                }
                close(file).unwrap();
            });
        }
    });
    for number in 0..WRITERS {
        let object = server.store().object(BUCKET, &format!("new{number}"));
        assert!(
            object.unwrap().bytes() == expected[..WRITTEN],
            "new{number}"
        );
    }
}

/// Closes a file and returns the outcome.
fn close(file: File) -> nix::Result<()> {
    nix::unistd::close(file.into_raw_fd())
}

const WRITERS: usize = 500;
/// Bytes of each new file. Together more than any of these mounts may hold for writers.
const WRITTEN: usize = 1 << 20;

#[test]
fn a_thousand_streams_and_five_hundred_writers_within_the_target() {
    let server = server();
    let group = MemoryGroup::new(512 * MIB + OVERHEAD);
    let mounted = group.mount(&server, &["--memory-target", "512"]);
    read_and_write_all(&server, &mounted);
    assert_eq!(group.kills(), 0);
    drop(mounted);
}

#[test]
fn a_thousand_streams_and_five_hundred_writers_in_a_small_control_group() {
    let server = server();
    let group = MemoryGroup::new(256 * MIB);
    let mounted = group.mount(&server, &[]);
    read_and_write_all(&server, &mounted);
    assert_eq!(group.kills(), 0);
    let peak = resident_peak(&mounted);
    assert!(peak <= 128 * MIB + OVERHEAD, "{} MiB", peak >> 20);
    drop(mounted);
}

#[test]
fn memory_of_one_size_serves_another() {
    let server = server();
    let expected = objects(&server, 32, 12 * MIB);
    for number in 0..SMALL {
        let name = format!("small{number}");
        server.store().put_synthetic(BUCKET, &name, 64 << 10, 5);
    }
    // Half of it is for data: memory of small files must serve the large ones afterwards.
    let group = MemoryGroup::new(160 * MIB);
    let mounted = group.mount(&server, &[]);
    for _ in 0..2 {
        // Each holds a block of its size, together nearly all memory that the mount may use.
        let open = |number| open_direct(&mounted, &format!("small{number}"));
        let files: Vec<_> = (0..SMALL).map(open).collect();
        for file in &files {
            assert_eq!(read_at(file, 0, 4096), expected[..4096]);
        }
        drop(files);
        for len in [100 << 10, 300 << 10, 700 << 10] {
            let file = open_direct(&mounted, "file0");
            for number in [5, 2, 7, 1, 10] {
                let from = number << 20;
                assert!(read_at(&file, from as u64, len) == expected[from..from + len]);
            }
        }
        read_all(&mounted, 32, &expected);
    }
    assert_eq!(group.kills(), 0);
    drop(mounted);
}

/// Files that are held open at once.
const SMALL: usize = 1200;
