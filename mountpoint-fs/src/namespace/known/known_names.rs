//! Everything that a mount remembers of names, besides its inodes.
//!
//! Each part has its own lock; one is taken at a time, and none is held across an await.

use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::Key;

use super::facts::{NameFacts, Trust};
use super::local_changes::LocalChanges;
use super::negative::{Absence, NegativeCache};
use super::own_directories::{OWN_AGE_MAX, OwnDirectories};
use crate::cache::ListingStore;
use crate::clock::Clock;
use crate::config::FsConfig;
use crate::namespace::inodes::table::{InodeTable, KnownInode};
use crate::namespace::listing::cache::ListingCache;
use crate::namespace::listing::{Page, SavedListings};
use crate::namespace::names;
use crate::namespace::single_flight::SingleFlight;
use crate::operation::{FileKind, InodeNo};

/// The memory of names. Shared with the requests that add to it.
#[derive(Debug)]
pub(crate) struct KnownNames {
    clock: Clock,
    ttl: Duration,
    trust: Trust,
    /// Whether the mount relies on directories that it has made (`--write-back`).
    relies_on_own: bool,
    /// Pages that were listed a moment ago.
    pub(crate) pages: ListingCache,
    /// Changes of this mount.
    pub(crate) changes: LocalChanges,
    told: NegativeCache,
    own: OwnDirectories,
    /// Listings on the disk.
    pub(crate) saved: SavedListings,
    /// Listings that are being read from the disk, by the directory's prefix.
    recalls: SingleFlight<Arc<str>, Option<Arc<Page>>>,
}

impl KnownNames {
    /// An empty memory of a mount with the settings `config`, and with the listings in `saved`.
    pub(crate) fn new(
        config: &FsConfig,
        lists_in_order: bool,
        saved: Option<Arc<ListingStore>>,
        clock: Clock,
    ) -> Self {
        let (names, is_posix) = (config.names, config.write.posix_metadata);
        let create_ttl = match lists_in_order {
            true => names.create_ttl,
            false => Duration::ZERO,
        };
        let remembered = match names.works_offline {
            true => names.ttl.max(OWN_AGE_MAX * 5 / 4),
            false => names.ttl,
        };
        Self {
            clock,
            ttl: names.ttl,
            trust: Trust {
                negative_ttl: names.negative_ttl,
                create_ttl,
                is_posix,
            },
            relies_on_own: names.works_offline && !create_ttl.is_zero(),
            pages: ListingCache::default(),
            changes: LocalChanges::new(remembered),
            told: NegativeCache::default(),
            own: OwnDirectories::default(),
            // No listing tells what objects say of themselves.
            saved: SavedListings::new(saved, names.opens_unasked && !is_posix),
            recalls: SingleFlight::new(),
        }
    }

    /// How old answers may be.
    pub(crate) fn trust(&self) -> &Trust {
        &self.trust
    }

    /// All that is known of `name` in the directory `parent`, whose prefix is `prefix`.
    pub(crate) fn facts(
        &self,
        table: &InodeTable,
        (parent, prefix): (InodeNo, &str),
        name: &str,
    ) -> NameFacts {
        let now = self.clock.now();
        // A change that is made meanwhile outdates what was read before: it is read behind that.
        let listed = self.pages.find(prefix, name, now.into());
        let shown = listed.as_ref().map(|listed| &listed.listed.found);
        let key = [prefix, name].concat();
        let unlisted = match listed {
            Some(_) => None,
            None => self.pages.absent(prefix, name),
        };
        let (told, own_since) = (self.told.of(&key), self.own_since(prefix));
        let inode = table.known(parent, name, shown);
        let is_directory = |inode: KnownInode| inode.kind == FileKind::Directory;
        NameFacts {
            is_own_directory: inode.is_some_and(is_directory) && self.is_own_directory(&key),
            changed: self.changes.last(prefix, name),
            unlisted,
            told,
            own_since,
            listed,
            inode,
        }
    }

    /// A look-up has reported `key` as absent.
    pub(crate) fn told_absent(&self, key: &Key, absence: Absence) {
        self.told.told(key.as_str(), absence);
    }

    /// Whether the program that makes the file `key` was told that it is absent, and S3 was not
    /// asked then.
    pub(crate) fn is_unasked(&self, key: &Key) -> bool {
        self.told.may_be_remembered(key.as_str())
    }

    /// How long the kernel may keep the absence of `key`, which was just told: less if a listing
    /// said so that was made before.
    pub(crate) fn negative_ttl(&self, key: &Key) -> Duration {
        let ttl = self.trust.negative_ttl;
        match self.told.of(key.as_str()) {
            Some(told) if told.is_remembered => {
                ttl.saturating_sub(self.clock.now().saturating_sub(told.asked))
            }
            Some(_) => ttl,
            None => Duration::ZERO,
        }
    }

    /// The key `key` has changed; with a slash at its end, all keys below it. Older answers are not
    /// believed from now on.
    pub(crate) fn changed(&self, key: &str) {
        self.changes.record(key, self.clock.now());
        self.saved.changed(key);
    }

    /// What pages say of `name` in the directory `prefix` is wrong.
    pub(crate) fn contradicted(&self, prefix: &str, name: &str) {
        self.pages.distrust(prefix, name);
        self.saved.note_known(prefix);
    }

    /// When S3 was asked that knew nothing below the directory `prefix`, if the mount has made that
    /// since, so recently that S3 is not asked about the names in it.
    pub(crate) fn own_since(&self, prefix: &str) -> Option<Duration> {
        let asked = self.own.asked(prefix, self.clock.now())?;
        // A directory above it may have been removed or renamed since.
        (!self.changes.invalidates(prefix, "", asked)).then_some(asked)
    }

    /// Whether the mount has just made a directory of `key`.
    pub(crate) fn is_own_directory(&self, key: &str) -> bool {
        self.relies_on_own && self.own_since(&format!("{key}/")).is_some()
    }

    /// Whether the directory `prefix` is this mount's, and lacks a marker so far: the caller makes
    /// it now, and the answer is another one from then on.
    pub(crate) fn takes_marker(&self, prefix: &str) -> bool {
        self.own_since(prefix).is_some() && self.own.takes_marker(prefix)
    }

    /// S3 is asked about names in the directory `prefix`, or another directory is made of it.
    pub(crate) fn forget_own(&self, prefix: &str) {
        self.own.forget(prefix);
    }

    /// A listing of the directory `prefix` was shown. If another client has put a name there, S3 is
    /// asked from then on.
    pub(crate) fn shown(&self, prefix: &str, page: &Page) {
        if let Some(asked) = self.own_since(prefix) {
            let is_ours = |name: &str| self.changes.is_changed(prefix, name, asked);
            if !page.entries.iter().all(|listed| is_ours(&listed.name)) {
                self.own.forget(prefix);
            }
        }
    }

    /// This mount has taken the name `key` away in the directory `prefix`. In its own directories
    /// that is an answer.
    pub(crate) fn taken_away(&self, prefix: &str, key: &Key) {
        if self.own_since(prefix).is_some() {
            let absence = Absence::remembered(self.clock.now());
            self.told_absent(key, absence);
        }
    }

    /// A directory is about to be made of `key`, which is the name `name` in the directory
    /// `prefix`: where nothing was, nothing is below it.
    pub(crate) fn makes_directory(&self, (prefix, name): (&str, &str), key: &Key, is_marked: bool) {
        let (Some(below), Some(told)) = (names::directory_prefix(key), self.told.of(key.as_str()))
        else {
            return;
        };
        let (asked, now) = (told.asked, self.clock.now());
        if self.changes.invalidates(prefix, name, asked) {
            return;
        }
        if now.saturating_sub(asked) < self.trust.create_ttl {
            let page = Arc::new(Page::whole(Vec::new(), asked));
            let valid_until = (asked + self.ttl).into();
            self.pages.delivered(&below, &page, now.into(), valid_until);
        }
        if self.relies_on_own {
            // S3 was not asked again for what this mount has taken away.
            let asked = self.own_since(prefix).map_or(asked, |own| own.min(asked));
            self.own.made(&below, !is_marked, (asked, now));
        }
    }

    /// The listing of the directory `prefix` that the disk has, if it may be shown.
    pub(crate) async fn recall(&self, prefix: &Arc<str>) -> Option<Arc<Page>> {
        if !self.saved.may_have(prefix) {
            return None;
        }
        let (clock, ttl) = (self.clock.clone(), self.ttl);
        let load = || self.saved.load(Arc::clone(prefix), clock, ttl);
        let page = self.recalls.join(Arc::clone(prefix), load).await;
        let page = page.filter(|page| {
            let own = self.pages.newest_own(prefix);
            let is_newest = own.is_none_or(|own| own <= page.asked);
            is_newest
                && self.saved.is_wanted(prefix)
                && !self.changes.invalidates_below(prefix, page.asked)
        });
        if page.is_none() {
            self.saved.note_known(prefix);
        }
        page
    }

    /// Has look-ups of `name` and of the names beside it answered by the listing of the directory
    /// `prefix` that the disk has, if nothing else does.
    pub(crate) async fn recall_names(&self, prefix: &Arc<str>, name: &str) {
        let now = self.clock.now().into();
        let is_told =
            || self.pages.has_all(prefix, now) || self.pages.find(prefix, name, now).is_some();
        if !self.saved.is_wanted(prefix) || is_told() {
            return;
        }
        if let Some(page) = self.recall(prefix).await {
            let valid_until = (page.asked + self.ttl).into();
            let now = self.clock.now().into();
            self.pages.delivered(prefix, &page, now, valid_until);
        }
    }

    /// Gives back memory that nobody needs.
    pub(crate) fn give_back(&self) {
        let now = self.clock.now();
        self.pages.expire(now.into());
        self.changes.give_back(now);
    }
}
