//! How the namespace lists a directory that somebody opens, and what it keeps of what was listed.
//!
//! A directory is listed when it is read, but for one that a walk comes to: see `walk_ahead`. Holds
//! no lock across an await. Runs on whatever thread polls it.

use std::sync::Arc;
use std::time::Duration;

use super::Namespace;
use crate::namespace::inodes::Observed;
use crate::namespace::listing::{Listed, ListedAhead, Listing, Page};
use crate::operation::{Entry, FsError, InodeNo};

/// A name's change by this mount since it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    AsListed,
    /// The name is there, and may mean something else: the object was replaced, or a directory
    /// above was renamed.
    Doubtful,
    /// The object was removed, or has another name now.
    Changed,
}

impl Namespace {
    /// The change of `listed` by this mount, of the directory whose prefix was `listed_in` when it
    /// was opened, since `page` was asked for. Where that is forgotten the name is shown: one that
    /// is there all the time is not to be missed.
    #[must_use]
    pub fn standing(
        &self,
        (directory, listed_in): (InodeNo, &str),
        listed: &Listed,
        page: &Page,
    ) -> Standing {
        if !self.local_changes.invalidates_all(page.asked) {
            return Standing::AsListed;
        }
        let name = &*listed.name;
        let prefix = self.table.directory_prefix(directory);
        let moved_to = prefix.ok().filter(|prefix| prefix != listed_in);
        if moved_to.is_none() && !self.local_changes.invalidates(listed_in, name, page.asked) {
            return Standing::AsListed;
        }
        let is_changed = |prefix: &str| self.local_changes.is_changed(prefix, name, page.asked);
        let is_changed = is_changed(listed_in) || moved_to.as_deref().is_some_and(is_changed);
        if is_changed && self.table.child(directory, name).is_none() {
            Standing::Changed
        } else {
            Standing::Doubtful
        }
    }

    /// A listing of the directory `ino`, which is held open until [`Namespace::close`]. Not every
    /// program that opens a directory reads it: it has begun with [`Namespace::begin_listing`].
    pub fn open_directory(&self, ino: InodeNo) -> Result<Listing, FsError> {
        let prefix = self.table.directory_prefix(ino)?;
        self.table.open_directory(ino)?;
        Ok(Listing::new(
            Arc::clone(&self.client),
            self.clock.clone(),
            prefix,
            &self.listing_ahead,
            &self.hidden,
        ))
    }

    /// Begins `listing` with what its directory was listed with ahead of a walk, if that is the
    /// first time, and true.
    pub async fn begin_listing(&self, listing: &mut Listing) {
        if listing.has_begun() {
            return;
        }
        let prefix = Arc::clone(listing.prefix());
        if let Some(page) = self.recall(&prefix).await {
            listing.begin_with(page);
            return;
        }
        self.saved.note_known(&prefix);
        let ahead = self.walks.open(&prefix).await;
        let ahead = ahead.filter(|listed| {
            let asked = listed.asked();
            !self.local_changes.invalidates_below(&prefix, asked)
        });
        match ahead {
            Some(ListedAhead::Whole(page)) => listing.begin_with(page),
            Some(ListedAhead::First(answer)) => listing.begin_with_answer(*answer),
            None => listing.begin(),
        }
    }

    /// Entries of `page` were handed out just now: for a while, lookups are answered from it.
    ///
    /// `is_all` says whether the program has read them to the last.
    pub fn delivered(&self, directory: InodeNo, page: &Arc<Page>, is_all: bool) {
        let Ok(prefix) = self.table.directory_prefix(directory) else {
            return;
        };
        let now = self.clock.now();
        self.shown_of_own(&prefix, page);
        if is_all {
            self.walks.page_read(&prefix, page);
            self.names_listed(directory, page);
        }
        if !self.is_posix && (page.is_saved || !self.is_old(page)) {
            let from = if page.is_saved { page.asked } else { now };
            let valid_until = (from + self.config.ttl).into();
            self.recent
                .delivered(&prefix, page, now.into(), valid_until);
        }
        if is_all
            && let Some(listing) = self.saved.page_read(page)
            && !self
                .local_changes
                .invalidates_below(&prefix, listing.asked())
        {
            self.saved.keep(&prefix, listing, now);
        }
    }

    /// The listing of the directory `prefix` that the disk has, if it may be shown.
    async fn recall(&self, prefix: &Arc<str>) -> Option<Arc<Page>> {
        if !self.saved.may_have(prefix) {
            return None;
        }
        let (clock, ttl) = (self.clock.clone(), self.config.ttl);
        let load = || self.saved.load(Arc::clone(prefix), clock, ttl);
        let page = self.recalls.join(Arc::clone(prefix), load).await;
        let page = page.filter(|page| {
            let own = self.recent.newest_own(prefix);
            let is_newest = own.is_none_or(|own| own <= page.asked);
            is_newest
                && self.saved.is_wanted(prefix)
                && !self.local_changes.invalidates_below(prefix, page.asked)
        });
        if page.is_none() {
            self.saved.note_known(prefix);
        }
        page
    }

    /// Has look-ups of `name` and of the names beside it answered by the listing of the directory
    /// `prefix` that the disk has, if nothing else does.
    pub(super) async fn recall_names(&self, prefix: &Arc<str>, name: &str) {
        let now = self.now();
        let is_told =
            || self.recent.has_all(prefix, now) || self.recent.find(prefix, name, now).is_some();
        if !self.saved.is_wanted(prefix) || is_told() {
            return;
        }
        if let Some(page) = self.recall(prefix).await {
            let valid_until = (page.asked + self.config.ttl).into();
            self.recent
                .delivered(prefix, &page, self.now(), valid_until);
        }
    }

    /// Hands out an entry that was listed on a page of `directory`, and raises its inode's lookup
    /// count by one.
    pub fn admit(
        &self,
        directory: InodeNo,
        listed: &Listed,
        page: &Page,
        standing: Standing,
    ) -> Result<Entry, FsError> {
        let ttl = match standing {
            Standing::AsListed => self.listed_ttl(listed, page),
            Standing::Doubtful | Standing::Changed => Duration::ZERO,
        };
        let observed = Observed {
            asked: page.asked.into(),
            valid_until: (self.clock.now() + ttl).into(),
            call: None,
        };
        let admitted = self
            .table
            .admit(directory, &listed.name, &listed.found, observed)?;
        // The answer of a later request is handed out instead, and got no younger by the listing.
        let ttl = if admitted.found.is_same(&listed.found) {
            ttl
        } else {
            Duration::ZERO
        };
        Ok(self.entry(admitted.ino, &admitted.found, ttl))
    }

    /// An entry of `page` for a reply that carries no attributes.
    ///
    /// Its number is that of the inode, or the one that the inode gets with the first lookup.
    #[must_use]
    pub fn preview(&self, directory: InodeNo, listed: &Listed, page: &Page) -> Entry {
        let Listed { name, found, .. } = listed;
        let asked = page.asked.into();
        let ino = self.table.preview(directory, name, found, asked);
        Entry {
            attributes: self.known_attributes(ino, found, Duration::ZERO),
            ttl: Duration::ZERO,
        }
    }

    fn listed_ttl(&self, listed: &Listed, page: &Page) -> Duration {
        if listed.is_certain && page.is_saved {
            let age = self.clock.now().saturating_sub(page.asked);
            self.config.ttl.saturating_sub(age)
        } else if listed.is_certain && !self.is_old(page) {
            self.config.ttl
        } else {
            Duration::ZERO
        }
    }
}
