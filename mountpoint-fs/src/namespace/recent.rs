//! Pages of listings that still answer lookups.
//!
//! `find` and `du` read a directory to its end and look at the entries afterwards; what a lookup found below its name
//! answers the lookups that come next. What was just told of a name is valid for a while, whether the kernel kept it or
//! not. Only presence is answered: a name that is on no page may have been created since. `open` never trusts a page.
//!
//! Knows nothing of inodes; bounded by [`RECENT_PAGES_MAX`] and [`RECENT_NAMES_MAX`].

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use super::guess::Siblings;
use super::inode::Moment;
use super::page::{Listed, Page, Place};
use super::version::Found;
use crate::config::limits::{RECENT_NAMES_MAX, RECENT_PAGES_MAX};
use crate::sync::Mutex;

/// The pages. The lock guards them alone and no other is taken under it.
#[derive(Debug, Default)]
pub(super) struct RecentPages(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    /// By age: the first is the oldest.
    pages: BTreeMap<u64, Recent>,
    last: u64,
    /// The pages of each directory, by its prefix; the last is the youngest.
    directories: HashMap<Arc<str>, Vec<u64>>,
    /// Names on all pages.
    names: usize,
}

#[derive(Debug)]
struct Recent {
    directory: Arc<str>,
    page: Arc<Page>,
    valid_until: Moment,
    /// Names on the page that this mount has changed since: what it says of them is not true any more.
    changed: HashSet<Arc<str>>,
}

impl Recent {
    /// What the page says of `name`, unless that was changed since.
    fn find(&self, name: &str) -> Option<&Listed> {
        let listed = self.page.find(name)?;
        (!self.changed.contains(name)).then_some(listed)
    }
}

/// A name on a page.
#[derive(Debug)]
pub(super) struct RecentEntry {
    pub(super) listed: Listed,
    pub(super) asked: Moment,
    pub(super) valid_until: Moment,
}

impl RecentPages {
    /// Entries of `page` of the directory whose prefix is `directory` were just handed out and are valid for a while.
    pub(super) fn delivered(
        &self,
        directory: &str,
        page: &Arc<Page>,
        now: Moment,
        valid_until: Moment,
    ) {
        if page.entries.is_empty() && !page.is_whole() {
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
            changed: HashSet::new(),
        });
    }

    /// What `name` was last said to be, if that is still valid and certain.
    pub(super) fn find(&self, directory: &str, name: &str, now: Moment) -> Option<RecentEntry> {
        let pages = self.0.lock();
        let numbers = pages.directories.get(directory)?;
        let valid = numbers
            .iter()
            .filter_map(|number| pages.pages.get(number))
            .filter(|recent| recent.valid_until > now);
        // The page that was asked for last need not have been handed out last.
        let (recent, listed) = valid
            .filter_map(|recent| Some((recent, recent.find(name)?)))
            .max_by_key(|(recent, _)| recent.page.asked)?;
        listed.is_certain.then(|| RecentEntry {
            listed: listed.clone(),
            asked: recent.page.asked.into(),
            valid_until: recent.valid_until,
        })
    }

    /// The files behind `name`, in order of name, as far as valid pages show them: at most `count`.
    pub(super) fn behind(
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
            // Of equal names that of the youngest page.
            let Some((_, recent, from)) = next.min_by_key(|(name, ..)| *name) else {
                break;
            };
            let entries = &recent.page.entries[from..];
            let is_file = |listed: &&Listed| matches!(listed.found, Found::File(_));
            let files = entries.iter().filter(is_file).take(count - found.len());
            found.extend(files.map(|listed| RecentEntry {
                listed: listed.clone(),
                asked: recent.page.asked.into(),
                valid_until: recent.valid_until,
            }));
            last = entries.last().map_or(last, |entry| &entry.name);
        }
        found
    }

    /// When it was asked for that `name` is not there, if a listing of the whole directory says so that is not older than
    /// `age_max`.
    pub(super) fn absent(
        &self,
        directory: &str,
        name: &str,
        now: Moment,
        age_max: Duration,
    ) -> Option<Duration> {
        let pages = self.0.lock();
        let numbers = pages.directories.get(directory)?;
        let recent = || numbers.iter().filter_map(|number| pages.pages.get(number));
        let listed = || recent().filter_map(|recent| Some((recent.page.place()?, &recent.page)));
        let (end, _) = listed()
            .filter(|(place, _)| place.is_last)
            .max_by_key(|(place, _)| place.listing)?;
        let is_of_it = |place: &Place| place.listing == end.listing;
        let parts = listed().filter(|(place, _)| is_of_it(place));
        let (mut count, mut asked) = (0, Duration::MAX);
        for (_, page) in parts {
            count += 1;
            asked = asked.min(page.asked);
        }
        let is_young = now.since_start().saturating_sub(asked) < age_max;
        let is_known = recent().any(|recent| recent.page.find(name).is_some());
        (count == end.number + 1 && is_young && !is_known).then_some(asked)
    }

    /// What is known of the names beside `name`, valid or not: of all of them, if a page has them.
    pub(super) fn siblings(&self, directory: &str, name: &str) -> Option<Siblings> {
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

    /// `name` was seen to be something else: no page that has it is right any more.
    pub(super) fn distrust(&self, directory: &str, name: &str) {
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

    /// This mount has changed `name`: no page is right any more about it, and all are about the other names.
    pub(super) fn changed(&self, directory: &str, name: &str) {
        let mut pages = self.0.lock();
        let numbers = pages.directories.get(directory).cloned();
        for number in numbers.unwrap_or_default() {
            if let Some(recent) = pages.pages.get_mut(&number)
                && let Some(listed) = recent.page.find(name)
            {
                recent.changed.insert(Arc::clone(&listed.name));
            }
        }
    }

    /// Drops the pages of the directory whose prefix is `prefix`, and of those below it.
    pub(super) fn forget_below(&self, prefix: &str) {
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

    /// Drops what is valid no more.
    pub(super) fn expire(&self, now: Moment) {
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
    fn known(&mut self, directory: &str, page: &Arc<Page>) -> Option<&mut Recent> {
        let numbers = self.directories.get(directory)?;
        let number = *numbers.iter().rev().find(|number| {
            self.pages
                .get(number)
                .is_some_and(|recent| Arc::ptr_eq(&recent.page, page))
        })?;
        self.pages.get_mut(&number)
    }

    /// Makes room for a page of so many names: what is expired goes first, then what is oldest.
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
mod tests {
    use std::time::SystemTime;

    use mountpoint_client::types::ETag;

    use super::*;
    use crate::namespace::Version;
    use crate::namespace::page::ListingNo;

    const D: &str = "d/";

    fn page(names: &[&str]) -> Arc<Page> {
        let listed = |name: &&str| Listed {
            name: Arc::from(*name),
            found: Found::Directory,
            is_certain: *name != "u",
        };
        let entries = names.iter().map(listed).collect();
        Arc::new(Page::some(entries, Duration::ZERO))
    }

    /// All pages of one listing.
    fn pages(names: &[&[&str]], asked: Duration) -> Vec<Arc<Page>> {
        let listing = ListingNo::next();
        let part = |(number, part): (usize, &&[&str])| {
            let place = Place {
                listing,
                number,
                is_last: number + 1 == names.len(),
            };
            Arc::new(Page::part(page(part).entries.clone(), asked, place))
        };
        names.iter().enumerate().map(part).collect()
    }

    fn at(seconds: u64) -> Moment {
        Duration::from_secs(seconds).into()
    }

    #[test]
    fn answers_what_is_there_and_valid() {
        let recent = RecentPages::default();
        recent.delivered(D, &page(&["a", "b", "u"]), at(0), at(1));
        assert_eq!(recent.find(D, "a", at(0)).unwrap().valid_until, at(1));
        assert!(recent.find(D, "c", at(0)).is_none());
        assert!(recent.find(D, "u", at(0)).is_none(), "not certain");
        assert!(recent.find(D, "a", at(1)).is_none(), "too old");
        assert!(recent.find("e/", "a", at(0)).is_none(), "another directory");
    }

    #[test]
    fn the_page_that_was_asked_for_last_says_it() {
        let recent = RecentPages::default();
        let second = Duration::from_secs(1);
        let asked = |asked: u32| pages(&[&["a"]], asked * second).remove(0);
        for page in [asked(1), asked(3), asked(2)] {
            recent.delivered(D, &page, at(3), at(9));
        }
        assert_eq!(recent.find(D, "a", at(4)).unwrap().asked, at(3));
    }

    #[test]
    fn absence_is_told_by_all_pages_of_a_young_listing() {
        let second = Duration::from_secs(1);
        let recent = RecentPages::default();
        let absent = |name, now| recent.absent(D, name, at(now), 10 * second);
        let listed = pages(&[&["a"], &["c"]], second);
        recent.delivered(D, &listed[0], at(1), at(60));
        recent.delivered(D, &page(&["d"]), at(1), at(60));
        assert_eq!(absent("b", 1), None, "one of two pages");
        recent.delivered(D, &listed[1], at(2), at(60));
        assert_eq!(absent("b", 2), Some(second));
        for known in ["a", "c", "d"] {
            assert_eq!(absent(known, 2), None, "{known}");
        }
        assert_eq!(recent.absent("e/", "b", at(2), 10 * second), None);
        assert_eq!(absent("b", 10), Some(second));
        assert_eq!(absent("b", 11), None, "too old");
        // An empty directory has a page, too.
        recent.delivered("e/", &pages(&[&[]], second)[0], at(1), at(60));
        assert_eq!(recent.absent("e/", "b", at(2), 10 * second), Some(second));
        recent.distrust(D, "a");
        assert_eq!(absent("b", 2), None);
    }

    #[test]
    fn delivering_again_makes_it_valid_again_and_distrust_ends_it() {
        let recent = RecentPages::default();
        let (first, second) = (page(&["a", "b"]), page(&["a", "c"]));
        recent.delivered(D, &first, at(0), at(1));
        recent.delivered(D, &first, at(1), at(2));
        recent.delivered(D, &second, at(1), at(2));
        recent.delivered("e/", &page(&["a"]), at(1), at(2));
        assert!(recent.find(D, "b", at(1)).is_some());
        recent.distrust(D, "a");
        assert!(recent.find(D, "b", at(1)).is_none());
        assert!(recent.find(D, "c", at(1)).is_none());
        assert!(recent.find("e/", "a", at(1)).is_some());
    }

    #[test]
    fn a_change_is_about_one_name() {
        let second = Duration::from_secs(1);
        let recent = RecentPages::default();
        let before = pages(&[&["a", "b"]], second).remove(0);
        recent.delivered(D, &before, at(1), at(9));
        recent.delivered("e/", &page(&["a"]), at(1), at(9));
        recent.changed(D, "a");
        recent.changed(D, "new");
        assert!(recent.find(D, "a", at(2)).is_none());
        assert!(recent.find(D, "b", at(2)).is_some());
        assert!(recent.find("e/", "a", at(2)).is_some());
        let absent = |name| recent.absent(D, name, at(2), 10 * second);
        assert_eq!(absent("a"), None, "it may have been made");
        assert_eq!(absent("c"), Some(second));
        recent.delivered(D, &before, at(2), at(12));
        assert!(recent.find(D, "a", at(2)).is_none(), "the page is no newer");
        recent.delivered(D, &pages(&[&["a"]], 3 * second)[0], at(3), at(9));
        assert_eq!(recent.find(D, "a", at(3)).unwrap().asked, at(3));
    }

    #[test]
    fn files_behind_a_name_come_in_order_from_page_to_page() {
        let file = |name: &str| Listed {
            name: Arc::from(name),
            found: Found::File(Version {
                size: 1,
                etag: ETag::from_header("\"e\""),
                mtime: SystemTime::UNIX_EPOCH,
                is_archived: false,
            }),
            is_certain: true,
        };
        let files = |names: &[&str]| {
            let entries = names.iter().map(|name| file(name)).collect();
            let asked = Duration::ZERO;
            Arc::new(Page::some(entries, asked))
        };
        let recent = RecentPages::default();
        recent.delivered(D, &files(&["d", "e"]), at(0), at(3));
        recent.delivered(D, &files(&["a", "b", "c"]), at(0), at(2));
        recent.delivered(D, &page(&["f"]), at(0), at(3));
        recent.delivered("e/", &files(&["a1"]), at(0), at(3));
        let behind = |name: &str, now: u64, count: usize| -> Vec<String> {
            let found = recent.behind(D, name, at(now), count).into_iter();
            found.map(|entry| entry.listed.name.to_string()).collect()
        };
        assert_eq!(behind("a", 0, 9), ["b", "c", "d", "e"]);
        assert_eq!(behind("", 0, 2), ["a", "b"]);
        assert_eq!(behind("bb", 0, 2), ["c", "d"]);
        assert_eq!(behind("a", 2, 9), ["d", "e"], "what is too old is left out");
        assert!(behind("e", 0, 9).is_empty(), "a directory is no file");
        assert!(behind("a", 0, 0).is_empty());
    }

    #[test]
    fn is_bounded() {
        let recent = RecentPages::default();
        let count = || {
            let pages = recent.0.lock();
            let names: usize = pages.pages.values().map(|one| one.page.entries.len()).sum();
            assert_eq!(pages.names, names);
            let numbers: usize = pages.directories.values().map(Vec::len).sum();
            assert_eq!(pages.pages.len(), numbers);
            (pages.pages.len(), names)
        };
        for number in 0..RECENT_PAGES_MAX + 10 {
            recent.delivered(D, &page(&[&format!("{number}")]), at(0), at(1));
        }
        assert_eq!(count().0, RECENT_PAGES_MAX);
        let names: Vec<String> = (0..RECENT_NAMES_MAX / 2)
            .map(|number| format!("{number:06}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for _ in 0..3 {
            recent.delivered(D, &page(&names), at(0), at(1));
        }
        assert_eq!(count(), (2, RECENT_NAMES_MAX));
        recent.delivered(D, &page(&["x"]), at(5), at(6));
        assert_eq!(count(), (1, 1), "expired ones are dropped");
        recent.delivered(D, &page(&[]), at(5), at(6));
        recent.expire(at(6));
        assert_eq!(count(), (0, 0));
        assert!(recent.0.lock().directories.is_empty());
    }
}
