//! How the namespace lists a directory that somebody opens, and what it keeps of what was listed.
//!
//! A directory is listed when it is read, but for one that a walk comes to: see `walk_ahead`. Holds
//! no lock across an await. Runs on whatever thread polls it.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::Key;

use super::Namespace;
use crate::namespace::inodes::Observed;
use crate::namespace::listing::{Listed, ListedAhead, Listing, Page};
use crate::namespace::names;
use crate::namespace::version::{Found, Version};
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

/// A file that a listing shows behind another.
#[derive(Clone, Debug)]
pub struct NextSibling {
    /// Its name.
    pub name: Arc<str>,
    /// Its object.
    pub key: Key,
    /// The version that was listed.
    pub version: Version,
    /// Whether an open would open that version, and the kernel has no pages of it.
    pub is_unread: bool,
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
        if !self.known.changes.invalidates_all(page.asked) {
            return Standing::AsListed;
        }
        let name = &*listed.name;
        let prefix = self.table.directory_prefix(directory);
        let moved_to = prefix.ok().filter(|prefix| prefix != listed_in);
        if moved_to.is_none() && !self.known.changes.invalidates(listed_in, name, page.asked) {
            return Standing::AsListed;
        }
        let is_changed = |prefix: &str| self.known.changes.is_changed(prefix, name, page.asked);
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
        if let Some(page) = self.known.recall(&prefix).await {
            listing.begin_with(page);
            return;
        }
        self.known.saved.note_known(&prefix);
        let ahead = self.walks.open(&prefix).await;
        let ahead = ahead.filter(|listed| {
            let asked = listed.asked();
            !self.known.changes.invalidates_below(&prefix, asked)
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
        self.known.shown(&prefix, page);
        if is_all {
            self.walks.page_read(&prefix, page);
            self.names_listed(directory, page);
        }
        if !self.is_posix && (page.is_saved || !self.is_old(page)) {
            let from = if page.is_saved { page.asked } else { now };
            let valid_until = (from + self.config.ttl).into();
            self.known
                .pages
                .delivered(&prefix, page, now.into(), valid_until);
        }
        if is_all
            && let Some(listing) = self.known.saved.page_read(page)
            && !self
                .known
                .changes
                .invalidates_below(&prefix, listing.asked())
        {
            self.known.saved.keep(&prefix, listing, now);
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
        let observed = Observed::new(page.asked.into(), (self.clock.now() + ttl).into());
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

    /// The files behind `name` in the directory of the file `ino`, in order of name: at most
    /// `count`. Fewer where no listing that is valid shows more. Asks nobody.
    #[must_use]
    pub fn files_behind(&self, ino: InodeNo, name: &str, count: usize) -> Vec<NextSibling> {
        let Ok(view) = self.table.view(ino) else {
            return Vec::new();
        };
        let Ok(prefix) = self.table.directory_prefix(view.parent) else {
            return Vec::new();
        };
        let now = self.clock.now().into();
        let entries = self.known.pages.behind(&prefix, name, now, count);
        let files = entries.into_iter().filter_map(|entry| {
            let Found::File(version) = entry.listed.found else {
                return None;
            };
            let name = entry.listed.name;
            let key = names::file_key(&prefix, &name).ok()?;
            let is_changed = self.known.changes.invalidates(&prefix, &name, entry.asked);
            let is_unread = !is_changed && self.table.is_unread(view.parent, &name, &version);
            Some(NextSibling {
                is_unread: is_unread && !version.is_archived,
                name,
                key,
                version,
            })
        });
        files.collect()
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
