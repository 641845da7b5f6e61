//! Which thread serves which queues, and how much each may hold.
//!
//! Pure: the machine's numbers in, a plan out.

use crate::config::limits;

/// How a machine's queues are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) threads: Vec<QueueThread>,
    /// Entries of each queue: requests of a core that may be in progress.
    pub(super) depth: usize,
    /// Memory that the payloads of one thread may hold, in bytes.
    pub(super) resident_max: usize,
}

/// One thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct QueueThread {
    /// The core that it is bound to.
    pub(super) core: usize,
    pub(super) queues: Vec<u16>,
}

/// A plan for a machine with `cores` cores, plugged in or not, whose numbers begin at 0. The
/// process may use those in `usable`, ascending, and have `threads_max` threads. The kernel wants a
/// queue for every core: those of cores without a thread are spread over the threads that there
/// are.
///
/// # Errors
/// With a text for the log.
pub(super) fn plan(cores: usize, usable: &[usize], threads_max: usize) -> Result<Plan, String> {
    if cores > RING_QUEUES_MAX {
        let max = RING_QUEUES_MAX;
        return Err(format!(
            "the machine has {cores} cores, it is used up to {max}"
        ));
    }
    let mut threads: Vec<_> = usable
        .iter()
        .filter(|core| **core < cores)
        .take(threads_max.max(1))
        .map(|core| QueueThread {
            core: *core,
            queues: Vec::new(),
        })
        .collect();
    if threads.is_empty() {
        return Err(format!("none of the {cores} cores may be used"));
    }
    for core in 0..cores {
        let own = threads.iter().position(|thread| thread.core == core);
        let index = own.unwrap_or(core % threads.len());
        let queue = u16::try_from(core).map_err(|error| error.to_string())?;
        threads[index].queues.push(queue);
    }
    let depth = RING_ENTRIES_MAX / cores;
    let resident_max = RING_MEMORY_MAX / threads.len();
    Ok(Plan {
        depth: depth.min(RING_DEPTH_MAX),
        resident_max: resident_max.max(RING_MEMORY_MIN),
        threads,
    })
}

/// How many cores a list such as `0-3,8` names, if they are numbered from 0 without a gap.
pub(super) fn cores_in(list: &str) -> Option<usize> {
    let mut next = 0;
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if first != next || last < first {
            return None;
        }
        next = last.checked_add(1)?;
    }
    Some(next)
}

/// Cores up to which FUSE over io_uring is used. Each costs 64 entries of 1 MiB of address space.
const RING_QUEUES_MAX: usize = 64;

/// Entries of all io_uring queues together, and so requests in progress.
///
/// With 2 cores they serve 1,000 waiting readers, with 64 cores each has 64. An unused entry costs
/// about 1 KiB, in the kernel.
const RING_ENTRIES_MAX: usize = 4096;

/// Entries of one io_uring queue. While so many requests of one core wait for S3, its next one
/// waits as well.
const RING_DEPTH_MAX: usize = 512;

/// Memory for replies in transit to the kernel over io_uring, shared by the queue threads.
const RING_MEMORY_MAX: usize = 32 << 20;

/// Least such memory of a queue thread. The largest reply in transit, and the next one.
const RING_MEMORY_MIN: usize = 2 * limits::READ_SIZE_MAX as usize;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cores: usize, usable: &[usize], threads_max: usize, expected: &[(usize, &[u16])]) {
        let plan = plan(cores, usable, threads_max).unwrap();
        let threads: Vec<_> = plan
            .threads
            .iter()
            .map(|thread| (thread.core, thread.queues.as_slice()))
            .collect();
        assert_eq!(threads, expected);
    }

    #[test]
    fn every_core_has_a_queue_and_a_thread_if_it_can() {
        check(1, &[0], 16, &[(0, &[0])]);
        check(2, &[0, 1], 16, &[(0, &[0]), (1, &[1])]);
        // Two cores that are not plugged in.
        check(4, &[0, 1], 16, &[(0, &[0, 2]), (1, &[1, 3])]);
        // A container that may use two of them.
        check(4, &[1, 3], 16, &[(1, &[0, 1, 2]), (3, &[3])]);
        // `--max-threads`.
        check(4, &[0, 1, 2, 3], 1, &[(0, &[0, 1, 2, 3])]);
        check(2, &[0, 1], 0, &[(0, &[0, 1])]);
        // A number beyond the machine's is not believed.
        check(2, &[1, 7], 16, &[(1, &[0, 1])]);
    }

    #[test]
    fn what_it_takes_is_bounded() {
        for cores in 1..=RING_QUEUES_MAX {
            let usable: Vec<_> = (0..cores).collect();
            for threads_max in [1, 16, 1000] {
                let plan = plan(cores, &usable, threads_max).unwrap();
                assert!(plan.depth * cores <= RING_ENTRIES_MAX);
                assert!(plan.depth >= 64, "{cores} cores: {}", plan.depth);
                let memory = plan.resident_max * plan.threads.len();
                let floor = RING_MEMORY_MIN * plan.threads.len();
                assert!(memory <= RING_MEMORY_MAX.max(floor));
                let served: usize = plan.threads.iter().map(|thread| thread.queues.len()).sum();
                assert_eq!(served, cores);
            }
        }
        plan(RING_QUEUES_MAX + 1, &[0], 16).unwrap_err();
        plan(2, &[], 16).unwrap_err();
        plan(2, &[2], 16).unwrap_err();
    }

    #[test]
    fn lists_of_cores() {
        for (list, expected) in [
            ("0\n", Some(1)),
            ("0-1\n", Some(2)),
            ("0-3,4-127", Some(128)),
            ("0-3,8", None),
            ("1-3", None),
            ("", None),
            ("0-", None),
            ("0-18446744073709551615", None),
        ] {
            assert_eq!(cores_in(list), expected, "{list:?}");
        }
    }
}
