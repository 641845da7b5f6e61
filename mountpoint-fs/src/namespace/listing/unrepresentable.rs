//! Keys that no file name can represent: counted, and logged once for each directory.
//!
//! [`names`] decides which keys these are. They never hide other keys of their directory.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};

use mountpoint_client::types::{Key, ListOutput};

use crate::namespace::names::{self, Hidden};
use crate::operation::FsError;
use crate::sync::Mutex;

/// The unrepresentable keys of a mount. Each lock guards its set alone.
#[derive(Debug, Default)]
pub(crate) struct HiddenKeys {
    count: AtomicU64,
    /// Directories, by prefix, with the messages that the log has about them.
    told: Mutex<HashSet<(News, String)>>,
    /// Keys of objects that were listed without an ETag. They exist, so no file may replace them.
    without_etag: Mutex<HashSet<String>>,
}

/// A message about a directory, logged at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum News {
    /// The directory has keys that cannot be shown.
    Hidden,
    /// The directory could not be removed, because it has keys that cannot be shown.
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
    /// Counts and logs the hidden keys in the answer `listed` about the directory `prefix`.
    pub(crate) fn note(&self, prefix: &str, listed: &ListOutput) {
        let Some(Summary {
            count,
            example,
            why,
        }) = summary(prefix, listed)
        else {
            return;
        };
        let keys = without_etag(listed);
        keys.iter().for_each(|key| self.found(key, true));
        self.count.fetch_add(count, Ordering::Relaxed);
        if self.is_news(News::Hidden, prefix) {
            tracing::warn!(
                "{count} keys or more under {prefix:?} cannot be shown, such as {example:?}, which has {why}; the others \
                 of the directory are there. Copy such an object to another key to see it"
            );
        }
    }

    /// Updates the set: a lookup of `key` has seen only the objects `without_etag` without an ETag.
    pub(crate) fn looked_up(&self, key: &Key, without_etag: &[String]) {
        self.found(key.as_str(), false);
        without_etag.iter().for_each(|key| self.found(key, true));
    }

    /// Records whether the object `key` has no ETag.
    fn found(&self, key: &str, has_none: bool) {
        let mut known = self.without_etag.lock();
        if !has_none {
            known.remove(key);
        } else if known.len() < WITHOUT_ETAG_MAX {
            known.insert(key.to_owned());
        }
    }

    /// Returns an error if `key` is an object that exists and cannot be shown.
    pub(crate) fn check(&self, key: &Key) -> Result<(), FsError> {
        if self.without_etag.lock().contains(key.as_str()) {
            return Err(FsError::NotPermitted(format!(
                "{key} is there, and is not shown because the server lists it without an ETag: nothing is put in its place"
            )));
        }
        Ok(())
    }

    /// Number of hidden keys in all answers.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Whether the log lacks this message about the directory `prefix`; counts it as logged.
    pub(crate) fn is_news(&self, what: News, prefix: &str) -> bool {
        let mut told = self.told.lock();
        told.len() < HIDDEN_DIRECTORIES_MAX && told.insert((what, prefix.to_owned()))
    }
}

/// Keys of the objects that were listed without an ETag.
pub(crate) fn without_etag(listed: &ListOutput) -> Vec<String> {
    let shown = listed.objects.iter().map(|object| object.key.as_str());
    let keys = shown.filter_map(|shown| shown.strip_suffix(Key::NO_ETAG));
    keys.map(str::to_owned).collect()
}

/// Keys without an ETag to remember, at most about 4 MiB. An upload to any other is refused later,
/// by its condition or by the request before it.
const WITHOUT_ETAG_MAX: usize = 4_096;

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

/// Directories with a log line about keys that cannot be shown.
const HIDDEN_DIRECTORIES_MAX: usize = 1_024;

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
    fn what_has_no_etag_is_remembered_until_it_is_looked_up() {
        let hidden = HiddenKeys::default();
        let key = |number: usize| Key::parse(&format!("d/f{number}")).unwrap();
        for number in 0..2 * WITHOUT_ETAG_MAX {
            hidden.found(key(number).as_str(), true);
        }
        assert_eq!(hidden.without_etag.lock().len(), WITHOUT_ETAG_MAX);
        assert!(hidden.check(&key(1)).is_err());
        hidden.found("d/f1", false);
        assert!(hidden.check(&key(1)).is_ok());
        assert!(hidden.check(&key(2)).is_err());
    }

    #[test]
    fn each_directory_is_told_of_once() {
        let hidden = HiddenKeys::default();
        hidden.note("d/", &listed(&["d//"]));
        hidden.note("d/", &listed(&["d//", "d/./"]));
        assert_eq!(hidden.count(), 3);
        assert!(!hidden.is_news(News::Hidden, "d/"));
        assert!(hidden.is_news(News::Hidden, "e/"));
        // Another message about the same directory.
        assert!(hidden.is_news(News::Unseen, "d/"));
        assert!(!hidden.is_news(News::Unseen, "d/"));
        for number in 0..2 * HIDDEN_DIRECTORIES_MAX {
            hidden.is_news(News::Hidden, &number.to_string());
        }
        assert_eq!(hidden.told.lock().len(), HIDDEN_DIRECTORIES_MAX);
    }
}
