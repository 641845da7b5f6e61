//! When which committed file is uploaded.
//!
//! Pure. A file has one entry whatever the number of its commits: the upload sends the newest one.
//! A commit during the upload makes another. The delay counts from the first commit that is not
//! uploaded, so a file that is rewritten all the time is uploaded all the same.
//!
//! While the bucket is away, one file at a time tries, with growing pauses.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::foreground::Foreground;
use super::types::Attempt;

/// The entries of all committed files that the bucket lacks.
#[derive(Debug)]
pub(super) struct Schedule {
    delay: Duration,
    entries: BTreeMap<u64, Entry>,
    /// Entries that wait, by size class and time.
    waiting: [BTreeSet<(Due, u64)>; 2],
    /// Entries that are uploaded. The others wait.
    uploading: BTreeMap<u64, Uploading>,
    running: [usize; 2],
    away: Option<Away>,
    /// Commits until now.
    commits: u64,
    /// Bytes of all entries.
    bytes: u64,
    foreground: Foreground,
}

/// A file. There may be very many.
#[derive(Clone, Copy, Debug)]
struct Entry {
    bytes: u64,
    /// When it is due, if it waits.
    due: Due,
    /// The number of the first commit that is not uploaded.
    first_commit: u64,
    failures: u32,
    /// The next commit makes a version to upload.
    awaits_commit: bool,
}

/// A file that is uploaded.
#[derive(Clone, Copy, Debug)]
struct Uploading {
    class: SizeClass,
    /// The number of the first commit that came meanwhile.
    next_commit: Option<u64>,
    /// A program has begun to wait for it meanwhile.
    is_awaited: bool,
}

/// A time on the mount's clock, in nanoseconds: half the size of a [`Duration`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Due(u64);

impl From<Duration> for Due {
    fn from(time: Duration) -> Self {
        Self(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Due> for Duration {
    fn from(due: Due) -> Self {
        Self::from_nanos(due.0)
    }
}

/// The bucket cannot be reached.
#[derive(Clone, Copy, Debug)]
struct Away {
    until: Duration,
    failures: u32,
}

/// Sizes that are limited apart, so that large files do not hold up small ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SizeClass {
    Small,
    Large,
}

impl SizeClass {
    fn of(bytes: u64) -> Self {
        if bytes <= SMALL_LEN_MAX {
            Self::Small
        } else {
            Self::Large
        }
    }

    fn index(self) -> usize {
        usize::from(self == Self::Large)
    }
}

impl Schedule {
    pub(super) fn new(delay: Duration) -> Self {
        Self {
            delay,
            entries: BTreeMap::new(),
            waiting: [BTreeSet::new(), BTreeSet::new()],
            uploading: BTreeMap::new(),
            running: [0; 2],
            away: None,
            commits: 0,
            bytes: 0,
            foreground: Foreground::default(),
        }
    }

    /// A commit of a file of `bytes` bytes is durable. Its first upload waits for `delay` at least.
    pub(super) fn committed(&mut self, file: u64, (bytes, delay): (u64, Duration), now: Duration) {
        let class = SizeClass::of(bytes);
        self.commits += 1;
        self.bytes += bytes;
        self.foreground.committed(now);
        let Some(entry) = self.entries.get_mut(&file) else {
            let due = Due::from(now + self.delay.max(delay));
            let entry = Entry {
                bytes,
                due,
                first_commit: self.commits,
                failures: 0,
                awaits_commit: false,
            };
            self.entries.insert(file, entry);
            self.waiting[class.index()].insert((due, file));
            return;
        };
        let before = std::mem::replace(&mut entry.bytes, bytes);
        self.bytes -= before;
        match self.uploading.get_mut(&file) {
            Some(upload) => {
                upload.next_commit.get_or_insert(self.commits);
            }
            None => {
                let waits = (entry.due, file);
                self.waiting[SizeClass::of(before).index()].remove(&waits);
                if std::mem::take(&mut entry.awaits_commit) {
                    entry.due = Due::from(now);
                }
                self.waiting[class.index()].insert((entry.due, file));
            }
        }
    }

    /// The next file to upload now; it counts as running from then on.
    pub(super) fn next(&mut self, now: Duration) -> Option<u64> {
        if let Some(away) = self.away
            && (away.until > now || self.running.iter().sum::<usize>() > 0)
        {
            return None;
        }
        for (class, limit) in [
            (SizeClass::Small, SMALL_IN_FLIGHT_MAX),
            (SizeClass::Large, LARGE_IN_FLIGHT_MAX),
        ] {
            let place = class.index();
            let first = self.waiting[place].first().copied();
            let Some((due, file)) = first.filter(|(due, _)| self.begins_at(*due) <= now) else {
                continue;
            };
            if self.running[place] >= limit {
                continue;
            }
            self.waiting[place].remove(&(due, file));
            self.running[place] += 1;
            let upload = Uploading {
                class,
                next_commit: None,
                is_awaited: false,
            };
            self.uploading.insert(file, upload);
            return Some(file);
        }
        None
    }

    /// An upload has ended. Returns whether the bucket has the file now.
    pub(super) fn finished(&mut self, file: u64, attempt: Attempt, now: Duration) -> bool {
        match attempt {
            Attempt::Ended => self.away = None,
            Attempt::Failed | Attempt::Early => {}
            Attempt::Away => {
                let failures = self.away.map_or(0, |away| away.failures) + 1;
                let until = now + pause(failures);
                self.away = Some(Away { until, failures });
            }
        }
        let Some(upload) = self.uploading.remove(&file) else {
            return false;
        };
        self.running[upload.class.index()] -= 1;
        let Some(entry) = self.entries.get_mut(&file) else {
            return false;
        };
        entry.awaits_commit = attempt == Attempt::Early && upload.next_commit.is_none();
        let due = match (attempt, upload.next_commit) {
            (Attempt::Ended, None) => {
                self.bytes -= entry.bytes;
                self.entries.remove(&file);
                return true;
            }
            (Attempt::Ended, Some(next_commit)) => {
                entry.failures = 0;
                entry.first_commit = next_commit;
                match upload.is_awaited {
                    true => now,
                    false => now + self.delay,
                }
            }
            (Attempt::Early, Some(_)) => now,
            (Attempt::Early, None) => now + PAUSE_MIN,
            (Attempt::Failed | Attempt::Away, _) => {
                entry.failures += 1;
                now + pause(entry.failures)
            }
        };
        entry.due = Due::from(due);
        let class = SizeClass::of(entry.bytes);
        self.waiting[class.index()].insert((entry.due, file));
        false
    }

    /// Has files that wait for the end of their delay uploaded as soon as possible; those that
    /// failed wait on.
    pub(super) fn end_delays(&mut self, now: Duration) {
        self.foreground.hurry(now);
        self.await_uploads();
        let now = Due::from(now);
        for (file, entry) in &mut self.entries {
            let is_delayed = entry.due > now && entry.failures == 0 && !entry.awaits_commit;
            if is_delayed && !self.uploading.contains_key(file) {
                let waiting = &mut self.waiting[SizeClass::of(entry.bytes).index()];
                waiting.remove(&(entry.due, *file));
                waiting.insert((now, *file));
                entry.due = now;
            }
        }
    }

    /// Has all files uploaded as soon as possible, whatever failed before.
    pub(super) fn flush(&mut self, now: Duration) {
        self.away = None;
        self.foreground.hurry(now);
        self.await_uploads();
        let now = Due::from(now);
        for waiting in &mut self.waiting {
            *waiting = waiting
                .iter()
                .map(|(due, file)| (now.min(*due), *file))
                .collect();
        }
        for entry in self.entries.values_mut() {
            entry.due = now.min(entry.due);
        }
    }

    /// A program waits for the files that are uploaded, and for what is committed meanwhile.
    fn await_uploads(&mut self) {
        for upload in self.uploading.values_mut() {
            upload.is_awaited = true;
        }
    }

    /// When [`Self::next`] may return a file that it does not return now; `None` if only an end of
    /// an upload or a commit can change that.
    pub(super) fn wakes_at(&self) -> Option<Duration> {
        let limits = [SMALL_IN_FLIGHT_MAX, LARGE_IN_FLIGHT_MAX];
        let classes = self.waiting.iter().zip(self.running).zip(limits);
        let due = classes.filter_map(|((waiting, running), limit)| {
            let first = waiting.first().filter(|_| running < limit);
            first.map(|(due, _)| self.begins_at(*due))
        });
        let due = due.min()?;
        match self.away {
            None => Some(due),
            Some(_) if self.running.iter().sum::<usize>() > 0 => None,
            Some(away) => Some(due.max(away.until)),
        }
    }

    /// When the upload of a file may begin that is due at `due`.
    fn begins_at(&self, due: Due) -> Duration {
        self.foreground.begins_at(due.into(), self.bytes)
    }

    /// Whether the file waits or is uploaded.
    pub(super) fn has(&self, file: u64) -> bool {
        self.entries.contains_key(&file)
    }

    /// Files that the bucket lacks.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Commits until now.
    pub(super) fn commits(&self) -> u64 {
        self.commits
    }

    /// The files whose first commit that the bucket lacks is one of the first `commits`, and their
    /// bytes.
    pub(super) fn files_since(&self, commits: u64) -> impl Iterator<Item = (u64, u64)> {
        let entries = self.entries.iter();
        let left = entries.filter(move |(_, entry)| entry.first_commit <= commits);
        left.map(|(file, entry)| (*file, entry.bytes))
    }
}

/// The pause after as many failures in a row.
fn pause(failures: u32) -> Duration {
    let doublings = failures.saturating_sub(1).min(PAUSE_DOUBLINGS_MAX);
    PAUSE_MIN.saturating_mul(1 << doublings).min(PAUSE_MAX)
}

/// Small files in flight: a request of 20 ms each makes 3,200 files a second.
pub(super) const SMALL_IN_FLIGHT_MAX: usize = 64;

/// Large files in flight. Each has several parts in flight, which share one limit of the mount.
pub(super) const LARGE_IN_FLIGHT_MAX: usize = 4;

/// Largest file that goes as one request.
const SMALL_LEN_MAX: u64 = 8 << 20;

/// The pause after the first failure; the client has retried for seconds by then.
const PAUSE_MIN: Duration = Duration::from_millis(500);

/// The longest pause: how late an upload may be after the bucket is back.
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Enough for the longest pause.
const PAUSE_DOUBLINGS_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// The files that are to be uploaded now.
    fn all(schedule: &mut Schedule, now: Duration) -> Vec<u64> {
        std::iter::from_fn(|| schedule.next(now)).collect()
    }

    #[test]
    fn rewrites_within_the_delay_make_one_upload() {
        let mut schedule = Schedule::new(ms(100));
        for at in [0, 40, 90] {
            schedule.committed(1, (10, Duration::ZERO), ms(at));
            assert!(all(&mut schedule, ms(at)).is_empty());
        }
        assert_eq!(schedule.wakes_at(), Some(ms(100)));
        assert_eq!(all(&mut schedule, ms(100)), [1]);
        assert_eq!(schedule.wakes_at(), None);
        assert!(schedule.finished(1, Attempt::Ended, ms(120)));
        assert_eq!(schedule.len(), 0);
    }

    #[test]
    fn a_commit_during_an_upload_makes_another() {
        let mut schedule = Schedule::new(ms(100));
        schedule.committed(1, (10, Duration::ZERO), ms(0));
        assert_eq!(all(&mut schedule, ms(100)), [1]);
        schedule.committed(1, (20, Duration::ZERO), ms(110));
        assert!(all(&mut schedule, ms(500)).is_empty(), "one at a time");
        assert!(!schedule.finished(1, Attempt::Ended, ms(500)));
        let left: Vec<_> = schedule.files_since(u64::MAX).collect();
        assert_eq!(left, [(1, 20)]);
        assert_eq!(
            schedule.files_since(1).count(),
            0,
            "the first one is stored"
        );
        assert!(all(&mut schedule, ms(599)).is_empty());
        assert_eq!(all(&mut schedule, ms(600)), [1]);
    }

    #[test]
    fn large_files_do_not_hold_up_small_ones() {
        let mut schedule = Schedule::new(ms(0));
        for file in 0..100 {
            schedule.committed(file, (1 << 30, Duration::ZERO), ms(0));
            schedule.committed(1000 + file, (10, Duration::ZERO), ms(0));
        }
        let files = all(&mut schedule, ms(0));
        let small = files.iter().filter(|file| **file >= 1000).count();
        assert_eq!(small, SMALL_IN_FLIGHT_MAX);
        assert_eq!(files.len() - small, LARGE_IN_FLIGHT_MAX);
        schedule.finished(0, Attempt::Ended, ms(1));
        assert_eq!(all(&mut schedule, ms(1)), [4]);
    }

    #[test]
    fn while_the_bucket_is_away_one_file_tries_with_growing_pauses() {
        let mut schedule = Schedule::new(ms(0));
        for file in 0..10 {
            schedule.committed(file, (10, Duration::ZERO), ms(0));
        }
        for file in all(&mut schedule, ms(0)) {
            schedule.finished(file, Attempt::Away, ms(0));
        }
        let mut now = ms(0);
        let mut tries = 0;
        for _ in 0..100 {
            now = schedule.wakes_at().unwrap();
            let files = all(&mut schedule, now);
            assert_eq!(files.len(), 1, "at {now:?}");
            schedule.finished(files[0], Attempt::Away, now);
            tries += 1;
        }
        assert!(now >= PAUSE_MAX * (tries - 10), "{now:?}");
        assert!(now <= PAUSE_MAX * (tries + 10), "{now:?}");
        // The bucket is back.
        now = schedule.wakes_at().unwrap();
        let file = schedule.next(now).unwrap();
        assert!(schedule.finished(file, Attempt::Ended, now));
        assert_eq!(all(&mut schedule, now + PAUSE_MAX).len(), 9);
    }

    #[test]
    fn a_burst_of_commits_goes_before_uploads() {
        let mut schedule = Schedule::new(ms(100));
        for file in 0..1000 {
            schedule.committed(file, (10, Duration::ZERO), ms(file));
        }
        assert!(all(&mut schedule, ms(1000)).is_empty());
        let wakes = schedule.wakes_at().unwrap();
        assert!(wakes > ms(1000), "{wakes:?}");
        assert_eq!(all(&mut schedule, wakes).len(), SMALL_IN_FLIGHT_MAX);
        // A program that waits for them ends that.
        for file in 1000..2000 {
            schedule.committed(file, (10, Duration::ZERO), wakes);
        }
        schedule.finished(0, Attempt::Ended, wakes);
        assert_eq!(schedule.next(wakes), None);
        schedule.flush(wakes);
        assert!(schedule.next(wakes).is_some());
    }

    #[test]
    fn much_that_waits_is_uploaded_in_a_burst() {
        let mut schedule = Schedule::new(ms(0));
        for _ in 0..2 {
            for file in 0..100 {
                schedule.committed(file, (1 << 20, Duration::ZERO), ms(0));
            }
        }
        assert!(all(&mut schedule, ms(0)).is_empty());
        for file in 100..300 {
            schedule.committed(file, (1 << 20, Duration::ZERO), ms(0));
        }
        assert_eq!(all(&mut schedule, ms(0)).len(), SMALL_IN_FLIGHT_MAX);
    }

    #[test]
    fn a_commit_during_an_upload_is_awaited_as_well() {
        let mut schedule = Schedule::new(ms(60_000));
        schedule.committed(1, (10, Duration::ZERO), ms(0));
        schedule.flush(ms(1));
        assert_eq!(schedule.next(ms(1)), Some(1));
        schedule.committed(1, (10, Duration::ZERO), ms(2));
        schedule.flush(ms(3));
        assert!(!schedule.finished(1, Attempt::Ended, ms(4)));
        assert_eq!(schedule.next(ms(4)), Some(1));
        // Nobody waits for this one.
        schedule.committed(1, (10, Duration::ZERO), ms(5));
        assert!(!schedule.finished(1, Attempt::Ended, ms(6)));
        assert_eq!(schedule.next(ms(7)), None);
    }

    #[test]
    fn a_file_that_fails_waits_alone() {
        let mut schedule = Schedule::new(ms(0));
        schedule.committed(1, (10, Duration::ZERO), ms(0));
        assert_eq!(all(&mut schedule, ms(0)), [1]);
        assert!(!schedule.finished(1, Attempt::Failed, ms(0)));
        schedule.committed(2, (10, Duration::ZERO), ms(1));
        assert_eq!(all(&mut schedule, ms(1)), [2]);
        schedule.committed(1, (10, Duration::ZERO), ms(2));
        assert!(
            all(&mut schedule, ms(2)).is_empty(),
            "a commit does not end its pause"
        );
        schedule.flush(ms(3));
        assert_eq!(all(&mut schedule, ms(3)), [1]);
    }

    #[test]
    fn a_file_that_is_written_over_is_looked_at_again_soon_whatever_its_failures() {
        let mut schedule = Schedule::new(Duration::ZERO);
        schedule.committed(1, (10, Duration::ZERO), ms(0));
        for (attempt, pause) in [
            (Attempt::Early, PAUSE_MIN),
            (Attempt::Failed, ms(500)),
            (Attempt::Failed, ms(1000)),
            (Attempt::Early, PAUSE_MIN),
            (Attempt::Early, PAUSE_MIN),
            (Attempt::Failed, ms(2000)),
        ] {
            let now = schedule.wakes_at().unwrap();
            assert_eq!(all(&mut schedule, now), [1]);
            assert!(!schedule.finished(1, attempt, now));
            // Nor does a wait for room hurry it.
            schedule.end_delays(now);
            assert_eq!(schedule.wakes_at(), Some(now + pause));
        }
        let now = schedule.wakes_at().unwrap();
        assert_eq!(all(&mut schedule, now), [1]);
        assert!(!schedule.finished(1, Attempt::Early, now));
        schedule.committed(1, (10, Duration::ZERO), now);
        assert_eq!(
            all(&mut schedule, now),
            [1],
            "the commit is what it waited for"
        );
    }

    #[test]
    fn a_full_disk_ends_delays_and_no_pauses() {
        let mut schedule = Schedule::new(ms(100));
        schedule.committed(1, (10, Duration::ZERO), ms(0));
        assert_eq!(all(&mut schedule, ms(100)), [1]);
        schedule.finished(1, Attempt::Failed, ms(100));
        schedule.committed(2, (10, Duration::ZERO), ms(101));
        schedule.end_delays(ms(102));
        assert_eq!(all(&mut schedule, ms(102)), [2]);
        assert_eq!(schedule.wakes_at(), Some(ms(100) + PAUSE_MIN));
    }

    #[test]
    fn pauses_grow_up_to_the_longest() {
        assert_eq!(pause(1), PAUSE_MIN);
        assert_eq!(pause(2), PAUSE_MIN * 2);
        assert_eq!(pause(u32::MAX), PAUSE_MAX);
    }
}
