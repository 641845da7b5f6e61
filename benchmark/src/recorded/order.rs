//! What a recorded call waits for. Pure.
//!
//! A thread issues a call when those of its calls that had ended before are done; calls of one thread
//! overlap where the kernel read ahead. So a thread that waited for its data waits again, and threads
//! that did not wait for each other do not.

use super::format::RecordedCall;

/// The calls of one thread.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ThreadCalls {
    /// Indices of its calls, in the order of their begin.
    pub(crate) calls: Vec<usize>,
    /// For each of them: how many of the calls, in the order of their ends, have to be done before.
    pub(crate) needs: Vec<usize>,
    /// For each of them: its place in the order of ends.
    pub(crate) places: Vec<usize>,
    /// Most calls that overlapped.
    pub(crate) depth: usize,
}

/// The calls of each thread.
pub(crate) fn threads(calls: &[RecordedCall]) -> Vec<ThreadCalls> {
    let mut threads: Vec<_> = calls.iter().map(|call| call.thread).collect();
    threads.sort_unstable();
    threads.dedup();
    let of = |thread: &u64| {
        let own = (0..calls.len()).filter(|index| calls[*index].thread == *thread);
        ThreadCalls::new(calls, own.collect())
    };
    threads.iter().map(of).collect()
}

impl ThreadCalls {
    fn new(all: &[RecordedCall], calls: Vec<usize>) -> Self {
        let mut by_end: Vec<_> = (0..calls.len()).collect();
        by_end.sort_by_key(|at| all[calls[*at]].end);
        let mut places = vec![0; calls.len()];
        for (place, at) in by_end.iter().enumerate() {
            places[*at] = place;
        }
        let ends: Vec<_> = by_end.iter().map(|at| all[calls[*at]].end).collect();
        let needs = calls.iter().enumerate().map(|(at, call)| {
            // A call that took no time has not ended before its own begin.
            let needs = ends.partition_point(|end| *end <= all[*call].began);
            needs.min(places[at])
        });
        let needs: Vec<_> = needs.collect();
        let depths = needs
            .iter()
            .enumerate()
            .map(|(at, needs)| at + 1 - needs.min(&at));
        let depth = depths.max().unwrap_or(1).min(DEPTH_MAX);
        Self {
            calls,
            needs,
            places,
            depth,
        }
    }
}

/// Calls of one thread that overlap at most: more than Linux reads ahead.
const DEPTH_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::super::format::tests::{SAMPLE, parse};
    use super::*;

    #[test]
    fn a_call_waits_for_those_that_had_ended_before() {
        let recorded = parse(SAMPLE).unwrap();
        let threads = threads(&recorded.calls);
        // Open, two reads that overlap, and one after both.
        let one = ThreadCalls {
            calls: vec![0, 1, 2, 4],
            needs: vec![0, 1, 1, 3],
            places: vec![0, 1, 2, 3],
            depth: 2,
        };
        let other = ThreadCalls {
            calls: vec![3],
            needs: vec![0],
            places: vec![0],
            depth: 1,
        };
        assert_eq!(threads, [one, other]);
    }
}
