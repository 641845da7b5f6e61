//! The extended attributes of files, and with `--posix-metadata` those that objects carry.

use std::ffi::OsStr;
use std::sync::Arc;

use mountpoint_client::ErrorKind;
use mountpoint_client::types::{Key, ObjectDetails};

use super::Namespace;
use crate::namespace::names;
use crate::namespace::version::Found;
use crate::namespace::xattrs::{ExtendedAttribute, LISTED};
use crate::operation::{ExtendedAttributes, FsError, InodeNo};

impl Namespace {
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
        if let Some(details) = self.details.find(&key, self.clock.now().into()) {
            return Ok(Some(details));
        }
        let begin = || {
            let head = self.client.head_details(&key);
            async move { head.await.map(Arc::new) }
        };
        match self.heads.join(key.clone(), begin).await {
            Ok(details) => {
                let valid_until = (self.clock.now() + self.config.ttl).into();
                self.details.add(&key, &details, valid_until);
                Ok(Some(details))
            }
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
