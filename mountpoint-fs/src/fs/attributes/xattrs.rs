//! Extended attributes, which are stored in the metadata of objects.

use std::ffi::OsStr;

use super::headers::change_headers;
use crate::config::WriteConfig;
use crate::fs::markers::staged_marker;
use crate::fs::parts::Parts;
use crate::fs::permission::{Change, NO_EXTENDED_ATTRIBUTES, permit};
use crate::operation::{ExtendedAttributes, FsError, InodeNo, SetMode};

/// The value of an extended attribute; `None` if the inode has none of that name.
pub(in crate::fs) async fn extended_attribute(
    parts: &Parts,
    ino: InodeNo,
    name: &OsStr,
) -> Result<Option<Vec<u8>>, FsError> {
    if let Some(attributes) = written_attributes(parts, ino) {
        let name = name.to_str().unwrap_or_default();
        return Ok(attributes.get(name).map(<[u8]>::to_vec));
    }
    parts.namespace.extended_attribute(ino, name).await
}

/// The names of an inode's extended attributes, each with a NUL byte behind it.
pub(in crate::fs) async fn extended_attributes(
    parts: &Parts,
    ino: InodeNo,
) -> Result<Vec<u8>, FsError> {
    if let Some(attributes) = written_attributes(parts, ino) {
        let names = attributes.names().flat_map(|name| name.bytes().chain([0]));
        return Ok(names.collect());
    }
    parts.namespace.extended_attributes(ino).await
}

/// Gives an extended attribute a value.
pub(in crate::fs) async fn set_extended_attribute(
    parts: &Parts,
    ino: InodeNo,
    name: &OsStr,
    (value, mode): (&[u8], SetMode),
) -> Result<(), FsError> {
    let name = permit_extended(&parts.config, name)?;
    change_headers(parts, ino, |headers| {
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
pub(in crate::fs) async fn remove_extended_attribute(
    parts: &Parts,
    ino: InodeNo,
    name: &OsStr,
) -> Result<(), FsError> {
    let name = permit_extended(&parts.config, name)?;
    change_headers(parts, ino, |headers| {
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
fn permit_extended<'a>(config: &WriteConfig, name: &'a OsStr) -> Result<&'a str, FsError> {
    permit(config, Change::Attributes)?;
    let name = name.to_str().unwrap_or_default();
    if !name.starts_with("user.") || !config.posix_metadata {
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
fn written_attributes(parts: &Parts, ino: InodeNo) -> Option<ExtendedAttributes> {
    let written = staged_marker(parts, ino).or_else(|| {
        parts.namespace.progress(ino)?;
        Some(parts.staged.of(ino)?.file.clone())
    });
    written.map(|file| ExtendedAttributes::of(&file.headers().metadata))
}
