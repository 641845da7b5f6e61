//! Opening files for writing: created, replaced, changed, appended to.
//!
//! [`permit`] decides on permissions, a [`StagedFile`](crate::file::StagedFile) owns the bytes,
//! [`Namespace`](crate::namespace::Namespace) the names. A future that is dropped while it waits
//! has changed nothing visible to the application.

use std::ffi::OsStr;

use super::begin::{begin, begin_new, share, unmake};
use super::exclusive::begin_exclusively;
use super::open_files::OpenFiles;
use crate::config::WriteConfig;
use crate::fs::attributes::posix_of_new;
use crate::fs::parts::Parts;
use crate::fs::permission::{Change, permit};
use crate::handle::Opener;
use crate::operation::{Entry, FileKind, FsError, InodeNo, Opened, WriteOptions};
use crate::write::Adopts;

/// Creates a file and opens it for writing. No request is sent: its close stores the object.
/// Unless the caller asks for it to be new, and the mount asks the bucket about that: then the
/// bucket has it empty when this returns.
///
/// [`FsError::Exists`] if anybody else has made that.
pub(in crate::fs) async fn create(
    parts: &Parts,
    files: &OpenFiles,
    name: (InodeNo, &OsStr),
    options: WriteOptions,
    opener: Opener,
) -> Result<(Entry, Opened), FsError> {
    permit(&parts.config, Change::Create)?;
    let posix = posix_of_new(parts, name.0, options);
    let (entry, opening) = if options.exclusive && parts.staged.are_exclusive() {
        begin_exclusively(parts, name, posix).await?
    } else {
        let (entry, opening) = begin_new(parts, name, (FileKind::File, posix))?;
        opening.open().file.may_adopt(Adopts::of(options));
        (entry, opening)
    };
    let opened = files.insert_staged(parts, opening.take(), Some(options), opener);
    Ok((entry, opened))
}

/// Makes an empty file, which is there when this returns and nobody else has made.
pub(in crate::fs) async fn make_file(
    parts: &Parts,
    files: &OpenFiles,
    name: (InodeNo, &OsStr),
    options: WriteOptions,
) -> Result<Entry, FsError> {
    let options = WriteOptions {
        exclusive: true,
        ..options
    };
    let (entry, opened) = create(parts, files, name, options, Opener::UNSEEN).await?;
    let file = files.handles.get(opened.handle)?;
    let outcome = file.writing()?.open.file.commit().await;
    if outcome.is_err() {
        unmake(parts, name, entry.attributes.ino).await;
    }
    files.release(parts, opened.handle);
    outcome.map(|()| entry)
}

/// Opens an existing file for writing, at any place.
pub(in crate::fs) async fn open_for_writing(
    parts: &Parts,
    files: &OpenFiles,
    ino: InodeNo,
    options: WriteOptions,
    opener: Opener,
) -> Result<Opened, FsError> {
    let opening = match share(parts, ino).await? {
        Some(opening) => {
            // A file that was made by this mount a moment ago is not an existing one.
            if !opening.open().is_new {
                permit_writing(&parts.config, options)?;
            }
            opening
        }
        None => {
            permit_writing(&parts.config, options)?;
            begin(parts, ino, options.truncate).await?
        }
    };
    if options.truncate {
        opening.open().file.empty().await?;
    }
    Ok(files.insert_staged(parts, opening.take(), Some(options), opener))
}

/// Checks that an existing file may be opened for writing with `options`.
pub(in crate::fs) fn permit_writing(
    config: &WriteConfig,
    options: WriteOptions,
) -> Result<(), FsError> {
    let change = match options {
        WriteOptions {
            append: true,
            truncate: false,
            ..
        } => Change::Append,
        WriteOptions { .. } => Change::Overwrite,
    };
    permit(config, change)
}
