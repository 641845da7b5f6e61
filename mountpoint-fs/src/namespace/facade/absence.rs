//! Names that are known to be absent, and whether that is enough for an answer.
//!
//! While it looks a new name up and makes a file of it, the kernel keeps everybody else from making
//! one in the same directory. So a LIST for each name would be all that a directory of new files
//! waits for. A call that makes a file wants the name to be there: what S3 said of the names around
//! it, a moment ago, is enough, because the file is stored on the condition that nobody else has
//! made it ([`is_unasked`](Namespace::is_unasked)). A call that only looks hears what S3 says now.
//!
//! Holds no lock across an await. Runs on whatever thread polls it.

use std::ffi::OsStr;
use std::sync::Arc;
use std::time::Duration;

use mountpoint_client::types::Key;

use super::Namespace;
use crate::namespace::listing::page::Page;
use crate::namespace::names;
use crate::namespace::resolve::Absence;
use crate::operation::{Entry, FsError, InodeNo};

impl Namespace {
    /// When S3 was asked that knew nothing of `name`, if that is not too old for a caller that
    /// makes the name.
    pub(super) fn known_absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
    ) -> Option<Duration> {
        let age_max = self.config.create_ttl;
        if age_max.is_zero() || !self.client.lists_in_order() {
            return None;
        }
        let key = names::file_key(prefix, name).ok()?;
        let listed = self.recent.absent(prefix, name, self.now(), age_max);
        let asked = listed.max(self.told_absent(&key))?;
        let is_outdated = self.local_changes.invalidates(prefix, name, asked)
            || self.table.is_known_since(parent, name, asked.into());
        (!is_outdated).then_some(asked)
    }

    /// When S3 was asked that knew nothing of `key` alone, if that is not too old for a caller that
    /// makes the name.
    fn told_absent(&self, key: &Key) -> Option<Duration> {
        let Absence { asked, .. } = self.negative.of(key.as_str())?;
        let age = self.clock.now().saturating_sub(asked);
        (age < self.config.create_ttl).then_some(asked)
    }

    /// Whether the program that makes the file `key` was told that it is absent, and S3 was not
    /// asked then.
    pub(crate) fn is_unasked(&self, key: &Key) -> bool {
        self.negative.may_be_remembered(key.as_str())
    }

    /// A directory is made of `key`, which is a name of the directory `prefix`: where nothing was,
    /// nothing is below it.
    pub(super) fn nothing_below(&self, prefix: &str, name: &str, key: &Key) {
        let (Some(below), Some(asked)) = (names::directory_prefix(key), self.told_absent(key))
        else {
            return;
        };
        if !self.local_changes.invalidates(prefix, name, asked) {
            let page = Arc::new(Page::whole(Vec::new(), asked));
            let valid_until = (asked + self.config.ttl).into();
            self.recent
                .delivered(&below, &page, self.now(), valid_until);
        }
    }

    /// When a listing was asked for that does not have `name`, if the mount may answer from it: it
    /// was told how old the absence of a name may be, or the directory is its own.
    pub(super) fn recently_absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
    ) -> Option<Duration> {
        let age_max = self.config.negative_ttl;
        let listed = match age_max.is_zero() {
            true => None,
            false => self.recent.absent(prefix, name, self.now(), age_max),
        };
        let asked = listed.max(self.own_absent(prefix, name))?;
        let is_outdated = self.local_changes.invalidates(prefix, name, asked)
            || self.table.is_known_since(parent, name, asked.into());
        (!is_outdated).then_some(asked)
    }

    /// When S3 was asked that knew nothing below the directory `prefix`, which this mount has made
    /// since, or when this mount has taken `name` away there.
    fn own_absent(&self, prefix: &str, name: &str) -> Option<Duration> {
        let asked = self.own_since(prefix)?;
        let key = names::file_key(prefix, name).ok()?;
        let told = self.negative.of(key.as_str()).map(|told| told.asked);
        told.max(Some(asked))
    }

    /// When S3 was asked that knew nothing below the directory `prefix`, if the mount has made that
    /// since, so recently that S3 is not asked about the names in it.
    pub(super) fn own_since(&self, prefix: &str) -> Option<Duration> {
        if !self.config.works_offline {
            return None;
        }
        let asked = self.own.asked(prefix, self.clock.now())?;
        // A directory above it may have been removed or renamed since.
        (!self.local_changes.invalidates(prefix, "", asked)).then_some(asked)
    }

    /// Whether the mount does not ask S3 what `name` is, which it knows: it has just made that
    /// directory, or the directory `prefix` that the name is in.
    pub(crate) fn is_own(&self, prefix: &str, name: &str, is_directory: bool) -> bool {
        let is_made = || is_directory && self.own_since(&format!("{prefix}{name}/")).is_some();
        self.config.works_offline && (self.own_since(prefix).is_some() || is_made())
    }

    /// A listing of the directory `prefix` was shown. If another client has put a name there, S3 is
    /// asked from then on.
    pub(super) fn shown_of_own(&self, prefix: &str, page: &Page) {
        if let Some(asked) = self.own_since(prefix) {
            let is_ours = |name: &str| self.local_changes.is_changed(prefix, name, asked);
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
            self.negative.told(key.as_str(), absence);
        }
    }

    /// When S3 was asked that knew nothing of the name of which this mount is about to make a
    /// directory, if the mount may go on to rely on that.
    pub(super) fn becomes_own(&self, prefix: &str, name: &str, key: &Key) -> Option<Duration> {
        let may_be_old = !self.config.create_ttl.is_zero() && self.client.lists_in_order();
        if !self.config.works_offline || !may_be_old {
            return None;
        }
        let Absence { asked, .. } = self.negative.of(key.as_str())?;
        let is_newest = !self.local_changes.invalidates(prefix, name, asked);
        // S3 was not asked again for what this mount has taken away.
        let asked = self.own_since(prefix).map_or(asked, |own| own.min(asked));
        is_newest.then_some(asked)
    }

    /// How long the kernel may keep the absence of `name`, which was just not found: less if a
    /// listing said so that was made before.
    #[must_use]
    pub fn negative_ttl(&self, parent: InodeNo, name: &OsStr) -> Duration {
        let ttl = self.config.negative_ttl;
        let key = names::parse(name).and_then(|name| {
            let prefix = self.table.directory_prefix(parent)?;
            names::file_key(&prefix, name)
        });
        let told = key.ok().and_then(|key| self.negative.of(key.as_str()));
        match told {
            Some(Absence {
                asked,
                is_remembered: true,
            }) => ttl.saturating_sub(self.clock.now().saturating_sub(asked)),
            Some(_) => ttl,
            None => Duration::ZERO,
        }
    }

    /// Nothing in the bucket has the name `name` now in the directory `parent`, whose prefix is
    /// `prefix`. A directory that is kept stays, as does one with a file that is being written; it
    /// is returned.
    pub(crate) fn gone(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        asked: Duration,
    ) -> Option<InodeNo> {
        self.recent.distrust(prefix, name);
        let ino = self.table.child(parent, name)?;
        if self.table.is_kept(ino) {
            return Some(ino);
        }
        if self.table.has_written_below(ino) {
            self.table.keep(ino);
            return Some(ino);
        }
        self.table.detach_unless_newer(parent, name, asked.into());
        None
    }

    /// The reply to a lookup of a name that is not in the bucket.
    pub(crate) fn absent(
        &self,
        parent: InodeNo,
        prefix: &str,
        name: &str,
        absence: Absence,
    ) -> Result<Entry, FsError> {
        let Some(ino) = self.gone(parent, prefix, name, absence.asked) else {
            let key = names::file_key(prefix, name)?;
            self.negative.told(key.as_str(), absence);
            return Err(FsError::NotFound);
        };
        let kept = self.table.admit_kept(ino)?;
        Ok(self.entry(kept.ino, &kept.found, self.config.ttl))
    }
}
