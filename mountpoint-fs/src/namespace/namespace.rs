//! Names turned into requests, and answers into inodes.
//!
//! How old an answer may be: a name or attributes that the kernel was told are answered for
//! `NamesConfig::ttl` from then on; a name nobody has heard of is always asked for; and `open` asks
//! S3 for the newest version, unless the `lookup` of the same system call has just done so. The
//! kernel does not say which lookup that was, so each vouches for the one open that comes first,
//! and for no longer than it took itself: an upload that was begun after the lookup takes about as
//! long. An `open` can miss no more than an upload that ended while some lookup of the same name
//! was under way.
//!
//! An object that was replaced gets a new inode, so neither the kernel's page cache nor its idea of
//! the size can mix two versions. When `open` notices, it says [`FsError::Stale`]; Linux then looks
//! the path up again, trusting nothing, and opens what it finds. The application sees none of this.
//!
//! Holds no lock of its own: the table, the caches and the shared requests have theirs, one taken
//! at a time.

use std::ffi::OsStr;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use mountpoint_client::types::{Key, ListOutput, ObjectDetails, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::names;
use super::open::{FileOpened, HowToProve, OpenVersion, Opening, Proof};
use super::version::{Found, Version};
use super::xattrs::RecentDetails;
use crate::clock::Clock;
use crate::config::limits::{FRONT_AGE_MAX, LISTING_AGE_MAX, STALE_NAMES_MAX};
use crate::config::{FsConfig, NamesConfig};
use crate::namespace::change::KeyLocks;
use crate::namespace::change::LocalChanges;
use crate::namespace::change::being_written;
use crate::namespace::inodes::AttributeStyle;
use crate::namespace::inodes::table::{InodeTable, View};
use crate::namespace::inodes::{Moment, Observed};
use crate::namespace::listing::AheadBudget;
use crate::namespace::listing::HiddenKeys;
use crate::namespace::listing::Standing;
use crate::namespace::listing::Walks;
use crate::namespace::listing::cache::{ListingCache, RecentEntry};
use crate::namespace::listing::page::{Listed, Page};
use crate::namespace::resolve::Answer;
use crate::namespace::resolve::CreateIntent;
use crate::namespace::resolve::FirstBytesCache;
use crate::namespace::resolve::Gathering;
use crate::namespace::resolve::LookupBatching;
use crate::namespace::resolve::SingleFlight;
use crate::namespace::resolve::Subtree;
use crate::namespace::resolve::{Absence, NegativeCache};
use crate::operation::{Attributes, Entry, FsError, InodeNo, Purpose, StaleName, Surplus};
use crate::sync::Mutex;

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
    pub(super) recent: Arc<ListingCache>,
    pub(super) local_changes: LocalChanges,
    pub(super) negative: NegativeCache,
    pub(super) key_locks: KeyLocks,
    pub(super) lookup_batching: Arc<LookupBatching>,
    pub(super) first_bytes: Arc<FirstBytesCache>,
    /// What was seen of the root when the mount was made.
    pub(super) root_at_start: OnceLock<Page>,
    pub(super) lookups: SingleFlight<Key, Result<Answer, FsError>>,
    stale_names: SyncSender<StaleName>,
    /// Until somebody takes it.
    stale_names_taker: Mutex<Option<Receiver<StaleName>>>,
    pub(super) hidden: Arc<HiddenKeys>,
    pub(super) details: RecentDetails,
    pub(super) heads: SingleFlight<Key, Result<Arc<ObjectDetails>, ClientError>>,
    /// Listings that lookups wait for, by the directory's prefix.
    pub(super) gatherings: SingleFlight<Arc<str>, Result<Gathering, FsError>>,
    pub(super) listing_ahead: AheadBudget,
    pub(super) walks: Arc<Walks>,
    /// Listings ahead of walks, by the prefix of the directory that is walked.
    pub(super) walk_lists: SingleFlight<Arc<str>, ()>,
}

impl Namespace {
    /// The names under `config.prefix`, of a mount made at `mounted`.
    #[must_use]
    pub fn new(
        client: Arc<dyn ObjectClient>,
        config: &FsConfig,
        clock: Clock,
        mounted: SystemTime,
    ) -> Self {
        let (stale_names, taker) = sync_channel(STALE_NAMES_MAX);
        Self {
            stale_names,
            stale_names_taker: Mutex::new(Some(taker)),
            client,
            clock,
            config: config.names,
            style: AttributeStyle::new(config, mounted),
            is_posix: config.write.posix_metadata,
            table: InodeTable::new(config.prefix.clone()),
            recent: Arc::default(),
            local_changes: LocalChanges::new(config.names.ttl),
            negative: NegativeCache::default(),
            key_locks: KeyLocks::default(),
            lookup_batching: Arc::default(),
            first_bytes: Arc::default(),
            root_at_start: OnceLock::new(),
            listing_ahead: AheadBudget::default(),
            walks: Arc::default(),
            walk_lists: SingleFlight::new(),
            lookups: SingleFlight::new(),
            hidden: Arc::default(),
            details: RecentDetails::default(),
            heads: SingleFlight::new(),
            gatherings: SingleFlight::new(),
        }
    }

    /// What a listing of the first keys of the mount said when it was made. It tells what to ask,
    /// and answers nothing.
    pub fn learn(&self, listed: &ListOutput) {
        let root = self.table.directory_prefix(InodeNo::ROOT);
        let root = root.unwrap_or_default();
        let mut below = Subtree::new(&root, listed, self.client.lists_in_order()).below(&root);
        below.retain(|below| *below.prefix == *root);
        let page = below.pop().map(|below| below.page(Duration::ZERO));
        let is_empty = listed.continuation_token.is_none();
        let page = page.or_else(|| is_empty.then(|| Page::whole(Vec::new(), Duration::ZERO)));
        if let Some(page) = page {
            self.root_at_start.get_or_init(|| page);
        }
    }

    /// Finds `name` in the directory `parent` and raises its inode's lookup count by one.
    pub async fn lookup(
        &self,
        parent: InodeNo,
        name: &OsStr,
        purpose: &dyn Purpose,
    ) -> Result<Entry, FsError> {
        let name = names::parse(name)?;
        if let Some(written) = self.table.admit_written(parent, name)? {
            return Ok(self.entry(written.ino, &written.found, self.config.ttl));
        }
        let prefix: Arc<str> = Arc::from(self.table.directory_prefix(parent)?);
        if let Some(recent) = self.recently(parent, &prefix, name) {
            self.lookup_batching.hit(&prefix, self.clock.now());
            return self.admit_recent(parent, &recent);
        }
        let remembered = |asked| Absence {
            asked,
            is_remembered: true,
        };
        if let Some(asked) = self.recently_absent(parent, &prefix, name) {
            return self.absent(parent, &prefix, name, remembered(asked));
        }
        let makes = &mut CreateIntent::new(purpose, name);
        if let Some(asked) = self.absent_for_maker(parent, &prefix, name, makes).await {
            self.lookup_batching.hit(&prefix, self.clock.now());
            return self.absent(parent, &prefix, name, remembered(asked));
        }
        if let Some(gathering) = self.gather(&prefix, name, makes).await?
            && !self.is_moved(parent, &prefix)
        {
            if let Some(recent) = self.recently(parent, &prefix, name) {
                self.lookup_batching.hit(&prefix, self.clock.now());
                return self.admit_recent(parent, &recent);
            }
            let Gathering { page, is_own } = gathering;
            let is_newest = !self.local_changes.invalidates(&prefix, name, page.asked);
            if is_own && is_newest && page.is_without(name) {
                return self.absent(parent, &prefix, name, Absence::asked(page.asked));
            }
        }
        let (prefix, answer) = self.find_unchanged(parent, name).await?;
        let Answer {
            found,
            posix,
            asked,
            heard,
            fresh_until,
            front,
        } = answer;
        let Some(found) = found else {
            return self.absent(parent, &prefix, name, Absence::asked(asked));
        };
        let observed = Observed {
            fresh_until: fresh_until.map_or(Moment::START, Moment::from),
            ..self.observed(asked, heard)
        };
        let admitted = self.table.admit(parent, name, &found, observed)?;
        self.table.set_posix(admitted.ino, posix);
        if let (Some(bytes), Found::File(version)) = (front, &found) {
            let until = (self.clock.now() + FRONT_AGE_MAX).into();
            self.first_bytes
                .keep(admitted.ino, &version.etag, &bytes, until);
        }
        let left = observed.valid_until.left(self.now());
        Ok(self.entry(admitted.ino, &admitted.found, left))
    }

    /// Hands out what a page said of a name a moment ago, for as long as that is valid.
    fn admit_recent(&self, parent: InodeNo, recent: &RecentEntry) -> Result<Entry, FsError> {
        let observed = Observed {
            asked: recent.asked,
            valid_until: recent.valid_until,
            fresh_until: Moment::START,
        };
        let Listed { name, found, .. } = &recent.listed;
        let admitted = self.table.admit(parent, name, found, observed)?;
        let left = recent.valid_until.left(self.now());
        Ok(self.entry(admitted.ino, &admitted.found, left))
    }

    /// Gives back `count` lookups of an inode.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        self.table.forget(ino, count);
    }

    /// stat data of `ino`. An open file's are those of the version that was opened.
    pub async fn attributes(&self, ino: InodeNo) -> Result<Attributes, FsError> {
        loop {
            if let Some(attributes) = self.attributes_of_name(ino).await? {
                return Ok(attributes);
            }
        }
    }

    /// What its name says of `ino`; `None` if it has another name by then.
    async fn attributes_of_name(&self, ino: InodeNo) -> Result<Option<Attributes>, FsError> {
        let view = self.table.view(ino)?;
        let left = view.observed.valid_until.left(self.now());
        if ino == InodeNo::ROOT || view.openers > 0 || view.is_written {
            return Ok(Some(self.shown(ino, &view.found, self.config.ttl)));
        }
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        if !left.is_zero() {
            return Ok(Some(self.shown(ino, &view.found, left)));
        }
        let (prefix, answer) = self.find_unchanged(view.parent, &view.name).await?;
        let now = self.table.view(ino)?;
        if now.is_attached && (now.parent, &now.name) != (view.parent, &view.name) {
            return Ok(None);
        }
        let Answer {
            found,
            posix,
            asked,
            heard,
            ..
        } = answer;
        let Some(found) = found else {
            if self.gone(view.parent, &prefix, &view.name, asked) == Some(ino) {
                return Ok(Some(self.shown(ino, &Found::Directory, self.config.ttl)));
            }
            return Err(FsError::NotFound);
        };
        // It vouches for no open: a long time may pass between a `stat` and an `open`.
        let observed = self.observed(asked, heard);
        match self.table.observe(ino, &found, observed) {
            Some(view) => {
                self.table.set_posix(ino, posix);
                let left = view.observed.valid_until.left(self.now());
                Ok(Some(self.shown(ino, &view.found, left)))
            }
            None => {
                self.recent.distrust(&prefix, &view.name);
                Err(replaced(&view.name))
            }
        }
    }

    /// The newest version of the file `ino`, which is held open from [`Namespace::opened`] to
    /// [`Namespace::close`].
    ///
    /// [`FsError::Stale`] if the name means another version by now, or no file: the caller looks it
    /// up again.
    pub async fn open(&self, ino: InodeNo, is_direct: bool) -> Result<OpenVersion, FsError> {
        let View {
            parent,
            name,
            found,
            is_attached,
            is_written,
            observed,
            was_opened,
            ..
        } = self.table.view(ino)?;
        let Found::File(known) = found else {
            return Err(FsError::IsADirectory);
        };
        if !is_attached {
            return Err(replaced(&name));
        }
        if is_written {
            return Err(being_written(&name));
        }
        let key = names::file_key(&self.table.directory_prefix(parent)?, &name)?;
        let now = self.now();
        let opening = Opening {
            is_direct,
            was_opened,
            is_trusted: self.config.opens_unasked && observed.valid_until > now,
            size: if known.is_archived { 0 } else { known.size },
        };
        let fresh = self.table.take_fresh(ino, now);
        let is_fresh = fresh.is_some();
        let (version, proof) = match fresh {
            Some(version) => (version, Proof::Known),
            None => match opening.how_to_prove() {
                HowToProve::Trust => (known, Proof::Known),
                HowToProve::Fetch => (known, Proof::Fetch),
                HowToProve::Head => {
                    let asked = self.clock.now();
                    let head = self.client.head(&key).await;
                    (self.newest(ino, &key, head, asked)?, Proof::Known)
                }
            },
        };
        if version.is_archived {
            return Err(FsError::Denied(format!(
                "{key} is archived; restore it to read it"
            )));
        }
        let front = self.first_bytes.take(ino, &version.etag, is_fresh);
        Ok(OpenVersion {
            key,
            front: front.filter(|_| proof == Proof::Known),
            version,
            proof,
        })
    }

    /// What an open's HEAD of `ino`, which was asked for at `asked`, says: its version, or that it
    /// is stale.
    fn newest(
        &self,
        ino: InodeNo,
        key: &Key,
        head: Result<ObjectInfo, ClientError>,
        asked: Duration,
    ) -> Result<Version, FsError> {
        let head = match head {
            Ok(info) => Some(Found::File(Version::from(&info))),
            Err(error) if error.kind == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let view = head.and_then(|found| self.table.confirm(ino, &found, asked.into()));
        if let Some(written) = view.as_ref().filter(|view| view.is_written) {
            // Its writer has begun since.
            return Err(being_written(&written.name));
        }
        match view.map(|view| view.found) {
            Some(Found::File(version)) => Ok(version),
            Some(Found::Directory) | None => {
                self.distrust(ino);
                Err(replaced(key.as_str()))
            }
        }
    }

    /// A handle of `ino` was opened that reads `version`, and `may_follow` a writer that may go on
    /// behind that.
    ///
    /// [`FsError::Stale`] if the file was written through this mount since [`Namespace::open`] said
    /// that version, [`FsError::NotPermitted`] if it is being written.
    pub fn opened(
        &self,
        ino: InodeNo,
        version: &Version,
        may_follow: bool,
    ) -> Result<FileOpened, FsError> {
        self.table.open_file(ino, version, may_follow)
    }

    /// A handle of `ino` was closed.
    pub fn close(&self, ino: InodeNo) {
        self.table.close(ino);
    }

    /// A read found out that `ino` is no longer what its name means: whoever comes next asks again,
    /// the kernel too.
    pub fn is_replaced(&self, ino: InodeNo) {
        self.distrust(ino);
        if let Ok(View { parent, name, .. }) = self.table.view(ino) {
            // If too many wait, the kernel forgets it by itself a little later.
            let directory = parent;
            drop(self.stale_names.try_send(StaleName { directory, name }));
        }
    }

    /// Whether the kernel may still take `stale` for what it was: nobody has looked it up since.
    #[must_use]
    pub fn is_still_stale(&self, stale: &StaleName) -> bool {
        self.table.child(stale.directory, &stale.name).is_none()
    }

    /// `ino` is no longer what its name means: whoever comes next asks again.
    pub fn distrust(&self, ino: InodeNo) {
        if let Ok(view) = self.table.view(ino) {
            if let Ok(prefix) = self.table.directory_prefix(view.parent) {
                self.recent.distrust(&prefix, &view.name);
            }
            self.table.detach(ino);
        }
    }

    /// `.` and `..` of the directory `ino`.
    pub fn dots(&self, ino: InodeNo) -> Result<[Entry; 2], FsError> {
        let view = self.table.view(ino)?;
        Ok([ino, view.parent].map(|ino| self.entry(ino, &Found::Directory, self.config.ttl)))
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

    /// Pages of listings that are held ahead of their readers or in flight.
    #[must_use]
    pub fn listing_pages_ahead(&self) -> usize {
        self.listing_ahead.pages()
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
    pub fn surplus(&self) -> Surplus {
        self.table.surplus(self.config.inodes_max)
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

    /// Gives back memory that nobody needs any more.
    pub fn give_back_idle(&self) {
        self.recent.expire(self.now());
        self.first_bytes.expire(self.now());
        self.walks.expire(self.clock.now());
        self.key_locks.remind();
    }

    pub(super) fn now(&self) -> Moment {
        self.clock.now().into()
    }

    /// An answer that was asked for at `asked`, and came at `heard`. No open relies on it.
    pub(super) fn observed(&self, asked: Duration, heard: Duration) -> Observed {
        Observed {
            asked: asked.into(),
            valid_until: (heard + self.config.ttl).into(),
            fresh_until: Moment::START,
        }
    }

    pub(super) fn entry(&self, ino: InodeNo, found: &Found, ttl: Duration) -> Entry {
        Entry {
            attributes: self.shown(ino, found, ttl),
            ttl,
        }
    }

    /// stat data of `ino`, with what its object says of itself.
    fn shown(&self, ino: InodeNo, found: &Found, ttl: Duration) -> Attributes {
        let mut attributes = self.style.of(ino, found, ttl);
        if self.is_posix
            && let Some(posix) = self.table.posix(ino)
        {
            posix.show(&mut attributes);
        }
        attributes
    }

    /// Whether a listing does not say enough of a name: the kernel has to look it up.
    #[must_use]
    pub fn lists_names_only(&self) -> bool {
        self.is_posix
    }

    fn listed_ttl(&self, listed: &Listed, page: &Page) -> Duration {
        if listed.is_certain && !self.is_old(page) {
            self.config.ttl
        } else {
            Duration::ZERO
        }
    }

    pub(super) fn is_old(&self, page: &Page) -> bool {
        self.clock.now().saturating_sub(page.asked) > LISTING_AGE_MAX
    }
}

pub(super) fn replaced(what: &str) -> FsError {
    FsError::Stale(format!("{what} was replaced or deleted in the bucket"))
}
