//! Cache of listed pages that can answer later lookups.
//!
//! `find` and `du` read a directory to its end and look its entries up afterwards. A page may also
//! come from the LIST of a lookup; it answers the lookups that follow. A delivered page is valid
//! for a while, whether the kernel has cached its entries or not. A valid page proves that a name
//! is present. Its caller decides whether a page is young enough to prove an absence. `open` never
//! relies on a page.
//!
//! Knows nothing of inodes. Bounded by [`RECENT_PAGES_MAX`] and [`RECENT_NAMES_MAX`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::namespace::listing::page::{Listed, Page, Place};
use crate::namespace::listing::siblings::Siblings;
use crate::namespace::moment::Moment;
use crate::namespace::version::Found;
use crate::sync::Mutex;

/// The cached pages. The lock guards only them; no other lock is taken under it.
#[derive(Debug, Default)]
pub(crate) struct ListingCache(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    /// By number: the oldest page is the first.
    pages: BTreeMap<u64, Recent>,
    last: u64,
    /// Numbers of each directory's pages, by its prefix; the youngest page is the last.
    directories: HashMap<Arc<str>, Vec<u64>>,
    /// Number of names on all pages.
    names: usize,
}

#[derive(Debug)]
struct Recent {
    directory: Arc<str>,
    page: Arc<Page>,
    valid_until: Moment,
}

/// A cached entry and its age.
#[derive(Debug)]
pub(crate) struct RecentEntry {
    pub(crate) listed: Listed,
    pub(crate) asked: Duration,
    pub(crate) valid_until: Moment,
}

impl ListingCache {
    /// Caches a `page` that was just delivered, of the directory whose prefix is `directory`.
    pub(crate) fn delivered(
        &self,
        directory: &str,
        page: &Arc<Page>,
        now: Moment,
        valid_until: Moment,
    ) {
        if page.entries.is_empty() && !page.tells_absence() {
            return;
        }
        let mut pages = self.0.lock();
        if let Some(known) = pages.known(directory, page) {
            known.valid_until = valid_until;
            return;
        }
        pages.make_room(page.entries.len(), now);
        pages.insert(Recent {
            directory: Arc::from(directory),
            page: Arc::clone(page),
            valid_until,
        });
    }

    /// The youngest valid entry of `name`, if it is certain.
    pub(crate) fn find(&self, directory: &str, name: &str, now: Moment) -> Option<RecentEntry> {
        let pages = self.0.lock();
        let numbers = pages.directories.get(directory)?;
        let valid = numbers
            .iter()
            .filter_map(|number| pages.pages.get(number))
            .filter(|recent| recent.valid_until > now);
        // The page that was delivered last need not be the one that was requested last.
        let (recent, listed) = valid
            .filter_map(|recent| Some((recent, recent.page.find(name)?)))
            .max_by_key(|(recent, _)| recent.page.asked)?;
        listed.is_certain.then(|| RecentEntry {
            listed: listed.clone(),
            asked: recent.page.asked,
            valid_until: recent.valid_until,
        })
    }

    /// Whether a valid page has all names of the directory.
    pub(crate) fn has_all(&self, directory: &str, now: Moment) -> bool {
        let pages = self.0.lock();
        let mut pages = pages.of(directory);
        pages.any(|recent| recent.page.is_whole() && recent.valid_until > now)
    }

    /// When the youngest page was asked for that this mount has listed of the directory.
    pub(crate) fn newest_own(&self, directory: &str) -> Option<Duration> {
        let pages = self.0.lock();
        let own = pages.of(directory).filter(|recent| !recent.page.is_saved);
        own.map(|recent| recent.page.asked).max()
    }

    /// At most `count` files behind `name`, in order of name, as far as valid pages show them.
    pub(crate) fn behind(
        &self,
        directory: &str,
        name: &str,
        now: Moment,
        count: usize,
    ) -> Vec<RecentEntry> {
        let pages = self.0.lock();
        let numbers = pages.directories.get(directory).into_iter().flatten().rev();
        let valid: Vec<&Recent> = numbers
            .filter_map(|number| pages.pages.get(number))
            .filter(|recent| recent.valid_until > now)
            .collect();
        let mut found: Vec<RecentEntry> = Vec::new();
        let mut last = name;
        while found.len() < count {
            let next = valid.iter().filter_map(|recent| {
                let entries = &recent.page.entries;
                let from = entries.partition_point(|entry| *entry.name <= *last);
                entries.get(from).map(|entry| (&entry.name, *recent, from))
            });
            // `min_by_key` takes the first of equal names: that of the youngest page.
            let Some((_, recent, from)) = next.min_by_key(|(name, ..)| *name) else {
                break;
            };
            let entries = &recent.page.entries[from..];
            let is_file = |listed: &&Listed| matches!(listed.found, Found::File(_));
            let files = entries.iter().filter(is_file).take(count - found.len());
            found.extend(files.map(|listed| RecentEntry {
                listed: listed.clone(),
                asked: recent.page.asked,
                valid_until: recent.valid_until,
            }));
            last = entries.last().map_or(last, |entry| &entry.name);
        }
        found
    }

    /// Time of a request that proves the absence of `name`: of a single page, or of all pages of
    /// the youngest listing. `None` if any page has the name.
    pub(crate) fn absent(&self, directory: &str, name: &str) -> Option<Duration> {
        let pages = self.0.lock();
        if pages.have(directory, name) {
            return None;
        }
        let alone = pages
            .of(directory)
            .filter(|recent| recent.page.is_without(name))
            .map(|recent| recent.page.asked);
        alone.max().max(pages.listed_whole(directory))
    }

    /// Kinds of the names beside `name`, from a page of the whole directory if there is one. The
    /// page need not be valid.
    pub(crate) fn siblings(&self, directory: &str, name: &str) -> Option<Siblings> {
        let pages = self.0.lock();
        let numbers = pages.directories.get(directory)?;
        let mut known = numbers
            .iter()
            .rev()
            .filter_map(|number| pages.pages.get(number));
        let is_whole = |recent: &&Recent| recent.page.is_whole();
        let chosen = known.clone().find(is_whole).or_else(|| known.next())?;
        Some(Siblings::of(&chosen.page, name))
    }

    /// Drops the pages that have `name`, because a lookup has found something else.
    pub(crate) fn distrust(&self, directory: &str, name: &str) {
        let mut pages = self.0.lock();
        let numbers = pages.directories.get(directory).cloned();
        for number in numbers.unwrap_or_default() {
            if pages
                .pages
                .get(&number)
                .is_some_and(|recent| recent.page.find(name).is_some())
            {
                pages.remove(number);
            }
        }
    }

    /// Drops the pages of the directory `prefix` and of those below it.
    pub(crate) fn forget_below(&self, prefix: &str) {
        let mut pages = self.0.lock();
        let below = pages.pages.iter();
        let below: Vec<u64> = below
            .filter(|(_, recent)| recent.directory.starts_with(prefix))
            .map(|(number, _)| *number)
            .collect();
        for number in below {
            pages.remove(number);
        }
    }

    /// Drops pages that are no longer valid.
    pub(crate) fn expire(&self, now: Moment) {
        let mut pages = self.0.lock();
        let expired: Vec<u64> = pages
            .pages
            .iter()
            .filter(|(_, recent)| recent.valid_until <= now)
            .map(|(number, _)| *number)
            .collect();
        for number in expired {
            pages.remove(number);
        }
    }
}

impl Pages {
    /// The pages of a directory, the oldest first.
    fn of(&self, directory: &str) -> impl Iterator<Item = &Recent> {
        let numbers = self.directories.get(directory).into_iter().flatten();
        numbers.filter_map(|number| self.pages.get(number))
    }

    /// Whether a page of the directory has `name`.
    fn have(&self, directory: &str, name: &str) -> bool {
        self.of(directory)
            .any(|recent| recent.page.find(name).is_some())
    }

    /// Time of the first request of the youngest complete listing, if all its pages are cached.
    fn listed_whole(&self, directory: &str) -> Option<Duration> {
        let listed = || {
            self.of(directory)
                .filter_map(|recent| Some((recent.page.place()?, recent.page.asked)))
        };
        let (end, _) = listed()
            .filter(|(place, _)| place.is_last)
            .max_by_key(|(place, _)| place.listing)?;
        let is_of_it = |place: &Place| place.listing == end.listing;
        let parts = listed().filter(|(place, _)| is_of_it(place));
        let (mut count, mut asked) = (0, Duration::MAX);
        for (_, part_asked) in parts {
            count += 1;
            asked = asked.min(part_asked);
        }
        (count == end.number + 1).then_some(asked)
    }

    fn known(&mut self, directory: &str, page: &Arc<Page>) -> Option<&mut Recent> {
        let numbers = self.directories.get(directory)?;
        let number = *numbers.iter().rev().find(|number| {
            self.pages
                .get(number)
                .is_some_and(|recent| Arc::ptr_eq(&recent.page, page))
        })?;
        self.pages.get_mut(&number)
    }

    /// Makes room for a page of `names` names: drops expired pages and then the oldest.
    fn make_room(&mut self, names: usize, now: Moment) {
        while let Some((number, oldest)) = self.pages.first_key_value() {
            let is_full = self.pages.len() >= RECENT_PAGES_MAX
                || self.names.saturating_add(names) > RECENT_NAMES_MAX;
            if !is_full && oldest.valid_until > now {
                return;
            }
            let number = *number;
            self.remove(number);
        }
    }

    fn insert(&mut self, recent: Recent) {
        self.last += 1;
        let number = self.last;
        self.names += recent.page.entries.len();
        let numbers = self.directories.entry(Arc::clone(&recent.directory));
        numbers.or_default().push(number);
        self.pages.insert(number, recent);
    }

    fn remove(&mut self, number: u64) {
        let Some(recent) = self.pages.remove(&number) else {
            return;
        };
        self.names -= recent.page.entries.len();
        if let Some(numbers) = self.directories.get_mut(&recent.directory) {
            numbers.retain(|other| *other != number);
            if numbers.is_empty() {
                self.directories.remove(&recent.directory);
            }
        }
    }
}

#[cfg(test)]
mod tests;

/// Names on listing pages that answer lookups while they are valid.
///
/// `du` and `find` read a whole directory before they look at its first entry; 32 full pages are
/// the names that S3 lists in one validity at 30 ms a page, and about 6 MB.
pub(super) const RECENT_NAMES_MAX: usize = 32_000;

/// Listing pages that answer lookups. The entries below a name take a page for each directory.
const RECENT_PAGES_MAX: usize = 4_096;
