//! Locks that are those of `parking_lot` for tests as well, and points at which [`explore`] lets
//! another thread run.
//!
//! The threads of an exploration are [`shuttle`]'s, which all run on one thread of the machine, one
//! at a time. So a lock that one of them holds is awaited by letting others run. Each lock and each
//! unlock is such a point; an atomic value is none.

use std::cell::Cell;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::{RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

thread_local! {
    static IS_EXPLORING: Cell<bool> = const { Cell::new(false) };
}

/// Schedules of each kind that the unit tests try.
const SCHEDULES: usize = 150;
/// Points at which a schedule of the second kind prefers another thread.
const PREEMPTIONS: usize = 3;

/// Runs `model`, whose threads are [`shuttle::thread`]s, in many schedules, which are the same in
/// each run. `INTERLEAVINGS` sets their number, and `INTERLEAVINGS_SEED` chooses others.
///
/// A panic of the model in any of them fails the test, and so do threads that all wait.
pub(crate) fn explore(model: impl Fn() + Send + Sync + 'static) {
    let count = number("INTERLEAVINGS").map_or(SCHEDULES, |it| it.try_into().unwrap());
    let seed = number("INTERLEAVINGS_SEED").unwrap_or(1);
    let model = std::sync::Arc::new(model);
    let mut config = shuttle::Config::default();
    config.stack_size = STACK;
    let ending = Ending;
    IS_EXPLORING.set(true);
    let random = RandomScheduler::new_from_seed(seed, count);
    let its = std::sync::Arc::clone(&model);
    shuttle::Runner::new(random, config.clone()).run(move || its());
    let preempting = PctScheduler::new_from_seed(seed, PREEMPTIONS, count);
    let its = std::sync::Arc::clone(&model);
    shuttle::Runner::new(preempting, config).run(move || its());
    drop(ending);
    // Values of the model may take locks when they are dropped.
    drop(model);
}

/// As `std`'s: in an exploration, a thread of that.
#[derive(Debug)]
pub(crate) enum JoinHandle {
    Real(std::thread::JoinHandle<()>),
    Explored(shuttle::thread::JoinHandle<()>),
}

impl JoinHandle {
    pub(crate) fn join(self) -> std::thread::Result<()> {
        match self {
            Self::Real(handle) => handle.join(),
            Self::Explored(handle) => handle.join(),
        }
    }

    pub(crate) fn is_current(&self) -> bool {
        match self {
            Self::Real(handle) => handle.thread().id() == std::thread::current().id(),
            Self::Explored(handle) => handle.thread().id() == shuttle::thread::current().id(),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "for tests alone")]
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Starts a thread: in an exploration, one of that.
pub(crate) fn spawn(
    name: String,
    run: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle> {
    match is_exploring() {
        true => Ok(JoinHandle::Explored(shuttle::thread::spawn(run))),
        false => {
            let builder = std::thread::Builder::new().name(name);
            builder.spawn(run).map(JoinHandle::Real)
        }
    }
}

/// Runs `job` on a worker of `runtime`: in an exploration, on one more thread of that.
pub(crate) fn run_on(runtime: &tokio::runtime::Handle, job: impl FnOnce() + Send + 'static) {
    if is_exploring() {
        drop(shuttle::thread::spawn(job));
    } else {
        drop(runtime.spawn(async move { job() }));
    }
}

/// Bytes of a thread's stack. Debug builds have large frames.
const STACK: usize = 1 << 20;

struct Ending;

impl Drop for Ending {
    fn drop(&mut self) {
        IS_EXPLORING.set(false);
    }
}

fn is_exploring() -> bool {
    IS_EXPLORING.get() && !std::thread::panicking()
}

/// Lets another thread run, if the schedule wants it.
fn point() {
    if is_exploring() {
        shuttle::sync::atomic::AtomicBool::new(false).load(Ordering::SeqCst);
    }
}

/// What `take` returns, as soon as it returns something.
fn wait_for<T>(take: impl Fn() -> Option<T>) -> T {
    loop {
        if let Some(taken) = take() {
            return taken;
        }
        shuttle::thread::yield_now();
    }
}

/// As `parking_lot`'s.
#[derive(Default)]
pub struct Mutex<T: ?Sized>(parking_lot::Mutex<T>);

impl<T> Mutex<T> {
    /// As `parking_lot`'s.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::Mutex::new(value))
    }

    /// As `parking_lot`'s.
    pub fn into_inner(self) -> T {
        self.0.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// As `parking_lot`'s.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        point();
        let guard = match is_exploring() {
            true => wait_for(|| self.0.try_lock()),
            false => self.0.lock(),
        };
        MutexGuard(Some(guard))
    }

    /// As `parking_lot`'s.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        point();
        Some(MutexGuard(Some(self.0.try_lock()?)))
    }

    /// As `parking_lot`'s.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut()
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// As `parking_lot`'s. `None` while it is dropped.
pub struct MutexGuard<'a, T: ?Sized>(Option<parking_lot::MutexGuard<'a, T>>);

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    fn real(&mut self) -> &mut parking_lot::MutexGuard<'a, T> {
        self.0.as_mut().expect("it is not dropped")
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_ref().expect("it is not dropped")
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.real()
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        // The lock is free at the point.
        drop(self.0.take());
        point();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// As `parking_lot`'s. In an exploration a wait with a limit may end at any time, and each
/// notification is one for all.
#[derive(Debug, Default)]
pub struct Condvar {
    real: parking_lot::Condvar,
    notifications: AtomicU64,
}

impl Condvar {
    /// As `parking_lot`'s.
    pub const fn new() -> Self {
        Self {
            real: parking_lot::Condvar::new(),
            notifications: AtomicU64::new(0),
        }
    }

    /// As `parking_lot`'s.
    pub fn notify_one(&self) -> bool {
        self.notifications.fetch_add(1, Ordering::SeqCst);
        self.real.notify_one()
    }

    /// As `parking_lot`'s.
    pub fn notify_all(&self) -> usize {
        self.notifications.fetch_add(1, Ordering::SeqCst);
        self.real.notify_all()
    }

    /// As `parking_lot`'s.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if !is_exploring() {
            return self.real.wait(guard.real());
        }
        let before = self.notifications.load(Ordering::SeqCst);
        while self.notifications.load(Ordering::SeqCst) == before {
            Self::let_others_run(guard);
        }
    }

    /// As `parking_lot`'s.
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: Duration) -> WaitTimeoutResult {
        let mut most = most;
        if is_exploring() {
            Self::let_others_run(guard);
            most = Duration::ZERO;
        }
        self.real.wait_for(guard.real(), most)
    }

    /// As `parking_lot`'s.
    pub fn wait_while_for<T>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        holds: impl FnMut(&mut T) -> bool,
        most: Duration,
    ) -> WaitTimeoutResult {
        self.real.wait_while_for(guard.real(), holds, most)
    }

    fn let_others_run<T>(guard: &mut MutexGuard<'_, T>) {
        parking_lot::MutexGuard::unlocked(guard.real(), shuttle::thread::yield_now);
    }
}

/// As `parking_lot`'s.
#[derive(Debug, Default)]
pub struct RwLock<T: ?Sized>(parking_lot::RwLock<T>);

impl<T> RwLock<T> {
    /// As `parking_lot`'s.
    pub const fn new(value: T) -> Self {
        Self(parking_lot::RwLock::new(value))
    }
}

impl<T: ?Sized> RwLock<T> {
    /// As `parking_lot`'s.
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        point();
        match is_exploring() {
            true => wait_for(|| self.0.try_read()),
            false => self.0.read(),
        }
    }

    /// As `parking_lot`'s.
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        point();
        match is_exploring() {
            true => wait_for(|| self.0.try_write()),
            false => self.0.write(),
        }
    }
}
