//! A host: its mount, and the disk under that.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use mountpoint_client::ObjectClient;

use super::*;
use crate::config::{
    ConflictPolicy, FsConfig, NamesConfig, StagingConfig, WriteBackConfig, WriteConfig,
};
use crate::file::tests::open_simulated;
use crate::fs::FileSystem;
use crate::fs::tests::all_changes;
use crate::local_disk::test_disk::{SimulatedDisk, SimulatedFault};

/// How the host's mount writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Streaming,
    Staging,
    WriteBack,
}

/// A running host.
#[derive(Clone)]
pub(super) struct Host {
    pub(super) world: Arc<World>,
    pub(super) fs: Arc<FileSystem>,
    pub(super) number: usize,
    pub(super) mode: Mode,
    /// Writes that have begun, and those that have ended: a read beside one may be of both
    /// versions.
    pub(super) writes: Arc<[AtomicU32; 2]>,
    disk: SimulatedDisk,
}

impl Host {
    pub(super) fn new(world: &Arc<World>, number: usize, mode: Mode) -> Self {
        let disk = SimulatedDisk::timed(thread_rng().r#gen(), &world.clock);
        Self::start(world, number, mode, disk)
    }

    fn start(world: &Arc<World>, number: usize, mode: Mode, disk: SimulatedDisk) -> Self {
        let config = FsConfig {
            write: WriteConfig {
                allow_append: true,
                part_size: Some(5 << 20),
                ..all_changes()
            },
            names: NamesConfig {
                works_offline: mode == Mode::WriteBack,
                ..NamesConfig::default()
            },
            ..FsConfig::default()
        };
        let client = Arc::clone(&world.bucket) as Arc<dyn ObjectClient>;
        let mut fs = FileSystem::new(client, config, world.clock.clone());
        fs.parts.writing.believe();
        if mode != Mode::Streaming {
            // Another one for each start: the threads of the last one may still lock theirs.
            let place = TempDir::new_in("/dev/shm").unwrap();
            let config = staging(mode, number, place.path().to_owned());
            world.places.lock().push(place);
            let contexts = (&fs.parts.reading, &fs.parts.writing);
            let staging = open_simulated(&config, &disk, contexts, world.clock.clone());
            fs.stage_by(staging.unwrap());
        }
        Self {
            world: Arc::clone(world),
            fs: Arc::new(fs),
            number,
            mode,
            writes: Arc::default(),
            disk,
        }
    }

    /// The power goes at one of the disk's next operations, or not at all.
    pub(super) fn plan_power_loss(&self) {
        if thread_rng().r#gen() {
            let operation = thread_rng().gen_range(1..60);
            self.disk.fail_at(operation, SimulatedFault::PowerLoss);
        }
    }

    /// Whether the power has gone.
    pub(super) fn is_off(&self) -> bool {
        self.disk.is_off()
    }

    /// Shows what happens.
    pub(super) fn note(&self, what: impl FnOnce() -> String) {
        let Self { number, mode, .. } = self;
        let off = if self.is_off() { ", without power" } else { "" };
        note(|| format!("host {number}, {mode:?}{off}: {}", what()));
    }

    /// Ends the mount, without a word where the power has gone, and starts it again.
    pub(super) fn restart(self) -> Self {
        self.note(|| "the host ends".to_owned());
        if !self.is_off() {
            block_on(self.fs.commit_staged());
        }
        block_on(self.fs.drained());
        let Self {
            world,
            number,
            mode,
            disk,
            fs,
            ..
        } = self;
        drop(fs);
        // Its threads may still do something, as no process does that has ended.
        disk.repair();
        disk.fail_at(1, SimulatedFault::Kill(0));
        let disk = match disk.is_off() {
            true => disk.restart(),
            false => disk.other_process(),
        };
        Self::start(&world, number, mode, disk)
    }

    /// Uploads all that is pending.
    pub(super) fn drain(&self) {
        self.note(|| "the host uploads the rest".to_owned());
        self.world.is_calm.store(true, Ordering::SeqCst);
        if let Some(staging) = self.fs.staging() {
            let left = block_on(staging.drain(LONG));
            assert!(left.is_empty(), "host {}: {left:?}", self.number);
        }
        block_on(self.fs.drained());
    }
}

fn staging(mode: Mode, number: usize, directory: std::path::PathBuf) -> StagingConfig {
    let write_back = WriteBackConfig {
        delay: UPLOAD_DELAY,
        drain_timeout: LONG,
        is_exclusive: false,
    };
    StagingConfig {
        directory,
        on_conflict: ConflictPolicy::Fail,
        bucket: "bucket".to_owned(),
        endpoint: String::new(),
        host: format!("host{number}"),
        mount_point: "/mnt".to_owned(),
        write_back: (mode == Mode::WriteBack).then_some(write_back),
    }
}

/// The time from a commit to its upload.
pub(super) const UPLOAD_DELAY: Duration = Duration::from_millis(200);

const LONG: Duration = Duration::from_secs(1 << 30);

impl Host {
    /// Whether a write goes on, and how many have begun.
    pub(super) fn writes(&self) -> (bool, u32) {
        let [begun, ended] = [0, 1].map(|it: usize| self.writes[it].load(Ordering::SeqCst));
        (begun != ended, begun)
    }
}
