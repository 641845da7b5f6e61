//! Names turned into requests, and answers into inodes.
//!
//! A name or attributes that the kernel was told are valid for `NamesConfig::ttl` from then on; a
//! name without an answer is always asked for; and `open` asks S3 for the newest version, unless
//! the `lookup` of the same system call has just done so: doc/internals/lookup.md has the rules.
//!
//! An object that was replaced gets a new inode, so neither the kernel's page cache nor its idea of
//! the size can mix two versions. When `open` notices, it says [`FsError::Stale`]; Linux then looks
//! the path up again, trusting nothing, and opens the result. The application sees none of this.
//!
//! Holds no lock of its own: the table, the caches and the shared requests have theirs, one taken
//! at a time.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use mountpoint_client::ObjectClient;

use super::xattrs::RecentDetails;
use crate::cache::ListingStore;
use crate::clock::Clock;
use crate::config::{FsConfig, NamesConfig};
use crate::namespace::change::{KeyLocks, LinkNumbers};
use crate::namespace::inodes::table::{InodeTable, sum_of};
use crate::namespace::inodes::{AttributeStyle, Observed};
use crate::namespace::known::KnownNames;
use crate::namespace::listing::page::Page;
use crate::namespace::listing::{AheadBudget, HiddenKeys, WalkStats};
use crate::namespace::moment::Moment;
use crate::namespace::resolve::Resolver;
use crate::namespace::version::Found;
use crate::operation::{Attributes, Entry, EvictionBatch, FileKind, FsError, InodeNo, StaleName};
use crate::sync::Mutex;

mod attributes;
mod change;
mod enumerate;
mod lookup;
mod open;
mod walk_ahead;
mod written;

#[cfg(test)]
pub(crate) use change::RENAME_WAIT_MAX;
pub use change::{DirectoryMarker, NameChange};
pub use enumerate::{NextSibling, Standing};
use walk_ahead::WalkAhead;
pub use written::Created;

/// All names of a mount.
#[derive(Debug)]
pub struct Namespace {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) clock: Clock,
    pub(super) config: NamesConfig,
    style: AttributeStyle,
    /// Whether objects are asked what they say of themselves (`--posix-metadata`).
    pub(super) is_posix: bool,
    pub(super) table: InodeTable,
    pub(super) known: Arc<KnownNames>,
    pub(super) key_locks: KeyLocks,
    /// Numbers of links, until the kernel is told their own.
    pub(super) link_numbers: LinkNumbers,
    resolver: Arc<Resolver>,
    stale_names: SyncSender<StaleName>,
    /// Until somebody takes it.
    stale_names_taker: Mutex<Option<Receiver<StaleName>>>,
    pub(super) hidden: Arc<HiddenKeys>,
    pub(super) details: RecentDetails,
    pub(super) listing_ahead: AheadBudget,
    walks: Arc<WalkAhead>,
}

impl Namespace {
    /// The names under `config.prefix`, of a mount made at `mounted`, with the listings in `saved`.
    #[must_use]
    pub(crate) fn new(
        client: Arc<dyn ObjectClient>,
        config: &FsConfig,
        saved: Option<Arc<ListingStore>>,
        clock: Clock,
        mounted: SystemTime,
    ) -> Self {
        let (stale_names, taker) = sync_channel(STALE_NAMES_MAX);
        let is_posix = config.write.posix_metadata;
        let known = KnownNames::new(config, client.lists_in_order(), saved, clock.clone());
        let (known, hidden) = (Arc::new(known), Arc::<HiddenKeys>::default());
        let shared = (Arc::clone(&known), Arc::clone(&hidden));
        Self {
            resolver: Resolver::new(Arc::clone(&client), config, shared, clock.clone()),
            known,
            stale_names,
            stale_names_taker: Mutex::new(Some(taker)),
            walks: WalkAhead::new(Arc::clone(&client), clock.clone(), config.names.ttl),
            client,
            clock,
            config: config.names,
            style: AttributeStyle::new(config, mounted),
            is_posix,
            table: InodeTable::new(config.prefix.clone()),
            key_locks: KeyLocks::default(),
            link_numbers: LinkNumbers::default(),
            listing_ahead: AheadBudget::default(),
            hidden,
            details: RecentDetails::new(),
        }
    }

    /// Gives back `count` lookups of an inode.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        self.link_numbers.told(ino);
        self.table.forget(ino, count);
    }

    /// `.` and `..` of the directory `ino`.
    pub fn dots(&self, ino: InodeNo) -> Result<[Entry; 2], FsError> {
        let view = self.table.view(ino)?;
        Ok([ino, view.parent].map(|ino| self.entry(ino, &Found::Directory, self.config.ttl)))
    }

    /// Pages of listings that are held ahead of their readers or in flight.
    #[cfg(test)]
    pub(crate) fn listing_pages_ahead(&self) -> usize {
        self.listing_ahead.pages()
    }

    /// LISTs ahead of walks so far, and what they were good for.
    #[must_use]
    pub fn walk_stats(&self) -> WalkStats {
        self.walks.stats()
    }

    /// How many inodes there are besides the root: those the kernel knows and those that are open.
    #[must_use]
    pub fn inode_count(&self) -> usize {
        self.table.len()
    }

    /// Names that the kernel should be told to forget, as they become known. Can be taken once.
    #[must_use]
    pub fn take_stale_names(&self) -> Option<Receiver<StaleName>> {
        self.stale_names_taker.lock().take()
    }

    /// Some of the files that nobody uses, if there are too many inodes, and when to ask again.
    #[must_use]
    pub fn eviction_batch(&self) -> EvictionBatch {
        self.table.eviction_batch(self.config.inodes_max)
    }

    /// Whether many inodes were dropped since this was last true: their memory is worth a trim.
    #[must_use]
    pub fn has_dropped_many(&self) -> bool {
        self.table.has_dropped_many()
    }

    /// How often a listing met a key that cannot be shown.
    #[must_use]
    pub fn hidden_keys(&self) -> u64 {
        self.hidden.count()
    }

    /// Gives back memory that nobody needs.
    pub fn give_back_idle(&self) {
        self.known.give_back();
        self.resolver.first_bytes.expire(self.now());
        self.walks.expire();
        self.key_locks.remind();
    }

    /// Waits until no listing from before the changes so far is shown by a later mount. A change is
    /// acknowledged after that.
    pub async fn settled(&self) {
        self.known.saved.settled().await;
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now().into()
    }

    /// An answer that was asked for at `asked`, and came at `received_at`. No open relies on it.
    pub(super) fn observed(&self, asked: Duration, received_at: Duration) -> Observed {
        Observed::new(asked.into(), (received_at + self.config.ttl).into())
    }

    pub(super) fn entry(&self, ino: InodeNo, found: &Found, ttl: Duration) -> Entry {
        Entry {
            attributes: self.shown(ino, found, ttl),
            ttl,
        }
    }

    /// stat data of `ino` for the kernel.
    fn shown(&self, ino: InodeNo, found: &Found, ttl: Duration) -> Attributes {
        self.link_numbers.told(ino);
        self.known_attributes(ino, found, ttl)
    }

    /// stat data of `ino`, with what its object says of itself.
    pub(super) fn known_attributes(
        &self,
        ino: InodeNo,
        found: &Found,
        ttl: Duration,
    ) -> Attributes {
        let mut attributes = self.style.of(ino, found, ttl);
        if self.is_posix
            && let Some(posix) = self.table.posix(ino)
        {
            posix.show(&mut attributes);
        }
        self.show_changes(&mut attributes);
        attributes
    }

    /// Shows the time at which the names of a directory changed, if that is later.
    pub fn show_changes(&self, attributes: &mut Attributes) {
        if attributes.kind == FileKind::Directory {
            let changed = self.table.changed_at(attributes.ino);
            attributes.mtime = attributes.mtime.max(changed);
        }
    }

    /// An application has set the time of the directory `ino`.
    pub fn set_directory_time(&self, ino: InodeNo) {
        self.table.set_time(ino);
    }

    /// This mount has made or removed a name in `directory`.
    fn names_changed(&self, directory: InodeNo) {
        self.table
            .names_changed(directory, self.clock.wall(), self.now());
    }

    /// `page` was listed of `directory`. If it has other names than the page before, another client
    /// has changed them.
    fn names_listed(&self, directory: InodeNo, page: &Page) {
        let may_tell = page.is_whole() && !page.is_saved;
        if may_tell && self.table.is_news(directory, page.asked.into()) {
            self.table
                .listed(directory, (page, sum_of(page)), self.clock.wall());
        }
    }

    /// Whether a listing does not say enough of a name: the kernel has to look it up.
    #[must_use]
    pub fn lists_names_only(&self) -> bool {
        self.is_posix
    }

    pub(super) fn is_old(&self, page: &Page) -> bool {
        self.clock.now().saturating_sub(page.asked) > LISTING_AGE_MAX
    }
}

/// Names of replaced objects that the kernel has not yet been told to forget.
///
/// Further names expire in the kernel when their validity ends.
const STALE_NAMES_MAX: usize = 1_024;

/// Largest age of a listing page whose attributes are returned as valid.
///
/// A reader that pauses longer between two pages still gets the names, and the kernel looks up the
/// attributes that it needs.
pub(crate) const LISTING_AGE_MAX: Duration = Duration::from_secs(10);
