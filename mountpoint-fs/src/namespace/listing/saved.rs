//! Listings that the disk keeps beyond the mount: which may be shown, and which are to be kept.
//!
//! A mount shows what an earlier one listed until it knows a directory by itself. It never goes
//! back to what is older. Marks of changes are written by every mount with a cache, because the
//! next one may use listings.

use std::collections::{HashSet, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use super::cache::RECENT_NAMES_MAX;
use super::page::{Listed, ListingNo, Page, Place};
use crate::cache::{ListingStore, SavedListing, SavedName};
use crate::clock::Clock;
use crate::namespace::version::Found;
use crate::sync::Mutex;

/// The listings that a mount takes from the disk, and gives to it. The lock is a leaf.
#[derive(Debug, Default)]
pub(crate) struct SavedListings {
    store: Option<Arc<ListingStore>>,
    /// Whether this mount shows names that are as old as saved ones.
    is_used: bool,
    known: Mutex<KnownDirectories>,
    read: Mutex<ReadListings>,
}

/// Listings that programs read, the oldest first.
#[derive(Debug, Default)]
struct ReadListings {
    unfinished: VecDeque<WholeListing>,
    /// A program reads the last page again to hear that it is the last.
    finished: VecDeque<ListingNo>,
}

/// Directories that this mount knows by itself, by a hash of their prefix.
#[derive(Debug, Default)]
struct KnownDirectories {
    hashes: HashSet<u64>,
    hasher: RandomState,
    /// Whether there were too many: all count as known.
    is_full: bool,
}

/// The pages of one listing, as far as a program has read them.
#[derive(Debug)]
pub(crate) struct WholeListing {
    number: ListingNo,
    pages: Vec<Arc<Page>>,
    names: usize,
}

impl SavedListings {
    /// The listings of `store`. `is_used` says whether this mount shows names of that age.
    pub(crate) fn new(store: Option<Arc<ListingStore>>, is_used: bool) -> Self {
        Self {
            store,
            is_used,
            ..Self::default()
        }
    }

    /// Whether a listing of the directory `prefix` would be shown.
    pub(crate) fn is_wanted(&self, prefix: &str) -> bool {
        self.is_used && self.store.is_some() && !self.known.lock().has(prefix)
    }

    /// Whether the disk may keep a listing of the directory `prefix` that would be shown.
    pub(crate) fn may_have(&self, prefix: &str) -> bool {
        let store = self.store.as_ref();
        self.is_wanted(prefix) && store.is_some_and(|store| store.may_have(prefix))
    }

    /// The listing of the directory `prefix` that the disk keeps, if it is younger than `age_max`.
    pub(crate) fn load(
        &self,
        prefix: Arc<str>,
        clock: Clock,
        age_max: Duration,
    ) -> impl Future<Output = Option<Arc<Page>>> + Send + use<> {
        let store = self.store.clone();
        async move {
            let SavedListing { names, age } = store?.load(prefix, age_max).await?;
            let entries: Vec<Listed> = names.into_iter().map(listed).collect();
            if !entries.is_sorted_by(|one, other| one.name < other.name) {
                return None;
            }
            let asked = clock.now().saturating_sub(age);
            Some(Arc::new(Page::saved(entries, asked)))
        }
    }

    /// From now on this mount knows the directory `prefix` by itself.
    pub(crate) fn note_known(&self, prefix: &str) {
        if self.store.is_some() && self.is_used {
            self.known.lock().add(prefix);
        }
    }

    /// A program has read all of a `page`. Returns its listing if that was the last page, and the
    /// listing is short enough to be kept.
    pub(crate) fn page_read(&self, page: &Arc<Page>) -> Option<WholeListing> {
        let place = page.place().filter(|_| self.is_used && !page.is_saved)?;
        self.store.as_ref()?;
        self.read.lock().page(page, place)
    }

    /// Has the disk keep `listing` of the directory `prefix`.
    pub(crate) fn keep(&self, prefix: &str, listing: WholeListing, now: Duration) {
        let Some(store) = &self.store else {
            return;
        };
        let age = now.saturating_sub(listing.asked());
        let names = (listing.names, move || listing.names());
        store.store(Arc::from(prefix), names, age);
    }

    /// The key `key` is about to change, or has changed: with a slash at its end, all below it.
    pub(crate) fn changed(&self, key: &str) {
        if let Some(store) = &self.store {
            store.changed(key);
        }
    }

    /// Waits until no listing from before the changes so far counts.
    pub(crate) async fn settled(&self) {
        if let Some(store) = &self.store {
            store.settled().await;
        }
    }
}

impl ReadListings {
    /// Takes a page that was read; its listing if that is whole now, and not too long.
    fn page(&mut self, page: &Arc<Page>, place: Place) -> Option<WholeListing> {
        if self.finished.contains(&place.listing) {
            return None;
        }
        let is_it = |listing: &WholeListing| listing.number == place.listing;
        let at = self.unfinished.iter().position(is_it);
        let known = at.and_then(|at| self.unfinished.remove(at));
        let mut listing = known.unwrap_or_else(|| WholeListing {
            number: place.listing,
            pages: Vec::new(),
            names: 0,
        });
        let is_next = place.number == listing.pages.len();
        if is_next {
            listing.names += page.entries.len();
            listing.pages.push(Arc::clone(page));
        }
        let is_whole = is_next && place.is_last;
        if is_whole || listing.names > RECENT_NAMES_MAX {
            push(&mut self.finished, place.listing);
            return (is_whole && listing.names <= RECENT_NAMES_MAX).then_some(listing);
        }
        push(&mut self.unfinished, listing);
        None
    }
}

/// Adds a value, in the place of the oldest if there are many.
fn push<T>(values: &mut VecDeque<T>, value: T) {
    if values.len() == READ_MAX {
        values.pop_front();
    }
    values.push_back(value);
}

impl KnownDirectories {
    fn has(&self, prefix: &str) -> bool {
        self.is_full || self.hashes.contains(&self.hasher.hash_one(prefix))
    }

    fn add(&mut self, prefix: &str) {
        if self.is_full {
            return;
        }
        self.hashes.insert(self.hasher.hash_one(prefix));
        if self.hashes.len() > KNOWN_DIRECTORIES_MAX {
            self.is_full = true;
            self.hashes = HashSet::new();
        }
    }
}

impl WholeListing {
    /// When the first of its requests was sent.
    pub(crate) fn asked(&self) -> Duration {
        let asked = self.pages.iter().map(|page| page.asked);
        asked.min().unwrap_or_default()
    }

    /// All names that S3 has listed, each once and in their order: a directory without a key is of
    /// this mount alone.
    fn names(&self) -> Vec<SavedName> {
        let entries = self.pages.iter().flat_map(|page| &page.entries);
        let listed = entries.filter(|listed| !listed.is_kept());
        let mut names: Vec<SavedName> = listed.map(saved).collect();
        // A directory stands in front of the file that it hides.
        names.sort_by(|one, other| {
            let order = |name: &SavedName| name.object.is_some();
            (&one.name, order(one)).cmp(&(&other.name, order(other)))
        });
        names.dedup_by(|one, other| one.name == other.name);
        names
    }
}

fn saved(listed: &Listed) -> SavedName {
    SavedName {
        name: Arc::clone(&listed.name),
        object: match &listed.found {
            Found::Directory => None,
            Found::File(version) => Some(version.clone()),
        },
    }
}

fn listed(saved: SavedName) -> Listed {
    match saved.object {
        None => Listed::directory(saved.name),
        Some(version) => Listed::file(saved.name, version),
    }
}

/// Directories that a mount is known to know: half a megabyte. With more, no saved listing is
/// shown.
const KNOWN_DIRECTORIES_MAX: usize = 1 << 16;

/// Listings that programs read at once.
const READ_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn page(names: &[&str], listing: ListingNo, number: usize, is_last: bool) -> Arc<Page> {
        let listed = |name: &&str| {
            listed(SavedName {
                name: Arc::from(*name),
                object: None,
            })
        };
        let place = Place {
            listing,
            number,
            is_last,
        };
        let asked = Duration::from_secs(9 - number as u64);
        Arc::new(Page::part(names.iter().map(listed).collect(), asked, place))
    }

    #[test]
    fn a_listing_is_whole_with_its_last_page() {
        let mut read = ReadListings::default();
        let mut take = |page: &Arc<Page>| read.page(page, page.place().unwrap());
        let (number, other) = (ListingNo::next(), ListingNo::next());
        let first = page(&["b", "d"], number, 0, false);
        let last = page(&["a", "d"], number, 1, true);
        assert!(take(&first).is_none() && take(&first).is_none());
        assert!(
            take(&page(&["x"], other, 1, true)).is_none(),
            "not from its beginning"
        );
        let listing = take(&last).unwrap();
        let names = listing.names();
        let names: Vec<&str> = names.iter().map(|name| &*name.name).collect();
        assert_eq!(names, ["a", "b", "d"]);
        assert_eq!(listing.asked(), Duration::from_secs(8));
        assert!(take(&last).is_none(), "the same listing");
    }

    #[test]
    fn too_many_known_directories_are_all() {
        let mut known = KnownDirectories::default();
        known.add("a/");
        assert!(known.has("a/") && !known.has("b/"));
        for number in 0..KNOWN_DIRECTORIES_MAX {
            known.add(&number.to_string());
        }
        assert!(known.has("b/") && known.hashes.is_empty());
    }
}
