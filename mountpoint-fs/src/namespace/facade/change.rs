//! Changes made through this mount, told to the names.
//!
//! A [`NameChange`] is made before the request that changes a name. Whatever becomes of the
//! request, even if nobody waits for its answer, nothing that S3 was asked for before is believed
//! of that name afterwards.

use std::ffi::OsStr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::future::select;
use mountpoint_client::types::Key;

use super::Namespace;
use crate::config::limits::FILE_TTL;
use crate::namespace::change::{AtRest, KeyLockGuard, Moving};
use crate::namespace::inodes::Observed;
use crate::namespace::listing::News;
use crate::namespace::names;
use crate::namespace::refusals::replaced;
use crate::namespace::version::{Found, Version};
use crate::operation::{Entry, FsError, InodeNo, PosixAttributes, Stop};

/// Where a name is.
#[derive(Debug)]
struct Place {
    directory: InodeNo,
    /// The directory's prefix.
    prefix: String,
    name: Arc<str>,
    /// The key of a file of this name.
    key: Key,
}

/// The marker of a directory that this mount has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectoryMarker {
    /// No marker: this mount remembers the directory.
    None,
    /// A marker that waits for its upload.
    Pending,
    /// A marker in the bucket.
    Stored,
}

/// A name that is about to be changed.
#[derive(Debug)]
pub struct NameChange<'a> {
    namespace: &'a Namespace,
    place: Place,
    known: Option<(InodeNo, Found)>,
    /// Ends after the names were told of the change, or later if it is taken; a rename has its own,
    /// of both names.
    lock: Option<KeyLockGuard<'a>>,
    is_open: bool,
}

impl Namespace {
    /// The name `name` in `directory`, to be changed in its place. A rename of it, or of a
    /// directory above, waits until the change is over. [`FsError::InMotion`] if it is being taken
    /// away.
    pub fn change(&self, directory: InodeNo, name: &OsStr) -> Result<NameChange<'_>, FsError> {
        self.begin_change((directory, name), Moving::Change, self.key_locks.hold())
    }

    /// The name `name` in `directory`, to be removed. A rename of it, or of a directory above,
    /// waits until that is over. [`FsError::InMotion`] if a rename is in the way.
    pub fn removal(&self, directory: InodeNo, name: &OsStr) -> Result<NameChange<'_>, FsError> {
        self.begin_change((directory, name), Moving::Removal, self.key_locks.hold())
    }

    /// Whether this mount removed the name of `ino`, or gave it to another file.
    #[must_use]
    pub fn is_removed(&self, ino: InodeNo) -> bool {
        self.table.is_removed(ino)
    }

    /// The name that `ino` has, to be changed in its place. [`FsError::Stale`] if it has none any
    /// more.
    pub fn change_inode(&self, ino: InodeNo) -> Result<NameChange<'_>, FsError> {
        let at_rest = self.key_locks.hold();
        let view = self.table.view(ino)?;
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        let name = OsStr::new(&*view.name);
        self.begin_change((view.parent, name), Moving::Change, at_rest)
    }

    /// The key of the file `ino`. [`FsError::Stale`] if it has no name any more,
    /// [`FsError::InMotion`] if the name is being taken away.
    pub fn file_key_of(&self, ino: InodeNo) -> Result<Key, FsError> {
        let at_rest = self.key_locks.hold();
        let view = self.table.view(ino)?;
        if !view.is_attached {
            return Err(replaced(&view.name));
        }
        match self.table.changeable(view.parent, &view.name)? {
            Some((_, Found::File(_))) => {}
            Some((_, Found::Directory)) => return Err(FsError::IsADirectory),
            None => return Err(replaced(&view.name)),
        }
        let key = names::file_key(&self.table.directory_prefix(view.parent)?, &view.name)?;
        at_rest.check(&key)?;
        Ok(key)
    }

    fn begin_change<'a>(
        &'a self,
        name: (InodeNo, &OsStr),
        what: Moving,
        at_rest: AtRest<'a>,
    ) -> Result<NameChange<'a>, FsError> {
        let place = self.place_of(name)?;
        let lock = at_rest.begin(vec![place.key.clone()], what)?;
        let lock = lock.expect("only a rename waits");
        self.change_at(place, Some(lock))
    }

    /// Two names that a rename is about to take away. It waits for what is being changed or removed
    /// below them, unless it is asked to `stop`; [`FsError::InMotion`] if another rename is in the
    /// way, [`FsError::Busy`] if there was something at every moment for so long.
    pub async fn taken_by_rename(
        &self,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        stop: &Stop,
    ) -> Result<KeyLockGuard<'_>, FsError> {
        let begun = self.clock.now();
        loop {
            let (ended, asked) = (pin!(self.key_locks.ended()), pin!(stop.asked()));
            if let Some(taken) = self.try_to_take(from, to)? {
                return Ok(taken);
            }
            stop.check()?;
            if self.clock.now().saturating_sub(begun) >= RENAME_WAIT_MAX {
                return Err(FsError::Busy(format!(
                    "{}: for {} s something was being changed or removed there, or below it: try again when that is done",
                    self.place_of(from)?.key,
                    RENAME_WAIT_MAX.as_secs()
                )));
            }
            select(ended, asked).await;
        }
    }

    fn try_to_take(
        &self,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
    ) -> Result<Option<KeyLockGuard<'_>>, FsError> {
        let at_rest = self.key_locks.hold();
        let keys = vec![self.place_of(from)?.key, self.place_of(to)?.key];
        at_rest.begin(keys, Moving::Rename)
    }

    /// Waits until a change, a removal or a rename ends, or the time is to be checked.
    pub fn motion_ended(&self) -> impl Future<Output = ()> + Send + '_ {
        self.key_locks.ended()
    }

    fn place_of(&self, (directory, name): (InodeNo, &OsStr)) -> Result<Place, FsError> {
        let name = names::parse(name)?;
        let prefix = self.table.directory_prefix(directory)?;
        Ok(Place {
            directory,
            key: names::file_key(&prefix, name)?,
            prefix,
            name: Arc::from(name),
        })
    }

    /// The name `name` in `directory`, to be changed by the holder of its key lock.
    pub fn change_locked(
        &self,
        directory: InodeNo,
        name: &OsStr,
    ) -> Result<NameChange<'_>, FsError> {
        self.change_at(self.place_of((directory, name))?, None)
    }

    fn change_at<'a>(
        &'a self,
        place: Place,
        lock: Option<KeyLockGuard<'a>>,
    ) -> Result<NameChange<'a>, FsError> {
        let known = self.table.changeable(place.directory, &place.name)?;
        // The disk is told while S3 is asked: nobody waits for both.
        self.known.saved.changed(place.key.as_str());
        if let Some((_, Found::Directory)) = known
            && let Some(below) = names::directory_prefix(&place.key)
        {
            self.known.saved.changed(&below);
        }
        Ok(NameChange {
            namespace: self,
            place,
            known,
            lock,
            is_open: true,
        })
    }

    /// The object of `ino` says this of itself, or will when it is stored.
    pub fn set_posix(&self, ino: InodeNo, posix: PosixAttributes) {
        self.table.set_posix(ino, Some(posix));
    }

    /// The mode of `ino` that its object keeps; `None` if that is not known, or keeps none.
    #[must_use]
    pub fn stored_mode(&self, ino: InodeNo) -> Option<u16> {
        self.table.posix(ino)?.mode
    }

    /// The group of the directory `ino`, if it passes that on to what is made in it.
    #[must_use]
    pub fn passed_group(&self, ino: InodeNo) -> Option<u32> {
        let posix = self.table.posix(ino).filter(|_| self.is_posix)?;
        let passes = posix.mode.is_some_and(|mode| mode & SET_GROUP_ID != 0);
        passes.then(|| posix.gid.unwrap_or_else(|| self.style.gid()))
    }

    /// Which key `ino` is about, for the log; that of `name` in it, if there is one. `None` if it
    /// is forgotten.
    #[must_use]
    pub fn key_text(&self, ino: InodeNo, name: Option<&OsStr>) -> Option<String> {
        let mut key = if ino == InodeNo::ROOT {
            self.table.directory_prefix(ino).ok()?
        } else {
            let view = self.table.view(ino).ok()?;
            let mut key = self.table.directory_prefix(view.parent).ok()?.to_string();
            key.push_str(&view.name);
            if view.found == Found::Directory {
                key.push('/');
            }
            key
        };
        if let Some(name) = name {
            key.push_str(&name.to_string_lossy());
        }
        Some(key)
    }

    /// The name of `ino`, its parent's number and its key.
    pub fn prefix_of(&self, ino: InodeNo) -> Result<String, FsError> {
        self.table.directory_prefix(ino)
    }

    /// Directories in `directory` that no key need say are there.
    #[must_use]
    pub fn kept_children(&self, directory: InodeNo) -> Vec<Arc<str>> {
        self.table.kept_children(directory)
    }
}

impl<'a> NameChange<'a> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.place.name
    }

    /// The key of a file of this name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.place.key
    }

    /// The prefix of a directory of this name.
    pub fn prefix(&self) -> Result<String, FsError> {
        names::directory_prefix(&self.place.key).ok_or(FsError::NameTooLong)
    }

    /// The last known object of the name.
    #[must_use]
    pub fn known(&self) -> Option<&(InodeNo, Found)> {
        self.known.as_ref()
    }

    /// The file of this name, or why it is none.
    pub fn file(&self) -> Result<(InodeNo, &Version), FsError> {
        match &self.known {
            Some((ino, Found::File(version))) => Ok((*ino, version)),
            Some((_, Found::Directory)) => Err(FsError::IsADirectory),
            None => Err(FsError::NotFound),
        }
    }

    /// Whether S3 need not be asked what the name is, besides what is known of it: the directory is
    /// one that this mount has made a moment ago.
    #[must_use]
    pub fn is_own(&self) -> bool {
        self.namespace.known.own_since(&self.place.prefix).is_some()
    }

    /// Whether S3 was not asked about the name just before: a server that ignores conditions has to
    /// be, before an object of it is made.
    #[must_use]
    pub fn is_unasked(&self) -> bool {
        self.is_own() || self.namespace.known.is_unasked(&self.place.key)
    }

    /// Whether this mount has made the directory of this name a moment ago, and no marker of it so
    /// far: the caller makes one, and the answer is another one from then on.
    pub fn takes_marker(&self) -> bool {
        let below = names::directory_prefix(&self.place.key);
        below.is_some_and(|below| self.namespace.known.takes_marker(&below))
    }

    /// Whether nothing is known to be in a directory of this name that no key need say is there: a
    /// directory that is kept, or a change in progress below it.
    #[must_use]
    pub fn seems_empty(&self) -> bool {
        let is_still = self
            .namespace
            .key_locks
            .hold()
            .is_still_below(&self.place.key);
        is_still && !self.has_kept_children()
    }

    /// `key` is in the directory of this name, which was to be removed. Tells the log if a program
    /// that removes a whole tree cannot have seen it: it was hidden by a directory of its name,
    /// which this mount has removed.
    pub fn tell_of_unseen(&self, key: &str) {
        let namespace = self.namespace;
        let Ok(prefix) = self.prefix() else {
            return;
        };
        let is_file = |name: &&str| !name.is_empty() && !name.contains('/');
        let Some(name) = key.strip_prefix(&prefix).filter(is_file) else {
            return;
        };
        // A file that the mount knows was made or seen through it.
        let is_known = (self.known.as_ref())
            .is_some_and(|(ino, _)| namespace.table.child(*ino, name).is_some());
        let is_hidden = !is_known && namespace.known.changes.has(key);
        if is_hidden && namespace.hidden.is_news(News::Unseen, &prefix) {
            tracing::warn!(
                "{prefix} is not removed: {key} was hidden by a directory of its name until that was removed, or was made \
                 since; it is a file now, which the same `rm -r` again removes"
            );
        }
    }

    /// Whether a directory of this name holds directories that no key need say are there.
    #[must_use]
    pub fn has_kept_children(&self) -> bool {
        self.known
            .as_ref()
            .is_some_and(|(ino, _)| !self.namespace.table.kept_children(*ino).is_empty())
    }

    /// Nothing has the name now. The directory stays, as on any other file system.
    pub fn removed(mut self) {
        let namespace = self.namespace;
        self.settle();
        if let Some(below) = names::directory_prefix(&self.place.key) {
            namespace.known.forget_own(&below);
        }
        namespace.table.keep(self.place.directory);
        namespace.names_changed(self.place.directory);
        if let Some((ino, _)) = self.known {
            namespace.table.take_name(ino);
        }
        namespace
            .known
            .taken_away(&self.place.prefix, &self.place.key);
    }

    /// The name is a directory now, whose marker is in the bucket, or which is kept. The marker
    /// says `carried` of it. A rename waits as long as the returned guard is held.
    pub fn made_directory(
        mut self,
        marker: DirectoryMarker,
        carried: Option<PosixAttributes>,
    ) -> Result<(Entry, Option<KeyLockGuard<'a>>), FsError> {
        let (namespace, place) = (self.namespace, &self.place);
        let is_marked = marker != DirectoryMarker::None;
        let named = (&*place.prefix, &*place.name);
        namespace
            .known
            .makes_directory(named, &place.key, is_marked);
        self.settle();
        let now = namespace.clock.now();
        namespace.resolver.batching.made(&self.place.prefix, now);
        let observed = namespace.observed(now, now);
        let ino = namespace.table.make_directory(
            self.place.directory,
            &self.place.name,
            observed,
            marker != DirectoryMarker::Stored,
        )?;
        namespace.table.set_posix(ino, carried);
        namespace.names_changed(self.place.directory);
        if carried.is_none() {
            // A marker has the time.
            namespace.names_changed(ino);
        }
        let entry = namespace.entry(ino, &Found::Directory, namespace.config.ttl);
        Ok((entry, self.lock.take()))
    }

    /// The name is a file now, which one request has stored as `version`, and which may say of
    /// itself what it is.
    pub fn made_file(
        mut self,
        version: Version,
        carried: Option<PosixAttributes>,
    ) -> Result<Entry, FsError> {
        self.settle();
        let namespace = self.namespace;
        let now = namespace.clock.now();
        namespace.resolver.batching.made(&self.place.prefix, now);
        let (found, observed) = (Found::File(version), namespace.observed(now, now));
        let admitted =
            namespace
                .table
                .admit(self.place.directory, &self.place.name, &found, observed)?;
        namespace.table.set_posix(admitted.ino, carried);
        namespace.names_changed(self.place.directory);
        Ok(namespace.entry(admitted.ino, &admitted.found, namespace.config.ttl))
    }

    /// The name is a file now: a copy of `file` in the bucket. Returns the inode number that `stat`
    /// shows of it at first, too, for a second at most.
    pub fn made_link(
        self,
        file: InodeNo,
        version: Version,
        carried: Option<PosixAttributes>,
    ) -> Result<(Entry, InodeNo), FsError> {
        let namespace = self.namespace;
        let mut entry = self.made_file(version, carried)?;
        entry.attributes.ttl = entry.attributes.ttl.min(FILE_TTL);
        let link = entry.attributes.ino;
        Ok((entry, namespace.link_numbers.linked(file, link)))
    }

    /// The object that had the name has the name `to` now. `version` is a file's version under its
    /// new name.
    pub fn moved(
        mut self,
        mut to: NameChange<'_>,
        version: Option<Version>,
    ) -> Result<(), FsError> {
        let (ino, _) = self.known.clone().ok_or(FsError::NotFound)?;
        self.settle();
        to.settle();
        let namespace = self.namespace;
        match version {
            Some(_) => namespace
                .known
                .taken_away(&self.place.prefix, &self.place.key),
            None => {
                self.settle_below();
                to.settle_below();
            }
        }
        let version = version.as_ref().map(|version| (version, self.unseen()));
        namespace.table.keep(self.place.directory);
        for directory in [self.place.directory, to.place.directory] {
            namespace.names_changed(directory);
        }
        namespace
            .table
            .rename(ino, to.place.directory, &to.place.name, version)
    }

    /// A file that had the name has the name `to` now, in a version that somebody else had written:
    /// what is known of it, and the pages that the kernel has, are of another one.
    pub fn moved_unseen(mut self, mut to: NameChange<'_>) {
        self.settle();
        to.settle();
        let namespace = self.namespace;
        namespace.table.keep(self.place.directory);
        for directory in [self.place.directory, to.place.directory] {
            namespace.names_changed(directory);
        }
        for (ino, _) in self.known.iter().chain(&to.known) {
            namespace.table.take_name(*ino);
        }
    }

    /// The file has another version now: its bytes are the same as far as both have any. A rename
    /// waits for the returned lock: a caller that tells the file's attributes asks S3, under the
    /// name that the file has.
    pub fn replaced_in_place(
        mut self,
        version: Version,
    ) -> Result<Option<KeyLockGuard<'a>>, FsError> {
        let (ino, _) = self.file()?;
        self.settle();
        self.namespace.table.replace(ino, &version, self.unseen())?;
        Ok(self.lock.take())
    }

    /// The name is another object's now, or the object that marks the directory says something
    /// else: the next question about it goes to S3, but for a directory that this mount has just
    /// made, of which it knows that. A rename waits for what this gives back, as
    /// behind [`Self::replaced_in_place`].
    #[must_use]
    pub fn changed(mut self) -> Option<KeyLockGuard<'a>> {
        self.settle();
        if let Some((ino, _)) = &self.known {
            self.namespace.table.invalidate(*ino);
        }
        self.lock.take()
    }

    /// The time that the server gives to a new version is not known yet: the next question tells.
    fn unseen(&self) -> Observed {
        let now = self.namespace.clock.now().into();
        Observed::new(now, now)
    }

    /// From now on older answers are not believed.
    fn settle(&mut self) {
        self.is_open = false;
        let namespace = self.namespace;
        namespace.known.changed(self.place.key.as_str());
        namespace.details.forget(&self.place.key);
    }

    /// Settles all names below a directory of this name.
    fn settle_below(&self) {
        let directory = format!("{}/", self.place.key);
        let namespace = self.namespace;
        namespace.known.changed(&directory);
        namespace.known.pages.forget_below(&directory);
    }
}

impl Drop for NameChange<'_> {
    /// The outcome of the change is unknown: the next look-up of the name asks S3.
    fn drop(&mut self) {
        if self.is_open {
            self.settle();
            self.namespace.known.forget_own(&self.place.prefix);
            // A rename of a directory that stopped halfway has moved some of what is below both
            // names.
            if !matches!(self.known, Some((_, Found::File(_)))) {
                self.settle_below();
            }
            if let Some((ino, _)) = self.known {
                self.namespace.table.invalidate(ino);
            }
        }
    }
}

/// The permission bit of a directory that passes its group on.
const SET_GROUP_ID: u16 = 0o2000;

/// How long a rename waits for operations below its names before it fails with `EBUSY`.
///
/// Normal requests take less. Meanwhile the kernel locks both parent directories, which blocks
/// lookups in them. The rename checks the time whenever an operation ends, and every
/// [`READER_IDLE`](crate::config::limits::READER_IDLE).
pub(crate) const RENAME_WAIT_MAX: Duration = Duration::from_secs(10);
