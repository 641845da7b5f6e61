//! Opening files for writing: created, replaced, appended to.
//!
//! [`permit`] decides on permissions, [`Writer`] owns the bytes, [`Namespace`] the names. A future
//! that is dropped while it waits has changed nothing visible to the application.

use std::ffi::OsStr;
use std::sync::Arc;

use mountpoint_client::types::{ChecksumAlgorithm, Key, StoredChecksum};

use crate::config::WriteConfig;
use crate::config::limits::{READ_SIZE_MAX, UPLOAD_PART_MIN};
use crate::fs::FileSystem;
use crate::fs::permission::{Change, permit};
use crate::handle::{OpenFile, OpenWriter, Opener};
use crate::namespace::{Namespace, OpenVersion, Readers, Version, being_written};
use crate::operation::{
    Entry, FileKind, FsError, InodeNo, OpenOptions, Opened, PosixAttributes, Progress, WriteOptions,
};
use crate::read::Reader;
use crate::write::{Adopts, Beginning, Stored, WriteObserver, Writer};

impl FileSystem {
    /// Creates a file and opens it for writing. No request is sent: its close stores the object.
    pub fn create(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<(Entry, Opened), FsError> {
        permit(self.writing.config(), Change::Create)?;
        if self.is_in_place(options) {
            return self.create_staged(&self.staged, (parent, name), options, opener);
        }
        check_options(options)?;
        let progress = self.new_progress(0);
        let created = self
            .namespace
            .create(parent, name, &progress, Readers::None)?;
        let (mut entry, key) = (created.entry, created.key);
        let ino = entry.attributes.ino;
        let observer = self.observer((ino, &key), &progress);
        let beginning = if created.is_unasked {
            Beginning::NewUnasked
        } else {
            Beginning::New
        };
        let writer = Writer::new(&self.writing, key, beginning, progress, observer);
        writer.may_adopt(Adopts::of(options));
        if let Some(posix) = self.posix_of_new(parent, options) {
            let mut headers = writer.headers();
            posix.store(FileKind::File, self.wall_now(), &mut headers.metadata);
            writer.begin_with(headers);
            self.namespace.set_posix(ino, posix);
            posix.show(&mut entry.attributes);
        }
        Ok((entry, self.insert_writer(ino, writer, opener)))
    }

    /// Makes an empty file, which is there when this returns and nobody else has made.
    pub async fn make_file(
        &self,
        parent: InodeNo,
        name: &OsStr,
        options: WriteOptions,
    ) -> Result<Entry, FsError> {
        let options = WriteOptions {
            exclusive: true,
            ..options
        };
        let created = self.create_for(parent, name, options, Opener::UNSEEN);
        let (entry, opened) = created.await?;
        let outcome = self.sync(opened.handle).await;
        let ino = entry.attributes.ino;
        match &outcome {
            Ok(()) => {}
            Err(_) if self.staged_file(ino).is_some() => {
                self.unmake_staged((parent, name), ino).await;
            }
            Err(_) => self.namespace.forget(ino, 1),
        }
        self.release(opened.handle);
        outcome.map(|()| entry)
    }

    /// Opens an existing file for writing.
    pub async fn open_for_writing(
        &self,
        ino: InodeNo,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        if self.is_in_place(options) || self.staged_file(ino).is_some() {
            return self.open_in_place(ino, options, opener).await;
        }
        self.finish_closed(ino).await?;
        if let Some(opened) = self.share_untouched(ino, options, opener)? {
            return Ok(opened);
        }
        permit_writing(self.writing.config(), options)?;
        let writer = if options.append && !options.truncate {
            self.begin_appending(ino, Readers::None, options.is_vouched)
                .await?
        } else if options.truncate || self.namespace.attributes(ino).await?.size == 0 {
            self.begin_whole(ino, options.truncate, Readers::None)
                .await?
        } else {
            return self.open_in_place(ino, options, opener).await;
        };
        Ok(self.insert_writer(ino, writer, opener))
    }

    /// Opens a file for reading and writing (`O_RDWR`). Where changes are not allowed, it is only
    /// read.
    pub async fn open_for_both(
        &self,
        ino: InodeNo,
        options: OpenOptions,
        how: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        match permit(self.writing.config(), Change::Overwrite) {
            Ok(()) => self.open_in_place(ino, how, opener).await,
            Err(_) => self.open(ino, options).await,
        }
    }

    /// Opens an existing file to write it at any place.
    async fn open_in_place(
        &self,
        ino: InodeNo,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<Opened, FsError> {
        self.finish_closed(ino).await?;
        let streamed = self.writer(ino);
        let streamed = streamed.filter(|open| open.writer.failure().is_none());
        if streamed.is_some_and(|open| open.goes_on() || !open.was_flushed()) {
            let key = self.key_text(ino, None).unwrap_or_default();
            return Err(being_written(&key));
        }
        self.open_staged(&self.staged, ino, options, opener).await
    }

    /// Whether a file is written in place that is opened in this way, not one byte after the other.
    fn is_in_place(&self, options: WriteOptions) -> bool {
        self.staged.have_disk() || options.both
    }

    /// A second open by the opener before the first write. No bytes exist that it would replace.
    ///
    /// `None` for any other open.
    fn share_untouched(
        &self,
        ino: InodeNo,
        options: WriteOptions,
        opener: Opener,
    ) -> Result<Option<Opened>, FsError> {
        let open = self.writer(ino);
        let Some(open) = open.filter(|_| self.namespace.is_being_written(ino)) else {
            return Ok(None);
        };
        check_options(options)?;
        Ok(open.share(opener).then(|| self.insert_handle(open)))
    }

    /// Begins to write an existing file from its beginning. It is replaced, or must be empty.
    pub(in crate::fs) async fn begin_whole(
        &self,
        ino: InodeNo,
        truncate: bool,
        readers: Readers,
    ) -> Result<Arc<Writer>, FsError> {
        let headers = self.headers_of_replaced(ino).await?;
        let progress = self.new_progress(0);
        let (key, version) = self.namespace.begin_writing(ino, &progress, readers)?;
        let beginning = if truncate {
            Beginning::Replace
        } else if version.size > 0 {
            self.namespace.unchanged(ino, &progress);
            self.namespace.close_writer(ino);
            return Err(FsError::Stale(format!("{key} was written just now")));
        } else {
            // No bytes may be lost: another client may have written to the empty file meanwhile.
            let Version { etag, size, .. } = version;
            Beginning::Fill(Stored { etag, size })
        };
        let observer = self.observer((ino, &key), &progress);
        let writer = Writer::new(&self.writing, key, beginning, progress, observer);
        if let Some(headers) = headers {
            let mut posix = PosixAttributes::of(&headers.metadata);
            posix.mtime = None;
            self.namespace.set_posix(ino, posix);
            writer.begin_with(headers);
        }
        Ok(writer)
    }

    /// Begins to write behind the end of an existing file.
    ///
    /// Its bytes stay; if they are too few for a part of an upload, they are read now.
    pub(in crate::fs) async fn begin_appending(
        &self,
        ino: InodeNo,
        readers: Readers,
        is_vouched: bool,
    ) -> Result<Arc<Writer>, FsError> {
        // An open without a proof of the newest version is only for small files, whose read proves
        // it.
        let OpenVersion { key, version, .. } = self.namespace.open(ino, true, is_vouched).await?;
        if self.writing.appends() && version.size > 0 {
            let details = self.describe_version(&key, &version).await;
            let details = self.distrust_stale(ino, details)?;
            let algorithm = match details.checksum {
                StoredChecksum::None => Some(None),
                StoredChecksum::Of(algorithm) => Some(Some(algorithm)),
                // Appended bytes would need a checksum that is not computed here.
                StoredChecksum::Other => None,
            };
            if let Some(algorithm) = algorithm {
                return self.begin_growing(ino, (key, version), algorithm, readers);
            }
        }
        self.begin_extending(ino, (key, version), readers).await
    }

    /// Begins to append by an upload of the object's bytes and the new ones.
    async fn begin_extending(
        &self,
        ino: InodeNo,
        (key, version): (Key, Version),
        readers: Readers,
    ) -> Result<Arc<Writer>, FsError> {
        let content = if version.size < UPLOAD_PART_MIN {
            let etag = version.etag.clone();
            let reader = Reader::new(&self.reading, key.clone(), etag, version.size);
            let content = self.read_whole(&reader, version.size).await;
            Some(self.distrust_stale(ino, content)?)
        } else {
            None
        };
        let headers = self.headers_of_version(&key, &version).await?;
        let progress = self.new_progress(version.size);
        let stored = Stored {
            etag: version.etag.clone(),
            size: version.size,
        };
        let observer = self.observer((ino, &key), &progress);
        let beginning = match content {
            Some(_) => Beginning::Extend(stored),
            None => Beginning::Append(stored),
        };
        let (context, its_progress) = (&self.writing, Arc::clone(&progress));
        let writer = Writer::new(context, key.clone(), beginning, its_progress, observer);
        writer.begin_with(headers);
        // This waits for memory, and may be dropped: the file is not being written yet.
        for slice in content.iter().flatten() {
            writer.preload(slice).await?;
        }
        self.begin_behind(ino, (&key, &version), &progress, readers)?;
        Ok(writer)
    }

    /// Begins to append where the server appends to the object, whose checksum is of `algorithm`.
    fn begin_growing(
        &self,
        ino: InodeNo,
        (key, version): (Key, Version),
        algorithm: Option<ChecksumAlgorithm>,
        readers: Readers,
    ) -> Result<Arc<Writer>, FsError> {
        let progress = self.new_progress(version.size);
        let Version { etag, size, .. } = version.clone();
        let beginning = Beginning::Grow(Stored { etag, size }, algorithm);
        self.begin_behind(ino, (&key, &version), &progress, readers)?;
        let observer = self.observer((ino, &key), &progress);
        Ok(Writer::new(
            &self.writing,
            key,
            beginning,
            progress,
            observer,
        ))
    }

    /// Makes the file `ino` one that is written behind the end of `version`.
    fn begin_behind(
        &self,
        ino: InodeNo,
        (key, version): (&Key, &Version),
        progress: &Arc<Progress>,
        readers: Readers,
    ) -> Result<(), FsError> {
        let (its_key, known) = self.namespace.begin_writing(ino, progress, readers)?;
        if known.is_same(version) && its_key == *key {
            return Ok(());
        }
        self.namespace.writing_failed(ino, progress);
        self.namespace.close_writer(ino);
        Err(FsError::Stale(format!("{key} was replaced just now")))
    }

    /// The content of a small file, in pieces of a WRITE's size.
    async fn read_whole(&self, reader: &Reader, size: u64) -> Result<Vec<Vec<u8>>, FsError> {
        let mut pieces = Vec::new();
        let mut offset = 0;
        while offset < size {
            let data = reader.read(offset, READ_SIZE_MAX).await?;
            // A copy of file data: it belongs to another budget than written bytes.
            let piece = data.to_vec();
            if piece.is_empty() {
                return Err(FsError::Stale("the file is shorter than it was".to_owned()));
            }
            offset += piece.len() as u64;
            pieces.push(piece);
        }
        Ok(pieces)
    }

    fn insert_writer(&self, ino: InodeNo, writer: Arc<Writer>, opener: Opener) -> Opened {
        let open = self.new_writer(OpenWriter::new(ino, writer, opener));
        self.insert_handle(open)
    }

    fn insert_handle(&self, open: Arc<OpenWriter>) -> Opened {
        Opened {
            handle: self.files.insert(OpenFile::Writing(open)),
            // Bytes go to the buffer once, not into the page cache first; unstored bytes cannot be
            // read.
            direct_io: true,
            keep_cache: false,
            flush: true,
            grows: false,
            local: None,
        }
    }

    /// Registers the writer of an open file.
    pub(in crate::fs) fn new_writer(&self, open: OpenWriter) -> Arc<OpenWriter> {
        let open = Arc::new(open);
        self.writers.lock().insert(open.ino, Arc::clone(&open));
        open
    }

    pub(in crate::fs) fn new_progress(&self, size: u64) -> Arc<Progress> {
        Arc::new(Progress::new(size, self.clock.wall()))
    }

    fn observer(
        &self,
        (ino, key): (InodeNo, &Key),
        progress: &Arc<Progress>,
    ) -> Arc<dyn WriteObserver> {
        Arc::new(NamedFile {
            namespace: Arc::clone(&self.namespace),
            ino,
            key: key.clone(),
            progress: Arc::clone(progress),
        })
    }
}

/// Checks that an existing file may be opened for writing with `options`.
pub(in crate::fs) fn permit_writing(
    config: &WriteConfig,
    options: WriteOptions,
) -> Result<(), FsError> {
    let change = match options {
        WriteOptions { truncate: true, .. } => Change::Overwrite,
        WriteOptions { append: true, .. } => Change::Append,
        WriteOptions { .. } => Change::Overwrite,
    };
    permit(config, change)?;
    check_options(options)
}

/// Refuses options that streaming writes cannot fulfil.
pub(in crate::fs) fn check_options(options: WriteOptions) -> Result<(), FsError> {
    if options.synchronous {
        return Err(FsError::NotSequential(
            "O_SYNC and O_DSYNC ask for each write to be stored, which S3 cannot do: call fsync at the end instead"
                .to_owned(),
        ));
    }
    Ok(())
}

/// A file's name, which follows the states of the file's upload.
struct NamedFile {
    namespace: Arc<Namespace>,
    ino: InodeNo,
    /// The key of the object.
    key: Key,
    progress: Arc<Progress>,
}

impl WriteObserver for NamedFile {
    fn resumed(&self) -> Result<(), FsError> {
        let file = (self.ino, &self.key);
        self.namespace.resume_writing(file, &self.progress)
    }

    fn stored(&self, stored: &Stored) {
        let etag = stored.etag.clone();
        self.namespace
            .stored(self.ino, &self.progress, stored.size, etag);
    }

    fn grown(&self, stored: &Stored) {
        let etag = stored.etag.clone();
        self.namespace
            .grown(self.ino, &self.progress, stored.size, etag);
    }

    fn adopted(&self) {
        self.namespace.gave_way(self.ino, &self.progress);
    }

    fn failed(&self, _: &FsError) {
        self.namespace.writing_failed(self.ino, &self.progress);
    }
}
