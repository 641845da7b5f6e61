//! The programs that use a mount, by name, each with the account of its requests to S3.
//!
//! A program is looked up in `/proc` when one of its threads causes a request to S3, once in a
//! while for each thread. Any thread.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use mountpoint_client::billing::{self, Caller, RequestAccount};

use super::process::process_of;
use super::registry::is_measured;
use super::trace::{self, Origin};
use crate::sync::Mutex;

/// Has the client count its requests by the programs that cause them.
pub fn install_accounts() {
    billing::install(|| measured_caller(trace::current_origin()));
}

/// The program of `origin`, and its call. `None` if nothing is measured.
pub fn measured_caller(origin: Origin) -> Option<Caller> {
    is_measured().then(|| Caller {
        account: account_of(origin.thread),
        call: origin.call,
    })
}

/// All accounts. Those of programs with the same name are one.
#[must_use]
pub fn accounts() -> Vec<Arc<RequestAccount>> {
    PROGRAMS.lock().by_name.values().map(Arc::clone).collect()
}

fn account_of(thread: u32) -> Arc<RequestAccount> {
    let now = trace::now();
    if let Some(account) = PROGRAMS.lock().known(thread, now) {
        return account;
    }
    // Without the lock: the kernel is asked.
    let name = match thread {
        0 => THE_MOUNT.to_owned(),
        thread => process_of(thread).map_or_else(|| UNKNOWN.to_owned(), |process| process.name),
    };
    PROGRAMS.lock().add(thread, name, now)
}

static PROGRAMS: LazyLock<Mutex<Programs>> = LazyLock::new(Mutex::default);

/// A leaf, held for a few instructions.
#[derive(Debug, Default)]
struct Programs {
    by_name: HashMap<String, Arc<RequestAccount>>,
    by_thread: HashMap<u32, SeenThread>,
}

#[derive(Debug)]
struct SeenThread {
    account: Arc<RequestAccount>,
    at: Duration,
}

impl Programs {
    /// The account of a thread that was looked up lately.
    fn known(&self, thread: u32, now: Duration) -> Option<Arc<RequestAccount>> {
        let seen = self.by_thread.get(&thread)?;
        let is_new = now.saturating_sub(seen.at) < KNOWN_FOR;
        is_new.then(|| Arc::clone(&seen.account))
    }

    fn add(&mut self, thread: u32, name: String, at: Duration) -> Arc<RequestAccount> {
        let name = match self.by_name.contains_key(&name) || self.by_name.len() < PROGRAMS_MAX {
            true => name,
            false => OTHERS.to_owned(),
        };
        let account = self.by_name.entry(name);
        let account = account.or_insert_with_key(|name| RequestAccount::new(name.as_str()));
        let account = Arc::clone(account);
        if self.by_thread.len() >= THREADS_MAX {
            self.by_thread.clear();
        }
        let seen = SeenThread {
            account: Arc::clone(&account),
            at,
        };
        self.by_thread.insert(thread, seen);
        account
    }
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
/// Threads that are remembered.
const THREADS_MAX: usize = 4096;
/// How long a thread is remembered: the kernel gives its number to another one at some time, and
/// `exec` makes it another program.
const KNOWN_FOR: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_threads_are_bounded() {
        let mut programs = Programs::default();
        let now = Duration::from_secs(100);
        for number in 0..3 * u32::try_from(THREADS_MAX).unwrap() {
            programs.add(number, format!("program {number}"), now);
            assert!(programs.by_thread.len() <= THREADS_MAX);
        }
        assert_eq!(programs.by_name.len(), PROGRAMS_MAX + 1);
        let again = programs.add(1, "program 1".to_owned(), now);
        assert_eq!(again.name(), "program 1");
        let seen = |after| programs.known(1, now + after).is_some();
        assert!(seen(KNOWN_FOR / 2) && !seen(KNOWN_FOR));
    }
}
