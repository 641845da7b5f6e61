//! The memory cgroup of readers: the page cache that they fill has a limit, so that its pages are
//! used again.
//!
//! A virtual machine may hand free pages back to its hypervisor. There each page that the page
//! cache takes anew costs a fault, which was half of the CPU time of a buffered stream. Knows
//! versions 1 and 2 of cgroups; neither mounts nor servers run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;

use anyhow::{Context, Result, bail};

use crate::dataset::MIB;

/// Holds the files that are read twice out of the page cache, and is filled by every other
/// sequential read.
pub(crate) const LIMIT: u64 = 1536 * MIB;

/// A memory cgroup for this process and its children while they read.
#[derive(Debug)]
pub(crate) struct ReaderMemory {
    directory: PathBuf,
    /// Where this process was before.
    home: PathBuf,
}

impl ReaderMemory {
    /// Makes the cgroup.
    ///
    /// # Errors
    /// Where there is no controller of memory, or it may not be used.
    pub(crate) fn create() -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").context("/proc/self/mountinfo")?;
        let own = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
        let Some(place) = Place::find(&mounts, &own) else {
            bail!("the kernel has no memory cgroups, or they are not mounted");
        };
        let directory = place.parent.join(format!("benchmark-{}", process::id()));
        fs::create_dir(&directory).with_context(|| directory.display().to_string())?;
        let memory = Self {
            directory,
            home: place.home,
        };
        let limit = memory.directory.join(place.limit_file);
        if !limit.exists() {
            // Version 2 gives a cgroup the controllers that its parent lets it have.
            let control = place.parent.join("cgroup.subtree_control");
            fs::write(&control, "+memory").with_context(|| control.display().to_string())?;
        }
        fs::write(&limit, LIMIT.to_string()).with_context(|| limit.display().to_string())?;
        // A cgroup that takes no process is of no use.
        drop(memory.enter()?);
        Ok(memory)
    }

    /// Moves this process into the cgroup until the guard is dropped. Children that are started
    /// meanwhile stay there.
    pub(crate) fn enter(&self) -> Result<InReaderMemory<'_>> {
        move_to(&self.directory)?;
        Ok(InReaderMemory { home: &self.home })
    }

    /// For the report.
    pub(crate) fn described() -> String {
        let mib = LIMIT / MIB;
        format!(
            "readers in a memory cgroup of {mib} MiB, so that pages of the page cache are used again"
        )
    }
}

impl Drop for ReaderMemory {
    fn drop(&mut self) {
        let _still_used = fs::remove_dir(&self.directory);
    }
}

/// This process while it is in the cgroup of readers.
#[derive(Debug)]
pub(crate) struct InReaderMemory<'a> {
    home: &'a Path,
}

impl Drop for InReaderMemory<'_> {
    fn drop(&mut self) {
        // It came from there.
        let _gone = move_to(self.home);
    }
}

fn move_to(cgroup: &Path) -> Result<()> {
    let processes = cgroup.join("cgroup.procs");
    fs::write(&processes, process::id().to_string())
        .with_context(|| processes.display().to_string())
}

/// Where a cgroup can be made, and which file of it holds the limit.
#[derive(Debug, PartialEq, Eq)]
struct Place {
    parent: PathBuf,
    home: PathBuf,
    limit_file: &'static str,
}

impl Place {
    /// From `/proc/self/mountinfo` and `/proc/self/cgroup`.
    fn find(mounts: &str, own: &str) -> Option<Self> {
        let mounted = |kind: &str, option: &str| {
            mounts.lines().find_map(|line| {
                let (place, file_system) = line.split_once(" - ")?;
                let mut words = file_system.split(' ');
                let is_kind = words.next() == Some(kind);
                let mut options = words.next_back()?.split(',');
                let fits = is_kind && (option.is_empty() || options.any(|found| found == option));
                let mut fields = place.split(' ').skip(3);
                let (root, directory) = (fields.next()?, fields.next()?);
                fits.then(|| (root.to_owned(), PathBuf::from(directory)))
            })
        };
        // A line is NUMBER:CONTROLLERS:PATH, without controllers in version 2.
        let path = |controller: &str| {
            own.lines().find_map(|line| {
                let (_, rest) = line.split_once(':')?;
                let (controllers, path) = rest.split_once(':')?;
                let fits = controllers.split(',').any(|found| found == controller);
                fits.then(|| path.to_owned())
            })
        };
        let below = |root: &str, directory: &Path, path: &str| {
            let path = path.strip_prefix(root).unwrap_or(path);
            directory.join(path.trim_start_matches('/'))
        };
        if let (Some((root, directory)), Some(path)) = (mounted("cgroup", "memory"), path("memory"))
        {
            let home = below(&root, &directory, &path);
            return Some(Self {
                parent: home.clone(),
                home,
                limit_file: "memory.limit_in_bytes",
            });
        }
        let (root, directory) = mounted("cgroup2", "")?;
        Some(Self {
            // A cgroup with processes gives no controller to its children, but the root does.
            home: below(&root, &directory, &path("")?),
            parent: directory,
            limit_file: "memory.max",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(mounts: &str, own: &str, expected: Option<(&str, &str, &'static str)>) {
        let expected = expected.map(|(parent, home, limit_file)| Place {
            parent: parent.into(),
            home: home.into(),
            limit_file,
        });
        assert_eq!(Place::find(mounts, own), expected, "{mounts}{own}");
    }

    #[test]
    fn a_place_is_found_in_either_version() {
        let first = "31 24 0:27 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";
        let second = "30 24 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n";
        let both = format!("{second}{first}");
        let own = "4:memory:/a/b\n1:cpu:/\n0::/c\n";
        let of_first = Some((
            "/sys/fs/cgroup/memory/a/b",
            "/sys/fs/cgroup/memory/a/b",
            "memory.limit_in_bytes",
        ));
        check(first, own, of_first);
        check(&both, own, of_first);
        check(
            second,
            "0::/c\n",
            Some(("/sys/fs/cgroup", "/sys/fs/cgroup/c", "memory.max")),
        );
        check(
            "31 24 0:27 /x /cgroup rw - cgroup cgroup rw,cpu,memory\n",
            "4:cpu,memory:/x/y\n",
            Some(("/cgroup/y", "/cgroup/y", "memory.limit_in_bytes")),
        );
        check("31 24 0:27 / /cpu rw - cgroup cgroup rw,cpu\n", own, None);
        check("", "", None);
    }
}
