//! Locks on the keys of changes in progress, until the bucket has completed them.
//!
//! A rename by copy takes many requests. A change below the old name meanwhile would be lost, or
//! would appear under either name, although its application was told of success. So it is refused
//! as busy, and the application may try again. A rename waits for changes and removals, which take
//! a few requests each.
//!
//! Knows only keys. The lock is taken before T. An operation holds it from reading its key in the
//! table until its key lock exists or the table marks the file as written. A rename locks its keys
//! before it reads the table, and updates the table before it releases them. So it sees each
//! earlier operation and refuses each later one.

use mountpoint_client::types::Key;
use tokio::sync::Notify;

use crate::operation::FsError;
use crate::sync::{Mutex, MutexGuard};

/// The key locks: one entry for each change, removal and rename in progress.
#[derive(Debug, Default)]
pub(crate) struct KeyLocks {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    locks: Vec<KeyLock>,
    last: u64,
}

#[derive(Debug)]
struct KeyLock {
    number: u64,
    keys: Vec<Key>,
    what: Moving,
}

/// Operation that holds a key lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moving {
    /// Creates the name, changes its object in place, or removes a directory if it is empty.
    Change,
    /// Removes the name.
    Removal,
    /// Moves the name: locks the old and the new one.
    Rename,
}

/// A lock on some keys, released on drop.
#[derive(Debug)]
pub struct KeyLockGuard<'a> {
    locks: &'a KeyLocks,
    number: u64,
}

/// Exclusive access to the set of key locks: no operation can begin meanwhile.
#[derive(Debug)]
pub(crate) struct AtRest<'a> {
    locks: &'a KeyLocks,
    state: MutexGuard<'a, State>,
}

impl KeyLocks {
    /// Locks the set of key locks.
    pub(crate) fn hold(&self) -> AtRest<'_> {
        AtRest {
            locks: self,
            state: self.state.lock(),
        }
    }

    /// Waits until an operation ends, or until [`KeyLocks::remind`] is called.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + '_ {
        self.ended.notified()
    }

    /// Wakes all waiters, which check their condition again.
    pub(crate) fn remind(&self) {
        self.ended.notify_waiters();
    }
}

impl<'a> AtRest<'a> {
    /// Locks `keys` for `what`. `None` if the caller must wait for an operation in progress.
    ///
    /// # Errors
    /// [`FsError::InMotion`] if an operation in progress may take longer.
    pub(crate) fn begin(
        mut self,
        keys: Vec<Key>,
        what: Moving,
    ) -> Result<Option<KeyLockGuard<'a>>, FsError> {
        let mut waits = false;
        for other in &self.state.locks {
            match what.beside(other.what, &keys, &other.keys) {
                Beside::Goes => {}
                Beside::Waits => waits = true,
                Beside::Refused => return Err(other.refuse(&keys[0])),
            }
        }
        if waits {
            return Ok(None);
        }
        self.state.last += 1;
        let number = self.state.last;
        self.state.locks.push(KeyLock { number, keys, what });
        let locks = self.locks;
        Ok(Some(KeyLockGuard { locks, number }))
    }

    /// Returns [`FsError::InMotion`] if a removal or a rename holds `key` or a directory above it.
    pub(crate) fn check(&self, key: &Key) -> Result<(), FsError> {
        let takes = |lock: &&KeyLock| {
            lock.what != Moving::Change && lock.keys.iter().any(|taken| is_within(key, taken))
        };
        let taken = self.state.locks.iter().find(takes);
        taken.map_or(Ok(()), |lock| Err(lock.refuse(key)))
    }

    /// Whether no operation holds a key below the directory `key`.
    pub(crate) fn is_still_below(&self, key: &Key) -> bool {
        let mut keys = self.state.locks.iter().flat_map(|lock| &lock.keys);
        !keys.any(|moving| moving != key && is_within(moving, key))
    }
}

/// Outcome of an operation that meets another one in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    Goes,
    Waits,
    Refused,
}

impl Moving {
    /// Outcome of this operation on `keys` beside `other` on `others`, which is in progress.
    fn beside(self, other: Self, keys: &[Key], others: &[Key]) -> Beside {
        let any = |relation: fn(&Key, &Key) -> bool| {
            keys.iter()
                .any(|key| others.iter().any(|other| relation(key, other)))
        };
        let is_below = || any(is_within);
        let is_above = || any(|key, other| is_within(other, key));
        match (self, other) {
            // A change of a directory's own object does not affect a rename below it.
            (Self::Change, Self::Rename | Self::Removal) if is_below() => Beside::Refused,
            (Self::Removal | Self::Rename, Self::Rename) if is_below() || is_above() => {
                Beside::Refused
            }
            (Self::Rename, Self::Change) if is_above() => Beside::Waits,
            (Self::Rename, Self::Removal) if is_below() || is_above() => Beside::Waits,
            _ => Beside::Goes,
        }
    }
}

impl KeyLock {
    fn refuse(&self, key: &Key) -> FsError {
        let what = match self.what {
            Moving::Change => "changed",
            Moving::Removal => "removed",
            Moving::Rename => "renamed",
        };
        let of = &self.keys[0];
        FsError::InMotion(format!(
            "{key}: {of} is being {what} through this mount: try again when that is done"
        ))
    }
}

impl Drop for KeyLockGuard<'_> {
    fn drop(&mut self) {
        let mut state = self.locks.state.lock();
        state.locks.retain(|it| it.number != self.number);
        drop(state);
        self.locks.ended.notify_waiters();
    }
}

/// Whether `key` is `name` or below the directory of that name.
fn is_within(key: &Key, name: &Key) -> bool {
    let rest = key.as_str().strip_prefix(name.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::sync::{Counted, explore};

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::parse(name).unwrap()).collect()
    }

    #[test]
    fn what_is_in_the_way_of_what() {
        use Beside::{Goes, Refused, Waits};
        use Moving::{Change, Removal, Rename};
        for (first, what, second, then, outcome) in [
            (&["d"][..], Rename, &["d"][..], Rename, Refused),
            (&["d", "e"], Rename, &["x", "e/y"], Rename, Refused),
            (&["d/s"], Rename, &["d"], Rename, Refused),
            (&["d"], Rename, &["d/s"], Removal, Refused),
            (&["d/s"], Removal, &["d"], Rename, Waits),
            (&["d"], Removal, &["d/s", "x"], Rename, Waits),
            (&["d/s"], Removal, &["d"], Removal, Goes),
            (&["d"], Rename, &["d2", "dd/d"], Rename, Goes),
            (&["d/s"], Change, &["d"], Rename, Waits),
            (&["d"], Change, &["d"], Rename, Waits),
            (&["d"], Change, &["x", "d/s"], Rename, Goes),
            (&["d2", "x"], Change, &["d"], Rename, Goes),
            (&["d"], Rename, &["d/s"], Change, Refused),
            (&["x", "d"], Rename, &["d"], Change, Refused),
            (&["d/s"], Rename, &["d"], Change, Goes),
            (&["d"], Removal, &["d"], Change, Refused),
            (&["d"], Change, &["d"], Removal, Goes),
            (&["d"], Change, &["d"], Change, Goes),
        ] {
            let locks = KeyLocks::default();
            let held = locks.hold().begin(keys(first), what).unwrap();
            let begun = match locks.hold().begin(keys(second), then) {
                Ok(Some(_)) => Goes,
                Ok(None) => Waits,
                Err(FsError::InMotion(_)) => Refused,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(begun, outcome, "{first:?} {what:?} {second:?} {then:?}");
            drop(held);
            let again = locks.hold().begin(keys(second), then);
            assert!(again.unwrap().is_some());
            assert!(locks.state.lock().locks.is_empty());
        }
    }

    #[test]
    fn what_is_below_a_name_in_motion_is_not_at_rest() {
        let locks = KeyLocks::default();
        let keys = keys(&["a/b", "c"]);
        let held = locks.hold().begin(keys, Moving::Rename).unwrap();
        for (key, is_at_rest) in [
            ("a/b", false),
            ("a/b/x", false),
            ("c/x/y", false),
            ("a", true),
            ("a/bc", true),
            ("x/a/b", true),
        ] {
            let key = Key::parse(key).unwrap();
            let checked = locks.hold().check(&key);
            assert_eq!(checked.is_ok(), is_at_rest, "{key}");
        }
        drop(held);
        assert!(locks.hold().check(&Key::parse("a/b").unwrap()).is_ok());
    }

    #[test]
    fn what_is_above_a_name_in_motion_is_not_still() {
        let locks = KeyLocks::default();
        let held = locks.hold().begin(keys(&["a/b/c"]), Moving::Change);
        let held = held.unwrap();
        for (key, is_still) in [
            ("a", false),
            ("a/b", false),
            ("a/b/c", true),
            ("a/b/c/d", true),
            ("a/bb", true),
        ] {
            let key = Key::parse(key).unwrap();
            assert_eq!(locks.hold().is_still_below(&key), is_still, "{key}");
        }
        // A change of a name does not prevent writes to it.
        assert!(locks.hold().check(&keys(&["a/b/c"])[0]).is_ok());
        drop(held);
        assert!(locks.hold().is_still_below(&keys(&["a"])[0]));
    }

    /// A rename of a directory, changes below it, and a removal beside them.
    #[test]
    fn a_rename_begins_when_all_that_it_waits_for_has_ended() {
        explore(|| {
            let locks = Arc::new(KeyLocks::default());
            let changes = Arc::new(AtomicUsize::new(0));
            let changing: Vec<_> = ["d/a", "d/b", "e"]
                .into_iter()
                .map(|name| {
                    let (locks, changes) = (Arc::clone(&locks), Arc::clone(&changes));
                    shuttle::thread::spawn(move || {
                        let begun = locks.hold().begin(keys(&[name]), Moving::Change);
                        if let Ok(lock) = begun {
                            let counted = name.starts_with("d/").then(|| Counted::new(&changes));
                            // Others run here.
                            assert!(locks.hold().check(&keys(&["f"])[0]).is_ok());
                            drop((counted, lock));
                        }
                    })
                })
                .collect();
            let renamed = shuttle::future::block_on(async {
                loop {
                    let ended = locks.ended();
                    let begun = locks.hold().begin(keys(&["d", "x"]), Moving::Rename);
                    match begun.unwrap() {
                        Some(lock) => break lock,
                        None => ended.await,
                    }
                }
            });
            assert!(locks.hold().check(&keys(&["d/c"])[0]).is_err());
            assert_eq!(
                changes.load(Ordering::SeqCst),
                0,
                "a change goes on beside the rename"
            );
            drop(renamed);
            changing.into_iter().for_each(|it| it.join().unwrap());
            assert!(locks.state.lock().locks.is_empty());
        });
    }
}
