//! Reading a file that somebody goes on writing, after it was synchronised: a log and who follows it.
//!
//! What was synchronised is a whole object, and what follows are bytes behind it: so a reader may go from one version to the
//! next and sees no byte change. It never sees more than the bucket holds. Its replies pass the page cache by, where the
//! end of an older version would be a page with zeros behind it.

use std::sync::Arc;

use mountpoint_client::types::Key;

use super::FileSystem;
use crate::config::limits::FOLLOW_TRIES_MAX;
use crate::handle::OpenFile;
use crate::namespace::Version;
use crate::operation::{FsError, InodeNo, Opened, Progress, ReadData};
use crate::read::Reader;
use crate::sync::Mutex;

impl FileSystem {
    /// What was stored of `ino` by a writer that has it open still and may go on: a reader that opens it now follows that. One
    /// that `may_write` as well does so only where the writer has not closed it, because a follower never writes.
    pub(super) fn synchronised(&self, ino: InodeNo, may_write: bool) -> Option<Arc<Progress>> {
        let open = self.writer(ino).filter(|open| open.was_flushed())?;
        let is_followed = open.writer.failure().is_none() && (!may_write || open.goes_on());
        is_followed.then(|| Arc::clone(open.writer.progress()))
    }

    /// A handle that follows `ino`, from the newest version on, which `reader` reads.
    pub(super) fn followed(&self, ino: InodeNo, reader: Reader) -> Opened {
        let reader = Mutex::new(Arc::new(reader));
        Opened {
            handle: self.files.insert(OpenFile::Following { ino, reader }),
            direct_io: true,
            keep_cache: false,
            flush: false,
            grows: true,
        }
    }

    /// Reads the newest version that is stored; it begins with the bytes of every older one.
    pub(super) async fn read_following(
        &self,
        ino: InodeNo,
        known: &Mutex<Arc<Reader>>,
        (offset, size): (u64, u32),
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let mut tries_left = FOLLOW_TRIES_MAX;
        loop {
            tries_left -= 1;
            let reader = self.newest_reader(ino, known);
            let (_, _, end) = reader.version();
            if fills_cache && offset + u64::from(size) > end && self.namespace.is_being_written(ino)
            {
                // A page of a mapping, which would stay as it is when the file has grown.
                return Err(FsError::Stale(
                    "the file is being written, and can be mapped when it is stored".to_owned(),
                ));
            }
            let outcome = reader.read(offset, size).await;
            if matches!(outcome, Err(FsError::Stale(_)))
                && let Some(open) = self.writer(ino)
            {
                // The bucket may have more already than its answers have told.
                open.writer.arrived().await;
            }
            let is_overtaken = || {
                let newest = self.namespace.stored_version(ino);
                newest.is_some_and(|newest| is_other(&reader, &newest))
            };
            match outcome {
                // It was stored once more, or renamed, while this was read: the file is still what its name means.
                Err(error @ FsError::Stale(_)) if is_overtaken() => {
                    if tries_left == 0 {
                        return Err(error);
                    }
                }
                Err(error @ FsError::Stale(_)) => {
                    self.namespace.is_replaced(ino);
                    return Err(error);
                }
                outcome => return outcome,
            }
        }
    }

    /// What reads the newest version that is stored of `ino`.
    fn newest_reader(&self, ino: InodeNo, known: &Mutex<Arc<Reader>>) -> Arc<Reader> {
        let newest = self.namespace.stored_version(ino);
        let mut known = known.lock();
        if let Some((key, version)) = newest.filter(|newest| is_other(&known, newest)) {
            let context = Arc::clone(&self.reading);
            *known = Arc::new(Reader::new(context, key, version.etag, version.size));
        }
        Arc::clone(&known)
    }
}

/// Whether `reader` reads another object than this, or another version of it. A directory bucket's rename keeps the version.
fn is_other(reader: &Reader, (key, version): &(Key, Version)) -> bool {
    let (its_key, its_etag, _) = reader.version();
    key != its_key || version.etag != *its_etag
}
