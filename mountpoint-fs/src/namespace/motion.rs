//! Names that a rename or a removal is taking away, until the bucket has done it.
//!
//! A rename is many requests where it is a copy. What would be written, made or removed meanwhile under the old name, or
//! below it, would come back there, or under the new one, after its application was told that all was well. So it is not
//! begun: whoever wants to is refused and may try again. A rename itself waits for removals, which are one request each.
//!
//! Knows keys only. The lock is taken before T, and held by whoever begins to write until the table says so; a rename
//! looks at the table after it has said what it takes: so it sees what has begun, or what begins is refused.

use mountpoint_client::types::Key;
use parking_lot::MutexGuard;
use tokio::sync::Notify;

use crate::operation::FsError;
use crate::sync::Mutex;

/// What is being taken away: one entry for each rename and each removal in progress.
#[derive(Debug, Default)]
pub(super) struct Motions {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    motions: Vec<Motion>,
    last: u64,
}

#[derive(Debug)]
struct Motion {
    number: u64,
    keys: Vec<Key>,
    what: Taking,
}

/// Why a name is taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taking {
    /// By a rename: its old and its new name.
    Rename,
    /// By a removal.
    Removal,
}

/// Names in motion, until it is dropped.
#[derive(Debug)]
pub struct InMotion<'a> {
    motions: &'a Motions,
    number: u64,
}

/// Nothing is set in motion as long as this is held.
#[derive(Debug)]
pub(super) struct AtRest<'a>(MutexGuard<'a, State>);

impl Motions {
    /// Keeps everything at rest that is so.
    pub(super) fn hold(&self) -> AtRest<'_> {
        AtRest(self.state.lock())
    }

    /// `keys` are in motion from now on; `None` if that must wait for removals that are in progress.
    /// [`FsError::Busy`] if a rename is in the way.
    pub(super) fn begin(
        &self,
        keys: Vec<Key>,
        what: Taking,
    ) -> Result<Option<InMotion<'_>>, FsError> {
        let mut state = self.state.lock();
        let in_the_way = |motion: &&Motion| {
            let mut pairs = motion
                .keys
                .iter()
                .flat_map(|a| keys.iter().map(move |b| (a, b)));
            pairs.any(|(a, b)| is_within(a, b) || is_within(b, a))
        };
        let mut others = state.motions.iter().filter(in_the_way).peekable();
        if let Some(rename) = others.clone().find(|other| other.what == Taking::Rename) {
            return Err(rename.refuse(&keys[0]));
        }
        if others.peek().is_some() && what == Taking::Rename {
            return Ok(None);
        }
        state.last += 1;
        let number = state.last;
        state.motions.push(Motion { number, keys, what });
        Ok(Some(InMotion {
            motions: self,
            number,
        }))
    }

    /// Returns when something has come to rest since this was called, or whoever waits was reminded.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + Send + '_ {
        self.ended.notified()
    }

    /// Who waits looks again.
    pub(super) fn remind(&self) {
        self.ended.notify_waiters();
    }
}

impl AtRest<'_> {
    /// [`FsError::Busy`] if `key`, or a directory that it is in, is being taken away.
    pub(super) fn check(&self, key: &Key) -> Result<(), FsError> {
        let takes = |motion: &&Motion| motion.keys.iter().any(|taken| is_within(key, taken));
        let taken = self.0.motions.iter().find(takes);
        taken.map_or(Ok(()), |motion| Err(motion.refuse(key)))
    }
}

impl Motion {
    fn refuse(&self, key: &Key) -> FsError {
        let what = match self.what {
            Taking::Rename => "renamed",
            Taking::Removal => "removed",
        };
        let of = &self.keys[0];
        FsError::Busy(format!(
            "{key}: {of} is being {what} through this mount: try again when that is done"
        ))
    }
}

impl Drop for InMotion<'_> {
    fn drop(&mut self) {
        let mut state = self.motions.state.lock();
        state.motions.retain(|it| it.number != self.number);
        drop(state);
        self.motions.ended.notify_waiters();
    }
}

/// Whether `key` is `name`, or below the directory of that name.
fn is_within(key: &Key, name: &Key) -> bool {
    let rest = key.as_str().strip_prefix(name.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| Key::parse(name).unwrap()).collect()
    }

    #[test]
    fn what_is_in_the_way_of_what() {
        use Taking::{Removal, Rename};
        #[derive(Debug, PartialEq, Eq)]
        enum Outcome {
            Begins,
            Waits,
            Refused,
        }
        use Outcome::{Begins, Refused, Waits};
        for (first, what, second, then, outcome) in [
            (&["d"][..], Rename, &["d"][..], Rename, Refused),
            (&["d", "e"], Rename, &["x", "e/y"], Rename, Refused),
            (&["d/s"], Rename, &["d"], Rename, Refused),
            (&["d"], Rename, &["d/s"], Removal, Refused),
            (&["d/s"], Removal, &["d"], Rename, Waits),
            (&["d"], Removal, &["d/s", "x"], Rename, Waits),
            (&["d/s"], Removal, &["d"], Removal, Begins),
            (&["d"], Rename, &["d2", "dd/d"], Rename, Begins),
        ] {
            let motions = Motions::default();
            let held = motions.begin(keys(first), what).unwrap();
            let begun = match motions.begin(keys(second), then) {
                Ok(Some(_)) => Begins,
                Ok(None) => Waits,
                Err(FsError::Busy(_)) => Refused,
                Err(error) => panic!("{error}"),
            };
            assert_eq!(begun, outcome, "{first:?} {what:?} {second:?} {then:?}");
            drop(held);
            assert!(motions.begin(keys(second), then).unwrap().is_some());
            assert!(motions.state.lock().motions.is_empty());
        }
    }

    #[test]
    fn what_is_below_a_name_in_motion_is_not_at_rest() {
        let motions = Motions::default();
        let held = motions.begin(keys(&["a/b", "c"]), Taking::Rename).unwrap();
        for (key, is_at_rest) in [
            ("a/b", false),
            ("a/b/x", false),
            ("c/x/y", false),
            ("a", true),
            ("a/bc", true),
            ("x/a/b", true),
        ] {
            let key = Key::parse(key).unwrap();
            let checked = motions.hold().check(&key);
            assert_eq!(checked.is_ok(), is_at_rest, "{key}");
        }
        drop(held);
        assert!(motions.hold().check(&Key::parse("a/b").unwrap()).is_ok());
    }
}
