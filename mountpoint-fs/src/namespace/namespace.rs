//! Names turned into requests, and answers into inodes.
//!
//! How old an answer may be: a name or attributes that the kernel was told are answered for
//! [`DIRECTORY_TTL`]/[`FILE_TTL`] from then on; a name nobody has heard of is always asked for; and `open` asks S3 for
//! the newest version, unless the `lookup` of the same system call has just done so. The kernel does not say which
//! lookup that was, so each vouches for the one open that comes first, and for no longer than it took itself: an
//! upload that was begun after the lookup takes about as long. An `open` can miss no more than an upload that ended
//! while some lookup of the same name was under way.
//!
//! An object that was replaced gets a new inode, so neither the kernel's page cache nor its idea of the size can mix
//! two versions. When `open` notices, it says [`FsError::Stale`]; Linux then looks the path up again, trusting
//! nothing, and opens what it finds. The application sees none of this.
//!
//! Holds no lock of its own: the table, the recent pages and the joins have theirs, one taken at a time.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use mountpoint_client::types::{Key, ObjectInfo};
use mountpoint_client::{ClientError, ErrorKind, ObjectClient};

use super::attributes::AttributeStyle;
use super::inode::{Moment, Observed};
use super::inode_table::{InodeTable, View};
use super::joined::Joins;
use super::listing::Listing;
use super::lookup::{self, Answer};
use super::names;
use super::page::{Listed, Page};
use super::recent::RecentPages;
use super::version::{Found, Version};
use super::writing::being_written;
use crate::clock::Clock;
use crate::config::FsConfig;
use crate::config::limits::{DIRECTORY_TTL, FILE_TTL, LISTING_AGE_MAX, OPEN_FRESH_MAX};
use crate::operation::{Attributes, Entry, FsError, InodeNo};

/// All names of a mount.
#[derive(Debug)]
pub struct Namespace {
    pub(super) client: Arc<dyn ObjectClient>,
    pub(super) clock: Clock,
    pub(super) style: AttributeStyle,
    pub(super) table: InodeTable,
    pub(super) recent: RecentPages,
    lookups: Joins<(InodeNo, Arc<str>), Result<Answer, FsError>>,
}

/// What is needed to read an open file. Its inode stays until [`Namespace::close`].
#[derive(Clone, Debug)]
pub struct OpenVersion {
    /// The object.
    pub key: Key,
    /// The version that was opened.
    pub version: Version,
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
        Self {
            client,
            clock,
            style: AttributeStyle::new(config, mounted),
            table: InodeTable::new(config.prefix.clone()),
            recent: RecentPages::default(),
            lookups: Joins::new(),
        }
    }

    /// Finds `name` in the directory `parent` and raises its inode's lookup count by one.
    pub async fn lookup(&self, parent: InodeNo, name: &OsStr) -> Result<Entry, FsError> {
        let name = names::parse(name)?;
        let now = self.now();
        if let Some(view) = self.table.admit_written(parent, name)? {
            return Ok(self.entry(&view, FILE_TTL));
        }
        if let Some(recent) = self.recent.find(parent, name, now) {
            let Listed { name, found, .. } = recent.listed;
            let observed = Observed {
                asked: recent.asked,
                valid_until: recent.valid_until,
                fresh_until: Moment::START,
            };
            let view = self.table.admit(parent, &name, &found, observed)?;
            return Ok(self.entry(&view, recent.valid_until.left(now)));
        }
        let name = Arc::from(name);
        let Answer { found, asked, took } = self.find(parent, &name).await?;
        let Some(found) = found else {
            self.gone(parent, &name, asked);
            return Err(FsError::NotFound);
        };
        let ttl = ttl(&found);
        let view = self
            .table
            .admit(parent, &name, &found, self.observed(asked, ttl, took))?;
        Ok(self.entry(&view, ttl))
    }

    /// Gives back `count` lookups of an inode.
    pub fn forget(&self, ino: InodeNo, count: u64) {
        self.table.forget(ino, count);
    }

    /// stat data of `ino`. An open file's are those of the version that was opened.
    pub async fn attributes(&self, ino: InodeNo) -> Result<Attributes, FsError> {
        let view = self.table.view(ino)?;
        let now = self.now();
        let left = view.observed.valid_until.left(now);
        if view.written.is_some() {
            return Ok(self.entry(&view, FILE_TTL).attributes);
        }
        if ino == InodeNo::ROOT || view.openers > 0 {
            return Ok(self.style.of(ino, &view.found, ttl(&view.found)));
        }
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        if !left.is_zero() {
            return Ok(self.style.of(ino, &view.found, left));
        }
        let Answer { found, asked, .. } = self.find(view.parent, &view.name).await?;
        let Some(found) = found else {
            self.gone(view.parent, &view.name, asked);
            return Err(FsError::NotFound);
        };
        // It vouches for no open: a long time may pass between a `stat` and an `open`.
        match self.table.observe(
            ino,
            &found,
            self.observed(asked, ttl(&found), Duration::ZERO)
                .vouching_for_none(),
        ) {
            Some(view) => Ok(self.style.of(ino, &view.found, ttl(&found))),
            None => {
                self.recent.distrust(view.parent, &view.name);
                Err(replaced(&view.name))
            }
        }
    }

    /// The newest version of the file `ino`, which is then held open until [`Namespace::close`].
    ///
    /// [`FsError::Stale`] if the name means another version by now, or no file: the caller looks it up again.
    pub async fn open(&self, ino: InodeNo) -> Result<OpenVersion, FsError> {
        let View {
            parent,
            name,
            found,
            written,
            is_attached,
            ..
        } = self.table.view(ino)?;
        if found == Found::Directory {
            return Err(FsError::IsADirectory);
        }
        if !is_attached {
            return Err(replaced(&name));
        }
        if written.is_some() {
            return Err(being_written(&name));
        }
        let key = names::file_key(&self.table.directory_prefix(parent)?, &name)?;
        let version = match self.table.take_fresh(ino, self.now()) {
            Some(version) => version,
            None => {
                let asked = self.clock.now();
                let head = self.client.head(&key).await;
                self.newest(ino, &key, head, asked)?
            }
        };
        if version.is_archived {
            return Err(FsError::Denied(format!(
                "{key} is archived; restore it to read it"
            )));
        }
        self.table.open(ino)?;
        Ok(OpenVersion { key, version })
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
        let observed = self
            .observed(asked, FILE_TTL, Duration::ZERO)
            .vouching_for_none();
        let view = head.and_then(|found| self.table.observe(ino, &found, observed));
        match view.map(|view| view.found) {
            Some(Found::File(version)) => Ok(version),
            Some(Found::Directory) | None => {
                self.distrust(ino);
                Err(replaced(key.as_str()))
            }
        }
    }

    /// A handle of `ino` was closed.
    pub fn close(&self, ino: InodeNo) {
        self.table.close(ino);
    }

    /// A read found out that `ino` is no longer what its name means: whoever comes next asks again.
    pub fn distrust(&self, ino: InodeNo) {
        if let Ok(view) = self.table.view(ino) {
            self.recent.distrust(view.parent, &view.name);
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
        ))
    }

    /// `.` and `..` of the directory `ino`.
    pub fn dots(&self, ino: InodeNo) -> Result<[Entry; 2], FsError> {
        let view = self.table.view(ino)?;
        Ok([ino, view.parent].map(|ino| {
            let attributes = self.style.directory(ino, DIRECTORY_TTL);
            Entry {
                attributes,
                ttl: DIRECTORY_TTL,
            }
        }))
    }

    /// Hands out an entry that was listed on a page of `directory`, and raises its inode's lookup count by one.
    pub fn admit(
        &self,
        directory: InodeNo,
        listed: &Listed,
        page: &Page,
    ) -> Result<Entry, FsError> {
        let ttl = self.listed_ttl(listed, page);
        let observed = self
            .observed(page.asked, ttl, Duration::ZERO)
            .vouching_for_none();
        let view = self
            .table
            .admit(directory, &listed.name, &listed.found, observed)?;
        Ok(self.entry(&view, ttl))
    }

    /// An entry for a reply that carries no attributes. The number is that of the inode if there is one. If not, it
    /// is one that no inode has; which one a lookup will make of the name is not known yet.
    #[must_use]
    pub fn preview(&self, directory: InodeNo, listed: &Listed) -> Entry {
        let ino = self.table.child(directory, &listed.name);
        let ino = ino.unwrap_or_else(|| provisional_ino(directory, &listed.name));
        Entry {
            attributes: self.style.of(ino, &listed.found, Duration::ZERO),
            ttl: Duration::ZERO,
        }
    }

    /// Entries of `page` were handed out just now: for a while, lookups are answered from it.
    pub fn delivered(&self, directory: InodeNo, page: &Arc<Page>) {
        if !self.is_old(page) {
            let now = self.clock.now();
            self.recent.delivered(
                directory,
                page,
                now.into(),
                (now + FILE_TTL.min(DIRECTORY_TTL)).into(),
            );
        }
    }

    /// How many inodes there are besides the root: those the kernel knows and those that are open.
    #[must_use]
    pub fn inode_count(&self) -> usize {
        self.table.len()
    }

    /// Asks S3 what `name` is, or waits with others who ask.
    async fn find(&self, parent: InodeNo, name: &Arc<str>) -> Result<Answer, FsError> {
        let key = names::file_key(&self.table.directory_prefix(parent)?, name)?;
        let begin = || {
            let (client, clock) = (Arc::clone(&self.client), self.clock.clone());
            async move {
                let asked = clock.now();
                let found = lookup::find(&*client, &key).await?;
                let took = clock.now().saturating_sub(asked);
                Ok(Answer { found, asked, took })
            }
        };
        self.lookups.join((parent, Arc::clone(name)), begin).await
    }

    /// Nothing was called `name` when S3 was asked.
    fn gone(&self, parent: InodeNo, name: &str, asked: Duration) {
        self.recent.distrust(parent, name);
        self.table.detach_unless_newer(parent, name, asked.into());
    }

    fn now(&self) -> Moment {
        self.clock.now().into()
    }

    /// An answer that was asked for at `asked`, took `took`, and is handed out now.
    fn observed(&self, asked: Duration, ttl: Duration, took: Duration) -> Observed {
        let valid_until = (self.clock.now() + ttl).into();
        Observed {
            asked: asked.into(),
            valid_until,
            fresh_until: (asked + took + took.min(OPEN_FRESH_MAX)).into(),
        }
    }

    pub(super) fn entry(&self, view: &View, ttl: Duration) -> Entry {
        let attributes = match &view.written {
            Some(progress) => self.style.written(view.ino, progress, ttl),
            None => self.style.of(view.ino, &view.found, ttl),
        };
        Entry { attributes, ttl }
    }

    fn listed_ttl(&self, listed: &Listed, page: &Page) -> Duration {
        if listed.is_certain && !self.is_old(page) {
            ttl(&listed.found)
        } else {
            Duration::ZERO
        }
    }

    fn is_old(&self, page: &Page) -> bool {
        self.clock.now().saturating_sub(page.asked) > LISTING_AGE_MAX
    }
}

fn ttl(found: &Found) -> Duration {
    match found {
        Found::Directory => DIRECTORY_TTL,
        Found::File(_) => FILE_TTL,
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
    InodeNo(hasher.finish() | 1 << 63)
}
