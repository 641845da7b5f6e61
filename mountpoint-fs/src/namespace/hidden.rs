//! Keys that cannot be shown: counted, and told of once for each directory.
//!
//! Which they are is decided in [`names`]. They never keep their neighbours from being shown.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use mountpoint_client::types::{Key, ListOutput};

use super::names::{self, Hidden};
use crate::config::limits::HIDDEN_DIRECTORIES_MAX;
use crate::sync::Mutex;

/// What was seen of them so far. The lock guards the set alone.
#[derive(Debug, Default)]
pub(super) struct HiddenKeys {
    count: AtomicU64,
    /// Directories, by their prefixes, that the log has a line about, and which.
    told: Mutex<HashSet<(News, String)>>,
}

/// What the log is told of a directory, of each at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum News {
    /// Keys in it cannot be shown.
    Hidden,
    /// It could not be removed, because of what nobody could see in it before.
    Unseen,
}

/// The hidden keys of one answer.
#[derive(Debug, PartialEq, Eq)]
struct Summary<'a> {
    count: u64,
    example: &'a str,
    why: Hidden,
}

impl HiddenKeys {
    /// Looks through what was `listed` of the directory `prefix`.
    pub(super) fn note(&self, prefix: &str, listed: &ListOutput) {
        let Some(Summary {
            count,
            example,
            why,
        }) = summary(prefix, listed)
        else {
            return;
        };
        self.count.fetch_add(count, Ordering::Relaxed);
        if self.is_news(News::Hidden, prefix) {
            tracing::warn!(
                "{count} keys or more under {prefix:?} cannot be shown, such as {example:?}, which has {why}; the others \
                 of the directory are there. Copy such an object to another key to see it"
            );
        }
    }

    /// How often a listing met one.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the log is to have this line about the directory `prefix`; it has one from now on.
    pub(super) fn is_news(&self, what: News, prefix: &str) -> bool {
        let mut told = self.told.lock();
        told.len() < HIDDEN_DIRECTORIES_MAX && told.insert((what, prefix.to_owned()))
    }
}

fn summary<'a>(prefix: &str, listed: &'a ListOutput) -> Option<Summary<'a>> {
    let objects = listed.objects.iter().map(|object| object.key.as_str());
    let keys = objects.chain(listed.common_prefixes.iter().map(String::as_str));
    let mut hidden = keys.filter_map(|key| Some((key, names::hidden(prefix, key)?)));
    let (example, why) = hidden.next()?;
    Some(Summary {
        count: 1 + hidden.count() as u64,
        example: example.strip_suffix(Key::NO_ETAG).unwrap_or(example),
        why,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(common_prefixes: &[&str]) -> ListOutput {
        ListOutput {
            common_prefixes: common_prefixes
                .iter()
                .map(|key| (*key).to_owned())
                .collect(),
            ..ListOutput::default()
        }
    }

    #[test]
    fn hidden_keys_of_an_answer() {
        assert_eq!(summary("d/", &listed(&["d/a/", "d/b/"])), None);
        let expected = Summary {
            count: 2,
            example: "d//",
            why: Hidden::Empty,
        };
        let some = listed(&["d/", "d/a/", "d//", "d/../"]);
        assert_eq!(summary("d/", &some), Some(expected));
    }

    #[test]
    fn each_directory_is_told_of_once() {
        let hidden = HiddenKeys::default();
        hidden.note("d/", &listed(&["d//"]));
        hidden.note("d/", &listed(&["d//", "d/./"]));
        assert_eq!(hidden.count(), 3);
        assert!(!hidden.is_news(News::Hidden, "d/"));
        assert!(hidden.is_news(News::Hidden, "e/"));
        // That is another line.
        assert!(hidden.is_news(News::Unseen, "d/"));
        assert!(!hidden.is_news(News::Unseen, "d/"));
        for number in 0..2 * HIDDEN_DIRECTORIES_MAX {
            hidden.is_news(News::Hidden, &number.to_string());
        }
        assert_eq!(hidden.told.lock().len(), HIDDEN_DIRECTORIES_MAX);
    }
}
