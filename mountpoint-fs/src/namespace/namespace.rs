//! Names turned into requests, and answers into inodes.
//!
//! How old an answer may be: a name or attributes that the kernel was told are answered for `NamesConfig::ttl` from then
//! on; a name nobody has heard of is always asked for; and `open` asks S3 for the newest version, unless the `lookup` of
//! the same system call has just done so. The kernel does not say which lookup that was, so each vouches for the one
//! open that comes first, and for no longer than it took itself: an upload that was begun after the lookup takes about
//! as long. An `open` can miss no more than an upload that ended while some lookup of the same name was under way.
//!
//! An object that was replaced gets a new inode, so neither the kernel's page cache nor its idea of the size can mix
//! two versions. When `open` notices, it says [`FsError::Stale`]; Linux then looks the path up again, trusting
//! nothing, and opens what it finds. The application sees none of this.
//!
//! Holds no lock of its own: the table, the recent pages, the crowds and the joins have theirs, one taken at a time.

use std::ffi::OsStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, SystemTime};

use mountpoint_client::types::{Key, ListRequest, ObjectDetails, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::attributes::AttributeStyle;
use super::changes::Changes;
use super::crowd::{Ask, Crowds};
use super::extended::RecentDetails;
use super::hidden::HiddenKeys;
use super::inode::{Moment, Observed};
use super::inode_table::{InodeTable, View};
use super::joined::Joins;
use super::listing::{AheadBudget, Listing};
use super::lookup::{self, Answer};
use super::names;
use super::open::{HowToProve, OpenVersion, Opening, Proof};
use super::page::{Listed, Page};
use super::recent::{RecentEntry, RecentPages};
use super::subtree::Subtree;
use super::version::{Found, Version};
use super::writing::being_written;
use crate::clock::Clock;
use crate::config::limits::{LIST_PAGE_KEYS, LISTING_AGE_MAX, OPEN_FRESH_MAX, STALE_NAMES_MAX};
use crate::config::{FsConfig, NamesConfig};
use crate::operation::{Attributes, Entry, FsError, InodeNo, StaleName};
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
    pub(super) recent: Arc<RecentPages>,
    pub(super) changes: Changes,
    crowds: Arc<Crowds>,
    lookups: Joins<Key, Result<Answer, FsError>>,
    stale_names: SyncSender<StaleName>,
    /// Until somebody takes it.
    stale_names_taker: Mutex<Option<Receiver<StaleName>>>,
    hidden: Arc<HiddenKeys>,
    pub(super) details: RecentDetails,
    pub(super) heads: Joins<Key, Result<Arc<ObjectDetails>, ClientError>>,
    /// Listings that lookups wait for, by the directory's prefix.
    gatherings: Joins<Arc<str>, Result<Gathering, FsError>>,
    listing_ahead: AheadBudget,
}

/// A page of a directory that was listed for lookups.
#[derive(Clone, Debug)]
struct Gathering {
    page: Arc<Page>,
    /// Whether it has all names of the directory.
    is_whole: bool,
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
            changes: Changes::new(config.names.ttl),
            crowds: Arc::default(),
            listing_ahead: AheadBudget::default(),
            lookups: Joins::new(),
            hidden: Arc::default(),
            details: RecentDetails::default(),
            heads: Joins::new(),
            gatherings: Joins::new(),
        }
    }

    /// Finds `name` in the directory `parent` and raises its inode's lookup count by one.
    pub async fn lookup(&self, parent: InodeNo, name: &OsStr) -> Result<Entry, FsError> {
        let name = names::parse(name)?;
        if let Some(written) = self.table.admit_written(parent, name)? {
            return Ok(self.entry(written.ino, &written.found, self.config.ttl));
        }
        let prefix: Arc<str> = Arc::from(self.table.directory_prefix(parent)?);
        if let Some(recent) = self.recently(parent, &prefix, name) {
            self.crowds.hit(&prefix);
            return self.admit_recent(parent, &recent);
        }
        if let Some(gathering) = self.gather(&prefix, name).await? {
            if let Some(recent) = self.recently(parent, &prefix, name) {
                self.crowds.hit(&prefix);
                return self.admit_recent(parent, &recent);
            }
            let is_newest = !self.changes.outdate(parent, name, gathering.page.asked);
            if gathering.is_whole && is_newest && gathering.page.find(name).is_none() {
                return self.absent(parent, &prefix, name, gathering.page.asked);
            }
        }
        let answer = self.find_unchanged(parent, &prefix, name).await?;
        let Answer {
            found,
            posix,
            asked,
            took,
        } = answer;
        let Some(found) = found else {
            return self.absent(parent, &prefix, name, asked);
        };
        let observed = self.observed(asked, took);
        let admitted = self.table.admit(parent, name, &found, observed)?;
        self.table.set_posix(admitted.ino, posix);
        Ok(self.entry(admitted.ino, &admitted.found, self.config.ttl))
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
        let view = self.table.view(ino)?;
        let left = view.observed.valid_until.left(self.now());
        if ino == InodeNo::ROOT || view.openers > 0 || view.is_written {
            return Ok(self.shown(ino, &view.found, self.config.ttl));
        }
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        if !left.is_zero() {
            return Ok(self.shown(ino, &view.found, left));
        }
        let prefix = self.table.directory_prefix(view.parent)?;
        let answer = self
            .find_unchanged(view.parent, &prefix, &view.name)
            .await?;
        let Answer {
            found,
            posix,
            asked,
            ..
        } = answer;
        let Some(found) = found else {
            if self.gone(view.parent, &prefix, &view.name, asked) == Some(ino) {
                return Ok(self.shown(ino, &Found::Directory, self.config.ttl));
            }
            return Err(FsError::NotFound);
        };
        // It vouches for no open: a long time may pass between a `stat` and an `open`.
        let observed = self.observed(asked, Duration::ZERO).vouching_for_none();
        match self.table.observe(ino, &found, observed) {
            Some(view) => {
                self.table.set_posix(ino, posix);
                Ok(self.shown(ino, &view.found, self.config.ttl))
            }
            None => {
                self.recent.distrust(&prefix, &view.name);
                Err(replaced(&view.name))
            }
        }
    }

    /// The newest version of the file `ino`, which is held open from [`Namespace::opened`] to [`Namespace::close`].
    ///
    /// [`FsError::Stale`] if the name means another version by now, or no file: the caller looks it up again.
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
        let (version, proof) = match self.table.take_fresh(ino, now) {
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
        Ok(OpenVersion {
            key,
            version,
            proof,
        })
    }

    /// What an open's HEAD of `ino` says: its version, or that it is stale.
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
        let observed = self.observed(asked, Duration::ZERO).vouching_for_none();
        let view = head.and_then(|found| self.table.observe(ino, &found, observed));
        match view.map(|view| view.found) {
            Some(Found::File(version)) => Ok(version),
            Some(Found::Directory) | None => {
                self.distrust(ino);
                Err(replaced(key.as_str()))
            }
        }
    }

    /// A handle of `ino` was opened. Returns whether one was before, in its version.
    pub fn opened(&self, ino: InodeNo) -> Result<bool, FsError> {
        self.table.open(ino)
    }

    /// A handle of `ino` was closed.
    pub fn close(&self, ino: InodeNo) {
        self.table.close(ino);
    }

    /// A read found out that `ino` is no longer what its name means: whoever comes next asks again, the kernel too.
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

    /// A listing of the directory `ino`, which is held open until [`Namespace::close`].
    pub fn open_directory(&self, ino: InodeNo) -> Result<Listing, FsError> {
        let prefix = self.table.directory_prefix(ino)?;
        self.table.open(ino)?;
        Ok(Listing::new(
            Arc::clone(&self.client),
            self.clock.clone(),
            prefix,
            &self.listing_ahead,
            &self.hidden,
        ))
    }

    /// `.` and `..` of the directory `ino`.
    pub fn dots(&self, ino: InodeNo) -> Result<[Entry; 2], FsError> {
        let view = self.table.view(ino)?;
        Ok([ino, view.parent].map(|ino| self.entry(ino, &Found::Directory, self.config.ttl)))
    }

    /// Hands out an entry that was listed on a page of `directory`, and raises its inode's lookup count by one.
    pub fn admit(
        &self,
        directory: InodeNo,
        listed: &Listed,
        page: &Page,
    ) -> Result<Entry, FsError> {
        let ttl = self.listed_ttl(listed, page);
        let observed = Observed {
            asked: page.asked.into(),
            valid_until: (self.clock.now() + ttl).into(),
            fresh_until: Moment::START,
        };
        let admitted = self
            .table
            .admit(directory, &listed.name, &listed.found, observed)?;
        Ok(self.entry(admitted.ino, &admitted.found, ttl))
    }

    /// An entry for a reply that carries no attributes. The number is that of the inode if there is one. If not, it
    /// is one that no inode has; which one a lookup will make of the name is not known yet.
    #[must_use]
    pub fn preview(&self, directory: InodeNo, listed: &Listed) -> Entry {
        let ino = self.table.child(directory, &listed.name);
        let ino = ino.filter(|_| !self.is_posix);
        let ino = ino.unwrap_or_else(|| provisional_ino(directory, &listed.name));
        let ino = if self.is_posix {
            ino.of_unknown_kind()
        } else {
            ino
        };
        self.entry(ino, &listed.found, Duration::ZERO)
    }

    /// Entries of `page` were handed out just now: for a while, lookups are answered from it.
    pub fn delivered(&self, directory: InodeNo, page: &Arc<Page>) {
        if self.is_posix || self.is_old(page) {
            return;
        }
        if let Ok(prefix) = self.table.directory_prefix(directory) {
            let now = self.clock.now();
            let valid_until = (now + self.config.ttl).into();
            self.recent
                .delivered(&prefix, page, now.into(), valid_until);
        }
    }

    /// Pages of listings that are held ahead of their readers or in the air.
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

    /// Names of at most `count` files that nobody uses, if there are too many inodes. An eighth more than there are too
    /// many, so that it is worth looking for them.
    #[must_use]
    pub fn surplus_names(&self, count: usize) -> Vec<StaleName> {
        let (len, max) = (self.table.len(), self.config.inodes_max);
        if len <= max {
            return Vec::new();
        }
        let surplus = len - (max - max / 8);
        self.table.idle_files(surplus.min(count), self.now())
    }

    /// How often a listing met a key that cannot be shown.
    #[must_use]
    pub fn hidden_keys(&self) -> u64 {
        self.hidden.count()
    }

    /// How long the kernel may keep the absence of a name.
    #[must_use]
    pub fn negative_ttl(&self) -> Duration {
        self.config.negative_ttl
    }

    /// Gives back memory that nobody needs any more.
    pub fn give_back_idle(&self) {
        self.recent.expire(self.now());
    }

    /// Asks S3 what `name` is, or waits with others who ask; that there is nothing is never older than the question. What else the answer tells is kept for other lookups.
    async fn find(&self, prefix: &str, name: &str) -> Result<Answer, FsError> {
        let key = names::file_key(prefix, name)?;
        let begin = || {
            let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
            let (recent, ttl) = (Arc::clone(&self.recent), self.config.ttl);
            let (key, prefix) = (key.clone(), prefix.to_owned());
            let is_posix = self.is_posix;
            async move {
                let asked = clock.now();
                let seen = lookup::find(&client, &prefix, &key).await?;
                let (found, posix) = if is_posix {
                    lookup::carried(&client, &key, seen.found).await?
                } else {
                    (seen.found, None)
                };
                let now = clock.now();
                for below in seen.below {
                    // A page that has nothing but the name itself helps no other lookup, and none says what objects
                    // carry.
                    if !is_posix && (*below.prefix != *prefix || below.entries.len() > 1) {
                        let entries = below.entries;
                        let page = Arc::new(Page { entries, asked });
                        recent.delivered(&below.prefix, &page, now.into(), (now + ttl).into());
                    }
                }
                Ok(Answer {
                    found,
                    posix,
                    asked,
                    took: now.saturating_sub(asked),
                })
            }
        };
        let mut is_own = false;
        let begin_own = || {
            is_own = true;
            begin()
        };
        let answer = self.lookups.join(key.clone(), begin_own).await?;
        if is_own || answer.found.is_some() {
            return Ok(answer);
        }
        // Others had asked before: what was written since is not in the answer. Whatever is in the air now is younger.
        self.lookups.join(key.clone(), begin).await
    }

    /// Lists the directory that `name` is in, if so many of its names are asked for that this is worth it, or if it is
    /// being listed for others. Only what was listed for this very lookup may say that a name is not there.
    async fn gather(&self, prefix: &Arc<str>, name: &str) -> Result<Option<Gathering>, FsError> {
        if self.is_posix {
            return Ok(None);
        }
        let is_asked = self.lookups.is_in_the_air(&names::file_key(prefix, name)?);
        if is_asked || !self.client.lists_in_order() {
            return Ok(None);
        }
        let began = self.clock.now();
        let is_in_the_air = self.gatherings.is_in_the_air(&**prefix);
        let start_after = if is_in_the_air {
            None
        } else {
            match self.crowds.miss(prefix, began) {
                Ask::Name => return Ok(None),
                Ask::Directory => None,
                Ask::DirectoryFromName => {
                    let mut stem = name.chars();
                    stem.next_back();
                    Some(format!("{prefix}{}", stem.as_str()))
                }
            }
        };
        let is_begun = !is_in_the_air;
        let begin = || self.list_for_lookups(Arc::clone(prefix), start_after);
        match self.gatherings.join(Arc::clone(prefix), begin).await {
            Ok(mut gathering) => {
                gathering.is_whole &= is_begun && gathering.page.asked >= began;
                Ok(Some(gathering))
            }
            // It was asked for the sake of others: this lookup asks for itself.
            Err(_) => Ok(None),
        }
    }

    /// One page of the directory `prefix`, which answers lookups from then on.
    fn list_for_lookups(
        &self,
        prefix: Arc<str>,
        start_after: Option<String>,
    ) -> impl Future<Output = Result<Gathering, FsError>> + Send + 'static {
        let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
        let (recent, crowds) = (Arc::clone(&self.recent), Arc::clone(&self.crowds));
        let ttl = self.config.ttl;
        async move {
            let asked = clock.now();
            let is_from_start = start_after.is_none();
            let request = ListRequest {
                prefix: prefix.to_string(),
                delimiter: Some("/".to_owned()),
                max_keys: Some(LIST_PAGE_KEYS),
                start_after,
                continuation_token: None,
            };
            let listed = client.list(request).await?;
            let is_last = listed.continuation_token.is_none();
            if !is_last {
                crowds.is_large(&prefix);
            }
            let mut below = Subtree::new(&listed, true).below(&prefix);
            below.retain(|below| below.prefix == prefix);
            let entries = below.pop().map(|below| below.entries).unwrap_or_default();
            let page = Arc::new(Page { entries, asked });
            let now = clock.now();
            recent.delivered(&prefix, &page, now.into(), (now + ttl).into());
            Ok(Gathering {
                page,
                is_whole: is_from_start && is_last,
            })
        }
    }

    /// Asks until the answer is newer than any change that this mount has made to the name. A file does not hide a
    /// directory that is kept; a directory that S3 knows need not be.
    async fn find_unchanged(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
    ) -> Result<Answer, FsError> {
        loop {
            let mut answer = self.find(prefix, name).await?;
            if self.changes.outdate(parent, name, answer.asked) {
                continue;
            }
            if let Some(ino) = self.table.child(parent, name) {
                match answer.found {
                    Some(Found::Directory) => self.table.unkeep(ino),
                    Some(Found::File(_)) if self.table.is_kept(ino) => answer.found = None,
                    Some(Found::File(_)) | None => {}
                }
            }
            return Ok(answer);
        }
    }

    /// What a page said of `name` a moment ago, unless this mount has changed it since.
    fn recently(&self, parent: InodeNo, prefix: &str, name: &str) -> Option<RecentEntry> {
        let recent = self.recent.find(prefix, name, self.now())?;
        let is_outdated = self.changes.outdate_moment(parent, name, recent.asked);
        (!is_outdated).then_some(recent)
    }

    /// Nothing in the bucket is called `name` any more in the directory `parent`, whose prefix is `prefix`. A directory
    /// that is kept stays, and is returned.
    fn gone(&self, parent: InodeNo, prefix: &str, name: &str, asked: Duration) -> Option<InodeNo> {
        self.recent.distrust(prefix, name);
        let ino = self.table.child(parent, name)?;
        if self.table.is_kept(ino) {
            return Some(ino);
        }
        self.table.detach_unless_newer(parent, name, asked.into());
        None
    }

    /// The reply to a lookup of a name that is not in the bucket.
    fn absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        asked: Duration,
    ) -> Result<Entry, FsError> {
        let ino = self
            .gone(parent, prefix, name, asked)
            .ok_or(FsError::NotFound)?;
        let kept = self.table.admit_kept(ino)?;
        Ok(self.entry(kept.ino, &kept.found, self.config.ttl))
    }

    /// Whether what a listing says of `listed` was changed by this mount since it was asked for.
    #[must_use]
    pub fn is_outdated(&self, directory: InodeNo, listed: &Listed, page: &Page) -> bool {
        self.changes.outdate(directory, &listed.name, page.asked)
    }

    fn now(&self) -> Moment {
        self.clock.now().into()
    }

    /// An answer that was asked for at `asked`, took `took`, and is handed out now.
    pub(super) fn observed(&self, asked: Duration, took: Duration) -> Observed {
        Observed {
            asked: asked.into(),
            valid_until: (self.clock.now() + self.config.ttl).into(),
            fresh_until: (asked + took + took.min(OPEN_FRESH_MAX)).into(),
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

    fn is_old(&self, page: &Page) -> bool {
        self.clock.now().saturating_sub(page.asked) > LISTING_AGE_MAX
    }
}

pub(super) fn replaced(what: &str) -> FsError {
    FsError::Stale(format!("{what} was replaced or deleted in the bucket"))
}

/// A number that no inode has: inodes are counted up from 1.
fn provisional_ino(directory: InodeNo, name: &str) -> InodeNo {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    (directory.0, name).hash(&mut hasher);
    InodeNo::provisional(hasher.finish())
}
