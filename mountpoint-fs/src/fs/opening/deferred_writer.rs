//! Files opened for writing without `O_TRUNC`, and the effect of their first change.
//!
//! Before that change the open affects neither the object nor its readers nor the bucket. A
//! truncation to nothing replaces the whole file, as `O_TRUNC` does; a write at the end appends,
//! where that is allowed; any other write would replace parts of an object, which S3 cannot do, so
//! it is refused for good, and the object is unchanged.

use std::sync::Arc;

use super::open_for_reading::OpenedFor;
use super::open_for_writing::check_options;
use crate::fs::FileSystem;
use crate::fs::permission::{Change, permit};
use crate::handle::{Closing, DeferredWriter, OpenFile, OpenWriter, Opener};
use crate::namespace::{Readers, being_written};
use crate::operation::{AttributeChange, FsError, InodeNo, OpenOptions, Opened, WriteOptions};
use crate::write::Writer;

impl FileSystem {
    /// Opens a file for reading and writing (`O_RDWR`).
    ///
    /// The file is read until its first change, and only written from then on. Where changes are
    /// not allowed, it is only read.
    pub async fn open_for_both(
        &self,
        ino: InodeNo,
        options: OpenOptions,
        how: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        let may_write = permit(self.writing.config(), Change::Overwrite).is_ok();
        if let Some(files) = &self.staged {
            return match may_write {
                true => self.open_staged(files, ino, how, opener).await,
                false => self.open(ino, options).await,
            };
        }
        let may_write = may_write && check_options(how).is_ok();
        let deferred = may_write.then(|| DeferredWriter::new(ino, opener));
        self.open_version(ino, options, OpenedFor::Both(deferred))
            .await
    }

    /// Opens a file for writing, without a writer before the first change.
    pub(in crate::fs) fn open_unchanged(
        &self,
        ino: InodeNo,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        if self.namespace.is_being_written(ino) {
            let key = self.key_text(ino, None).unwrap_or_default();
            return Err(being_written(&key));
        }
        let deferred = DeferredWriter::new(ino, opener);
        Ok(Opened {
            handle: self.files.insert(OpenFile::Unchanged(deferred)),
            direct_io: true,
            keep_cache: false,
            flush: true,
            grows: false,
            local: None,
        })
    }

    /// The writer of an open file. If the file is unchanged, a write at `offset` is its first
    /// change.
    pub(in crate::fs) async fn writer_at<'a>(
        &self,
        file: &'a OpenFile,
        offset: u64,
    ) -> Result<&'a Arc<OpenWriter>, FsError> {
        let Some(deferred) = file.unchanged() else {
            return file.writing();
        };
        let readers = readers_beside(file);
        let begin = async {
            let writer = self.begin_at(deferred.ino, offset, readers).await?;
            Ok(self.begun(deferred, writer, readers))
        };
        let begun = deferred.begin(begin).await;
        // During a rename or removal of the file the write has no effect and may be retried.
        if let Err(error) = &begun
            && !matches!(error, FsError::Busy(_) | FsError::InMotion(_))
        {
            deferred.refuse(error);
        }
        begun
    }

    /// Notes a refused write.
    pub(in crate::fs) fn refused(&self, file: &OpenFile) {
        if let OpenFile::Reading { ino, .. } = file {
            self.namespace.write_refused(*ino);
        }
    }

    /// The writer for a first write at `offset`.
    async fn begin_at(
        &self,
        ino: InodeNo,
        offset: u64,
        readers: Readers,
    ) -> Result<Arc<Writer>, FsError> {
        self.finish_closed(ino).await?;
        let size = self.attributes(ino).await?.size;
        if size == 0 {
            return self.begin_whole(ino, false, readers).await;
        }
        if offset == size && permit(self.writing.config(), Change::Append).is_ok() {
            return self.begin_appending(ino, readers, false).await;
        }
        let key = self.key_text(ino, None).unwrap_or_default();
        Err(FsError::NotSequential(format!(
            "{key}: it has {size} bytes, and a write at {offset} would change parts of it: an existing file is replaced as \
             a whole, with O_TRUNC or cut to nothing before the first write, or written on at its end with --allow-changes, or --allow-append alone"
        )))
    }

    /// `ftruncate` to nothing as the first change of an open file. Returns whether it was that.
    ///
    /// The next writes replace the file.
    pub(in crate::fs) async fn cut_unchanged(
        &self,
        change: &AttributeChange,
    ) -> Result<bool, FsError> {
        let (Some(handle), Some(0)) = (change.handle, change.size) else {
            return Ok(false);
        };
        let file = self.files.get(handle)?;
        let Some(deferred) = file.unchanged() else {
            return Ok(false);
        };
        permit(self.writing.config(), Change::Overwrite)?;
        let readers = readers_beside(&file);
        let begin = async {
            self.finish_closed(deferred.ino).await?;
            let writer = self.begin_whole(deferred.ino, true, readers).await?;
            Ok(self.begun(deferred, writer, readers))
        };
        deferred.begin(begin).await?;
        Ok(true)
    }

    /// A length above 0 as the first change of an empty open file. Its writer begins with that.
    pub(in crate::fs) async fn begin_empty(
        &self,
        file: &OpenFile,
        len: u64,
        len_now: u64,
    ) -> Result<(), FsError> {
        let Some(deferred) = file.unchanged().filter(|_| len > 0 && len_now == 0) else {
            return Ok(());
        };
        let readers = readers_beside(file);
        let begin = async {
            let writer = self.begin_at(deferred.ino, 0, readers).await?;
            Ok(self.begun(deferred, writer, readers))
        };
        deferred.begin(begin).await.map(drop)
    }

    /// Makes `writer` the writer of the deferred open `deferred`; its old reader ends.
    fn begun(
        &self,
        deferred: &DeferredWriter,
        writer: Arc<Writer>,
        readers: Readers,
    ) -> Arc<OpenWriter> {
        if readers == Readers::Itself {
            writer.opened_for_both();
            self.namespace.close(deferred.ino);
        }
        let open = OpenWriter::begun(deferred.ino, writer, deferred.opener, deferred.was_closed());
        self.new_writer(open)
    }

    /// Handles the close of a descriptor of an unchanged file.
    pub(in crate::fs) fn closed_unchanged(&self, deferred: &DeferredWriter, closing: &dyn Closing) {
        let key = self.key_text(deferred.ino, None).unwrap_or_default();
        let name = key.rsplit_once('/').map_or(&*key, |(_, name)| name);
        deferred.closed_unchanged(closing, name);
    }
}

/// The other readers of a file when a handle begins to write it.
fn readers_beside(file: &OpenFile) -> Readers {
    match file {
        OpenFile::Reading { .. } => Readers::Itself,
        OpenFile::Following { .. }
        | OpenFile::Unchanged(_)
        | OpenFile::Writing(_)
        | OpenFile::Staged(_) => Readers::None,
    }
}
