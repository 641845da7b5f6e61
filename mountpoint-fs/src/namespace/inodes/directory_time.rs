//! When the names of a directory changed, which S3 does not tell.
//!
//! Pure. A change through this mount moves the time; so does a listing that shows other names than
//! the listing before, if this mount has changed none in between. The time never goes back.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::namespace::moment::Moment;

/// The last change of the names of one directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryTime {
    changed: ChangeTime,
    /// Request time of the listing that `names` is of, or time of a later change.
    since: Moment,
    /// The sum of the names that the directory had; `None` after a change through this mount.
    names: Option<u64>,
}

/// A time of day in nanoseconds since 1970; 0 if there was no change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChangeTime(u64);

impl ChangeTime {
    /// The time to show.
    pub(crate) fn shown(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(self.0)
    }

    /// The time of a change at `wall` that follows this one.
    fn next(self, wall: SystemTime) -> Self {
        let since = wall.duration_since(UNIX_EPOCH).unwrap_or_default();
        let wall = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        Self(wall.max(self.0.saturating_add(1)))
    }
}

impl DirectoryTime {
    /// The time of a directory whose last change is `changed`.
    pub(crate) fn new(changed: ChangeTime) -> Self {
        Self {
            changed,
            since: Moment::START,
            names: None,
        }
    }

    /// The last change.
    pub(crate) fn changed(&self) -> ChangeTime {
        self.changed
    }

    /// This mount has changed a name, at `wall` and at `now` of its clock.
    pub(crate) fn change(&mut self, wall: SystemTime, now: Moment) {
        *self = Self {
            changed: self.changed.next(wall),
            since: now,
            names: None,
        };
    }

    /// Whether a listing that was requested at `asked` may tell of a change.
    pub(crate) fn is_news(&self, asked: Moment) -> bool {
        asked > self.since || asked == self.since && self.names.is_none()
    }

    /// A listing that was requested at `asked` has the sum `names`.
    pub(crate) fn list(&mut self, names: u64, asked: Moment, wall: SystemTime) {
        if !self.is_news(asked) {
            return;
        }
        if self.names.is_some_and(|known| known != names) {
            self.changed = self.changed.next(wall);
        }
        self.since = asked;
        self.names = Some(names);
    }
}

/// The last changes of directories that no longer have an inode, by the hash of their paths.
#[derive(Debug, Default)]
pub(crate) struct ForgottenTimes {
    by_path: HashMap<u64, ChangeTime>,
    in_order: VecDeque<u64>,
    /// The newest change that is not in `by_path` any more. A directory of which nothing is known
    /// shows it, so that no time goes back.
    floor: ChangeTime,
}

impl ForgottenTimes {
    /// Keeps the time of a directory.
    pub(crate) fn keep(&mut self, path: u64, changed: ChangeTime) {
        if self.by_path.insert(path, changed).is_none() {
            self.in_order.push_back(path);
        }
        if self.in_order.len() > FORGOTTEN_TIMES_MAX
            && let Some(oldest) = self.in_order.pop_front()
        {
            self.floor = self
                .floor
                .max(self.by_path.remove(&oldest).unwrap_or_default());
        }
    }

    /// The time of the directory `path`, if it is kept.
    pub(crate) fn of(&self, path: u64) -> Option<ChangeTime> {
        self.by_path.get(&path).copied()
    }

    /// Whether no time is kept.
    pub(crate) fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }

    /// The time of a directory of which nothing is known.
    pub(crate) fn floor(&self) -> ChangeTime {
        self.floor
    }

    /// Paths mean other directories now: a directory was renamed.
    pub(crate) fn moved(&mut self) {
        let newest = self.by_path.drain().map(|(_, changed)| changed).max();
        self.floor = self.floor.max(newest.unwrap_or_default());
        self.in_order.clear();
    }
}

/// Times of directories that the kernel has forgotten. About 40 bytes each.
const FORGOTTEN_TIMES_MAX: usize = 1 << 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn wall(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds).into()
    }

    #[test]
    fn a_time_moves_with_each_change_and_never_back() {
        let mut time = DirectoryTime::new(ChangeTime::default());
        time.change(wall(10), at(1));
        assert_eq!(time.changed().shown(), wall(10));
        // The clock of the machine was set back.
        time.change(wall(5), at(2));
        assert_eq!(time.changed().shown(), wall(10) + Duration::from_nanos(1));
    }

    #[test]
    fn a_listing_with_other_names_moves_the_time_unless_this_mount_changed_them() {
        let mut time = DirectoryTime::new(ChangeTime::default());
        let check = |time: &mut DirectoryTime, names, asked, moves| {
            let before = time.changed();
            time.list(names, at(asked), wall(100 + asked));
            assert_eq!(time.changed() > before, moves, "{names} {asked}");
        };
        check(&mut time, 7, 1, false);
        check(&mut time, 7, 2, false);
        check(&mut time, 8, 3, true);
        // An older answer.
        check(&mut time, 7, 2, false);
        check(&mut time, 8, 4, false);
        time.change(wall(200), at(6));
        check(&mut time, 9, 5, false);
        check(&mut time, 9, 6, false);
        check(&mut time, 8, 7, true);
    }

    #[test]
    fn forgotten_times_are_bounded_and_do_not_go_back() {
        let mut times = ForgottenTimes::default();
        let changed = |seconds| ChangeTime::default().next(wall(seconds));
        for path in 0..FORGOTTEN_TIMES_MAX as u64 + 2 {
            times.keep(path, changed(path));
        }
        assert_eq!(times.of(0), None);
        assert_eq!(times.floor(), changed(1));
        assert_eq!(times.of(2), Some(changed(2)));
        assert_eq!(times.by_path.len(), FORGOTTEN_TIMES_MAX);
        times.moved();
        assert!(times.is_empty() && times.in_order.is_empty());
        assert_eq!(times.floor(), changed(FORGOTTEN_TIMES_MAX as u64 + 1));
    }
}
