//! stat data of inodes.

use super::Namespace;
use super::lookup::OFFLINE_TTL;
use crate::namespace::inodes::table::View;
use crate::namespace::refusals::replaced;
use crate::namespace::resolve::Answer;
use crate::namespace::version::Found;
use crate::operation::{Attributes, FsError, InodeNo};

impl Namespace {
    /// stat data of `ino`. An open file's are those of the version that was opened.
    pub async fn attributes(&self, ino: InodeNo) -> Result<Attributes, FsError> {
        loop {
            if let Some(attributes) = self.attributes_of_name(ino).await? {
                return Ok(attributes);
            }
        }
    }

    /// The attributes of `ino` by its name; `None` if it has another name by then.
    async fn attributes_of_name(&self, ino: InodeNo) -> Result<Option<Attributes>, FsError> {
        let view = self.table.view(ino)?;
        let left = view.observed.valid_until.left(self.now());
        if ino == InodeNo::ROOT || view.openers > 0 || view.is_written {
            let mut shown = self.shown(ino, &view.found, self.config.ttl);
            if !view.is_attached {
                // An open file or directory whose name was removed, or is another file's.
                shown.nlink = 0;
            }
            return Ok(Some(shown));
        }
        if !view.is_attached {
            return self.find_again(ino, &view).await.map(Some);
        }
        if !left.is_zero() {
            return Ok(Some(self.shown(ino, &view.found, left)));
        }
        let prefix = self.table.directory_prefix(view.parent)?;
        let key = [&*prefix, &*view.name].concat();
        let is_directory = view.found == Found::Directory;
        let is_own = self.known.own_since(&prefix).is_some()
            || is_directory && self.known.is_own_directory(&key);
        if is_own {
            return Ok(Some(self.shown(ino, &view.found, self.config.ttl)));
        }
        let found = self.find_unchanged(view.parent, &view.name).await;
        if let Err(error) = &found
            && self.is_offline(error)
            && view.found == Found::Directory
        {
            return Ok(Some(self.shown(ino, &view.found, OFFLINE_TTL)));
        }
        let (prefix, answer) = found?;
        let now = self.table.view(ino)?;
        if now.is_attached && (now.parent, &now.name) != (view.parent, &view.name) {
            return Ok(None);
        }
        let Answer {
            found,
            posix,
            asked,
            received_at,
            names,
            ..
        } = answer;
        let Some(found) = found else {
            if self.gone(view.parent, &prefix, &view.name, asked) == Some(ino) {
                return Ok(Some(self.shown(ino, &Found::Directory, self.config.ttl)));
            }
            return Err(FsError::NotFound);
        };
        // It vouches for no open: a long time may pass between a `stat` and an `open`.
        let observed = self.observed(asked, received_at);
        match self.table.observe(ino, &found, observed) {
            Some(view) => {
                self.table.set_posix(ino, posix);
                if let Some(names) = names {
                    self.names_listed(ino, &names);
                }
                let left = view.observed.valid_until.left(self.now());
                Ok(Some(self.shown(ino, &view.found, left)))
            }
            None => {
                self.known.contradicted(&prefix, &view.name);
                Err(replaced(&view.name))
            }
        }
    }

    /// The attributes of an inode that has lost its name to another client: those of the object
    /// that has it now.
    ///
    /// [`FsError::Stale`] if that is something else, or this mount took the name.
    pub(super) async fn find_again(
        &self,
        ino: InodeNo,
        view: &View,
    ) -> Result<Attributes, FsError> {
        if !self.table.is_lost(ino) {
            return Err(replaced(&view.name));
        }
        let (_, answer) = self.find_unchanged(view.parent, &view.name).await?;
        let found = answer.found.ok_or(FsError::NotFound)?;
        let observed = self.observed(answer.asked, answer.received_at);
        let again = self.table.find_again(ino, &found, observed);
        let again = again.ok_or_else(|| replaced(&view.name))?;
        self.table.set_posix(ino, answer.posix);
        let left = again.observed.valid_until.left(self.now());
        Ok(self.shown(ino, &again.found, left))
    }
}
