//! Brings a system's own cache into the state that a workload begins with, and measures the disk
//! itself beside one on disk.

use std::fs;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::disk_folder::disk_folder;
use super::measure::{Bench, PREPARE_TIME_MAX, Used, measurement};
use crate::clock::Stopwatch;
use crate::dataset::WRITTEN;
use crate::engine;
use crate::process;
use crate::reader_memory::ReaderMemory;
use crate::results::measurement::Measurement;
use crate::system::address::LocalFolder;
use crate::system::catalog::System;
use crate::system::mount::Mounted;
use crate::workload::{Action, CacheState, Link, Workload};

/// How often the files are read to fill a cache. A cache whose disk is slower than the server need
/// not keep all of them the first time.
const FILL_READS_MAX: u32 = 8;
/// A system that has used its disk or sent nothing for so long has stored and compared what it was
/// to.
const REST: Duration = Duration::from_secs(1);
const REST_TIME_MAX: Duration = Duration::from_secs(120);
const POLL_INTERVAL: Duration = Duration::from_millis(100);

impl Bench<'_> {
    /// A mount that `workload` can begin on: what comes before it is done, and a cache in `folder`
    /// is as it asks for.
    pub(super) fn mount_for(
        &mut self,
        system: &System,
        workload: &Workload,
        folder: Option<LocalFolder<'_>>,
    ) -> Result<Mounted> {
        let mounted = self.mount(system, workload, folder)?;
        let Some(before) = workload.before else {
            return Ok(mounted);
        };
        if !workload.cache.is_some_and(CacheState::is_filled) {
            self.watched(&mounted, before, PREPARE_TIME_MAX)?;
            return Ok(mounted);
        }
        if workload.is_cache_shared {
            self.fill_shared(&mounted, workload.link, before)?;
        } else {
            self.fill(&mounted, workload.link, before)?;
        }
        if workload.cache == Some(CacheState::Warm) {
            return Ok(mounted);
        }
        drop(mounted);
        self.drop_page_cache()?;
        self.mount(system, workload, folder)
    }

    /// Reads until the server sends nothing and the system is done with its disk.
    fn fill(&mut self, mounted: &Mounted, link: Option<Link>, action: Action) -> Result<()> {
        for _ in 0..FILL_READS_MAX {
            let server = self.servers.behind(link)?;
            server.requests_when_idle()?;
            server.clear()?;
            self.watched(mounted, action, PREPARE_TIME_MAX)?;
            wait_for_rest(mounted)?;
            let requests = self.servers.behind(link)?.requests_when_idle()?;
            self.drop_page_cache()?;
            if requests.is_some_and(|requests| requests.bytes == 0) {
                break;
            }
        }
        Ok(())
    }

    /// Reads until the server is sent nothing to keep.
    fn fill_shared(&mut self, mounted: &Mounted, link: Option<Link>, action: Action) -> Result<()> {
        for _ in 0..FILL_READS_MAX {
            let before = self.stores_at_rest(link)?;
            self.watched(mounted, action, PREPARE_TIME_MAX)?;
            let after = self.stores_at_rest(link)?;
            self.drop_page_cache()?;
            if before == after {
                break;
            }
        }
        Ok(())
    }

    /// Requests that were neither for bytes nor for names, when no other has come for a while.
    fn stores_at_rest(&mut self, link: Option<Link>) -> Result<Option<u64>> {
        let begun = Stopwatch::start();
        let (mut stores, mut since) = (self.stores(link)?, Stopwatch::start());
        while since.elapsed() < REST {
            ensure!(
                begun.elapsed() < REST_TIME_MAX,
                "it still sent what is to be kept {REST_TIME_MAX:?} after the last read"
            );
            thread::sleep(POLL_INTERVAL);
            let now = self.stores(link)?;
            if now != stores {
                (stores, since) = (now, Stopwatch::start());
            }
        }
        Ok(stores)
    }

    fn stores(&mut self, link: Option<Link>) -> Result<Option<u64>> {
        let requests = self.servers.behind(link)?.requests_when_idle()?;
        Ok(requests.map(|count| count.all - count.gets - count.heads - count.lists))
    }

    /// The workload on the same files in a folder of the local disk.
    pub(super) fn measure_native(&self, workload: &Workload) -> Result<Measurement> {
        let folder = disk_folder(self.scratch)?;
        let files = workload.action.files();
        match workload.action.writes() {
            true => {
                engine::prepare(workload.action, self.scratch)?;
                fs::create_dir(folder.path().join(WRITTEN))?;
            }
            false => engine::lay_out(folder.path(), files)?,
        }
        self.drop_page_cache()?;
        let before = process::own_cpu_time()?;
        let outcome = {
            let reads = !workload.action.writes();
            let reader_memory = self.reader_memory.as_ref().filter(|_| reads);
            let _inside = reader_memory.map(ReaderMemory::enter).transpose()?;
            engine::run(workload.action, folder.path(), self.scratch, self.limit)?
        };
        let used = Used {
            mount_cpu: Duration::ZERO,
            total_cpu: process::own_cpu_time()? - before,
            memory_peak_bytes: 0,
        };
        engine::verify(folder.path(), workload.action)?;
        Ok(measurement(workload.unit, &outcome, used, None))
    }

    /// Empties the page cache, unless it is to be left alone. Pages that are not written yet would
    /// stay there.
    pub(super) fn drop_page_cache(&self) -> Result<()> {
        if self.drop_caches {
            nix::unistd::sync();
            fs::write("/proc/sys/vm/drop_caches", "3")
                .context("cannot drop caches (needs root; --keep-caches leaves it out)")?;
        }
        Ok(())
    }
}

fn wait_for_rest(mounted: &Mounted) -> Result<()> {
    let begun = Stopwatch::start();
    let (mut bytes, mut since) = (process::disk_bytes(mounted.pid())?, Stopwatch::start());
    while since.elapsed() < REST {
        ensure!(
            begun.elapsed() < REST_TIME_MAX,
            "it still used its disk {REST_TIME_MAX:?} after the last read that filled its cache"
        );
        thread::sleep(POLL_INTERVAL);
        let now = process::disk_bytes(mounted.pid())?;
        if now != bytes {
            (bytes, since) = (now, Stopwatch::start());
        }
    }
    Ok(())
}
