//! One page of a directory, merged from what S3 listed.
//!
//! Pure. A directory shadows the file of its name, and a listing shows each name once. S3 orders a
//! directory `a` as `a/`, so between the file `a` and the directory `a` there may be others (`a!`,
//! `a-b`, `a.txt`), and pages of them. A file that may yet be shadowed is therefore held back until
//! the listing has gone past its name. There are few of those at any time: the last key of the page
//! begins with each of their names.
//!
//! A directory bucket lists in no order. There nothing is held back, and of a file and a directory
//! with one name on different pages both may be shown.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mountpoint_client::types::ListOutput;

use crate::namespace::names;
use crate::namespace::version::{Found, Version};

/// One name of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// The name.
    pub name: Arc<str>,
    /// What it is.
    pub found: Found,
    /// Whether a lookup now would find the same. Not for an archived object: listings do not say
    /// whether it has been restored.
    pub is_certain: bool,
}

impl Listed {
    /// A directory that is there whether S3 lists it or not.
    pub(in crate::namespace) fn kept(name: Arc<str>) -> Self {
        Self {
            name,
            found: Found::Directory,
            is_certain: false,
        }
    }

    /// Whether it is such a directory: one that S3 lists is certain.
    fn is_kept(&self) -> bool {
        self.found == Found::Directory && !self.is_certain
    }
}

/// One page of a directory: visible names in byte order, each once.
#[derive(Clone, Debug, Default)]
pub struct Page {
    /// The names.
    pub entries: Vec<Listed>,
    /// When it was asked for, on the mount's clock.
    pub asked: Duration,
    /// Which part of the directory it is; `None` where only some names of it were seen.
    place: Option<Place>,
    /// Between which keys it has all names of the directory, if that is known of a page that has
    /// not all of them.
    span: Option<Span>,
}

/// All keys of a directory behind `low`, up to `high`; relative to the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::namespace) struct Span {
    /// `None` for the beginning of the directory.
    pub(in crate::namespace) low: Option<Arc<str>>,
    /// `None` for its end.
    pub(in crate::namespace) high: Option<Arc<str>>,
}

impl Span {
    /// Whether the keys are among them that a file and a directory called `name` have.
    fn covers(&self, name: &str) -> bool {
        let reaches = |high: &Arc<str>| high.bytes().ge(name.bytes().chain(*b"/"));
        self.low.as_ref().is_none_or(|low| **low < *name) && self.high.as_ref().is_none_or(reaches)
    }
}

/// Which part of a directory a page is: all pages of a listing together have all names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::namespace) struct Place {
    pub(in crate::namespace) listing: ListingNo,
    pub(in crate::namespace) number: usize,
    pub(in crate::namespace) is_last: bool,
}

/// Tells listings apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::namespace) struct ListingNo(u64);

impl ListingNo {
    /// That of another listing than all before.
    pub(in crate::namespace) fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl Page {
    /// Some names of a directory, seen in an answer that was asked for at `asked`.
    #[must_use]
    pub fn some(entries: Vec<Listed>, asked: Duration) -> Self {
        Self {
            entries,
            asked,
            place: None,
            span: None,
        }
    }

    /// All names of a directory whose keys are in `span`.
    pub(in crate::namespace) fn between(entries: Vec<Listed>, asked: Duration, span: Span) -> Self {
        Self {
            span: Some(span),
            ..Self::some(entries, asked)
        }
    }

    /// All names of a directory.
    pub(in crate::namespace) fn whole(entries: Vec<Listed>, asked: Duration) -> Self {
        let place = Place {
            listing: ListingNo::next(),
            number: 0,
            is_last: true,
        };
        Self::part(entries, asked, place)
    }

    /// One page of a listing of the directory.
    pub(in crate::namespace) fn part(entries: Vec<Listed>, asked: Duration, place: Place) -> Self {
        Self {
            entries,
            asked,
            place: Some(place),
            span: None,
        }
    }

    /// Which part of the directory it is.
    pub(in crate::namespace) fn place(&self) -> Option<Place> {
        self.place
    }

    /// Whether it has all names of the directory.
    pub(in crate::namespace) fn is_whole(&self) -> bool {
        self.place
            .is_some_and(|place| place.is_last && place.number == 0)
    }

    /// Whether it says by itself that nothing is called `name`.
    pub(in crate::namespace) fn is_without(&self, name: &str) -> bool {
        let covers = |span: &Span| span.covers(name);
        (self.is_whole() || self.span.as_ref().is_some_and(covers)) && self.find(name).is_none()
    }

    /// Whether it says of names that are not on it that they are absent.
    pub(in crate::namespace) fn tells_absence(&self) -> bool {
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

/// What S3 listed of a directory in one answer. Keys are relative to the directory.
#[derive(Debug)]
pub(in crate::namespace) struct Batch {
    /// What is visible, in order of key: a directory's key ends with a slash.
    pub(in crate::namespace) entries: Vec<Listed>,
    /// The first and the last key, hidden ones too; `None` if there was none.
    pub(in crate::namespace) span: Option<(Arc<str>, Arc<str>)>,
    /// Keys, hidden ones too.
    pub(in crate::namespace) keys: usize,
    /// Where the listing goes on; `None` at its end.
    pub(in crate::namespace) token: Option<String>,
}

impl Batch {
    /// An answer about the directory `prefix`.
    pub(in crate::namespace) fn of(prefix: &str, listed: ListOutput) -> Self {
        let directories = listed
            .common_prefixes
            .iter()
            .filter_map(|key| names::directory_name(prefix, key))
            .map(|name| Listed {
                name: Arc::from(name),
                found: Found::Directory,
                is_certain: true,
            });
        let files = listed.objects.iter().filter_map(|object| {
            let name = names::file_name(prefix, object.key.as_str())?;
            let version = Version::from(object);
            let is_certain = !version.is_archived;
            Some(Listed {
                name: Arc::from(name),
                found: Found::File(version),
                is_certain,
            })
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

    /// Whether its key is behind `bound` in the order of keys.
    pub(in crate::namespace) fn is_behind(&self, bound: &str) -> bool {
        self.key_bytes().gt(bound.bytes())
    }
}

/// How far a listing has come: everything in front has been seen.
#[derive(Clone, Copy, Debug)]
pub(in crate::namespace) enum Reached<'a> {
    /// This key, relative to the directory.
    Key(&'a str),
    /// The end, or any place of a listing without order.
    End,
}

/// What can be shown of a page, in order of name, and the files that are held back.
#[derive(Debug)]
pub(in crate::namespace) struct Merged {
    pub(in crate::namespace) shown: Vec<Listed>,
    pub(in crate::namespace) held_back: Vec<Listed>,
}

/// Merges `entries`, up to which all were `reached`, with the files that the pages before
/// `held_back`.
pub(in crate::namespace) fn merge(
    mut entries: Vec<Listed>,
    held_back: &[Listed],
    reached: Reached<'_>,
) -> Merged {
    entries.extend_from_slice(held_back);
    // Of two equal names the directory is in front, and stays.
    let is_file = |entry: &Listed| entry.found != Found::Directory;
    entries.sort_by(|a, b| a.name.cmp(&b.name).then(is_file(a).cmp(&is_file(b))));
    entries.dedup_by(|later, kept| later.name == kept.name);

    let may_be_shadowed = |name: &str| match reached {
        Reached::Key(key) => name.bytes().chain(*b"/").gt(key.bytes()),
        Reached::End => false,
    };
    // A kept directory waits for the end: a later page may list it.
    let is_end = matches!(reached, Reached::End);
    let (held_back, shown) = entries.into_iter().partition(|entry| {
        !is_end && entry.is_kept() || is_file(entry) && may_be_shadowed(&entry.name)
    });
    Merged { shown, held_back }
}

#[cfg(test)]
mod tests;
