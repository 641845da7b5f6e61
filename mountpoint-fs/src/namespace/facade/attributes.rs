//! stat data of inodes; the extended attributes of files, and with `--posix-metadata` those that
//! objects carry.

use std::ffi::OsStr;
use std::sync::Arc;

use mountpoint_client::ErrorKind;
use mountpoint_client::types::{Key, ObjectDetails};

use super::Namespace;
use super::lookup::OFFLINE_TTL;
use crate::namespace::inodes::table::View;
use crate::namespace::names;
use crate::namespace::refusals::replaced;
use crate::namespace::resolve::Answer;
use crate::namespace::version::Found;
use crate::namespace::xattrs::{ExtendedAttribute, LISTED};
use crate::operation::{Attributes, ExtendedAttributes, FsError, InodeNo};

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

    /// The extended attribute `name` of `ino`; `None` if it has none of that name.
    pub async fn extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
    ) -> Result<Option<Vec<u8>>, FsError> {
        let view = self.table.view(ino)?;
        let attribute = ExtendedAttribute::parse(name);
        match (view.found, attribute, name.to_str()) {
            (Found::File(version), Some(ExtendedAttribute::ETag), _) => {
                Ok(Some(version.etag.as_str().as_bytes().to_vec()))
            }
            (Found::File(_), Some(attribute), _) => {
                let details = self.details(ino).await?.ok_or(FsError::NotFound)?;
                Ok(attribute.value(&details))
            }
            (_, None, Some(name)) if self.is_posix => {
                let carried = self.carried(ino).await?;
                Ok(carried.get(name).map(<[u8]>::to_vec))
            }
            _ => Ok(None),
        }
    }

    /// The names of the extended attributes of `ino`, each with a NUL byte behind it.
    pub async fn extended_attributes(&self, ino: InodeNo) -> Result<Vec<u8>, FsError> {
        if self.is_posix {
            // Programs that copy a file set what is listed of it, which the others would refuse.
            let carried = self.carried(ino).await?;
            let names = carried.names().flat_map(|name| name.bytes().chain([0]));
            return Ok(names.collect());
        }
        Ok(match self.table.view(ino)?.found {
            Found::File(_) => LISTED.to_vec(),
            Found::Directory => Vec::new(),
        })
    }

    /// The extended attributes that the object of `ino` carries.
    async fn carried(&self, ino: InodeNo) -> Result<ExtendedAttributes, FsError> {
        let details = self.details(ino).await?;
        Ok(details.map_or_else(ExtendedAttributes::default, |details| {
            ExtendedAttributes::of(&details.headers.metadata)
        }))
    }

    /// Headers and metadata of a file's object, or of the object that marks a directory; `None`
    /// if there is none.
    pub async fn details(&self, ino: InodeNo) -> Result<Option<Arc<ObjectDetails>>, FsError> {
        if ino == InodeNo::ROOT {
            return Ok(None);
        }
        let view = self.table.view(ino)?;
        let key = names::file_key(&self.table.directory_prefix(view.parent)?, &view.name)?;
        let (key, is_file) = match view.found {
            Found::File(_) => (Some(key), true),
            Found::Directory => {
                let marker = names::directory_prefix(&key);
                (marker.and_then(|marker| Key::parse(&marker)), false)
            }
        };
        let Some(key) = key else {
            return Ok(None);
        };
        let lifetime = (&self.clock, self.config.ttl);
        match self.details.of(&*self.client, &key, lifetime).await {
            Ok(details) => Ok(Some(details)),
            Err(error)
                if !is_file
                    && matches!(error.kind, ErrorKind::NotFound | ErrorKind::InvalidResponse) =>
            {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
