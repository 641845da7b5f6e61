//! Names that are made for their maker alone, although closes return before the bucket has a file.
//!
//! `O_EXCL` is a question that only the bucket answers. With `--write-back-exclusive` the object is
//! made, empty and on the condition that there is none, before the call returns; what is written is
//! uploaded later, on the condition that this very version is still there. An answer that is lost
//! is settled by the object's token. A process that is killed in between has told nobody, and
//! leaves an empty file.

use std::ffi::OsStr;

use mountpoint_client::types::{ETag, ObjectHeaders};

use super::begin::{Opening, begin_over};
use crate::fs::parts::Parts;
use crate::namespace::{NameChange, Version};
use crate::operation::{Entry, FileKind, FsError, InodeNo, PosixAttributes};

/// A new staged file with these attributes, if any, and one handle. The bucket has it empty when
/// this returns.
///
/// [`FsError::Exists`] if anybody else has made it.
pub(super) async fn begin_exclusively<'a>(
    parts: &'a Parts,
    (parent, name): (InodeNo, &OsStr),
    posix: Option<PosixAttributes>,
) -> Result<(Entry, Opening<'a>), FsError> {
    let change = parts.namespace.change(parent, name)?;
    let (key, now) = (change.key().clone(), parts.wall_now());
    let mut headers = parts.staged.staging().headers_of_new(&key);
    if let Some(posix) = posix {
        posix.store(FileKind::File, now, &mut headers.metadata);
    }
    let etag = make_object(parts, &change, Vec::new(), headers.clone()).await?;
    let version = Version::new(0, etag, now);
    let carried = posix.map(|_| PosixAttributes::of(&headers.metadata));
    let entry = change.made_file(version.clone(), carried)?;
    let ino = entry.attributes.ino;
    let opening = begin_over(parts, ino, (key, version), (headers, now), true);
    // No later mount may show the name as absent.
    parts.namespace.settled().await;
    match opening {
        Ok(opening) => Ok((entry, opening)),
        Err(error) => {
            parts.namespace.forget(ino, 1);
            Err(error)
        }
    }
}

/// Makes an object of a name that is to be new. Returns its ETag.
pub(in crate::fs) async fn make_object(
    parts: &Parts,
    name: &NameChange<'_>,
    body: Vec<u8>,
    headers: ObjectHeaders,
) -> Result<ETag, FsError> {
    if name.known().is_some() {
        return Err(FsError::Exists);
    }
    if name.is_unasked() {
        parts.writing.check_absent(name.key()).await?;
    }
    parts.mutator.make(name.key(), body, headers).await
}
