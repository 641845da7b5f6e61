//! A disk whose syncs take longer, as those of a volume on the network do.
//!
//! As Linux does with flushes of one disk, one sync runs at a time; those that come meanwhile wait
//! for the next one, which serves all of them.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mountpoint_fs::staging::disk::{Disk, DiskFile};
use parking_lot::{Condvar, Mutex};

#[derive(Debug)]
pub(super) struct SlowDisk {
    disk: Arc<dyn Disk>,
    flushes: Arc<Flushes>,
}

#[derive(Debug)]
struct Flushes {
    time: Duration,
    state: Mutex<FlushState>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct FlushState {
    begun: u64,
    done: u64,
    is_running: bool,
}

impl SlowDisk {
    pub(super) fn new(disk: Arc<dyn Disk>, time: Duration) -> Self {
        let flushes = Arc::new(Flushes {
            time,
            state: Mutex::default(),
            ended: Condvar::new(),
        });
        Self { disk, flushes }
    }

    fn slow(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        let flushes = Arc::clone(&self.flushes);
        Arc::new(SlowFile { file, flushes })
    }
}

impl Flushes {
    /// Returns after a flush that began later than the call did.
    fn flush(&self) {
        let mut state = self.state.lock();
        let needed = state.begun + 1;
        while state.done < needed {
            if state.is_running {
                self.ended.wait(&mut state);
                continue;
            }
            state.begun += 1;
            state.is_running = true;
            drop(state);
            thread::sleep(self.time);
            state = self.state.lock();
            state.is_running = false;
            state.done = state.begun;
            self.ended.notify_all();
        }
    }
}

impl Disk for SlowDisk {
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.create(name).map(|file| self.slow(file))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.disk.open(name).map(|file| self.slow(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.disk.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.disk.sync()?;
        self.flushes.flush();
        Ok(())
    }
}

#[derive(Debug)]
struct SlowFile {
    file: Arc<dyn DiskFile>,
    flushes: Arc<Flushes>,
}

impl DiskFile for SlowFile {
    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_at(bytes, offset)
    }

    fn allocate(&self, len: u64) -> io::Result<bool> {
        self.file.allocate(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.flushes.flush();
        Ok(())
    }
}
