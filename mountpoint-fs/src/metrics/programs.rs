//! The programs that use a mount, by name, each with the account of its requests to S3.
//!
//! A program is looked up in `/proc` when one of its threads causes a request to S3, once in a
//! while for each thread. Any thread; no locks.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mountpoint_client::billing::{self, Caller, RequestAccount};

use super::process::process_of;
use super::registry::is_measured;
use super::trace::{self, Origin};

/// Has the client count its requests by the programs that cause them. The mount is the first.
pub fn install_accounts() {
    PROGRAMS.named(THE_MOUNT);
    billing::install(|| measured_caller(trace::current_origin()));
}

/// The program of `origin`, and its call. `None` if nothing is measured.
pub fn measured_caller(origin: Origin) -> Option<Caller> {
    is_measured().then(|| Caller {
        account: account_of(origin.thread, origin.arrived),
        call: origin.call,
    })
}

/// All accounts. Those of programs with the same name are one.
#[must_use]
pub fn accounts() -> Vec<&'static RequestAccount> {
    PROGRAMS.accounts().collect()
}

/// The account of a thread that waits for a request of the kernel, which arrived at `now`.
fn account_of(thread: u32, now: Duration) -> &'static RequestAccount {
    let seen = THREADS.known(thread, now);
    if let Some(account) = seen.and_then(|place| PROGRAMS.at(place)) {
        return account;
    }
    let name = match thread {
        0 => THE_MOUNT.to_owned(),
        thread => process_of(thread).map_or_else(|| UNKNOWN.to_owned(), |process| process.name),
    };
    let (place, account) = PROGRAMS.named(&name);
    THREADS.add(thread, place, now);
    account
}

static PROGRAMS: Programs = Programs::new();
static THREADS: SeenThreads = SeenThreads::new();

/// The accounts, in the order in which programs were seen. A place that is taken stays taken.
#[derive(Debug)]
struct Programs([OnceLock<RequestAccount>; PLACES]);

impl Programs {
    const fn new() -> Self {
        Self([const { OnceLock::new() }; PLACES])
    }

    fn accounts(&self) -> impl Iterator<Item = &RequestAccount> {
        self.0.iter().filter_map(OnceLock::get)
    }

    fn at(&self, place: u8) -> Option<&RequestAccount> {
        self.0.get(usize::from(place)).and_then(OnceLock::get)
    }

    /// The account of the programs with this name, and its place: the first that has the name, or
    /// is free. Without any, that of [`OTHERS`].
    fn named(&self, name: &str) -> (u8, &RequestAccount) {
        let mut place = 0;
        for taken in &self.0[..PROGRAMS_MAX] {
            let account = taken.get_or_init(|| RequestAccount::new(name));
            if account.name() == name {
                return (place, account);
            }
            place += 1;
        }
        let others = self.0[PROGRAMS_MAX].get_or_init(|| RequestAccount::new(OTHERS));
        (place, others)
    }
}

/// Threads that were looked up lately, with the places of their programs.
///
/// The number of a thread tells its set. A look into `/proc` takes 40 us, a quarter of a read of
/// 4 KiB, so a set has several slots; threads of a program have numbers, and sets, in a row.
#[derive(Debug)]
struct SeenThreads([ThreadSet; SETS]);

/// The slots of some threads: one line of the processor's cache.
#[derive(Debug)]
#[repr(align(64))]
struct ThreadSet([AtomicU64; SLOTS]);

impl SeenThreads {
    const fn new() -> Self {
        Self([const { ThreadSet([const { AtomicU64::new(0) }; SLOTS]) }; SETS])
    }

    /// The place of the program of `thread`, if it was looked up lately.
    fn known(&self, thread: u32, now: Duration) -> Option<u8> {
        let now = seconds(now);
        let mut seen = self.set(thread).iter().filter_map(SeenThread::read);
        let seen = seen.find(|seen| seen.thread == thread)?;
        (now.abs_diff(seen.at) < KNOWN_FOR_SECONDS).then_some(seen.place)
    }

    /// Remembers `thread`, in place of what is known of it, or of the thread that was looked up
    /// first.
    fn add(&self, thread: u32, place: u8, now: Duration) {
        let age = |slot: &&AtomicU64| match SeenThread::read(slot) {
            Some(seen) if seen.thread == thread => None,
            seen => Some(seen.map(|seen| seen.at)),
        };
        let at = seconds(now);
        if let Some(slot) = self.set(thread).iter().min_by_key(age) {
            SeenThread { thread, at, place }.write(slot);
        }
    }

    fn set(&self, thread: u32) -> &[AtomicU64; SLOTS] {
        &self.0[thread as usize % SETS].0
    }
}

/// One thread that was looked up. A slot is one number, so that it is read and written at once.
struct SeenThread {
    thread: u32,
    /// When, of [`seconds`].
    at: u32,
    place: u8,
}

impl SeenThread {
    fn write(&self, slot: &AtomicU64) {
        let known = u64::from(self.place) + 1;
        let number = (u64::from(self.thread) << 32) | (u64::from(self.at) << 8) | known;
        slot.store(number, Ordering::Release);
    }

    /// `None` of an empty slot.
    fn read(slot: &AtomicU64) -> Option<Self> {
        let number = slot.load(Ordering::Acquire);
        let [known, at @ .., t0, t1, t2, t3] = number.to_le_bytes();
        let place = known.checked_sub(1)?;
        Some(Self {
            thread: u32::from_le_bytes([t0, t1, t2, t3]),
            at: u32::from_le_bytes([at[0], at[1], at[2], 0]),
            place,
        })
    }
}

/// Whole seconds, of which 24 bits are kept: they come again after half a year.
fn seconds(time: Duration) -> u32 {
    u32::try_from(time.as_secs() % (1 << 24)).unwrap_or(0)
}

/// The name of requests that belong to no operation of the kernel: checks, repairs, uploads of
/// staged files.
const THE_MOUNT: &str = "(mount)";
/// The name of programs that are not visible: those of other PID namespaces, or that have ended.
const UNKNOWN: &str = "(unknown)";
/// The name of programs beyond [`PROGRAMS_MAX`].
const OTHERS: &str = "(others)";
/// Programs that are told apart. A machine that trains runs a handful; a label of a metric must not
/// have any number of values.
const PROGRAMS_MAX: usize = 64;
/// Places of accounts, with that of [`OTHERS`].
const PLACES: usize = PROGRAMS_MAX + 1;
/// A place has room in a byte, with another value for none.
const _: () = assert!(PLACES <= u8::MAX as usize);
/// Sets of threads. With their slots: 4096 threads, 32 KiB.
const SETS: usize = 512;
/// Threads of one set.
const SLOTS: usize = 8;
/// How long a thread is remembered, in seconds: the kernel gives its number to another one at some
/// time, and `exec` makes it another program.
const KNOWN_FOR_SECONDS: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_bounded() {
        let programs = Programs::new();
        for number in 0..3 * PROGRAMS_MAX {
            let name = format!("program {number}");
            let expected = match number < PROGRAMS_MAX {
                true => name.as_str(),
                false => OTHERS,
            };
            let (place, account) = programs.named(&name);
            assert_eq!(account.name(), expected);
            let there = programs.at(place).map(RequestAccount::name);
            assert_eq!(there, Some(expected));
        }
        assert_eq!(programs.accounts().count(), PLACES);
        assert_eq!(programs.named("program 1").0, 1);
        assert!(programs.at(u8::MAX).is_none());
    }

    #[test]
    fn threads_are_known_for_a_while_and_by_their_own_number() {
        let threads = SeenThreads::new();
        let second = Duration::from_secs;
        let now = second((1 << 24) + 100);
        assert_eq!(threads.known(0, Duration::ZERO), None);
        for (thread, place) in [(0, 0), (1, 64), (u32::MAX, 254)] {
            threads.add(thread, place, now);
            let of = |thread, now| threads.known(thread, now);
            assert_eq!(of(thread, now), Some(place));
            // An earlier request of the thread, which is served later.
            assert_eq!(of(thread, now - second(1)), Some(place));
            let known_for = second(u64::from(KNOWN_FOR_SECONDS));
            assert_eq!(of(thread, now + known_for - second(1)), Some(place));
            assert_eq!(of(thread, now + known_for), None);
        }
    }

    #[test]
    fn threads_of_one_set_are_bounded_and_the_oldest_goes_first() {
        let threads = SeenThreads::new();
        let number = |of| u32::try_from(1 + of * SETS).unwrap();
        let now = Duration::from_secs;
        for of in 0..SLOTS {
            threads.add(number(of), 7, now(100 - of as u64 / 4));
        }
        let known = |of| threads.known(number(of), now(100)).is_some();
        assert!((0..SLOTS).all(known));
        // The entry of a thread is replaced, whatever its age.
        threads.add(number(0), 8, now(101));
        assert!((0..SLOTS).all(known));
        threads.add(number(SLOTS), 9, now(101));
        assert!((0..=SLOTS).filter(|of| !known(*of)).eq([4]));
    }
}
