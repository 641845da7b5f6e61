//! The thread that watches the room, and what the others ask it.
//!
//! Room for new bytes is granted ahead as credit, so that to ask costs no more than a lock that
//! nobody holds for long. The thread renews it from what all processes have stored and what the
//! disk has left.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use mountpoint_crt_sys::process::give_way;

use super::count::Count;
use super::evict::{Evictor, RemovedEntries, list_whole};
use super::room_limits::{Demand, Reclaimed, RoomLimits};
use crate::cache::storage::{EvictionRight, Storage, Usage};
use crate::clock::Clock;
use crate::executor::shielded;
use crate::sync::{Condvar, Mutex, MutexGuard};

/// The room of a cache. Its thread ends with the last handle.
#[derive(Debug)]
pub(crate) struct Room(Arc<Shared>);

/// The work of a room so far, and the known size of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RoomStats {
    /// Bytes that all entries occupy, as far as is known.
    pub(crate) bytes: u64,
    /// Entries, as far as is known.
    pub(crate) entries: u64,
    /// Entries that this process has evicted.
    pub(crate) evicted: u64,
    /// Their bytes.
    pub(crate) evicted_bytes: u64,
}

#[derive(Debug)]
struct Shared {
    storage: Arc<Storage>,
    limits: RoomLimits,
    clock: Clock,
    stats: Mutex<RoomStats>,
    /// A leaf, held for a few steps.
    account: Mutex<Account>,
    /// Told when the thread is called, and when it has renewed the credit.
    changed: Condvar,
}

/// Messages between the storing threads and the room's thread.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent of each other")]
struct Account {
    /// Bytes that may be stored before the next renewal.
    credit: u64,
    /// The thread is called when the credit falls below this.
    low: u64,
    /// Bytes that were admitted and are in no estimate yet.
    stored: u64,
    /// Entries that were made and are in no estimate yet.
    entries: u64,
    /// Most bytes that a store asked for in vain since the last renewal.
    wanted: u64,
    /// The last store that waited for a renewal had none: others need not wait.
    is_full: bool,
    /// Times that the credit was renewed.
    renewals: u64,
    /// Whether there is a thread.
    is_watched: bool,
    is_called: bool,
    is_to_end: bool,
}

impl Room {
    /// The room of the cache in `storage`, with a thread that keeps it.
    pub(crate) fn start(storage: Arc<Storage>, limits: RoomLimits, clock: Clock) -> Arc<Self> {
        let (room, mut keeper) = Self::unwatched(storage, limits, clock);
        let shared = Arc::clone(&room.0);
        // Stores that come at once need not wait for the thread.
        keeper.take_stock(&shared);
        shared.account.lock().is_watched = true;
        let thread = thread::Builder::new().name("cache-room".to_owned());
        let started = thread.spawn(move || {
            give_way();
            keeper.serve(&shared);
        });
        if let Err(error) = started {
            tracing::warn!("nothing is evicted from the cache: cannot start a thread: {error}");
            room.0.account.lock().is_watched = false;
        }
        room
    }

    /// The room, and what its thread would do.
    pub(super) fn unwatched(
        storage: Arc<Storage>,
        limits: RoomLimits,
        clock: Clock,
    ) -> (Arc<Self>, Keeper) {
        let shared = Arc::new(Shared {
            storage,
            limits,
            clock,
            stats: Mutex::default(),
            account: Mutex::default(),
            changed: Condvar::new(),
        });
        (Arc::new(Self(shared)), Keeper::new())
    }

    #[cfg(test)]
    pub(super) fn step(&self, keeper: &mut Keeper) -> Duration {
        keeper.step(&self.0)
    }

    /// Whether `bytes` may be stored; they count as stored then. May wait a moment for room, as the
    /// storing thread may.
    pub(crate) fn admits(&self, bytes: u64) -> bool {
        let bytes = bytes.next_multiple_of(DISK_BLOCK);
        let mut account = self.0.account.lock();
        let is_taken = account.take(bytes) || self.0.take_later(&mut account, bytes);
        if is_taken && account.credit < account.low {
            // Once for each renewal.
            account.low = 0;
            self.0.call(&mut account);
        }
        is_taken
    }

    /// Notes that an entry was made.
    pub(crate) fn added_entry(&self) {
        self.0.account.lock().entries += 1;
    }

    /// The size of the cache, as far as is known, and the evictions.
    pub(crate) fn stats(&self) -> RoomStats {
        *self.0.stats.lock()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        // It is not waited for: the disk may not answer.
        self.0.account.lock().is_to_end = true;
        self.0.changed.notify_all();
    }
}

impl Account {
    /// Takes credit, if there is enough.
    fn take(&mut self, bytes: u64) -> bool {
        let Some(credit) = self.credit.checked_sub(bytes) else {
            return false;
        };
        self.credit = credit;
        self.stored += bytes;
        true
    }

    /// Renews the credit: as much as is `left`, but for what was stored since that was known.
    fn renew(&mut self, left: u64) {
        let left = left.saturating_sub(self.stored);
        let least = CREDIT_MIN.max(self.wanted.saturating_mul(2)).min(left);
        self.credit = least.max(left / CREDIT_SHARE);
        self.low = self.credit / 2;
        self.wanted = 0;
        self.is_full &= self.credit == 0;
        self.renewals += 1;
    }
}

impl Shared {
    /// Takes credit after the next renewal.
    fn take_later(&self, account: &mut MutexGuard<'_, Account>, bytes: u64) -> bool {
        account.wanted = account.wanted.max(bytes);
        if !account.is_watched || account.is_full {
            return false;
        }
        let seen = account.renewals;
        self.call(account);
        let is_same = |account: &mut Account| account.renewals == seen;
        self.changed
            .wait_while_for(account, is_same, CREDIT_WAIT_MAX);
        let is_taken = account.take(bytes);
        account.is_full = !is_taken;
        is_taken
    }

    fn call(&self, account: &mut Account) {
        account.is_called = true;
        self.changed.notify_all();
    }

    fn is_to_end(&self) -> bool {
        self.account.lock().is_to_end
    }
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Keeper {
    evictor: Evictor,
    usage: Usage,
    reclaimed: Reclaimed,
    count: Option<Count>,
    /// The right to evict, kept while there is something to do.
    right: Option<EvictionRight>,
    has_failed: bool,
}

/// The result of counting a shard.
enum Counted {
    /// All shards are counted.
    Whole,
    Part(Count),
    /// The shard is to be counted again.
    Failed(Count),
}

/// The state of the cache and its disk, at one time.
#[derive(Clone, Copy, Debug)]
struct Stock {
    demand: Demand,
    /// Whether this process has stored something since the last time, or would have.
    is_in_use: bool,
}

impl Keeper {
    fn new() -> Self {
        let random = RandomState::new().hash_one(0_u8).to_le_bytes()[0];
        Self {
            evictor: Evictor::new(random),
            usage: Usage::default(),
            reclaimed: Reclaimed::default(),
            count: None,
            right: None,
            has_failed: false,
        }
    }

    fn serve(mut self, shared: &Shared) {
        while !shared.is_to_end() {
            let step = || self.step(shared);
            let rest = shielded("watching the room of the cache", step).unwrap_or(IDLE);
            let mut account = shared.account.lock();
            let is_idle = |account: &mut Account| !account.is_to_end && !account.is_called;
            if !rest.is_zero() {
                shared.changed.wait_while_for(&mut account, is_idle, rest);
            }
            account.is_called = false;
        }
        // The last stores count for the other processes.
        self.take_stock(shared);
    }

    /// Does what is most urgent, of bounded length. Returns how long to rest.
    fn step(&mut self, shared: &Shared) -> Duration {
        let Some(stock) = self.take_stock(shared) else {
            self.right = None;
            return IDLE;
        };
        if !stock.demand.is_none() {
            if !self.has_right(shared) {
                return TICK;
            }
            return match self.evict(shared, stock.demand) {
                // Only entries that are gone, or that the disk does not remove.
                Some(removed) if removed.entries > 0 => Duration::ZERO,
                _ => TICK,
            };
        }
        if self.is_count_due(shared) && self.has_right(shared) {
            return self.count_on(shared);
        }
        self.right = None;
        if stock.is_in_use { TICK } else { IDLE }
    }

    /// Tells the other processes what was stored, learns what they have, and renews the credit.
    fn take_stock(&mut self, shared: &Shared) -> Option<Stock> {
        let (stored, entries) = {
            let account = &mut *shared.account.lock();
            (
                std::mem::take(&mut account.stored),
                std::mem::take(&mut account.entries),
            )
        };
        let now = shared.clock.wall();
        let told = self.update_usage(shared, &mut |usage| usage.store(stored, entries, now));
        if !told {
            // They count with the next attempt.
            let account = &mut *shared.account.lock();
            account.stored += stored;
            account.entries += entries;
        }
        let space = match shared.storage.space() {
            Ok(space) => space,
            Err(error) => {
                self.failed("ask for the free space of", &error);
                Self::grant(shared, 0);
                return None;
            }
        };
        let reclaimed = self
            .reclaimed
            .left(space.available, stored, shared.clock.now());
        let wanted = Self::grant(shared, shared.limits.left(&self.usage, space));
        let limits = &shared.limits;
        let demand = limits.demand(&self.usage, space, reclaimed, wanted);
        let mut stats = shared.stats.lock();
        (stats.bytes, stats.entries) = (self.usage.bytes, self.usage.entries);
        drop(stats);
        Some(Stock {
            demand,
            is_in_use: stored > 0 || wanted > 0,
        })
    }

    /// Renews the credit. Returns the bytes that a store asked for in vain.
    fn grant(shared: &Shared, left: u64) -> u64 {
        let mut account = shared.account.lock();
        let wanted = account.wanted;
        account.renew(left);
        drop(account);
        shared.changed.notify_all();
        wanted
    }

    /// Changes the estimate that all processes share. Returns whether they know.
    fn update_usage(&mut self, shared: &Shared, change: &mut dyn FnMut(&mut Usage)) -> bool {
        match shared.storage.update_usage(change) {
            Ok(Some(usage)) => {
                self.usage = usage;
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.failed("keep the estimate of", &error);
                // A full disk, for one: this process goes on with what it knows.
                change(&mut self.usage);
                true
            }
        }
    }

    fn has_right(&mut self, shared: &Shared) -> bool {
        if self.right.is_none() {
            match shared.storage.lock_eviction() {
                Ok(right) => self.right = right,
                Err(error) => self.failed("lock", &error),
            }
        }
        self.right.is_some()
    }

    fn evict(&mut self, shared: &Shared, demand: Demand) -> Option<RemovedEntries> {
        let (storage, now) = (&shared.storage, shared.clock.wall());
        let removed = self.evictor.evict(storage, demand, &self.usage, now);
        match removed {
            Ok(removed) => {
                self.removed(shared, removed);
                Some(removed)
            }
            Err(error) => {
                self.failed("list", &error);
                None
            }
        }
    }

    fn removed(&mut self, shared: &Shared, removed: RemovedEntries) {
        let RemovedEntries { bytes, entries } = removed;
        if entries == 0 {
            return;
        }
        self.reclaimed.add(bytes, shared.clock.now());
        if !self.update_usage(shared, &mut |usage| usage.remove(bytes, entries)) {
            // Else the same demand would be met again. The next count finds the difference.
            self.usage.remove(bytes, entries);
        }
        let mut stats = shared.stats.lock();
        stats.evicted += entries;
        stats.evicted_bytes += bytes;
    }

    fn is_count_due(&self, shared: &Shared) -> bool {
        let usage = &self.usage;
        let is_young = usage
            .age(shared.clock.wall())
            .is_some_and(|age| age < COUNT_AGE_MAX);
        let stored_max = COUNT_STORED_MIN.max(usage.bytes / COUNT_STORED_SHARE);
        self.count.is_some() || !is_young || usage.stored_since > stored_max
    }

    /// Counts some more shards. Returns how long to rest.
    fn count_on(&mut self, shared: &Shared) -> Duration {
        let began = shared.clock.now();
        let mut count = self.count.take().unwrap_or_default();
        let mut listed = 0;
        // Few entries are counted at once: the fewer there are, the more would a change meanwhile
        // distort the result.
        while listed < COUNTED_AT_ONCE {
            let counted = self.count_shard(shared, count, &mut listed);
            match counted {
                Counted::Whole => return Duration::ZERO,
                Counted::Part(part) => count = part,
                Counted::Failed(part) => {
                    self.count = Some(part);
                    return TICK;
                }
            }
        }
        self.count = Some(count);
        // Three quarters of the time the disk is left alone.
        let took = shared.clock.now().saturating_sub(began);
        took.saturating_mul(3).min(TICK)
    }

    fn count_shard(&mut self, shared: &Shared, count: Count, listed: &mut usize) -> Counted {
        let now = shared.clock.wall();
        let mut removed = RemovedEntries::default();
        let entries = list_whole(&shared.storage, count.next(), now, &mut removed);
        self.removed(shared, removed);
        let entries = match entries {
            Ok(entries) => entries,
            Err(error) => {
                self.failed("list", &error);
                return Counted::Failed(count);
            }
        };
        *listed += entries.len();
        // Another process may be changing the estimate: then the shard is counted again.
        let mut counted = None;
        self.update_usage(shared, &mut |usage| {
            // A change may be made again where its first result was not written.
            let mut part = count.clone();
            counted = Some(if part.add(&entries, usage, now) {
                Counted::Whole
            } else {
                Counted::Part(part)
            });
        });
        counted.unwrap_or(Counted::Failed(count))
    }

    /// Notes that a step failed; the log has the first failure only.
    fn failed(&mut self, what: &str, error: &io::Error) {
        if std::mem::replace(&mut self.has_failed, true) {
            tracing::debug!("cannot {what} the cache: {error}");
        } else {
            tracing::warn!(
                "cannot {what} the cache: {error}; later failures are logged with --debug"
            );
        }
    }
}

/// Files grow by that on most file systems.
const DISK_BLOCK: u64 = 4096;

/// Credit of one renewal: one in so many bytes that are left. Each process may take as much,
/// without the others.
const CREDIT_SHARE: u64 = 16;

/// Credit of one renewal at least, if there is so much left: milliseconds of a fast disk.
const CREDIT_MIN: u64 = 4 << 20;

/// How long a store waits for the thread.
const CREDIT_WAIT_MAX: Duration = Duration::from_millis(50);

/// Time between looks at the disk while something is stored.
const TICK: Duration = Duration::from_secs(1);

/// Time between looks at the disk otherwise: other programs may fill it.
const IDLE: Duration = Duration::from_secs(10);

/// Entries that are counted between two looks at the disk.
const COUNTED_AT_ONCE: usize = 4096;

/// After this time the entries are counted again.
const COUNT_AGE_MAX: Duration = Duration::from_secs(6 * 60 * 60);

/// After so many stored bytes the entries are counted again: one in so many of those that are
/// there.
const COUNT_STORED_SHARE: u64 = 2;

/// The count is not repeated before so many bytes were stored.
const COUNT_STORED_MIN: u64 = 1 << 30;
