//! Walks of a tree: which directories' subdirectories are being opened, and which of these were
//! listed before.
//!
//! Whoever opens a subdirectory just after its directory was listed is walking (`find`, `du`, `ls
//! -lR`). When what the listing said of the next ones is too old, one more listing of the directory
//! tells of them all. And where they may be listed before they are opened, one LIST without a
//! delimiter, from a subdirectory on, shows it, what is below it and the subdirectories behind it;
//! those that it shows in full need no request of their own. What is shown is older than the
//! `opendir`, so this is only done where names may be old (`--metadata-ttl`), for [`WALK_AGE_MAX`]
//! at most, for one `opendir` each, and not when this mount has changed anything since.
//!
//! Knows no client and no inode. Bounded by [`WALK_NAMES_MAX`] and [`WALK_DIRECTORIES_MAX`]; a LIST
//! that shows no directory in full is a waste, and the next is sent after twice as many openings.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::page::Page;
use crate::config::limits::{WALK_AGE_MAX, WALK_DIRECTORIES_MAX, WALK_NAMES_MAX, WALK_WASTE_MAX};
use crate::sync::Mutex;

/// All walks of a mount. The lock guards them alone and no other is taken under it.
#[derive(Debug, Default)]
pub(in crate::namespace) struct Walks(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Directories that were listed to their end, by prefix.
    listed: HashMap<Arc<str>, Listed>,
    /// Directories that were listed ahead, by prefix.
    ahead: HashMap<Arc<str>, Arc<Page>>,
    /// The same, oldest first; some are taken already.
    in_order: VecDeque<Arc<str>>,
    /// Names on the pages ahead.
    names: usize,
}

/// A directory that was listed to its end.
#[derive(Clone, Copy, Debug)]
struct Listed {
    /// When that was, or when something below it was opened last.
    touched: Duration,
    /// When what was shown was asked for.
    asked: Duration,
    /// Its subdirectories that were opened since.
    opened: u32,
    /// LISTs ahead in a row that were of no use.
    wasted: u32,
    /// Subdirectories that are to be opened before the next.
    skip: u32,
}

impl Walks {
    /// The directory `prefix` was listed to its end, by an answer that was asked for at `asked`.
    pub(in crate::namespace) fn listed(&self, prefix: &str, asked: Duration, now: Duration) {
        let mut state = self.0.lock();
        if let Some(listed) = state.listed.get_mut(prefix) {
            listed.touched = now;
            listed.asked = listed.asked.max(asked);
            return;
        }
        if state.listed.len() >= WALK_DIRECTORIES_MAX {
            state.listed.retain(|_, listed| listed.is_young(now));
            if state.listed.len() >= WALK_DIRECTORIES_MAX {
                state.listed.clear();
            }
        }
        let listed = Listed {
            touched: now,
            asked,
            opened: 0,
            wasted: 0,
            skip: 0,
        };
        state.listed.insert(Arc::from(prefix), listed);
    }

    /// The directory `prefix`, if it was listed ahead and that is less than `age_max` ago. It is
    /// handed out once, and not to who was shown something younger.
    pub(in crate::namespace) fn take(
        &self,
        prefix: &str,
        now: Duration,
        age_max: Duration,
    ) -> Option<Arc<Page>> {
        let mut state = self.0.lock();
        let page = state.ahead.remove(prefix)?;
        state.names -= page.entries.len();
        if state.ahead.is_empty() {
            state.in_order.clear();
        }
        let shown = state.listed.get(prefix).map(|listed| listed.asked);
        let age_max = age_max.min(WALK_AGE_MAX);
        let is_young = now.saturating_sub(page.asked) < age_max;
        (is_young && shown <= Some(page.asked)).then_some(page)
    }

    /// The directory `prefix` is opened and was not listed ahead. Returns the prefix of the
    /// directory that it is in, if that is to be listed from `prefix` on.
    pub(in crate::namespace) fn open<'a>(&self, prefix: &'a str, now: Duration) -> Option<&'a str> {
        let mut state = self.0.lock();
        let parent = parent_of(prefix)?;
        let is_walked = state.listed.get_mut(parent).is_some_and(|listed| {
            let is_young = listed.is_young(now);
            listed.opened = listed.opened.saturating_add(1);
            let is_due = listed.skip == 0;
            listed.skip = listed.skip.saturating_sub(1);
            is_young && is_due
        });
        state.touch_above(prefix, now);
        is_walked.then_some(parent)
    }

    /// Whether the subdirectories of `prefix` are being opened one after the other: whoever looks a
    /// name of it up will look up the next ones.
    pub(in crate::namespace) fn is_walked(&self, prefix: &str, now: Duration) -> bool {
        let state = self.0.lock();
        let listed = state.listed.get(prefix);
        listed.is_some_and(|listed| listed.is_young(now) && listed.opened > 1)
    }

    /// Whether the directory `prefix` was listed to its end a short time ago.
    pub(in crate::namespace) fn was_listed(&self, prefix: &str, now: Duration) -> bool {
        let state = self.0.lock();
        let listed = state.listed.get(prefix);
        listed.is_some_and(|listed| listed.is_young(now))
    }

    /// A LIST ahead of the directory `parent` has shown `pages` in full.
    pub(in crate::namespace) fn arrived(&self, parent: &str, pages: Vec<(Arc<str>, Arc<Page>)>) {
        let mut state = self.0.lock();
        if let Some(listed) = state.listed.get_mut(parent) {
            listed.wasted = if pages.is_empty() {
                (listed.wasted + 1).min(WALK_WASTE_MAX)
            } else {
                0
            };
            listed.skip = (1 << listed.wasted) - 1;
        }
        for (prefix, page) in pages {
            state.names += page.entries.len();
            state.in_order.push_back(Arc::clone(&prefix));
            if let Some(older) = state.ahead.insert(prefix, page) {
                state.names -= older.entries.len();
            }
        }
        while state.names > WALK_NAMES_MAX || state.in_order.len() > WALK_DIRECTORIES_MAX {
            let Some(oldest) = state.in_order.pop_front() else {
                return;
            };
            if let Some(page) = state.ahead.remove(&oldest) {
                state.names -= page.entries.len();
            }
        }
    }

    /// Drops what is too old.
    pub(in crate::namespace) fn expire(&self, now: Duration) {
        let mut state = self.0.lock();
        state.listed.retain(|_, listed| listed.is_young(now));
        let State {
            ahead,
            in_order,
            names,
            ..
        } = &mut *state;
        ahead.retain(|_, page| page.asked + WALK_AGE_MAX > now);
        in_order.retain(|prefix| ahead.contains_key(prefix));
        *names = ahead.values().map(|page| page.entries.len()).sum();
    }
}

impl Listed {
    fn is_young(&self, now: Duration) -> bool {
        self.touched + WALK_AGE_MAX > now
    }
}

impl State {
    /// The walk goes on below all directories that `prefix` is in.
    fn touch_above(&mut self, prefix: &str, now: Duration) {
        let mut above = parent_of(prefix);
        while let Some(prefix) = above {
            if let Some(listed) = self.listed.get_mut(prefix) {
                listed.touched = now;
            }
            above = parent_of(prefix);
        }
    }
}

/// The prefix of the directory that the directory `prefix` is in.
fn parent_of(prefix: &str) -> Option<&str> {
    let path = prefix.strip_suffix('/')?;
    Some(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::namespace::listing::page::Listed as Name;
    use crate::namespace::version::Found;

    const TTL: Duration = Duration::from_secs(60);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn pages(prefixes: &[&str], names: usize, asked: Duration) -> Vec<(Arc<str>, Arc<Page>)> {
        let name = |number: usize| Name {
            name: Arc::from(format!("{number}")),
            found: Found::Directory,
            is_certain: true,
        };
        let page = |prefix: &&str| {
            let entries = (0..names).map(name).collect();
            (Arc::from(*prefix), Arc::new(Page::whole(entries, asked)))
        };
        prefixes.iter().map(page).collect()
    }

    #[test]
    fn parents() {
        for (prefix, parent) in [
            ("", None),
            ("a/", Some("")),
            ("a/b/", Some("a/")),
            ("a/b/c/", Some("a/b/")),
        ] {
            assert_eq!(parent_of(prefix), parent);
        }
    }

    #[test]
    fn a_subdirectory_of_what_was_just_listed_is_a_walk() {
        let walks = Walks::default();
        assert_eq!(walks.open("t/a/", at(0)), None);
        walks.listed("t/", at(0), at(0));
        assert!(!walks.is_walked("t/", at(1)));
        assert!(walks.was_listed("t/", at(1)) && !walks.was_listed("u/", at(1)));
        assert_eq!(walks.open("t/a/", at(1)), Some("t/"));
        assert!(!walks.is_walked("t/", at(1)), "once may be by chance");
        assert_eq!(walks.open("u/a/", at(1)), None);
        assert_eq!(walks.open("t/", at(1)), None);
        // What is opened below keeps it.
        let age = WALK_AGE_MAX.as_secs();
        assert_eq!(walks.open("t/a/b/", at(age)), None);
        assert_eq!(walks.open("t/c/", at(2 * age - 1)), Some("t/"));
        assert!(walks.is_walked("t/", at(2 * age)));
        assert_eq!(walks.open("t/c/", at(3 * age)), None);
        walks.expire(at(5 * age));
        assert!(walks.0.lock().listed.is_empty());
    }

    #[test]
    fn a_directory_is_handed_out_once_while_it_is_young() {
        let walks = Walks::default();
        walks.arrived("t/", pages(&["t/a/", "t/b/", "t/c/"], 2, at(0)));
        assert!(walks.take("t/a/", at(1), TTL).is_some());
        assert!(walks.take("t/a/", at(1), TTL).is_none());
        assert!(
            walks.take("t/b/", at(2), at(2)).is_none(),
            "by its validity"
        );
        assert!(walks.take("t/c/", WALK_AGE_MAX, TTL).is_none(), "by age");
        let state = walks.0.lock();
        assert_eq!((state.names, state.in_order.len()), (0, 0));
    }

    /// It was in flight while the directory was listed by itself.
    #[test]
    fn a_directory_gets_no_older() {
        let walks = Walks::default();
        walks.listed("t/a/", at(2), at(3));
        walks.listed("t/a/", at(1), at(3));
        for (asked, is_shown) in [(1, false), (2, true), (3, true)] {
            walks.arrived("t/", pages(&["t/a/", "t/b/"], 2, at(asked)));
            assert_eq!(walks.take("t/a/", at(4), TTL).is_some(), is_shown);
            assert!(walks.take("t/b/", at(4), TTL).is_some());
        }
    }

    #[test]
    fn what_is_of_no_use_is_done_ever_less_often() {
        let walks = Walks::default();
        walks.listed("t/", at(0), at(0));
        let mut sent = Vec::new();
        for number in 0..100 {
            if walks.open("t/a/", at(0)).is_some() {
                sent.push(number);
                walks.arrived("t/", Vec::new());
            }
        }
        assert_eq!(sent, [0, 2, 6, 14, 30, 62]);
        // What is of use ends it.
        walks.arrived("t/", pages(&["t/b/"], 1, at(0)));
        assert!(walks.open("t/c/", at(0)).is_some());
        assert!(walks.open("t/d/", at(0)).is_some());
    }

    #[test]
    fn they_are_bounded() {
        let walks = Walks::default();
        for number in 0..2 * WALK_DIRECTORIES_MAX {
            let prefix = format!("{number}/");
            walks.listed(&prefix, at(0), at(0));
            walks.arrived("", pages(&[&prefix], 1, at(0)));
        }
        walks.arrived("", pages(&["x/"], WALK_NAMES_MAX, at(0)));
        let state = walks.0.lock();
        assert!(state.listed.len() <= WALK_DIRECTORIES_MAX);
        assert!(state.in_order.len() <= WALK_DIRECTORIES_MAX);
        assert_eq!((state.ahead.len(), state.names), (1, WALK_NAMES_MAX));
    }
}
