//! CPU time and memory of a process, from `/proc`.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};

/// `USER_HZ`: the unit of times in `/proc/PID/stat`, the same on every architecture that Linux has
/// today.
const TICKS_PER_SECOND: u32 = 100;

/// CPU time of all threads of a process, user and system.
pub(crate) fn cpu_time(pid: u32) -> Result<Duration> {
    parse_cpu_time(&read(pid, "stat")?, Children::Excluded)
        .context("unknown layout of /proc/PID/stat")
}

/// CPU time of this process and of the children it has waited for.
pub(crate) fn own_cpu_time() -> Result<Duration> {
    parse_cpu_time(&read(std::process::id(), "stat")?, Children::Included)
        .context("unknown layout of /proc/PID/stat")
}

/// Most memory a process has had resident, in bytes.
pub(crate) fn memory_peak(pid: u32) -> Result<u64> {
    parse_memory_peak(&read(pid, "status")?).context("VmHWM is missing")
}

/// Bytes that a process has read from disks and written to them.
pub(crate) fn disk_bytes(pid: u32) -> Result<u64> {
    parse_disk_bytes(&read(pid, "io")?).context("unknown layout of /proc/PID/io")
}

fn read(pid: u32, file: &str) -> Result<String> {
    let path = format!("/proc/{pid}/{file}");
    fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the process ended?"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Children {
    Included,
    Excluded,
}

fn parse_cpu_time(stat: &str, children: Children) -> Option<Duration> {
    // The command's name may hold spaces and brackets; the numbers follow its last bracket.
    let (_, numbers) = stat.rsplit_once(')')?;
    // Fields 14 to 17 of the line, of which two are before the bracket: utime, stime, cutime,
    // cstime.
    let count = if children == Children::Included { 4 } else { 2 };
    let times: Vec<u64> = numbers
        .split_whitespace()
        .skip(11)
        .take(count)
        .map_while(|field| field.parse().ok())
        .collect();
    (times.len() == count).then(|| Duration::from_secs(times.iter().sum()) / TICKS_PER_SECOND)
}

fn parse_memory_peak(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1024)
}

fn parse_disk_bytes(io: &str) -> Option<u64> {
    let of = |name: &str| {
        let bytes = io.lines().find_map(|line| line.strip_prefix(name))?;
        bytes.trim().parse::<u64>().ok()
    };
    Some(of("read_bytes:")? + of("write_bytes:")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_read_behind_an_odd_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 2 3 4 150 50 7 3 20 0 9 0 100 1 2";
        let time = |children| parse_cpu_time(stat, children).unwrap();
        assert_eq!(time(Children::Excluded), Duration::from_secs(2));
        assert_eq!(time(Children::Included), Duration::from_millis(2100));
        assert!(parse_cpu_time("7 (a) S 1", Children::Excluded).is_none());
    }

    #[test]
    fn memory_peak_is_in_bytes() {
        assert_eq!(
            parse_memory_peak("Name:\tx\nVmHWM:\t   12 kB\n"),
            Some(12_288)
        );
        assert_eq!(parse_memory_peak("Name:\tx\n"), None);
    }

    #[test]
    fn disk_bytes_are_those_of_disks() {
        let io = "rchar: 9\nwchar: 9\nread_bytes: 1\nwrite_bytes: 2\ncancelled_write_bytes: 4\n";
        assert_eq!(parse_disk_bytes(io), Some(3));
        assert_eq!(parse_disk_bytes("rchar: 9\n"), None);
    }

    #[test]
    fn this_process_can_be_measured() {
        assert!(memory_peak(std::process::id()).unwrap() > 0);
        assert!(own_cpu_time().unwrap() >= Duration::ZERO);
        assert!(cpu_time(std::process::id()).is_ok());
    }
}
