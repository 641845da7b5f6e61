//! A mount of the run, which is killed and made anew while the load goes on.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use mountpoint_client::testing::server::Server;
use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use parking_lot::{Mutex, RwLock};
use tempfile::TempDir;

use super::keys::Keys;
use super::program::Program;
use super::tally::Tally;
use super::watch::{Handles, handles};
use crate::harness::{BUCKET, Mounted};

/// What a mount is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Reads only, through a small disk cache, with remembered names.
    Reading,
    /// Writes from memory.
    Streaming,
    Staging,
    WriteBack,
}

pub(super) const KINDS: [Kind; 4] = [
    Kind::Reading,
    Kind::Streaming,
    Kind::Staging,
    Kind::WriteBack,
];

/// Room of the disk cache, of which the load reads several times as much.
pub(super) const CACHE_MIB: u64 = 48;

/// Least that `--memory-target` takes.
pub(super) const MEMORY_MIB: u64 = 512;

impl Kind {
    pub(super) fn writes(self) -> bool {
        self != Self::Reading
    }

    /// Whether an open sees the newest version, whoever stored it.
    pub(super) fn is_fresh(self) -> bool {
        self != Self::Reading
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Reading => "reading",
            Self::Streaming => "streaming",
            Self::Staging => "staging",
            Self::WriteBack => "write-back",
        }
    }

    fn args(self, folder: &str) -> Vec<String> {
        let cache = CACHE_MIB.to_string();
        let own: &[&str] = match self {
            Self::Reading => &["--read-only", "--cache", folder, "--max-cache-size", &cache],
            Self::Streaming => &["--allow-changes"],
            Self::Staging => &["--allow-changes", "--staging", folder],
            Self::WriteBack => &[
                "--allow-changes",
                "--staging",
                folder,
                "--write-back",
                "--drain-timeout",
                "600",
            ],
        };
        own.iter().map(|arg| (*arg).to_owned()).collect()
    }
}

/// What every mount of a run is made with.
pub(super) type Mounting<'a> = (&'a Server, &'a Keys, &'a Program);

/// A mount, or the next one in its place: the folder of its cache or staged files stays.
pub(super) struct Place {
    pub(super) kind: Kind,
    pub(super) folder: TempDir,
    state: TempDir,
    /// Read-locked by every call of the load, write-locked while the mount is exchanged.
    gate: RwLock<Option<Mounted>>,
    /// Counts the beginnings and ends of kills: a call that fails meanwhile was cut.
    kill_steps: AtomicU64,
    process: Mutex<Option<Process>>,
    lives: AtomicU64,
}

/// The process of a mount, for the watch, which waits for no lock of the load.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: Pid,
    pub(super) directory: PathBuf,
    pub(super) log: File,
    /// Counts the processes of the place.
    pub(super) life: u64,
    /// Descriptors and threads before the first call.
    pub(super) first: Handles,
}

impl Process {
    pub(super) fn again(&self) -> Self {
        Self {
            pid: self.pid,
            directory: self.directory.clone(),
            log: self.log.try_clone().unwrap(),
            life: self.life,
            first: self.first,
        }
    }
}

/// How a call of the load ended.
pub(super) enum Outcome<T> {
    Done(T),
    /// The mount was killed during the call.
    Cut,
    Failed(io::Error),
}

/// Whether a kill was under way when a call began, or has begun since.
fn is_cut(before: u64, now: u64) -> bool {
    now != before || !before.is_multiple_of(2)
}

impl Place {
    pub(super) fn new(kind: Kind, mounting: Mounting<'_>) -> Self {
        let place = Self {
            kind,
            folder: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
            gate: RwLock::new(None),
            kill_steps: AtomicU64::new(0),
            process: Mutex::new(None),
            lives: AtomicU64::new(0),
        };
        let mounted = place.mount(mounting);
        *place.gate.write() = Some(mounted);
        place
    }

    fn mount(&self, (server, keys, program): Mounting<'_>) -> Mounted {
        let mut command = program.command();
        keys.give(&mut command);
        command.args([BUCKET, "--endpoint-url", &server.url()]);
        command.args(["--force-path-style", "--state-directory"]);
        command.arg(self.state.path());
        command.args(["--memory-target", &MEMORY_MIB.to_string()]);
        command.args(self.kind.args(self.folder.path().to_str().unwrap()));
        let mounted = Mounted::start(command);
        let life = self.lives.fetch_add(1, Ordering::SeqCst);
        *self.process.lock() = Some(Process {
            pid: mounted.pid(),
            directory: mounted.path().to_owned(),
            log: mounted.log_file(),
            life,
            first: handles(mounted.pid()).unwrap(),
        });
        mounted
    }

    /// The running process, unless the mount is being exchanged.
    pub(super) fn process(&self) -> Option<Process> {
        self.process.lock().as_ref().map(Process::again)
    }

    /// Does something in the mount, as soon as there is one.
    pub(super) fn call<T>(
        &self,
        tally: &Tally,
        what: &str,
        call: impl FnOnce(&Path) -> io::Result<T>,
    ) -> (Outcome<T>, Instant) {
        let gate = self.gate.read();
        let mounted = gate.as_ref().expect("a mount");
        let kill_steps = self.kill_steps.load(Ordering::SeqCst);
        let _running = tally.begin(&format!("{} {what}", self.kind.name()));
        let start = Instant::now();
        let outcome = match call(mounted.path()) {
            Ok(value) => Outcome::Done(value),
            Err(_) if is_cut(kill_steps, self.kill_steps.load(Ordering::SeqCst)) => Outcome::Cut,
            Err(error) => Outcome::Failed(error),
        };
        (outcome, start)
    }

    /// Kills the process in the midst of calls, and mounts again.
    pub(super) fn kill(&self, mounting: Mounting<'_>) {
        let Some(process) = self.process.lock().take() else {
            return;
        };
        self.kill_steps.fetch_add(1, Ordering::SeqCst);
        kill(process.pid, Signal::SIGKILL).unwrap();
        let mut gate = self.gate.write();
        gate.take().unwrap().kill();
        *gate = Some(self.mount(mounting));
        self.kill_steps.fetch_add(1, Ordering::SeqCst);
    }

    /// Unmounts lazily while a file is read, and mounts anew when the process has ended.
    pub(super) fn mount_anew(&self, mounting: Mounting<'_>, file: &str, content: &[u8]) {
        let mut gate = self.gate.write();
        let mounted = gate.take().unwrap();
        self.process.lock().take();
        let open = File::open(mounted.join(file)).unwrap();
        umount2(mounted.path(), MntFlags::MNT_DETACH).unwrap();
        let mut read = vec![0; content.len()];
        open.read_exact_at(&mut read, 0).unwrap();
        assert!(
            read == content,
            "{file} of a detached mount has other bytes"
        );
        drop(open);
        assert!(mounted.end().success(), "{:?}", self.kind);
        *gate = Some(self.mount(mounting));
    }

    /// How often its process was killed.
    pub(super) fn kills(&self) -> u64 {
        self.kill_steps.load(Ordering::SeqCst).div_ceil(2)
    }

    /// Unmounts for good.
    pub(super) fn end(&self) {
        self.process.lock().take();
        let mounted = self.gate.write().take();
        assert!(mounted.unwrap().unmount().success(), "{:?}", self.kind);
    }

    /// Ends calls that hang, when the run has failed.
    pub(super) fn give_up(&self) {
        if let Some(process) = self.process() {
            kill(process.pid, Signal::SIGKILL).ok();
        }
    }
}
