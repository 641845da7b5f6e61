//! Reading a file that is written further after a synchronisation, as by `tail -f`.
//!
//! The synchronised bytes are a whole object, and later bytes follow them: so a reader may move
//! from one version to the next without seeing any byte change. The reader never sees more than the
//! bucket holds. Its replies bypass the page cache, where the end of an older version would be a
//! page filled up with zeros.
//!
//! A file that this mount has renamed is read on under its new name: a copy with the ETag of the
//! version that was opened has its bytes. Where the server gives it another ETag, nothing tells
//! that. A file whose headers this mount has changed is read on in the copy that the change made.

use std::sync::Arc;

use mountpoint_client::types::Key;

use super::FileSystem;
use crate::handle::{OpenFile, OpenWriter, Opener};
use crate::namespace::Version;
use crate::operation::{FsError, InodeNo, Opened, Progress, ReadData};
use crate::read::Reader;
use crate::sync::Mutex;

impl FileSystem {
    /// The state of `ino` for a follower, if its writer may continue to write.
    pub(super) fn synchronised(&self, ino: InodeNo) -> Option<Arc<Progress>> {
        let open = self.writer(ino).filter(|open| open.was_flushed())?;
        let is_followed = open.writer.failure().is_none();
        is_followed.then(|| Arc::clone(open.writer.progress()))
    }

    /// A handle that follows `ino` from the newest version on, which `reader` reads.
    pub(super) fn followed(&self, ino: InodeNo, reader: Reader) -> Opened {
        self.insert_follower(ino, Some(reader), None)
    }

    /// A handle of the file `ino` for the process that is writing it, which reads its unstored
    /// bytes as well. `None` for any other file or process.
    ///
    /// Programs open the file that they write once more (`tar cf x.tar .`, wandb), and may stop
    /// without a word if that is refused. Behind a synchronisation the handle is a follower's.
    pub fn open_own(&self, ino: InodeNo, process: impl FnOnce() -> Opener) -> Option<Opened> {
        let open = self.writer(ino).filter(|open| !open.was_flushed())?;
        let is_its = self.namespace.is_being_written(ino) && open.share_for_reading(process());
        is_its.then(|| self.insert_follower(ino, None, Some(open)))
    }

    fn insert_follower(
        &self,
        ino: InodeNo,
        reader: Option<Reader>,
        own: Option<Arc<OpenWriter>>,
    ) -> Opened {
        let reader = Mutex::new(reader.map(Arc::new));
        Opened {
            handle: self.files.insert(OpenFile::Following { ino, reader, own }),
            direct_io: true,
            keep_cache: false,
            flush: false,
            grows: true,
            local: None,
        }
    }

    /// Reads the newest stored version, which begins with the bytes of every older one.
    pub(super) async fn read_following(
        &self,
        ino: InodeNo,
        (known, own): (&Mutex<Option<Arc<Reader>>>, Option<&OpenWriter>),
        (offset, size): (u64, u32),
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let mut tries_left = FOLLOW_TRIES_MAX;
        loop {
            tries_left -= 1;
            // A file that is replaced has an old version, which is none of its own.
            let is_stored = match own {
                Some(open) => open.writer.has_stored_beginning().await,
                None => true,
            };
            let reader = is_stored.then(|| self.newest_reader(ino, known)).flatten();
            let end = reader.as_ref().map_or(0, |reader| reader.version().2);
            let Some(reader) = reader.filter(|_| own.is_none() || offset < end) else {
                return Err(FsError::Busy(format!(
                    "{}: the bytes at {offset} were sent, and can be read when the file is stored: behind fsync or close",
                    self.key_text(ino, None).unwrap_or_default()
                )));
            };
            if fills_cache && offset + u64::from(size) > end && self.namespace.is_being_written(ino)
            {
                // The page of a mapping would not change when the file has grown.
                return Err(FsError::Stale(
                    "the file is being written, and can be mapped when it is stored".to_owned(),
                ));
            }
            let outcome = reader.read(offset, size).await;
            if matches!(outcome, Err(FsError::Stale(_)))
                && let Some(open) = self.writer(ino)
            {
                // The bucket may have newer bytes than its answers have reported.
                open.writer.arrived().await;
            }
            let is_overtaken = || {
                let newest = self.namespace.stored_version(ino);
                newest.is_some_and(|newest| is_other(&reader, &newest))
            };
            match outcome {
                // The file was stored again, or renamed, during the read: its name still means this
                // file.
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

    /// Reads the version that was opened under the name that it has now. `renamed` is the reader of
    /// its name at the last read, if that was another one than at the open.
    pub(super) async fn read_opened(
        &self,
        ino: InodeNo,
        (opened, renamed): (&Reader, &Mutex<Option<Arc<Reader>>>),
        (offset, size): (u64, u32),
        fills_cache: bool,
    ) -> Result<ReadData, FsError> {
        let mut last = renamed.lock().clone();
        for _ in 0..FOLLOW_TRIES_MAX {
            let reader = last.as_deref().unwrap_or(opened);
            let outcome = reader.read_for(offset, size, fills_cache).await;
            let Err(error @ FsError::Stale(_)) = outcome else {
                return outcome;
            };
            let Some(next) = self.moved(ino, reader).await else {
                self.namespace.is_replaced(ino);
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
    pub(super) async fn moved(&self, ino: InodeNo, reader: &Reader) -> Option<Arc<Reader>> {
        match self.renamed(ino, reader) {
            Some(next) => Some(next),
            None => self.renewed(reader).await,
        }
    }

    /// A reader of the same version of `ino` by its present name; `None` if `reader` has that name,
    /// or if the file is another version now.
    fn renamed(&self, ino: InodeNo, reader: &Reader) -> Option<Arc<Reader>> {
        let (key, version) = self.namespace.stored_version(ino)?;
        let (its_key, its_etag, its_size) = reader.version();
        let is_same = version.etag == *its_etag && version.size == its_size;
        (is_same && key != *its_key)
            .then(|| Arc::new(Reader::new(&self.reading, key, version.etag, version.size)))
    }

    /// A reader of the version that a change of the object's headers by this mount has made.
    async fn renewed(&self, reader: &Reader) -> Option<Arc<Reader>> {
        let (key, etag, size) = reader.version();
        let now = self.reading.version_behind(key, etag).await?;
        let next = Reader::new(&self.reading, key.clone(), now, size);
        Some(Arc::new(next))
    }

    /// The reader of the newest stored version of `ino`.
    fn newest_reader(
        &self,
        ino: InodeNo,
        known: &Mutex<Option<Arc<Reader>>>,
    ) -> Option<Arc<Reader>> {
        let newest = self.namespace.stored_version(ino);
        let mut known = known.lock();
        let is_news = |newest: &(Key, Version)| {
            let is_same = |known: &Arc<Reader>| !is_other(known, newest);
            !known.as_ref().is_some_and(is_same)
        };
        if let Some((key, version)) = newest.filter(is_news) {
            let reader = Reader::new(&self.reading, key, version.etag, version.size);
            *known = Some(Arc::new(reader));
        }
        known.clone()
    }
}

/// Whether `reader` reads another object or another version. A directory bucket's rename keeps the
/// version.
fn is_other(reader: &Reader, (key, version): &(Key, Version)) -> bool {
    let (its_key, its_etag, _) = reader.version();
    key != its_key || version.etag != *its_etag
}

/// Tries of a read during which another process stores new versions of the file.
pub(super) const FOLLOW_TRIES_MAX: u32 = 10;
