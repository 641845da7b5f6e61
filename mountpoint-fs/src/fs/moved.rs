//! Reading a version on when this mount has moved it.
//!
//! A file that this mount has renamed is read on under its new name: a copy with the ETag of the
//! version that was opened has its bytes. Where the server gives it another ETag, nothing tells
//! that. A file whose headers this mount has changed is read on in the copy that the change made.

use std::sync::Arc;

use crate::namespace::Namespace;
use crate::operation::{FsError, InodeNo, ReadData};
use crate::read::{ReadContext, Reader};
use crate::sync::Mutex;

/// The names, and what reads the versions that have them.
type Names<'a> = (&'a Namespace, &'a Arc<ReadContext>);

/// Reads the version that was opened under the name that it has now. `renamed` is the reader of
/// its name at the last read, if that was another one than at the open.
pub(super) async fn read_opened(
    names: Names<'_>,
    ino: InodeNo,
    (opened, renamed): (&Reader, &Mutex<Option<Arc<Reader>>>),
    (offset, size): (u64, u32),
    fills_cache: bool,
) -> Result<ReadData, FsError> {
    let mut last = renamed.lock().clone();
    for _ in 0..MOVED_TRIES_MAX {
        let reader = last.as_deref().unwrap_or(opened);
        let outcome = reader.read_for(offset, size, fills_cache).await;
        let Err(error @ FsError::Stale(_)) = outcome else {
            return outcome;
        };
        let Some(next) = moved(names, ino, reader).await else {
            names.0.is_replaced(ino);
            return Err(error);
        };
        *renamed.lock() = Some(Arc::clone(&next));
        last = Some(next);
    }
    Err(FsError::Stale(
        "the file is renamed or copied onto itself again and again".to_owned(),
    ))
}

/// A reader of the bytes of `reader` where this mount has put them since: under another name,
/// or in a copy with other headers. `None` if it has put them nowhere else.
pub(super) async fn moved(names: Names<'_>, ino: InodeNo, reader: &Reader) -> Option<Arc<Reader>> {
    match renamed(names, ino, reader) {
        Some(next) => Some(next),
        None => renewed(names.1, reader).await,
    }
}

/// A reader of the same version of `ino` by its present name; `None` if `reader` has that name,
/// or if the file is another version now.
fn renamed((namespace, reading): Names<'_>, ino: InodeNo, reader: &Reader) -> Option<Arc<Reader>> {
    let (key, version) = namespace.stored_version(ino)?;
    let (its_key, its_etag, its_size) = reader.version();
    let is_same = version.etag == *its_etag && version.size == its_size;
    (is_same && key != *its_key)
        .then(|| Arc::new(Reader::new(reading, key, version.etag, version.size)))
}

/// A reader of the version that a change of the object's headers by this mount has made.
async fn renewed(reading: &Arc<ReadContext>, reader: &Reader) -> Option<Arc<Reader>> {
    let (key, etag, size) = reader.version();
    let now = reading.version_behind(key, etag).await?;
    let next = Reader::new(reading, key.clone(), now, size);
    Some(Arc::new(next))
}

/// Tries of a read during which another process stores new versions of the file.
const MOVED_TRIES_MAX: u32 = 10;
