//! Extended attributes, which are stored in the metadata of objects.

use std::ffi::OsStr;

use crate::fs::FileSystem;
use crate::fs::permission::{Change, NO_EXTENDED_ATTRIBUTES, permit};
use crate::operation::{ExtendedAttributes, FsError, InodeNo, SetMode};

impl FileSystem {
    /// The value of an extended attribute; `None` if the inode has none of that name.
    pub async fn extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
    ) -> Result<Option<Vec<u8>>, FsError> {
        if let Some(attributes) = self.written_attributes(ino) {
            let name = name.to_str().unwrap_or_default();
            return Ok(attributes.get(name).map(<[u8]>::to_vec));
        }
        self.namespace.extended_attribute(ino, name).await
    }

    /// The names of an inode's extended attributes, each with a NUL byte behind it.
    pub async fn extended_attributes(&self, ino: InodeNo) -> Result<Vec<u8>, FsError> {
        if let Some(attributes) = self.written_attributes(ino) {
            let names = attributes.names().flat_map(|name| name.bytes().chain([0]));
            return Ok(names.collect());
        }
        self.namespace.extended_attributes(ino).await
    }

    /// Gives an extended attribute a value.
    pub async fn set_extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
        value: &[u8],
        mode: SetMode,
    ) -> Result<(), FsError> {
        let name = self.permit_extended(name)?;
        self.change_headers(ino, |headers| {
            let mut attributes = ExtendedAttributes::of(&headers.metadata);
            match (mode, attributes.get(name)) {
                (SetMode::Create, Some(_)) => return Err(FsError::Exists),
                (SetMode::Replace, None) => return Err(FsError::NoAttribute),
                _ => {}
            }
            attributes.set(name, value);
            attributes.store(&mut headers.metadata);
            Ok(())
        })
        .await
        .map(drop)
    }

    /// Removes an extended attribute.
    pub async fn remove_extended_attribute(
        &self,
        ino: InodeNo,
        name: &OsStr,
    ) -> Result<(), FsError> {
        let name = self.permit_extended(name)?;
        self.change_headers(ino, |headers| {
            let mut attributes = ExtendedAttributes::of(&headers.metadata);
            if !attributes.remove(name) {
                return Err(FsError::NoAttribute);
            }
            attributes.store(&mut headers.metadata);
            Ok(())
        })
        .await
        .map(drop)
    }

    /// Checks the permission to change the attribute `name`.
    fn permit_extended<'a>(&self, name: &'a OsStr) -> Result<&'a str, FsError> {
        permit(&self.write, Change::Attributes)?;
        let name = name.to_str().unwrap_or_default();
        if !name.starts_with("user.") || !self.write.posix_metadata {
            return Err(FsError::Unsupported(NO_EXTENDED_ATTRIBUTES));
        }
        if name.starts_with("user.s3.") {
            return Err(FsError::NotPermitted(format!(
                "{name} cannot be changed: it says what S3 knows of the object"
            )));
        }
        Ok(name)
    }

    /// Extended attributes of a file that is being written, or of a directory that was made, before
    /// S3 has them.
    fn written_attributes(&self, ino: InodeNo) -> Option<ExtendedAttributes> {
        if let Some(marker) = self.staged_marker(ino) {
            return Some(ExtendedAttributes::of(&marker.headers().metadata));
        }
        self.namespace.progress(ino)?;
        let headers = match self.staged_file(ino) {
            Some(staged) => staged.file.headers(),
            None => return None,
        };
        Some(ExtendedAttributes::of(&headers.metadata))
    }
}
