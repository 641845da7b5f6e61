//! How the namespace lists a directory that somebody opens, and what it keeps of what was listed.
//!
//! A directory is listed when it is read, but for one that a walk comes to where names may be old:
//! see [`Walks`]. Holds no lock across an await. Runs on whatever thread polls it.
//!
//! [`Walks`]: crate::namespace::listing::Walks

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::ListRequest;

use super::Namespace;
use crate::config::limits::LIST_PAGE_KEYS;
use crate::namespace::inodes::{Moment, Observed};
use crate::namespace::listing::{Listed, Listing, Page};
use crate::namespace::resolve::Subtree;
use crate::operation::{Entry, FsError, InodeNo};

/// What this mount has done to a name since it was listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing.
    AsListed,
    /// It is there, and may be something else: it was replaced, or a directory above it was
    /// renamed.
    Doubtful,
    /// It was removed, or is another name now.
    Changed,
}

impl Namespace {
    /// What this mount has done to `listed`, of the directory whose prefix was `listed_in` when it
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

    /// A listing of the directory `ino`, which is held open until [`Namespace::close`].
    pub async fn open_directory(&self, ino: InodeNo) -> Result<Listing, FsError> {
        let prefix = self.table.directory_prefix(ino)?;
        let ahead = self.listed_ahead(&prefix).await;
        let prefix_now = self.table.directory_prefix(ino)?;
        let ahead = ahead.filter(|_| prefix_now == prefix);
        self.table.open_directory(ino)?;
        let mut listing = Listing::new(
            Arc::clone(&self.client),
            self.clock.clone(),
            prefix_now,
            &self.listing_ahead,
            &self.hidden,
        );
        if let Some(page) = ahead {
            listing.begin_with(page);
        }
        Ok(listing)
    }

    /// All of the directory `prefix`, if names may be old and a walk has come to it.
    async fn listed_ahead(&self, prefix: &str) -> Option<Arc<Page>> {
        if !self.config.opens_unasked || !self.client.lists_in_order() {
            self.walks.open(prefix, self.clock.now());
            return None;
        }
        if let Some(page) = self.take_ahead(prefix) {
            return Some(page);
        }
        let parent: Arc<str> = Arc::from(self.walks.open(prefix, self.clock.now())?);
        let begin = || self.list_ahead(Arc::clone(&parent), prefix);
        self.walk_lists.join(Arc::clone(&parent), begin).await;
        self.take_ahead(prefix)
    }

    fn take_ahead(&self, prefix: &str) -> Option<Arc<Page>> {
        let now = self.clock.now();
        let page = self.walks.take(prefix, now, self.config.ttl)?;
        (!self.local_changes.invalidates_all(page.asked)).then_some(page)
    }

    /// Lists the directory `parent` and all below it, from its subdirectory `first` on, as far as
    /// one page goes.
    fn list_ahead(&self, parent: Arc<str>, first: &str) -> impl Future<Output = ()> + Send + use<> {
        let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
        let walks = Arc::clone(&self.walks);
        // The last key in front of all that begin with `first`, which ends with a slash.
        let start_after = format!("{}.{}", first.strip_suffix('/').unwrap_or(first), char::MAX);
        async move {
            let asked = clock.now();
            let listed = client.list(ListRequest {
                prefix: parent.to_string(),
                start_after: Some(start_after),
                max_keys: Some(LIST_PAGE_KEYS),
                ..ListRequest::default()
            });
            // Who opens the directory asks for it alone then, and is told what is wrong.
            let Ok(listed) = listed.await else { return };
            let below = Subtree::new(&parent, &listed, true).below(&parent);
            let whole = below
                .into_iter()
                .filter(|below| below.is_whole && below.prefix != parent);
            let pages = whole.map(|below| (Arc::clone(&below.prefix), Arc::new(below.page(asked))));
            walks.arrived(&parent, pages.collect());
        }
    }

    /// Entries of `page` were handed out just now: for a while, lookups are answered from it.
    pub fn delivered(&self, directory: InodeNo, page: &Arc<Page>) {
        let Ok(prefix) = self.table.directory_prefix(directory) else {
            return;
        };
        let now = self.clock.now();
        if page.place().is_some_and(|place| place.is_last) {
            self.walks.listed(&prefix, page.asked, now);
        }
        if !self.is_posix && !self.is_old(page) {
            let valid_until = (now + self.config.ttl).into();
            self.recent
                .delivered(&prefix, page, now.into(), valid_until);
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
            fresh_until: Moment::START,
        };
        let admitted = self
            .table
            .admit(directory, &listed.name, &listed.found, observed)?;
        // What is known by asking later is handed out instead, and got no younger by what was
        // listed.
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
        self.entry(ino, found, Duration::ZERO)
    }

    fn listed_ttl(&self, listed: &Listed, page: &Page) -> Duration {
        if listed.is_certain && !self.is_old(page) {
            self.config.ttl
        } else {
            Duration::ZERO
        }
    }
}
