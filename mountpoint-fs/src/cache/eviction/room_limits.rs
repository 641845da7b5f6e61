//! The room that a cache may occupy, and how much of it must go.
//!
//! Pure: counted bytes and the free space of the disk in, bytes and entries out.

use std::time::Duration;

use crate::cache::storage::Usage;
use crate::local_disk::DiskSpace;

/// The room that all mounts which share a directory may occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RoomLimits {
    /// Most bytes; `None` to leave [`FREE_SHARE`] of the file system free.
    pub(crate) bytes_max: Option<u64>,
    /// Most entries.
    pub(crate) entries_max: u64,
}

impl Default for RoomLimits {
    fn default() -> Self {
        Self {
            bytes_max: None,
            entries_max: ENTRIES_MAX,
        }
    }
}

/// Bytes and entries to remove.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) struct Demand {
    pub(in crate::cache) bytes: u64,
    pub(in crate::cache) entries: u64,
}

impl Demand {
    pub(super) fn is_none(self) -> bool {
        self == Self::default()
    }
}

impl RoomLimits {
    /// Bytes of the file system that stay free.
    fn free_min(&self, space: DiskSpace) -> u64 {
        match self.bytes_max {
            None => space.total / FREE_SHARE,
            Some(_) => (space.total / FREE_SHARE_BOUNDED).min(FREE_BOUNDED_MAX),
        }
    }

    /// Bytes that may still be stored.
    pub(super) fn left(&self, usage: &Usage, space: DiskSpace) -> u64 {
        let on_disk = space.available.saturating_sub(self.free_min(space));
        // A count may be wrong by what comes and goes meanwhile.
        let by_limit = self.bytes_max.map(|max| {
            let left = max.saturating_sub(usage.bytes);
            left.saturating_sub(slack_of(max) / 4)
        });
        if self.is_short_of_files(space) || usage.entries >= self.entries_max {
            return 0;
        }
        by_limit.map_or(on_disk, |left| left.min(on_disk))
    }

    /// The demand, if `reclaimed` bytes more are about to be free, and a store asked for
    /// `wanted` bytes in vain.
    pub(super) fn demand(
        &self,
        usage: &Usage,
        space: DiskSpace,
        reclaimed: u64,
        wanted: u64,
    ) -> Demand {
        let by_limit = self.bytes_max.map_or(0, |max| {
            let slack = slack_of(max);
            let least = (slack / 4).saturating_add(wanted).min(max);
            short_of(max, usage.bytes, least, slack)
        });
        let free_min = self.free_min(space);
        let slack = SLACK_MIN.max(space.total / SLACK_SHARE_OF_DISK);
        let slack = slack.min(SLACK_MAX).min(free_min / 2);
        let left = space.available.saturating_add(reclaimed);
        let by_disk = short_of(left, free_min, wanted, slack);
        let slack = self.entries_max / ENTRIES_SLACK_SHARE;
        let by_count = short_of(self.entries_max, usage.entries, 0, slack);
        let files_min = space.files_total / FILES_SHARE;
        let by_files = if self.is_short_of_files(space) {
            // Two files each.
            (2 * files_min - space.files_available) / 2
        } else {
            0
        };
        Demand {
            bytes: by_limit.max(by_disk).min(usage.bytes),
            entries: by_count.max(by_files).min(usage.entries),
        }
    }

    fn is_short_of_files(&self, space: DiskSpace) -> bool {
        space.files_total > 0 && space.files_available < space.files_total / FILES_SHARE
    }
}

/// The room that eviction makes below a limit.
fn slack_of(bytes_max: u64) -> u64 {
    let slack = SLACK_MIN.max(bytes_max / SLACK_SHARE);
    slack.min(SLACK_MAX).min(bytes_max / 4)
}

/// The bytes that `there` lacks to be `slack` more than `needed`, or `least` if that is more;
/// nothing, if it is `least` more and half of the slack.
fn short_of(there: u64, needed: u64, least: u64, slack: u64) -> u64 {
    if there < needed.saturating_add(least.max(slack / 2)) {
        needed
            .saturating_add(least.max(slack))
            .saturating_sub(there)
    } else {
        0
    }
}

/// Bytes that were removed and are not free yet: an open file keeps its bytes, and file systems
/// free them later.
#[derive(Debug, Default)]
pub(super) struct Reclaimed {
    bytes: u64,
    /// Free bytes when last asked.
    available: u64,
    /// When bytes were last removed.
    at: Duration,
}

impl Reclaimed {
    /// So many bytes were removed.
    pub(super) fn add(&mut self, bytes: u64, now: Duration) {
        self.bytes = self.bytes.saturating_add(bytes);
        self.at = now;
    }

    /// Bytes that are still to become free, when `available` bytes are and `stored` were stored
    /// since the last call.
    pub(super) fn left(&mut self, available: u64, stored: u64, now: Duration) -> u64 {
        let gained = available.saturating_add(stored);
        let gained = gained.saturating_sub(self.available);
        self.available = available;
        self.bytes = self.bytes.saturating_sub(gained);
        if now.saturating_sub(self.at) > RECLAIM_MAX {
            self.bytes = 0;
        }
        self.bytes
    }
}

/// Entries of a cache. A listing of one shard has then 16 thousand, about 1 MB of memory.
const ENTRIES_MAX: u64 = 4 << 20;

/// Without a limit of its own, the cache leaves one in so many bytes of the file system free.
const FREE_SHARE: u64 = 20;

/// With a limit of its own, it leaves one in so many bytes free, to not end other programs.
const FREE_SHARE_BOUNDED: u64 = 100;

/// Most bytes that it then leaves free.
const FREE_BOUNDED_MAX: u64 = 1 << 30;

/// One in so many files of the file system stays unused.
const FILES_SHARE: u64 = 50;

/// Eviction makes room for one in so many bytes of the limit: it works rarely, and fills go on.
const SLACK_SHARE: u64 = 32;

/// The room in bytes that it makes on the disk, as a share of the disk.
const SLACK_SHARE_OF_DISK: u64 = 256;

/// Least room that eviction makes: what a fast network brings while it works.
const SLACK_MIN: u64 = 32 << 20;

/// Most room that eviction makes: seconds of the fastest disks.
const SLACK_MAX: u64 = 8 << 30;

/// The room in entries, one in so many.
const ENTRIES_SLACK_SHARE: u64 = 64;

/// How long removed bytes may take to become free; later, somebody else must have stored as many.
const RECLAIM_MAX: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;

    fn usage(bytes: u64, entries: u64) -> Usage {
        let mut usage = Usage::default();
        usage.count(bytes, entries, SystemTime::UNIX_EPOCH);
        usage
    }

    fn space(total: u64, available: u64) -> DiskSpace {
        DiskSpace {
            total,
            available,
            files_total: 0,
            files_available: 0,
        }
    }

    #[track_caller]
    fn check_room(max: Option<u64>, used: u64, disk: (u64, u64), left: u64, demand: u64) {
        let limits = RoomLimits {
            bytes_max: max,
            ..RoomLimits::default()
        };
        let (usage, space) = (usage(used, 10), space(disk.0, disk.1));
        assert_eq!(limits.left(&usage, space), left, "left");
        assert_eq!(limits.demand(&usage, space, 0, 0).bytes, demand, "demand");
    }

    #[test]
    fn bytes_are_bounded_by_the_limit_and_the_disk() {
        let large = (1000 * GIB, 900 * GIB);
        check_room(Some(10 * GIB), 0, large, 10 * GIB - 80 * MIB, 0);
        check_room(Some(10 * GIB), 9 * GIB, large, GIB - 80 * MIB, 0);
        check_room(
            Some(10 * GIB),
            10 * GIB - 100 * MIB,
            large,
            20 * MIB,
            220 * MIB,
        );
        check_room(Some(10 * GIB), 10 * GIB, large, 0, 320 * MIB);
        // A count may find more than was believed.
        check_room(Some(10 * GIB), 20 * GIB, large, 0, 10 * GIB + 320 * MIB);
        check_room(Some(0), 5 * MIB, large, 0, 5 * MIB);
        // Without a limit a twentieth stays free, whichever program uses the disk.
        check_room(None, 800 * GIB, (1000 * GIB, 100 * GIB), 50 * GIB, 0);
        let (all, slack) = (1000 * GIB, 1000 * GIB / 256);
        check_room(None, 800 * GIB, (all, 51 * GIB), GIB, slack - GIB);
        check_room(None, 800 * GIB, (all, 0), 0, 50 * GIB + slack);
        check_room(None, MIB, (1000 * GIB, 0), 0, MIB);
        // With one, a little.
        check_room(Some(500 * GIB), 10 * GIB, (1000 * GIB, 9 * GIB), 8 * GIB, 0);
        check_room(Some(500 * GIB), 10 * GIB, (1000 * GIB, GIB), 0, 512 * MIB);
    }

    #[test]
    fn a_large_store_gets_room_in_a_small_cache() {
        let limits = RoomLimits {
            bytes_max: Some(100 * MIB),
            ..RoomLimits::default()
        };
        let space = space(1000 * GIB, 900 * GIB);
        // A quarter of it is the slack, a quarter of that stays.
        for (wanted, expected) in [(0, 0), (6, 0), (8, 12), (30, 36 - 13), (500, 87)] {
            let usage = usage(87 * MIB, 100);
            let demand = limits.demand(&usage, space, 0, wanted * MIB).bytes;
            assert_eq!(demand / MIB, expected, "{wanted}");
            let mut after = usage;
            after.remove(demand, 0);
            let has_room = limits.left(&after, space) >= wanted * MIB;
            assert_eq!(has_room, wanted < 100, "{wanted}");
        }
    }

    #[test]
    fn entries_and_files_are_bounded() {
        let limits = RoomLimits {
            bytes_max: None,
            entries_max: 6400,
        };
        let free = space(1000 * GIB, 900 * GIB);
        for (entries, demand, is_full) in [
            (0, 0, false),
            (6350, 0, false),
            (6351, 51, false),
            (6400, 100, true),
        ] {
            let usage = usage(GIB, entries);
            assert_eq!(
                limits.demand(&usage, free, 0, 0).entries,
                demand,
                "{entries}"
            );
            assert_eq!(limits.left(&usage, free) == 0, is_full, "{entries}");
        }
        for (files, demand) in [(1000, 0), (20, 0), (10, 15), (0, 20)] {
            let free = DiskSpace {
                files_total: 1000,
                files_available: files,
                ..free
            };
            let usage = usage(GIB, 1000);
            assert_eq!(limits.demand(&usage, free, 0, 0).entries, demand, "{files}");
            assert_eq!(limits.left(&usage, free) == 0, demand > 0, "{files}");
        }
    }

    #[test]
    fn removed_bytes_are_not_removed_again_before_they_are_free() {
        let mut reclaimed = Reclaimed::default();
        let secs = Duration::from_secs;
        assert_eq!(reclaimed.left(100, 0, secs(0)), 0);
        reclaimed.add(50, secs(1));
        assert_eq!(reclaimed.left(100, 0, secs(2)), 50, "an open file");
        assert_eq!(reclaimed.left(110, 0, secs(3)), 40);
        assert_eq!(reclaimed.left(105, 20, secs(4)), 25, "stored meanwhile");
        assert_eq!(reclaimed.left(90, 0, secs(5)), 25, "others stored");
        assert_eq!(reclaimed.left(90, 0, secs(62)), 0);
    }
}
