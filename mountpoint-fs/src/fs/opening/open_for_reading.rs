//! Opening files for reading, at the version that S3 has now.
//!
//! [`Namespace`](crate::namespace::Namespace) proves the version, and [`ReadModes`] choose between
//! the page cache and direct replies. Prefetched files are opened with the bytes that came ahead.
//!
//! [`ReadModes`]: crate::read::mode::ReadModes

use crate::config::limits::SMALL_FILE_MAX;
use crate::fs::FileSystem;
use crate::handle::OpenFile;
use crate::namespace::{OpenVersion, Proof};
use crate::operation::{FsError, InodeNo, LocalVersion, OpenOptions, Opened};
use crate::read::mode::ReadWatch;
use crate::read::{Reader, Sibling};
use crate::sync::Mutex;

impl FileSystem {
    /// Opens a file for reading, at the version that S3 has now.
    ///
    /// [`FsError::Stale`] if that is another version than the inode's: the caller must look the
    /// name up again, and open the result. Linux does so by itself after `ESTALE`.
    pub async fn open(&self, ino: InodeNo, options: OpenOptions) -> Result<Opened, FsError> {
        self.open_beside_staged(&self.staged, ino, options).await
    }

    /// Opens a file that nobody writes in place for reading.
    pub(in crate::fs) async fn open_version(
        &self,
        ino: InodeNo,
        options: OpenOptions,
    ) -> Result<Opened, FsError> {
        let opened = self
            .namespace
            .open(ino, options.direct, options.is_vouched)
            .await?;
        let reader = self.reader(&opened);
        if opened.proof == Proof::Fetch {
            self.distrust_stale(ino, reader.fetch_whole().await)?;
        }
        let was_opened = self.namespace.opened(ino, &opened.version)?;
        if self.reading.uses_local_files() {
            reader.when_cache_known().await;
        }
        let local = self.local_version(&opened, options);
        let has_file = local.as_ref().is_some_and(|local| local.file.is_some());
        let (direct_io, watch) = match has_file {
            true => (self.read_modes.open_local(), None),
            false => self.read_mode(&opened, options),
        };
        if !direct_io && !options.direct {
            reader.expect_pages();
        }
        let file = OpenFile::Reading {
            ino,
            reader,
            renamed: Mutex::default(),
            watch,
        };
        let handle = self.files.insert(file);
        if !has_file {
            self.fetch_behind(ino, &opened);
        }
        Ok(Opened {
            handle,
            direct_io,
            // An inode is one version of an object until this mount writes it. The kernel's pages
            // of an earlier open are of this version.
            keep_cache: was_opened,
            flush: false,
            grows: false,
            local,
        })
    }

    /// The version that an open reads, if a local file may stand for it. None does for an open with
    /// `O_DIRECT`, which reads any bytes here and only blocks of a local file, nor for one that
    /// could write: it would change the local file.
    fn local_version(&self, opened: &OpenVersion, options: OpenOptions) -> Option<LocalVersion> {
        let OpenVersion { key, version, .. } = opened;
        let may_be_local = !options.write && !options.direct;
        may_be_local
            .then(|| self.reading.local_version(key, &version.etag, version.size))
            .flatten()
    }

    /// Passes `outcome` on. After a stale version the next look-up of the file asks S3.
    pub(in crate::fs) fn distrust_stale<T>(
        &self,
        ino: InodeNo,
        outcome: Result<T, FsError>,
    ) -> Result<T, FsError> {
        if matches!(outcome, Err(FsError::Stale(_))) {
            self.namespace.distrust(ino);
        }
        outcome
    }

    /// Whether reads of an opened file bypass the page cache, and the count of the file's opens.
    fn read_mode(&self, opened: &OpenVersion, options: OpenOptions) -> (bool, Option<ReadWatch>) {
        let (key, etag) = (opened.key.as_str(), opened.version.etag.as_str());
        let consumed = self.reading.consumed();
        let size = opened.version.size;
        self.read_modes.open((key, etag), size, options, consumed)
    }

    /// The reader of an opened file. Prefetched bytes are of the opened version, but do not prove
    /// it the newest.
    fn reader(&self, opened: &OpenVersion) -> Reader {
        let OpenVersion {
            key,
            version,
            proof,
            first_bytes,
        } = opened;
        let sibling_prefetch = self.sibling_prefetch.as_ref();
        let ahead = sibling_prefetch.and_then(|files| files.take(key, &version.etag));
        ahead.filter(|_| *proof == Proof::Known).unwrap_or_else(|| {
            let reader = Reader::shared(&self.reading, key, &version.etag, version.size);
            // The answer to a GET proves the version: no bytes may stand for it.
            let stored = match *proof == Proof::Known {
                true => {
                    let staging = self.staged.staging();
                    staging.take_stored(key, &version.etag, version.size)
                }
                false => None,
            };
            if let Some(first_bytes) = stored.as_ref().or(first_bytes.as_ref()) {
                reader.hold_first_bytes(first_bytes);
            }
            reader
        })
    }

    /// Prefetches the siblings of a file, if files are opened in order.
    fn fetch_behind(&self, ino: InodeNo, opened: &OpenVersion) {
        let Some(sibling_prefetch) = &self.sibling_prefetch else {
            return;
        };
        sibling_prefetch.opened(&opened.key, opened.version.size, |name, count| {
            let files = self.namespace.files_behind(ino, name, count).into_iter();
            let next = files.map(|file| Sibling {
                is_wanted: file.is_unread && (1..=SMALL_FILE_MAX).contains(&file.version.size),
                name: file.name,
                key: file.key,
                etag: file.version.etag,
                size: file.version.size,
            });
            next.collect()
        });
    }
}
