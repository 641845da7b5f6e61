//! Changes made through this mount, told to the names.
//!
//! A [`NameChange`] is made before the request that changes a name. Whatever becomes of the request, even if nobody
//! waits for its answer, nothing that S3 was asked for before is believed of that name afterwards.

use std::ffi::OsStr;
use std::pin::pin;
use std::sync::Arc;

use futures::future::select;
use mountpoint_client::types::Key;

use super::inode::{Moment, Observed};
use super::motion::{InMotion, Taking};
use super::names;
use super::namespace::Namespace;
use super::version::{Found, Version};
use super::writing::being_written;
use crate::config::limits::RENAME_WAIT_MAX;
use crate::operation::{Entry, FsError, InodeNo, PosixAttributes, Stop};

/// A name that is about to be changed.
#[derive(Debug)]
pub struct NameChange<'a> {
    namespace: &'a Namespace,
    directory: InodeNo,
    /// The directory's prefix.
    prefix: String,
    name: Arc<str>,
    key: Key,
    known: Option<(InodeNo, Found)>,
    is_open: bool,
}

impl Namespace {
    /// The name `name` in `directory`, to be changed. [`FsError::Busy`] if it is being taken away.
    pub fn change(&self, directory: InodeNo, name: &OsStr) -> Result<NameChange<'_>, FsError> {
        let change = self.change_in_motion(directory, name)?;
        self.motions.hold().check(&change.key)?;
        Ok(change)
    }

    /// Two names that a rename is about to take away. It waits for what is being removed below them, unless it is asked to
    /// `stop`; [`FsError::Busy`] if another rename is in the way, or if something was being removed at every moment for so
    /// long.
    pub async fn taken_by_rename(
        &self,
        from: (InodeNo, &OsStr),
        to: (InodeNo, &OsStr),
        stop: &Stop,
    ) -> Result<InMotion<'_>, FsError> {
        let begun = self.clock.now();
        loop {
            let (ended, asked) = (pin!(self.motions.ended()), pin!(stop.asked()));
            let keys = vec![self.key_of_name(from)?, self.key_of_name(to)?];
            if let Some(taken) = self.motions.begin(keys, Taking::Rename)? {
                return Ok(taken);
            }
            stop.check()?;
            if self.clock.now().saturating_sub(begun) >= RENAME_WAIT_MAX {
                return Err(FsError::Busy(format!(
                    "{}: for {} s something was being removed there, or below it: try again when that is done",
                    self.key_of_name(from)?,
                    RENAME_WAIT_MAX.as_secs()
                )));
            }
            select(ended, asked).await;
        }
    }

    /// A name that a removal is about to take away. [`FsError::Busy`] if a rename is in the way.
    pub fn taken_by_removal(
        &self,
        directory: InodeNo,
        name: &OsStr,
    ) -> Result<InMotion<'_>, FsError> {
        let key = self.key_of_name((directory, name))?;
        let taken = self.motions.begin(vec![key], Taking::Removal)?;
        Ok(taken.expect("a removal waits for nothing"))
    }

    fn key_of_name(&self, (directory, name): (InodeNo, &OsStr)) -> Result<Key, FsError> {
        let prefix = self.table.directory_prefix(directory)?;
        names::file_key(&prefix, names::parse(name)?)
    }

    /// The name `name` in `directory`, to be changed by who holds it in motion.
    pub fn change_in_motion(
        &self,
        directory: InodeNo,
        name: &OsStr,
    ) -> Result<NameChange<'_>, FsError> {
        let name: Arc<str> = Arc::from(names::parse(name)?);
        let prefix = self.table.directory_prefix(directory)?;
        let key = names::file_key(&prefix, &name)?;
        let known = self.table.child(directory, &name);
        let known = match known {
            Some(ino) => {
                let view = self.table.view(ino)?;
                if view.is_written {
                    return Err(being_written(&name));
                }
                Some((ino, view.found))
            }
            None => None,
        };
        Ok(NameChange {
            namespace: self,
            directory,
            prefix,
            name,
            key,
            known,
            is_open: true,
        })
    }

    /// The name that `ino` has, to be changed. [`FsError::Stale`] if it has none any more.
    pub fn change_inode(&self, ino: InodeNo) -> Result<NameChange<'_>, FsError> {
        let view = self.table.view(ino)?;
        if !view.is_attached {
            return Err(FsError::Stale(format!(
                "{} was replaced or deleted",
                view.name
            )));
        }
        self.change(view.parent, OsStr::new(&*view.name))
    }

    /// The object of `ino` says this of itself, or will when it is stored.
    pub fn carries(&self, ino: InodeNo, posix: PosixAttributes) {
        self.table.set_posix(ino, Some(posix));
    }

    /// Which key `ino` is about, for the log; that of `name` in it, if there is one. `None` if it is not known any more.
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

impl NameChange<'_> {
    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key of a file of this name.
    #[must_use]
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The prefix of a directory of this name.
    pub fn prefix(&self) -> Result<String, FsError> {
        names::directory_prefix(&self.key).ok_or(FsError::NameTooLong)
    }

    /// What the name was last known to be.
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

    /// Whether a directory of this name holds directories that no key need say are there.
    #[must_use]
    pub fn has_kept_children(&self) -> bool {
        self.known
            .as_ref()
            .is_some_and(|(ino, _)| !self.namespace.table.kept_children(*ino).is_empty())
    }

    /// Nothing has the name any more. The directory stays, as on any other file system.
    pub fn removed(mut self) {
        let Self {
            namespace,
            directory,
            ..
        } = self;
        self.settle();
        namespace.table.keep(directory);
        if let Some((ino, _)) = self.known {
            namespace.table.take_name(ino);
        }
    }

    /// The name is a directory now: one that a key says is there, or one that is kept.
    pub fn made_directory(mut self, is_kept: bool) -> Result<Entry, FsError> {
        self.settle();
        let namespace = self.namespace;
        let now = namespace.clock.now();
        let observed = namespace.observed(now, now);
        let ino = namespace
            .table
            .make_directory(self.directory, &self.name, observed, is_kept)?;
        Ok(namespace.entry(ino, &Found::Directory, namespace.config.ttl))
    }

    /// What had the name has the name `to` now. `version` is that of a file under its new name.
    pub fn moved(
        mut self,
        mut to: NameChange<'_>,
        version: Option<Version>,
    ) -> Result<(), FsError> {
        let (ino, _) = self.known.clone().ok_or(FsError::NotFound)?;
        self.settle();
        to.settle();
        let namespace = self.namespace;
        if version.is_none() {
            namespace.recent.forget_below(&format!("{}/", self.key));
            namespace.recent.forget_below(&format!("{}/", to.key));
        }
        let version = version.as_ref().map(|version| (version, self.unseen()));
        namespace.table.keep(self.directory);
        namespace.table.rename(ino, to.directory, &to.name, version)
    }

    /// A file that had the name has the name `to` now, in a version that somebody else had written: what is known of it, and
    /// the pages that the kernel has, are of another one.
    pub fn moved_unseen(mut self, mut to: NameChange<'_>) {
        self.settle();
        to.settle();
        let namespace = self.namespace;
        namespace.table.keep(self.directory);
        for (ino, _) in self.known.iter().chain(&to.known) {
            namespace.table.take_name(*ino);
        }
    }

    /// The file has another version now: its bytes are the same as far as both have any.
    pub fn replaced_in_place(mut self, version: Version) -> Result<(), FsError> {
        let (ino, _) = self.file()?;
        self.settle();
        self.namespace.table.replace(ino, &version, self.unseen())
    }

    /// The object that marks the directory says something else: whoever asks about it asks S3.
    pub fn changed(mut self) {
        self.settle();
        if let Some((ino, _)) = &self.known {
            self.namespace.table.invalidate(*ino);
        }
    }

    /// When the server says that a new version was written is not known yet: the next who asks is told.
    fn unseen(&self) -> Observed {
        let now = self.namespace.clock.now().into();
        Observed {
            asked: now,
            valid_until: now,
            fresh_until: Moment::START,
        }
    }

    /// From now on older answers are not believed.
    fn settle(&mut self) {
        self.is_open = false;
        let namespace = self.namespace;
        namespace
            .changes
            .record(self.directory, &self.name, namespace.clock.now());
        namespace.recent.changed(&self.prefix, &self.name);
        namespace.details.forget(&self.key);
    }
}

impl Drop for NameChange<'_> {
    /// Nobody knows what became of the change: the next who asks about the name asks S3.
    fn drop(&mut self) {
        if self.is_open {
            self.settle();
            if let Some((ino, _)) = self.known {
                self.namespace.table.invalidate(ino);
            }
        }
    }
}
