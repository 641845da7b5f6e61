//! The calls that a recorded call waits for. Pure.
//!
//! A thread issues a call when its calls that had ended before are done; calls of one thread
//! overlap where the kernel read ahead. So a thread that waited for its data waits again. Threads
//! that ran beside each other do not wait for each other. A thread that began after another's
//! last call, as the next process of a shell script does, goes on in its place.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::format::RecordedCall;

/// The calls of one thread, or of several that followed each other.
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

/// The calls of each thread. They are in the order of their begin.
pub(crate) fn threads(calls: &[RecordedCall]) -> Vec<ThreadCalls> {
    let mut by_thread: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, call) in calls.iter().enumerate() {
        by_thread.entry(call.thread).or_default().push(index);
    }
    let mut threads: Vec<_> = by_thread.into_values().collect();
    threads.sort_unstable_by_key(|own| own[0]);
    let mut joined: Vec<Vec<usize>> = Vec::new();
    // Ends of the last calls, the earliest one first.
    let mut ends = BinaryHeap::new();
    for own in threads {
        let ends_at = own.iter().map(|index| calls[*index].end).max();
        let began = calls[own[0]].began;
        let is_over = |Reverse((end, _)): &Reverse<(_, usize)>| *end <= Some(began);
        match ends.peek().copied().filter(is_over) {
            Some(Reverse((_, place))) => {
                ends.pop();
                joined[place].extend(own);
                ends.push(Reverse((ends_at, place)));
            }
            None => {
                ends.push(Reverse((ends_at, joined.len())));
                joined.push(own);
            }
        }
    }
    let of = |own| ThreadCalls::new(calls, own);
    joined.into_iter().map(of).collect()
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

    #[test]
    fn threads_that_followed_each_other_are_one() {
        // Threads with the begin and the end of their calls, and the calls of each that remains.
        let check = |calls: &[(u64, u64, u64)], expected: &[&[usize]]| {
            let call = |(thread, began, end)| RecordedCall {
                file: 0,
                handle: 0,
                thread,
                began,
                end,
                range: None,
            };
            let calls: Vec<_> = calls.iter().copied().map(call).collect();
            let threads = threads(&calls);
            let found: Vec<_> = threads.iter().map(|it| it.calls.as_slice()).collect();
            assert_eq!(found, expected);
        };
        check(&[(7, 0, 5), (8, 5, 9), (9, 9, 9)], &[&[0, 1, 2]]);
        check(&[(7, 0, 5), (8, 4, 6), (9, 7, 9)], &[&[0, 2], &[1]]);
        check(&[(7, 0, 5), (8, 4, 6), (7, 7, 9)], &[&[0, 2], &[1]]);
        check(
            &[(7, 0, 9), (8, 4, 6), (7, 5, 8), (9, 7, 8)],
            &[&[0, 2], &[1, 3]],
        );
    }
}
