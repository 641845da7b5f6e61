//! Opening files for reading, at the version that S3 has now.
//!
//! [`Namespace`](crate::namespace::Namespace) proves the version, and [`ReadModes`] choose between
//! the page cache and direct replies. Prefetched files are opened with the bytes that came ahead.
//!
//! [`ReadModes`]: crate::read::mode::ReadModes

use super::begin::{distrust_stale, share};
use super::open_files::OpenFiles;
use crate::config::limits::SMALL_FILE_MAX;
use crate::fs::parts::Parts;
use crate::handle::{OpenFile, Opener};
use crate::namespace::{Namespace, OpenVersion, Proof};
use crate::operation::{FsError, InodeNo, LocalVersion, OpenOptions, Opened};
use crate::read::{ReadContext, Reader, Sibling};
use crate::sync::Mutex;

/// Opens a file for reading: its newest bytes, wherever they are.
///
/// [`FsError::Stale`] if that is another version than the inode's: the caller must look the
/// name up again, and open the result. Linux does so by itself after `ESTALE`.
pub(in crate::fs) async fn open(
    parts: &Parts,
    files: &OpenFiles,
    ino: InodeNo,
    options: OpenOptions,
) -> Result<Opened, FsError> {
    let mut tries = OPENS_MAX;
    loop {
        if let Some(opening) = share(parts, ino).await? {
            return Ok(files.insert_staged(parts, opening.take(), None, Opener::UNSEEN));
        }
        tries -= 1;
        match open_version(parts, files, ino, options).await {
            // A file that is written may have come, and may be gone again.
            Err(FsError::NotPermitted(_)) if tries > 0 => {}
            Err(error) if parts.staged.of(ino).is_none() || tries == 0 => return Err(error),
            Err(_) => {}
            opened => return opened,
        }
    }
}

/// Opens a file that nobody writes for reading, at the version that S3 has now.
async fn open_version(
    parts: &Parts,
    files: &OpenFiles,
    ino: InodeNo,
    options: OpenOptions,
) -> Result<Opened, FsError> {
    let opened = parts
        .namespace
        .open(ino, options.direct, options.is_vouched)
        .await?;
    let reader = reader(parts, files, &opened);
    if opened.proof == Proof::Fetch {
        distrust_stale(&parts.namespace, ino, reader.fetch_whole().await)?;
    }
    let was_opened = parts.namespace.opened(ino, &opened.version)?;
    if parts.reading.uses_local_files() {
        reader.when_cache_known().await;
    }
    let local = local_version(&parts.reading, &opened, options);
    let has_file = local.as_ref().is_some_and(|local| local.file.is_some());
    let (direct_io, watch) = match has_file {
        true => (files.read_modes.open_local(), None),
        false => {
            let version = (opened.key.as_str(), opened.version.etag.as_str());
            let (size, consumed) = (opened.version.size, parts.reading.consumed());
            files.read_modes.open(version, size, options, consumed)
        }
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
    let handle = files.handles.insert(file);
    if !has_file {
        fetch_behind(files, &parts.namespace, (ino, &opened));
    }
    Ok(Opened {
        handle,
        direct_io,
        // An inode is one version of an object until this mount writes it. The kernel's pages
        // of an earlier open are of this version.
        keep_cache: was_opened,
        flush: false,
        local,
    })
}

/// The version that an open reads, if a local file may stand for it. None does for an open with
/// `O_DIRECT`, which reads any bytes here and only blocks of a local file, nor for one that
/// could write: it would change the local file.
fn local_version(
    reading: &ReadContext,
    opened: &OpenVersion,
    options: OpenOptions,
) -> Option<LocalVersion> {
    let OpenVersion { key, version, .. } = opened;
    let may_be_local = !options.write && !options.direct;
    may_be_local
        .then(|| reading.local_version(key, &version.etag, version.size))
        .flatten()
}

/// The reader of an opened file. Prefetched bytes are of the opened version, but do not prove
/// it the newest.
fn reader(parts: &Parts, files: &OpenFiles, opened: &OpenVersion) -> Reader {
    let OpenVersion {
        key,
        version,
        proof,
        first_bytes,
    } = opened;
    let sibling_prefetch = files.sibling_prefetch.as_ref();
    let ahead = sibling_prefetch.and_then(|files| files.take(key, &version.etag));
    ahead.filter(|_| *proof == Proof::Known).unwrap_or_else(|| {
        let reader = Reader::shared(&parts.reading, key, &version.etag, version.size);
        // The answer to a GET proves the version: no bytes may stand for it.
        let stored = match *proof == Proof::Known {
            true => {
                let staging = parts.staged.staging();
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
fn fetch_behind(files: &OpenFiles, namespace: &Namespace, (ino, opened): (InodeNo, &OpenVersion)) {
    let Some(sibling_prefetch) = &files.sibling_prefetch else {
        return;
    };
    sibling_prefetch.opened(&opened.key, opened.version.size, |name, count| {
        let behind = namespace.files_behind(ino, name, count).into_iter();
        let next = behind.map(|file| Sibling {
            is_wanted: file.is_unread && (1..=SMALL_FILE_MAX).contains(&file.version.size),
            name: file.name,
            key: file.key,
            etag: file.version.etag,
            size: file.version.size,
        });
        next.collect()
    });
}

/// How often a file is opened for reading that others begin and end to write meanwhile.
const OPENS_MAX: usize = 16;
