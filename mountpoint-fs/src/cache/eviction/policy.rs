//! Which entries of a cache go.
//!
//! Pure: a demand and listed entries in, names out. An entry is on *probation* until a later open
//! uses it; then it is *proven*. Probation goes first while it has more than its share, in an order
//! that is random in each turn: a program that reads a data set larger than the cache again and
//! again finds a part of it, of which first in, first out would leave nothing. Of the proven, the
//! least recently used go.
//!
//! One scan removes no proven entry, however long it is. When most of what is stored was evicted
//! before (a *ghost*), the workload has changed, and proven entries that were not used for two
//! turns make room.

use std::time::{Duration, SystemTime};

use super::room_limits::Demand;
use crate::cache::storage::{EntryName, ListedEntry};

/// The facts that decide between the entries of a sample.
pub(super) struct Choice<'a> {
    pub(super) now: SystemTime,
    /// Number of the turn: the order of the entries on probation.
    pub(super) turn: u64,
    /// Since then, the cache was turned over more than once.
    pub(super) turned_since: SystemTime,
    /// Whether an entry of this name was evicted lately.
    pub(super) is_ghost: &'a dyn Fn(EntryName) -> bool,
}

impl Choice<'_> {
    /// The entries of a sample that go to meet `demand`, in order.
    pub(super) fn choose(&self, sample: Vec<ListedEntry>, demand: Demand) -> Vec<ListedEntry> {
        let mut total: u64 = sample.iter().map(|entry| entry.bytes).sum();
        let (mut proven, mut probation): (Vec<_>, Vec<_>) = sample.into_iter().partition(is_proven);
        let bytes_of = |entries: &[ListedEntry]| entries.iter().map(|it| it.bytes).sum::<u64>();
        let mut on_probation = bytes_of(&probation);
        let ghosts = probation.iter().filter(|it| (self.is_ghost)(it.name));
        let returned: u64 = ghosts.map(|entry| entry.bytes).sum();
        let has_changed = returned > on_probation / 2;
        // The last of each is the next to go.
        proven.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.used_at));
        probation.sort_by_cached_key(|entry| {
            let is_old = !self.is_recent(entry);
            (is_old, mix(entry.name, self.turn))
        });
        let mut chosen = Vec::new();
        let mut left = demand;
        while !left.is_none() {
            let is_stale = |entry: &ListedEntry| entry.used_at < self.turned_since;
            let takes_proven = match (proven.last(), probation.is_empty()) {
                (None, _) => false,
                (Some(_), true) => true,
                (Some(oldest), false) => {
                    on_probation <= total / PROBATION_SHARE || (has_changed && is_stale(oldest))
                }
            };
            let next = if takes_proven {
                proven.pop()
            } else {
                probation.pop()
            };
            let Some(entry) = next else { break };
            if !takes_proven {
                on_probation -= entry.bytes;
            }
            total -= entry.bytes;
            left.bytes = left.bytes.saturating_sub(entry.bytes);
            left.entries = left.entries.saturating_sub(1);
            chosen.push(entry);
        }
        chosen
    }

    /// Whether bytes of the entry may be being stored now. Removing it frees nothing before it is
    /// closed, and what it lacks would be stored for nothing.
    fn is_recent(&self, entry: &ListedEntry) -> bool {
        let age = self.now.duration_since(entry.stored_at);
        age.map_or(true, |age| age < RECENT)
    }
}

/// Whether an open has used the entry some time after its bytes were stored.
fn is_proven(entry: &ListedEntry) -> bool {
    let later = entry.used_at.duration_since(entry.stored_at);
    later.is_ok_and(|later| later >= CORRELATED)
}

/// Whether a file of the entry was left alone, by a process that ended between its steps.
pub(super) fn is_leftover(entry: &ListedEntry, now: SystemTime) -> bool {
    let age = now.duration_since(entry.stored_at);
    !entry.is_complete && age.is_ok_and(|age| age > LEFTOVER_AGE)
}

/// The part of a sample that may go at once, if there are more entries. The other entries are as
/// good.
pub(super) fn part_of(sample: &[ListedEntry], demand: Demand, is_all: bool) -> Demand {
    if is_all {
        return demand;
    }
    let bytes: u64 = sample.iter().map(|entry| entry.bytes).sum();
    let entries = sample.len() as u64;
    Demand {
        bytes: demand.bytes.min((bytes / SAMPLE_PART).max(1)),
        entries: demand.entries.min((entries / SAMPLE_PART).max(1)),
    }
}

/// A number that looks random, and is another one in each turn.
fn mix(name: EntryName, turn: u64) -> u64 {
    let number = name.0[..8]
        .iter()
        .fold(0, |sum, byte| sum << 8 | u64::from(*byte));
    let bits = (number ^ turn.wrapping_mul(0x9e37_79b9_7f4a_7c15)).wrapping_mul(MULTIPLIER);
    (bits ^ (bits >> 31)).wrapping_mul(MULTIPLIER)
}

/// An odd number with bits everywhere.
const MULTIPLIER: u64 = 0xbf58_476d_1ce4_e5b9;

/// Entries on probation keep one in so many bytes: what was stored today has a chance.
const PROBATION_SHARE: u64 = 10;

/// A use so soon after bytes were stored is by the program that had them stored.
const CORRELATED: Duration = Duration::from_secs(1);

/// An entry that is older is not being stored.
const RECENT: Duration = Duration::from_secs(2);

/// A process makes both files of an entry within milliseconds.
const LEFTOVER_AGE: Duration = Duration::from_secs(600);

/// One in so many entries of a sample goes at once.
const SAMPLE_PART: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(secs: u64) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(secs)
    }

    fn entry(number: u8, bytes: u64, stored: u64, used: u64) -> ListedEntry {
        ListedEntry {
            name: EntryName([number; 16]),
            bytes,
            stored_at: at(stored),
            used_at: at(used),
            is_complete: true,
        }
    }

    /// Which entries go for so many bytes, in order.
    #[track_caller]
    fn check_choice(entries: &[ListedEntry], ghosts: &[u8], bytes: u64, expected: &[u8]) {
        let choice = Choice {
            now: at(1000),
            turn: 7,
            turned_since: at(50),
            is_ghost: &|name| ghosts.contains(&name.0[0]),
        };
        let demand = Demand { bytes, entries: 0 };
        let chosen = choice.choose(entries.to_vec(), demand);
        let chosen: Vec<u8> = chosen.iter().map(|entry| entry.name.0[0]).collect();
        assert_eq!(chosen, expected);
    }

    #[test]
    fn probation_goes_first_then_the_least_recently_used() {
        let proven = [
            entry(1, 100, 10, 30),
            entry(2, 100, 10, 20),
            entry(3, 100, 10, 999),
        ];
        check_choice(&proven, &[], 0, &[]);
        check_choice(&proven, &[], 1, &[2]);
        check_choice(&proven, &[], 250, &[2, 1, 3]);
        check_choice(&proven, &[], 1000, &[2, 1, 3]);
        // Used, but by the program that had it stored.
        let probation = entry(4, 100, 500, 500);
        let with = [&proven[..], &[probation]].concat();
        check_choice(&with, &[], 100, &[4]);
        check_choice(&with, &[], 200, &[4, 2]);
        // It keeps a share.
        let few = [&proven[..], &[entry(4, 33, 500, 500)]].concat();
        check_choice(&few, &[], 100, &[2]);
        // An entry that is being stored goes last of its kind.
        let storing = entry(5, 100, 999, 999);
        let with = [&with[..], &[storing]].concat();
        check_choice(&with, &[], 200, &[4, 5]);
    }

    #[test]
    fn stale_entries_make_room_when_the_workload_has_changed() {
        let entries = [
            entry(1, 100, 10, 30),
            entry(2, 100, 10, 60),
            entry(3, 100, 500, 500),
            entry(4, 100, 501, 501),
        ];
        let is_scan = |ghosts: &[u8]| {
            let choice = Choice {
                now: at(1000),
                turn: 0,
                turned_since: at(50),
                is_ghost: &|name| ghosts.contains(&name.0[0]),
            };
            let demand = Demand {
                bytes: 1,
                entries: 0,
            };
            choice.choose(entries.to_vec(), demand)[0].name.0[0] >= 3
        };
        assert!(is_scan(&[]));
        assert!(is_scan(&[1, 2, 3]), "half of it");
        assert!(!is_scan(&[3, 4]));
        check_choice(&entries[..2], &[], 1, &[1]);
        check_choice(&entries, &[3, 4], 100, &[1]);
    }

    #[test]
    fn the_order_on_probation_differs_between_turns() {
        let entries: Vec<_> = (0..100).map(|number| entry(number, 1, 5, 5)).collect();
        let order = |turn| {
            let choice = Choice {
                now: at(1000),
                turn,
                turned_since: at(0),
                is_ghost: &|_| false,
            };
            let demand = Demand {
                bytes: 20,
                entries: 0,
            };
            let chosen = choice.choose(entries.clone(), demand);
            chosen.iter().map(|it| it.name).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        let common = order(1);
        let common = common.iter().filter(|name| order(2).contains(name)).count();
        assert!(common < 12, "{common} of 20");
    }

    #[test]
    fn a_sample_gives_a_part_of_itself() {
        let sample: Vec<_> = (0..80).map(|number| entry(number, 10, 5, 5)).collect();
        let demand = |bytes, entries| Demand { bytes, entries };
        assert_eq!(part_of(&sample, demand(900, 7), false), demand(100, 7));
        assert_eq!(part_of(&sample, demand(30, 70), false), demand(30, 10));
        assert_eq!(part_of(&sample, demand(900, 70), true), demand(900, 70));
        assert_eq!(part_of(&sample[..1], demand(900, 0), false), demand(1, 0));
    }

    #[test]
    fn leftovers_are_old_and_incomplete() {
        let mut one = entry(1, 10, 100, 100);
        assert!(!is_leftover(&one, at(10_000)));
        one.is_complete = false;
        assert!(!is_leftover(&one, at(699)));
        assert!(is_leftover(&one, at(701)));
        assert!(!is_leftover(&one, at(0)), "the clock was set back");
    }
}
