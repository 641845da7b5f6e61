//! Pages of a directory, merged from the answers of S3.
//!
//! Pure. A directory shadows the file of the same name, so that a page has each name once. S3 sorts
//! a directory `a` as `a/`: between the file `a` and the directory `a` there may be other keys
//! (`a!`, `a-b`, `a.txt`), even pages of them. A file that a directory may still shadow is
//! therefore held back until the listing has passed its name. Few files are held back at a time:
//! each of their names begins the last key of the page.
//!
//! A directory bucket lists in no order. Its files are not held back, so a file and a directory of
//! one name on different pages may both be shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mountpoint_client::types::ListOutput;

use crate::namespace::names;
use crate::namespace::version::{Found, Version};

/// One name of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The file name.
    pub name: Arc<str>,
    /// The file's version, or a directory.
    pub found: Found,
    /// Whether a lookup now would give the same. False for an archived object: a listing does not
    /// tell whether it has been restored.
    pub is_certain: bool,
}

impl Listed {
    /// A file that S3 has listed.
    pub(crate) fn file(name: Arc<str>, version: Version) -> Self {
        Self {
            name,
            is_certain: !version.is_archived,
            found: Found::File(version),
        }
    }

    /// A directory that S3 has listed.
    pub(crate) fn directory(name: Arc<str>) -> Self {
        Self {
            name,
            found: Found::Directory,
            is_certain: true,
        }
    }

    /// A directory to show even if S3 lists no key in it.
    pub(crate) fn kept(name: Arc<str>) -> Self {
        Self {
            is_certain: false,
            ..Self::directory(name)
        }
    }

    /// Whether S3 has not listed this directory; a listed one is certain.
    pub(crate) fn is_kept(&self) -> bool {
        self.found == Found::Directory && !self.is_certain
    }
}

/// One page of a directory: visible names in byte order, each once.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The names, sorted.
    pub entries: Vec<Listed>,
    /// Time of the request, on the mount's clock.
    pub asked: Duration,
    /// Whether the page comes from the disk: an earlier mount may have listed it.
    pub(crate) is_saved: bool,
    /// The page's place in a listing; `None` for a page of some names only.
    place: Option<Place>,
    /// The keys of which the page has all names; `None` if it has all of the directory or just
    /// some.
    span: Option<Span>,
}

/// The keys of a directory behind `low`, up to `high`; relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// `None` for the beginning of the directory.
    pub(crate) low: Option<Arc<str>>,
    /// `None` for the end of the directory.
    pub(crate) high: Option<Arc<str>>,
}

impl Span {
    /// Whether both keys that may be called `name` are in the span: the file's and the directory's.
    fn covers(&self, name: &str) -> bool {
        let reaches = |high: &Arc<str>| high.bytes().ge(name.bytes().chain(*b"/"));
        self.low.as_ref().is_none_or(|low| **low < *name) && self.high.as_ref().is_none_or(reaches)
    }
}

/// Place of a page in a listing. All pages of one listing together have all names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) listing: ListingNo,
    pub(crate) number: usize,
    pub(crate) is_last: bool,
}

/// Number of a listing, unique in the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListingNo(u64);

impl ListingNo {
    /// A number that no earlier listing has.
    pub(crate) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Page {
    /// A page of some names of a directory, requested at `asked`.
    #[must_use]
    pub fn some(entries: Vec<Listed>, asked: Duration) -> Self {
        Self {
            entries,
            asked,
            ..Self::default()
        }
    }

    /// A page of all names of a directory whose keys are in `span`.
    pub(crate) fn between(entries: Vec<Listed>, asked: Duration, span: Span) -> Self {
        Self {
            span: Some(span),
            ..Self::some(entries, asked)
        }
    }

    /// A page of all names of a directory.
    pub(crate) fn whole(entries: Vec<Listed>, asked: Duration) -> Self {
        let place = Place {
            listing: ListingNo::next(),
            number: 0,
            is_last: true,
        };
        Self::part(entries, asked, place)
    }

    /// A page of all names of a directory, from the disk.
    pub(crate) fn saved(entries: Vec<Listed>, asked: Duration) -> Self {
        Self {
            is_saved: true,
            ..Self::whole(entries, asked)
        }
    }

    /// A page at `place` of a listing.
    pub(crate) fn part(entries: Vec<Listed>, asked: Duration, place: Place) -> Self {
        Self {
            place: Some(place),
            ..Self::some(entries, asked)
        }
    }

    /// The page's place in a listing.
    pub(crate) fn place(&self) -> Option<Place> {
        self.place
    }

    /// Whether the page has all names of the directory.
    pub(crate) fn is_whole(&self) -> bool {
        self.place
            .is_some_and(|place| place.is_last && place.number == 0)
    }

    /// Whether the page proves that nothing is called `name`.
    pub(crate) fn is_without(&self, name: &str) -> bool {
        let covers = |span: &Span| span.covers(name);
        (self.is_whole() || self.span.as_ref().is_some_and(covers)) && self.find(name).is_none()
    }

    /// Whether the page proves the absence of some names that are not on it.
    pub(super) fn tells_absence(&self) -> bool {
        self.is_whole() || self.span.is_some()
    }

    /// The entry called `name`.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&Listed> {
        let found = self
            .entries
            .binary_search_by(|entry| entry.name.as_ref().cmp(name));
        found.ok().map(|index| &self.entries[index])
    }
}

/// One answer of S3 about a directory. Keys are relative to the directory.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Visible entries in the order of keys: a directory's key ends with a slash.
    pub(crate) entries: Vec<Listed>,
    /// The first and the last key, hidden keys included; `None` without keys.
    pub(crate) span: Option<(Arc<str>, Arc<str>)>,
    /// Number of keys, hidden keys included.
    pub(crate) keys: usize,
    /// Token for the next answer; `None` at the end of the listing.
    pub(crate) token: Option<String>,
}

impl Batch {
    /// Converts an answer about all keys that begin with `prefix`: each becomes an entry.
    pub(super) fn of_keys(prefix: &str, listed: ListOutput) -> Self {
        let entries = listed.objects.iter().filter_map(|object| {
            let name = object.key.as_str().strip_prefix(prefix)?;
            Some(Listed::file(Arc::from(name), Version::from(object)))
        });
        let entries: Vec<Listed> = entries.collect();
        let names = || entries.iter().map(|entry| &entry.name);
        let span = names().min().zip(names().max());
        Self {
            span: span.map(|(first, last)| (Arc::clone(first), Arc::clone(last))),
            keys: listed.objects.len(),
            token: listed.continuation_token,
            entries,
        }
    }

    /// Converts an answer about the directory `prefix`.
    pub(crate) fn of(prefix: &str, listed: ListOutput) -> Self {
        let directories = listed
            .common_prefixes
            .iter()
            .filter_map(|key| names::directory_name(prefix, key))
            .map(|name| Listed::directory(Arc::from(name)));
        let files = listed.objects.iter().filter_map(|object| {
            let name = names::file_name(prefix, object.key.as_str())?;
            Some(Listed::file(Arc::from(name), Version::from(object)))
        });
        let mut entries: Vec<Listed> = directories.chain(files).collect();
        entries.sort_by(|a, b| a.key_bytes().cmp(b.key_bytes()));
        let keys = || {
            let objects = listed.objects.iter().map(|object| object.key.as_str());
            let common = listed.common_prefixes.iter().map(String::as_str);
            objects
                .chain(common)
                .filter_map(|key| key.strip_prefix(prefix))
        };
        Self {
            span: keys()
                .min()
                .zip(keys().max())
                .map(|(first, last)| (Arc::from(first), Arc::from(last))),
            keys: listed.objects.len() + listed.common_prefixes.len(),
            entries,
            token: listed.continuation_token,
        }
    }
}

impl Listed {
    fn key_bytes(&self) -> impl Iterator<Item = u8> {
        let slash: &[u8] = match self.found {
            Found::Directory => b"/",
            Found::File(_) => b"",
        };
        self.name.bytes().chain(slash.iter().copied())
    }

    /// Whether the entry's key is greater than `bound`.
    pub(crate) fn is_behind(&self, bound: &str) -> bool {
        self.key_bytes().gt(bound.bytes())
    }
}

/// How far a listing has come: it has shown all keys up to there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reached<'a> {
    /// This key, relative to the directory.
    Key(&'a str),
    /// The end, or any place of a listing without order.
    End,
}

/// The entries that a page can show, in order of name, and the files held back.
#[derive(Debug)]
pub(crate) struct Merged {
    pub(crate) shown: Vec<Listed>,
    pub(super) held_back: Vec<Listed>,
}

/// Merges the `entries` of one page with the files that earlier pages `held_back`. The listing has
/// `reached` the end of the page.
pub(crate) fn merge(
    mut entries: Vec<Listed>,
    held_back: &[Listed],
    reached: Reached<'_>,
) -> Merged {
    entries.extend_from_slice(held_back);
    // The sort puts a directory in front of a file of the same name, so the directory stays.
    let is_file = |entry: &Listed| entry.found != Found::Directory;
    entries.sort_by(|a, b| a.name.cmp(&b.name).then(is_file(a).cmp(&is_file(b))));
    entries.dedup_by(|later, kept| later.name == kept.name);

    let may_be_shadowed = |name: &str| match reached {
        Reached::Key(key) => name.bytes().chain(*b"/").gt(key.bytes()),
        Reached::End => false,
    };
    // A directory that S3 has not listed waits for the end: a later page may list it.
    let is_end = matches!(reached, Reached::End);
    let (held_back, shown) = entries.into_iter().partition(|entry| {
        !is_end && entry.is_kept() || is_file(entry) && may_be_shadowed(&entry.name)
    });
    Merged { shown, held_back }
}

#[cfg(test)]
mod tests;
